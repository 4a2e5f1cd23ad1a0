"""The vault file on disk: canonical JSON with a digest over itself, replaced as a whole.

The digest has no key. It keeps no attacker out; it tells damage apart from a wrong passphrase,
because every flipped byte is found before any key is tried. It is checked before the format is
looked at, so later formats must keep it.
"""

import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from silas.kernel import CanonicalError, SecretsError, SilasError, canonical_bytes, strict_loads
from silas.secrets.errors import InvalidSecret, VaultMissing, VaultTampered, VaultUnreachable
from silas.storage.errors import DatabaseReadOnly, DiskFull
from silas.storage.files import PRIVATE_FILE, write_private_file

MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
_SETTLED_NANOSECONDS = 100_000_000


class FileVersion(NamedTuple):
    """What tells one version of a file from another, as long as its clock ticks between them."""

    device: int
    inode: int
    mode: int
    size: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> "FileVersion | None":
        """The version that is there now; None if that cannot be said."""
        try:
            return cls.from_state(path.lstat())
        except OSError:
            return None

    @classmethod
    def from_state(cls, state: os.stat_result) -> "FileVersion":
        """The version of a file that is open."""
        times = (state.st_mtime_ns, state.st_ctime_ns)
        return cls(state.st_dev, state.st_ino, state.st_mode, state.st_size, *times)

    @property
    def is_settled(self) -> bool:
        """Whether a later write would show: the clock of a file ticks every few milliseconds."""
        return time.time_ns() - max(self.modified_ns, self.changed_ns) > _SETTLED_NANOSECONDS


def read_document(path: Path) -> dict[str, Any]:
    """The content of a vault file, proven to be whole."""
    return read_version(path)[0]


def read_version(path: Path) -> tuple[dict[str, Any], FileVersion | None]:
    """The same, and which version it was; None if a later one could look like it."""
    raw, state = _read(path)
    version = FileVersion.from_state(state)
    return _whole(path, raw), version if version.is_settled else None


def _whole(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        document = strict_loads(raw)
        if isinstance(document, dict) and "digest" in document:
            content = {key: value for key, value in document.items() if key != "digest"}
            if raw == _encode(content):
                return content
    except CanonicalError as error:
        raise tampered(path) from error
    raise tampered(path)


def write_document(path: Path, content: Mapping[str, Any]) -> None:
    """Replace the vault file; the caller holds its lock."""
    raw = _encode(content)
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise InvalidSecret("The vault is full. Remove secrets that are no longer needed.")
    with writing(path):
        write_private_file(path, raw)
        _remove_leftovers(path)


def create_document(path: Path, content: Mapping[str, Any]) -> None:
    """Write a vault file where there is none; of several who try at once, one succeeds."""
    with locked(path):
        refuse_existing(path)
        write_document(path, content)


def refuse_existing(path: Path) -> None:
    """Stop before a vault is replaced by an empty one."""
    with writing(path):
        exists = path.exists() or path.is_symlink()
    if exists:
        raise SecretsError(f"There is already a vault at {path}. Nothing was changed.")


def tampered(path: Path, why: str = "") -> VaultTampered:
    """The error for a file that is not as Silas wrote it."""
    return VaultTampered(f"{path}: {VaultTampered.sentence()}{f' ({why})' if why else ''}")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other writers of this vault out, in this process and in others."""
    lock = path.with_name(f"{path.name}.lock")
    flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    with writing(path):
        descriptor = os.open(lock, flags, PRIVATE_FILE)
    try:
        with writing(path):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_regular_file(path: Path, *, limit: int, flags: int = 0) -> tuple[bytes, os.stat_result]:
    """A file and its state, read through one descriptor; devices, pipes and directories are errors.

    At most one byte more than `limit` is read, so that the caller can see that there was more.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "Not a regular file")
        return file.read(limit + 1), state


def _read(path: Path) -> tuple[bytes, os.stat_result]:
    try:
        raw, state = read_regular_file(path, limit=MAX_DOCUMENT_BYTES, flags=os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise VaultMissing(f"{path}: {VaultMissing.sentence()}") from error
    except OSError as error:
        raise _unreachable(path, error) from error
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise tampered(path, "it is too large")
    return raw, state


def _encode(content: Mapping[str, Any]) -> bytes:
    digest = hashlib.sha256(canonical_bytes(content)).hexdigest()
    return canonical_bytes({**content, "digest": digest}) + b"\n"


def _remove_leftovers(path: Path) -> None:
    """Remove what a killed writer left: it can still be opened with a passphrase since replaced."""
    for leftover in path.parent.glob(f".{path.name}.*.partial"):
        leftover.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the operating system says about a write into our words."""
    try:
        yield
    except OSError as error:
        raise _not_written(path, error) from error


def _not_written(path: Path, error: OSError) -> SilasError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"{path}: {DiskFull.sentence()}")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return DatabaseReadOnly(f"{path}: {DatabaseReadOnly.sentence()} ({error.strerror})")
    return _unreachable(path, error)


def _unreachable(path: Path, error: OSError) -> VaultUnreachable:
    return VaultUnreachable(f"{path}: {VaultUnreachable.sentence()} ({error.strerror})")
