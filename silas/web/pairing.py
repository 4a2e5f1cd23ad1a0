"""How a browser becomes one of the owner's devices: a code, and a link that brings it there.

1. A browser becomes a device with a one-time code, shown on Silas's own machine. A code is random,
   works once, and only for a few minutes; a handful of wrong guesses voids every code there is. The
   browser proves that it holds the key it brings: the key signs the code, its own public part, its
   name and the page's origin.
2. The code is in the fragment of the link: browsers send that to nobody.
3. A phone is shown a QR code only for an address that it can reach and where its browser makes
   keys: https, and not this machine's own name. Where there is none, one sentence says what is
   missing.
"""

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from silas.kernel import Clock, canonical_bytes, format_timestamp
from silas.kernel.loopback import is_loopback_url
from silas.kernel.models import Data
from silas.web.errors import PairingRefused

LIFETIME = timedelta(minutes=10)
MAX_GUESSES = 5
_MOST_CODES = 4
_NO_ADDRESS = (
    "A phone cannot be paired yet: it needs an https address that it can reach, named in "
    "`channels.web.public_origins` (docs/web.md, “From a phone”, has three ways to get one)."
)
_NOT_HTTPS = (
    "A phone cannot be paired at {origin}: browsers make keys on https alone, and what "
    "`channels.web.public_origins` names is not https (docs/web.md, “From a phone”)."
)
_ONLY_HERE = (
    "A phone cannot be paired at {origin}: that is this machine's own name, which means something "
    "else on a phone (docs/web.md, “From a phone”)."
)


@dataclass(frozen=True)
class PairingCode:
    """What a browser needs to be let in, once."""

    code: str
    expires_at: datetime


@dataclass
class PairingCodes:
    """The codes of this process; a restart ends them all."""

    clock: Clock
    _open: list[PairingCode] = field(default_factory=list)
    _guesses: int = 0

    def issue(self) -> PairingCode:
        """A new code; the oldest ones make room."""
        made = PairingCode(secrets.token_urlsafe(24), self.clock.now() + LIFETIME)
        self._open = [*self._open, made][-_MOST_CODES:]
        self._guesses = 0
        return made

    def redeem(self, code: str) -> None:
        """Use a code up; raises `PairingRefused`."""
        found = self.require(code)
        self._open.remove(found)

    def require(self, code: str) -> PairingCode:
        """A code that can be used up later on; raises `PairingRefused`, and counts the guess."""
        now = self.clock.now()
        self._open = [each for each in self._open if now < each.expires_at]
        for each in self._open:
            if hmac.compare_digest(each.code.encode(), code.encode()):
                return each
        self._guesses += 1
        if self._guesses >= MAX_GUESSES:
            self._open = []
        raise PairingRefused


class PhoneLink(Data):
    """A way in for a phone, and the same as a QR code."""

    link: str
    qr: list[str]
    """Row by row, `1` for dark and `0` for light, with the light border that scanners need."""
    needs_token: bool
    """Whether the phone will ask for `channels.web.auth_token` as well."""


class PairingLink(Data):
    """A way in for one browser."""

    link: str
    made_at: str
    phone: PhoneLink | None = None
    missing: str | None = None
    """Why there is none for a phone, and what to do."""


def make_link(
    codes: PairingCodes, *, address: str, public_origins: Sequence[str], needs_token: bool
) -> PairingLink:
    """A new way in: for a browser at this address, and for a phone if one can reach Silas."""
    fragment, at = f"/#pair={codes.issue().code}", format_timestamp(codes.clock.now())
    reached = phone_address(public_origins)
    if reached is None:
        why = _why_no_phone(public_origins)
        return PairingLink(link=f"{address}{fragment}", made_at=at, missing=why)
    link = f"{reached}{fragment}"
    phone = PhoneLink(link=link, qr=qr_rows(link), needs_token=needs_token)
    return PairingLink(link=f"{address}{fragment}", made_at=at, phone=phone)


def phone_address(public_origins: Sequence[str]) -> str | None:
    """The first public address at which a browser of another machine makes keys (rule 3)."""
    reached = (each for each in public_origins if _is_https(each) and not is_loopback_url(each))
    return next(reached, "").rstrip("/") or None


def _why_no_phone(public_origins: Sequence[str]) -> str:
    for origin in public_origins:
        return (_ONLY_HERE if _is_https(origin) else _NOT_HTTPS).format(origin=origin.rstrip("/"))
    return _NO_ADDRESS


def _is_https(origin: str) -> bool:
    return origin.lower().startswith("https://")


def qr_rows(text: str) -> list[str]:
    """The text as a QR code that survives a smudge."""
    # Imported here: most servers never draw one.
    import segno  # noqa: PLC0415

    code = segno.make_qr(text, error="m", boost_error=False)
    return ["".join("1" if dark else "0" for dark in row) for row in code.matrix_iter(border=4)]


def pairing_bytes(*, code: str, public_key: str, name: str, origin: str) -> bytes:
    """What the new device signs."""
    return canonical_bytes(
        {"type": "pair", "code": code, "public_key": public_key, "name": name, "origin": origin}
    )
