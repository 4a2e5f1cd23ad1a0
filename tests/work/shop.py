"""A whole workshop for the tests: real stores, real approvals, the real sandbox."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from silas.approval import ApprovalDecision, ApprovalScope, ApprovalVerdict
from silas.approval.ports import KeyVault
from silas.audit import AuditLog
from silas.kernel import Clock, IdFactory
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.storage import SqliteDatabase, Transaction
from silas.testing import FakeClock, MemoryVault, RecordingAudit
from silas.testing.approvals import approval_engine, owners_keys
from silas.work import (
    ArtifactStore,
    AttemptStore,
    Plan,
    ToolLedger,
    WorkItem,
    WorkItemResult,
    WorkItemStore,
)
from silas.work.binding import bind_plan
from silas.work.control import WorkControl
from silas.work.executor import WorkItemExecutor
from silas.work.executors import ExecutorRegistry, core_tools
from silas.work.paused import PausedRuns
from silas.work.ports import Briefing, ExecutorAgent, ToolCaller
from silas.work.runners import this_runner
from silas.work.script_worker import ScriptWorker
from silas.work.verification import VerificationRunner
from silas.work.workbench import Workbench
from silas.work.workspaces import Workspaces

YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)


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

    async def write_checkpoint(self) -> str:
        return await self._log.write_checkpoint()

    async def proven_since(
        self, moment: datetime, events: Collection[str], *, about: str
    ) -> list[Any]:
        return await self._log.proven_since(moment, events, about=about)


class Shop:
    """Everything that work needs, on one database."""

    def __init__(
        self, database: SqliteDatabase, clock: Clock, root: Path, vault: KeyVault | None = None
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
        self.bench = Workbench(
            items=items,
            attempts=attempts,
            ledger=ToolLedger(database, clock),
            artifacts=ArtifactStore(database, root / "artifacts", clock=clock),
            workspaces=Workspaces(root / "work"),
            control=WorkControl(
                items, attempts, audit=self.audit, clock=clock, approvals=self.engine
            ),
            registry=ExecutorRegistry(core_tools(sandbox)),
            verification=VerificationRunner(sandbox, verify_dir=root / "verify", clock=clock),
            approvals=self.engine,
            audit=self.audit,
            clock=clock,
            ids=ids,
            runner=this_runner(),
            agent=ScriptWorker(),
            paused=PausedRuns(database, clock=clock, ids=ids, signer=keys, audit=self.audit),
        )

    @property
    def clock(self) -> FakeClock:
        assert isinstance(self._clock, FakeClock)
        return self._clock

    def having(self, **changes: Any) -> "Shop":
        """The same shop, otherwise equipped."""
        self.bench = replace(self.bench, **changes)
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
        bound = await bind_plan(plan, base=self.root, skills=self.bench.skills)
        stored = await self.bench.items.save_plan(bound)
        return [await self.approve(item) for item in stored]

    async def execute(self, item: WorkItem) -> WorkItemResult:
        return await WorkItemExecutor(self.bench).execute(item)

    async def run(self, item: WorkItem, worker: ExecutorAgent | None = None) -> WorkItemResult:
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
