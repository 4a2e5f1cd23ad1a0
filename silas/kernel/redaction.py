"""Secrets taken out of anything that is written down: audit entries, logs, error reports.

Three nets, each of which alone would be too coarse:

1. What stands under a telling name (`password`, `api_key`, …) goes, whatever it looks like: in a
   mapping with all that is nested below, in a `{"name": …, "value": …}`, in a list of pairs, after
   a `--password` in a list of arguments.
2. Text in a known secret format (`SECRET_FORMATS`) goes, wherever it stands, also behind base64,
   hex or URL encoding.
3. Values that the caller knows to be secret (`KnownSecrets`) go, also inside longer text and in
   those encodings.

What is left is a copy that can be shown. Too much taken out is a nuisance, too little a leak.

The formats give a secret away wherever it stands:

4. Each pattern is anchored on a literal (its hints), and repeats over one class of characters at a
   time, so that it runs in linear time on any text.
5. The left edge of a pattern is no word boundary where it can be helped: tokens stand behind
   `bot`, `_` and `/` as well.
6. Groups named `keep` and `after` hold what stays to tell the reader what was there: `password=`.
"""

import base64
import binascii
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus


@dataclass(frozen=True)
class SecretFormat:
    """One way a secret is written. Without its sign and one of its hints, it cannot be there."""

    name: str
    sign: str
    """A single character that is quickly looked for; empty if there is none."""
    hints: tuple[str, ...]
    """Small-letter literals of which the text, in small letters, holds at least one."""
    expression: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when a text holds a hint: most commands meet none, and start sooner."""
        return re.compile(self.expression)


def _format(name: str, sign: str, hints: str, expression: str) -> SecretFormat:
    return SecretFormat(name, sign, tuple(hints.lower().split()), expression)


_NOT_IN_A_WORD = r"(?<![A-Za-z0-9])"
# Between a name and its value: the end of a quoted name, then a sign.
_ASSIGNS = r"(?:\\{0,3}[\"'])?[ \t]{0,8}(?:=>|[:=]{1,2})[ \t]{0,8}"
# A value in quotes, in escaped quotes (JSON inside a JSON text), or up to the next separator.
_VALUE = (
    r"(?:(?P<quote>[\"'`])(?:\\.|(?!(?P=quote))[^\\\r\n])*+"
    r"|(?P<escaped>\\[\"'`])(?:\\{3}[\"'`]|(?!(?P=escaped))[^\r\n])*+"
    r"|[^\s,;&]++)"
)
_LONG_NAMES = (
    r"pass(?:word|phrase|wd|code)s?|secrets?|api[_-]?keys?|token|credentials?"
    r"|(?:access|private|signing|encryption|account|master|shared|secret)[_-]?key"
)
_SHORT_NAMES = r"(?<![a-z])(?:pass|pwd|otp|pin|auth|sig|jwt)"
_NAME_HINTS = "pass pwd secret key token credential otp pin auth sig jwt"
_ASSIGNMENT = rf"(?i)(?P<keep>(?:{_LONG_NAMES}|{_SHORT_NAMES}){_ASSIGNS}){_VALUE}"

_PRIVATE_KEY = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?"

SECRET_FORMATS: tuple[SecretFormat, ...] = (
    # Whole blocks come first: a later pattern could take away the line that they begin with.
    _format(
        "private key",
        "-",
        "PRIVATE",
        rf"(?s)-{{4,5}} ?BEGIN {_PRIVATE_KEY} ?-{{4,5}}"
        # Up to the line that ends it, or to the end of the text.
        rf"(?:[^-]++|-(?!-{{3,4}} ?END {_PRIVATE_KEY} ?-{{4}}))*+"
        rf"(?:-{{4,5}} ?END {_PRIVATE_KEY} ?-{{4,5}}|\Z)",
    ),
    _format("private key file of PuTTY", "-", "Private-Lines", r"(?s)Private-Lines: .*"),
    _format(
        "openssh private key", "", "b3BlbnNzaC1rZXktdjE", r"b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/=\s]*+"
    ),
    _format("age key", "-", "AGE-SECRET-KEY-", r"AGE-SECRET-KEY-1[A-Z0-9]{20,}+"),
    _format(
        "model provider key",
        "-",
        "sk-",
        rf"(?:{_NOT_IN_A_WORD}sk-|sk-(?:ant-api|proj|or-v1|svcacct))[A-Za-z0-9_-]{{20,}}+",
    ),
    _format(
        "model provider key, other prefixes",
        "-",
        "xai- pplx- csk- nvapi-",
        _NOT_IN_A_WORD + r"(?:xai|pplx|csk|nvapi)-[A-Za-z0-9_-]{20,}+",
    ),
    _format(
        "model provider key, prefixes with a low line",
        "_",
        "gsk_ r8_",
        _NOT_IN_A_WORD + r"(?:gsk|r8)_[A-Za-z0-9_-]{20,}+",
    ),
    _format("aws access key", "", "AKIA ASIA", r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"),
    _format("github token", "_", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{30,}+"),
    _format("github fine-grained token", "_", "github_pat_", r"github_pat_[A-Za-z0-9_]{30,}+"),
    _format("gitlab token", "-", "gl", r"gl(?:pat|dt|rt|cbt|ptt|ft)-[A-Za-z0-9_.-]{20,}+"),
    _format("slack token", "-", "xox xapp-", r"(?:xox[abceoprs]|xapp)-[A-Za-z0-9-]{10,}+"),
    _format(
        "webhook address",
        "/",
        "hooks.slack.com/ /api/webhooks/",
        r"(?P<keep>hooks\.slack\.com/(?:services|workflows)/|/api/webhooks/)[A-Za-z0-9/_-]{8,}+",
    ),
    _format(
        "stripe key", "_", "k_live_ k_test_ whsec_", r"(?:[prs]k_(?:live|test)|whsec)_\w{16,}+"
    ),
    _format("google key", "", "AIza", r"AIza[A-Za-z0-9_-]{35}"),
    _format("google oauth secret", "-", "GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{20,}+"),
    _format("google access token", ".", "ya29.", r"ya29\.[A-Za-z0-9_.-]{20,}+"),
    _format("google refresh token", "/", "1/0 1//0", r"1//?0[A-Za-z0-9_-]{30,}+"),
    _format("telegram bot token", ":", ":AA", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    _format("sendgrid key", ".", "SG.", r"SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+"),
    _format("tavily key", "-", "tvly-", r"tvly-[A-Za-z0-9_-]{16,}+"),
    _format("npm token", "_", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _format("package index token", "-", "pypi-Ag", r"pypi-Ag[A-Za-z0-9_-]{14,}+"),
    _format("hugging face token", "_", "hf_", r"hf_[A-Za-z0-9]{30,}+"),
    _format(
        "service token",
        "_",
        "shpat_ shpss_ shpca_ dop_v1_ lin_api_ figd_ ntn_ dckr_pat_",
        r"(?:shpat|shpss|shpca|dop_v1|lin_api|figd|ntn|dckr_pat)_[A-Za-z0-9_=-]{20,}+",
    ),
    _format("hashicorp vault token", ".", "hvs.", r"hvs\.[A-Za-z0-9_-]{20,}+"),
    _format("atlassian token", "", "ATATT3", r"ATATT3[A-Za-z0-9_=.-]{20,}+"),
    _format("databricks token", "", "dapi", r"dapi[0-9a-f]{32}"),
    _format(
        # Each piece ends where the next token could begin, so nothing is read twice.
        "json web token",
        ".",
        "eyJ",
        r"eyJ(?:(?!eyJ)[A-Za-z0-9_-])++(?:\.[A-Za-z0-9_-]*+){1,4}",
    ),
    _format(
        "authorization header",
        ":",
        "authorization cookie",
        r"(?i)(?P<keep>(?:authorization|cookie)" + _ASSIGNS + r"[\"']?)[^\r\n\"']++",
    ),
    _format(
        "bearer token",
        " ",
        "bearer basic",
        rf"(?i)(?P<keep>{_NOT_IN_A_WORD}(?:bearer|basic)\s{{1,4}})[A-Za-z0-9._~+/=-]{{8,}}+",
    ),
    _format(
        # The password may hold `@` and `/`; a port number followed by a path is no password. One
        # slash is enough, because a URL that was taken for a path has lost the other.
        "credentials in a URL",
        "@",
        ":/",
        r"(?P<keep>:/{1,2})[^\s/:@\"'<>]*+:(?!\d{0,5}(?:[/?#\s\"'<>]|$))"
        r"(?:(?:[^\s\"'<>@:]++|:(?!/))*+(?P<after>@))++",
    ),
    _format("token in a URL", "@", ":/", r"(?P<keep>:/{1,2})[A-Za-z0-9_.~%-]{16,}+(?=@)"),
    _format("assignment", "=", _NAME_HINTS, _ASSIGNMENT),
    _format("assignment with a colon", ":", _NAME_HINTS, _ASSIGNMENT),
    _format(
        "command line option",
        "-",
        "--",
        r"(?i)(?P<keep>--(?!-)(?:[a-z0-9]{1,20}-){0,4}"
        rf"(?:{_LONG_NAMES}|otp|pin)\s{{1,4}})(?!--)\S++",
    ),
)


SHORTEST_RUN = 24

_SHORTEST_KNOWN = 4
_BASE64_RUN = re.compile(rf"[A-Za-z0-9+/_-]{{{SHORTEST_RUN},}}")
_BASE64_LETTERS = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_HEX_RUN = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{40,}")
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_URL_SAFE = str.maketrans("-_", "+/")


class KnownSecrets:
    """Secret values, in every spelling in which they could turn up."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._values = frozenset(secret for secret in secrets if secret)
        # A shorter value would blank out ordinary text; it is only found where it stands alone.
        long = [secret for secret in self._values if len(secret) >= _SHORTEST_KNOWN]
        spellings = {spelling for secret in long for spelling in _spellings(secret)}
        self._spellings = tuple(sorted(spellings, key=len, reverse=True))
        self._shortest = min(map(len, spellings), default=0)
        self._cores = tuple({core for secret in long for core in _base64_cores(_raw(secret))})

    def __contains__(self, text: str) -> bool:
        return text in self._values

    def taken_out(self, text: str, substitute: str) -> str:
        """The text with the substitute in place of every known secret."""
        if text in self._values:
            return substitute
        if len(text) < self._shortest:
            return text
        clean = self._replaced(text, substitute)
        if "%" in clean and (plain := unquoted(clean)) is not None:
            without = self._replaced(plain, substitute)
            clean = clean if without == plain else without
        return clean

    def _replaced(self, text: str, substitute: str) -> str:
        for spelling in self._spellings:
            if spelling in text:
                text = text.replace(spelling, substitute)
        if any(core in text for core in self._cores):
            # The letters around it belong to it: they hold its first and last bits.
            text = _BASE64_LETTERS.sub(
                lambda run: substitute if any(core in run[0] for core in self._cores) else run[0],
                text,
            )
        return text


