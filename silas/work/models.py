"""Work items: the one structure for all work, from a single task to a goal without end.

An item says what may be used up (`Budget`), which external checks decide whether it is done, and
where it stands. The worker can neither change a check nor see its record before the verdict.

The canonical bytes that an approval is bound to:

1. `PLAN_FIELDS` are shown to the owner and hashed. `RUNTIME_FIELDS` change while work goes on and
   are not. Every field of a work item belongs to exactly one of the two.
2. The bytes are canonical JSON, so that equal plans have equal bytes and unequal ones do not.
3. `BOUND_FIELDS` tie the plan to things outside it. They are in the bytes of every plan that has
   them, and a plan without them has the bytes that the other fields alone give. The same holds
   for what plans could not say at first: an old plan keeps its hash.
4. The spawn policy is what tasks that a goal spawns must have in common with it. It also holds the
   goal's action envelopes and what it is bound to, if there is any: a spawned task may not do more
   than its goal.

Which status may follow which stands in one table per kind of work (`TRANSITIONS`), and nothing
beside it. Tasks and projects end with `done`, or with `unchecked` if nothing has shown that they
are; only running work can become either. Goals never end: they are `healthy` or they are not.
`failed`, `stuck` and `blocked` can be taken up again by a new decision, what is done cannot: more
work is a follow-up. Nor can what is `replaced`: the plan that replaces it is the one that counts.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from silas.approval import ApprovalToken
from silas.egress import Hosts, HostUse
from silas.gates import AccessLevel, ActionEnvelope, EscalationAction, Expectation, Gate, Name
from silas.kernel import canonical_bytes
from silas.kernel.models import Data, FieldProblem, UtcDatetime, quoted, refuse, text_like
from silas.scheduler import CronSchedule, InvalidCron
from silas.work.batch_policy import BatchPolicy
from silas.work.effects import FileChange, Workspace
from silas.work.errors import IllegalTransition

_LARGEST_NUMBER = 2**53 - 1  # what canonical JSON can hold

Limit = Annotated[int, Field(gt=0, le=_LARGEST_NUMBER)]
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Budget(Data):
    """The limits of one work item. Reaching a limit means that it is used up."""

    max_tokens: Limit = 200_000
    max_cost_usd: float = Field(default=2.00, gt=0, allow_inf_nan=False)
    max_wall_time_seconds: Limit = 1800
    max_attempts: Limit = 5
    max_planner_calls: Limit = 3


class BudgetUsed(Data):
    """What has been consumed so far; compared with the budget before every action."""

    tokens: Count = 0
    cost_usd: Amount = 0.0
    wall_time_seconds: Amount = 0.0
    attempts: Count = 0
    planner_calls: Count = 0
    executor_runs: Count = 0

    def exceeds(self, budget: Budget) -> bool:
        """Whether any limit has been reached: exactly at the limit counts as used up."""
        return bool(self.reached(budget))

    def reached(self, budget: Budget) -> tuple[str, ...]:
        """The names of the limits that have been reached, such as `max_tokens`."""
        used = {
            "max_tokens": self.tokens >= budget.max_tokens,
            "max_cost_usd": self.cost_usd >= budget.max_cost_usd,
            "max_wall_time_seconds": self.wall_time_seconds >= budget.max_wall_time_seconds,
            "max_attempts": self.attempts >= budget.max_attempts,
            "max_planner_calls": self.planner_calls >= budget.max_planner_calls,
        }
        return tuple(name for name, reached in used.items() if reached)

    def merge(self, child: Self) -> Self:
        """What this item and a child have consumed together, in every field."""
        total = {
            name: getattr(self, name) + getattr(child, name) for name in type(self).model_fields
        }
        return type(self)(**total)


def add_used(used: BudgetUsed, tokens: int, cost_usd: float) -> BudgetUsed:
    """What was used, and what a model used besides."""
    total = {"tokens": used.tokens + tokens, "cost_usd": used.cost_usd + cost_usd}
    return used.model_copy(update=total)


MAX_CHECK_OUTPUT_CHARS = 4000
"""How many characters of a check's output are kept."""

_DAY_SECONDS = 86_400


