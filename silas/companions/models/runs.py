"""A wake, the run that follows from it, and what it leaves behind."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import Field

from silas.companions.models.artifacts import AgentReport, ReportSourceRef
from silas.companions.models.identity import AgentState, Identifier
from silas.companions.models.kinds import (
    AgentActionType,
    SagaPhase,
    SagaStatus,
    WakeReason,
    WakeStatus,
)
from silas.companions.models.messages import MessageDraft
from silas.companions.models.policies import BudgetUsage
from silas.companions.models.synced import JsonMap
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Transaction


class WakeJob(Data):
    """One wake. Its `run_key` follows from its cause alone, so the same cause is the same wake."""

    run_key: Identifier
    thread_id: Identifier
    agent_id: Identifier
    reason: WakeReason
    reason_id: str | None = None
    session_id: str | None = None
    seed_input: str | None = None
    logical_change_keys: tuple[str, ...] = ()
    changed_entity_ids: tuple[str, ...] = ()
    source_cursor: int | None = None
    """How far the journal was when this was wanted."""
    scheduled_at: UtcDatetime | None = None
    cause: str | None = None
    """For a catch-up: what was missed (`timer`)."""


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


class SagaEntry(Data):
    """How far a write to both databases has come."""

    operation_id: Identifier
    run_key: Identifier
    agent_id: Identifier
    tool_name: Identifier
    call: JsonMap
    """All that is needed to do it again."""
    phase: SagaPhase = SagaPhase.PLANNED
    status: SagaStatus = SagaStatus.PENDING
    result: JsonMap | None = None
    attempt_count: int = 0
    last_error: str | None = None
    created_at: UtcDatetime
    updated_at: UtcDatetime


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
    source_refs: tuple[ReportSourceRef, ...] = ()
    writes: tuple[Callable[[Transaction], Any], ...] = field(default=(), repr=False)
    """Further writes to the same database; they may be run again."""
    error_code: str | None = None
    next_wake_at: datetime | None = None
