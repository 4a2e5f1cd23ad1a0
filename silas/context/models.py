"""What a context is made of: items in four zones, references to live things, and a budget.

And what the context needs from others. A port that is absent means no: see each one.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, NamedTuple, Protocol, Self

from pydantic import Field, field_validator, model_validator

from silas.kernel import ContextError, Provenance, TaintLevel
from silas.kernel.models import Data, UtcDatetime


class ProfileUnknown(ContextError):
    """There is no context profile of this name. Choose one of `context.profiles`."""

    code = "E_CONTEXT_PROFILE"


class ZoneFull(ContextError):
    """What stays in the context for good would take too much of it. Make it shorter."""

    code = "E_CONTEXT_FULL"


class SubscriptionRefused(ContextError):
    """This cannot be watched. Name a file below a directory that is allowed, or a query."""

    code = "E_CONTEXT_SUBSCRIPTION"


_MAX_PROFILE_SUM = 0.80
_ROUNDING = 1e-9  # 0.45 + 0.20 + 0.15 is a little more than 0.80

Share = Annotated[float, Field(allow_inf_nan=False)]


class ContextZone(StrEnum):
    """The zones, in the order in which they are rendered."""

    SYSTEM = "system"
    CHRONICLE = "chronicle"
    MEMORY = "memory"
    WORKSPACE = "workspace"


class ContextKind(StrEnum):
    """What an item is; it decides how its tag reads."""

    MESSAGE = "message"
    TOOL_RESULT = "tool_result"
    MEMORY = "memory"
    PLAN = "plan"
    EXECUTION_RESULT = "execution_result"
    SUBSCRIPTION = "subscription"
    SYSTEM = "system"


class ContextProfile(Data):
    """How one kind of task divides what the system zone leaves."""

    name: str
    chronicle_pct: Share
    memory_pct: Share
    workspace_pct: Share

    @field_validator("chronicle_pct", "memory_pct", "workspace_pct")
    @classmethod
    def _is_a_share(cls, value: float) -> float:
        if not 0.0 <= value <= 1.0:
            raise ValueError("must be between 0 and 1")
        return value

    @model_validator(mode="after")
    def _leave_headroom(self) -> Self:
        total = math.fsum((self.chronicle_pct, self.memory_pct, self.workspace_pct))
        if total > _MAX_PROFILE_SUM + _ROUNDING:
            raise ValueError(f"must add up to at most {_MAX_PROFILE_SUM:.2f}, not {total:.2f}")
        return self


class ContextItem(Data):
    """One block of a context."""

    ctx_id: str
    zone: ContextZone
    content: str
    token_count: int = Field(default=0, ge=0)
    """Of the block as it is rendered. The manager counts; what a caller says is not relied on."""
    created_at: UtcDatetime
    turn_number: int
    source: str
    """Such as `channel:web`, `agent:planner`, `memory:profile` or `tool:shell_exec:failed`."""
    taint: TaintLevel
    sources: tuple[str, ...] = ()
    """The strangers' texts that an `external` item comes from, in words for the owner."""
    kind: ContextKind
    relevance: float = Field(default=1.0, allow_inf_nan=False)
    masked: bool = False
    pinned: bool = False


class SubscriptionType(StrEnum):
    """What a subscription refers to."""

    FILE = "file"
    FILE_LINES = "file_lines"
    MEMORY_QUERY = "memory_query"


class ContextSubscription(Data):
    """A reference to something live, which is read anew when it is rendered."""

    sub_id: str
    sub_type: SubscriptionType
    target: str
    """A path, `path:start-end`, or the words of a query."""
    zone: ContextZone = ContextZone.WORKSPACE
    created_at: UtcDatetime
    turn_created: int
    content_hash: str = ""
    active: bool = True
    token_count: int = Field(default=0, ge=0)


