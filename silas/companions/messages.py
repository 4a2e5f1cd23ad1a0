"""What a companion says and does: the log, what is shown, wakes, runs and their operations.

The log has immutable entries, their contents, and the edges between them. Shown are reports with
their sources, the persona, and questions. A wake, the run that follows from it, its operations and
what it leaves behind stay on this device, and so does the definition that a companion was made
from.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from silas.companions.errors import tool_code
from silas.companions.models import (
    AgentActionType,
    AgentInteractionType,
    AgentLinkRelation,
    AgentMessageKind,
    AgentPersonaStatus,
    AgentPromptItemState,
    AgentState,
    BudgetUsage,
    CompactionStatus,
    Extension,
    Identifier,
    InferenceFlag,
    JsonMap,
    OperationPhase,
    OperationStatus,
    ReportScope,
    SourceType,
    Synced,
    ToolResultStatus,
    WakeReason,
    WakeStatus,
)
from silas.kernel import SilasError
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Transaction


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
    sleep_until: UtcDatetime | None = None
    """A yes lets the companion sleep until then."""
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


WAITS = (OperationPhase.BLOCKED, OperationPhase.WAITING, OperationPhase.APPROVED)
"""The phases in which an operation waits for the owner, or for its turn after the owner's yes."""


class WakeJob(Data):
    """One wake. Its `run_key` follows from its cause alone, so the same cause is the same wake."""

    run_key: Identifier
    thread_id: Identifier
    agent_id: Identifier
    reason: WakeReason
    reason_id: str | None = None
    session_id: str | None = None
    seed_input: str | None = None
    reply_to: dict[str, str] | None = None
    """Where the owner waits for the answer, if that is not the companion's own conversation."""
    logical_change_keys: tuple[str, ...] = ()
    changed_entity_ids: tuple[str, ...] = ()
    source_cursor: int | None = None
    """How far the journal was when this was wanted."""
    scheduled_at: UtcDatetime | None = None
    cause: str | None = None
    """For a catch-up: what was missed (`timer`)."""
    by_rules: bool = False
    """The owner wants fixed rules to work, whatever model it has."""


FORGOTTEN = "forgotten"
"""Why a run ended that knew what its owner wanted to be forgotten: it leaves nothing behind."""


class WakeRun(Data):
    """The line of a wake in the log of wakes."""

    run_key: Identifier
    agent_id: Identifier
    job: WakeJob
    status: WakeStatus
    skip_reason: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    start_count: int = 0
    queued_at: UtcDatetime
    started_at: UtcDatetime | None = None
    ended_at: UtcDatetime | None = None
    absorbed_into: str | None = None
    """The run that has taken this wake's changes along, if it was coalesced."""


class NotificationProvenance(Data):
    """Why a change woke somebody: what its key was derived from."""

    logical_change_key: Identifier
    local_batch_id: Identifier
    change_unit_keys: tuple[str, ...]
    position: int
    """Where the journal's stream of batches was."""
    received_at: UtcDatetime


class PlannedAction(Data):
    """An action, fixed before it is carried out, so that a retry does the same and nothing else."""

    action_stable_id: Identifier
    operation_id: Identifier
    action_type: AgentActionType
    tool_name: str | None = None
    arguments: JsonMap = Field(default_factory=dict)
    arguments_hash: Identifier
    scope_snapshot: tuple[str, ...] = ()
    target_refs: tuple[str, ...] = ()
    preview_only: bool = False


class ActionPlan(Data):
    """The actions of one run, in their order."""

    run_key: Identifier
    agent_id: Identifier
    actions: tuple[PlannedAction, ...] = ()
    proposal: JsonMap = Field(default_factory=dict)
    """What the model answered, as it was received: a retry does not ask again."""
    created_at: UtcDatetime


