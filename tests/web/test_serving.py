"""The sockets of the web server, as the operating system sees them."""

import asyncio
import contextlib
import socket

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from silas.web.serving import bound, serving

_seen: list[int] = []


class _Watched(H11Protocol):
    """Notes whether Nagle's algorithm is off for whoever connects."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        accepted = transport.get_extra_info("socket")
        _seen.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        super().connection_made(transport)


async def _app(_scope: object, _receive: object, send: object) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b""})  # type: ignore[operator]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_small_frame_waits_for_no_acknowledgement(host: str) -> None:
    _seen.clear()
    with contextlib.closing(bound(host, 0)) as listening:
        port = listening.getsockname()[1]
        async with serving(_app, listening, protocol=_Watched):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 204")
            writer.close()
            await writer.wait_closed()
    assert _seen == [1]
