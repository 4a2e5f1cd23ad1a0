"""Where companions' records are kept: the one store of `agent.db`, and its statements.

1. Every write of a synced record counts this host's counter up and joins the clocks, so that it is
   after whatever was there.
2. What is written once is never changed: the first version stays.
3. Whoever was destroyed writes nothing any more, not even in the middle of a transaction.
4. A state is written only over the revision that it was made from.
5. Removing a record leaves a tombstone.
6. The names in a statement come from `TABLES` alone; values travel as parameters.

`TABLES` says which table keeps which record, and which of its fields are columns to find it by.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from silas.companions.errors import AgentDestroyed, CompanionUnknown, StaleRevision
from silas.companions.messages import (
    ActionPlan,
    AgentLink,
    AgentMessage,
    AgentMessagePayload,
    AgentOperation,
    AgentPersonaHead,
    AgentPersonaVersion,
    AgentPromptItem,
    AgentPromptResponse,
    AgentReport,
    AgentReportHead,
    CompactionJob,
    Diagnostic,
    EarlierDefinition,
    KeptDefinition,
    NotificationProvenance,
    ReportSourceRef,
    RunTrace,
    WakeRun,
)
from silas.companions.models import (
    AgentLifecycle,
    AgentState,
    AgentSubscription,
    AgentTimer,
    BudgetReservation,
    BudgetWindow,
    Companion,
    ErasureReceipt,
    InteractiveSession,
    ModelGrant,
    ModelRule,
    ProjectionPolicy,
    ProviderPrivacyPolicy,
    StopSwitch,
    Synced,
)
from silas.journal.edit import join_clocks
from silas.journal.notifications import TokenClass
from silas.kernel import Clock, IdFactory, format_timestamp
from silas.kernel.models import Data
from silas.storage import Database, Durability, Reader, SqlValue, Transaction

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
        "agent_operations",
        AgentOperation,
        ("run_key", "agent_id", "phase", "status", "last_error", "created_at", "updated_at"),
        key="operation_id",
        order="created_at",
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
        "provider_privacy_policies",
        ProviderPrivacyPolicy,
        ("provider", "model", "policy_version"),
    ),
    Table(
        "model_grants",
        ModelGrant,
        ("agent_id", "provider", "model", "policy_version", "confirmed_at"),
        order="confirmed_at",
    ),
    Table("model_rules", ModelRule, ("scope", "target")),
    Table("projection_policies", ProjectionPolicy, ("boundary_type", "operation_key")),
    Table(
        "agent_erasures",
        ErasureReceipt,
        ("created_at",),
        order="created_at",
        written_once=True,
        outlives=True,
    ),
    Table("stop_switches", StopSwitch, ("scope", "target", "engaged")),
    Table(
        "agent_earlier_definitions",
        EarlierDefinition,
        ("agent_id", "replaced_at"),
        order="replaced_at",
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


T = TypeVar("T")
_NEXT_COUNTER = """
INSERT INTO agent_host (one, host_id, counter) VALUES (1, ?, 1)
ON CONFLICT (one) DO UPDATE SET counter = agent_host.counter + 1, host_id = excluded.host_id
RETURNING counter
"""
_LIFECYCLE = "SELECT lifecycle FROM agents WHERE id = ?"
_FORGET_TOKENS = "DELETE FROM agent_subscription_tokens WHERE subscription_id = ?"
_MATERIALISE = """
INSERT INTO agent_subscription_tokens
    (subscription_id, token_class, token_namespace, token_value, active)
