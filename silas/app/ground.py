"""The ground floor, wired: database, audit, vault, keys, approvals of one data directory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from silas.app.paths import Paths
from silas.kernel import Clock, ConfigError, IdFactory, SystemClock
from silas.storage import Database, SqliteDatabase, load_migrations, migrate


class NotInitialised(ConfigError):
    """There is no Silas in this directory yet. Run `silas init`, or name another `--data-dir`."""

    code = "E_CFG_NOT_INITIALISED"
    exit_code = 11


@dataclass(frozen=True)
class Ground:
    """What commands and the server stand on."""

    paths: Paths
    clock: Clock
    ids: IdFactory
    database: Database


@asynccontextmanager
async def open_ground(
    paths: Paths, *, clock: Clock | None = None, create: bool = False
) -> AsyncIterator[Ground]:
    """Open the data directory, bring its schema up to date, and close everything at the end."""
    if not create and not paths.database.exists():
        raise NotInitialised(f"{paths.data_dir}: {NotInitialised().message}")
    clock = clock or SystemClock()
    database = SqliteDatabase.open(paths.database)
    try:
        await migrate(database, load_migrations("runtime"), clock=clock)
        yield Ground(paths=paths, clock=clock, ids=IdFactory(clock), database=database)
    finally:
        await database.close()
