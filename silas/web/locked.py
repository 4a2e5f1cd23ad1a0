"""The page of a Silas whose vault is locked: it asks for the passphrase, and nothing else works.

1. The passphrase is taken from this machine alone: the caller, the address that was asked and the
   page that asks are all on loopback.
2. Whoever gives it has a pairing code that is still good, which stays good, or a device's key that
   signs the request. The vault cannot say yet whose the device is; that keeps strangers from
   guessing, and opens nothing: only the passphrase does.
3. It is tried a few times in a minute, one at a time. The vault compares in constant time. What was
   typed is kept nowhere and written down nowhere.
4. Every other request is answered with a sentence that says what to do.
"""

import asyncio
import binascii
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import HTTPException, Request
from pydantic import Field, SecretStr

from silas.approval import DeviceStore, NonceStore, NonceUsed
from silas.audit.models import AuditTrail
from silas.kernel import Clock, parse_timestamp
from silas.kernel.models import Data
from silas.secrets.errors import VaultLocked, WrongKey
from silas.stream.limits import RateLimit
from silas.web.access import (
    FRESH,
    OWNER_SCOPE,
    is_from_here,
    page,
    request_bytes,
    told_program,
)
from silas.web.command_routes import Routes
from silas.web.commands import Body, PageAccess
from silas.web.errors import NotLetIn, PairingRefused
from silas.web.pairing import PairingCodes

UNLOCK = "/api/unlock"
_TRIES_A_MINUTE = 5
_NONCE_DOMAIN = "unlock"
_FROM_HERE_ONLY = "The passphrase is taken only on the machine where Silas runs, at 127.0.0.1."
_NOT_IT = "That is not the passphrase of this vault. Nothing was opened; try again."
_log = logging.getLogger(__name__)
Short = Annotated[str, Field(min_length=1, max_length=200)]


class Unlock(Body):
    """The passphrase, and who gives it."""

    passphrase: Annotated[SecretStr, Field(min_length=1, max_length=4095)]
    code: Short | None = None
    device_id: Short | None = None


class Unlocked(Data):
    """The vault is open, and Silas starts."""

    unlocked: bool = True


class LockedHealth(Data):
    """Silas is there, and waits for its passphrase."""

    status: str = "locked"
    connections: int = 0
    program: str | None = None


@dataclass(frozen=True)
class LockedDoor:
    """What a locked Silas answers with."""

    open_vault: Callable[[str], None]
    """Opens the vault for good with a passphrase; raises `WrongKey`."""
    pairing: PairingCodes
    devices: DeviceStore
    nonces: NonceStore
    audit: AuditTrail
    clock: Clock
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)
    tries: RateLimit = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tries", RateLimit(self.clock, _TRIES_A_MINUTE))

    def refusal(self) -> VaultLocked:
        """What everything else is answered with (rule 4)."""
        return VaultLocked(
            "Silas is locked: it has been started without its passphrase. Type it in the page, or "
            "run `silas unlock` on the machine where Silas runs."
        )

    async def unlock(self, passphrase: str) -> None:
        """Try it (rule 3); raises `HTTPException` for one that does not fit."""
        async with self._one_at_a_time:
            if self.opened.is_set():
                return
            if not self.tries.take("unlock"):
                seconds = round(self.tries.wait("unlock")) + 1
                raise HTTPException(429, f"Too many tries. Wait {seconds} seconds, then try again.")
            try:
                await asyncio.to_thread(self.open_vault, passphrase)
            except WrongKey:
                _log.warning("A wrong passphrase was given for the locked vault.")
                raise HTTPException(403, _NOT_IT) from None
            await self.audit.log("vault_unlocked")
            self.opened.set()

    async def admit(self, request: Request, wanted: Unlock) -> None:
        """Let the request in (rules 1 and 2), or raise."""
        if request.scope.get(OWNER_SCOPE) is True:
            return
        if not is_from_here(request):
            raise HTTPException(403, _FROM_HERE_ONLY)
        if wanted.code is not None:
            try:
                self.pairing.require(wanted.code)
            except PairingRefused as error:
                raise HTTPException(403, PairingRefused.sentence()) from error
        elif wanted.device_id is None or not await self._signed(request, wanted.device_id):
            raise HTTPException(401, NotLetIn.sentence())

    async def _signed(self, request: Request, device_id: str) -> bool:
        """Whether the key that this device has in the database signed the request, just now."""
        key = await self.devices.unproven_key(device_id)
        headers = request.headers
        timestamp, nonce = headers.get("silas-timestamp", ""), headers.get("silas-nonce", "")
        try:
            body = await request.body()
            payload = request_bytes(
                method="POST", path=UNLOCK, body=body, timestamp=timestamp, nonce=nonce
            )
            is_fresh = abs(self.clock.now() - parse_timestamp(timestamp)) <= FRESH
            signature = binascii.a2b_base64(headers.get("silas-signature", ""), strict_mode=True)
            if key is None or not is_fresh or not key.signed(payload, signature):
                return False
            await self.nonces.record(_NONCE_DOMAIN, nonce)
        except (ValueError, NonceUsed):
            return False
        return True


def locked_routes(door: LockedDoor) -> Routes:
    """What can be asked of a locked Silas."""
    routes = Routes()

    @routes.get("/health", response_model_exclude_none=True)
    @page(PageAccess.OPEN)
    async def health(request: Request) -> LockedHealth:
        return LockedHealth(program=told_program(request))

    @routes.post(UNLOCK)
    @page(PageAccess.OPEN)
    async def unlock(wanted: Unlock, request: Request) -> Unlocked:
        await door.admit(request, wanted)
        await door.unlock(wanted.passphrase.get_secret_value())
        return Unlocked()

    return routes