VALUES (?, ?, ?, ?, ?)
"""


class CompanionStore:
    """The records of one `agent.db`. The `_in` forms work inside a caller's transaction."""

    def __init__(self, database: Database, *, clock: Clock, ids: IdFactory, host_id: str) -> None:
        self.database = database
        self.clock = clock
        self.ids = ids
        self.host_id = host_id

    async def get(self, kind: type[R], key: str) -> R | None:
        """The record with this key, unless it is a tombstone."""
        table = _table(kind)
        row = await self.database.fetch_one(select_one(table), (key,))
        return table.read(row[0]) if row else None

    async def require(self, kind: type[R], key: str) -> R:
        """The same; raises `CompanionUnknown`."""
        return _required(await self.get(kind, key), kind, key)

    async def find(
        self,
        kind: type[R],
        where: Mapping[str, Any] | None = None,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        with_deleted: bool = False,
    ) -> list[R]:
        """The records whose columns have these values (None: is null), in their kind's order."""
        table = _table(kind)
        sql, params = select_many(
            table, where or {}, newest_first=newest_first, limit=limit, with_deleted=with_deleted
        )
        return [table.read(row[0]) for row in await self.database.fetch_all(sql, params)]

    async def put(self, record: R) -> R:
        """Write a record; returns it as it is stored now."""
        return await self.transaction(lambda tx: self.put_in(tx, record))

    async def delete(self, kind: type[R], key: str) -> R:
        """Make a tombstone of a record; raises `CompanionUnknown`."""
        return await self.transaction(lambda tx: self.delete_in(tx, kind, key))

    async def transaction(
        self, body: Callable[[Transaction], T], *, durability: Durability = Durability.ORDINARY
    ) -> T:
        """Do all of this or nothing."""
        return await self.database.transaction(body, durability=durability)

    def get_in(self, reader: Reader, kind: type[R], key: str) -> R | None:
        """`get` inside a transaction or a snapshot."""
        table = _table(kind)
        row = reader.fetch_one(select_one(table), (key,))
        return table.read(row[0]) if row else None

    def require_in(self, reader: Reader, kind: type[R], key: str) -> R:
        """`require` inside a transaction or a snapshot."""
        return _required(self.get_in(reader, kind, key), kind, key)

    def find_in(
        self,
        reader: Reader,
        kind: type[R],
        where: Mapping[str, Any] | None = None,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        with_deleted: bool = False,
    ) -> list[R]:
        """`find` inside a transaction or a snapshot."""
        table = _table(kind)
        sql, params = select_many(
            table, where or {}, newest_first=newest_first, limit=limit, with_deleted=with_deleted
        )
        return [table.read(row[0]) for row in reader.fetch_all(sql, params)]

    def put_in(self, tx: Transaction, record: R) -> R:
        """`put` inside a transaction; raises `AgentDestroyed` or `StaleRevision`."""
        table = _table(type(record))
        if not table.outlives:
            self._require_alive_owner(tx, record)
        stored = self._stored(tx, table, getattr(record, table.key))
        if stored is not None and table.written_once:
            return stored
        ready = self._prepared(tx, record, stored)
        tx.execute(upsert(table), table.values(ready))
        if isinstance(ready, AgentSubscription):
            _materialise(tx, ready)
        return ready

    def delete_in(self, tx: Transaction, kind: type[R], key: str) -> R:
        """`delete` inside a transaction."""
        record = self.require_in(tx, kind, key)
        changes: dict[str, Any] = {"deleted_at": self.clock.now()}
        if isinstance(record, AgentSubscription | AgentTimer):
            changes["active"] = False
        table = _table(kind)
        self._require_alive_owner(tx, record)
        if table.written_once:
            gone = record.model_copy(update=changes)
            tx.execute(upsert(table), table.values(gone))
            return gone
        return self.put_in(tx, record.model_copy(update=changes))

    def require_alive_in(self, reader: Reader, agent_id: str) -> None:
        """Raise `AgentDestroyed` or `CompanionUnknown` unless this companion lives."""
        row = reader.fetch_one(_LIFECYCLE, (agent_id,))
        if row is None:
            raise CompanionUnknown(f"There is no companion {agent_id}.", agent_id=agent_id)
        if row[0] == AgentLifecycle.DESTROYED:
            raise AgentDestroyed(agent_id=agent_id)

    def next_counter_in(self, tx: Transaction) -> int:
        """The number of this host's next write."""
        row = tx.fetch_one(_NEXT_COUNTER, (self.host_id,))
        return int(row[0]) if row else 0

    def _require_alive_owner(self, tx: Transaction, record: Data) -> None:
        if isinstance(record, Companion):
            row = tx.fetch_one(_LIFECYCLE, (record.id,))
            if row is not None and row[0] == AgentLifecycle.DESTROYED:
                raise AgentDestroyed(agent_id=record.id)
            return
        agent_id = getattr(record, "agent_id", None)
        if agent_id is not None:
            self.require_alive_in(tx, agent_id)

    def _stored(self, tx: Transaction, table: Table[R], key: str) -> R | None:
        row = tx.fetch_one(select_one(table, with_deleted=True), (key,))
        return table.read(row[0]) if row else None

    def _prepared(self, tx: Transaction, record: R, stored: R | None) -> R:
        changes: dict[str, Any] = {}
        if isinstance(record, Synced):
            known = stored.vector_clock if isinstance(stored, Synced) else {}
            joined = join_clocks(record.vector_clock, known)
            changes["vector_clock"] = {**joined, self.host_id: self.next_counter_in(tx)}
            if "siblings" in type(record).model_fields:
                changes["siblings"] = ()
        if isinstance(record, AgentState):
            revision = stored.revision if isinstance(stored, AgentState) else 0
            if record.revision != revision:
                raise StaleRevision(agent_id=record.agent_id, revision=record.revision)
            changes["revision"] = revision + 1
        return record.model_copy(update=changes) if changes else record


