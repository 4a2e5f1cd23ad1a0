"""Passkeys over HTTP: listed, enrolled and ended by a trusted device of the owner's.

1. Every change carries the device's signature, as all changes do.
2. Enrolling takes more than that: the code that `silas devices passkey` shows at Silas's own
   machine, or the assertion of a passkey that is there already. A browser that somebody has taken
   over enrols none.
3. The challenge is the server's, for one device, once, for five minutes.
"""

import base64
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import HTTPException, Request
from pydantic import Field

from silas.approval import (
    Assertion,
    DecisionRefused,
    Passkey,
    PasskeyCodes,
    PasskeyStore,
    Registration,
    enrolment_challenge,
    page_name,
)
from silas.kernel import Clock, SilasError
from silas.kernel.models import Data
from silas.storage import Database, Durability
from silas.web.access import AskingDevice, page
from silas.web.command_routes import Routes
from silas.web.commands import Body, PageAccess
from silas.web.host_guard import is_number

_LIFETIME = timedelta(minutes=5)
_MOST = 100


class PasskeyShown(Data):
    """A passkey of the owner's."""

    credential_id: str
    name: str
    enrolled_at: str
    here: bool
    """Whether it works on the page that asks."""


class PasskeysShown(Data):
    """What there is, and what can be done here."""

    passkeys: list[PasskeyShown]
    named: bool
    """Whether this page has a name; browsers make no passkeys for a number such as 127.0.0.1."""
    first: bool
    """Whether the next one is the first, and takes a code."""


class ChallengeGiven(Data):
    """What a new passkey is made with."""

    challenge: str
    rp_id: str


class Enrolment(Body):
    """A new passkey, and by what right."""

    registration: Registration
    name: Annotated[str, Field(min_length=1, max_length=80)]
    code: Annotated[str, Field(max_length=40)] | None = None
    approval: Assertion | None = None


@dataclass
class PasskeyService:
    """Where passkeys come in; the challenges are this process's."""

    store: PasskeyStore
    codes: PasskeyCodes
    database: Database
    clock: Clock
    _challenges: dict[str, tuple[bytes, datetime]] = field(default_factory=dict)

    def challenge(self, device_id: str) -> bytes:
        """A new one for this device (rule 3)."""
        while len(self._challenges) >= _MOST:
            self._challenges.pop(next(iter(self._challenges)))
        made = secrets.token_bytes(32)
        self._challenges[device_id] = made, self.clock.now() + _LIFETIME
        return made

    async def enrol(self, device_id: str, wanted: Enrolment, *, origin: str) -> Passkey:
        """Rules 2 and 3; raises `DecisionRefused`."""
        challenge, until = self._challenges.pop(device_id, (b"", self.clock.now()))
        if self.clock.now() >= until:
            raise DecisionRefused("That took too long. Begin again.")
        await self._require_right(wanted, origin)
        return await self.store.enrol(
            wanted.registration, challenge=challenge, origin=origin, name=wanted.name
        )

    async def _require_right(self, wanted: Enrolment, origin: str) -> None:
        """Rule 2."""
        if wanted.approval is None:
            self.codes.redeem(wanted.code or "")
            return
        used, challenge = wanted.approval, enrolment_challenge(wanted.registration, wanted.name)
        use = await self.store.verify(used, challenge, origins=(origin,))
        await self.database.transaction(
            lambda tx: self.store.count_in(tx, used.credential_id, use),
            durability=Durability.TRUST,
        )


def passkey_routes(service: PasskeyService) -> Routes:
    """The routes."""
    routes = Routes("/api/passkeys")

    @routes.get("")
    @page(PageAccess.SESSION)
    async def passkeys(request: Request) -> PasskeysShown:
        here = request.url.hostname or ""
        found = await service.store.trusted()
        shown = [
            PasskeyShown(
                credential_id=each.credential_id,
                name=each.name,
                enrolled_at=each.enrolled_at.isoformat(),
                here=each.rp_id == here,
            )
            for each in found
        ]
        usable = any(each.here for each in shown)
        return PasskeysShown(passkeys=shown, named=not is_number(here), first=not usable)

    @routes.post("/challenge")
    @page(PageAccess.SIGNED)
    async def challenge(
        _nothing: dict[str, Any], request: Request, device: AskingDevice
    ) -> ChallengeGiven:
        made = base64.urlsafe_b64encode(service.challenge(device.device_id)).rstrip(b"=")
        rp_id = page_name(request.headers.get("origin", ""))
        return ChallengeGiven(challenge=made.decode(), rp_id=rp_id)

    @routes.post("")
    @page(PageAccess.SIGNED)
    async def enrol(wanted: Enrolment, request: Request, device: AskingDevice) -> dict[str, str]:
        origin = request.headers.get("origin", "")
        try:
            made = await service.enrol(device.device_id, wanted, origin=origin)
        except SilasError as error:
            raise HTTPException(403, error.message) from error
        return {"credential_id": made.credential_id, "name": made.name}

    @routes.post("/{credential_id}/revoke")
    @page(PageAccess.SIGNED)
    async def revoke(credential_id: str, _nothing: dict[str, Any]) -> dict[str, bool]:
        try:
            await service.store.revoke(credential_id)
        except SilasError as error:
            raise HTTPException(404, error.message) from error
        return {"revoked": True}

    return routes
