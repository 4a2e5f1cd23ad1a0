"""Owners, models and secrets for companions, under the control of a test.

`CompanionDevice` has everything real: three databases, approvals, waking, tools, the service.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from silas.app.companions import CompanionServices, build_companions
from silas.approval import (
    ApprovalDecision,
    ApprovalEngine,
    ApprovalScope,
    ApprovalToken,
    ApprovalVerdict,
)
from silas.companions.erasure import ErasedElsewhere
from silas.companions.kinds.offline import OfflineBrain
from silas.companions.lifecycle import Lifecycle
from silas.companions.messages import PolicyDecisions
from silas.companions.models import WakeReason
from silas.companions.operations import ActionApprovals
from silas.companions.ports import (
    ApprovableAction,
    CompanionModel,
    CompanionProposal,
    CompanionRequest,
    ModelDestination,
    ProviderGateway,
)
from silas.companions.service import CompanionService
from silas.companions.store import CompanionStore
from silas.companions.tools.executor import CallGates, ToolExecutor
from silas.companions.tools.registry import AgentAccessScope, AgentToolCall, AgentToolResult
from silas.gates.runner import GateRunner
from silas.journal import operations
from silas.journal.models import OWNER, Task, TaskStatus
from silas.journal.store import Journal, Outcome
from silas.kernel import IdFactory, TaintLevel
from silas.queue import Bus, QueueName, QueueStore
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock, MemoryVault
from silas.testing.fakes import RecordingAudit, approval_engine, owners_keys, with_schema

OFFLINE = ModelDestination(provider="offline", model="brain")


class UnsafeNoGates(CallGates):
    """`CallGates` that lets every write pass: for tests that are about something else."""

    def __init__(self) -> None:
        super().__init__((), GateRunner({}, RecordingAudit()))


class OwnerApprovals(ActionApprovals):
    """The real engine without cards: the test decides."""

    engine: ApprovalEngine

    def __init__(self, engine: ApprovalEngine) -> None:
        self.engine = engine
        self.asked: dict[str, ApprovableAction] = {}
        self.taints: dict[str, TaintLevel] = {}
        self.times_asked = 0
        self._tokens: dict[str, ApprovalToken] = {}
        self._declined: set[str] = set()
        self.withdrawn: list[str] = []

    def with_engine(self, engine: ApprovalEngine) -> Self:
        """The same owner before another process's engine."""
        self.engine = engine
        return self

    async def ask(self, action: ApprovableAction, call: AgentToolCall) -> None:
        self.times_asked += 1
        self.taints.setdefault(action.operation_id, call.taint)
        self.asked.setdefault(action.operation_id, action)

    async def approve(self, operation_id: str) -> ApprovalToken:
        """The owner says yes to what was shown."""
        token = await self.engine.issue_token(
            self.asked[operation_id],
            ApprovalDecision(verdict=ApprovalVerdict.APPROVED),
            ApprovalScope.SINGLE_STEP,
        )
        self._tokens[operation_id] = token
        return token

    def decline(self, operation_id: str) -> None:
        """The owner says no."""
        self._declined.add(operation_id)

    async def token_for(self, action: ApprovableAction) -> ApprovalToken | None:
        return self._tokens.get(action.operation_id)

    async def declined(self, action: ApprovableAction) -> bool:
        return action.operation_id in self._declined

    async def withdraw(self, agent_id: str) -> None:
        self.withdrawn.append(agent_id)

    async def forget(self, about: ErasedElsewhere) -> Mapping[str, int]:
        if not about.really:
            return {}
        gone = [
            each for each, shown in self.asked.items() if about.fits(shown.plan_bytes().decode())
        ]
        for each in gone:
            del self.asked[each]
        tokens = await self.engine.tokens.forget_shown(about.fits_action, reason="gone")
        return {"cards": len(gone), "approved bytes": tokens}


class ScriptedModel:
    """`CompanionModel` that answers as a test says, and remembers what it was asked."""

    def __init__(
        self, *answers: CompanionProposal | Callable[[CompanionRequest], CompanionProposal]
    ) -> None:
        self._answers = list(answers)
        self.requests: list[CompanionRequest] = []

    async def propose(self, request: CompanionRequest) -> CompanionProposal:
        self.requests.append(request)
        if not self._answers:
            return CompanionProposal()
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return answer(request) if callable(answer) else answer


class FakeGateway:
    """`ProviderGateway` with the destinations that a test names; without a name, offline."""

    def __init__(
        self, model: CompanionModel | None = None, *destinations: ModelDestination
    ) -> None:
        self._model = model
        self._known = {each.model_id: each for each in destinations}
        self.sent: list[tuple[ModelDestination, CompanionRequest]] = []

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._known))

    def destination(self, model_id: str | None) -> ModelDestination | None:
        return OFFLINE if model_id is None else self._known.get(model_id)

    async def propose(
        self, destination: ModelDestination, request: CompanionRequest
    ) -> CompanionProposal:
        if not destination.local:
            self.sent.append((destination, request))
        model = self._model or OfflineBrain()
        return await model.propose(request)