def _table(kind: type[R]) -> Table[R]:
    return TABLES[kind]


def _required(record: R | None, kind: type[R], key: str) -> R:
    if record is None:
        raise CompanionUnknown(f"There is no {_spoken(kind)} {key}.", key=key)
    return record


def _spoken(kind: type[Data]) -> str:
    name = kind.__name__.removeprefix("Agent")
    return "".join(f" {each.lower()}" if each.isupper() else each for each in name).strip()


def _materialise(tx: Transaction, subscription: AgentSubscription) -> None:
    tx.execute(_FORGET_TOKENS, (subscription.id,))
    active = int(subscription.active and subscription.deleted_at is None)
    tx.execute_many(
        _MATERIALISE,
        [
            (subscription.id, each.token_class, each.token_namespace, each.token_value, active)
            for each in subscription.tokens
        ],
    )


def select_one(table: Table[Any], *, with_deleted: bool = False) -> str:
    """One record by its key."""
    alive = " AND deleted_at IS NULL" if table.synced and not with_deleted else ""
    return f"SELECT body FROM {table.name} WHERE {table.key} = ?{alive}"  # noqa: S608 - our names


def select_many(
    table: Table[Any],
    where: Mapping[str, Any],
    *,
    newest_first: bool,
    limit: int | None,
    with_deleted: bool,
) -> tuple[str, list[SqlValue]]:
    """The records whose columns have these values, and the parameters for them."""
    unknown = sorted(where.keys() - set(table.all_columns))
    if unknown:
        raise ValueError(f"{table.name} has no column {', '.join(unknown)}")
    tests = [f"{name} IS NULL" if where[name] is None else f"{name} = ?" for name in where]
    params = [plain(value) for value in where.values() if value is not None]
    if table.synced and not with_deleted:
        tests.append("deleted_at IS NULL")
    way = "DESC" if newest_first else "ASC"
    sql = f"SELECT body FROM {table.name}"  # noqa: S608 - our names
    if tests:
        sql += f" WHERE {' AND '.join(tests)}"
    sql += f" ORDER BY {table.order} {way}, {table.key} {way}"
    if limit is None:
        return sql, params
    return f"{sql} LIMIT ?", [*params, limit]


def upsert(table: Table[Any]) -> str:
    """Write a record, over the one with its key if there is one."""
    names = table.all_columns
    places = ", ".join("?" * len(names))
    changes = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
    return (
        f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({places}) "  # noqa: S608 - our names
        f"ON CONFLICT ({table.key}) DO UPDATE SET {changes}"
    )


def among(sql: str, column: str, keys: Sequence[str] | None) -> tuple[str, tuple[str, ...]]:
    """The statement, with its `{these}` filled in: only rows with these keys, or all (None)."""
    if keys is None:
        return sql.format(these=""), ()
    these = f" AND {column} IN (SELECT value FROM json_each(?))"  # noqa: S608 - our names
    return sql.format(these=these), (json.dumps(list(keys)),)
