"""What must survive a power cut is written with `Durability.TRUST`, all of it."""

from collections.abc import Callable
from typing import Any, TypeVar

from silas.audit import AuditLog
from silas.kernel import IdFactory
from silas.storage import Durability, Reader, SqliteDatabase, Transaction
from tests.audit.ledger import Ledger

T = TypeVar("T")


class Watched:
    """A database that remembers how its transactions were to be synced."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self.asked: list[Durability] = []

    async def transaction(
        self, body: Callable[[Transaction], T], *, durability: Durability = Durability.ORDINARY
    ) -> T:
        self.asked.append(durability)
        return await self._database.transaction(body, durability=durability)

    async def snapshot(self, body: Callable[[Reader], T]) -> T:
        return await self._database.snapshot(body)


async def test_every_write_of_the_log_is_synced(ledger: Ledger) -> None:
    watched: Any = Watched(ledger.database)
    log = AuditLog(
        watched,
        clock=ledger.clock,
        ids=IdFactory(ledger.clock),
        signer=ledger.keys,
        witness=ledger.witness,
    )
    await log.log("x")
    await log.write_checkpoint()
    ledger.witness.write_bytes(b"damaged")
    ledger.clock.advance(hours=1)
    await log.log("y")
    await log.write_checkpoint()
    await log.archive(ledger.folder / "old", before=ledger.clock.now())
    events = [entry.event for entry in await log.tail(9)]
    assert events == ["y", "audit_witness_problem", "audit_archived"]
    # x, its checkpoint, y, the problem, its checkpoint, the archiving, the last checkpoint
    assert watched.asked == [Durability.TRUST] * 7
