"""The HTTP server in this process, on a socket that is bound before anybody is told about it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.types import ASGIApp

from silas.web.errors import CannotListen

_MAX_FRAME = 256 * 1024
_GRACE_SECONDS = 3


class _QuietServer(uvicorn.Server):
    """The signals are `silas start`'s own business."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def bound(host: str, port: int) -> socket.socket:
    """A socket at this address; raises `CannotListen`. Port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        told = f"{host}:{port}: {CannotListen.sentence()} ({error.strerror})"
        raise CannotListen(told) from error
    return listening


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, listening: socket.socket) -> AsyncIterator[None]:
    """Serve until the end of the block."""
    config = uvicorn.Config(
        app,
        interface="asgi3",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="websockets-sansio",
        ws_max_size=_MAX_FRAME,
        proxy_headers=False,  # who is on the other side is never read from a header
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = _QuietServer(config)
    task = asyncio.create_task(server.serve(sockets=[listening]), name="web")
    try:
        await server.is_up.wait()
        yield
    finally:
        server.should_exit = True
        await task
