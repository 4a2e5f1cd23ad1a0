"""Approvals and audit on a fresh database, wired as the application does, vault in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from silas.approval import ApprovalEngine, KeyManager
from silas.audit import AuditLog
from silas.kernel import IdFactory, SystemClock
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import MemoryVault
from silas.testing.approvals import approval_engine, owners_keys


@dataclass(frozen=True)
class Desk:
    """What the lines *tokens*, *audit* and *work loop* stand on."""

    path: Path
    database: SqliteDatabase
    keys: KeyManager
    audit: AuditLog
    engine: ApprovalEngine


@asynccontextmanager
async def open_desk(folder: Path) -> AsyncIterator[Desk]:
    """Open it, and close it at the end."""
    clock = SystemClock()
    ids = IdFactory(clock)
    database = SqliteDatabase.open(folder / "silas.db")
    await migrate(database, load_migrations("runtime"), clock=clock)
    keys = owners_keys(MemoryVault(), clock=clock)
    audit = AuditLog(
        database, clock=clock, ids=ids, signer=keys, verifier=keys, witness=folder / "witness"
    )
    engine = approval_engine(database, keys, audit=audit, clock=clock, ids=ids)
    try:
        yield Desk(folder / "silas.db", database, keys, audit, engine)
    finally:
        await database.close()
