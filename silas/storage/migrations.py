"""Schema changes: numbered files, applied in order, recorded with their checksum.

1. Files are named `001_what.sql`, `002_…`; numbers are strictly increasing and never reused.
2. Each file is idempotent and runs in one transaction together with its record.
3. `applied_migrations` is the truth: pending = the files here minus the ids recorded there.
4. A recorded migration that is missing here or has another checksum stops everything, unchanged.
5. A recorded migration that is newer than all files here means: this data is from the future.
"""

import hashlib
import re
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path

import apsw

from silas.kernel import Clock, DatabaseError, format_timestamp
from silas.storage.errors import DatabaseFromTheFuture, MigrationDrift, MigrationMissing, translated
from silas.storage.ports import Database, Durability, Transaction

_NAME = re.compile(r"(\d{3})_[a-z0-9_]+\.sql")
_TRACKING_TABLE = """
CREATE TABLE IF NOT EXISTS applied_migrations (
    id TEXT PRIMARY KEY,
    checksum TEXT NOT NULL,
    applied_at TEXT NOT NULL
)
"""
_APPLIED = "SELECT id, checksum FROM applied_migrations"


@dataclass(frozen=True)
class Migration:
    """One numbered file."""

    id: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load_migrations(database: str) -> list[Migration]:
    """The shipped migrations of one database (`runtime`, …), in order."""
    return read_migrations(resources.files("silas.storage").joinpath("migrations", database))


def read_migrations(folder: resources.abc.Traversable) -> list[Migration]:
    """The migrations in a folder; raises unless they are numbered 1, 2, 3 … without a gap."""
    every = folder.iterdir() if folder.is_dir() else iter(())
    files = sorted((file for file in every if file.name.endswith(".sql")), key=_file_name)
    numbers = [_number(file.name) for file in files]
    if not files or numbers != list(range(1, len(files) + 1)):
        raise MigrationMissing(
            f"The migrations in {folder.name} are not numbered 1, 2, 3 …: {numbers}. "
            "Reinstall Silas."
        )
    return [Migration(file.name.removesuffix(".sql"), file.read_text("utf-8")) for file in files]


async def migrate(database: Database, migrations: list[Migration], *, clock: Clock) -> list[str]:
    """Bring the schema up to date; returns the ids that were applied now."""
    await database.execute(_TRACKING_TABLE)
    applied: dict[str, str] = dict(await database.fetch_all(_APPLIED))
    check_applied(applied, migrations)
    return [
        migration.id
        for migration in migrations
        if migration.id not in applied
        and await database.transaction(
            partial(_apply, migration=migration, all_known=migrations, clock=clock),
            durability=Durability.TRUST,
        )
    ]


def applied_in(path: Path) -> dict[str, str]:
    """The migrations that a database file records, with their checksums; none if it has none."""
    with (
        translated(str(path)),
        closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection,
    ):
        connection.set_busy_timeout(5000)
        look = "SELECT 1 FROM sqlite_schema WHERE name = 'applied_migrations'"
        if not connection.execute(look).fetchall():
            return {}
        rows = connection.execute("SELECT id, checksum FROM applied_migrations").fetchall()
    return {str(migration_id): str(checksum) for migration_id, checksum in rows}


def check_applied(applied: dict[str, str], migrations: list[Migration]) -> None:
    """Compare what was applied with what is here; raises on any difference (rules 4 and 5)."""
    known = {migration.id: migration.checksum for migration in migrations}
    newest = max((migration_id[:3] for migration_id in known), default="")
    for migration_id, checksum in sorted(applied.items()):
        if known.get(migration_id) == checksum:
            continue
        if migration_id in known:
            kind: type[DatabaseError] = MigrationDrift
        else:
            kind = DatabaseFromTheFuture if migration_id[:3] > newest else MigrationMissing
        raise kind(f"{kind.sentence()} (migration {migration_id})", migration=migration_id)


def _apply(
    tx: Transaction, *, migration: Migration, all_known: list[Migration], clock: Clock
) -> bool:
    # Checked again inside each transaction: another process may be migrating the same file.
    applied: dict[str, str] = dict(tx.fetch_all(_APPLIED))
    check_applied(applied, all_known)
    if migration.id in applied:
        return False
    tx.execute(migration.sql)
    tx.execute(
        "INSERT INTO applied_migrations (id, checksum, applied_at) VALUES (?, ?, ?)",
        (migration.id, migration.checksum, format_timestamp(clock.now())),
    )
    return True


def _file_name(file: resources.abc.Traversable) -> str:
    return file.name


def _number(name: str) -> int:
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else -1
