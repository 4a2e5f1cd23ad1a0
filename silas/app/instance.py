"""One server for each data directory: the lock that makes it so.

1. The server holds a lock on `silas.lock` for as long as it lives. The operating system releases
   it when the process ends, however it ends, so a file that a crash left behind is no obstacle.
2. The file says who holds the lock, so that whoever comes second can be told.
"""

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from silas.kernel import (
    CanonicalError,
    Clock,
    DatabaseError,
    canonical_bytes,
    format_timestamp,
    strict_loads,
)
from silas.storage.errors import translated
from silas.storage.files import PRIVATE_FILE

_ATTEMPTS = 6
_GLANCES = 600
_SECONDS_BETWEEN = 0.05


class InstanceLocked(DatabaseError):
    """Another Silas uses this data directory. End it with `silas stop`, or choose another one."""

    code = "E_DB_LOCKED"


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
