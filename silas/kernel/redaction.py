"""Secrets taken out of anything that is written down: audit entries, logs, error reports.

Three nets, each of which alone would be too coarse:

1. A value under a telling key (`password`, `api_key`, …) goes, whatever it looks like.
2. Text in a known secret format (provider keys, tokens, private keys, credentials in a URL) goes,
   wherever it stands.
3. Values that the caller knows to be secret go, also inside longer text and in base64 or hex.

Each pattern is anchored on a literal and has no nested repetition, so it runs in linear time.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

REDACTED = "[redacted]"

_TELLING_KEY = re.compile(
    r"(?:^|[_\-.\s])(?:pass(?:word|phrase|wd)?|pwd|secrets?|token|api_?keys?|apikeys?|auth(?:orization)?"
    r"|bearer|credentials?|private_?keys?|signing_?keys?|access_?keys?|session_?(?:key|cookie)|cookies?"
    r"|otp|pin|seed|client_?secrets?|refresh_?tokens?|x_?api_?keys?)$"
)
_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True)
class SecretFormat:
    """One way a secret is written. Without one of its hints in the text, it cannot be there."""

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


def _format(name: str, hints: str, pattern: str) -> SecretFormat:
    return SecretFormat(name, tuple(hints.split()), re.compile(pattern))


SECRET_FORMATS: tuple[SecretFormat, ...] = (
    _format(
        "private key",
        "-----begin",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[^-]{0,20000}-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|[^-]{0,20000})",
    ),
    _format("model provider key", "sk-", r"\bsk-[A-Za-z0-9_-]{20,}"),
    _format("aws access key", "akia asia", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    _format("github token", "ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[pousr]_[A-Za-z0-9]{30,}"),
    _format("github fine-grained token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{30,}"),
    _format("gitlab token", "glpat-", r"\bglpat-[A-Za-z0-9_-]{20,}"),
    _format("slack token", "xox", r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),
    _format("stripe key", "k_live_ k_test_", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    _format("google key", "aiza", r"\bAIza[A-Za-z0-9_-]{35}"),
    _format("telegram bot token", ":aa", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    _format("tavily key", "tvly-", r"\btvly-[A-Za-z0-9_-]{16,}"),
    _format("npm token", "npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
    _format("package index token", "pypi-", r"\bpypi-[A-Za-z0-9_-]{16,}"),
    _format("hugging face token", "hf_", r"\bhf_[A-Za-z0-9]{30,}"),
    _format(
        "json web token",
        "eyj",
        r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    ),
    _format(
        "authorization header", "bearer basic", r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{16,}"
    ),
    _format("credentials in a URL", "://", r"(?<=://)[^\s/:@]{0,256}:[^\s/@]{1,256}(?=@)"),
    _format(
        "assignment",
        "passw passp secret api_key api-key apikey access_token access-token",
        r"(?i)(?:password|passphrase|passwd|secret|api[_-]?key|access[_-]?token)"
        r"[\"']?\s{0,3}[:=]\s{0,3}[\"']?[^\s\"',;&]{4,}",
    ),
)

_ANY_HINT = re.compile("|".join(re.escape(hint) for each in SECRET_FORMATS for hint in each.hints))


def redact(value: Any, *, known: Iterable[str] = ()) -> Any:
    """A copy of a JSON-like value in which no secret is left."""
    return _redact(value, _spellings(known))


def redact_text(text: str, *, known: Iterable[str] = ()) -> str:
    """The text with every secret in a known format, and every known secret, taken out."""
    return _redact_text(text, _spellings(known))


def _redact(value: Any, known: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return _redact_text(value, known)
    if isinstance(value, Mapping):
        return {
            _redact_text(str(key), known): REDACTED if _hides(key, item) else _redact(item, known)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redact(item, known) for item in value]
    return value


def _hides(key: Any, item: Any) -> bool:
    """A telling key hides text and numbers; a nested structure is searched instead."""
    if item is None or isinstance(item, bool | Mapping | list | tuple):
        return False
    return _is_telling(str(key))


@lru_cache(maxsize=4096)
def _is_telling(key: str) -> bool:
    return bool(_TELLING_KEY.search(_CAMEL_BOUNDARY.sub("_", key).lower()))


def _redact_text(text: str, known: tuple[str, ...]) -> str:
    for secret in known:
        text = text.replace(secret, REDACTED)
    if len(text) < 8:
        return text
    folded = text.lower()
    if not _ANY_HINT.search(folded):
        return text
    for secret_format in SECRET_FORMATS:
        if any(hint in folded for hint in secret_format.hints):
            text = secret_format.pattern.sub(REDACTED, text)
    return text


def _spellings(known: Iterable[str]) -> tuple[str, ...]:
    """Each known secret as it stands, and as base64, hex and URL encoding would write it."""
    spellings: set[str] = set()
    for secret in known:
        if len(secret) < 4:
            continue  # shorter values would blank out ordinary text
        raw = secret.encode()
        encoded = base64.b64encode(raw).decode()
        spellings |= {secret, encoded, encoded.rstrip("="), raw.hex(), quote(secret, safe="")}
        spellings |= {base64.urlsafe_b64encode(raw).decode().rstrip("="), raw.hex().upper()}
    return tuple(sorted(spellings, key=len, reverse=True))
