"""The audit log for those who only read: no settings, no vault, no keys, so it opens at once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from silas.app.errors import NotInitialised
from silas.app.paths import Paths
from silas.audit import AuditLog
from silas.kernel import IdFactory, SystemClock
from silas.storage import SqliteDatabase


@asynccontextmanager
async def open_audit_log(paths: Paths) -> AsyncIterator[AuditLog]:
    """The log of a data directory, to read its entries."""
    if not paths.database.exists():
        raise NotInitialised(f"{paths.data_dir}: {NotInitialised.sentence()}")
    clock = SystemClock()
    database = SqliteDatabase.open(paths.database)
    try:
        yield AuditLog(database, clock=clock, ids=IdFactory(clock))
    finally:
        await database.close()
