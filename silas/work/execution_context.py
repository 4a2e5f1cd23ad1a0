"""What executing work needs, in the parts that its users take.

A function takes the smallest part that it needs: `WorkRecords` to put in order what was done,
`Authority` to have the owner decide, `ExecutionContext` to run an attempt. Whatever is None is
absent, and absent means no.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from silas.approval.engine import ApprovalEngine
from silas.audit.models import AuditTrail
from silas.gates import Gate
from silas.gates.runner import GateRunner
from silas.kernel import Clock, IdFactory, TaintLevel
from silas.review import Decisions
from silas.tools.declaration import Tool, ToolRegistry
from silas.work.artifacts import ArtifactStore
from silas.work.attempt_store import AttemptStore, OnStart
from silas.work.before_images import BeforeImages
from silas.work.control import WorkControl
from silas.work.ledger import CallUndos, ToolLedger
from silas.work.models import WorkItem
from silas.work.origins import OriginStore
from silas.work.paused import PausedRuns
from silas.work.ports import (
    Approver,
    AttemptWorker,
    PausedCall,
    Planner,
    ProgressListener,
    SkillFiles,
    ToolCaller,
)
from silas.work.store import WorkItemStore
from silas.work.verification import VerificationRunner
from silas.work.workspaces import Workspaces

TaintOf = Callable[[WorkItem], Awaitable[TaintLevel]]
"""Says what a work item was made from; its run begins with that taint."""


TooOften = Callable[[WorkItem, str], Awaitable[str | None]]
"""Says why a tool may not be called just now for a work item; None if it may."""


UseGrant = Callable[[PausedCall, bool], Awaitable[str | None]]
"""Says which standing grant of the owner's covers a call; True: one use of it is counted now."""


async def no_grants(call: PausedCall, make: bool) -> str | None:
    """The owner has allowed nothing in advance."""
    del call, make
    return None


def silent(work_item_id: str, what: str, detail: str = "") -> None:
    """Nobody listens."""


@dataclass(frozen=True, kw_only=True)
class WorkRecords:
    """Where work is recorded: its items, attempts and files, and who may go on with them."""

    items: WorkItemStore
    attempts: AttemptStore
    artifacts: ArtifactStore
    images: BeforeImages
    """Where it is kept what files were before they are touched."""
    workspaces: Workspaces
    origins: OriginStore
    """Whose text the files are, and what a stranger's text has reached."""
    control: WorkControl
    audit: AuditTrail
    clock: Clock
    runner: str
    paused: PausedRuns | None = None
    progress: ProgressListener = silent
    on_start: OnStart | None = None


@dataclass(frozen=True, kw_only=True)
class Authority:
    """What the owner decides with: how risky something is, who is asked, and what a yes gives."""

    items: WorkItemStore
    audit: AuditTrail
    ids: IdFactory
    approvals: ApprovalEngine
    decisions: Decisions
    """Checks and stores what the owner decides while work goes on."""
    registry: ToolRegistry[Tool]
    taint_of: TaintOf
    paused: PausedRuns | None = None
    approver: Approver | None = None
    agent: AttemptWorker | None = None
    """Who does the work; a decision can be waited for if the agent can pause."""


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """How much one call may use, and how much goes on at once."""

    too_often: TooOften
    memory_mb: int = 512
    cpu_seconds: int = 60
    call_seconds: int = 300
    per_scope: int = 8
    pool: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(16))
    """How many attempts run at once, over all scopes."""


@dataclass(frozen=True, kw_only=True)
class ExecutionContext(WorkRecords, Authority):
    """What an attempt is run with."""

    ledger: ToolLedger
    undos: CallUndos
    """What takes back the calls in accounts."""
    grants: UseGrant = no_grants
    """What the owner has allowed for a while."""
    verification: VerificationRunner
    system_gates: Sequence[Gate]
    """The owner's gates that look at every run, whatever the plan says."""
    gates: GateRunner | None = None
    planner: Planner | None = None
    skills: SkillFiles | None = None
    propose: "Propose | None" = None
    """Puts what fits the items of an account before the owner, for a goal with such a policy."""
    limits: RunLimits


Propose = Callable[[ExecutionContext, WorkItem, ToolCaller], Awaitable[None]]
"""Looks with these calls for a goal, and puts before the owner what fits; raises `WorkError`."""
