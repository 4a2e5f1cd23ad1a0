"""The workshop, wired: everything that executes work, on one ground floor."""

from dataclasses import dataclass
from pathlib import Path

from silas.app.gates import open_gates
from silas.app.ground import Ground
from silas.app.settings import Settings
from silas.app.work import work_stores
from silas.gates import Gate
from silas.sandbox import BackendChoice, OutputListener, SandboxRequest, SandboxResult, all_backends
from silas.stream.store import ConversationStore
from silas.work.before_images import BeforeImages
from silas.work.control import WorkControl
from silas.work.executor import WorkItemExecutor
from silas.work.executors import ExecutorRegistry, Tool, core_tools
from silas.work.executors.search_providers import make_provider
from silas.work.executors.web_search import SearchLimits
from silas.work.paused import PausedRuns
from silas.work.ports import (
    Approver,
    ExecutorAgent,
    GateRunner,
    Planner,
    Progress,
    SandboxRunner,
    SkillFiles,
)
from silas.work.script_worker import ScriptWorker
from silas.work.verification import VerificationRunner
from silas.work.workbench import Workbench, silent
from silas.work.workspaces import Workspaces

_IN_A_RUN = ("on_tool_call", "after_step")


@dataclass(frozen=True)
class ChosenSandbox:
    """`SandboxRunner` of the backend that the settings name, found out when it is first needed."""

    choice: BackendChoice
    backend: str

    async def run(
        self, request: SandboxRequest, *, on_output: OutputListener | None = None
    ) -> SandboxResult:
        backend = await self.choice.choose(self.backend)
        return await backend.run(request, on_output=on_output)


def open_workshop(
    ground: Ground,
    *,
    agent: ExecutorAgent | None = None,
    gates: GateRunner | None = None,
    planner: Planner | None = None,
    approver: Approver | None = None,
    skills: SkillFiles | None = None,
    progress: Progress = silent,
) -> WorkItemExecutor:
    """The executor of this ground floor; without an agent, plans must say what is to be run.

    Gates are evaluated by the runner that is given, or by the ground floor's own.
    """
    settings, clock = ground.settings, ground.clock
    stores, sandbox = work_stores(ground), ground.machine.sandbox or _sandbox(ground)
    bench = Workbench(
        items=stores.items,
        attempts=stores.attempts,
        ledger=stores.ledger,
        artifacts=stores.artifacts,
        workspaces=Workspaces(ground.paths.data_dir / "work", off_limits=(ground.paths.data_dir,)),
        control=control_of(ground),
        registry=ExecutorRegistry(_tools(settings, sandbox)),
        verification=_verification(ground, sandbox),
        approvals=ground.approvals,
        audit=ground.audit,
        clock=clock,
        ids=ground.ids,
        runner=ground.machine.runner,
        agent=agent or ScriptWorker(),
        gates=gates or open_gates(ground),
        planner=planner,
        approver=approver,
        paused=_paused_runs(ground),
        images=BeforeImages(ground.database, clock),
        skills=skills,
        system_gates=_system_gates(settings),
        memory_mb=settings.sandbox.default_memory_mb,
        cpu_seconds=settings.sandbox.default_cpu_seconds,
        progress=progress,
        # However the work is started: also by `silas work resume`.
        taint_of=ConversationStore(ground.database, clock).taint_of,
    )
    return WorkItemExecutor(bench)


def control_of(ground: Ground) -> WorkControl:
    """Cancel, pause and resume, also for work that another process runs."""
    stores = work_stores(ground)
    return WorkControl(
        stores.items,
        stores.attempts,
        audit=ground.audit,
        clock=ground.clock,
        approvals=ground.approvals,
    )


def _sandbox(ground: Ground) -> ChosenSandbox:
    settings = ground.settings.sandbox
    backends = all_backends(clock=ground.clock, image=settings.base_image)
    return ChosenSandbox(BackendChoice(backends), settings.backend)


def _verification(ground: Ground, sandbox: SandboxRunner) -> VerificationRunner:
    settings = ground.settings.sandbox
    return VerificationRunner(
        sandbox,
        verify_dir=Path(settings.verify_dir),
        clock=ground.clock,
        memory_mb=settings.default_memory_mb,
    )


def _paused_runs(ground: Ground) -> PausedRuns:
    return PausedRuns(
        ground.database,
        clock=ground.clock,
        ids=ground.ids,
        signer=ground.keys,
        audit=ground.audit,
    )


def _tools(settings: Settings, sandbox: SandboxRunner) -> list[Tool]:
    search = settings.search
    key = search.api_key.get_secret_value() if search.api_key else None
    return core_tools(
        sandbox,
        search=make_provider(search.provider, key),
        search_limits=SearchLimits(
            seconds=search.timeout_seconds,
            max_results=search.max_results,
            max_query_chars=search.max_query_chars,
            allowed_domains=search.allowed_domains,
        ),
    )


def _system_gates(settings: Settings) -> list[Gate]:
    """The gates of the configuration that look at what happens in a run."""
    return [gate for gate in settings.gates.system if gate.on in _IN_A_RUN]
