"""Who a companion is, what it may use and send, and what it carries from one run to the next.

Frozen data, no I/O: first the closed sets of words that companions speak, then what every record
has that other devices will see one day (`Synced`); what derives from it is born ready for other
devices, and the rest stays on this one.
"""

from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field

from silas.journal.notifications import TypedToken
from silas.kernel.models import Data, UtcDatetime


class AgentLifecycle(StrEnum):
    """How far a companion's life has come. The order is the order of precedence in a merge."""

    CREATED = "created"
    ACTIVE = "active"
    DORMANT = "dormant"
    """It sleeps: neither changes nor timers wake it, but it answers when it is spoken to."""
    DESTROYED = "destroyed"
    """It is gone for good. Nothing wakes it, and nothing that it does is written any more."""


class AgentInteractionMode(StrEnum):
    """What may begin a run."""

    AUTONOMOUS = "autonomous"
    INTERACTIVE = "interactive"
    HYBRID = "hybrid"


class AgentRunStatus(StrEnum):
    """What a companion does just now; only in memory."""

    IDLE = "idle"
    QUEUED = "queued"
    RUNNING = "running"
    FAILED = "failed"


class AgentMessageKind(StrEnum):
    """What an entry of the log is."""

    OBSERVATION = "observation"
    USER = "user"
    THOUGHT = "thought"
    ACTION = "action"
    TOOL_RESULT = "tool_result"
    SUMMARY = "summary"
    SYSTEM = "system"


class AgentActionType(StrEnum):
    """What a companion can propose."""

    TOOL_CALL = "tool_call"
    PROPOSE_PLAN = "propose_plan"
    ASK_USER = "ask_user"
    LIFECYCLE_TRANSITION = "lifecycle_transition"


class ToolResultStatus(StrEnum):
    """How a tool call ended."""

    SUCCESS = "success"
    ERROR = "error"
    PARTIAL = "partial"


class AgentLinkRelation(StrEnum):
    """What an edge of the companions' graph says."""

    AGENT_STATE = "agent_state"
    AGENT_HEAD = "agent_head"
    MESSAGE_PREV = "message_prev"
    MESSAGE_PAYLOAD = "message_payload"
    SUMMARY_START = "summary_start"
    SUMMARY_END = "summary_end"
    REPORT_HEAD = "report_head"
    REPORT_SOURCE = "report_source"
    TOOL_EFFECT = "tool_effect"


class WakeReason(StrEnum):
    """Why a companion was woken."""

    SUBSCRIPTION = "subscription"
    TIMER = "timer"
    USER_INITIATED = "user_initiated"
    RECOVERY_CATCHUP = "recovery_catchup"
    MANUAL = "manual"


class WakeStatus(StrEnum):
    """What became of a wake."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    SKIPPED_SLEEPING = "skipped_sleeping"
    SKIPPED_DESTROYED = "skipped_destroyed"
    SKIPPED_PAUSED = "skipped_paused"
    SKIPPED_STOPPED = "skipped_stopped"
    FAILED_TERMINAL = "failed_terminal"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing can follow any more."""
        return self not in (WakeStatus.QUEUED, WakeStatus.RUNNING)


class ReportScope(StrEnum):
    """The time that a report speaks of."""

    CURRENT = "current"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


class SourceType(StrEnum):
    """Where a claim comes from."""

    JOURNAL = "journal"
    AGENT = "agent"
    WEB = "web"
    TOOL_OUTPUT = "tool_output"


class InferenceFlag(StrEnum):
    """Whether a claim was seen or concluded."""

    OBSERVED = "observed"
    INFERRED = "inferred"


class AgentPersonaStatus(StrEnum):
    """Whether a persona is in use."""

    DRAFT = "draft"
    ACTIVE = "active"
    ARCHIVED = "archived"


class AgentPromptItemState(StrEnum):
    """Whether a question of a companion waits for an answer."""

    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"


class AgentInteractionType(StrEnum):
    """How a question can be answered."""

    YES_NO = "yes_no"
    MULTI_CHOICE = "multi_choice"
    FREE_TEXT = "free_text"
    AUDIO = "audio"


class CompactionStatus(StrEnum):
    """How far the compaction of a span has come."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED_TERMINAL = "failed_terminal"


class OperationPhase(StrEnum):
    """How far an operation has come: the last step that is known to be on the disk."""

    PLANNED = "planned"
    """It is about to be written to the journal."""
    BLOCKED = "blocked"
    """A question has to be answered first."""
    WAITING = "waiting"
    """A card is before the owner."""
    APPROVED = "approved"
    """The owner's yes was used up for it; it is being done."""
    JOURNAL_COMMITTED = "journal_committed"
    AGENT_COMMITTED = "agent_committed"


class OperationStatus(StrEnum):
    """Whether an operation needs anything more."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"
    """Nobody was asked, and it could not be written. It may be begun again."""
    DECLINED = "declined"
    REFUSED = "refused"
    """The owner said yes, and it could not be done all the same."""
    CANCELLED = "cancelled"


class ModelRuleScope(StrEnum):
    """What a rule about models is for."""

    CATEGORY = "category"
    KIND = "kind"


class StopScope(StrEnum):
    """What a stop switch stops."""

    GLOBAL = "global"
    COMPANION = "companion"
    TOOL_CLASS = "tool_class"


class BoundaryType(StrEnum):
    """The borders that only projected data may cross."""

    PROVIDER_INFERENCE_REQUEST = "provider_inference_request"


class TimerKind(StrEnum):
    """How a timer's intent is written."""

    DAILY = "daily"
    CRON = "cron"
    ONCE = "once"