class VerificationCheck(Data):
    """A command whose outcome decides; it runs outside the worker's sandbox."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    run: Annotated[str, Field(min_length=1)]
    expect: Expectation
    timeout: int = Field(default=60, gt=0, le=_DAY_SECONDS)
    network: Hosts = ()
    influenced_by: list[str] = Field(default_factory=list)
    """Files that this check runs or obeys and that the plan lets the worker write. Binding fills it
    in; a check with any of them shows nothing."""


class VerificationResult(Data):
    """What one check gave. `exit_code` is None if the command never ended by itself.

    Only a check that failed before the work, passes after it and could not be influenced by the
    worker shows that the work is done.
    """

    name: str
    passed: bool
    reason: str
    output: str = Field(default="", max_length=MAX_CHECK_OUTPUT_CHARS)
    exit_code: int | None = None
    network: list[HostUse] = Field(default_factory=list)
    passed_before: bool | None = None
    """Whether it passed on the untouched files, before the work; None if nobody looked."""
    influenced_by: list[str] = Field(default_factory=list)

    @property
    def proves(self) -> bool:
        """Whether this shows that the work is done."""
        return self.passed and self.passed_before is False and not self.influenced_by


class VerificationReport(Data):
    """What all checks of one run gave."""

    results: list[VerificationResult]
    timestamp: UtcDatetime

    @property
    def all_passed(self) -> bool:
        """Whether every check passed. A run without any check has shown nothing: False."""
        return bool(self.results) and not self.failed

    @property
    def failed(self) -> list[VerificationResult]:
        """The results that did not pass."""
        return [result for result in self.results if not result.passed]

    def compared(
        self, before: Mapping[str, bool], checks: Sequence[VerificationCheck]
    ) -> list[VerificationResult]:
        """The results, with what each gave before the work and what could influence it."""
        influences = {check.name: check.influenced_by for check in checks}
        return [
            result.model_copy(
                update={
                    "passed_before": before.get(result.name),
                    "influenced_by": influences[result.name],
                }
            )
            for result in self.results
        ]


PLAN_FIELDS = frozenset(
    {
        *("id", "type", "title", "parent", "spawned_by", "follow_up_of", "domain"),
        *("agent", "budget", "body", "interaction_mode", "input_artifacts_from"),
        *("verify", "gates", "skills", "access_levels", "escalation", "approvals"),
        *("schedule", "on_failure", "on_stuck", "failure_context", "tasks", "depends_on"),
        *("workspace", "skill_hashes", "script", "without_proof", "accepts_unchecked", "batch"),
    }
)
BOUND_FIELDS = frozenset(
    {"workspace", "skill_hashes", "script", "without_proof", "accepts_unchecked", "batch"}
)
_OF_THE_GOAL_ALONE = frozenset({"batch"})
"""What a goal does by itself; a task that repairs it has no part in it."""
RUNTIME_FIELDS = frozenset(
    {
        *("approval_token", "needs_approval", "status", "attempts", "budget_used"),
        *("verification_results", "created_at", "version"),
    }
)


def work_item_plan_hash_bytes(item: Data) -> bytes:
    """Everything about a work item that is approved, as canonical JSON."""
    return canonical_bytes(_plan_of(item))


def work_item_spawn_policy_bytes(item: Data) -> bytes:
    """What a goal and every task spawned from it must agree in, as canonical JSON."""
    plan = _plan_of(item)
    policy: dict[str, Any] = {
        "failure_context_template": plan["failure_context"] or "",
        "skills": sorted(set(plan["skills"])),
        "gates": _sorted_json(plan["gates"]),
        "verify": _sorted_json(plan["verify"]),
        "escalation_config": _used_escalations(plan),
    }
    if plan["approvals"]:
        policy["approvals"] = _sorted_json(plan["approvals"])
    shared = BOUND_FIELDS - _OF_THE_GOAL_ALONE
    policy |= {name: plan[name] for name in shared if name in plan}
    return canonical_bytes(policy)


def _plan_of(item: Data) -> dict[str, Any]:
    plan = item.model_dump(mode="json", include=set(PLAN_FIELDS))
    for check in plan["verify"]:
        _omit_empty(check, "influenced_by")
    if plan["workspace"]:
        _omit_empty(plan["workspace"], "changes")
    return {name: value for name, value in plan.items() if value or name not in BOUND_FIELDS}


def _omit_empty(record: dict[str, Any], name: str) -> None:
    value = record[name]
    if not (any(value.values()) if isinstance(value, dict) else value):
        del record[name]


def _used_escalations(plan: dict[str, Any]) -> dict[str, Any]:
    named = {plan["on_failure"], *(gate["on_block"] for gate in plan["gates"])}
    return {name: plan["escalation"][name] for name in named & set(plan["escalation"])}


def _sorted_json(values: Iterable[Any]) -> list[str]:
    return sorted(canonical_bytes(value).decode() for value in values)


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
    """Where a work item stands; `TRANSITIONS` says which changes are possible."""

    PENDING = "pending"
    RUNNING = "running"
    HEALTHY = "healthy"
    DONE = "done"
    UNCHECKED = "unchecked"
    """Done as the plan says, and nothing has shown it that the worker could not touch."""
    FAILED = "failed"
    STUCK = "stuck"
    BLOCKED = "blocked"
    PAUSED = "paused"
    REPLACED = "replaced"
    """The owner asked for another version of the plan before anything of it was done."""


ENDED_WELL = frozenset({WorkItemStatus.DONE, WorkItemStatus.UNCHECKED})
"""The work was carried out, and its changes are taken over."""

STOPPED_BY_OWNER = frozenset({WorkItemStatus.PAUSED, WorkItemStatus.FAILED})


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
    script: bool = False
    """The blocks of the body are all that is done, as they are written: no model takes part."""
    without_proof: bool = False
    """The plan says itself that none of its checks fails before the work and passes after it."""
    accepts_unchecked: bool = False
    """Whether work that was done but not checked is good enough to go on from, or for this goal."""
    batch: BatchPolicy | None = None
    """What the goal proposes about the items of an account, at its times."""

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
    def is_cancelled(self) -> bool:
        """Whether the owner has ended it for good: it failed, and its approval is gone."""
        return self.status is WorkItemStatus.FAILED and self.approval_token is None

    @property
    def has_ended(self) -> bool:
        """Whether nothing can become of it any more, unless the owner approves it again."""
        replaced = self.status is WorkItemStatus.REPLACED
        return self.status in ENDED_WELL or replaced or self.is_cancelled

    @property
    def waits_for_approval(self) -> bool:
        """Whether it was made and not begun, because nobody has approved it yet."""
        return self.status is WorkItemStatus.PENDING and self.approval_token is None

    @property
    def reaches_network(self) -> bool:
        """Whether its commands or its checks reach any host."""
        work = self.workspace is not None and bool(self.workspace.network)
        return work or any(check.network for check in self.verify)

    @property
    def plan_hash(self) -> str:
        """SHA-256 of `plan_bytes`, in hex: what an approval token names."""
        return hashlib.sha256(self.plan_bytes()).hexdigest()

    def plan_bytes(self) -> bytes:
        """The canonical JSON of everything that is approved."""
        return self._plan_bytes

    @cached_property
    def _plan_bytes(self) -> bytes:
        """Made once: an item is read once and asked for its bytes at every door."""
        return work_item_plan_hash_bytes(self)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """The same with some fields changed; another plan has other bytes."""
        copied = super().model_copy(update=update, deep=deep)
        if update and not update.keys() <= RUNTIME_FIELDS:
            copied.__dict__.pop("_plan_bytes", None)
        return copied

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
    if item.script and item.type is not WorkItemType.TASK:
        yield FieldProblem(("script",), "is for tasks only")
    if item.batch is not None and not (goal and item.agent == "ephemeral"):
        yield FieldProblem(("batch",), "is for goals with times only")


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
    cause: str = ""
    """The audit event that says why it is blocked, if it is."""
    verification_results: list[VerificationResult] = Field(default_factory=list)
    budget_used: BudgetUsed = Field(default_factory=BudgetUsed)
    artifacts: dict[str, str] = Field(default_factory=dict)
    next_steps: list[str] = Field(default_factory=list)
    changes: list[FileChange] = Field(default_factory=list)
    """What was taken over into the owner's directory."""
    left: list[FileChange] = Field(default_factory=list)
    """What the work changed besides, and was not taken over."""

    @model_validator(mode="after")
    def _has_ended(self) -> Self:
        if self.status in (WorkItemStatus.PENDING, WorkItemStatus.RUNNING):
            refuse([FieldProblem(("status",), "a result is of work that has stopped")])
        return self


