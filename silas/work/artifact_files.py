"""Files below one directory, reached part by part without ever following a link.

Names come from what a sandboxed command wrote, so they are not trusted: every part is opened
relative to the directory before it, and a symbolic link, a device or a pipe in the way is refused.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from silas.storage.files import PRIVATE_DIRECTORY, PRIVATE_FILE, make_private_directory
from silas.work.descent import READ, descend, put_file
from silas.work.errors import ArtifactRefused

_MAX_PART_BYTES = 200
_MAX_PARTS = 32


def split_name(name: str) -> list[str]:
    """The parts of an artifact's name; raises `ArtifactRefused` unless each is a plain one."""
    parts = name.split("/")
    if len(parts) > _MAX_PARTS or not all(_is_plain(part) for part in parts):
        raise ArtifactRefused(
            f"{name[:200]!a} cannot be the name of an artifact: it must be a relative path without "
            "`.`, `..`, empty parts or control characters."
        )
    return parts


def write_file(root: Path, parts: Sequence[str], content: bytes) -> None:
    """Write the file as a whole, creating the directories above it."""
    with _refusing(parts):
        make_private_directory(root)
    with _refusing(parts), descend(root, parts[:-1], make=_make) as directory:
        put_file(directory, parts[-1], content, mode=PRIVATE_FILE)
        os.fsync(directory)


def read_file(root: Path, parts: Sequence[str], *, size: int) -> bytes:
    """The content of a regular file of exactly this size."""
    with _refusing(parts), descend(root, parts[:-1]) as directory:
        descriptor = os.open(parts[-1], READ, dir_fd=directory)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size != size:
                raise ArtifactRefused(f"{'/'.join(parts)} is not the file that was kept here.")
            return file.read(size)


def _make(part: str, directory: int) -> None:
    try:
        os.mkdir(part, PRIVATE_DIRECTORY, dir_fd=directory)
    except FileExistsError:
        return
    os.fsync(directory)


@contextmanager
def _refusing(parts: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ArtifactRefused(
            f"{'/'.join(parts)} cannot be kept or read: {error.strerror}."
        ) from error


def _is_plain(part: str) -> bool:
    hidden = any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in part)
    if part in ("", ".", "..") or hidden:
        return False
    try:
        return len(part.encode("utf-8")) <= _MAX_PART_BYTES
    except UnicodeEncodeError:
        return False
