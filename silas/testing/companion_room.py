"""Companions with everything real: three databases, approvals, waking, tools, the desk."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from silas.companions.decisions import Decisions
from silas.companions.desk import CompanionDesk
from silas.companions.hands import Hands, make_hands
from silas.companions.kinds.library import KindLibrary
from silas.companions.lifecycle import Lifecycle
from silas.companions.models import WakeReason
from silas.companions.ports import ProviderGateway, SecretProvider
from silas.companions.store import CompanionStore
from silas.companions.tools.models import AgentAccessScope, AgentToolCall, AgentToolResult
from silas.companions.waking import Waking, make_waking
from silas.journal import operations
from silas.journal.models import OWNER, Task, TaskStatus
from silas.journal.results import Outcome
from silas.journal.store import Journal
from silas.kernel import IdFactory
from silas.queue import Bus, QueueName, QueueStore
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock, MemoryVault, RecordingAudit
from silas.testing.approvals import approval_engine, owners_keys
from silas.testing.companions import FakeGateway, OwnerApprovals

BY_OWNER: Any = {"scope": OWNER, "actor": "owner"}


@dataclass
class Zone:
    """`OwnersZone`: where the test says."""

    name: str = "Europe/Berlin"

    def time_zone(self) -> str:
        return self.name


@dataclass
class Room:
    """One device. `restarted` opens the same files again, as after a crash."""

    path: Path
    clock: FakeClock
    vault: MemoryVault
    agent_db: SqliteDatabase
    journal_db: SqliteDatabase
    runtime_db: SqliteDatabase
    store: CompanionStore
    journal: Journal
    queue: QueueStore
    approvals: OwnerApprovals
    gateway: ProviderGateway
    hands: Hands
    waking: Waking
    desk: CompanionDesk
    audit: RecordingAudit
    zone: Zone
    categories: dict[str, str] = field(default_factory=dict)

    @property
    def lifecycle(self) -> Lifecycle:
        return self.waking.lifecycle

    async def furnish(self) -> None:
        """The categories `gym` and `work`, if they are not there yet."""
        self.categories |= {each.name: each.id for each in await self.journal.categories()}
        for name in ("gym", "work"):
            if name not in self.categories:
                await self.category(name)
        await self.journal.settled()

    async def do(self, operation: str, **arguments: Any) -> Outcome:
        """An operation of the owner's."""
        made: Outcome = await getattr(operations, operation)(self.journal, **arguments, **BY_OWNER)
        return made

    async def category(self, name: str) -> str:
        """A new category."""
        made = await self.do("create_category", name=name)
        self.categories[name] = made.payload["category_id"]
        return self.categories[name]

    async def task(self, title: str, category: str = "gym", **fields: Any) -> str:
        """A new task of the owner's; returns its id."""
        made = await self.do(
            "create_task", title=title, category_id=self.categories[category], **fields
        )
        return str(made.payload["task_id"])

    async def finish(self, task_id: str) -> None:
        """The owner finishes a task, and everybody hears of it."""
        await self.do("update_task_fields", task_id=task_id, fields={"status": "done"})
        await self.journal.settled()

    async def tasks(self) -> list[Task]:
        """Every task, whatever its status."""
        return await self.journal.list_tasks(status=tuple(TaskStatus))

    async def work(self) -> list[str]:
        """Handle everything on the bus; returns the run keys, in order."""
        keys = []
        while lease := await self.queue.lease(QueueName.COMPANION, consumer="companion"):
            handled = await self.waking.worker(lease)
            await self.queue.finish(lease, consumer="companion", messages=handled.messages)
            keys.append(lease.message.trace_id)
        return keys

    async def call(self, agent_id: str, tool: str, /, **arguments: Any) -> AgentToolResult:
        """One call of a companion's, with the operation id `op` unless another is given."""
        return await self.hands.executor.execute(
            self.tool_call(agent_id, tool, **arguments), decisions=Decisions()
        )

    def tool_call(
        self,
        agent_id: str,
        tool: str,
        /,
        *,
        op: str = "op",
        scope: tuple[str, ...] = ("gym",),
        preview_only: bool = False,
        wake_reason: WakeReason = WakeReason.MANUAL,
        **arguments: Any,
    ) -> AgentToolCall:
        """A call as the workflow would make it."""
        return AgentToolCall(
            agent_id=agent_id,
            agent_kind="planner",
            thread_id=f"{agent_id}:run:test",
            run_key="test",
            tool_name=tool,
            operation_id=op,
            wake_reason=wake_reason,
            scope=AgentAccessScope(
                allowed_category_ids=frozenset(self.categories.get(each, each) for each in scope)
            ),
            arguments=arguments,
            preview_only=preview_only,
        )

    async def close(self) -> None:
        """Close every file."""
        self.waking.orchestrator.stop()
        await self.journal.settled()
        for database in (self.agent_db, self.journal_db, self.runtime_db):
            await database.close()


