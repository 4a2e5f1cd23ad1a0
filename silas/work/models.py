"""Work items: the one structure for all work, from a single task to a goal without end."""

import hashlib
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from silas.approval import ApprovalToken
from silas.gates import AccessLevel, ActionEnvelope, EscalationAction, Gate, Name
from silas.kernel.field_problems import FieldProblem, quoted, refuse, text_like
from silas.kernel.models import Data, UtcDatetime
from silas.scheduler import CronSchedule, InvalidCron
from silas.work.budget import Budget, BudgetUsed
from silas.work.checks import VerificationCheck, VerificationResult
from silas.work.plan_hash import work_item_plan_hash_bytes, work_item_spawn_policy_bytes
from silas.work.workspace import Workspace

ALWAYS_ON = "always_on"
"""The schedule of a goal that is in force as long as the stream runs."""

ALL_ARTIFACTS = "*"

Agent = Literal["ephemeral", "stream"]
WorkItemId = Annotated[
    str,
    text_like(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}",
        "must be letters, digits, `.`, `_` and `-`, starting with a letter or digit",
    ),
]
SkillName = Annotated[
    str,
    text_like(r"[a-z0-9](?:-?[a-z0-9]){0,63}", "must be lowercase letters, digits and `-`"),
]
Sha256 = Annotated[str, text_like(r"[0-9a-f]{64}", "must be a SHA-256 in hexadecimal")]
Title = Annotated[
    str,
    Field(max_length=200),
    text_like(r"[^\x00-\x1f\x7f]*\S[^\x00-\x1f\x7f]*", "must be one line of text"),
]


class WorkItemType(StrEnum):
    """How a work item is executed."""

    TASK = "task"
    PROJECT = "project"
    GOAL = "goal"


class WorkItemStatus(StrEnum):
    """Where a work item stands; `status.py` says which changes are possible."""

    PENDING = "pending"
    RUNNING = "running"
    HEALTHY = "healthy"
    DONE = "done"
    FAILED = "failed"
    STUCK = "stuck"
    BLOCKED = "blocked"
    PAUSED = "paused"


class InteractionMode(StrEnum):
    """How much is asked on the way; no mode replaces an approval."""

    DEFAULT_AND_OFFER = "default_and_offer"
    ACT_AND_REPORT = "act_and_report"
    CONFIRM_ONLY_WHEN_REQUIRED = "confirm_only_when_required"


def _default_agent(item: dict[str, Any]) -> Agent:
    """A goal that is always on configures the stream; everything else is executed."""
    streams = item.get("type") is WorkItemType.GOAL and item.get("schedule") == ALWAYS_ON
    return "stream" if streams else "ephemeral"


