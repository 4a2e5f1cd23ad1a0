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
from silas.companions.reports import ChartView, Freshness
from silas.kernel.models import Data, UtcDatetime


class CompanionHealth(StrEnum):
    """How a companion is, in one word."""

    RUNNING = "running"
    IDLE = "idle"
    SLEEPING = "sleeping"
    PAUSED = "paused"
    STOPPED = "stopped"
    OUT_OF_BUDGET = "out_of_budget"
    NEEDS_CONSENT = "needs_consent"
    """It has a model, and the owner has not agreed to it."""
    HELD_BACK = "held_back"
    """A class of calls is stopped that it needs."""
    FAILING = "failing"
    """Its last run failed."""
    DESTROYED = "destroyed"


class TroubleWay(StrEnum):
    """What the owner can do at once against what is wrong."""

    CONSENT = "consent"
    CONFIGURE = "configure"
    RELEASE = "release"
    RESUME = "resume"
    WAKE = "wake"


class CompanionTrouble(Data):
    """What keeps a companion from its work, and the one step that helps."""

    code: str
    text: str
    way: TroubleWay
    step: str
    """The same in a sentence."""
    blocks: bool = True
    """False: it only warns."""
    failures: int = 0
    """How many runs in a row have failed."""
    until: UtcDatetime | None = None
    """Until when it sleeps, or does not try by itself."""
    scope: StopScope | None = None
    target: str | None = None
    """Of the switch that is to be released."""


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
    trouble: CompanionTrouble | None = None
    sleep_until: UtcDatetime | None = None
    """Until when nobody but the owner wakes it."""
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
    goal: str | None
    keeps: tuple[str, ...]
    """What the owner has told it to keep in mind, in the owner's words."""
    questions: tuple[QuestionView, ...]
    waiting: tuple[WaitingView, ...]
    runs: tuple[RunView, ...]


class DoneView(Data):
    """One action of a turn, and what has become of it."""

    operation_id: str
    what: str
    """In words: `add a follow-up task`."""
    writes: bool
    outcome: str
    """In words: `done`, `waits for your decision`."""
    waits: bool
    changes: tuple[str, ...] = ()
    error_code: str | None = None


class TurnQuestion(Data):
    """A question that was asked in a turn, and its answer."""

    id: str
    interaction_type: AgentInteractionType
    prompt_text: str
    options: tuple[str, ...]
    open: bool
    answer: str | None = None
    required_by: UtcDatetime | None = None


class TurnView(Data):
    """One turn of a conversation: a run, as the owner sees it."""

    run_key: str
    at: UtcDatetime
    reason: WakeReason
    asked: bool
    """Whether the owner has begun it."""
    said: str | None
    """What the owner said."""
    text: str
    """What the companion answered."""
    by_rules: bool
    did: tuple[DoneView, ...]
    questions: tuple[TurnQuestion, ...]
    status: WakeStatus
    error_code: str | None = None
    problem: str | None = None
    """Why there is no answer."""
    called_off: bool = False
    forgotten: bool = False
    """It had an answer, and the owner has had that forgotten."""
    repeats: int = 0
    """How many later runs ended with the same failure."""
    session_id: str | None = None


class SessionView(Data):
    """The conversation that is open."""

    id: str
    opened_at: UtcDatetime
    ends_at: UtcDatetime
    """If nobody says anything."""


class ConversationView(Data):
    """What was said, oldest first."""

    turns: tuple[TurnView, ...]
    earlier: bool
    """Whether there is more before it."""
    quiet: int
    """How many wakes there were besides, that had nothing to say."""
    session: SessionView | None = None


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
    """A report, how fresh it is, and what can be drawn of it."""

    report: AgentReport
    freshness: Freshness
    charts: tuple[ChartView, ...] = ()


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
    replies: bool = True
    """False: these words answered a question, and what waited for it goes on by itself."""
