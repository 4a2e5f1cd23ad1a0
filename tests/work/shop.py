"""A whole workshop for the tests: real stores, real approvals, the real sandbox."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from silas.approval import ApprovalDecision, ApprovalScope, ApprovalVerdict
from silas.audit import AuditLog
from silas.audit.models import ExaminedLog, Proven
from silas.kernel import Clock, IdFactory
from silas.review import Decisions
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.secrets.vault import Vault
from silas.storage import SqliteDatabase, Transaction
from silas.testing import FakeClock, MemoryVault, RecordingAudit
from silas.testing.fakes import approval_engine, owners_keys
from silas.testing.work import FakeApprover, UnsafeNoRateLimit, UnsafeOwnerTaint
from silas.tools import core_tools
from silas.tools.declaration import ToolRegistry
from silas.tools.files import restore_tool
from silas.work import (
    ArtifactStore,
    AttemptStore,
    Plan,
    ToolLedger,
    WorkItem,
    WorkItemResult,
    WorkItemStore,
)
from silas.work.attempt_store import this_runner
from silas.work.before_images import BeforeImages
from silas.work.binding import bind_plan
from silas.work.control import WorkControl
from silas.work.execution_context import ExecutionContext, RunLimits
from silas.work.executor import WorkItemExecutor
from silas.work.ledger import CallUndos
from silas.work.off_limits import OffLimits
from silas.work.origins import OriginStore
from silas.work.paused import PausedRuns
from silas.work.ports import AttemptWorker, Briefing, ToolCaller
from silas.work.script import ScriptWorker
from silas.work.verification import VerificationRunner
from silas.work.workspaces import Workspaces

YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)

OFF_LIMITS = OffLimits(home=Path.home(), own=())
"""What no test may work on either."""


class HeardAudit(RecordingAudit):
    """The real log, which also keeps its entries in a list."""

    def __init__(self, log: AuditLog) -> None:
        super().__init__()
        self._log = log

    def append(self, tx: Transaction, event: str, data: Mapping[str, Any]) -> str:
        super().append(tx, event, data)
        return self._log.append(tx, event, data)

    async def log(self, event: str, /, **data: Any) -> str:
        await super().log(event, **data)
        return await self._log.log(event, **data)

    async def write_checkpoint(self, examined: ExaminedLog | None = None) -> str:
        return await self._log.write_checkpoint(examined)

    async def proven_since(
        self, moment: datetime, events: Collection[str], *, about: str
    ) -> Proven:
        return await self._log.proven_since(moment, events, about=about)


class Shop:
    """Everything that work needs, on one database."""

    def __init__(
        self, database: SqliteDatabase, clock: Clock, root: Path, vault: Vault | None = None
    ) -> None:
        self._clock = clock
        self.root = root
        ids = IdFactory(clock)
        keys = owners_keys(vault or MemoryVault(), clock=clock)
        log = AuditLog(
            database, clock=clock, ids=ids, signer=keys, verifier=keys, witness=root / "witness"
        )
        self.audit = HeardAudit(log)
        self.engine = approval_engine(database, keys, audit=self.audit, clock=clock, ids=ids)
        items, attempts = WorkItemStore(database, clock), AttemptStore(database, clock, self.audit)
        sandbox = BubblewrapBackend()
        images = BeforeImages(database, clock, root / "before")
        self.bench = ExecutionContext(
            items=items,
            attempts=attempts,
            ledger=ToolLedger(database, clock),
            undos=CallUndos(database, clock, keys, timedelta(minutes=5)),
            artifacts=ArtifactStore(database, root / "artifacts", clock=clock),
            workspaces=Workspaces(root / "work", sandbox=sandbox, off_limits=OFF_LIMITS),
            control=WorkControl(
                database,
                items,
                attempts,
                audit=self.audit,
                clock=clock,
                approvals=self.engine,
            ),
            registry=ToolRegistry([*core_tools(sandbox), restore_tool(images.content_for)]),
            images=images,
            verification=VerificationRunner(sandbox, verify_dir=root / "verify", clock=clock),
            approvals=self.engine,
            decisions=Decisions(
                database, keys, approvals=self.engine, audit=self.audit, clock=clock
            ),
            audit=self.audit,
            clock=clock,
            ids=ids,
            runner=this_runner(),
            taint_of=UnsafeOwnerTaint(),
            origins=OriginStore(database, clock),
            system_gates=(),
            limits=RunLimits(too_often=UnsafeNoRateLimit()),
            agent=ScriptWorker(),
            paused=PausedRuns(database, clock=clock, ids=ids, keys=keys, audit=self.audit),
        )

    @property
    def clock(self) -> FakeClock:
        assert isinstance(self._clock, FakeClock)
        return self._clock

    def having(self, **changes: Any) -> "Shop":
        """The same shop, otherwise equipped."""
        self.bench = replace(self.bench, **changes)
        if isinstance(self.bench.approver, FakeApprover):
            self.bench.approver.decisions = self.bench.decisions
        return self

    async def approve(
        self, item: WorkItem, scope: ApprovalScope = ApprovalScope.FULL_PLAN
    ) -> WorkItem:
        """What the owner's yes leads to: issued, verified, attached, stored."""
        token = await self.engine.issue_token(item, YES, scope)
        if scope is not ApprovalScope.STANDING:
            assert await self.engine.verify(token, item) == (True, "Valid")
        approved = item.model_copy(update={"approval_token": token})
        return await self.bench.items.save(approved)

    async def approve_plan(self, plan: Plan) -> list[WorkItem]:
        bound = await bind_plan(
            plan, base=self.root, off_limits=OFF_LIMITS, skills=self.bench.skills
        )
        stored = await self.bench.items.save_plan(bound)
        return [await self.approve(item) for item in stored]

    async def execute(self, item: WorkItem) -> WorkItemResult:
        return await WorkItemExecutor(self.bench).execute(item)

    async def run(self, item: WorkItem, worker: AttemptWorker | None = None) -> WorkItemResult:
        """Bind, approve and execute one item."""
        if worker is not None:
            self.having(agent=worker)
        (approved,) = await self.approve_plan(Plan(item))
        return await self.execute(approved)

    def reasons(self, event: str) -> list[str]:
        """What the audit log says why."""
        return [data["reason"] for name, data in self.audit.entries if name == event]


def task(body: str = "Do it.", *, verify: Sequence[Any] = (), **more: Any) -> WorkItem:
    fields = {"id": "t1", "type": "task", "title": "T", "body": body, "verify": list(verify)}
    return WorkItem.model_validate({**fields, **more})


def check(run: str, *, name: str = "check", **expect: Any) -> dict[str, Any]:
    more = {key: expect.pop(key) for key in ("timeout", "network") if key in expect}
    return {"name": name, "run": run, "expect": expect or {"exit_code": 0}, **more}


def writes(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "write_file", {"path": path, "content": content}


def calls(*wanted: tuple[str, dict[str, Any]]) -> Any:
    """Work for a `FakeWorker`: these calls, one after the other, whatever they answer."""

    async def work(_briefing: Briefing, tools: ToolCaller) -> None:
        for tool, args in wanted:
            await tools.call(tool, args)

    return work


def shell(*argv: str) -> tuple[str, dict[str, Any]]:
    return "shell_exec", {"argv": list(argv)}


def script(text: str) -> tuple[str, dict[str, Any]]:
    """A shell script that a worker writes and runs: in its own sandbox it may do that."""
    return "shell_exec", {"argv": ["/bin/sh", "-c", text]}
