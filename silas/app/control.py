"""The control socket: how other commands of the same user talk to the running server.

One request is one line of canonical JSON, `{"method": …, "params": {…}}`; one answer is one line,
`{"result": …}` or `{"error": {"code": …, "message": …}}`. A connection may ask several times.

1. The socket is made before it can be reached, and by then only its owner may use it.
2. Whoever connects must belong to the same user; where the system does not say, it is refused.
3. A line has a greatest length; waiting for one, and answering it, have a greatest duration; and
   there is a greatest number of connections. A bad request is told what is wrong with it.
"""

import asyncio
import contextlib
import logging
import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from silas.app.instance import MAX_MESSAGE, short_path
from silas.app.peers import peer_user
from silas.kernel import CanonicalError, ServerError, SilasError, canonical_bytes, strict_loads
from silas.storage.files import PRIVATE_FILE

Handler = Callable[[dict[str, Any]], Awaitable[Any]]
"""Answers one method: gets the params, returns what canonical JSON can hold."""

_MAX_CONNECTIONS = 32
_log = logging.getLogger(__name__)


class BadRequest(ServerError):
    """The request cannot be understood. Send one line of JSON with `method` and `params`."""

    code = "E_SERVER_BAD_REQUEST"
    exit_code = 214


class TooManyConnections(ServerError):
    """Too many commands talk to Silas at once. Wait for one of them to end."""

    code = "E_SERVER_CROWDED"
    exit_code = 215


class RequestTimedOut(ServerError):
    """The request took too long and was given up. What it had begun may have happened."""

    code = "E_SERVER_TIMED_OUT"
    exit_code = 216


class SocketNotMade(ServerError):
    """The control socket cannot be made. Check the data directory with `silas doctor`."""

    code = "E_SERVER_SOCKET"
    exit_code = 217


class ControlServer:
    """Answers requests on a socket. The caller holds the instance lock."""

    def __init__(self, handlers: Mapping[str, Handler], *, seconds: float = 60.0) -> None:
        self._handlers = dict(handlers)
        self._seconds = seconds
        self._connections: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        """Serve at this path until the end of the `with` block."""
        server = await asyncio.start_unix_server(
            self._accept, sock=_make_socket(path), limit=MAX_MESSAGE
        )
        try:
            yield
        finally:
            server.close()
            _remove_stale(path)
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        self._connections.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await self._converse(reader, writer)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if peer_user(writer.get_extra_info("socket")) != os.getuid():
            return
        if len(self._connections) > _MAX_CONNECTIONS:
            await _send(writer, _failure(TooManyConnections()))
            return
        while True:
            try:
                async with asyncio.timeout(self._seconds):
                    line = await reader.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                await self._skip_line(reader)
                await _send(writer, _failure(BadRequest("The request is too long.")))
                return
            except (asyncio.IncompleteReadError, TimeoutError):
                return
            await _send(writer, await self._answer(line))

    async def _skip_line(self, reader: asyncio.StreamReader) -> None:
        """Take the rest of the line: who still has something to say does not hear the answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                while (piece := await reader.read(MAX_MESSAGE)) and not piece.endswith(b"\n"):
                    pass

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            handler, params = self._understand(line)
            async with asyncio.timeout(self._seconds):
                result = await handler(params)
            canonical_bytes(result)
        except TimeoutError:
            return _failure(RequestTimedOut())
        except SilasError as error:
            return _failure(error)
        except Exception:  # noqa: BLE001 - the caller gets an answer, the log gets the rest
            internal = SilasError()
            _log.exception("A request failed (%s)", internal.correlation_id)
            return _failure(internal)
        return {"result": result}

    def _understand(self, line: bytes) -> tuple[Handler, dict[str, Any]]:
        try:
            request = strict_loads(line)
        except CanonicalError as error:
            raise BadRequest(f"{BadRequest.sentence()} ({error})") from error
        if not isinstance(request, dict) or request.keys() != {"method", "params"}:
            raise BadRequest
        handler = self._handlers.get(str(request["method"]))
        if handler is None or not isinstance(request["params"], dict):
            known = ", ".join(sorted(self._handlers))
            raise BadRequest(f"{BadRequest.sentence()} (The methods are: {known}.)")
        return handler, request["params"]


def _make_socket(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_stale(path)
        with short_path(path) as address:
            server.bind(address)
        # Nobody can connect before `listen`, so nobody can come in while the mode is wider.
        path.chmod(PRIVATE_FILE)
        server.listen()
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


def _failure(error: SilasError) -> dict[str, Any]:
    answer = {"error": error.explain()}
    try:
        canonical_bytes(answer)
    except CanonicalError:
        answer["error"].pop("details")
    return answer


async def _send(writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
    writer.write(canonical_bytes(answer) + b"\n")
    await writer.drain()
