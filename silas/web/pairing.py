"""Pairing: a one-time code, shown on Silas's own machine, lets one browser become a device.

1. A code is random, works once, and only for a few minutes.
2. A handful of wrong guesses voids every code there is.
3. The browser proves that it holds the key it brings: the key signs the code, its own public part,
   its name and the page's origin.
"""

import hmac
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from silas.kernel import Clock, canonical_bytes
from silas.web.errors import PairingRefused

LIFETIME = timedelta(minutes=10)
MAX_GUESSES = 5
_MOST_CODES = 4


@dataclass(frozen=True)
class PairingCode:
    """What a browser needs to be let in, once."""

    code: str
    expires_at: datetime


@dataclass
class PairingDesk:
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
        now = self.clock.now()
        self._open = [each for each in self._open if now < each.expires_at]
        for each in self._open:
            if hmac.compare_digest(each.code.encode(), code.encode()):
                self._open.remove(each)
                return
        self._guesses += 1
        if self._guesses >= MAX_GUESSES:
            self._open = []
        raise PairingRefused


def pairing_bytes(*, code: str, public_key: str, name: str, origin: str) -> bytes:
    """What the new device signs."""
    return canonical_bytes(
        {"type": "pair", "code": code, "public_key": public_key, "name": name, "origin": origin}
    )
