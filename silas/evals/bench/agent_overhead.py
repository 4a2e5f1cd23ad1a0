"""The line *agent overhead*: a run with one tool through the whole chain, beside a bare one.

Both read the same file with the same executor. Ours goes through the chain and the real runtime:
review, envelope, what the approval covers, and the ledger on disk, before and after the call.
"""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.toolsets import FunctionToolset

from silas.agents.executor import ExecutorAgent
from silas.agents.models.factory import RoleModel
from silas.agents.models.roles import OutputMode, Role
from silas.evals.bench.desk import open_desk
from silas.evals.bench.measure import Line, medians, milliseconds
from silas.evals.bench.work_loop import workbench
from silas.sandbox import SandboxConfig
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.work import ExecutionEnvelope, ExecutorAgentOutput, WorkItem
from silas.work.executors.read_file import ReadFileExecutor
from silas.work.ports import AgentLimits, AgentRun, Briefing
from silas.work.seen import Seen
from silas.work.toolcalls import AttemptTools
from silas.work.workbench import Workbench
from silas.work.workspaces import AttemptWorkspace

_REPEAT, _GOAL = 300, 1.25  # single runs in turn: a noisy moment hits both
_PROMPT = "Read the file."
_LIMITS = AgentLimits(tokens=1_000_000, cost_usd=1.0, seconds=600.0)


async def measure(folder: Path) -> list[Line]:
    """The ratio of both medians."""
    async with open_desk(folder) as desk:
        bench = workbench(desk, folder, BubblewrapBackend())
        files = await _attempt(bench)
        (files.directory / "a.txt").write_text("text\n")
        used, now = files.item.budget_used, bench.clock.monotonic()
        tools = AttemptTools(bench, files, [], used, now, Seen(files.item))
        bare, ours = _bare(files), ExecutorAgent(_player(), allowed=frozenset({"read_file"}))
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


async def _attempt(bench: Workbench) -> AttemptWorkspace:
    item = WorkItem.model_validate({"id": "t", "type": "task", "title": "T", "body": _PROMPT})
    await bench.items.save(item)
    item = await bench.attempts.start("t", runner=bench.runner)
    return bench.workspaces.open_attempt(item, 1, {})


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


def _bare(files: AttemptWorkspace) -> Agent[None, ExecutorAgentOutput]:
    executor = ReadFileExecutor()
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
