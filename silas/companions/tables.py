"""Which table keeps which record, and which of its fields are columns to find it by."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from silas.companions.models import (
    ActionPlan,
    AgentLink,
    AgentMessage,
    AgentMessagePayload,
    AgentPersonaHead,
    AgentPersonaVersion,
    AgentPromptItem,
    AgentPromptResponse,
    AgentReport,
    AgentReportHead,
    AgentState,
    AgentSubscription,
    AgentTimer,
    BudgetReservation,
    BudgetWindow,
    CompactionJob,
    Companion,
    ConsentReceipt,
    Diagnostic,
    InteractiveSession,
    NotificationProvenance,
    ProjectionPolicy,
    ProviderAccessPolicy,
    ProviderPrivacyPolicy,
    ReportSourceRef,
    RunTrace,
    SagaEntry,
    StopSwitch,
    WakeRun,
)
from silas.companions.models.deciding import KeptDefinition, WaitingAction
from silas.companions.models.synced import Synced
from silas.journal.notifications import TokenClass
from silas.kernel import format_timestamp
from silas.kernel.models import Data
from silas.storage import SqlValue

R = TypeVar("R", bound=Data)


def _semantic_key(subscription: AgentSubscription) -> str | None:
    kinds = (each for each in subscription.tokens if each.token_class is TokenClass.SEMANTIC_KEY)
    return next((each.token_value for each in kinds), None)


_TAKEN_OUT: Mapping[tuple[type[Data], str], Callable[[Any], Any]] = MappingProxyType(
    {
        (AgentSubscription, "notification_key"): _semantic_key,
        (AgentLink, "type"): lambda link: link.relation,
        (ReportSourceRef, "source_id"): lambda ref: ref.source_locator,
        (AgentMessage, "operation_id"): lambda message: message.metadata.operation_id,
    }
)
"""The columns that are not simply a field."""


@dataclass(frozen=True)
class Table(Generic[R]):
    """Where one kind of record is kept."""

    name: str
    record: type[R]
    columns: tuple[str, ...]
    key: str = "id"
    order: str = "id"
    written_once: bool = False
    """A second write with the same key changes nothing."""
    outlives: bool = False
    """It may be written for a companion that was destroyed: it says what has become of it."""

    @property
    def synced(self) -> bool:
        return issubclass(self.record, Synced)

    @property
    def all_columns(self) -> tuple[str, ...]:
        return (self.key, *self.columns, *(["deleted_at"] if self.synced else []), "body")

    def values(self, record: R) -> list[SqlValue]:
        """The row of a record."""
        named = (self.key, *self.columns, *(["deleted_at"] if self.synced else []))
        return [*(self._value(record, name) for name in named), record.model_dump_json()]

    def read(self, body: str) -> R:
        """The record of a row."""
        return self.record.model_validate_json(body)

    def _value(self, record: R, name: str) -> SqlValue:
        taken = _TAKEN_OUT.get((self.record, name))
        return plain(taken(record) if taken else getattr(record, name))


def plain(value: Any) -> SqlValue:
    """A value of a record as a database has it."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, datetime):
        return format_timestamp(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool):
        return int(value)
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    raise TypeError(f"{type(value).__name__} is no column")