def _default_profiles() -> dict[str, ContextProfile]:
    shares = {
        "conversation": (0.45, 0.20, 0.15),
        "coding": (0.20, 0.20, 0.40),
        "research": (0.20, 0.40, 0.20),
        "support": (0.40, 0.25, 0.15),
    }
    return {
        name: ContextProfile(name=name, chronicle_pct=first, memory_pct=second, workspace_pct=third)
        for name, (first, second, third) in shares.items()
    }


class TokenBudget(Data):
    """How much a model is shown, and when something has to leave."""

    total: int = Field(default=180_000, ge=1)
    system_max: int = Field(default=8_000, ge=0)
    beside: int = Field(default=0, ge=0)
    """What an agent is given beside the context: its instructions and the descriptions of tools."""
    skill_metadata_budget_pct: float = Field(default=0.02, ge=0.0, le=1.0)
    eviction_threshold_pct: float = Field(default=0.80, ge=0.0, le=1.0)
    scorer_threshold_pct: float = Field(default=0.90, ge=0.0, le=1.0)
    max_subscription_tokens: int = Field(default=2_000, ge=1)
    subscription_ttl_turns: int = Field(default=10, ge=1)
    observation_mask_after_turns: int = Field(default=5, ge=0)
    profiles: Mapping[str, ContextProfile] = Field(default_factory=_default_profiles)
    default_profile: str = "conversation"

    @property
    def usable(self) -> int:
        """What the whole context may take."""
        return max(self.total - self.beside, 0)

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if self.default_profile not in self.profiles:
            raise ValueError(f"default_profile: there is no profile {self.default_profile!r}")
        if self.system_max > self.total:
            raise ValueError("system_max cannot be more than total")
        if self.eviction_threshold_pct > self.scorer_threshold_pct:
            raise ValueError("eviction_threshold_pct cannot be above scorer_threshold_pct")
        return self


class SessionType(StrEnum):
    """The one conversation that never ends, or one beside it."""

    STREAM = "stream"
    SIDE = "side"


class Session(Data):
    """One session of a scope."""

    session_id: str
    session_type: SessionType
    title: str
    created_at: UtcDatetime
    last_active: UtcDatetime
    turn_count: int = Field(default=0, ge=0)
    active: bool = True
    pinned_ctx_ids: list[str] = Field(default_factory=list)


class ContextGroup(Data):
    """Blocks that make sense only together, as the scorer is shown them."""

    group_id: str
    kind: str
    """Such as `message`, `tool_result` or `memory`."""
    turn_number: int
    token_count: int
    text: str
    taint: TaintLevel


class Scorer(Protocol):
    """A model that says which groups are worth least. Absent: the rules alone decide."""

    async def score(self, groups: Sequence[ContextGroup], goal: str | None) -> list[str]:
        """The ids of the groups to drop, the least valuable first.

        Raises `LlmError` if there is no usable answer in time; then the rules alone decide.
        """
        ...


class TokenCounter(Protocol):
    """Says how much of a model's window a text takes."""

    def count(self, text: str) -> int:
        """How many tokens the text has; never less than nought."""
        ...


class ExactTokens(Protocol):
    """A server that counts tokens as its model does. Absent: they are estimated."""

    async def count(self, text: str) -> int:
        """How many tokens the text has; raises a `SilasError` if nobody can tell now."""
        ...


class WorkFile(NamedTuple):
    """A file that a piece of work is about."""

    work_item_id: str
    target: str
    """A path, or `path:start-end`."""
    is_range: bool = False


class PlannedWork(NamedTuple):
    """A plan of a conversation, and what came of it."""

    work_item_id: str
    text: str
    created_at: datetime
    provenance: Provenance
    result: str = ""
    """Empty as long as it has not ended."""


class OngoingWork(Protocol):
    """The work of a conversation. Absent: no file of it is watched."""

    async def files(self, scope_id: str) -> list[WorkFile]:
        """The files that the unfinished work of this scope is about."""
        ...

    async def ended(self, work_item_ids: Sequence[str]) -> list[str]:
        """Those of these pieces of work that have ended, or are not known any more."""
        ...

    async def planned(self, scope_id: str) -> list[PlannedWork]:
        """The last plans of this scope, the newest first."""
        ...
