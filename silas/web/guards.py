"""Who may ask what over HTTP: the session for reading, the device's signature for changes."""

import binascii
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated

from fastapi import Depends, HTTPException, Request

from silas.approval import Device, NonceUsed
from silas.kernel import parse_timestamp
from silas.web.errors import NotLetIn
from silas.web.front import Front
from silas.web.sessions import request_bytes

COOKIE = "silas_session"
_FRESH = timedelta(minutes=1)
_NONCE_DOMAIN = "http"
Guard = Callable[..., Awaitable[Device]]


def guards_of(front: Front) -> tuple[Guard, Guard]:
    """The guard for reading, and the one for changes."""

    async def reader(request: Request) -> Device:
        device_id = front.sessions.device_of(request.cookies.get(COOKIE))
        device = await front.devices.find(device_id) if device_id else None
        if device is None or not device.trusted:
            raise HTTPException(401, NotLetIn.sentence())
        return device

    async def signer(request: Request, device: Annotated[Device, Depends(reader)]) -> Device:
        await _require_signature(front, request, device)
        return device

    return reader, signer


async def _require_signature(front: Front, request: Request, device: Device) -> None:
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
        fresh = abs(front.clock.now() - parse_timestamp(timestamp)) <= _FRESH
        signature = binascii.a2b_base64(headers.get("silas-signature", ""), strict_mode=True)
        if not fresh or not await front.devices.verify(device.device_id, payload, signature):
            raise HTTPException(403, "This request is not signed.")
        await front.nonces.record(_NONCE_DOMAIN, nonce)
    except (ValueError, NonceUsed) as error:
        raise HTTPException(403, "This request is not signed.") from error
