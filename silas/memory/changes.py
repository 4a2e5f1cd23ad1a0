"""What agents' wishes do to the memory: each is kept with what it takes to undo it.

1. A change, the version before it and its entry of the audit log are one transaction. The entry has
   ids and digests, never the text.
2. The rules of trust hold: what is trusted is not touched, and what a model has worded says so.
3. The same key a second time changes nothing and returns what was done the first time.
4. Undoing puts back exactly what was there, if the memory still is what the change made of it.
5. Links and texts that change nothing leave the memory alone: they would only change its taint.
6. What is forgotten is erased here as well, and after a month nothing is kept to undo.
7. The owner's own words that replace a memory are the owner's, whatever it was made from before:
   nothing of that is left in it but its id, its kind, and tags that were the owner's own.
"""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from silas.kernel import TaintLevel, canonical_bytes, format_timestamp, parse_timestamp
from silas.memory.errors import MemoryExists, MemoryInvalid, MemoryUnknown, TrustRefused
from silas.memory.intake import names_in
from silas.memory.models import MemoryChange, MemoryItem, MemoryOp, MemoryOpType, Words
from silas.memory.rows import BY_ID, allot_ids, insert_rows, item_from, scope_number, update_row
from silas.memory.store import MemoryStores
from silas.memory.trust import (
    changed,
    lowered,
    model_worded,
    require_admissible,
    require_touchable,
    without_behavior,
)
from silas.storage import Durability, Reader, Row, Transaction

CAUSAL = "causal"
KEPT = timedelta(days=30)
"""How long a change can be undone."""

_COLUMNS = "change_id, scope_id, memory_id, op, before, after, made_at, undone_at"
_KEEP = f"INSERT INTO memory_changes ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, NULL)"  # noqa: S608
_ONE = f"SELECT {_COLUMNS} FROM memory_changes WHERE scope_id = ? AND change_id = ?"  # noqa: S608
_NEWEST = f"""
SELECT {_COLUMNS} FROM memory_changes WHERE scope_id = ?
ORDER BY made_at DESC, change_id LIMIT ?
"""  # noqa: S608 - names of columns only
_COUNTED = {"access_count", "last_accessed"}
_Body = Callable[[Transaction], MemoryChange]


