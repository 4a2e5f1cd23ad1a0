"""What a companion shows: reports with their sources, its persona, its questions."""

from typing import Literal

from pydantic import Field

from silas.companions.models.identity import Identifier
from silas.companions.models.kinds import (
    AgentInteractionType,
    AgentPersonaStatus,
    AgentPromptItemState,
    InferenceFlag,
    ReportScope,
    SourceType,
)
from silas.companions.models.synced import JsonMap, Synced
from silas.kernel.models import UtcDatetime


class AgentReport(Synced):
    """An immutable report for people."""

    id: Identifier
    agent_id: Identifier
    scope: ReportScope
    created_at: UtcDatetime
    content: JsonMap
    confidence: float | None = Field(default=None, ge=0, le=1)
    provenance: JsonMap = Field(default_factory=dict)


class AgentReportHead(Synced):
    """The newest report of a scope."""

    id: Identifier
    agent_id: Identifier
    scope: ReportScope
    report_id: Identifier
    updated_at: UtcDatetime


class ReportSourceRef(Synced):
    """The source of one claim in a report."""

    id: Identifier
    agent_id: Identifier
    report_id: Identifier
    section_id: Identifier
    claim_id: Identifier
    source_type: SourceType
    source_locator: Identifier
    captured_at: UtcDatetime
    freshness_at: UtcDatetime
    confidence: float | None = Field(default=None, ge=0, le=1)
    inference_flag: InferenceFlag


class AgentPersonaVersion(Synced):
    """How a companion speaks and behaves; a version never changes once it is in use."""

    id: Identifier
    agent_id: Identifier
    version: int = Field(ge=1)
    status: AgentPersonaStatus
    voice_directives: JsonMap = Field(default_factory=dict)
    tone_bounds: JsonMap = Field(default_factory=dict)
    coaching_style: str | None = None
    anti_sycophancy_policy: str | None = None
    diff_from_version_id: str | None = None
    authored_by: Literal["user", "agent", "system"]
    approved_by: str | None = None
    approved_at: UtcDatetime | None = None
    source_session_id: str | None = None
    created_at: UtcDatetime


class AgentPersonaHead(Synced):
    """The persona in use. Of two that were chosen at once, the higher version wins."""

    id: Identifier
    agent_id: Identifier
    persona_version_id: Identifier
    persona_version: int = Field(ge=1)
    host_id: Identifier
    updated_at: UtcDatetime
    siblings: tuple["AgentPersonaHead", ...] = ()


class AgentPromptItem(Synced):
    """A question to the owner."""

    id: Identifier
    agent_id: Identifier
    run_key: Identifier
    interaction_type: AgentInteractionType
    prompt_text: str
    options: tuple[str, ...] = ()
    required_by: UtcDatetime | None = None
    gates_operation_id: str | None = None
    """The operation that must wait for the answer."""
    state: AgentPromptItemState = AgentPromptItemState.OPEN
    created_at: UtcDatetime
    resolved_at: UtcDatetime | None = None


class AgentPromptResponse(Synced):
    """An answer; its id is worked out from the question and the answer."""

    id: Identifier
    prompt_item_id: Identifier
    agent_id: Identifier
    run_key: Identifier
    response: JsonMap
    response_entry_ref: str | None = None
    supersedes_response_id: str | None = None
    responded_at: UtcDatetime