@asynccontextmanager
async def opened_room(
    path: Path,
    *,
    clock: FakeClock | None = None,
    vault: MemoryVault | None = None,
    gateway: ProviderGateway | None = None,
    secrets: SecretProvider | None = None,
    kinds: Path | None = None,
    database: type[SqliteDatabase] = SqliteDatabase,
    approvals: OwnerApprovals | None = None,
) -> AsyncIterator[Room]:
    """A room with the categories `gym` and `work`, waking and all."""
    room = await open_room(
        path,
        clock=clock or FakeClock(),
        vault=vault or MemoryVault(),
        gateway=gateway or FakeGateway(),
        secrets=secrets,
        kinds=kinds,
        database=database,
        approvals=approvals,
    )
    try:
        yield room
    finally:
        await room.close()


async def open_room(
    path: Path,
    *,
    clock: FakeClock,
    vault: MemoryVault,
    gateway: ProviderGateway,
    secrets: SecretProvider | None = None,
    kinds: Path | None = None,
    database: type[SqliteDatabase] = SqliteDatabase,
    approvals: OwnerApprovals | None = None,
    audit: RecordingAudit | None = None,
) -> Room:
    """The same, for whoever closes it himself."""
    ids, zone, audit = IdFactory(clock), Zone(), audit or RecordingAudit()
    agent_db = await _migrated(database, path / "agent.db", "agent", clock)
    journal_db = await _migrated(database, path / "journal.db", "journal", clock)
    runtime_db = await _migrated(database, path / "silas.db", "runtime", clock)
    store = CompanionStore(agent_db, clock=clock, ids=ids, host_id="host-a")
    journal = await Journal.open(journal_db, clock=clock, ids=ids)
    queue = QueueStore(runtime_db, clock=clock, ids=ids, holder="here", bus=Bus(poll_seconds=0.01))
    keys = owners_keys(vault, clock=clock)
    engine = approval_engine(runtime_db, keys, audit=audit, clock=clock, ids=ids)
    owner = OwnerApprovals(engine) if approvals is None else approvals.with_engine(engine)
    hands = make_hands(
        store,
        journal,
        gateway=gateway,
        approvals=owner,
        secrets=secrets,
        time_zone=zone.time_zone,
        audit=audit,
    )
    waking = make_waking(store, journal, queue=queue, runs=hands.workflow, zone=zone)
    await waking.orchestrator.start()
    room = Room(
        path=path,
        clock=clock,
        vault=vault,
        agent_db=agent_db,
        journal_db=journal_db,
        runtime_db=runtime_db,
        store=store,
        journal=journal,
        queue=queue,
        approvals=owner,
        gateway=gateway,
        hands=hands,
        waking=waking,
        desk=CompanionDesk(
            store,
            journal,
            hands,
            lifecycle=waking.lifecycle,
            worker=waking.worker,
            library=KindLibrary(kinds),
            audit=audit,
        ),
        audit=audit,
        zone=zone,
    )
    await room.furnish()
    return room


async def _migrated(
    database: type[SqliteDatabase], path: Path, schema: str, clock: FakeClock
) -> SqliteDatabase:
    opened = database.open(path)
    await migrate(opened, load_migrations(schema), clock=clock)
    return opened


async def restarted(room: Room, **more: Any) -> Room:
    """The same files, opened again by a new process; what the old one held in memory is gone."""
    await room.close()
    fresh = await open_room(
        room.path,
        clock=room.clock,
        vault=room.vault,
        gateway=room.gateway,
        approvals=room.approvals,
        audit=room.audit,  # what is in the log outlives a process
        **more,
    )
    await fresh.queue.recover(alive=lambda holder: False)
    await fresh.waking.dispatch.recover()
    await fresh.desk.recover()
    return fresh
