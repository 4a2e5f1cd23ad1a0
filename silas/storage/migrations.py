"""Schema changes: numbered files, applied in order, recorded with their checksum.

1. Files are named `001_what.sql`, `002_…`; numbers are strictly increasing and never reused.
2. Each file is idempotent and runs in one transaction together with its record.
3. `applied_migrations` is the truth: pending = the files here minus the ids recorded there.
4. A recorded migration that is missing here or has another checksum stops everything, unchanged.
5. A recorded migration that is newer than all files here means: this data is from the future.
"""

import hashlib
import re
from dataclasses import dataclass
from importlib import resources

from silas.kernel import Clock, format_timestamp
from silas.storage.errors import DatabaseFromTheFuture, MigrationDrift, MigrationMissing
from silas.storage.ports import Database, Durability, Transaction

_NAME = re.compile(r"(\d{3})_[a-z0-9_]+\.sql")
_TRACKING_TABLE = """
CREATE TABLE IF NOT EXISTS applied_migrations (
    id TEXT PRIMARY KEY,
    checksum TEXT NOT NULL,
    applied_at TEXT NOT NULL
)
"""


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
    folder = resources.files("silas.storage").joinpath("migrations", database)
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")), key=_file_name
    )
    numbers = [_number(file.name) for file in files]
    if numbers != list(range(1, len(files) + 1)):
        raise MigrationMissing(
            f"The migrations of {database} are not numbered 1, 2, 3 …: {numbers}. Reinstall Silas."
        )
    return [Migration(file.name.removesuffix(".sql"), file.read_text("utf-8")) for file in files]


async def migrate(database: Database, migrations: list[Migration], *, clock: Clock) -> list[str]:
    """Bring the schema up to date; returns the ids that were applied now."""
    await database.execute(_TRACKING_TABLE)
    return [
        migration.id
        for migration in migrations
        if await database.transaction(
            lambda tx, m=migration: _apply(tx, m, migrations, format_timestamp(clock.now())),  # type: ignore[misc]
            durability=Durability.TRUST,
        )
    ]


def check_applied(applied: dict[str, str], migrations: list[Migration]) -> None:
    """Compare what was applied with what is here; raises on any difference (rules 4 and 5)."""
    known = {migration.id: migration.checksum for migration in migrations}
    newest = max(known, default="")
    for migration_id, checksum in sorted(applied.items()):
        if migration_id not in known:
            kind = DatabaseFromTheFuture if migration_id > newest else MigrationMissing
            raise kind(f"{kind().message} (migration {migration_id})", migration=migration_id)
        if known[migration_id] != checksum:
            raise MigrationDrift(
                f"{MigrationDrift().message} (migration {migration_id})", migration=migration_id
            )


def _apply(tx: Transaction, migration: Migration, all_known: list[Migration], now: str) -> bool:
    # Checked again inside each transaction: another process may be migrating the same file.
    applied: dict[str, str] = dict(tx.fetch_all("SELECT id, checksum FROM applied_migrations"))
    check_applied(applied, all_known)
    if migration.id in applied:
        return False
    tx.execute(migration.sql)
    tx.execute(
        "INSERT INTO applied_migrations (id, checksum, applied_at) VALUES (?, ?, ?)",
        (migration.id, migration.checksum, now),
    )
    return True


def _file_name(file: resources.abc.Traversable) -> str:
    return file.name


def _number(name: str) -> int:
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else -1
