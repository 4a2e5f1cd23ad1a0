"""Files that only their owner may read, and writes that a crash cannot tear."""

import errno
import itertools
import os
import secrets
import stat
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


def make_private_directory(path: Path) -> None:
    """Create a directory that only its owner may enter, and those above it that are missing.

    One that exists is left as it is: it may be somebody else's, and `silas doctor` reports it.
    """
    # `parents=True` would make those above it as wide as the umask allows.
    missing = itertools.takewhile(lambda each: not each.exists(), path.parents)
    for each in [*reversed([*missing]), path]:
        each.mkdir(exist_ok=True, mode=PRIVATE_DIRECTORY)


def ensure_private_file(path: Path) -> None:
    """Create the file empty if it is missing; make sure that only its owner may read it.

    A file that exists is not opened: when a process closes a database file by other means than
    SQLite's, it loses the locks that its connections hold on it.
    """
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
        os.close(os.open(path, flags, PRIVATE_FILE))
    except FileExistsError:
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path)) from None
        if mode & 0o077:
            path.chmod(PRIVATE_FILE)


def write_private_file(path: Path, content: bytes) -> None:
    """Replace the file as a whole: a crash leaves the old content or the new, never a mix."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(6)}.partial")
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
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
