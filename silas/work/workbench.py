"""Everything that executing work needs, in one place: the stores, the ports, the limits."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from silas.gates import Gate
from silas.kernel import Clock, IdFactory, TaintLevel
from silas.work.artifacts import ArtifactStore
from silas.work.attempts import AttemptStore
from silas.work.before_images import BeforeImages
from silas.work.control import WorkControl
from silas.work.executors import ExecutorRegistry
from silas.work.ledger import ToolLedger
from silas.work.models import WorkItem
from silas.work.paused import PausedRuns
from silas.work.ports import (
    ApprovalDoor,
    Approver,
    AuditTrail,
    ExecutorAgent,
    GateRunner,
    Planner,
    Progress,
    SkillFiles,
)
from silas.work.store import WorkItemStore
from silas.work.verification import VerificationRunner
from silas.work.workspaces import Workspaces


async def of_the_owner(item: WorkItem) -> TaintLevel:
    """What a plan is made from if nobody says otherwise: the owner's own words."""
    del item
    return TaintLevel.OWNER


def silent(work_item_id: str, what: str, detail: str = "") -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Workbench:
    """What the executor works with. Whatever is None is absent, and absent means no."""

    items: WorkItemStore
    attempts: AttemptStore
    ledger: ToolLedger
    artifacts: ArtifactStore
    workspaces: Workspaces
    control: WorkControl
    registry: ExecutorRegistry
    verification: VerificationRunner
    approvals: ApprovalDoor
    audit: AuditTrail
    clock: Clock
    ids: IdFactory
    runner: str
    agent: ExecutorAgent | None = None
    gates: GateRunner | None = None
    planner: Planner | None = None
    approver: Approver | None = None
    paused: PausedRuns | None = None
    images: BeforeImages | None = None
    """Where it is kept what files were before; without it, nothing is undone."""
    skills: SkillFiles | None = None
    system_gates: Sequence[Gate] = ()
    progress: Progress = silent
    taint_of: Callable[[WorkItem], Awaitable[TaintLevel]] = of_the_owner
    """What a work item was made from; its run begins with that taint."""
    memory_mb: int = 512
    cpu_seconds: int = 60
    call_seconds: int = 300
    per_scope: int = 8
    pool: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(16))
    """How many attempts run at once, over all scopes."""
