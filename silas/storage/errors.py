"""What can go wrong with a database, in words; and the translation of the driver's errors."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from silas.kernel import BackupError, DatabaseError


class DiskFull(DatabaseError):
    """The disk is full. What was written before is kept. Free some space and see what was done."""

    code = "E_DB_FULL"


class DatabaseReadOnly(DatabaseError):
    """The data cannot be written there. Check owner and mount, or choose another `--data-dir`."""

    code = "E_DB_READONLY"


class DatabaseBusy(DatabaseError):
    """Another process holds the database. Wait a moment, or end that process, and try again."""

    code = "E_DB_BUSY"


class DatabaseCorrupt(DatabaseError):
    """The database file is damaged. Keep it, and bring back the last backup: `silas restore`."""

    code = "E_DB_CORRUPT"


class DatabaseNotOpened(DatabaseError):
    """The database file cannot be opened. Check that the path is a file you may read and write."""

    code = "E_DB_OPEN"


class DatabaseFromTheFuture(DatabaseError):
    """This data was written by a newer Silas. Upgrade Silas; the data has not been touched."""

    code = "E_DB_FUTURE"


class MigrationDrift(DatabaseError):
    """A migration differs from the one that was applied. Reinstall Silas; nothing was changed."""

    code = "E_DB_MIGRATION_DRIFT"


class MigrationMissing(DatabaseError):
    """A migration that was applied is missing here. Reinstall Silas; nothing was changed."""

    code = "E_DB_MIGRATION_MISSING"


class DatabaseConstraint(DatabaseError):
    """The database refused a row that breaks its rules. This is a defect: please report it."""

    code = "E_DB_CONSTRAINT"


class BackupExists(BackupError):
    """A file of that name exists already. Choose another name, or replace it with `--force`."""

    code = "E_BACKUP_EXISTS"


class BackupNotWritten(BackupError):
    """The backup cannot be written there. Choose a directory that exists and that you may use."""

    code = "E_BACKUP_TARGET"


class BackupUnsettled(BackupError):
    """Keys or settings were changed while they were copied. Run the backup again."""

    code = "E_BACKUP_UNSETTLED"


class BackupNotRead(BackupError):
    """The backup cannot be read. Check that it is a file that you may read."""

    code = "E_BACKUP_SOURCE"


class BackupRefused(BackupError):
    """This is not a backup as Silas writes it. Nothing was changed: use another one."""

    code = "E_BACKUP_REFUSED"


class BackupDamaged(BackupError):
    """The backup is damaged. Nothing was changed: use another one."""

    code = "E_BACKUP_DAMAGED"


class RestoreWouldReplace(BackupError):
    """There is data in that directory already. With `--force` it is set aside, not deleted."""

    code = "E_BACKUP_DATA_EXISTS"


class RestoreNotPossible(BackupError):
    """The data cannot be put there. Nothing was changed: choose another `--data-dir`."""

    code = "E_BACKUP_DATA_DIR"


_ONE_PAGE_OF_SHARED_MEMORY = 32 * 1024
_BY_DRIVER: tuple[tuple[type[apsw.Error], type[DatabaseError]], ...] = (
    (apsw.FullError, DiskFull),
    (apsw.ReadOnlyError, DatabaseReadOnly),
    (apsw.PermissionsError, DatabaseReadOnly),
    (apsw.BusyError, DatabaseBusy),
    (apsw.LockedError, DatabaseBusy),
    (apsw.CorruptError, DatabaseCorrupt),
    (apsw.NotADBError, DatabaseCorrupt),
    (apsw.CantOpenError, DatabaseNotOpened),
    (apsw.ConstraintError, DatabaseConstraint),
)
_BY_ERRNO: dict[int, type[DatabaseError]] = {
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.EROFS: DatabaseReadOnly,
    errno.EACCES: DatabaseReadOnly,
    errno.EPERM: DatabaseReadOnly,
}


def translate(error: apsw.Error | OSError, *, path: str = "") -> DatabaseError:
    """Our error for a driver's or the operating system's, with the path and the original words."""
    kind = _kind_of(error, path)
    sentence = kind().message
    where = f"{path}: " if path else ""
    return kind(f"{where}{sentence} ({error})", path=path)


def _kind_of(error: apsw.Error | OSError, path: str) -> type[DatabaseError]:
    if isinstance(error, OSError):
        return _BY_ERRNO.get(error.errno or 0, DatabaseNotOpened)
    if isinstance(error, apsw.IOError) and path and _no_space_left(path):
        # SQLite's shared memory does not say that the disk is full, only that it failed.
        return DiskFull
    return next((ours for theirs, ours in _BY_DRIVER if isinstance(error, theirs)), DatabaseError)


def _no_space_left(path: str) -> bool:
    try:
        return shutil.disk_usage(Path(path).parent).free < _ONE_PAGE_OF_SHARED_MEMORY
    except OSError:
        return False


@contextmanager
def translated(path: str = "") -> Iterator[None]:
    """Let no driver's exception leave this package."""
    try:
        yield
    except (apsw.Error, OSError) as error:
        raise translate(error, path=path) from error
