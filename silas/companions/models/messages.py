"""The log of a companion: immutable entries, their contents, and the edges between them."""

from pydantic import Field

from silas.companions.models.identity import Extension, Identifier
from silas.companions.models.kinds import (
    AgentLinkRelation,
    AgentMessageKind,
    CompactionStatus,
    ToolResultStatus,
)
from silas.companions.models.synced import JsonMap, Synced
from silas.kernel.models import Data, UtcDatetime


class AgentMessageMetadata(Data):
    """What can be asked of an entry without reading its content."""

    action_type: str | None = None
    tool_name: str | None = None
    arguments_hash: str | None = None
    scope_snapshot: tuple[str, ...] | None = None
    action_ref_id: str | None = None
    operation_id: str | None = None
    prompt_id: str | None = None
    prompt_version: str | None = None
    model_id: str | None = None
    changed_entity_ids: tuple[str, ...] = ()
    changed_tokens: tuple[str, ...] = ()
    status: ToolResultStatus | None = None
    error_code: str | None = None
    error_message: str | None = None
    summary_content_hash: str | None = None
    summary_contract_version: str | None = None
    extension: Extension = Field(default_factory=dict)


class AgentMessage(Synced):
    """One immutable entry of the log. Large content is elsewhere, under `content_entry_id`."""

    id: Identifier
    agent_id: Identifier
    thread_id: Identifier
    kind: AgentMessageKind
    created_at: UtcDatetime
    host_id: Identifier
    sequence: int = Field(ge=0)
    """Counts causally within the companion."""
    prev_message_id: str | None = None
    content_entry_id: str | None = None
    trigger_source_id: str | None = None
    summary_start_message_id: str | None = None
    summary_end_message_id: str | None = None
    summary_depth: int = 0
    tokens_approx: int = 0
    metadata: AgentMessageMetadata = AgentMessageMetadata()


class AgentMessagePayload(Synced):
    """The content of an entry, on its own so that it can be pruned on its own."""

    id: Identifier
    agent_id: Identifier
    created_at: UtcDatetime
    content: JsonMap
    content_type: str = "application/json"


class LinkDraft(Data):
    """An edge that a new message wants: from it to something."""

    relation: AgentLinkRelation
    to_id: Identifier
    metadata: JsonMap = Field(default_factory=dict)


class MessageDraft(Data):
    """A message before it has its place in the log.

    With a `message_id` (derived from a run key, say) appending it again does nothing.
    """

    agent_id: Identifier
    thread_id: Identifier
    kind: AgentMessageKind
    content: JsonMap | None = None
    metadata: AgentMessageMetadata = AgentMessageMetadata()
    message_id: str | None = None
    trigger_source_id: str | None = None
    links: tuple[LinkDraft, ...] = ()


class AgentLink(Synced):
    """An edge of the companions' own graph; the journal never sees it."""

    id: Identifier
    agent_id: Identifier
    relation: AgentLinkRelation
    from_id: Identifier
    to_id: Identifier
    created_at: UtcDatetime
    hidden: bool = False
    thread_id: str | None = None
    metadata: JsonMap = Field(default_factory=dict)


class CompactionJob(Data):
    """A span of the log that is to become one summary. Local to this device."""

    id: Identifier
    agent_id: Identifier
    thread_id: Identifier
    start_message_id: Identifier
    end_message_id: Identifier
    depth: int = Field(default=1, ge=1)
    """1 compresses raw entries, 2 compresses summaries."""
    status: CompactionStatus = CompactionStatus.PENDING
    attempt_count: int = 0
    next_attempt_at: UtcDatetime
    last_error: str | None = None
    created_at: UtcDatetime
    updated_at: UtcDatetime


class Diagnostic(Data):
    """Something odd that was met and handled; kept on this device for the owner to look at."""

    id: Identifier
    agent_id: str | None = None
    kind: Identifier
    subject_id: Identifier
    detail: JsonMap = Field(default_factory=dict)
    created_at: UtcDatetime