class MemoryChanges:
    """Makes changes that agents wish for, and takes them back."""

    def __init__(self, memories: MemoryStores) -> None:
        self._memories = memories

    async def make(
        self, op: MemoryOp, *, scope_id: str, taint: TaintLevel, words: Words, key: str
    ) -> MemoryChange:
        """Do what is wished, once for each key; raises what the rules of trust say."""
        name = _change_id(key)

        def body(tx: Transaction) -> MemoryChange:
            known = tx.fetch_one(_ONE, (scope_id, name))
            if known is not None:
                return _read(known)
            change = self._made(tx, op, scope_id=scope_id, taint=taint, words=words, name=name)
            tx.execute(_KEEP, _values(change))
            self._record(tx, "memory_changed", change, words=words.value)
            return change

        return await self._write(body)

    async def replace(self, scope_id: str, memory_id: str, *, text: str, key: str) -> MemoryChange:
        """Put the owner's own words in the place of a memory, whoever it came from (rule 7)."""
        name = _change_id(key)

        def body(tx: Transaction) -> MemoryChange:
            row_id, before = _require(tx, scope_id, memory_id)
            require_touchable(before, taint=TaintLevel.OWNER, confirmed=False)
            if text.split() == before.content.split():
                raise MemoryExists("The memory says exactly this already.")
            after = self._said_anew(before, text)
            update_row(tx, row_id, after, new_id=row_id)
            change = self._change(name, MemoryOpType.UPDATE, before=before, after=after)
            tx.execute(_KEEP, _values(change))
            self._record(tx, "memory_changed", change, words=Words.OWNER.value)
            return change

        return await self._write(body)

    async def undo(self, scope_id: str, change_id: str) -> MemoryChange:
        """Put back what was there before; raises if somebody has changed it since (rule 4)."""

        def body(tx: Transaction) -> MemoryChange:
            row = tx.fetch_one(_ONE, (scope_id, change_id))
            if row is None:
                raise MemoryUnknown(f"There is no change {change_id!r} here to undo.")
            change = _read(row)
            if change.undone_at is not None:
                raise MemoryInvalid("This change was undone already.")
            now = self._memories.clock.now()
            self._put_back(tx, change)
            tx.execute(
                "UPDATE memory_changes SET undone_at = ? WHERE change_id = ?",
                (format_timestamp(now), change_id),
            )
            self._record(tx, "memory_change_undone", change)
            return change.model_copy(update={"undone_at": now})

        return await self._write(body)

    async def newest(self, scope_id: str, limit: int = 20) -> list[MemoryChange]:
        """The last changes, the newest first."""
        rows = await self._memories.database.fetch_all(_NEWEST, (scope_id, limit))
        return [_read(row) for row in rows]

    async def prune(self) -> int:
        """Drop what is too old to be undone; returns how many."""
        before = format_timestamp(self._memories.clock.now() - KEPT)
        return await self._memories.database.execute(
            "DELETE FROM memory_changes WHERE made_at < ?", (before,)
        )

    async def _write(self, body: _Body) -> MemoryChange:
        rows: list[int] = []

        def whole(tx: Transaction) -> MemoryChange:
            change = body(tx)
            found = _find(tx, change.scope_id, change.memory_id)
            rows.extend([found[0]] if found else [])
            return change

        change = await self._memories.database.transaction(whole, durability=Durability.TRUST)
        self._memories.reworded.update(rows)
        return change

    def _made(
        self,
        tx: Transaction,
        op: MemoryOp,
        *,
        scope_id: str,
        taint: TaintLevel,
        words: Words,
        name: str,
    ) -> MemoryChange:
        before: MemoryItem | None = None
        after: MemoryItem | None = None
        if op.op is MemoryOpType.STORE:
            after = self._new(op, scope_id, taint=taint, words=words, name=name)
            self._memories.of(scope_id).insert_in(tx, after)
        else:
            row_id, before = _require(tx, scope_id, op.memory_id or "")
            require_touchable(before, taint=taint, confirmed=False)
            after = self._altered(tx, op, before, taint=taint, words=words)
            if after is None:
                tx.execute("DELETE FROM memory_items WHERE id = ?", (row_id,))
            else:
                update_row(tx, row_id, after, new_id=row_id)
        return MemoryChange(
            change_id=name,
            scope_id=scope_id,
            memory_id=after.memory_id if after is not None else op.memory_id or "",
            op=op.op,
            before=before,
            after=after,
            made_at=self._memories.clock.now(),
        )

    def _new(
        self, op: MemoryOp, scope_id: str, *, taint: TaintLevel, words: Words, name: str
    ) -> MemoryItem:
        now = self._memories.clock.now()
        item = MemoryItem(
            memory_id=f"mem_{name.removeprefix('chg_')}",
            scope_id=scope_id,
            content=op.content or "",
            memory_type=op.memory_type,
            taint=taint,
            created_at=now,
            updated_at=now,
            semantic_tags=without_behavior(op.tags),
            entity_refs=_entities(op, op.content or ""),
        )
        item = model_worded(item) if words is Words.MODEL else lowered(item)
        return self._memories.of(scope_id).ready(item)

    def _altered(
        self,
        tx: Transaction,
        op: MemoryOp,
        before: MemoryItem,
        *,
        taint: TaintLevel,
        words: Words,
    ) -> MemoryItem | None:
        """The memory after an update or a link; None after a deletion."""
        if op.op is MemoryOpType.DELETE:
            return None
        changes = _linked(tx, op, before) if op.op is MemoryOpType.LINK else _reworded(op, before)
        if words is Words.MODEL and op.op is MemoryOpType.UPDATE:
            before = model_worded(before)
        after = changed(before, changes, taint=taint, confirmed=False)
        stamped = after.model_copy(update={"updated_at": self._memories.clock.now()})
        return self._memories.intake.prepared(stamped)

    def _said_anew(self, before: MemoryItem, text: str) -> MemoryItem:
        now = self._memories.clock.now()
        item = MemoryItem(
            memory_id=before.memory_id,
            scope_id=before.scope_id,
            content=text,
            memory_type=before.memory_type,
            taint=TaintLevel.OWNER,
            created_at=now,
            updated_at=now,
            # Else a preference that was put right would be learnt once more as it was.
            semantic_tags=before.semantic_tags if before.taint is TaintLevel.OWNER else [],
        )
        return self._memories.of(before.scope_id).ready(item)

    def _change(
        self, name: str, op: MemoryOpType, *, before: MemoryItem, after: MemoryItem
    ) -> MemoryChange:
        return MemoryChange(
            change_id=name,
            scope_id=after.scope_id,
            memory_id=after.memory_id,
            op=op,
            before=before,
            after=after,
            made_at=self._memories.clock.now(),
        )

    def _put_back(self, tx: Transaction, change: MemoryChange) -> None:
        found = _find(tx, change.scope_id, change.memory_id)
        now = found[1] if found else None
        if _lasting(now) != _lasting(change.after):
            raise MemoryInvalid("This memory was changed again since. Look at it, and say it anew.")
        if change.before is None:
            tx.execute("DELETE FROM memory_items WHERE id = ?", (found[0] if found else 0,))
            return
        require_admissible(change.before, confirmed=False)
        if found is not None:
            update_row(tx, found[0], change.before, new_id=found[0])
            return
        tier = change.before.reingestion_tier
        scope_no, row_id = allot_ids(tx, change.scope_id, tier)
        insert_rows(tx, scope_no, [(row_id, change.before)])

    def _record(self, tx: Transaction, event: str, change: MemoryChange, **more: Any) -> None:
        if self._memories.audit is None:
            return
        left = change.after or change.before
        data = {
            "change_id": change.change_id,
            "scope_id": change.scope_id,
            "memory_id": change.memory_id,
            "op": change.op.value,
            "before": digest_of(change.before),
            "after": digest_of(change.after),
            "taint": left.taint.value if left else None,
            **more,
        }
        self._memories.audit.append(tx, event, data)


