"""One server for each data directory: the lock that makes it so, and the way to reach it.

1. The server holds a lock on `silas.lock` for as long as it lives. The operating system releases
   it when the process ends, however it ends, so a file that a crash left behind is no obstacle.
2. The file says who holds the lock, so that whoever comes second can be told.
3. Other commands reach the server through `silas.sock`, which its owner alone may use. Both sides
   check that the other belongs to the same user.
"""

import contextlib
import fcntl
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from silas.app.paths import Paths
from silas.app.peers import peer_user
from silas.kernel import (
    CanonicalError,
    Clock,
    DatabaseError,
    ServerError,
    canonical_bytes,
    format_timestamp,
    strict_loads,
)
from silas.storage.errors import translated
from silas.storage.files import PRIVATE_FILE

MAX_MESSAGE = 1 << 20
_MAX_SOCKET_PATH = 100
_ATTEMPTS = 6
_GLANCES = 600
_SECONDS_BETWEEN = 0.05


class InstanceLocked(DatabaseError):
    """Another Silas uses this data directory. End it with `silas stop`, or choose another one."""

    code = "E_DB_LOCKED"
    exit_code = 29


class NotRunning(ServerError):
    """No Silas is running for this data directory. Start it with `silas start`."""

    code = "E_SERVER_NOT_RUNNING"
    exit_code = 211


class ServerSilent(ServerError):
    """The running Silas does not answer. Look at its log, or end it with `silas stop --kill`."""

    code = "E_SERVER_SILENT"
    exit_code = 212


class ServerRefused(ServerError):
    """The running Silas refused this. Its answer says why, and what to do."""

    code = "E_SERVER_REFUSED"
    exit_code = 213


class InstanceLock:
    """The right to be the one server of a data directory; hold it with `with`."""

    def __init__(self, path: Path, *, clock: Clock, command: str) -> None:
        self._path = path
        self._clock = clock
        self._command = command
        self._descriptor: int | None = None

    def __enter__(self) -> Self:
        with translated(str(self._path)):
            self._descriptor = _lock(self._path)
            holder = {
                "pid": os.getpid(),
                "started_at": format_timestamp(self._clock.now()),
                "command": self._command,
            }
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, canonical_bytes(holder), 0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._descriptor is not None:
            # The file stays: whoever waits for it has it open, and must see the same one.
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None


def holder_of(path: Path) -> dict[str, Any] | None:
    """Who holds the lock now: pid, started_at, command. None if nobody does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DatabaseError(f"{path} cannot be read ({error.strerror}).") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_holder(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def _lock(path: Path) -> int:
    refused = 0
    for _ in range(_GLANCES):
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still_there(path, descriptor):
                return descriptor
            refused += 1
        except BlockingIOError:
            # It may only be `holder_of`, in another process, which lets go as soon as it can.
            refused += not _is_glanced_at(descriptor)
            time.sleep(_SECONDS_BETWEEN)
        except BaseException:
            os.close(descriptor)
            raise
        holder = _read_holder(descriptor)
        os.close(descriptor)
        if refused == _ATTEMPTS:
            break
    raise InstanceLocked(_who_is_it(path, holder))


def _is_glanced_at(descriptor: int) -> bool:
    """Whether those who hold it hold it together, as `holder_of` does; a server holds it alone."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _read_holder(descriptor: int) -> dict[str, Any]:
    """What the file says; nothing if it is being written, or somebody else wrote it."""
    try:
        holder = strict_loads(os.pread(descriptor, 4096, 0))
    except CanonicalError:
        return {}
    return holder if isinstance(holder, dict) else {}


def _who_is_it(path: Path, holder: dict[str, Any]) -> str:
    who = "process {pid}, `{command}`, since {started_at}".format_map(
        {"pid": "unknown", "command": "?", "started_at": "?"} | holder
    )
    return f"{path.parent}: {InstanceLocked.sentence()} ({who})"


def call_server(
    paths: Paths, method: str, params: dict[str, Any] | None = None, *, timeout: float = 30.0
) -> Any:
    """Ask the running server; raises `NotRunning` if there is none."""
    request = canonical_bytes({"method": method, "params": params or {}}) + b"\n"
    with _connected(paths.socket, timeout) as connection:
        try:
            connection.sendall(request)
            answer = strict_loads(_read_line(connection))
        except (OSError, CanonicalError) as error:
            raise ServerSilent(f"{ServerSilent.sentence()} ({error})") from error
    if isinstance(answer, dict) and answer.keys() == {"result"}:
        return answer["result"]
    refusal = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(refusal, dict):
        raise ServerSilent(f"{ServerSilent.sentence()} (The answer makes no sense.)")
    raise ServerRefused(str(refusal.get("message")), answer=refusal)


@contextlib.contextmanager
def _connected(path: Path, timeout: float) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        try:
            with short_path(path) as address:
                connection.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            raise NotRunning from None
        except OSError as error:
            raise ServerSilent(f"{path}: {ServerSilent.sentence()} ({error})") from error
        if peer_user(connection) != os.getuid():
            raise ServerError(f"{path} belongs to another user. Nothing was sent.")
        yield connection


def _read_line(connection: socket.socket) -> bytes:
    received = bytearray()
    while not received.endswith(b"\n"):
        piece = connection.recv(65536)
        if not piece or len(received) > MAX_MESSAGE:
            raise ConnectionResetError("the answer is incomplete")
        received += piece
    return bytes(received)


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """An address for a Unix socket, whose length is limited to about a hundred bytes."""
    if len(os.fsencode(path)) <= _MAX_SOCKET_PATH:
        yield str(path)
        return
    if sys.platform != "linux":
        raise ServerError(f"{path} is too long for a socket. Choose a shorter `--data-dir`.")
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
