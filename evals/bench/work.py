"""The lines *work loop*, *sandbox start* and *agent overhead*.

*work loop* is an approved task of one command and one check, above its two sandboxes; *sandbox
start* is `true`, contained by us and by the bare tools with the same options; *agent overhead* is a
run with one tool through the whole chain, beside a bare one. There both read the same file with the
same executor; ours goes through the chain and the real runtime: review, envelope, what the approval
covers, and the ledger on disk, before and after the call.
"""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import FunctionToolset

from evals.bench.measure import Line, Round, TrustStores, medians, milliseconds, open_trust
from silas.agents.executor import ExecutorAgent
from silas.agents.models.choices import OutputMode, Role
from silas.agents.models.factory import RoleModel
from silas.kernel import IdFactory, SystemClock, TaintLevel
from silas.sandbox import SandboxBackend, SandboxConfig, SandboxRequest
from silas.sandbox.bubblewrap import BubblewrapBackend, SubprocessBackend, file_system, isolation
from silas.sandbox.models import UNSAFE_NO_BOUNDARY
from silas.testing.work import UnsafeNoRateLimit, UnsafeOwnerTaint, authorise_with_vault
from silas.tools import core_tools
from silas.tools.declaration import ToolRegistry
from silas.tools.execution import ExecutionEnvelope
from silas.tools.files import file_tools
from silas.work import ArtifactStore, AttemptStore, ToolLedger, WorkItem
from silas.work.attempt_store import this_runner
from silas.work.before_images import BeforeImages
from silas.work.control import WorkControl
from silas.work.execution_context import ExecutionContext, RunLimits
from silas.work.executor import WorkItemExecutor
from silas.work.ledger import CallUndos
from silas.work.models import ENDED_WELL
from silas.work.off_limits import OffLimits
from silas.work.origins import OriginStore
from silas.work.ports import AgentLimits, AgentRun, Briefing, ExecutorAgentOutput
from silas.work.provenance import RunTaint
from silas.work.script import ScriptWorker
from silas.work.store import WorkItemStore
from silas.work.tool_calls import AttemptTools
from silas.work.verification import VerificationRunner
from silas.work.workspaces import AttemptWorkspace, Workspaces

_WORK_LOOP_ROUNDS = 25
_GOAL_MS = 15.0
_CHECK = {"name": "done", "run": "true", "expect": {"exit_code": 0}}


async def measure_work_loop(folder: Path) -> list[Line]:
    """What a task takes beyond two sandbox starts with the same paths."""
    sandbox = BubblewrapBackend()
    async with open_trust(folder) as trust:
        executor = WorkItemExecutor(workbench(trust, folder, sandbox))
        tasks = iter([await _approved(executor, number) for number in range(_WORK_LOOP_ROUNDS)])

        async def task() -> float:
            item = next(tasks)
            begun = time.perf_counter()
            result = await executor.execute(item)
            seconds = time.perf_counter() - begun
            if result.status not in ENDED_WELL:
                raise RuntimeError(f"the task is {result.status.value}: {result.last_error}")
            return seconds

        got = await medians(
            {"task": task, "sandboxes": lambda: _two_starts(folder, sandbox)},
            repeat=_WORK_LOOP_ROUNDS,
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
    bench = executor.context
    return await authorise_with_vault(bench, await bench.items.save(item))


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


def workbench(trust: TrustStores, folder: Path, sandbox: BubblewrapBackend) -> ExecutionContext:
    """A workbench with everything real, whose worker needs no model."""
    clock, database = SystemClock(), trust.database
    items = WorkItemStore(database, clock)
    attempts = AttemptStore(database, clock, trust.audit)
    return ExecutionContext(
        items=items,
        attempts=attempts,
        ledger=ToolLedger(database, clock),
        undos=CallUndos(database, clock, trust.keys, timedelta(minutes=5)),
        artifacts=ArtifactStore(database, folder / "artifacts", clock=clock),
        workspaces=Workspaces(
            folder / "work",
            sandbox=sandbox,
            off_limits=OffLimits(home=Path.home(), own=(folder / "work",)),
        ),
        control=WorkControl(
            database, items, attempts, audit=trust.audit, clock=clock, approvals=trust.engine
        ),
        registry=ToolRegistry(core_tools(sandbox)),
        images=BeforeImages(database, clock, folder / "before"),
        verification=VerificationRunner(sandbox, verify_dir=folder / "verify", clock=clock),
        approvals=trust.engine,
        decisions=trust.decisions,
        audit=trust.audit,
        clock=clock,
        ids=IdFactory(clock),
        runner=this_runner(),
        taint_of=UnsafeOwnerTaint(),
        origins=OriginStore(database, clock),
        system_gates=(),
        limits=RunLimits(too_often=UnsafeNoRateLimit()),
        agent=ScriptWorker(),
    )


_SANDBOX_START_ROUNDS = 40
_TRUE = SandboxRequest(argv=("true",), require=UNSAFE_NO_BOUNDARY)
_UNSHARE = [
    "--user",
    "--net",
    "--ipc",
    "--uts",
    "--pid",
    "--mount",
    "--fork",
    "--mount-proc",
    "--kill-child=KILL",
]


async def measure_sandbox_start(_folder: Path) -> list[Line]:
    """Ratios of each backend that works here to the tool that it is made of."""
    bwrap = shutil.which("bwrap")
    rounds: dict[str, Round] = {"unshare": _sandbox_start_bare(["unshare", *_UNSHARE, "true"])}
    rounds["subprocess"] = await _ours(SubprocessBackend())
    if bwrap is not None:
        options = [
            *isolation(_TRUE, disable_userns=True),
            *file_system(_TRUE, [], [], hidden=()),
        ]
        rounds["bwrap"] = _sandbox_start_bare([bwrap, *options, "--", "true"])
        rounds["bubblewrap"] = await _ours(BubblewrapBackend())
    got = await medians(rounds, repeat=_SANDBOX_START_ROUNDS)
    pairs = [("bubblewrap", "bwrap", 1.2), ("subprocess", "unshare", 1.3)]
    return [
        Line(
            "sandbox start",
            ours,
            milliseconds(got[ours]),
            f"bare {bare} {milliseconds(got[bare])}",
            got[ours] / got[bare],
            goal,
            at_least=False,
        )
        for ours, bare, goal in pairs
        if ours in got
    ]


async def _ours(backend: SandboxBackend) -> Round:
    await backend.run(_TRUE)  # what is found out once is not part of a start

    async def once() -> float:
        begun = time.perf_counter()
        await backend.run(_TRUE)
        return time.perf_counter() - begun

    return once


def _sandbox_start_bare(command: list[str]) -> Round:
    async def once() -> float:
        begun = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={}
        )
        _, said = await process.communicate()
        if process.returncode != 0:
            raise RuntimeError(said.decode())
        return time.perf_counter() - begun

    return once


