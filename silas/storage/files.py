"""Files that only their owner may read, and writes that a crash cannot tear."""

import os
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


def make_private_directory(path: Path) -> None:
    """Create a directory that only its owner may enter.

    One that exists is left as it is: it may be somebody else's, and `silas doctor` reports it.
    """
    path.mkdir(parents=True, exist_ok=True, mode=PRIVATE_DIRECTORY)


def ensure_private_file(path: Path) -> None:
    """Create the file empty if it is missing; make sure that only its owner may read it."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, PRIVATE_FILE)
    finally:
        os.close(descriptor)


def write_private_file(path: Path, content: bytes) -> None:
    """Replace the file as a whole: a crash leaves the old content or the new, never a mix."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(partial, flags, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make a rename in this directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
