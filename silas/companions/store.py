"""Where companions' records are kept.

1. Every write of a synced record counts this host's counter up and joins the clocks, so that it is
   after whatever was there.
2. What is written once is never changed: the first version stays.
3. Whoever was destroyed writes nothing any more, not even in the middle of a transaction.
4. A state is written only over the revision that it was made from.
5. Removing a record leaves a tombstone.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from silas.companions.errors import AgentDestroyed, CompanionUnknown, StaleRevision
from silas.companions.models import (
    AgentLifecycle,
    AgentState,
    AgentSubscription,
    AgentTimer,
    Companion,
)
from silas.companions.models.synced import Synced
from silas.companions.statements import select_many, select_one, upsert
from silas.companions.tables import TABLES, Table
from silas.journal.merging import join_clocks
from silas.kernel import Clock, IdFactory
from silas.kernel.models import Data
from silas.storage import Database, Durability, Reader, Transaction

R = TypeVar("R", bound=Data)
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
