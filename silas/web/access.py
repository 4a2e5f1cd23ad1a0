"""Who may ask what over HTTP.

1. The owner at the machine comes over the owner's socket, and may ask everything.
2. A browser comes over the network address. It may ask what a route declares for it (`page`), and
   must show what is declared: nothing, its session, or its session and its device's signature. A
   route that declares nothing is not there for it.
3. A cookie alone changes nothing: browsers send it to every port of this machine, so another local
   server may have seen it. Whatever changes something is signed by the device as well, over method,
   path, body, time and a nonce.
4. What only somebody at the machine may ask for (the vault's passphrase, a link that lets another
   browser in) is asked on loopback, by a page of loopback (`is_from_here`).
"""

import binascii
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeVar

from fastapi import Depends, HTTPException, Request

from silas.approval import Device, DeviceStore, NonceStore, NonceUsed
from silas.kernel import Clock, canonical_bytes, parse_timestamp
from silas.kernel.loopback import is_loopback, is_loopback_url
from silas.kernel.program import NAME, program
from silas.web.commands import PageAccess
from silas.web.errors import NotLetIn

COOKIE = "silas_session"
OWNER_SCOPE = "silas.owner"
"""Set in the scope of a request by the owner's socket, and by nothing else."""
FRESH = timedelta(minutes=1)
_NONCE_DOMAIN = "http"
_NOT_SIGNED = "This request is not signed."
_TICKET_LIFETIME = timedelta(minutes=1)
_SESSION_LIFETIME = timedelta(hours=12)
_MAX_GRANTS = 1000
_DECLARED = "silas_page_access"
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True)
class _Granted:
    device_id: str
    until: datetime


@dataclass
class WebSessions:
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
        while len(table) >= _MAX_GRANTS:
            table.pop(next(iter(table)))
        secret = secrets.token_urlsafe(32)
        table[_digest(secret)] = _Granted(device_id, self.clock.now() + lifetime)
        return secret


def page(access: PageAccess | None) -> Callable[[Endpoint], Endpoint]:
    """Declare what a browser needs for this route (rule 2)."""

    def declared(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _DECLARED, access)
        return endpoint

    return declared


def page_access(endpoint: Callable[..., Any]) -> PageAccess | None:
    """What a route declares; None: it is for the owner's socket alone."""
    return getattr(endpoint, _DECLARED, None)


def admission(
    sessions: WebSessions, devices: DeviceStore, nonces: NonceStore
) -> Callable[[Request], Awaitable[None]]:
    """The dependency of every route: lets a request in, or raises."""

    async def admit(request: Request) -> None:
        if request.scope.get(OWNER_SCOPE) is True:  # 1
            return
        access = page_access(request.scope["endpoint"])
        if access is None:  # 2
            raise HTTPException(404)
        if access is PageAccess.OPEN:
            return
        device_id = sessions.device_of(request.cookies.get(COOKIE))
        device = await devices.find(device_id) if device_id else None
        if device is None or not device.trusted:
            raise HTTPException(401, NotLetIn.sentence())
        if access is PageAccess.SIGNED:  # 3
            nonce = await _require_signature(request, device, devices, sessions.clock.now())
            await _require_unused(nonces, nonce)
        request.state.device = device

    return admit


async def owner_alone(request: Request) -> None:
    """The dependency of routes that no browser is to reach, whatever they declare."""
    if request.scope.get(OWNER_SCOPE) is not True:
        raise HTTPException(404)


async def open_alone(request: Request) -> None:
    """The dependency of routes of which a browser reaches those alone that need nothing."""
    if request.scope.get(OWNER_SCOPE) is True:
        return
    if page_access(request.scope["endpoint"]) is not PageAccess.OPEN:
        raise HTTPException(404)


def is_from_here(request: Request) -> bool:
    """Rule 4. A proxy on this machine names another host, or another page."""
    caller = request.client.host if request.client else ""
    return (
        is_loopback(caller)
        and is_loopback(request.url.hostname or "")
        and is_loopback_url(request.headers.get("origin", ""))
    )


def asking_device(request: Request) -> Device:
    """The device that asks; raises if it is the owner at the machine, who is none."""
    device: Device | None = getattr(request.state, "device", None)
    if device is None:
        raise HTTPException(404, "This is for browsers alone.")
    return device


AskingDevice = Annotated[Device, Depends(asking_device)]


async def _require_signature(
    request: Request, device: Device, devices: DeviceStore, now: datetime
) -> str:
    """Returns the nonce of a request that this device has signed just now."""
    headers = request.headers
    timestamp, nonce = headers.get("silas-timestamp", ""), headers.get("silas-nonce", "")
    try:
        payload = request_bytes(
            method=request.method,
            path=request.url.path,
            body=await request.body(),
            timestamp=timestamp,
            nonce=nonce,
        )
        is_fresh = abs(now - parse_timestamp(timestamp)) <= FRESH
        signature = binascii.a2b_base64(headers.get("silas-signature", ""), strict_mode=True)
    except ValueError as error:
        raise HTTPException(403, _NOT_SIGNED) from error
    if not is_fresh or not await devices.verify(device.device_id, payload, signature):
        raise HTTPException(403, _NOT_SIGNED)
    return nonce


async def _require_unused(nonces: NonceStore, nonce: str) -> None:
    try:
        await nonces.record(_NONCE_DOMAIN, nonce)
    except (ValueError, NonceUsed) as error:
        raise HTTPException(403, _NOT_SIGNED) from error


def has_token(wanted: str | None, given: str | None) -> bool:
    """Whether a browser presents the token that is configured, if one is."""
    return wanted is None or hmac.compare_digest(wanted.encode(), (given or "").encode())


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


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def told_program(request: Request) -> str | None:
    """What to type for `silas`, if that is not its name; a path is told on the machine alone."""
    known = program()
    return known if known != NAME and is_loopback(request.url.hostname or "") else None