_PENDING = WorkItemStatus.PENDING
_RUNNING = WorkItemStatus.RUNNING
_HEALTHY = WorkItemStatus.HEALTHY
_DONE = WorkItemStatus.DONE
_UNCHECKED = WorkItemStatus.UNCHECKED
_FAILED = WorkItemStatus.FAILED
_STUCK = WorkItemStatus.STUCK
_BLOCKED = WorkItemStatus.BLOCKED
_PAUSED = WorkItemStatus.PAUSED
_REPLACED = WorkItemStatus.REPLACED

Table = Mapping[WorkItemStatus, frozenset[WorkItemStatus]]

_BOUNDED: Table = {
    # Stuck at once: the last attempt that the budget allowed was interrupted by a crash.
    _PENDING: frozenset({_RUNNING, _BLOCKED, _PAUSED, _FAILED, _STUCK, _REPLACED}),
    # Running again is the next attempt; pending again is what a crash in the middle leads to.
    _RUNNING: frozenset(
        {_RUNNING, _DONE, _UNCHECKED, _FAILED, _STUCK, _BLOCKED, _PAUSED, _PENDING}
    ),
    _BLOCKED: frozenset({_PENDING, _RUNNING, _PAUSED, _FAILED}),
    _PAUSED: frozenset({_PENDING, _RUNNING, _BLOCKED, _FAILED}),
    _STUCK: frozenset({_PENDING, _RUNNING, _BLOCKED, _PAUSED, _FAILED}),
    _FAILED: frozenset({_PENDING}),
    _DONE: frozenset(),
    _UNCHECKED: frozenset(),
    _REPLACED: frozenset(),
    _HEALTHY: frozenset(),
}
_ENDLESS: Table = {
    _PENDING: frozenset({_RUNNING, _BLOCKED, _PAUSED, _FAILED, _REPLACED}),
    _RUNNING: frozenset({_RUNNING, _HEALTHY, _FAILED, _STUCK, _BLOCKED, _PAUSED, _PENDING}),
    _HEALTHY: frozenset({_RUNNING, _BLOCKED, _PAUSED, _FAILED}),
    _BLOCKED: frozenset({_PENDING, _RUNNING, _PAUSED, _FAILED}),
    _PAUSED: frozenset({_PENDING, _RUNNING, _BLOCKED, _FAILED}),
    _STUCK: frozenset({_PENDING, _RUNNING, _BLOCKED, _PAUSED, _FAILED}),
    # A failed cycle is followed by the next one.
    _FAILED: frozenset({_PENDING, _RUNNING, _BLOCKED, _PAUSED}),
    _DONE: frozenset(),
    _UNCHECKED: frozenset(),
    _REPLACED: frozenset(),
}
TRANSITIONS: Mapping[WorkItemType, Table] = {
    WorkItemType.TASK: _BOUNDED,
    WorkItemType.PROJECT: _BOUNDED,
    WorkItemType.GOAL: _ENDLESS,
}


def may_follow(kind: WorkItemType, now: WorkItemStatus, then: WorkItemStatus) -> bool:
    """Whether a work item of this kind may change from the one status to the other."""
    return then in TRANSITIONS[kind][now]


def require_transition(
    work_item_id: str, kind: WorkItemType, *, now: WorkItemStatus, then: WorkItemStatus
) -> None:
    """Raise `IllegalTransition`, which says what would be possible, unless the table allows it."""
    if may_follow(kind, now, then):
        return
    possible = ", ".join(sorted(TRANSITIONS[kind][now])) or "nothing: it has ended"
    raise IllegalTransition(
        f"The {kind.value} {work_item_id} is {now.value} and cannot become {then.value}. "
        f"Possible from here: {possible}.",
        work_item=work_item_id,
        now=now.value,
        then=then.value,
    )
