"""The owner's socket: the API for the commands of the user that Silas belongs to.

1. The socket is made before it can be reached, and by then only its owner may use it.
2. Whoever connects must belong to the same user; where the system does not say, it is refused
   before anything is read.
3. A request has a greatest length and a greatest duration, and there is a greatest number of them.
   A connection that asks nothing is closed.
"""

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from silas.kernel import SilasError
from silas.storage.files import PRIVATE_FILE
from silas.web.access import OWNER_SCOPE
from silas.web.errors import InvalidRequest, RequestTimedOut, SocketNotMade, TooManyConnections
from silas.web.peers import peer_user, short_path
from silas.web.refusals import refusal_of
from silas.web.serving import serving

LIVE = "/api/live"
"""What goes on as long as the caller listens."""
MAX_BODY_BYTES = 32 * 1024 * 1024
_MAX_REQUESTS = 32
_REQUEST_SECONDS = 60.0
_GRACE_SECONDS = 1


@contextlib.asynccontextmanager
async def owner_socket(
    app: ASGIApp, path: Path, *, seconds: float = _REQUEST_SECONDS
) -> AsyncIterator[None]:
    """Serve at this path until the end of the block. The caller holds the instance lock."""
    listening = _make_socket(path)
    try:
        async with serving(
            _OwnerRequests(app, seconds),
            listening,
            protocol=_OwnerProtocol,
            grace_seconds=_GRACE_SECONDS,
        ):
            yield
    finally:
        listening.close()
        _remove_stale(path)


class _OwnerProtocol(H11Protocol):
    """Talks to the same user alone (rule 2)."""

    _is_stranger = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody has connected."""
        if peer_user(transport.get_extra_info("socket")) != os.getuid():
            self._is_stranger = True
            transport.abort()
            return
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        if not self._is_stranger:
            super().connection_lost(exc)


class _OwnerRequests:
    """Marks every request as the owner's, and keeps the limits (rule 3)."""

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app = app
        self._seconds = seconds
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        answer = _Answer(send)
        problem = self._problem(scope)
        if problem is None:
            self._running += 1
            try:
                async with asyncio.timeout(None if scope["path"] == LIVE else self._seconds):
                    await self._app({**scope, OWNER_SCOPE: True}, _limited(receive), answer)
            except TimeoutError:
                problem = RequestTimedOut()
            finally:
                self._running -= 1
        if problem is not None and not answer.has_begun:
            await refusal_of(problem, whole=True)(scope, receive, send)

    def _problem(self, scope: Scope) -> SilasError | None:
        if self._running >= _MAX_REQUESTS:
            return TooManyConnections()
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            return InvalidRequest("The request is too long.")
        return None


class _Answer:
    """Sends, and knows whether it has begun to."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        self.has_begun = True
        await self._send(message)


def _limited(receive: Receive) -> Receive:
    """A body without a length is no longer than the others."""
    seen = 0

    async def limited() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return message if seen <= MAX_BODY_BYTES else {"type": "http.disconnect"}

    return limited


def _make_socket(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        with short_path(path) as address:
            server.bind(address)
        # Nobody can connect before `listen`, so nobody can come in while the mode is wider.
        path.chmod(PRIVATE_FILE)
    except OSError as error:
        server.close()
        raise SocketNotMade(f"{path}: {SocketNotMade.sentence()} ({error.strerror})") from error
    except BaseException:
        server.close()
        raise
    return server


def _remove_stale(path: Path) -> None:
    """Remove what a server that was killed left behind, and nothing else."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketNotMade(f"{path} is in the way and is no socket. Move it elsewhere.")
    path.unlink()