_ALL: tuple[Table[Any], ...] = (
    Table("agents", Companion, ("kind", "lifecycle", "created_at"), order="created_at"),
    Table("agent_states", AgentState, ("agent_id", "revision")),
    Table("agent_subscriptions", AgentSubscription, ("agent_id", "notification_key", "active")),
    Table("agent_timers", AgentTimer, ("agent_id", "active", "next_run_at"), order="next_run_at"),
    Table(
        "agent_sessions",
        InteractiveSession,
        ("agent_id", "expires_at", "closed_at"),
        order="expires_at",
    ),
    Table(
        "agent_messages",
        AgentMessage,
        (
            "agent_id",
            "thread_id",
            "kind",
            "sequence",
            "summary_depth",
            "operation_id",
            "content_entry_id",
            "created_at",
        ),
        order="sequence",
        written_once=True,
    ),
    Table(
        "agent_message_payloads",
        AgentMessagePayload,
        ("agent_id", "created_at"),
        order="created_at",
        written_once=True,
    ),
    Table(
        "agent_links",
        AgentLink,
        ("agent_id", "type", "from_id", "to_id", "hidden", "created_at"),
        order="created_at",
    ),
    Table(
        "agent_reports",
        AgentReport,
        ("agent_id", "scope", "created_at"),
        order="created_at",
        written_once=True,
    ),
    Table("agent_report_heads", AgentReportHead, ("agent_id", "scope", "report_id")),
    Table(
        "agent_source_refs",
        ReportSourceRef,
        ("agent_id", "report_id", "source_type", "source_id"),
        written_once=True,
    ),
    Table(
        "agent_persona_versions",
        AgentPersonaVersion,
        ("agent_id", "version", "status"),
        order="version",
    ),
    Table("agent_persona_heads", AgentPersonaHead, ("agent_id", "persona_version_id")),
    Table(
        "agent_prompt_items",
        AgentPromptItem,
        ("agent_id", "run_key", "state", "required_by", "created_at"),
        order="created_at",
    ),
    Table(
        "agent_prompt_responses",
        AgentPromptResponse,
        ("agent_id", "prompt_item_id", "responded_at"),
        order="responded_at",
        written_once=True,
    ),
    Table(
        "agent_compaction_jobs",
        CompactionJob,
        ("agent_id", "thread_id", "status", "next_attempt_at", "created_at"),
        order="created_at",
        outlives=True,
    ),
    Table(
        "agent_diagnostics",
        Diagnostic,
        ("agent_id", "kind", "subject_id", "created_at"),
        order="created_at",
        outlives=True,
    ),
    Table(
        "wake_run_log",
        WakeRun,
        ("agent_id", "status", "queued_at"),
        key="run_key",
        order="queued_at",
        outlives=True,
    ),
    Table(
        "notification_provenance",
        NotificationProvenance,
        ("position", "received_at"),
        key="logical_change_key",
        order="position",
        written_once=True,
    ),
    Table(
        "agent_action_plans",
        ActionPlan,
        ("agent_id", "created_at"),
        key="run_key",
        order="created_at",
        written_once=True,
    ),
    Table(
        "agent_saga_log",
        SagaEntry,
        ("run_key", "agent_id", "phase", "status", "last_error", "updated_at"),
        key="operation_id",
        order="updated_at",
        outlives=True,
    ),
    Table(
        "agent_run_traces",
        RunTrace,
        ("agent_id", "started_at"),
        key="run_key",
        order="started_at",
        outlives=True,
    ),
    Table("agent_budget_windows", BudgetWindow, ("agent_id", "window_start_local_date")),
    Table(
        "agent_budget_reservations",
        BudgetReservation,
        ("agent_id", "window_start_local_date", "created_at"),
        order="created_at",
        outlives=True,
    ),
    Table(
        "provider_access_policies",
        ProviderAccessPolicy,
        ("agent_kind", "agent_id", "category_id", "provider", "model"),
    ),
    Table(
        "provider_privacy_policies",
        ProviderPrivacyPolicy,
        ("provider", "model", "policy_version"),
    ),
    Table(
        "consent_receipts",
        ConsentReceipt,
        ("provider", "model", "policy_version", "confirmed_at"),
        order="confirmed_at",
    ),
    Table("projection_policies", ProjectionPolicy, ("boundary_type", "operation_key")),
    Table("stop_switches", StopSwitch, ("scope", "target", "engaged")),
    Table(
        "agent_waiting_actions",
        WaitingAction,
        ("run_key", "agent_id", "status", "created_at"),
        key="operation_id",
        order="created_at",
        outlives=True,
    ),
    Table(
        "agent_definitions",
        KeptDefinition,
        ("definition_hash", "updated_at"),
        key="agent_id",
        order="updated_at",
    ),
)

TABLES: Mapping[type[Data], Table[Any]] = MappingProxyType({each.record: each for each in _ALL})
"""Every kind of record, and its table."""