class AgentOperation(Data):
    """One action on its way into the journal and the log, with all that is needed to go on with it.

    It is the one record of the plan's saga: whatever a crash or a wait leaves unfinished is here.
    """

    operation_id: Identifier
    agent_id: Identifier
    run_key: Identifier
    thread_id: Identifier
    phase: OperationPhase = OperationPhase.PLANNED
    status: OperationStatus = OperationStatus.PENDING
    call: JsonMap
    """The `AgentToolCall`."""
    reason: str = ""
    prompt_item_ids: tuple[str, ...] = ()
    """The questions that need a yes first."""
    approvable: JsonMap | None = None
    """The `ApprovableAction` as it was shown; None where no card was needed, or not yet."""
    token: JsonMap | None = None
    """The owner's signed yes, as it was issued. Whoever changes it here has no token any more."""
    result: JsonMap | None = None
    """The `AgentToolResult`, once the journal has it."""
    attempt_count: int = 0
    last_error: str | None = None
    created_at: UtcDatetime
    updated_at: UtcDatetime

    @property
    def is_over(self) -> bool:
        return self.status is not OperationStatus.PENDING

    @property
    def has_waited(self) -> bool:
        """Whether the owner was asked: then what becomes of it follows from the answer."""
        asked = self.approvable is not None or bool(self.prompt_item_ids)
        return asked or self.phase in WAITS


class TracedCall(Data):
    """A tool call as a trace shows it."""

    operation_id: Identifier
    action_stable_id: Identifier
    tool_name: Identifier
    status: str
    error_code: str | None = None
    retries: int = 0
    latency_ms: int = 0
    changed_entity_ids: tuple[str, ...] = ()


class PolicyDecision(Data):
    """A question to the policy, and its answer."""

    check: Identifier
    subject: str
    allowed: bool
    error_code: str | None = None
    detail: str | None = None


class PolicyDecisions:
    """What the policy has decided in a run; a check that raises is a no, with its code."""

    def __init__(self) -> None:
        self._made: list[PolicyDecision] = []

    @property
    def made(self) -> tuple[PolicyDecision, ...]:
        return tuple(self._made)

    @asynccontextmanager
    async def deciding(self, check: str, subject: str) -> AsyncIterator[None]:
        """Write down how the checks in this block end; what they raise goes on."""
        try:
            yield
        except SilasError as error:
            self._made.append(
                PolicyDecision(
                    check=check,
                    subject=subject,
                    allowed=False,
                    error_code=tool_code(error),
                    detail=error.message,
                )
            )
            raise
        self._made.append(PolicyDecision(check=check, subject=subject, allowed=True))


class RunTrace(Data):
    """All that explains a run, and all that is needed to replay it. It never leaves this device."""

    run_key: Identifier
    agent_id: Identifier
    thread_id: Identifier
    reason: WakeReason
    reason_id: str | None = None
    status: WakeStatus
    persona_version_id: str | None = None
    prompt_id: str | None = None
    prompt_version: str | None = None
    provider_id: str | None = None
    model_id: str | None = None
    inputs: JsonMap = Field(default_factory=dict)
    """The wake and the projected request, as the model saw it."""
    proposal: JsonMap = Field(default_factory=dict)
    tool_calls: tuple[TracedCall, ...] = ()
    policy_decisions: tuple[PolicyDecision, ...] = ()
    retries: int = 0
    usage: BudgetUsage = BudgetUsage()
    latency_ms: int = 0
    report_id: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    replay_of: str | None = None
    started_at: UtcDatetime
    ended_at: UtcDatetime


@dataclass(frozen=True)
class RunOutcome:
    """What a run wants to leave behind; the worker commits all of it at once, or nothing.

    `state` is the state after the run; its pointers are set when the drafts are appended.
    """

    status: WakeStatus
    state: AgentState
    trace: RunTrace
    drafts: tuple[MessageDraft, ...] = ()
    report: AgentReport | None = None
    more_reports: tuple[AgentReport, ...] = ()
    """Those of longer scopes."""
    source_refs: tuple[ReportSourceRef, ...] = ()
    writes: tuple[Callable[[Transaction], Any], ...] = field(default=(), repr=False)
    """Further writes to the same database; they may be run again."""
    error_code: str | None = None
    next_wake_at: datetime | None = None
    sleep_until: datetime | None = None
    """How long the run has asked to be left asleep; None if it did not."""


class KeptDefinition(Data):
    """The definition that a companion was made from. A file that changes later changes nothing."""

    agent_id: Identifier
    definition: JsonMap = Field(default_factory=dict)
    definition_hash: Identifier
    updated_at: UtcDatetime


class EarlierDefinition(Data):
    """A definition that a companion had before, so that there is a way back to it."""

    id: Identifier
    agent_id: Identifier
    definition: JsonMap = Field(default_factory=dict)
    definition_hash: Identifier
    replaced_at: UtcDatetime
