"""The journal of one device: changes with their history, and who hears of them.

The result of an operation is kept, so that whoever asks for the same operation again gets it.

Who may write is decided elsewhere, in another database. So that no decision is overtaken on its way
to the disk, there is a fence: nothing is written any more that was allowed before the last stop.

1. Whoever takes a permission away writes that down first, then moves the fence, and only then says
   that it is done.
2. Whoever writes for others looks where the fence is, then whether the write is allowed, and writes
   with a guard: in the transaction of the write itself it is looked at again.
3. A fence that has moved in between stops the write. It is asked again whether it is allowed.

Of a write and a stop, one is first in the journal's own order, also in different processes.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable
from typing import Any, Literal, Self, TypeVar, cast

from pydantic import Field, TypeAdapter

from silas.journal.edit import Edit
from silas.journal.errors import MissingChangeProvenance, OperationReused, RecordUnknown
from silas.journal.models import AnyRecord, Record
from silas.journal.notifications import (
    ChangeUnit,
    Listener,
    NotificationBatch,
    Notifier,
    TypedToken,
    Unsubscribe,
    make_batch,
)
from silas.journal.queries import Queries
from silas.kernel import Clock, IdFactory, canonical_bytes, format_timestamp
from silas.kernel.models import Data
from silas.storage import Database, Durability, Reader, Row, Transaction

Guard = Callable[[Transaction], None]
"""Called in the transaction of a change, before anything is changed; may raise."""
_WHERE = "SELECT coalesce(max(generation), 0) FROM write_fence"
_MOVE = """
INSERT INTO write_fence (one, generation) VALUES (1, 1)
ON CONFLICT (one) DO UPDATE SET generation = write_fence.generation + 1
"""
T = TypeVar("T")
Payload = dict[str, Any]
_HOST = "SELECT host_id FROM journal_host WHERE one = 1"
_NEW_HOST = "INSERT INTO journal_host (one, host_id) VALUES (1, ?) ON CONFLICT (one) DO NOTHING"
_AFTER = """
SELECT cursor, local_batch_id, logical_change_key, change_units, typed_tokens, actor FROM batches
WHERE cursor > ? ORDER BY cursor LIMIT ?
"""
_KNOWN = "SELECT fingerprint, result, actor FROM operations WHERE operation_id = ?"
_DONE = """
INSERT INTO operations (operation_id, fingerprint, result, actor, at) VALUES (?, ?, ?, ?, ?)
"""
_AT_ONCE = 500
_log = logging.getLogger(__name__)


class Outcome(Data):
    """What an operation did."""

    operation_id: str | None = None
    records: tuple[AnyRecord, ...] = ()
    """What was changed, as it is now."""
    changed_entity_ids: tuple[str, ...] = ()
    changed_tokens: tuple[str, ...] = ()
    """The keys of the typed tokens that were told."""
    logical_change_key: str | None = None
    payload: dict[str, Any] = Field(default_factory=dict)
    preview: bool = False
    """Nothing was changed: this is what would be."""


class _Kept(Data):
    form: Literal["outcome", "record", "records", "plain"]
    outcome: Outcome | None = None
    records: tuple[AnyRecord, ...] = ()
    plain: Any = None


_KEPT = TypeAdapter(_Kept)


class Journal(Queries):
    """One `journal.db`. Open it with `Journal.open`."""

    def __init__(
        self, database: Database, *, host_id: str, clock: Clock, ids: IdFactory, cursor: int
    ) -> None:
        super().__init__(database)
        self._clock = clock
        self._ids = ids
        self.host_id = host_id
        self.fence = WriteFence(database)
        self._notifier = Notifier(self.batches_after, cursor=cursor)

    @classmethod
    async def open(cls, database: Database, *, clock: Clock, ids: IdFactory) -> Self:
        """The journal in this database, whose schema is up to date."""
        host = await database.fetch_one(_HOST)
        if host is None:
            await database.execute(_NEW_HOST, (ids.new("host"),))
            host = await database.fetch_one(_HOST)
        last = await database.fetch_one("SELECT coalesce(max(cursor), 0) FROM batches")
        if host is None or last is None:
            raise RecordUnknown("The journal does not know which device it is on.")
        return cls(database, host_id=host[0], clock=clock, ids=ids, cursor=last[0])

    # Changes.

    async def change(
        self,
        edit: Callable[[Edit], T],
        *,
        actor: str,
        operation_id: str | None = None,
        fingerprint: str = "",
        guard: Guard | None = None,
    ) -> T:
        """Make one change, whole or not at all; returns what `edit` returns.

        The same `operation_id` a second time returns the first result and changes nothing; with
        another fingerprint, or for another actor, it raises `OperationReused`. What is kept for
        that is a record, a tuple of records, an `Outcome` or plain JSON. A `guard` has the last
        word in the transaction.
        """

        def body(tx: Transaction) -> T:
            if operation_id is not None:
                known = tx.fetch_one(_KNOWN, (operation_id,))
                if known is not None:
                    return cast("T", _first_result(known, fingerprint=fingerprint, actor=actor))
            if guard is not None:
                guard(tx)
            made = self._edit_in(tx, actor, operation_id)
            result: Any = edit(made)
            batch = made.finish()
            if isinstance(result, Outcome):
                result = _completed(result, made, batch)
            if operation_id is not None:
                now = format_timestamp(made.now)
                tx.execute(_DONE, (operation_id, fingerprint, keep(result), actor, now))
            return cast("T", result)

        # Whoever asks with an id writes down elsewhere that it is done: a power cut must not take
        # it back here and leave it there.
        durability = Durability.ORDINARY if operation_id is None else Durability.TRUST
        # A caller that gives up must not keep others from hearing what was committed.
        return await asyncio.shield(asyncio.ensure_future(self._commit(body, durability)))

    async def perform(
        self,
        edit: Callable[[Edit], Payload],
        *,
        actor: str,
        operation_id: str | None = None,
        fingerprint: str = "",
        preview_only: bool = False,
        guard: Guard | None = None,
    ) -> Outcome:
        """Make a change and say what it did; with `preview_only` only say what it would do."""

        def whole(made: Edit) -> Outcome:
            outcome = Outcome(operation_id=operation_id, payload=edit(made))
            if preview_only:
                raise _PreviewOnly(_completed(outcome, made, None, preview=True))
            return outcome

        try:
            return await self.change(
                whole,
                actor=actor,
                operation_id=operation_id,
                fingerprint=fingerprint,
                guard=guard,
            )
        except _PreviewOnly as taken_back:
            return taken_back.outcome

    async def outcome_of(self, operation_id: str, *, actor: str) -> Any | None:
        """What came of an operation of this actor; None if it was never made by that one."""
        known = await self._database.fetch_one(_KNOWN, (operation_id,))
        return kept_result(known[1]) if known and known[2] == actor else None

    async def _commit(self, body: Callable[[Transaction], T], durability: Durability) -> T:
        result = await self._database.transaction(body, durability=durability)
        self._notifier.wake()
        return result

    def _edit_in(self, tx: Transaction, actor: str, operation_id: str | None) -> Edit:
        return Edit(
            tx, now=self._clock.now(), ids=self._ids, actor=actor, operation_id=operation_id
        )

    # Who hears of it.

    def subscribe(self, listener: Listener) -> Unsubscribe:
        """Tell the listener about every commit from now on."""
        return self._notifier.subscribe(listener)

    async def settled(self) -> None:
        """Wait until the listeners have been told of all commits."""
        await self._notifier.settled()

    async def close(self) -> None:
        """Tell nobody anything more; the database is closed by whoever opened it."""
        await self._notifier.stop()

    async def batches_after(
        self, cursor: int, *, limit: int | None = None
    ) -> list[NotificationBatch]:
        """What was committed after this place in the journal's order, from what was written down.

        Nobody hears of a commit whose provenance is missing; the log says so.
        """
        found: list[NotificationBatch] = []
        while limit is None or len(found) < limit:
            most = _AT_ONCE if limit is None else min(_AT_ONCE, limit - len(found))
            rows = await self._database.fetch_all(_AFTER, (cursor, most))
            found += [batch for row in rows if (batch := _batch(row)) is not None]
            if len(rows) < most:
                break
            cursor = rows[-1][0]
        return found

    async def last_cursor(self) -> int:
        """The place of the newest commit."""
        row = await self._database.fetch_one("SELECT coalesce(max(cursor), 0) FROM batches")
        return int(row[0]) if row else 0


def fingerprint_of(name: str, arguments: dict[str, Any]) -> str:
    """What an operation was asked for: another name or argument gives another one."""
    return hashlib.sha256(canonical_bytes({"name": name, "arguments": arguments})).hexdigest()


class FenceMoved(Exception):
    """Somebody was stopped since the write was allowed. Ask again whether it is."""


class WriteFence:
    """The fence of one journal."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def move(self) -> None:
        """Stop every write that was allowed before (rule 1)."""
        await self._database.execute(_MOVE, durability=Durability.TRUST)

    async def guard(self) -> Guard:
        """A guard for a write that is allowed after this call (rule 2)."""
        row = await self._database.fetch_one(_WHERE)
        seen = row[0] if row else 0

        def still_there(tx: Transaction) -> None:
            if _where_in(tx) != seen:
                raise FenceMoved

        return still_there


