"""What is remembered, how it is asked for, and what the memory needs from others."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Protocol, Self

from pydantic import Field, model_validator

from silas.kernel import TaintLevel
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Transaction


class MemoryType(StrEnum):
    """What kind of thing is remembered."""

    FACT = "fact"
    EPISODE = "episode"
    PREFERENCE = "preference"
    SKILL_NOTE = "skill_note"
    DECISION = "decision"
    FORESIGHT = "foresight"
    PROFILE = "profile"


class ReingestionTier(StrEnum):
    """Whether a memory may come back by itself."""

    ACTIVE = "active"
    LOW_REINGESTION = "low_reingestion"


class TrustLevel(StrEnum):
    """How far a memory may be relied on."""

    WORKING = "working"
    VERIFIED = "verified"
    CONSTITUTIONAL = "constitutional"


MODEL_WORDING = "model_wording"
"""The `source_kind` of what an agent has worded; see rule 8 of `silas.memory.trust`."""
PASSAGES = (
    "context",
    "conversation_raw",
    "agent_response_raw",
    "tool_output_raw",
    "research_query_raw",
)
"""The `source_kind` of what is kept as it went by: nobody wished to have it remembered."""


class Words(StrEnum):
    """Who has worded what an agent wants remembered."""

    OWNER = "owner"
    """It stands in the owner's own message."""
    MODEL = "model"


class MemoryItem(Data):
    """One memory of one scope."""

    memory_id: str
    scope_id: str = "owner"
    content: str
    memory_type: MemoryType = MemoryType.EPISODE
    reingestion_tier: ReingestionTier = ReingestionTier.ACTIVE
    trust_level: TrustLevel = TrustLevel.WORKING
    taint: TaintLevel
    """Given always: a default would call somebody's text the owner's."""
    created_at: UtcDatetime
    updated_at: UtcDatetime
    valid_from: UtcDatetime | None = None
    valid_until: UtcDatetime | None = None
    access_count: int = Field(default=0, ge=0)
    last_accessed: UtcDatetime | None = None
    semantic_tags: list[str] = Field(default_factory=list)
    entity_refs: list[str] = Field(default_factory=list)
    causal_refs: list[str] = Field(default_factory=list)
    temporal_next: str | None = None
    temporal_prev: str | None = None
    session_id: str | None = None
    source_kind: str = "memory_op"
    scrubbed: list[str] = Field(default_factory=list)
    """What was taken out of the content before it was kept: names of rules, never the text."""


class MemoryChange(Data):
    """One change that an agent's wish has made, with what it takes to undo it."""

    change_id: str
    scope_id: str
    memory_id: str
    op: "MemoryOpType"
    before: MemoryItem | None
    after: MemoryItem | None
    made_at: UtcDatetime
    undone_at: UtcDatetime | None = None


class MemoryQueryStrategy(StrEnum):
    """How memories are looked for. `fused` weighs all the others against each other."""

    FUSED = "fused"
    SEMANTIC = "semantic"
    TEMPORAL = "temporal"
    SESSION = "session"
    KEYWORD = "keyword"
    ENTITY = "entity"
    CAUSAL = "causal"


class MemoryQuery(Data):
    """One question to the memory."""

    strategy: MemoryQueryStrategy = MemoryQueryStrategy.FUSED
    query: Annotated[str, Field(min_length=1, max_length=2000)]
    max_results: int = Field(default=5, ge=1, le=50)
    max_tokens: int = Field(default=2000, ge=1, le=20_000)


class MemoryOpType(StrEnum):
    """What an agent may ask to have done to the memory."""

    STORE = "store"
    UPDATE = "update"
    DELETE = "delete"
    LINK = "link"


_REQUIRED = {
    MemoryOpType.STORE: ("content",),
    MemoryOpType.UPDATE: ("memory_id", "content"),
    MemoryOpType.DELETE: ("memory_id",),
    MemoryOpType.LINK: ("memory_id", "link_to", "link_type"),
}


class MemoryOp(Data):
    """A wish of an agent's about the memory. Gates and trust rules decide what becomes of it."""

    op: MemoryOpType
    content: str | None = None
    memory_id: str | None = None
    memory_type: MemoryType = MemoryType.EPISODE
    tags: list[str] = Field(default_factory=list)
    entity_refs: list[str] = Field(default_factory=list)
    link_to: str | None = None
    link_type: str | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        missing = [name for name in _REQUIRED[self.op] if not getattr(self, name)]
        if missing:
            raise ValueError(f"{self.op} needs {' and '.join(missing)}")
        return self


class Traces(Protocol):
    """Other places that hold what was said: chronicle, archive, deliveries. Absent: there are none.

    A memory that was kept from a message has the id of that message in its own.
    """

    def forget_in(self, tx: Transaction, scope_id: str, memories: Sequence[MemoryItem]) -> int:
        """Erase there what these memories were kept from, in this transaction; says how many."""
        ...

    async def forget_files(self, scope_id: str, memories: Sequence[MemoryItem]) -> int:
        """The same in files."""
        ...


class Embedder(Protocol):
    """Turns text into vectors. Absent means that memories are found by their words alone."""

    @property
    def model_id(self) -> str:
        """Names the model and its exact weights; vectors of different models never mix."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of every vector."""
        ...

    def embed(self, text: str) -> list[float]:
        """The vector of one text, of length 1."""
        ...

    def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of several texts, in their order."""
        ...
