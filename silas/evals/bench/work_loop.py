"""The line *work loop*: an approved task of one command and one check, above its two sandboxes."""

import time
from pathlib import Path

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.evals.bench.desk import Desk, open_desk
from silas.evals.bench.measure import Line, medians, milliseconds
from silas.kernel import IdFactory, SystemClock
from silas.sandbox import SandboxRequest
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.work import ArtifactStore, AttemptStore, ToolLedger, WorkItem, WorkItemStatus
from silas.work.authorisation import authorise
from silas.work.control import WorkControl
from silas.work.executor import WorkItemExecutor
from silas.work.executors import ExecutorRegistry, core_tools
from silas.work.runners import this_runner
from silas.work.script_worker import ScriptWorker
from silas.work.store import WorkItemStore
from silas.work.verification import VerificationRunner
from silas.work.workbench import Workbench
from silas.work.workspaces import Workspaces

_ROUNDS = 25
_GOAL_MS = 15.0
_YES = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
_CHECK = {"name": "done", "run": "true", "expect": {"exit_code": 0}}


async def measure(folder: Path) -> list[Line]:
    """What a task takes beyond two sandbox starts with the same paths."""
    sandbox = BubblewrapBackend()
    async with open_desk(folder) as desk:
        executor = WorkItemExecutor(workbench(desk, folder, sandbox))
        tasks = iter([await _approved(executor, number) for number in range(_ROUNDS)])

        async def task() -> float:
            item = next(tasks)
            begun = time.perf_counter()
            result = await executor.execute(item)
            seconds = time.perf_counter() - begun
            if result.status is not WorkItemStatus.DONE:
                raise RuntimeError(f"the task is {result.status.value}: {result.last_error}")
            return seconds

        got = await medians(
            {"task": task, "sandboxes": lambda: _two_starts(folder, sandbox)}, repeat=_ROUNDS
        )
    overhead = (got["task"] - got["sandboxes"]) * 1000
    return [
        Line(
            "work loop",
            "above two sandbox starts, in ms",
            milliseconds(got["task"]),
            f"two sandboxes {milliseconds(got['sandboxes'])}",
            overhead,
            _GOAL_MS,
            at_least=False,
        )
    ]


async def _approved(executor: WorkItemExecutor, number: int) -> WorkItem:
    item = WorkItem.model_validate(
        {
            "id": f"task-{number}",
            "type": "task",
            "title": "One command",
            "body": "```run\ntrue\n```",
            "verify": [_CHECK],
        }
    )
    bench = executor.bench
    return await authorise(bench, await bench.items.save(item), _YES)


async def _two_starts(folder: Path, sandbox: BubblewrapBackend) -> float:
    worked, checked = folder / "worked", folder / "checked"
    for path in (worked, checked):
        path.mkdir(exist_ok=True)
    command = SandboxRequest(argv=("true",), cwd=str(worked), write=(str(worked),))
    check = SandboxRequest(
        argv=("/bin/sh", "-c", "true"),
        cwd=str(worked),
        read=(str(worked),),
        write=(str(checked),),
    )
    begun = time.perf_counter()
    for request in (command, check):
        await sandbox.run(request)
    return time.perf_counter() - begun


def workbench(desk: Desk, folder: Path, sandbox: BubblewrapBackend) -> Workbench:
    """A workbench with everything real, whose worker needs no model."""
    clock, database = SystemClock(), desk.database
    items = WorkItemStore(database, clock)
    attempts = AttemptStore(database, clock, desk.audit)
    return Workbench(
        items=items,
        attempts=attempts,
        ledger=ToolLedger(database, clock),
        artifacts=ArtifactStore(database, folder / "artifacts", clock=clock),
        workspaces=Workspaces(folder / "work"),
        control=WorkControl(items, attempts, audit=desk.audit, clock=clock, approvals=desk.engine),
        registry=ExecutorRegistry(core_tools(sandbox)),
        verification=VerificationRunner(sandbox, verify_dir=folder / "verify", clock=clock),
        approvals=desk.engine,
        audit=desk.audit,
        clock=clock,
        ids=IdFactory(clock),
        runner=this_runner(),
        agent=ScriptWorker(),
    )
