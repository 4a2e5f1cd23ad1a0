"""The memory of one scope: what is stored, changed, deleted and found there.

`MemoryStores.of` opens the store of a scope, which cannot see beyond it: every statement is bound
to the range of ids that the scope owns. The rules of trust (`trust.py`) hold for every way in, and
text from outside is scrubbed (`intake.py`) before it is written down.

A search must not cost a write. So `AccessCounter` holds how often and when memories were found
until there are enough counts, or until they are older than a minute, or until `flush` is called.
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any

from pydantic import ValidationError

from silas.approval import ApprovalToken
from silas.approval.engine import ApprovalEngine
from silas.audit.models import AuditTrail
from silas.kernel import Clock, TaintLevel, format_timestamp
from silas.memory.errors import MemoryExists, MemoryInvalid, MemoryUnknown, OtherScope
from silas.memory.intake import MemoryIntake
from silas.memory.models import MemoryItem, ReingestionTier, TrustLevel
from silas.memory.question import content_words, match_expression
from silas.memory.rows import (
    BY_BEGINNING,
    BY_ID,
    ENTITY,
    KEYWORD,
    KNOWN,
    SESSION,
    TEMPORAL,
    Lane,
    allot_ids,
    as_list,
    causal,
    insert_rows,
    item_from,
    items_from,
    lane_of,
    record_by_id,
    records_beginning,
    remove_records,
    scope_number,
    search_records,
    update_row,
)
from silas.memory.trust import (
    changed,
    lowered,
    require_admissible,
    require_confirmed,
    require_touchable,
    shown_bytes,
)
from silas.storage import Database, Durability, Reader, Transaction

_FLUSH_COUNTS = 512
_FLUSH_SECONDS = 60.0
_ADD = """
UPDATE memory_items
SET access_count = access_count + seen.times, last_accessed = max(coalesce(last_accessed, ''), ?)
FROM (SELECT value ->> 0 AS row, value ->> 1 AS times FROM json_each(?)) AS seen
WHERE memory_items.id = seen.row
"""


class AccessCounter:
    """Counts that are not written down yet."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._counts: dict[int, int] = {}
        self._last = clock.now()
        self._flushed = clock.monotonic()
        self._writing = asyncio.Lock()

    async def count(self, rows: Iterable[int]) -> None:
        """These were found once more."""
        for row in rows:
            self._counts[row] = self._counts.get(row, 0) + 1
        self._last = self._clock.now()
        waited = self._clock.monotonic() - self._flushed
        if len(self._counts) >= _FLUSH_COUNTS or waited >= _FLUSH_SECONDS:
            await self.flush()

    async def flush(self) -> int:
        """Write the counts down; returns of how many memories."""
        async with self._writing:
            counts, last = self._counts, self._last
            self._counts, self._flushed = {}, self._clock.monotonic()
            if not counts:
                return 0
            pairs = as_list([list(pair) for pair in counts.items()])
            await self._database.execute(_ADD, (format_timestamp(last), pairs))
            return len(counts)

    def forget(self, rows: Iterable[int]) -> None:
        """Drop the counts of memories that are gone."""
        for row in rows:
            self._counts.pop(row, None)


_MIN_BEGINNING_CHARACTERS = 6
_MAX_CAUSAL_DEPTH = 3
_BATCH_ROWS = 500


