"""The guard `secrets`: keys, tokens, private keys and passwords in text.

The formats are those of the kernel (`silas/kernel/redaction.py`), which keeps them out of
logs. There, too much is better than too little; here ordinary text has to stay readable. So where a
format says only that a value follows (`password=`, `Bearer`), the value has to look like one that
somebody made up or generated. Secrets behind base64 or hex are found as well.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from silas.gates.guards.normalise import LONGEST_BASE64, Subject, base64_runs
from silas.gates.guards.rules import (
    GuardFinding,
    GuardOptions,
    GuardRule,
    GuardVerdict,
    Mode,
    Proof,
    RulePlace,
    findings_of,
    last_cut,
    proven,
    replaced,
    verdict,
    without_overlaps,
)
from silas.kernel.redaction import REDACTED, SECRET_FORMATS, SecretFormat, decoded_runs

_LETTERS = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
_HEX = "0123456789abcdef0123456789abcdef"
_CAPITALS = "ABCDEFGHIJKLMNOP"
_BEGIN, _END = "-----BEGIN {} KEY-----", "-----END {} KEY-----"
_PEM = f"{_BEGIN}\nMIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Q\n{_END}"

# Made up, of the right form, never valid. They are put together from pieces, so that scanners of
# source code do not take them for leaks.
SECRET_EXAMPLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "private key": (
        (_PEM.format("RSA PRIVATE", "RSA PRIVATE"), _BEGIN.format("PRIVATE") + "\nabc"),
        (_PEM.format("PUBLIC", "PUBLIC"), "keep your private key private"),
    ),
    "private key file of PuTTY": (
        ("Private-Lines: 8\nAAAAgQCh",),
        ("Public-Lines: 8\nAAAAgQCh",),
    ),
    "openssh private key": (("b3BlbnNzaC1rZXktdjE" + "AAAABG5vbmU",), ("AAAAC3NzaC1lZDI1NTE5",)),
    "age key": (("AGE-SECRET-KEY-1" + _CAPITALS * 2,), ("age1" + "q" * 40,)),
    "model provider key": (
        ("sk-" + _LETTERS, "key sk-ant-api03-" + _LETTERS),
        ("task-" + "a" * 30, "sk-short"),
    ),
    "model provider key, other prefixes": (("xai-" + _LETTERS, "nvapi-" + _LETTERS), ("xai-mini",)),
    "model provider key, prefixes with a low line": (("gsk_" + _LETTERS,), ("tgsk_" + _LETTERS,)),
    "aws access key": (("AKIA" + _CAPITALS,), ("AKIA" + _CAPITALS + "QR", "akia")),
    "github token": (("ghp_" + _LETTERS,), ("ghp_short",)),
    "github fine-grained token": (("github_pat_" + _LETTERS,), ("github_pat_x",)),
    "gitlab token": (("glpat-" + _LETTERS,), ("glpat-x", "single-page-application-template")),
    "slack token": (("xoxb-" + "1234567890-abcdef",), ("xox-ray",)),
    "webhook address": (
        ("https://hooks.slack.com/services/" + "T0000/B0000/XXXXXXXX",),
        ("https://hooks.slack.com/docs",),
    ),
    "stripe key": (("sk_live_" + _LETTERS,), ("sk_live_x",)),
    "google key": (("AIza" + _LETTERS[:35],), ("AIzawa",)),
    "google oauth secret": (("GOCSPX-" + _LETTERS,), ("GOCSPX-x",)),
    "google access token": (("ya29." + _LETTERS,), ("ya29.",)),
    "google refresh token": (("1//0" + _LETTERS,), ("1//0",)),
    "telegram bot token": (("123456789:AA" + _LETTERS[:33],), ("12:AA",)),
    "sendgrid key": (("SG." + _LETTERS + "." + _LETTERS,), ("SG.1 and SG.2",)),
    "tavily key": (("tvly-" + _LETTERS,), ("tvly-x",)),
    "npm token": (("npm_" + _LETTERS[:36],), ("npm_config",)),
    "package index token": (("pypi-Ag" + _LETTERS,), ("pypi-Again",)),
    "hugging face token": (("hf_" + _LETTERS,), ("hf_hub",)),
    "service token": (("shpat_" + _HEX, "lin_api_" + _LETTERS), ("lin_api_key",)),
    "hashicorp vault token": (("hvs." + _LETTERS,), ("hvs.x",)),
    "atlassian token": (("ATATT3" + _LETTERS,), ("ATATT3",)),
    "databricks token": (("dapi" + _HEX,), ("dapi", "dapinator")),
    "json web token": (
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + _LETTERS,),
        ("eyJhbGciOiJIUzI1NiJ9",),
    ),
    "authorization header": (
        ("Authorization: Token " + _LETTERS, "Cookie: session=" + _HEX),
        ("Authorization: none", "Cookie: a pleasant snack"),
    ),
    "bearer token": (("Bearer " + _LETTERS,), ("bearer of good news", "basic instructions")),
    "credentials in a URL": (
        ("postgres://anna:s3cret@db.example.com/x",),
        ("http://localhost:8080/path", "https://example.com/@anna"),
    ),
    "token in a URL": (("https://" + _LETTERS + "@github.com/x",), ("https://anna@example.com",)),
    "assignment": (
        ("password=hunter22", 'api_key = "9f8e7d6c5b4a"'),
        ("password=None", "token = next(lexer)", "secret=..."),
    ),
    "assignment with a colon": (
        ("Password: hunter22", '"client_secret": "9f8e7d6c5b4a"'),
        ("password: str", "token: the next token", "Secrets: see below"),
    ),
    "command line option": (
        ("mysql --password hunter22",),
        ("curl --token TOKEN", "--password is asked for", "--api-key <key>"),
    ),
}


NAME = "secrets"


class SecretsOptions(GuardOptions):
    """Secrets are taken out unless told otherwise."""

    mode: Mode = Mode.FIX


@dataclass(frozen=True, kw_only=True)
class SecretRule(GuardRule):
    """A format, and whether its value must look like a secret to be one."""

    format: SecretFormat
    is_vague: bool


VAGUE_FORMATS = frozenset(
    {
        "assignment",
        "assignment with a colon",
        "authorization header",
        "bearer token",
        "command line option",
    }
)
MOST_CANDIDATES = 2000
"""How many values of one text are examined."""

_MOST_NAMES = 2000
_LONGEST_NAME = 48
_LONGEST_VALUE = 1000
# Wherever a vague format applies, one of these is found in small letters.
_SIGNED_NAME = re.compile(
    r"(?:pass|pwd|secret|key|token|credential|otp|pin|auth|sig|jwt|cookie)[a-z0-9_-]{0,16}+"
    r"[\\\"']{0,4}[ \t]{0,8}[:=]"
)
# A value that ends before a digit, a sign or a quotation mark is no secret: `key: str`.
_SIGNED_VALUE = re.compile(
    _SIGNED_NAME.pattern + r"(?=[:=>]?[ \t]{0,8}[^\s,;&:=\"'`\\0-9]{0,64}+[^\s,;&])"
)
_SCHEME = re.compile(r"(?:bearer|basic)\s")
_OPTION = re.compile(r"--[a-z0-9][a-z0-9-]{1,63}+\s")
_TELLING = {
    "assignment": _SIGNED_VALUE,
    "assignment with a colon": _SIGNED_VALUE,
    "bearer token": _SCHEME,
    "command line option": _OPTION,
}
_DIGIT = re.compile("[0-9]")
_SHORTEST_SECRET = 6
# Names of variables and types, placeholders, calls and paths are no secrets.
_NO_SECRET = re.compile(
    r"[<\[({$%*…]|\.\.\.|xxx|your|example|placeholder|redacted|self\.|os\.|env\b|[\w.]+\(",
    re.IGNORECASE,
)


def check(subject: Subject, options: SecretsOptions) -> GuardVerdict:
    """Take secrets out, or stop the text that holds some."""
    PROOF.hold()
    found = list(islice(_places(subject), MOST_CANDIDATES + 1))
    if len(found) > MOST_CANDIDATES:
        finding = GuardFinding(rule=TOO_MANY.name, start=0, end=len(subject.text), why=TOO_MANY.why)
        return verdict(NAME, [finding], mode=Mode.BLOCK)
    places = without_overlaps(place for place in found if place)
    fixed = replaced(subject.text, places, lambda _: REDACTED)
    return verdict(NAME, findings_of(places), mode=options.mode, fixed_text=fixed)


# What these begin goes on over lines. The last: a value that stands on the line below its name.
_GOES_ON = re.compile(
    r"-{4,5} ?BEGIN |Private-Lines:|b3BlbnNzaC1rZXktdjE"
    r"|(?i:(?:bearer|basic|--[a-z0-9-]*(?:pass|secret|key|token|credential|otp|pin)[a-z]*)\s{0,3}\n)"
)
_LONG_LINE = re.compile(rf"[^\n]{{{_LONGEST_VALUE // 2},}}")


def settled(text: str) -> int:
    """Up to where what is found cannot change any more: no secret goes on from there."""
    small = Subject(text).small
    goes_on = _GOES_ON.search(text)
    ends = [goes_on.start() if goes_on else len(text)]
    # Of a long line with a telling name in it, what comes later may show more.
    ends += [line.start() for line in _LONG_LINE.finditer(small) if _SIGNED_NAME.search(line[0])]

    def allows(place: int) -> bool:
        """A value in quotes, or in a header, ends with its line."""
        first = text.rfind("\n", 0, place) + 1
        return _SIGNED_NAME.search(small, first, place) is None

    return last_cut(text, min(ends), allows)


def _places(subject: Subject) -> Iterator[RulePlace | None]:
    """Every candidate that is examined, as a place if it turned out to be a secret."""
    text, small = subject.text, subject.small
    for rule in _hinted(CERTAIN_RULES, small):
        yield from _of_one_format(rule, text)
    yield from _vague_places(text, small)
    for run in base64_runs(text):
        for _, decoded in decoded_runs(run[0][:LONGEST_BASE64]):
            for rule in _hinted(CERTAIN_RULES, decoded.lower()):
                if rule.format.pattern.search(decoded):
                    yield RulePlace(*run.span(), rule)


def _vague_places(text: str, small: str) -> Iterator[RulePlace | None]:
    """Values behind a telling name, looked for only around such names: the patterns are slow."""
    # A value without a digit does not look like a secret.
    if not _DIGIT.search(text):
        return
    # Two rules may share a pattern; once is enough.
    rules = {rule.format.pattern: rule for rule in _hinted(VAGUE_RULES, small)}.values()
    for rule in rules:
        expression = _TELLING.get(rule.format.name, _SIGNED_NAME)
        names = list(islice(expression.finditer(small), _MOST_NAMES + 1))
        if len(names) > _MOST_NAMES or len(small) != len(text):
            yield from _of_one_format(rule, text)
            continue
        for start, end in _stretches(names, text):
            if _DIGIT.search(text, start, end):
                yield from _of_one_format(rule, text, start, end)


def _stretches(names: list[re.Match[str]], text: str) -> list[tuple[int, int]]:
    """The parts of lines around the names; neighbours are joined."""
    stretches: list[tuple[int, int]] = []
    for name in names:
        limit = min(len(text), name.end() + _LONGEST_VALUE)
        end = text.find("\n", name.end(), limit)
        end = limit if end < 0 else end
        start = max(0, name.start() - _LONGEST_NAME)
        if stretches and start < stretches[-1][1]:
            start = stretches.pop()[0]
        stretches.append((start, end))
    return stretches


def _hinted(rules: Iterable[SecretRule], small: str) -> Iterator[SecretRule]:
    """The rules whose sign and one of whose hints are in the text."""
    for rule in rules:
        if rule.format.sign in small and any(hint in small for hint in rule.format.hints):
            yield rule


def _of_one_format(
    rule: SecretRule, text: str, first: int = 0, last: int | None = None
) -> Iterator[RulePlace | None]:
    pattern = rule.format.pattern
    keeps, ends_early = "keep" in pattern.groupindex, "after" in pattern.groupindex
    for match in pattern.finditer(text, first, len(text) if last is None else last):
        start = match.end("keep") if keeps else match.start()
        end = match.end() - len(match["after"]) if ends_early else match.end()
        if not rule.is_vague:
            yield RulePlace(start, end, rule)
        elif _DIGIT.search(text, start, end):
            yield RulePlace(start, end, rule) if _looks_like_a_secret(text[start:end]) else None


def _looks_like_a_secret(value: str) -> bool:
    """Whether somebody made it up or a machine generated it: letters and digits together."""
    bare = value.strip(" \t\"'`\\,;.")
    if len(bare) < _SHORTEST_SECRET or _NO_SECRET.match(bare):
        return False
    last = bare.split()[-1]
    return any(map(str.isdigit, last)) and any(map(str.isalpha, last))


def _rule(form: SecretFormat) -> SecretRule:
    match, not_match = SECRET_EXAMPLES.get(form.name, ((), ()))
    return SecretRule(
        name=form.name.replace(",", "").replace(" ", "-"),
        why=f"It holds a secret ({form.name}).",
        format=form,
        is_vague=form.name in VAGUE_FORMATS,
        match=match,
        not_match=not_match,
    )


def _finds(rule: SecretRule, text: str) -> bool:
    return any(place.rule is rule for place in _places(Subject(text)) if place)


RULES = tuple(map(_rule, SECRET_FORMATS))
CERTAIN_RULES = tuple(rule for rule in RULES if not rule.is_vague)
VAGUE_RULES = tuple(rule for rule in RULES if rule.is_vague)
TOO_MANY = GuardRule(
    name="too-many-secrets",
    why="There are more keys and passwords in it than can be examined one by one.",
    match=("password=hunter22 " * 2001,),
    not_match=("password=hunter22 " * 2000, "password=hunter " * 2001),
)
OTHER_RULES = (TOO_MANY,)


def _is_too_many(text: str) -> bool:
    return TOO_MANY.name in {each.rule for each in check(Subject(text), SecretsOptions()).findings}


def _prove() -> None:
    proven(RULES, _finds)
    proven(OTHER_RULES, lambda _, text: _is_too_many(text))


PROOF = Proof(_prove)