JsonMap = dict[str, Any]
VectorClock = dict[str, int]
"""How many writes of each host this record knows of."""

REGISTERED_EXTENSIONS: frozenset[str] = frozenset()
"""The namespaced keys that an `extension` may have. A key that is not here is refused."""


def check_extension(extension: JsonMap) -> JsonMap:
    """Refuse whatever was not registered: an untyped field must not become a schema."""
    if extension and (unknown := sorted(extension.keys() - REGISTERED_EXTENSIONS)):
        raise ValueError(f"not a registered extension: {', '.join(unknown)}")
    return extension


class Synced(Data):
    """A record that converges across devices: it has a vector clock, and it dies as a tombstone.

    The store sets both: a writer hands in the record that it has read, changed.
    """

    vector_clock: VectorClock = Field(default_factory=dict)
    deleted_at: UtcDatetime | None = None


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
    mode: AgentInteractionMode = AgentInteractionMode.HYBRID
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
    baseline_mode: AgentInteractionMode
    opened_at: UtcDatetime
    last_activity_at: UtcDatetime
    expires_at: UtcDatetime
    closed_at: UtcDatetime | None = None
    close_reason: str | None = None


class BudgetUsage(Data):
    """What was used, in whole numbers so that sums are exact."""

    tokens: int = Field(default=0, ge=0)
    cost_micro_usd: int = Field(default=0, ge=0)
    runtime_ms: int = Field(default=0, ge=0)
    tool_calls: int = Field(default=0, ge=0)

    def __add__(self, other: "BudgetUsage") -> "BudgetUsage":
        return BudgetUsage(
            tokens=self.tokens + other.tokens,
            cost_micro_usd=self.cost_micro_usd + other.cost_micro_usd,
            runtime_ms=self.runtime_ms + other.runtime_ms,
            tool_calls=self.tool_calls + other.tool_calls,
        )


class BudgetWindow(Synced):
    """The use of one local day. Each host counts its own; the sum over all counts."""

    id: Identifier
    agent_id: Identifier
    window_start_local_date: date
    time_zone: Identifier
    usage_by_host: dict[str, BudgetUsage] = Field(default_factory=dict)
    updated_at: UtcDatetime

    @property
    def total(self) -> BudgetUsage:
        return sum(self.usage_by_host.values(), BudgetUsage())


class BudgetReservation(Data):
    """What one question to a model may use, set aside before it is asked. Kept on this device.

    It is gone when the question is settled. One that is left was not: all of it counts as used.
    """

    id: Identifier
    agent_id: Identifier
    window_start_local_date: date
    time_zone: Identifier
    usage: BudgetUsage
    created_at: UtcDatetime


class ProviderPrivacyPolicy(Synced):
    """What a provider says that it does with what it is sent."""

    id: Identifier
    provider: Identifier
    model: Identifier
    policy_version: Identifier
    training: str
    retention: str
    jurisdiction: str
    disclosure: str
    updated_at: UtcDatetime


class ModelGrant(Data):
    """The owner has read what a provider does with these fields, and lets a companion ask it.

    It is for this companion in these categories, for this provider, host and port, model, account
    and these fields, and for nothing else. Of the key it knows where the vault keeps it; never the
    key itself. Kept on this device.
    """

    id: Annotated[str, Field(min_length=1, max_length=1_000)]
    agent_id: Identifier
    category_ids: tuple[str, ...] = ()
    provider: Identifier
    model: Identifier
    host: str | None = None
    port: int | None = None
    secret_ref_id: str | None = None
    fields: tuple[str, ...] = ()
    policy_version: Identifier
    disclosure_hash: Identifier
    confirmed_at: UtcDatetime
    revoked_at: UtcDatetime | None = None


class ModelRule(Data):
    """Which models alone may be asked about a category, or by a kind of companions."""

    id: Identifier
    scope: ModelRuleScope
    target: Identifier
    models: Annotated[tuple[Identifier, ...], Field(min_length=1)]
    """`provider:model`, or `provider:*` for all of a provider."""
    updated_at: UtcDatetime

    def allows(self, provider: str, model_id: str) -> bool:
        """Whether the model is one of these."""
        return model_id in self.models or f"{provider}:*" in self.models


class ProjectionPolicy(Synced):
    """The fields that may cross a border for an operation, and what is made unreadable in them."""

    id: Identifier
    boundary_type: BoundaryType
    operation_key: Identifier
    allowed_fields: tuple[str, ...]
    redaction_rules: tuple[str, ...] = ()
    policy_version: Identifier
    updated_at: UtcDatetime


class StopSwitch(Data):
    """The owner's emergency stop for everything, one companion, or a class of tools."""

    id: Identifier
    scope: StopScope
    target: str | None = None
    engaged: bool
    reason: str | None = None
    changed_at: UtcDatetime


class ErasureReceipt(Data):
    """What the owner has had forgotten: what went, and what stays. It holds no erased word."""

    id: Identifier
    created_at: UtcDatetime
    agent_id: str | None = None
    category_id: str | None = None
    since: UtcDatetime | None = None
    until: UtcDatetime | None = None
    words_digest: str | None = None
    done: bool
    """False: it was only looked at."""
    removed: dict[str, int] = Field(default_factory=dict)
    """How many rows of which table."""
    redacted: dict[str, int] = Field(default_factory=dict)
    """In how many rows, which had to stay, a word was written over."""
    in_words: tuple[str, ...] = ()
    """Both, as people read it."""
    companions: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
