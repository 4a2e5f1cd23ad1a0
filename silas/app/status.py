"""What can be said about a data directory by looking at its files.

No settings, no vault, no keys are read for it, and nothing is imported that takes long, so that
`silas status` and `silas audit tail` answer at once.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from silas.app.client import NotRunning, ServerSilent, call_server
from silas.app.instance import holder_of
from silas.audit import AuditLog
from silas.kernel import IdFactory, SystemClock
from silas.settings.paths import Paths
from silas.storage import SqliteDatabase
from silas.storage.migrations import applied_in

_PARTS = ("", "-wal", "-shm")


def status_of(paths: Paths) -> dict[str, Any]:
    """Whether a server runs, what it says about itself, and what there is on the disk."""
    holder = holder_of(paths.lock)
    return {
        "running": holder is not None,
        "data_dir": str(paths.data_dir),
        "initialised": paths.database.exists(),
        "schema": _schema(paths),
        "sizes": _sizes(paths),
        "holder": holder,
        "server": _ask(paths) if holder is not None else None,
    }


def _ask(paths: Paths) -> Any:
    try:
        return call_server(paths, "/api/server/status", timeout=5.0)
    except (NotRunning, ServerSilent):
        # It is starting, stopping, restoring, or stuck: the lock says who it is.
        return None


def _schema(paths: Paths) -> str | None:
    if not paths.database.exists():
        return None
    return max(applied_in(paths.database), default=None)


def _sizes(paths: Paths) -> dict[str, int]:
    """How many bytes each database takes, with its log."""
    return {
        path.name: sum(
            part.stat().st_size
            for suffix in _PARTS
            if (part := path.with_name(path.name + suffix)).exists()
        )
        for path in sorted(paths.data_dir.glob("*.db"))
    }


@asynccontextmanager
async def open_audit_log(paths: Paths) -> AsyncIterator[AuditLog]:
    """The log of a data directory, to read its entries."""
    paths.require_initialised()
    clock = SystemClock()
    database = SqliteDatabase.open(paths.database)
    try:
        yield AuditLog(database, clock=clock, ids=IdFactory(clock))
    finally:
        await database.close()
