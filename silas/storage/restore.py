"""Bringing a backup back: checked as a whole beside the data directory, then swapped in.

1. A data directory that holds data is left alone, unless the caller says otherwise.
2. Everything is unpacked and checked in a directory of its own: checksums, SQLite's own check, the
   versions, and whatever check the caller brings. The caller also prepares it there.
3. The directory is synced and trades places with the old one in one step (`exchange`), so that a
   crash leaves neither name empty. What was there before is kept aside.
"""

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from silas.storage.archive import Manifest, read_archive
from silas.storage.backup import check_database, workplace_beside
from silas.storage.errors import (
    BackupNotRead,
    BackupRefused,
    DiskFull,
    RestoreNotPossible,
    RestoreWouldReplace,
)
from silas.storage.files import PRIVATE_DIRECTORY, sync_directory
from silas.storage.ports import Progress
from silas.storage.trees import remove_tree

_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE on Linux, RENAME_SWAP on macOS
_NOT_HERE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def exchange(one: Path, other: Path) -> None:
    """Swap the two names; where the system has no single step for it, in three."""
    try:
        _exchange_at_once(os.fsencode(one), os.fsencode(other))
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        _exchange_in_steps(one, other)


def _exchange_at_once(one: bytes, other: bytes) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    try:
        if sys.platform == "darwin":
            result = library.renamex_np(one, other, _EXCHANGE)
        else:
            result = library.renameat2(_HERE, one, _HERE, other, _EXCHANGE)
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fsdecode(other))


def _exchange_in_steps(one: Path, other: Path) -> None:
    between = one.with_name(f"{one.name}.swapping")
    other.rename(between)
    try:
        one.rename(other)
    except BaseException:
        between.rename(other)
        raise
    between.rename(one)


_NOT_DATA = {"silas.lock", "silas.sock"}


@dataclass(frozen=True)
class Restored:
    """What was brought back, and where the data is that was there before."""

    manifest: Manifest
    set_aside: Path | None


def restore_backup(
    archive: Path,
    data_dir: Path,
    *,
    moment: datetime,
    replace: bool,
    prepare: Callable[[Path], None],
    progress: Progress,
) -> Restored:
    """Bring the backup back into `data_dir`.

    `prepare` gets the unpacked folder before it takes its place: it raises if something in it
    cannot be used, and changes what must not come back as it was.
    """
    data_dir = data_dir.resolve()
    had_data = holds_data(data_dir)
    if had_data and not replace:
        raise RestoreWouldReplace(f"{data_dir}: {RestoreWouldReplace.sentence()}")
    _make_parent(data_dir)
    with workplace_beside(data_dir, failure=RestoreNotPossible) as folder:
        manifest = _unpack(archive, folder, progress)
        for entry in manifest.files:
            if entry.name.endswith(".db"):
                progress(f"checking {entry.name}", 0, 1)
                check_database(folder / entry.name)
        prepare(folder)
        _sync_all(folder)
        aside = _aside(data_dir, moment)
        _swap_in(folder, data_dir, aside)
    if not had_data:
        remove_tree(aside)
    return Restored(manifest, aside if had_data else None)


def holds_data(data_dir: Path) -> bool:
    """Whether there is anything in this directory that a restore would replace."""
    try:
        return any(entry.name not in _NOT_DATA for entry in data_dir.iterdir())
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RestoreNotPossible(
            f"{data_dir}: {RestoreNotPossible.sentence()} ({error})"
        ) from error


def _make_parent(data_dir: Path) -> None:
    try:
        data_dir.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RestoreNotPossible(
            f"{data_dir}: {RestoreNotPossible.sentence()} ({error})"
        ) from error


def _unpack(archive: Path, folder: Path, progress: Progress) -> Manifest:
    try:
        if not archive.is_file():
            raise FileNotFoundError(errno.ENOENT, "there is no such file")
        file = archive.open("rb")
    except OSError as error:
        raise BackupNotRead(f"{archive}: {BackupNotRead.sentence()} ({error.strerror})") from error
    with file:
        needed, free = os.fstat(file.fileno()).st_size, shutil.disk_usage(folder).free
        if needed > free:
            raise DiskFull(
                f"{folder.parent}: {DiskFull.sentence()} ({needed} bytes needed, {free} free)"
            )
        manifest = read_archive(file, folder, progress)
    if not any(entry.name.endswith(".db") for entry in manifest.files):
        raise BackupRefused(f"{archive}: {BackupRefused.sentence()} (there is no database in it)")
    return manifest


def _sync_all(folder: Path) -> None:
    folder.chmod(PRIVATE_DIRECTORY)
    for path in folder.iterdir():
        if path.is_dir():
            _sync_all(path)
        else:
            with path.open("rb") as file:
                os.fsync(file.fileno())
    sync_directory(folder)


def _aside(data_dir: Path, moment: datetime) -> Path:
    when = moment.strftime("%Y%m%dT%H%M%S.%fZ")
    return data_dir.with_name(f"{data_dir.name}.before-restore-{when}")


def _swap_in(folder: Path, data_dir: Path, aside: Path) -> None:
    if not data_dir.exists():
        folder.rename(data_dir)
    else:
        # The new data takes the name of the old first, so that one step puts both in place.
        folder.rename(aside)
        try:
            exchange(aside, data_dir)
        except BaseException:
            aside.rename(folder)
            raise
    sync_directory(data_dir.parent)
