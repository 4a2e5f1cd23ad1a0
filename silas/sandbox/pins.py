"""Paths held by descriptor, so that what was checked is what is shown to the sandbox.

A path is opened without following any link and must be its own real path; from then on it does not
matter what is put in its place. Only directories and regular files can be shown: a socket or a
device would be a door.
"""

import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from silas.sandbox.errors import PathRefused
from silas.sandbox.models import SandboxRequest, is_within
from silas.sandbox.placeholders import hold_protected


@dataclass(frozen=True)
class Pin:
    """An open path, and whether the sandbox may write to it."""

    path: str
    descriptor: int
    writable: bool


def pin_all(request: SandboxRequest, stack: ExitStack) -> list[Pin]:
    """Every path of the request, outer ones before those inside them; the stack lets them go.

    A path that is listed for reading and for writing is read-only, and so are the files in a
    writable directory through which other programs can be made to run code.
    """
    read_only = set(request.read)
    pins = [
        Pin(path, pin(path, stack), writable=path not in read_only)
        for path in sorted({*request.read, *request.write})
    ]
    protected = [entry for shared in pins if shared.writable for entry in _protected(shared, stack)]
    for shared in pins:
        if shared.writable and any(is_within(shared.path, entry.path) for entry in protected):
            raise PathRefused(f"{shared.path} is protected and cannot be written to.")
    return sorted((*pins, *protected), key=lambda entry: entry.path.count("/"))


def pin(path: str, stack: ExitStack) -> int:
    """Open what is at this path now."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise PathRefused(f"{path}: {error.strerror}. {PathRefused().message}") from error
    stack.callback(os.close, descriptor)
    mode = os.fstat(descriptor).st_mode
    real = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    if stat.S_ISLNK(mode) or real != path:
        raise PathRefused(f"{path} is, or leads through, a symbolic link. Give the real path.")
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise PathRefused(f"{path} is neither a directory nor a regular file.")
    return descriptor


def _protected(shared: Pin, stack: ExitStack) -> list[Pin]:
    if not stat.S_ISDIR(os.fstat(shared.descriptor).st_mode):
        return []
    held = hold_protected(shared.path, shared.descriptor, stack)
    return [Pin(f"{shared.path}/{name}", fd, writable=False) for name, fd in held.items()]
