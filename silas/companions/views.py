"""What the surfaces show of companions: frozen, complete, and safe to send as JSON."""

from enum import StrEnum
from typing import Any

from silas.companions.budgets import BudgetState
from silas.companions.messages import AgentPersonaVersion, AgentReport
from silas.companions.models import (
    AgentInteractionMode,
    AgentInteractionType,
    AgentLifecycle,
    StopScope,
    TimerKind,
    WakeReason,
    WakeStatus,
)
from silas.companions.persona import PersonaChange
from silas.companions.reports import Freshness
from silas.kernel.models import Data, UtcDatetime


class CompanionHealth(StrEnum):
    """How a companion is, in one word."""

    RUNNING = "running"
    IDLE = "idle"
    SLEEPING = "sleeping"
    PAUSED = "paused"
    STOPPED = "stopped"
    OUT_OF_BUDGET = "out_of_budget"
    FAILING = "failing"
    DESTROYED = "destroyed"


class CategoryRef(Data):
    """A category, by id and name."""

    id: str
    name: str


class CompanionView(Data):
    """One line of the list."""

    id: str
    kind: str
    display_name: str
    health: CompanionHealth
    lifecycle: AgentLifecycle
    mode: AgentInteractionMode
    categories: tuple[CategoryRef, ...]
    model_id: str | None
    """None: the offline brain."""
    needs_consent: bool
    budget: BudgetState
    open_questions: int
    waiting_actions: int
    report_fresh: bool | None
    """None: there is no report yet."""
    consecutive_failures: int
    last_wake_at: UtcDatetime | None
    created_at: UtcDatetime


class CompanionName(Data):
    """What is needed to find out who is meant."""

    id: str
    kind: str
    display_name: str


class CompanionList(Data):
    """A part of the list, and how many there are in all."""

    companions: tuple[CompanionView, ...]
    total: int


class WaitingView(Data):
    """An action that waits for the owner."""

    operation_id: str
    agent_id: str
    tool_name: str
    what: str
    """The same in words: `add a follow-up task`."""
    status: str
    reason: str
    arguments: dict[str, Any]
    preview: dict[str, Any]
    changes: tuple[str, ...]
    """What would be different, in words."""
    last_error: str | None
    created_at: UtcDatetime


class QuestionView(Data):
    """A question that waits for the owner."""

    id: str
    agent_id: str
    agent_name: str
    interaction_type: AgentInteractionType
    prompt_text: str
    options: tuple[str, ...]
    required_by: UtcDatetime | None
    gates: int
    """How many actions wait for the answer."""
    created_at: UtcDatetime


class RunView(Data):
    """One wake."""

    run_key: str
    reason: WakeReason
    status: WakeStatus
    error_code: str | None
    error_message: str | None
    queued_at: UtcDatetime
    ended_at: UtcDatetime | None


class CompanionDetail(Data):
    """Everything about one companion."""

    companion: CompanionView
    summary: str
    tools: tuple[str, ...]
    may: tuple[str, ...]
    """What it can do, in words."""
    capabilities: tuple[str, ...]
    confirm_from: str
    wakes_on: tuple[str, ...]
    persona: AgentPersonaVersion | None
    questions: tuple[QuestionView, ...]
    waiting: tuple[WaitingView, ...]
    runs: tuple[RunView, ...]


class TimerView(Data):
    """A timer of a companion's."""

    id: str
    words: str
    """When it rings: `every day at 07:00`."""
    kind: TimerKind
    at: str | None
    """`07:00`, where it can be said as a time of day and days of the week; else None."""
    days: tuple[str, ...]
    active: bool
    next_run_at: UtcDatetime | None
    time_zone: str


class KindView(Data):
    """A kind of companion that can be made."""

    kind: str
    display_name: str
    summary: str
    built_in: bool
    problem: str | None = None
    """What is wrong with the owner's file, if something is."""


class CompanionModelView(Data):
    """A model that a companion can be given, and where it is."""

    model_id: str
    address: str


class DisclosureView(Data):
    """What the owner is shown before a model is asked for the first time."""

    model_id: str
    provider: str
    host: str | None
    """With its port, where it is not the usual one."""
    policy_version: str
    training: str
    retention: str
    jurisdiction: str
    disclosure: str
    fields: tuple[str, ...]
    """Everything that may be sent."""
    sent: tuple[str, ...]
    """The same in words."""
    confirmed: bool


class ReportView(Data):
    """A report and how fresh it is."""

    report: AgentReport
    freshness: Freshness


class SourceView(Data):
    """Why something is said: one source of one claim."""

    claim_id: str
    source_locator: str
    record_id: str
    """In the journal, if the source is there."""
    label: str
    inferred: bool
    captured_at: UtcDatetime
    freshness_at: UtcDatetime
    exists: bool
    """Whether the record is still there."""


class PersonaView(Data):
    """One version of a persona, and what it changes."""

    version: AgentPersonaVersion
    in_use: bool
    waits: bool
    """For the owner's yes or no."""
    changes: tuple[PersonaChange, ...]


class SwitchView(Data):
    """A stop switch that is on."""

    scope: StopScope
    target: str | None
    target_name: str | None = None
    """Of a companion."""
    reason: str | None
    changed_at: UtcDatetime


class WakeView(Data):
    """A wake that was asked for."""

    run_key: str
    agent_id: str