def unquoted(text: str) -> str | None:
    """The text without URL encoding, or None if it has none."""
    return unquote_plus(text, errors="replace") if _PERCENT.search(text) else None


def decoded_runs(text: str) -> Iterator[tuple[str, str]]:
    """Each piece that could be base64 or hex, with what it says if it is."""
    # Base64 of any text of this length has capital letters; ids and hashes here have none.
    if not text.islower():
        for run in _BASE64_RUN.findall(text):
            yield from ((run, decoded) for decoded in _from_base64(run))
    if len(text) >= 40:
        for run in _HEX_RUN.findall(text):
            yield from ((run, decoded) for decoded in _from_hex(run))


def _from_base64(run: str) -> Iterator[str]:
    # What stands before it (a path, a name) may use the same letters: try every offset.
    plain = run.translate(_URL_SAFE)
    for offset in range(4):
        piece = plain[offset:]
        piece = piece[: len(piece) - (len(piece) % 4 == 1)]
        yield binascii.a2b_base64(piece + "=" * (-len(piece) % 4)).decode("latin-1")


def _from_hex(run: str) -> Iterator[str]:
    for offset in range(2):
        raw = bytes.fromhex(run[offset : len(run) - (len(run) - offset) % 2])
        if raw.isascii():
            yield raw.decode("ascii")


