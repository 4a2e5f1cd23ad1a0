"""Directories reached part by part, by descriptors: no symbolic link in the way is followed."""

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def descend(
    start: int | Path, parts: Sequence[str], *, make: Callable[[str, int], None] | None = None
) -> Iterator[int]:
    """The directory at the end of the way, open. It starts in an open directory, or at a path.

    `make` makes a part in the directory before it, if it is not there.
    """
    current = os.open(start, DIRECTORY) if isinstance(start, Path) else os.dup(start)
    try:
        for part in parts:
            if make is not None:
                make(part, current)
            below = os.open(part, DIRECTORY, dir_fd=current)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)


def put_file(directory: int, name: str, content: bytes, *, mode: int) -> None:
    """Write a file as a whole, in the place of one that is there."""
    partial = f".{secrets.token_hex(8)}.partial"
    descriptor = os.open(partial, _CREATE, 0o600, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(partial, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        os.unlink(partial, dir_fd=directory)
        raise