def digest_of(item: MemoryItem | None) -> str | None:
    """The SHA-256 of a memory, whole; its times in it keep short texts from being guessed."""
    if item is None:
        return None
    lasting = item.model_dump(mode="json", exclude=_COUNTED)
    return hashlib.sha256(canonical_bytes(lasting)).hexdigest()


def versions_in(reader: Reader, scope_id: str) -> list[tuple[str, MemoryItem]]:
    """Every version that is kept to undo something: the change's id, and the memory."""
    rows = reader.fetch_all(
        f"SELECT {_COLUMNS} FROM memory_changes WHERE scope_id = ?",  # noqa: S608 - names only
        (scope_id,),
    )
    return [
        (change.change_id, item)
        for change in map(_read, rows)
        for item in (change.before, change.after)
        if item is not None
    ]


def _change_id(key: str) -> str:
    return f"chg_{hashlib.sha256(key.encode()).hexdigest()[:26]}"


def _find(reader: Reader, scope_id: str, memory_id: str) -> tuple[int, MemoryItem] | None:
    row = reader.fetch_one(BY_ID, (scope_number(reader, scope_id), memory_id))
    return (row[0], item_from(scope_id, row[1:])) if row else None


def _require(reader: Reader, scope_id: str, memory_id: str) -> tuple[int, MemoryItem]:
    found = _find(reader, scope_id, memory_id)
    if found is None:
        raise MemoryUnknown(f"There is no memory {memory_id!r} here.")
    return found


def _reworded(op: MemoryOp, before: MemoryItem) -> dict[str, Any]:
    if (op.content or "").split() == before.content.split():
        raise MemoryExists("The memory says exactly this already.")
    content = op.content or ""
    # What the old wording named and the new one does not is not what it is about any more.
    gone = set(names_in(before.content)) - set(names_in(content))
    kept = [each for each in before.entity_refs if each not in gone]
    return {
        "content": content,
        "entity_refs": list(dict.fromkeys([*kept, *_entities(op, content)])),
    }


def _entities(op: MemoryOp, content: str) -> list[str]:
    """Whom and what a memory is about: as the agent says, and the names that its text holds."""
    return without_behavior(dict.fromkeys([*op.entity_refs, *names_in(content)]))


def _linked(reader: Reader, op: MemoryOp, before: MemoryItem) -> dict[str, Any]:
    """Both ends must be here: a link to another scope would say that something is there."""
    target = op.link_to or ""
    _require(reader, before.scope_id, target)
    if before.taint is TaintLevel.OWNER:
        raise TrustRefused("An agent's link would change what you said. It was left as it is.")
    if op.link_type == CAUSAL:
        return {"causal_refs": list(dict.fromkeys([*before.causal_refs, target]))}
    if op.link_type in ("temporal_next", "temporal_prev"):
        return {op.link_type: target}
    raise MemoryInvalid(f"A link is {CAUSAL}, temporal_next or temporal_prev.")


def _lasting(item: MemoryItem | None) -> dict[str, Any] | None:
    """What a change leaves: everything but how often the memory was looked at."""
    return None if item is None else item.model_dump(mode="json", exclude=_COUNTED)


def _read(row: Row) -> MemoryChange:
    before, after = (
        MemoryItem.model_validate_json(each) if each is not None else None for each in row[4:6]
    )
    return MemoryChange(
        change_id=row[0],
        scope_id=row[1],
        memory_id=row[2],
        op=MemoryOpType(row[3]),
        before=before,
        after=after,
        made_at=parse_timestamp(row[6]),
        undone_at=parse_timestamp(row[7]) if row[7] else None,
    )


def _values(change: MemoryChange) -> tuple[str | None, ...]:
    return (
        change.change_id,
        change.scope_id,
        change.memory_id,
        change.op.value,
        change.before.model_dump_json() if change.before else None,
        change.after.model_dump_json() if change.after else None,
        format_timestamp(change.made_at),
    )