class MemoryStore:
    """What one scope remembers."""

    def __init__(self, shared: "MemoryStores", scope_id: str) -> None:
        if not scope_id:
            raise MemoryInvalid("A memory belongs to a scope. Name it.")
        self._shared = shared
        self._database = shared.database
        self.scope_id = scope_id

    async def store(self, item: MemoryItem, *, token: ApprovalToken | None = None) -> str:
        """Keep a new memory; returns its id. Above `working` it needs the owner's confirmation."""
        prepared = self._prepared(item)
        require_admissible(prepared, confirmed=token is not None)
        if token is not None:
            await self._confirm(token, "store", [prepared])

        def insert(tx: Transaction) -> None:
            self._insert(tx, [prepared], prepared.reingestion_tier)

        if token is None:
            await self._database.transaction(insert, brief=True)
        else:
            await self._database.transaction(insert, durability=Durability.TRUST)
        return prepared.memory_id

    async def store_raw(self, item: MemoryItem) -> str:
        """Append to the raw lane, which never comes back by itself; returns the id."""
        raw = item.model_copy(update={"reingestion_tier": ReingestionTier.LOW_REINGESTION})
        return await self.store(lowered(raw))

    async def store_many(self, items: Sequence[MemoryItem]) -> int:
        """Keep many new memories of `working` trust, in transactions of a few hundred."""
        for start in range(0, len(items), _BATCH_ROWS):
            batch = [self._prepared(item) for item in items[start : start + _BATCH_ROWS]]
            for item in batch:
                require_admissible(item, confirmed=False)
            await self._database.transaction(partial(self._insert_by_lane, items=batch))
        return len(items)

    def ready(self, item: MemoryItem) -> MemoryItem:
        """A memory of `working` trust as it may be kept here: what `insert_in` takes."""
        prepared = self._prepared(item)
        require_admissible(prepared, confirmed=False)
        return prepared

    def insert_in(self, tx: Transaction, item: MemoryItem) -> str:
        """Keep what is ready as part of this transaction; returns its id."""
        self._insert(tx, [item], item.reingestion_tier)
        return item.memory_id

    async def get(self, memory_id: str) -> MemoryItem | None:
        """The memory or raw record with this id, if this scope has it."""
        number = await self._number()

        def read(reader: Reader) -> MemoryItem | None:
            row = reader.fetch_one(BY_ID, (number, memory_id))
            if row is not None:
                return item_from(self.scope_id, row[1:])
            return record_by_id(reader, self.scope_id, memory_id, prepare=self._prepared)

        return await self._database.snapshot(read)

    async def find(self, beginning: str) -> MemoryItem | None:
        """The memory with this id, or the only one whose id begins so."""
        exact = await self.get(beginning)
        if exact is not None or len(beginning) < _MIN_BEGINNING_CHARACTERS:
            return exact
        number, behind = await self._number(), f"{beginning}\U0010ffff"

        def read(reader: Reader) -> list[MemoryItem]:
            rows = reader.fetch_all(BY_BEGINNING, (number, beginning, behind))
            records = records_beginning(reader, self.scope_id, beginning, prepare=self._prepared)
            return [*items_from(self.scope_id, rows), *records]

        found = await self._database.snapshot(read)
        return found[0] if len(found) == 1 else None

    async def update(
        self,
        memory_id: str,
        *,
        taint: TaintLevel,
        token: ApprovalToken | None = None,
        **changes: Any,
    ) -> None:
        """Change some fields. `taint` is that of what the change was made from; it is joined."""
        new = await self.after_update(
            memory_id, taint=taint, confirmed=token is not None, **changes
        )
        if token is not None:
            await self._confirm(token, "update", [new])

        def write(tx: Transaction) -> int:
            row_id, old = self._require(tx, memory_id)
            # Again, on the row as it is now: somebody may have changed it since it was shown.
            again = self._changed(old, changes, taint=taint, confirmed=token is not None)
            if token is not None and shown_bytes(again) != shown_bytes(new):
                raise MemoryInvalid("The memory was changed in the meantime. Look at it again.")
            stamped = again.model_copy(update={"updated_at": self._shared.clock.now()})
            new_id = row_id
            if stamped.reingestion_tier is not old.reingestion_tier:
                _, new_id = allot_ids(tx, self.scope_id, stamped.reingestion_tier)
            update_row(tx, row_id, stamped, new_id=new_id)
            self._record(tx, "memory_updated", stamped, confirmed=token is not None)
            return row_id

        row_id = await self._database.transaction(
            write, durability=Durability.ORDINARY if token is None else Durability.TRUST
        )
        self._shared.reworded.add(row_id)

    async def after_update(
        self, memory_id: str, *, taint: TaintLevel, confirmed: bool = True, **changes: Any
    ) -> MemoryItem:
        """The memory as this change would leave it: what the owner is shown to confirm."""
        old = await self.get(memory_id)
        if old is None:
            raise MemoryUnknown(f"There is no memory {memory_id!r} here.")
        return self._changed(old, changes, taint=taint, confirmed=confirmed)

    async def delete(
        self,
        memory_id: str,
        *,
        taint: TaintLevel = TaintLevel.EXTERNAL,
        token: ApprovalToken | None = None,
    ) -> None:
        """Delete a memory, at the wish of something of this taint. To erase it, see forgetting."""
        old = await self.get(memory_id)
        if old is None:
            return
        require_touchable(old, taint=taint, confirmed=token is not None)
        if token is not None:
            await self._confirm(token, "delete", [old])

        def remove(tx: Transaction) -> int | None:
            found = self._find(tx, memory_id)
            if found is None:
                remove_records(tx, self.scope_id, [memory_id])
                return None
            row_id, now = found
            require_touchable(now, taint=taint, confirmed=token is not None)
            tx.execute("DELETE FROM memory_items WHERE id = ?", (row_id,))
            self._record(tx, "memory_deleted", now, confirmed=token is not None)
            return row_id

        row_id = await self._database.transaction(remove)
        self._shared.access.forget([row_id] if row_id is not None else [])

    async def search_keyword(self, query: str, limit: int) -> list[MemoryItem]:
        """The memories that hold words of the query, the best first."""
        return await self._search(query, limit, ReingestionTier.ACTIVE)

    async def search_raw(self, query: str, limit: int) -> list[MemoryItem]:
        """The same in the raw lane, and in what was said."""
        return await self._search(query, limit, ReingestionTier.LOW_REINGESTION)

    async def search_session(self, session_id: str) -> list[MemoryItem]:
        """All active memories of a session, in order."""
        lane = await self.lane()
        rows = await self._database.fetch_all(
            SESSION, (lane.scope_no, session_id, lane.first, lane.last)
        )
        return items_from(self.scope_id, rows)

    async def search_temporal(
        self, since: datetime, until: datetime, limit: int
    ) -> list[MemoryItem]:
        """The active memories of a stretch of time, the newest first."""
        lane = await self.lane()
        when = (format_timestamp(since), format_timestamp(until))
        rows = await self._database.fetch_all(
            TEMPORAL, (lane.scope_no, *when, lane.first, lane.last, limit)
        )
        return items_from(self.scope_id, rows)

    async def search_entity(self, entity: str, limit: int) -> list[MemoryItem]:
        """The active memories that refer to an entity, the newest first."""
        lane = await self.lane()
        rows = await self._database.fetch_all(
            ENTITY, (entity, lane.first, lane.last, lane.scope_no, limit)
        )
        return items_from(self.scope_id, rows)

    async def search_causal(self, memory_id: str, limit: int) -> list[MemoryItem]:
        """What led to a memory and what followed from it, the nearest first."""
        lane = await self.lane()
        names = {
            "scope": lane.scope_no,
            "start": memory_id,
            "first": lane.first,
            "last": lane.last,
            "depth": _MAX_CAUSAL_DEPTH,
            "most": limit,
        }
        sql, params = causal(names)
        rows = await self._database.fetch_all(sql, params)
        return items_from(self.scope_id, rows)

    async def lane(self, tier: ReingestionTier | None = ReingestionTier.ACTIVE) -> Lane:
        """The ids of this scope's memories; without a tier those of both lanes."""
        return lane_of(await self._number(), tier)

    async def _search(self, query: str, limit: int, tier: ReingestionTier) -> list[MemoryItem]:
        expression = match_expression(content_words(query))
        if not expression or limit < 1:
            return []
        lane = await self.lane(tier)
        now = format_timestamp(self._shared.clock.now())
        # Some that are not valid any more may be among the best.
        params = (expression, *lane.bounds, 2 * limit + 10, lane.scope_no, now, now, limit)

        def read(reader: Reader) -> list[tuple[float, MemoryItem]]:
            rows = reader.fetch_all(KEYWORD, params)
            found = [(rank, item_from(self.scope_id, tuple(row))) for rank, *row in rows]
            if tier is ReingestionTier.LOW_REINGESTION:
                found += search_records(
                    reader, self.scope_id, expression, limit=limit, prepare=self._prepared
                )
            return found

        found = await self._database.snapshot(read)
        return [item for _, item in sorted(found, key=itemgetter(0))][:limit]

    async def _number(self) -> int:
        """The scope's number; 0, which no scope has, while it remembers nothing."""
        known = self._shared.scope_numbers.get(self.scope_id)
        if known is None:
            row = await self._database.fetch_one(
                "SELECT scope_no FROM memory_scopes WHERE scope_id = ?", (self.scope_id,)
            )
            if row is None:
                return 0
            known = self._shared.scope_numbers[self.scope_id] = row[0]
        return known

    async def _confirm(
        self, token: ApprovalToken, action: str, items: Sequence[MemoryItem]
    ) -> None:
        await require_confirmed(
            self._shared.approvals, token, action=action, scope_id=self.scope_id, items=items
        )

    def _prepared(self, item: MemoryItem) -> MemoryItem:
        if item.scope_id != self.scope_id:
            raise OtherScope
        return self._shared.intake.prepared(item)

    def _changed(
        self, old: MemoryItem, changes: dict[str, Any], *, taint: TaintLevel, confirmed: bool
    ) -> MemoryItem:
        try:
            new = changed(old, changes, taint=taint, confirmed=confirmed)
        except ValidationError as error:
            first = error.errors()[0]
            raise MemoryInvalid(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.") from error
        return self._shared.intake.prepared(new)

    def _insert_by_lane(self, tx: Transaction, *, items: Sequence[MemoryItem]) -> None:
        for tier in ReingestionTier:
            if some := [item for item in items if item.reingestion_tier is tier]:
                self._insert(tx, some, tier)

    def _insert(self, tx: Transaction, items: Sequence[MemoryItem], tier: ReingestionTier) -> None:
        scope_no, first = allot_ids(tx, self.scope_id, tier, count=len(items))
        self._require_new(tx, scope_no, [item.memory_id for item in items])
        insert_rows(tx, scope_no, enumerate(items, first))
        for item in items:
            if item.scrubbed or item.trust_level is not TrustLevel.WORKING:
                self._record(
                    tx, "memory_stored", item, confirmed=item.trust_level is not TrustLevel.WORKING
                )

    def _require_new(self, tx: Transaction, scope_no: int, names: list[str]) -> None:
        known = tx.fetch_one(KNOWN, (as_list(names), scope_no))
        if known is not None:
            raise MemoryExists(f"There is a memory {known[0]!r} here already.")
        if len(set(names)) < len(names):
            raise MemoryExists("Two of these memories have the same id.")

    def _find(self, reader: Reader, memory_id: str) -> tuple[int, MemoryItem] | None:
        number = scope_number(reader, self.scope_id)
        row = reader.fetch_one(BY_ID, (number, memory_id))
        return (row[0], item_from(self.scope_id, row[1:])) if row else None

    def _require(self, reader: Reader, memory_id: str) -> tuple[int, MemoryItem]:
        found = self._find(reader, memory_id)
        if found is not None:
            return found
        if record_by_id(reader, self.scope_id, memory_id, prepare=self._prepared) is not None:
            raise MemoryInvalid("This is what was said, word for word. Forget it, or let it be.")
        raise MemoryUnknown(f"There is no memory {memory_id!r} here.")

    def _record(self, tx: Transaction, event: str, item: MemoryItem, *, confirmed: bool) -> None:
        """Leave a trace of what matters for trust: the fact, never the content."""
        if self._shared.audit is None or not (confirmed or item.scrubbed):
            return
        self._shared.audit.append(
            tx,
            event,
            {
                "memory_id": item.memory_id,
                "scope_id": item.scope_id,
                "trust_level": item.trust_level.value,
                "taint": item.taint.value,
                "scrubbed": item.scrubbed,
                "confirmed": confirmed,
            },
        )


class MemoryStores:
    """The memories of one data directory, handed out scope by scope."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        audit: AuditTrail | None = None,
        approvals: ApprovalEngine | None = None,
        intake: MemoryIntake | None = None,
    ) -> None:
        """Without `approvals`, nothing ever becomes trusted."""
        self.database = database
        self.clock = clock
        self.intake = intake or MemoryIntake()
        self.audit = audit
        self.approvals = approvals
        self.access = AccessCounter(database, clock=clock)
        self.scope_numbers: dict[str, int] = {}
        self.reworded: set[int] = set()
        """Rows whose vectors are not those of their text any more."""

    def of(self, scope_id: str) -> MemoryStore:
        """The memory of one scope, and of no other."""
        return MemoryStore(self, scope_id)

    async def flush(self) -> None:
        """Write down what waits to be written: call it before the database is closed."""
        await self.access.flush()
