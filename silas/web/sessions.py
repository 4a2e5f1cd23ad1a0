"""HTTP sessions and signed requests of a paired browser.

A cookie alone changes nothing: browsers send it to every port of this machine, so another local
server may have seen it. Whatever changes something is signed by the device as well, over method,
path, body, time and a nonce.
"""

import hashlib
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from silas.kernel import Clock, canonical_bytes

_TICKET_LIFETIME = timedelta(minutes=1)
_SESSION_LIFETIME = timedelta(hours=12)
_MOST = 1000


@dataclass(frozen=True)
class _Granted:
    device_id: str
    until: datetime


@dataclass
class Sessions:
    """Tickets and sessions of this process; a restart ends them all."""

    clock: Clock
    _tickets: dict[str, _Granted] = field(default_factory=dict)
    _sessions: dict[str, _Granted] = field(default_factory=dict)

    def ticket(self, device_id: str) -> str:
        """What a socket that is let in gets, to open a session with, once."""
        return self._grant(self._tickets, device_id, _TICKET_LIFETIME)

    def open(self, ticket: str) -> str | None:
        """The secret of a new session, for a ticket; None if it is not one."""
        granted = self._tickets.pop(_digest(ticket), None)
        if granted is None or self.clock.now() >= granted.until:
            return None
        return self._grant(self._sessions, granted.device_id, _SESSION_LIFETIME)

    def device_of(self, secret: str | None) -> str | None:
        """Whose session it is."""
        granted = self._sessions.get(_digest(secret or ""))
        if granted is None or self.clock.now() >= granted.until:
            return None
        return granted.device_id

    def _grant(self, table: dict[str, _Granted], device_id: str, lifetime: timedelta) -> str:
        while len(table) >= _MOST:
            table.pop(next(iter(table)))
        secret = secrets.token_urlsafe(32)
        table[_digest(secret)] = _Granted(device_id, self.clock.now() + lifetime)
        return secret


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def request_bytes(*, method: str, path: str, body: bytes, timestamp: str, nonce: str) -> bytes:
    """What a device signs when it asks for a change over HTTP."""
    return canonical_bytes(
        {
            "type": "request",
            "method": method,
            "path": path,
            "body_sha256": hashlib.sha256(body).hexdigest(),
            "timestamp": timestamp,
            "nonce": nonce,
        }
    )


def auth_bytes(*, challenge: str, device_id: str, origin: str) -> bytes:
    """What a device signs to open the conversation."""
    return canonical_bytes(
        {"type": "auth", "challenge": challenge, "device_id": device_id, "origin": origin}
    )
