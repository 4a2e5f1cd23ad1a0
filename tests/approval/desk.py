"""Everything an approval needs, put together for the tests."""

from dataclasses import dataclass, field
from pathlib import Path

from silas.approval import (
    ApprovalDecision,
    ApprovalEngine,
    ApprovalPolicy,
    ApprovalVerdict,
    KeyManager,
    NonceStore,
)
from silas.kernel import IdFactory
from silas.storage import Durability, SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock, MemoryVault, RecordingAudit
from silas.testing.fakes import with_schema

YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)


class WatchedDatabase(SqliteDatabase):
    """The real database, which also says how durable each transaction was to be."""

    durabilities: list[Durability]

    async def transaction(self, body, *, durability=Durability.ORDINARY, brief=False):
        self.durabilities = [*getattr(self, "durabilities", []), durability]
        return await super().transaction(body, durability=durability, brief=brief)


@dataclass
class Desk:
    """Everything an approval needs, on one database."""

    database: WatchedDatabase
    clock: FakeClock
    keys: KeyManager
    nonces: NonceStore
    audit: RecordingAudit
    ids: IdFactory
    policy: ApprovalPolicy = field(default_factory=ApprovalPolicy)

    @property
    def engine(self) -> ApprovalEngine:
        return ApprovalEngine(
            self.database,
            self.keys,
            nonces=self.nonces,
            audit=self.audit,
            clock=self.clock,
            ids=self.ids,
            policy=self.policy,
        )


async def open_desk(
    path: Path, *, vault: MemoryVault | None = None, clock: FakeClock | None = None
) -> Desk:
    clock = clock or FakeClock()
    database = WatchedDatabase.open(with_schema(path, "runtime"))
    await migrate(database, load_migrations("runtime"), clock=clock)
    keys = KeyManager(vault or MemoryVault(), clock=clock)
    if not keys.exists():
        keys.generate_keypair()
    return Desk(
        database, clock, keys, NonceStore(database, clock=clock), RecordingAudit(), IdFactory(clock)
    )
