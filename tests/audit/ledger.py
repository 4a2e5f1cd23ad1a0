"""A log with an owner's key, and copies of it to tamper with."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw

from silas.approval import KeyManager
from silas.audit import AuditLog, AuditReport
from silas.audit.examination import Witness, examine_chain, read_witness
from silas.audit.store import DatabaseSource
from silas.kernel import IdFactory
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.storage.writer import ConnectionReader
from silas.testing import FakeClock, MemoryVault
from silas.testing.fakes import with_schema


def make_keys() -> KeyManager:
    keys = KeyManager(MemoryVault(), clock=FakeClock())
    keys.generate_keypair()
    return keys


@dataclass
class Ledger:
    """A log in a folder, and everything that it was made with."""

    folder: Path
    clock: FakeClock
    keys: KeyManager
    database: SqliteDatabase
    log: AuditLog

    @property
    def path(self) -> Path:
        return self.folder / "silas.db"

    @property
    def witness(self) -> Path:
        return self.folder / "audit.checkpoint"

    async def write(self, count: int, **data: Any) -> None:
        for number in range(count):
            self.clock.advance(seconds=1)
            await self.log.log("thing_happened", number=number, **data)

    def copy(self) -> "Copy":
        return Copy(self.path, self.keys, read_witness(self.witness))


async def open_ledger(folder: Path, *, keys: KeyManager | None = None, **options: Any) -> Ledger:
    clock = FakeClock()
    database = SqliteDatabase.open(with_schema(folder / "silas.db", "runtime"))
    await migrate(database, load_migrations("runtime"), clock=clock)
    keys = keys or make_keys()
    settings: dict[str, Any] = {
        "signer": keys,
        "verifier": keys,
        "witness": folder / "audit.checkpoint",
        "checkpoint_every": 1000,
        **options,
    }
    log = AuditLog(database, clock=clock, ids=IdFactory(clock), **settings)
    return Ledger(folder, clock, keys, database, log)


def prepared_copy(folder: Path, fill: Callable[[Ledger], Awaitable[None]]) -> "Copy":
    """A copy of a log that was filled in this way; made outside any event loop, for many tests."""

    async def prepare() -> Ledger:
        ledger = await open_ledger(folder)
        await fill(ledger)
        await ledger.database.close()
        return ledger

    copy = asyncio.run(prepare()).copy()
    assert copy.examine().ok
    return copy


class Copy:
    """A copy of a log in memory, for whoever wants to tamper with it."""

    def __init__(self, path: Path, keys: KeyManager, witness: Witness) -> None:
        self.keys = keys
        self.witness = witness
        self.connection = apsw.Connection(":memory:")
        with (
            apsw.Connection(str(path)) as original,
            self.connection.backup("main", original, "main") as backup,
        ):
            backup.step()
        original.close()

    @contextmanager
    def tampering(self) -> Iterator["Copy"]:
        """Whatever is done inside is taken back at the end."""
        self.connection.execute("SAVEPOINT tampering")
        try:
            yield self
        finally:
            self.connection.execute("ROLLBACK TO tampering; RELEASE tampering")

    def run(self, sql: str, *params: Any) -> list[Any]:
        return self.connection.execute(sql, params).fetchall()

    def examine(self, **options: Any) -> AuditReport:
        reader = ConnectionReader(self.connection, "copy")
        settings = {"verifier": self.keys, "witness": self.witness, **options}
        return examine_chain(DatabaseSource(reader), **settings)

    def entries(self) -> list[tuple[int, str, str]]:
        return self.run("SELECT seq, body, hash FROM audit_log ORDER BY seq")

    def replace_entries(self, entries: list[tuple[int, str, str]]) -> None:
        self.run("DELETE FROM audit_log")
        for entry in entries:
            self.run("INSERT INTO audit_log (seq, body, hash) VALUES (?, ?, ?)", *entry)