def _raw(secret: str) -> bytes:
    return secret.encode("utf-8", "surrogatepass")


def _spellings(secret: str) -> set[str]:
    raw = _raw(secret)
    return {
        secret,
        raw.hex(),
        raw.hex().upper(),
        quote(raw, safe=""),
        quote_plus(raw),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        html.escape(secret),
    }


def _base64_cores(raw: bytes) -> set[str]:
    """The letters that base64 of any text around the secret must hold, for the three offsets.

    The first and the last letters depend on the neighbours, so they are left off here and taken
    along by the pattern. A core too short to be telling would hit ordinary words.
    """
    cores: set[str] = set()
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw).decode().rstrip("=")
        start = (0, 2, 3)[offset]
        end = len(encoded) - ((offset + len(raw)) % 3 > 0)
        core = encoded[start:end]
        if len(core) >= 6:
            cores |= {core, core.replace("+", "-").replace("/", "_")}
    return cores


class Hides(IntEnum):
    """What must not be shown of the value under a name."""

    NOTHING = 0
    TEXT = 1
    """Numbers may stay: `tokens` are secrets in one place and a count in the other."""
    ALL = 2


_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
_TAIL = (
    r"(?:_?\d+|_(?:value|text|raw|plain|plaintext|string|str|old|new|current|confirm|confirmation"
    r"|again|repeat|b64|base64|hex|hash|bytes))*$"
)
_TELLING = re.compile(
    # Long words tell also at the end of another word; short ones stand alone.
    r"(?:(?:password|passphrase|passwd|passcode|secret|credential|apikey|authorization|cookie)s?|token"
    r"|(?:^|_)(?:pass|pwd|pw|auth|bearer|jwt|otp|totp|pin|psk|cvv|cvc|seed|mnemonic)"
    r"|(?:^|_)(?:api|access|private|signing|secret|encryption|decryption|master|shared|account|ssh|pgp"
    r"|gpg|hmac|aes|deploy|webhook|client|session|auth|bot|vault|root)_?keys?"
    r"|(?:^|_)(?:mfa|2fa|otp|auth|authorization|verification|security|recovery|backup|device)_?codes?"
    r"|(?:^|_)(?:recovery|seed|secret)_?(?:phrase|words?))" + _TAIL
)
_TELLING_TEXT = re.compile(r"tokens" + _TAIL)


