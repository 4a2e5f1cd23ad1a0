"""Who a companion is, and what it carries from one run to the next."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field

from silas.companions.models.kinds import (
    AgentLifecycle,
    AgentRunStatus,
    InteractionMode,
    TimerKind,
)
from silas.companions.models.synced import JsonMap, Synced, check_extension
from silas.journal.notifications import TypedToken
from silas.kernel.models import Data, UtcDatetime

Identifier = Annotated[str, Field(min_length=1, max_length=200)]
Extension = Annotated[JsonMap, AfterValidator(check_extension)]
SLOTS = ("primary_goal", "active_task_id", "open_loop_ids", "preference_by_key", "extension")


def _in_order(ids: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(ids)))


CategoryIds = Annotated[tuple[Identifier, ...], AfterValidator(_in_order)]
"""A set, kept in order so that it has one spelling."""


class BudgetLimits(Data):
    """What a companion may use in one local day; None where there is no limit.

    `soft_share` is the part of a limit from which on the owner is warned.
    """

    tokens: int | None = Field(default=None, ge=0)
    cost_micro_usd: int | None = Field(default=None, ge=0)
    runtime_ms: int | None = Field(default=None, ge=0)
    tool_calls: int | None = Field(default=None, ge=0)
    soft_share: float = Field(default=0.8, gt=0, le=1)


class AgentConfig(Data):
    """How a companion was set up."""

    schema_version: int = 1
    provider_id: str | None = None
    model_id: str | None = None
    prompt_id: str | None = None
    budget: BudgetLimits = BudgetLimits()
    extension: Extension = Field(default_factory=dict)


class Companion(Synced):
    """The identity of a companion; `allowed_category_ids` is the border of all it reads and writes.

    `paused_at` is the owner's hand on it: while it is set, nothing runs.
    """

    id: Identifier
    kind: Identifier
    display_name: Annotated[str, Field(min_length=1, max_length=120)]
    lifecycle: AgentLifecycle = AgentLifecycle.CREATED
    mode: InteractionMode = InteractionMode.HYBRID
    allowed_category_ids: CategoryIds = ()
    current_state_id: Identifier
    created_at: UtcDatetime
    updated_at: UtcDatetime
    paused_at: UtcDatetime | None = None
    destroyed_at: UtcDatetime | None = None
    config: AgentConfig = AgentConfig()
    siblings: tuple["Companion", ...] = ()
    """The concurrent versions that this one was merged from, until the next write joins them."""

    @property
    def is_destroyed(self) -> bool:
        return self.lifecycle is AgentLifecycle.DESTROYED


class AgentSlots(Data):
    """What a companion keeps in mind. Each slot has a logical version and the host that wrote it.

    Versions count writes; no clock on a wall takes part in a merge.
    """

    primary_goal: str | None = None
    primary_goal_version: int = 0
    active_task_id: str | None = None
    active_task_id_version: int = 0
    open_loop_ids: tuple[str, ...] = ()
    open_loop_ids_version: int = 0
    preference_by_key: dict[str, str] = Field(default_factory=dict)
    preference_by_key_version: int = 0
    extension: Extension = Field(default_factory=dict)
    extension_version: int = 0
    slot_hosts: dict[str, str] = Field(default_factory=dict)

    def with_slot(self, slot: str, value: object, *, host_id: str) -> Self:
        """The slots with one of them changed, its version counted up."""
        version = getattr(self, f"{slot}_version") + 1
        changed = {
            slot: value,
            f"{slot}_version": version,
            "slot_hosts": {**self.slot_hosts, slot: host_id},
        }
        return self.model_validate({**self.model_dump(), **changed})


class MessagePointer(Data):
    """A message of the log, with what ranks it among the others of its companion.

    `sequence` counts causally: a message that follows from another has a higher one.
    """

    message_id: Identifier
    sequence: int = Field(ge=0)
    host_id: Identifier


class AgentState(Synced):
    """The durable state of a companion; one small record, rewritten in each run."""

    id: Identifier
    agent_id: Identifier
    revision: int = 0
    """Counts local writes: a stale copy is refused. It takes no part in merging."""
    updated_at: UtcDatetime
    last_wake_at: UtcDatetime | None = None
    next_wake_at: UtcDatetime | None = None
    sleep_until: UtcDatetime | None = None
    recent_head: MessagePointer | None = None
    latest_summary: MessagePointer | None = None
    consecutive_failure_count: int = Field(default=0, ge=0)
    processed_counter_by_host: dict[str, int] = Field(default_factory=dict)
    slots: AgentSlots = AgentSlots()
    siblings: tuple["AgentState", ...] = ()

    @property
    def recent_head_message_id(self) -> str | None:
        return self.recent_head.message_id if self.recent_head else None

    @property
    def latest_summary_message_id(self) -> str | None:
        return self.latest_summary.message_id if self.latest_summary else None


class AgentRuntimeState(Data):
    """What a companion does just now. In memory alone: after a crash it is made anew."""

    agent_id: Identifier
    run_status: AgentRunStatus = AgentRunStatus.IDLE
    active_run_id: str | None = None
    active_session_id: str | None = None
    last_run_started_at: UtcDatetime | None = None
    failure_streak: int = 0
    hot_message_count: int = 0


class SubscriptionPredicate(Data):
    """What a changed record must be like; what is empty is not asked.

    A record matches if it meets everything. A change matches if one of its records does.
    """

    entity_types: tuple[str, ...] = ()
    category_ids: tuple[str, ...] = ()
    equals: dict[str, str | int | bool | None] = Field(default_factory=dict)
    linked_to: str | None = None
    """The id of a record that the changed one must be linked to."""

    @property
    def is_empty(self) -> bool:
        return not (self.entity_types or self.category_ids or self.equals or self.linked_to)


class AgentSubscription(Synced):
    """Wakes a companion when a change carries one of these tokens and meets the predicate."""

    id: Identifier
    agent_id: Identifier
    tokens: tuple[TypedToken, ...] = Field(min_length=1)
    predicate: SubscriptionPredicate = SubscriptionPredicate()
    active: bool = True
    created_at: UtcDatetime
    updated_at: UtcDatetime


class AgentTimer(Synced):
    """Wakes a companion by the clock on the wall.

    The intent is kept (`daily` with `07:00`, `cron` with five fields, `once` with a moment), and
    `next_run_at` is worked out from it again whenever the clock or the zone has changed.
    """

    id: Identifier
    agent_id: Identifier
    kind: TimerKind
    expression: Identifier
    time_zone: str | None = None
    """An IANA name; None is wherever the owner is."""
    next_run_at: UtcDatetime | None = None
    last_scheduled_at: UtcDatetime | None = None
    active: bool = True
    created_at: UtcDatetime
    updated_at: UtcDatetime


class InteractiveSession(Data):
    """A conversation with a companion; it ends by itself when nobody says anything."""

    id: Identifier
    agent_id: Identifier
    thread_id: Identifier
    baseline_mode: InteractionMode
    opened_at: UtcDatetime
    last_activity_at: UtcDatetime
    expires_at: UtcDatetime
    closed_at: UtcDatetime | None = None
    close_reason: str | None = None