class WorkItem(Data):
    """The universal work structure. The last block is managed by the runtime, never by an agent."""

    id: WorkItemId
    type: WorkItemType
    title: Title
    parent: WorkItemId | None = None
    spawned_by: WorkItemId | None = None
    follow_up_of: WorkItemId | None = None
    domain: Annotated[str, Field(min_length=1, max_length=128)] | None = None

    schedule: str | None = None
    agent: Agent = Field(default_factory=_default_agent)
    budget: Budget = Field(default_factory=Budget)
    needs_approval: bool = True
    approval_token: ApprovalToken | None = None

    body: str = ""
    interaction_mode: InteractionMode = InteractionMode.CONFIRM_ONLY_WHEN_REQUIRED
    input_artifacts_from: list[str] = Field(default_factory=list)
    verify: list[VerificationCheck] = Field(default_factory=list)
    gates: list[Gate] = Field(default_factory=list)
    skills: list[SkillName] = Field(default_factory=list)
    access_levels: dict[str, AccessLevel] = Field(default_factory=dict)
    escalation: dict[Name, EscalationAction] = Field(default_factory=dict)
    approvals: list[ActionEnvelope] = Field(default_factory=list)
    workspace: Workspace | None = None
    skill_hashes: dict[SkillName, Sha256] = Field(default_factory=dict)
    """What the skills held when the plan was shown; filled in before approval."""

    on_failure: Name = "report"
    on_stuck: Name = "consult_planner"
    failure_context: str | None = None
    tasks: list[WorkItemId] = Field(default_factory=list)
    depends_on: list[WorkItemId] = Field(default_factory=list)

    status: WorkItemStatus = WorkItemStatus.PENDING
    attempts: int = Field(default=0, ge=0)
    budget_used: BudgetUsed = Field(default_factory=BudgetUsed)
    verification_results: list[VerificationResult] = Field(default_factory=list)
    created_at: UtcDatetime | None = None
    """When the item was first stored; None until then."""
    version: int = Field(default=0, ge=0)
    """Counts the changes in the store, so that a stale copy cannot overwrite a newer one."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        refuse([*_type_problems(self), *_schedule_problems(self), *_list_problems(self)])
        return self

    @property
    def plan_hash(self) -> str:
        """SHA-256 of `plan_bytes`, in hex: what an approval token names."""
        return hashlib.sha256(self.plan_bytes()).hexdigest()

    def plan_bytes(self) -> bytes:
        """The canonical JSON of everything that is approved."""
        return work_item_plan_hash_bytes(self)

    def spawn_policy_bytes(self) -> bytes:
        """The canonical JSON of what spawned tasks must be like; empty if nothing is spawned."""
        may_spawn = self.type is WorkItemType.GOAL or self.parent is not None
        return work_item_spawn_policy_bytes(self) if may_spawn else b""


def _type_problems(item: WorkItem) -> Iterator[FieldProblem]:
    goal = item.type is WorkItemType.GOAL
    if not goal and item.agent != "ephemeral":
        yield FieldProblem(("agent",), f"must be ephemeral: a {item.type.value} is executed work")
    if not goal and item.schedule is not None:
        yield FieldProblem(("schedule",), "is for goals only")
    if item.tasks and item.type is not WorkItemType.PROJECT:
        yield FieldProblem(("tasks",), "is for projects only")


def _schedule_problems(item: WorkItem) -> Iterator[FieldProblem]:
    if item.schedule in (None, ALWAYS_ON):
        return
    try:
        CronSchedule.parse(item.schedule)
    except InvalidCron as error:
        yield FieldProblem(("schedule",), f"{error}; or `{ALWAYS_ON}`")


def _list_problems(item: WorkItem) -> Iterator[FieldProblem]:
    yield from _repeated(("verify",), [check.name for check in item.verify])
    yield from _repeated(("gates",), [gate.name for gate in item.gates])
    for name in ("skills", "tasks", "depends_on", "input_artifacts_from"):
        yield from _repeated((name,), getattr(item, name))
    for name in ("tasks", "depends_on"):
        if item.id in getattr(item, name):
            yield FieldProblem((name,), "names the item itself")
    if ALL_ARTIFACTS in item.input_artifacts_from and len(item.input_artifacts_from) > 1:
        yield FieldProblem(("input_artifacts_from",), "`*` means all: it must stand alone")


def _repeated(path: tuple[str], names: Sequence[str]) -> Iterator[FieldProblem]:
    for index, name in enumerate(names):
        if name in names[:index]:
            yield FieldProblem(
                (*path, index), f"{quoted(name)} is there already; names must differ"
            )


class WorkItemResult(Data):
    """What came of executing a work item, put together by the runtime from what happened."""

    work_item_id: str
    status: WorkItemStatus
    summary: str
    last_error: str | None = None
    verification_results: list[VerificationResult] = Field(default_factory=list)
    budget_used: BudgetUsed = Field(default_factory=BudgetUsed)
    artifacts: dict[str, str] = Field(default_factory=dict)
    next_steps: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_ended(self) -> Self:
        if self.status in (WorkItemStatus.PENDING, WorkItemStatus.RUNNING):
            refuse([FieldProblem(("status",), "a result is of work that has stopped")])
        return self
