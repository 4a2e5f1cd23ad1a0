"""The closed sets of words that companions speak."""

from enum import StrEnum


class AgentLifecycle(StrEnum):
    """How far a companion's life has come. The order is the order of precedence in a merge."""

    CREATED = "created"
    ACTIVE = "active"
    DORMANT = "dormant"
    """It sleeps: neither changes nor timers wake it, but it answers when it is spoken to."""
    DESTROYED = "destroyed"
    """It is gone for good. Nothing wakes it, and nothing that it does is written any more."""


class InteractionMode(StrEnum):
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


class SagaPhase(StrEnum):
    """The last step of a write to both databases that is known to be on the disk."""

    PLANNED = "planned"
    JOURNAL_COMMITTED = "journal_committed"
    AGENT_COMMITTED = "agent_committed"


class SagaStatus(StrEnum):
    """Whether a write to both databases needs anything more."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"


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