_REPEAT, _GOAL = 300, 1.25  # single runs in turn: a noisy moment hits both
_PROMPT = "Read the file."
_LIMITS = AgentLimits(tokens=1_000_000, cost_usd=1.0, seconds=600.0)


async def measure_agent_overhead(folder: Path) -> list[Line]:
    """The ratio of both medians."""
    async with open_trust(folder) as trust:
        bench = workbench(trust, folder, BubblewrapBackend())
        files = await _attempt(bench)
        (files.directory / "a.txt").write_text("text\n")
        used, now = files.item.budget_used, bench.clock.monotonic()
        tools = AttemptTools(
            bench, files, [], used, now, RunTaint(files.item, TaintLevel.OWNER, []), made=[]
        )
        bare, ours = (
            _agent_overhead_bare(files),
            ExecutorAgent(_player(), allowed=frozenset({"read_file"})),
        )
        briefing = Briefing(work_item_id="t", attempt=1, instructions=_PROMPT, limits=_LIMITS)

        async def through_the_chain() -> None:
            run = await ours.run(briefing, tools)
            if not isinstance(run, AgentRun) or run.error is not None:
                raise RuntimeError(f"the run did not work: {run}")

        async def without() -> None:
            await bare.run(_PROMPT)

        got = await medians(
            {"chain": lambda: _timed(through_the_chain), "bare": lambda: _timed(without)},
            repeat=_REPEAT,
        )
    return [
        Line(
            "agent overhead",
            "a run with one tool, chain and runtime",
            milliseconds(got["chain"]),
            f"bare Agent.run {milliseconds(got['bare'])}",
            got["chain"] / got["bare"],
            _GOAL,
            at_least=False,
        )
    ]


async def _timed(call: Callable[[], Awaitable[None]]) -> float:
    begun = time.perf_counter()
    await call()
    return time.perf_counter() - begun


async def _attempt(bench: ExecutionContext) -> AttemptWorkspace:
    item = WorkItem.model_validate({"id": "t", "type": "task", "title": "T", "body": _PROMPT})
    await bench.items.save(item)
    item = await bench.attempts.start("t", runner=bench.runner)
    return await bench.workspaces.open_attempt(item, 1, {})


def _model() -> FunctionModel:
    """Calls the tool, then answers."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("read_file", {"path": "a.txt"})])
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"summary": "Done."})])

    return FunctionModel(answer)


def _player() -> RoleModel:
    return RoleModel(
        role=Role.EXECUTOR,
        model=_model(),
        settings=ModelSettings(),
        output_mode=OutputMode.TOOL,
        name="scripted",
    )


def _agent_overhead_bare(files: AttemptWorkspace) -> Agent[None, ExecutorAgentOutput]:
    (executor,) = (each.executor for each in file_tools() if each.name == "read_file")
    config = SandboxConfig(work_dir=str(files.directory))

    async def read_file(path: str) -> str:
        """Read a text file of the workspace."""
        envelope = ExecutionEnvelope(
            execution_id="e",
            step_index=0,
            task_description="T",
            action="read_file",
            args={"path": path},
            sandbox_config=config,
        )
        return (await executor.execute(envelope)).return_value

    toolset = FunctionToolset[None]([read_file])
    return Agent(_model(), output_type=ExecutorAgentOutput, toolsets=[toolset])
