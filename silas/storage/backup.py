"""Writing a backup: everything that matters, consistent, checked, and only then in place.

1. A file that exists is left alone, unless the caller says otherwise.
2. Small files are copied first, then the databases, each as it is at one moment, then what the
   databases may refer to. If a file that must not change meanwhile has, all is copied again.
3. Each database copy passes SQLite's own check, and whatever check the caller brings.
4. The archive is written beside its target, synced, and read back in full.
5. Only then does it get its name. Whatever fails before, nothing of it remains.

Restoring uses the same parts: copies of a database that is in use, the check whether a copy is
sound, and a place for unfinished work that is private, beside its target, and gone when it fails.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import apsw

from silas.kernel import BackupError, SilasError, format_timestamp
from silas.storage.archive import Manifest, describe, pack_tree, read_archive, write_archive
from silas.storage.errors import (
    BackupExists,
    BackupNotWritten,
    BackupUnsettled,
    DatabaseCorrupt,
    DiskFull,
    translated,
)
from silas.storage.files import PRIVATE_FILE, sync_directory
from silas.storage.ports import Progress
from silas.storage.trees import remove_tree

_PAGES_AT_ONCE = 512


def copy_database(source: Path, target: Path, *, progress: Progress) -> None:
    """Write a copy of the database as it is at one moment, while others go on writing.

    The copy is page by page, so that row ids, which some indexes refer to, stay what they are.
    """
    with (
        translated(str(source)),
        closing(apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)) as reading,
        closing(apsw.Connection(str(target))) as copy,
    ):
        reading.set_busy_timeout(5000)
        # The transaction pins the moment: without it, each write would start the copy anew.
        reading.execute("BEGIN")
        reading.execute("SELECT * FROM sqlite_schema LIMIT 1").fetchall()
        copy.execute("PRAGMA synchronous=OFF")
        with copy.backup("main", reading, "main") as backup:
            while not backup.done:
                backup.step(_PAGES_AT_ONCE)
                done = backup.page_count - backup.remaining
                progress(f"copying {source.name}", done, backup.page_count)
        # In this mode the copy is one file that needs no others beside it. It is changed with the
        # help of shared memory, and what has no room for that is the disk of the copy.
        with translated(str(target)):
            copy.execute("PRAGMA journal_mode=DELETE")


def check_database(path: Path) -> None:
    """Raise if SQLite finds anything wrong in the file, which nobody else may be using."""
    with translated(str(path)), closing(apsw.Connection(str(path))) as connection:
        problems = [text for (text,) in connection.execute("PRAGMA integrity_check(3)")]
    if problems != ["ok"]:
        raise DatabaseCorrupt(
            f"{path.name}: {DatabaseCorrupt.sentence()} ({'; '.join(map(str, problems))})"
        )


@contextmanager
def workplace_beside(target: Path, *, failure: type[SilasError]) -> Iterator[Path]:
    """A private directory on the same disk as the target; a failing disk becomes our error."""
    try:
        folder = Path(tempfile.mkdtemp(".partial", f".{target.name}.", target.parent))
        try:
            yield folder
        finally:
            remove_tree(folder)
    except OSError as error:
        kind = DiskFull if error.errno in {errno.ENOSPC, errno.EDQUOT} else failure
        raise kind(f"{target}: {kind.sentence()} ({error.strerror})") from error


FolderCheck = Callable[[Path], None]
"""Raises if the databases and files in this folder do not fit together."""

_ATTEMPTS = 5


@dataclass(frozen=True)
class BackupSource:
    """What goes into a backup: the name in the archive, and where it is."""

    databases: Mapping[str, Path]
    steady_files: Mapping[str, Path]
    """Files that must belong to the same moment as the databases: keys, settings."""
    leading_files: Mapping[str, Path]
    """Files that may be older than the databases, but not newer: the audit log's witness."""
    following_files: Callable[[], Mapping[str, Path]]
    """Files that may be newer than the databases, but not older: what was moved out of them."""
    trees: Mapping[str, Path] = field(default_factory=dict)
    """Directories that go in whole, each as one archive of that name; also not older."""


@dataclass(frozen=True)
class BackupStamp:
    """What the manifest says about the backup itself."""

    moment: datetime
    silas_version: str


def write_backup(
    target: Path,
    source: BackupSource,
    *,
    stamp: BackupStamp,
    replace: bool,
    check: FolderCheck,
    progress: Progress,
) -> Manifest:
    """Write everything to one verified file; returns what is in it."""
    _refuse_existing(target, replace=replace)
    with workplace_beside(target, failure=BackupNotWritten) as folder:
        names = _copy_all(source, folder, progress)
        for name in source.databases:
            progress(f"checking {name}", 0, 1)
            check_database(folder / name)
        check(folder)
        manifest = Manifest(
            created_at=format_timestamp(stamp.moment),
            silas_version=stamp.silas_version,
            files=tuple(describe(folder, name, progress) for name in names),
        )
        partial = folder / "backup.partial"
        _write_and_read_back(partial, manifest, folder, progress)
        _put_in_place(partial, target, replace=replace)
    return manifest


def _refuse_existing(target: Path, *, replace: bool) -> None:
    if target.is_dir() or (os.path.lexists(target) and not replace):
        raise BackupExists(f"{target}: {BackupExists.sentence()}")


def _copy_all(source: BackupSource, folder: Path, progress: Progress) -> list[str]:
    """Copy until keys and settings are the same after the databases were copied as before."""
    for _ in range(_ATTEMPTS):
        steady = _contents(source.steady_files)
        small = {**steady, **_contents(source.leading_files)}
        for name, path in source.databases.items():
            (folder / name).unlink(missing_ok=True)
            copy_database(path, folder / name, progress=progress)
        following = source.following_files()
        if _contents(source.steady_files) == steady:
            for name, content in small.items():
                (folder / name).write_bytes(content)
            for name, path in following.items():
                (folder / name).parent.mkdir(exist_ok=True)
                shutil.copyfile(path, folder / name)
            for name, directory in source.trees.items():
                progress(f"packing {directory.name}", 0, 1)
                pack_tree(directory, folder / name)
            kept = {**following, **source.trees}
            return [*sorted(small), *sorted(source.databases), *sorted(kept)]
    raise BackupUnsettled


def _contents(files: Mapping[str, Path]) -> dict[str, bytes]:
    try:
        return {name: path.read_bytes() for name, path in files.items()}
    except OSError as error:
        raise BackupError(f"{error.filename} cannot be read ({error.strerror}).") from error


def _write_and_read_back(
    partial: Path, manifest: Manifest, folder: Path, progress: Progress
) -> None:
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    with os.fdopen(os.open(partial, flags, PRIVATE_FILE), "wb") as file:
        write_archive(file, manifest, folder, progress)
        file.flush()
        os.fsync(file.fileno())
    with partial.open("rb") as file:
        if read_archive(file, None, progress) != manifest:
            raise BackupNotWritten


def _put_in_place(partial: Path, target: Path, *, replace: bool) -> None:
    if not replace:
        try:
            # Claim the name: a file that came into being meanwhile is not ours to replace.
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE))
        except FileExistsError:
            raise BackupExists(f"{target}: {BackupExists.sentence()}") from None
    partial.replace(target)
    sync_directory(target.parent)
