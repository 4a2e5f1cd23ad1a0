"""Keeps a command from planting what other programs will execute: `.git`, `.vscode` and the like.

In a writable directory these names are read-only. One that exists is shown as it is, read-only. One
that does not exist could be created, and a mount needs something to stand on: an empty placeholder
is made for the time of the run and taken away afterwards. Several runs can share it: each holds a
shared lock, and the last one removes it. A placeholder that a killed Silas left behind is known
by its mode and its emptiness, and goes with the next run.

The whole of `.git` is covered, not only its hooks and configuration: `.git/commondir` and
`.git/modules` lead git to other configuration files, and `.git` itself could be moved aside.
"""

import errno
import fcntl
import os
import stat
from contextlib import ExitStack
from enum import StrEnum

from silas.sandbox.errors import PathRefused


class Kind(StrEnum):
    """What a placeholder for a missing name looks like."""

    FILE = "file"
    DIRECTORY = "directory"


PROTECTED: dict[str, Kind] = {
    ".git": Kind.DIRECTORY,
    ".mcp.json": Kind.FILE,
    ".silas": Kind.DIRECTORY,
    ".vscode": Kind.DIRECTORY,
}

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FORMATS = {Kind.FILE: stat.S_IFREG, Kind.DIRECTORY: stat.S_IFDIR}
_WRITE_BITS = 0o222
_NOBODY_CAN = {errno.EROFS, errno.EACCES, errno.EPERM}
_TRIES = 100


def hold_protected(path: str, directory: int, stack: ExitStack) -> dict[str, int]:
    """Descriptors of the protected entries of a directory; the stack lets go of them."""
    held = {}
    # A path descriptor cannot be worked in; the same directory, opened once more, can.
    inside = os.open(f"/proc/self/fd/{directory}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, inside)
    for name, kind in PROTECTED.items():
        try:
            descriptor, ours = _hold(inside, name, kind)
        except OSError as error:
            # Where we may not create the entry, the command may not either.
            if error.errno in _NOBODY_CAN and not _exists(inside, name):
                continue
            raise PathRefused(f"{path}/{name}: {_reason(error)}") from error
        if ours:
            stack.callback(_release, inside, name, descriptor, kind)
        else:
            stack.callback(os.close, descriptor)
        held[name] = descriptor
    return held


def _hold(directory: int, name: str, kind: Kind) -> tuple[int, bool]:
    """The entry's descriptor, made if it is missing, and whether it is a placeholder."""
    for _ in range(_TRIES):
        try:
            descriptor = os.open(name, _OPEN, dir_fd=directory)
        except FileNotFoundError:
            _make(directory, name, kind)
            continue
        except PermissionError:
            return os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory), False
        if not _is_placeholder(descriptor, kind):
            return descriptor, False
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if _still_there(directory, name, descriptor):
            return descriptor, True
        os.close(descriptor)  # Another run removed it while we waited for the lock.
    raise OSError(errno.EBUSY, "it appears and disappears all the time")


def _make(directory: int, name: str, kind: Kind) -> None:
    try:
        if kind is Kind.DIRECTORY:
            os.mkdir(name, 0o555, dir_fd=directory)
        else:
            flags = os.O_CREAT | os.O_EXCL | os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(name, flags, 0o444, dir_fd=directory))
    except FileExistsError:
        return


def _release(directory: int, name: str, descriptor: int, kind: Kind) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_placeholder(descriptor, kind) and _still_there(directory, name, descriptor):
            remove = os.rmdir if kind is Kind.DIRECTORY else os.unlink
            remove(name, dir_fd=directory)
    except OSError:
        # Another run holds it, or its owner took the directory away: nothing is left to do.
        return
    finally:
        os.close(descriptor)


def _is_placeholder(descriptor: int, kind: Kind) -> bool:
    status = os.fstat(descriptor)
    if stat.S_IFMT(status.st_mode) != _FORMATS[kind] or status.st_mode & _WRITE_BITS:
        return False
    return status.st_size == 0 if kind is Kind.FILE else not os.listdir(descriptor)


def _still_there(directory: int, name: str, descriptor: int) -> bool:
    try:
        there = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def _exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return True


def _reason(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "it is a symbolic link, which a command could replace. Remove it or move it away."
    return f"it cannot be protected ({error.strerror})."