@lru_cache(maxsize=4096)
def what_name_hides(name: str) -> Hides:
    """Whether a value under this name is a secret by its name alone."""
    plain = _SEPARATORS.sub("_", _CAMEL_BOUNDARY.sub("_", name).lower()).strip("_")
    if _TELLING.search(plain):
        return Hides.ALL
    return Hides.TEXT if _TELLING_TEXT.search(plain) else Hides.NOTHING


REDACTED = "[redacted]"

_FORMATS_BY_SIGN = tuple(
    (
        sign,
        tuple(
            (hint, number)
            for number, each in enumerate(SECRET_FORMATS)
            if each.sign == sign
            for hint in each.hints
        ),
    )
    for sign in dict.fromkeys(each.sign for each in SECRET_FORMATS)
)
_SHORTEST_FORMAT = 15
_MAX_DEPTH = 120
_LONGEST_NAME = 64
_NAME_FIELDS = ("name", "key", "header", "field", "option", "variable")


class Redactor:
    """Takes secrets out of values: made once for a set of known secrets, then used many times."""

    def __init__(self, known: Iterable[str] = (), *, json_only: bool = False) -> None:
        """With `json_only`, a value of any other kind raises `TypeError`."""
        self._json_only = json_only
        secrets = tuple(known)
        self._known = KnownSecrets(secrets) if secrets else None

    def value(self, value: Any) -> Any:
        """A copy of a JSON-like value in which no secret is left."""
        return self._value(value, _MAX_DEPTH)

    def text(self, text: str) -> str:
        """The text with every secret taken out."""
        if self._known is not None:
            text = self._known.taken_out(text, REDACTED)
        return _without_formats(text)

    def _value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return self.text(value)
        if value is None or kind is bool or kind is int or kind is float:
            return REDACTED if self._known is not None and str(value) in self._known else value
        if depth == 0:
            return REDACTED
        if kind is dict or isinstance(value, Mapping):
            return self._mapping(value, depth - 1)
        if isinstance(value, list | tuple):
            return self._items(value, depth - 1)
        return self._other(value, depth)

    def _mapping(self, mapping: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in mapping.items():
            name, hides = self._key(key)
            while name in result:
                name += "'"  # two names that were secret must not become one
            result[name] = self._hidden(item, hides, depth) if hides else self._value(item, depth)
        if "value" in result and any(_tells(result.get(field)) for field in _NAME_FIELDS):
            result["value"] = self._hidden(result["value"], Hides.ALL, depth)
        return result

    def _items(self, items: Iterable[Any], depth: int) -> list[Any]:
        result: list[Any] = []
        hides_next = False
        for item in items:
            if hides_next:
                result.append(self._hidden(item, Hides.ALL, depth))
            elif _is_telling_pair(item):
                result.append([self._value(item[0], depth), REDACTED])
            else:
                result.append(self._value(item, depth))
            hides_next = type(item) is str and item[:1] == "-" and _tells(item)
        return result

    def _hidden(self, value: Any, hides: Hides, depth: int) -> Any:
        """The shape of what stands under a telling name, and nothing else of it."""
        if value is None or isinstance(value, bool):
            return value
        if depth > 0 and isinstance(value, Mapping):
            return {
                self._key(key)[0]: self._hidden(item, hides, depth - 1)
                for key, item in value.items()
            }
        if depth > 0 and isinstance(value, list | tuple):
            return [self._hidden(item, hides, depth - 1) for item in value]
        if hides is Hides.TEXT and isinstance(value, int | float):
            return self._value(value, depth)
        return REDACTED

    def _key(self, key: Any) -> tuple[str, Hides]:
        text = key if type(key) is str else str(key)
        name, hides = (
            _judged(text) if len(text) <= _LONGEST_NAME else (_without_formats(text), Hides.NOTHING)
        )
        return (name if self._known is None else self._known.taken_out(name, REDACTED)), hides

    def _other(self, value: Any, depth: int) -> Any:
        """Left as it is if its text is harmless: others may know how to write it down."""
        if self._json_only and not isinstance(value, str | int | float):
            raise TypeError(f"JSON has no {type(value).__name__}")
        if isinstance(value, set | frozenset):
            return self._items(value, depth - 1)
        if isinstance(value, bytes | bytearray | memoryview):
            text = bytes(value).decode("utf-8", "replace")
        else:
            # A kind of text may call itself something else; what counts is what it is.
            text = str.__str__(value) if isinstance(value, str) else str(value)
        clean = self.text(text)
        return value if clean == text else clean


class RenewedRedactor:
    """Takes secrets out of texts; `known` says which secrets are known by now."""

    def __init__(self, known: Callable[[], frozenset[str]]) -> None:
        self._known = known
        self._seen: frozenset[str] = frozenset()
        self._redactor = Redactor()

    def __call__(self, text: str) -> str:
        """The text with every secret taken out that is known now."""
        known = self._known()
        if known is not self._seen:
            self._seen, self._redactor = known, Redactor(known)
        return self._redactor.text(text)


_FORMATS_ONLY = Redactor()


def redact(value: Any, *, known: Iterable[str] = ()) -> Any:
    """A copy of a JSON-like value in which no secret is left."""
    return (Redactor(known) if known else _FORMATS_ONLY).value(value)


def redact_text(text: str, *, known: Iterable[str] = ()) -> str:
    """The text with every secret in a known format, and every known secret, taken out."""
    return (Redactor(known) if known else _FORMATS_ONLY).text(text)


@lru_cache(maxsize=4096)
def _judged(key: str) -> tuple[str, Hides]:
    """The name of a field, clean, and whether it tells that its value is a secret."""
    return _without_formats(key), what_name_hides(key)


def _tells(name: Any) -> bool:
    return isinstance(name, str) and len(name) <= _LONGEST_NAME and bool(what_name_hides(name))


def _is_telling_pair(item: Any) -> bool:
    return isinstance(item, list | tuple) and len(item) == 2 and _tells(item[0])


def _without_formats(text: str) -> str:
    if len(text) < _SHORTEST_FORMAT and not ("=" in text or ":" in text):
        return text
    text = _without_plain_formats(text)
    if "%" in text and (plain := unquoted(text)) is not None:
        clean = _without_plain_formats(plain)
        text = text if clean == plain else clean
    if len(text) >= SHORTEST_RUN:
        for run, decoded in decoded_runs(text):
            if _without_plain_formats(decoded) != decoded:
                text = text.replace(run, REDACTED)
    return text


def _without_plain_formats(text: str) -> str:
    folded = text.lower()
    # Looking for literals costs a fraction of what the patterns do, and mostly none is there.
    possible: list[int] = []
    for sign, hints in _FORMATS_BY_SIGN:
        if sign in folded:
            for hint, number in hints:
                if hint in folded:
                    possible.append(number)
    if not possible:
        return text
    for number in sorted(set(possible)):
        text = SECRET_FORMATS[number].pattern.sub(_what_stays, text)
    return text


def _what_stays(match: re.Match[str]) -> str:
    named = match.groupdict()
    return f"{named.get('keep') or ''}{REDACTED}{named.get('after') or ''}"
