"""The HTTP side: pairing, sessions, health, secrets, the manner.

Reading needs the session's cookie. Changing needs the cookie and the device's signature over the
request; pairing needs a code instead, and a session the ticket that an open socket was given.
"""

import hmac
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from pydantic import Field

from silas.approval import Base64Bytes, Device, PublicKey
from silas.kernel import SilasError
from silas.kernel.models import Data
from silas.web.bodies import Body
from silas.web.companions import companion_routes
from silas.web.errors import NotLetIn, PairingRefused
from silas.web.front import Front
from silas.web.guards import COOKIE, Guard, guards_of
from silas.web.hub import Hub
from silas.web.journal import journal_routes
from silas.web.onboarding import setup_routes
from silas.web.pairing import pairing_bytes
from silas.web.passkeys import passkey_routes
from silas.web.pending_secrets import SecretState
from silas.web.persona import persona_routes
from silas.web.wire import CardClosed

Short = Annotated[str, Field(min_length=1, max_length=200)]


class Pair(Body):
    """A browser that wants to become a device."""

    code: Short
    public_key: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    name: Short
    signature: Base64Bytes
    token: Annotated[str, Field(max_length=1000)] | None = None


class Paired(Data):
    """It is one now."""

    device_id: str
    name: str


class Ticket(Body):
    """What the socket gave."""

    ticket: Short


class SecretValue(Body):
    """A secret on its way to the vault."""

    value: Annotated[str, Field(min_length=1, max_length=32_000, repr=False)]


class Stored(Data):
    """It is in the vault."""

    stored: bool = True


class Health(Data):
    """Whether Silas is there."""

    status: str = "ok"
    connections: int


class DeviceShown(Data):
    """A device of the owner's."""

    device_id: str
    name: str
    enrolled_at: str
    trusted: bool
    this: bool


def make_routes(front: Front, hub: Hub) -> APIRouter:
    """The routes of one front."""
    router = APIRouter()
    reader, signer = guards_of(front)

    @router.get("/health")
    async def health() -> Health:
        return Health(connections=len(hub.pages))

    router.include_router(_entry_routes(front))
    router.include_router(_device_routes(front, hub, reader=reader, signer=signer))
    router.include_router(_secret_routes(front, hub, signer=signer))
    router.include_router(journal_routes(front, reader=reader, signer=signer))
    router.include_router(companion_routes(front, reader=reader, signer=signer))
    router.include_router(persona_routes(front, reader=reader, signer=signer))
    router.include_router(passkey_routes(front.passkeys, reader=reader, signer=signer))
    router.include_router(setup_routes(front.setup, reader=reader, signer=signer))
    return router


def _entry_routes(front: Front) -> APIRouter:
    """For a browser that has no session yet."""
    router = APIRouter()

    @router.post("/api/pair")
    async def pair(wanted: Pair, request: Request) -> Paired:
        device = await _pair(front, wanted, request.headers.get("origin", ""))
        return Paired(device_id=device.device_id, name=device.name)

    @router.post("/api/session", status_code=204)
    async def session(wanted: Ticket, request: Request, response: Response) -> None:
        secret = front.sessions.open(wanted.ticket)
        if secret is None:
            raise HTTPException(403, NotLetIn.sentence())
        response.set_cookie(
            COOKIE,
            secret,
            httponly=True,
            samesite="strict",
            secure=request.headers.get("origin", "").startswith("https://"),
        )

    return router


def _device_routes(front: Front, hub: Hub, *, reader: Guard, signer: Guard) -> APIRouter:
    router = APIRouter()

    @router.get("/api/devices")
    async def devices(device: Annotated[Device, Depends(reader)]) -> list[DeviceShown]:
        return [
            DeviceShown(
                device_id=each.device_id,
                name=each.name,
                enrolled_at=each.enrolled_at.isoformat(),
                trusted=each.trusted,
                this=each.device_id == device.device_id,
            )
            for each in await front.devices.list()
            if each.trusted
        ]

    @router.post("/api/devices/{device_id}/revoke", dependencies=[Depends(signer)])
    async def revoke(device_id: str, _nothing: dict[str, Any]) -> dict[str, bool]:
        await front.devices.revoke(device_id)
        await hub.drop_untrusted(front)
        return {"revoked": True}

    return router


def _secret_routes(front: Front, hub: Hub, *, signer: Guard) -> APIRouter:
    router = APIRouter()

    @router.post("/secrets/{ref_id:path}", dependencies=[Depends(signer)])
    async def store_secret(ref_id: str, secret: SecretValue) -> Stored:
        state = front.secrets.state(ref_id)
        if state is SecretState.UNKNOWN:
            raise HTTPException(404, "Nobody has asked for this secret.")
        if state is SecretState.FULFILLED:
            raise HTTPException(409, "This secret is stored already.")
        front.secrets.fulfil(ref_id, secret.value)
        await front.audit.log("secret_stored", ref_id=ref_id)
        hub.tell(CardClosed(request_id=f"secret:{ref_id}", state="stored"))
        return Stored()

    return router


async def _pair(front: Front, wanted: Pair, origin: str) -> Device:
    """Enrol the browser; every refusal sounds the same."""
    payload = pairing_bytes(
        code=wanted.code, public_key=wanted.public_key, name=wanted.name, origin=origin
    )
    try:
        key = PublicKey.from_hex(wanted.public_key)
        if not key.signed(payload, wanted.signature) or not _has_token(front, wanted.token):
            raise PairingRefused
        front.pairing.redeem(wanted.code)
        return await front.devices.enrol(key, name=wanted.name)
    except SilasError as error:
        await front.audit.log("pairing_refused", reason=error.code)
        raise HTTPException(403, PairingRefused.sentence()) from error


def _has_token(front: Front, token: str | None) -> bool:
    wanted = front.token
    return wanted is None or hmac.compare_digest(wanted.encode(), (token or "").encode())
