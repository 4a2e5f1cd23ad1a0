"""What a tool call and its result are, and what a tool says about itself."""

from enum import StrEnum
from typing import Any

from pydantic import Field

from silas.companions.models import ToolResultStatus, WakeReason
from silas.kernel import TaintLevel
from silas.kernel.models import Data


class AgentCapability(StrEnum):
    """What a companion may be able to do at all."""

    CATEGORY_READ = "category_read"
    TASK_READ = "task_read"
    TASK_WRITE = "task_write"
    CHECKLIST_WRITE = "checklist_write"
    TIME_WRITE = "time_write"
    DAY_PLAN_READ = "day_plan_read"
    DAY_PLAN_WRITE = "day_plan_write"
    RATING_READ = "rating_read"
    RATING_WRITE = "rating_write"


class ToolClass(StrEnum):
    """What can be stopped together."""

    READ = "read"
    WRITE = "write"
    TASK = "task"
    CHECKLIST = "checklist"
    TIME = "time"
    DAY_PLAN = "day_plan"
    RATING = "rating"
    HIGH_RISK = "high_risk"
    MODEL = "model"
    """Asking a model; no tool, but stopped like one."""


class AgentCapabilityProfile(Data):
    """What a companion may do: whatever is not named is not allowed."""

    capabilities: frozenset[AgentCapability]
    tools: frozenset[str]

    def allows(self, tool_name: str, needed: frozenset[AgentCapability]) -> bool:
        """Whether the tool is named and everything that it needs is granted."""
        return tool_name in self.tools and bool(needed) and needed <= self.capabilities


class AgentAccessScope(Data):
    """The categories that a call may touch; an empty scope touches nothing."""

    allowed_category_ids: frozenset[str]


class AgentToolCall(Data):
    """One call, as it is checked, approved and executed."""

    agent_id: str
    agent_kind: str
    thread_id: str
    run_key: str
    tool_name: str
    operation_id: str
    wake_reason: WakeReason
    scope: AgentAccessScope
    arguments: dict[str, Any] = Field(default_factory=dict)
    preview_only: bool = False
    taint: TaintLevel = TaintLevel.EXTERNAL
    """Whose words it is made of; where nobody has looked, anybody's."""


class AgentToolResult(Data):
    """What came of a call, for the memory, for retries and for the trace."""

    success: bool
    status: ToolResultStatus
    tool_action_id: str
    tool_name: str
    operation_id: str
    changed_entity_ids: tuple[str, ...] = ()
    changed_tokens: tuple[str, ...] = ()
    payload: dict[str, Any] = Field(default_factory=dict)
    error_code: str | None = None
    error_message: str | None = None


class ToolEffect(Data):
    """What a handler did, or would do if this is a preview."""

    payload: dict[str, Any] = Field(default_factory=dict)
    changed_entity_ids: tuple[str, ...] = ()
    changed_tokens: tuple[str, ...] = ()


class SideEffects(Data):
    """What a tool may change, and which tokens tell others about it."""

    entity_types: tuple[str, ...] = ()
    notification_tokens: tuple[str, ...] = ()


class IdempotencyStrategy(StrEnum):
    """Why a call that is made twice has one effect."""

    READ_ONLY = "read_only"
    OPERATION_ID = "operation_id"


class ScopeRule(StrEnum):
    """How the category boundary is kept."""

    FILTER_BY_SCOPE = "filter_by_scope"
    """A read sees only what lies in the scope."""
    TARGET_IN_SCOPE = "target_in_scope"
    """What is written lies in the scope, before and after."""
    SOURCE_AND_DESTINATION_IN_SCOPE = "source_and_destination_in_scope"
    """Both ends of a move lie in the scope."""