class FakeSecrets:
    """`SecretAvailable` for these names."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    def available(self, secret_ref_id: str) -> bool:
        return secret_ref_id in self.names


BY_OWNER: Any = {"scope": OWNER, "actor": "owner"}


@dataclass
class OwnerZone:
    """Where the owner is, as the test says."""

    name: str = "Europe/Berlin"

    def time_zone(self) -> str:
        return self.name


@dataclass
class CompanionDevice:
    """One device. `restarted` opens the same files again, as after a crash."""

    path: Path
    clock: FakeClock
    vault: MemoryVault
    agent_db: SqliteDatabase
    journal_db: SqliteDatabase
    runtime_db: SqliteDatabase
    journal: Journal
    queue: QueueStore
    approvals: OwnerApprovals
    gateway: ProviderGateway
    companions: CompanionServices
    audit: RecordingAudit
    zone: OwnerZone
    categories: dict[str, str] = field(default_factory=dict)

    @property
    def store(self) -> CompanionStore:
        return self.companions.store

    @property
    def service(self) -> CompanionService:
        return self.companions.service

    @property
    def lifecycle(self) -> Lifecycle:
        return self.companions.lifecycle

    @property
    def executor(self) -> ToolExecutor:
        return self.companions.executor

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
            handled = await self.companions.worker(lease)
            await self.queue.finish(lease, consumer="companion", messages=handled.messages)
            keys.append(lease.message.trace_id)
        return keys

    async def call(self, agent_id: str, tool: str, /, **arguments: Any) -> AgentToolResult:
        """One call of a companion's, with the operation id `op` unless another is given."""
        return await self.executor.execute(
            self.tool_call(agent_id, tool, **arguments), decisions=PolicyDecisions()
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
        self.companions.orchestrator.stop()
        await self.journal.settled()
        for database in (self.agent_db, self.journal_db, self.runtime_db):
            await database.close()


@asynccontextmanager
async def opened_device(
    path: Path,
    *,
    clock: FakeClock | None = None,
    vault: MemoryVault | None = None,
    gateway: ProviderGateway | None = None,
    secrets: FakeSecrets | None = None,
    kinds: Path | None = None,
    database: type[SqliteDatabase] = SqliteDatabase,
    approvals: OwnerApprovals | None = None,
) -> AsyncIterator[CompanionDevice]:
    """A device with the categories `gym` and `work`, waking and all."""
    device = await open_device(
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
        yield device
    finally:
        await device.close()


async def open_device(
    path: Path,
    *,
    clock: FakeClock,
    vault: MemoryVault,
    gateway: ProviderGateway,
    secrets: FakeSecrets | None = None,
    kinds: Path | None = None,
    database: type[SqliteDatabase] = SqliteDatabase,
    approvals: OwnerApprovals | None = None,
    audit: RecordingAudit | None = None,
) -> CompanionDevice:
    """The same, for whoever closes it himself."""
    ids, zone, audit = IdFactory(clock), OwnerZone(), audit or RecordingAudit()
    agent_db = await _migrated(database, path / "agent.db", "agent", clock)
    journal_db = await _migrated(database, path / "journal.db", "journal", clock)
    runtime_db = await _migrated(database, path / "silas.db", "runtime", clock)
    store = CompanionStore(agent_db, clock=clock, ids=ids, host_id="host-a")
    journal = await Journal.open(journal_db, clock=clock, ids=ids)
    queue = QueueStore(runtime_db, clock=clock, ids=ids, holder="here", bus=Bus(poll_seconds=0.01))
    keys = owners_keys(vault, clock=clock)
    engine = approval_engine(runtime_db, keys, audit=audit, clock=clock, ids=ids)
    owner = OwnerApprovals(engine) if approvals is None else approvals.with_engine(engine)
    companions = build_companions(
        store,
        journal,
        queue=queue,
        gateway=gateway,
        approvals=owner,
        secret_available=secrets.available if secrets is not None else None,
        time_zone=zone.time_zone,
        gates=UnsafeNoGates(),
        audit=audit,
        talked=None,
        kinds=kinds,
    )
    await companions.orchestrator.start()
    device = CompanionDevice(
        path=path,
        clock=clock,
        vault=vault,
        agent_db=agent_db,
        journal_db=journal_db,
        runtime_db=runtime_db,
        journal=journal,
        queue=queue,
        approvals=owner,
        gateway=gateway,
        companions=companions,
        audit=audit,
        zone=zone,
    )
    await device.furnish()
    return device


async def _migrated(
    database: type[SqliteDatabase], path: Path, schema: str, clock: FakeClock
) -> SqliteDatabase:
    opened = database.open(with_schema(path, schema))
    await migrate(opened, load_migrations(schema), clock=clock)
    return opened


async def restarted(device: CompanionDevice, **more: Any) -> CompanionDevice:
    """The same files, opened again by a new process; what the old one held in memory is gone."""
    await device.close()
    fresh = await open_device(
        device.path,
        clock=device.clock,
        vault=device.vault,
        gateway=device.gateway,
        approvals=device.approvals,
        audit=device.audit,  # what is in the log outlives a process
        **more,
    )
    await fresh.queue.recover(alive=lambda holder: False)
    await fresh.companions.dispatch.recover()
    await fresh.service.recover()
    return fresh
