"""What executes work, wired: stores, sandbox, tools, checks and control of one data directory."""

import os
from functools import partial
from pathlib import Path

from silas.app.core import Core
from silas.app.gates import open_gates
from silas.app.review import open_grants, open_questions
from silas.gates.runner import GateRunner
from silas.settings.paths import Paths
from silas.storage.trees import set_aside_in
from silas.stream.reading_tools import TOO_MANY_SEARCHES
from silas.stream.resuming import WorkResumptions
from silas.work.attempt_store import OnStart
from silas.work.control import WorkControl
from silas.work.execution_context import ExecutionContext, Propose, RunLimits, silent
from silas.work.executor import WorkItemExecutor
from silas.work.models import WorkItem
from silas.work.off_limits import OffLimits
from silas.work.paused import PausedRuns
from silas.work.ports import Approver, AttemptWorker, PausedCall, Planner, ProgressListener
from silas.work.recovery import ended_with_files
from silas.work.repository import owner_identity
from silas.work.script import ScriptWorker
from silas.work.verification import VerificationRunner
from silas.work.workspaces import Workspaces

_IN_A_RUN = ("on_tool_call", "after_step")
"""When gates of the configuration look at what happens in a run."""


def open_executor(
    core: Core,
    *,
    agent: AttemptWorker | None = None,
    gates: GateRunner | None = None,
    planner: Planner | None = None,
    approver: Approver | None = None,
    progress: ProgressListener = silent,
    on_start: OnStart | None = None,
    propose: Propose | None = None,
) -> WorkItemExecutor:
    """The executor of this data directory; without an agent, plans must say what is to be run.

    Gates are evaluated by the runner that is given, or by the data directory's own.
    """
    settings, clock, stores = core.settings, core.clock, core.work
    context = ExecutionContext(
        items=stores.items,
        attempts=stores.attempts,
        ledger=stores.ledger,
        undos=stores.undos,
        grants=partial(_granted, core),
        artifacts=stores.artifacts,
        workspaces=_workspaces(core),
        control=control_of(core),
        registry=core.tools,
        verification=VerificationRunner(
            core.sandbox,
            verify_dir=Path(settings.sandbox.verify_dir),
            clock=clock,
            redact=core.redact,
            memory_mb=settings.sandbox.default_memory_mb,
        ),
        approvals=core.approvals,
        decisions=core.decisions,
        audit=core.audit,
        images=stores.images,
        clock=clock,
        ids=core.ids,
        runner=core.machine.runner,
        agent=agent or ScriptWorker(),
        gates=gates or open_gates(core),
        planner=planner,
        approver=approver,
        paused=paused_runs_of(core),
        skills=core.skill_files,
        propose=propose,
        system_gates=[gate for gate in settings.gates.system if gate.on in _IN_A_RUN],
        limits=RunLimits(
            memory_mb=settings.sandbox.default_memory_mb,
            cpu_seconds=settings.sandbox.default_cpu_seconds,
            too_often=partial(_too_often, core),
        ),
        progress=progress,
        on_start=on_start,
        # However the work is started: also by `silas work resume`.
        taint_of=core.conversations.taint_of,
        origins=stores.origins,
    )
    return WorkItemExecutor(context)


async def _granted(core: Core, call: PausedCall, make: bool) -> str | None:
    """What the owner has allowed for a while; looked for only when a call would be asked about."""
    return await open_grants(core, open_questions(core, core.queue)).use(call, make)


async def _too_often(core: Core, item: WorkItem, tool: str) -> str | None:
    """Searches of work count with those of the conversation that it came from."""
    if tool != "web_search":
        return None
    origin = await core.conversations.work_origin(item.id)
    scope = origin.scope_id if origin else core.settings.owner_id
    return None if core.searches.take(scope) else TOO_MANY_SEARCHES


async def left_of_attempts(core: Core) -> list[Path]:
    """Where files of attempts and checks are that have ended, and should have been removed."""
    stores, workspaces = core.work, _workspaces(core)
    items = await ended_with_files(workspaces, stores.items, stores.attempts)
    checks = set_aside_in(Path(core.settings.sandbox.verify_dir))
    return [*workspaces.set_aside(), *map(workspaces.files_of, items), *checks]


def off_limits_of(paths: Paths) -> OffLimits:
    """Where this Silas never works."""
    # Whoever works on a directory that holds the configuration file works on the file.
    return OffLimits(home=Path.home(), own=(paths.data_dir, paths.config_file))


def control_of(core: Core) -> WorkControl:
    """Cancel, pause and resume, also for work that another process runs."""
    stores = core.work
    return WorkControl(
        core.database,
        stores.items,
        stores.attempts,
        audit=core.audit,
        clock=core.clock,
        approvals=core.approvals,
    )


def paused_runs_of(core: Core) -> PausedRuns:
    """The runs of this data directory that wait for the owner."""
    return PausedRuns(
        core.database, clock=core.clock, ids=core.ids, keys=core.keys, audit=core.audit
    )


def resumptions_of(core: Core) -> WorkResumptions:
    """What goes on once a call that waits was decided."""
    return WorkResumptions(
        core.conversations, core.work.items, core.queue, core.clock, core.settings.owner_id
    )


def _workspaces(core: Core) -> Workspaces:
    return Workspaces(
        core.paths.data_dir / "work",
        sandbox=core.sandbox,
        off_limits=off_limits_of(core.paths),
        author=_owner_identity,
    )


def _owner_identity() -> str | None:
    """Whose commits they are, as the owner's own git has it now."""
    configured = os.environ.get("XDG_CONFIG_HOME")
    return owner_identity(Path.home(), Path(configured) if configured else None)
