"""Secrets behind an encoding: base64 at any offset, hex, URL encoding, escapes."""

import base64
import binascii
import html
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus, unquote_plus

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