def _where_in(reader: Reader) -> int:
    row = reader.fetch_one(_WHERE)
    return int(row[0]) if row else 0


class _PreviewOnly(Exception):
    """Takes the transaction back, with what it would have done."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


def keep(result: Any) -> str:
    """The result as text. Records, lists of them, outcomes and plain JSON can be kept."""
    if isinstance(result, Outcome):
        kept: dict[str, Any] = {"form": "outcome", "outcome": result.model_dump(mode="json")}
    elif isinstance(result, Record):
        kept = {"form": "record", "records": [result.model_dump(mode="json")]}
    elif isinstance(result, tuple) and result and all(isinstance(x, Record) for x in result):
        kept = {"form": "records", "records": [each.model_dump(mode="json") for each in result]}
    else:
        kept = {"form": "plain", "plain": result}
    return canonical_bytes(kept).decode()


def kept_result(text: str) -> Any:
    """What `keep` was given."""
    kept = _KEPT.validate_json(text)
    if kept.form == "outcome":
        return kept.outcome
    if kept.form == "record":
        return kept.records[0]
    return kept.records if kept.form == "records" else kept.plain


def _first_result(known: Row, *, fingerprint: str, actor: str) -> Any:
    if (known[0], known[2]) != (fingerprint, actor):
        raise OperationReused
    return kept_result(known[1])


def _completed(
    outcome: Outcome, made: Edit, batch: NotificationBatch | None, *, preview: bool = False
) -> Outcome:
    tokens = batch.typed_tokens if batch is not None else ()
    return outcome.model_copy(
        update={
            "records": tuple(made.changed),
            "changed_entity_ids": tuple(each.id for each in made.changed),
            "changed_tokens": tuple(token.token_key for token in tokens),
            "logical_change_key": batch.logical_change_key if batch is not None else None,
            "preview": preview,
        }
    )


def _batch(row: Row) -> NotificationBatch | None:
    cursor, local_id, key, units, tokens, actor = row
    try:
        batch = make_batch(
            local_id,
            [ChangeUnit(**unit) for unit in json.loads(units)],
            tokens=[TypedToken(**token) for token in json.loads(tokens)],
            source_cursor=cursor,
            actor=actor,
        )
    except (MissingChangeProvenance, ValueError, TypeError):
        batch = None
    if batch is None or batch.logical_change_key != key:
        _log.error("%s: %s", local_id, MissingChangeProvenance.sentence())
        return None
    return batch
