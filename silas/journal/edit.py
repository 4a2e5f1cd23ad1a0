"""One change of the journal while it is made: everything in it happens, or nothing does.

1. Each record that changes gets one number of this host's counter, one row of history with what was
   before and after, and one change unit. A record that is as it was gets nothing.
2. An id that is made for an operation follows from the operation's id, so that a device that
   repeats the operation makes the same records.
3. At the end the counter, the history and the batch are written, in the same transaction.

Two versions of one record become one, the same on every device (`merge`, pure):

4. If one vector clock includes the other, the newer version is the result.
5. Concurrent edits are merged field by field: the write with the higher revision wins, then the
   higher host id, then its higher counter. A clock on the wall decides nothing.
6. Fields that only make sense together (begin and end) are one field.
7. Deletion is a counter, odd for deleted, and the higher one wins: a deletion wins over a
   concurrent edit, and whoever brings a record back after it wins over the deletion.
8. The vector clock of the result includes both.

Rules 5 to 8 are each a maximum, so merging is commutative, associative and idempotent. Rule 4
follows from them: whoever has seen a version writes with a higher revision.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar

from pydantic import ValidationError

from silas.journal.errors import RecordInvalid, RecordUnknown
from silas.journal.models import DayBlock, Record, TimeEntry, Version
from silas.journal.notifications import (
    ChangeUnit,
    NotificationBatch,
    TypedToken,
    make_batch,
    tokens_of,
)
from silas.journal.records import content_of, kind_of, load, store
from silas.kernel import IdFactory, canonical_bytes, format_timestamp
from silas.kernel.models import problem_text
from silas.storage import Transaction

R = TypeVar("R", bound=Record)

_OWN_RULES = frozenset(Record.model_fields) | {"kind"}
_TOGETHER: dict[type[Record], tuple[tuple[str, ...], ...]] = {
    TimeEntry: (("started_at", "ended_at"),),
    DayBlock: (("starts_at", "ends_at"),),
}
_GONE = "deletions"
FIRST = "*"
"""The key in `versions` of the record's first write."""


class Order(Enum):
    """How two vector clocks relate."""

    EQUAL = "equal"
    BEFORE = "before"
    AFTER = "after"
    CONCURRENT = "concurrent"


def compare(a: Mapping[str, int], b: Mapping[str, int]) -> Order:
    """Whether `a` was before `b`, after it, or neither knew of the other."""
    hosts = a.keys() | b.keys()
    behind = any(a.get(host, 0) < b.get(host, 0) for host in hosts)
    ahead = any(a.get(host, 0) > b.get(host, 0) for host in hosts)
    if behind and ahead:
        return Order.CONCURRENT
    if behind:
        return Order.BEFORE
    return Order.AFTER if ahead else Order.EQUAL


def join_clocks(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    """The clock that has seen both."""
    return {host: max(a.get(host, 0), b.get(host, 0)) for host in sorted(a.keys() | b.keys())}


def merge(a: R, b: R) -> R:
    """The one version that follows from both (rules 4 to 8)."""
    if type(a) is not type(b) or a.id != b.id:
        raise ValueError("only two versions of one record can be merged")
    values: dict[str, Any] = {}
    versions = {FIRST: max(_version(a, FIRST), _version(b, FIRST), key=_rank)}
    for group in groups_of(type(a)):
        winner = max(a, b, key=lambda each: _standing(each, group))
        versions[group[0]] = _version(winner, group[0])
        values |= {name: getattr(winner, name) for name in group}
    gone = max(a, b, key=_deletion)
    versions[_GONE] = _version(gone, _GONE)
    return a.model_copy(
        update=values
        | {
            "created_at": min(a.created_at, b.created_at),
            "updated_at": max(a.updated_at, b.updated_at),
            "vector_clock": join_clocks(a.vector_clock, b.vector_clock),
            "versions": _trimmed(versions),
            "deletions": gone.deletions,
            "deleted_at": gone.deleted_at,
        }
    )


def groups_of(kind: type[Record]) -> tuple[tuple[str, ...], ...]:
    """The fields of a kind of record that are merged, those that belong together as one."""
    together = _TOGETHER.get(kind, ())
    taken = {name for group in together for name in group}
    single = ((name,) for name in sorted(kind.model_fields) if name not in _OWN_RULES | taken)
    return (*together, *single)


def written(after: R, before: R | None, *, host: str, counter: int) -> R:
    """`after` as a write of this host on top of `before`: its clock and versions say so."""
    known = before.vector_clock if before is not None else {}
    versions = dict(before.versions) if before is not None else {}
    revision = 1 + max((each.revision for each in versions.values()), default=0)
    now = Version(revision=revision, host=host, counter=counter)
    if before is None:
        versions = {FIRST: now}
    else:
        for group in groups_of(type(after)):
            if any(getattr(after, name) != getattr(before, name) for name in group):
                versions[group[0]] = now
        if after.deletions != before.deletions:
            versions[_GONE] = now
    return after.model_copy(
        update={"vector_clock": {**known, host: counter}, "versions": _trimmed(versions)}
    )


def last_write(record: Record) -> Version | None:
    """The newest write of which anything is left."""
    return max(record.versions.values(), key=_rank, default=None)


def _version(record: Record, name: str) -> Version:
    found = record.versions.get(name) or record.versions.get(FIRST)
    return found or Version(revision=0, host="", counter=0)


def _trimmed(versions: dict[str, Version]) -> dict[str, Version]:
    first = versions[FIRST]
    kept = {name: each for name, each in versions.items() if name == FIRST or each != first}
    return dict(sorted(kept.items()))


def _rank(version: Version) -> tuple[int, str, int]:
    return (version.revision, version.host, version.counter)


def _standing(record: Record, group: tuple[str, ...]) -> tuple[tuple[int, str, int], bytes]:
    # The same write has the same values. If somebody forged another one, all still agree.
    values = record.model_dump(mode="json", include=set(group))
    return _rank(_version(record, group[0])), canonical_bytes(values)


def _deletion(record: Record) -> tuple[int, tuple[int, str, int], str]:
    when = record.deleted_at.isoformat() if record.deleted_at else ""
    return record.deletions, _rank(_version(record, _GONE)), when


_HOST = "SELECT host_id, counter FROM journal_host WHERE one = 1"
_BATCH = """
INSERT INTO batches
    (local_batch_id, logical_change_key, change_units, typed_tokens, actor, operation_id, at)
VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING cursor
"""
_HISTORY = """
INSERT INTO history (record_id, batch, origin, host_id, counter, before, after)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""

_MOST_WRITES = 2**48
_MOST_AHEAD = 2**32


@dataclass(frozen=True)
class _Change:
    before: Record | None
    after: Record
    unit: ChangeUnit


class Edit:
    """The journal, inside one transaction."""

    def __init__(
        self,
        tx: Transaction,
        *,
        now: datetime,
        ids: IdFactory,
        actor: str,
        operation_id: str | None = None,
    ) -> None:
        self.tx = tx
        self.now = now
        self.actor = actor
        self.operation_id = operation_id
        self._ids = ids
        host, counter = tx.fetch_all(_HOST)[0]
        self.host_id: str = host
        self._counter: int = counter
        self._made = 0
        self._changes: dict[str, _Change] = {}

    @property
    def changed(self) -> list[Record]:
        """The records that this change has changed so far, as they are now."""
        return [change.after for change in self._changes.values()]

    def new_id(self, kind: type[Record]) -> str:
        """An id for a new record of this kind (rule 2)."""
        prefix = str(kind.model_fields["kind"].default)
        if self.operation_id is None:
            return self._ids.new(prefix)
        self._made += 1
        seed = f"{self.operation_id}\n{prefix}\n{self._made}"
        return f"{prefix}_{hashlib.sha256(seed.encode()).hexdigest()[:26]}"

    def find(self, kind: type[R], record_id: str, *, deleted: bool = False) -> R | None:
        """The record, or None if there is none of this kind; one that is deleted only if asked."""
        found = load(self.tx, record_id)
        if not isinstance(found, kind) or (found.deleted and not deleted):
            return None
        return found

    def get(self, kind: type[R], record_id: str, *, deleted: bool = False) -> R:
        """The record; raises `RecordUnknown`."""
        found = self.find(kind, record_id, deleted=deleted)
        if found is None:
            raise RecordUnknown(record_id=record_id)
        return found

    def create(self, kind: type[R], /, **fields: Any) -> R:
        """Write a new record; it gets an id unless one is given."""
        fields.setdefault("id", self.new_id(kind))
        fields |= {"created_at": self.now, "updated_at": self.now}
        return self.put(checked(kind, fields))

    def update(self, record: R, /, **fields: Any) -> R:
        """Write a record with these fields changed."""
        return self.put(checked(type(record), record.model_dump() | fields))

    def put(self, record: R) -> R:
        """Write a record as it is; its clock, versions and times are set here. Returns it so."""
        before = self._kept(type(record), record.id)
        if before is not None and _same(before, record):
            return before
        earliest = before.updated_at if before is not None else self.now
        stamped = record.model_copy(
            update={
                "created_at": before.created_at if before is not None else record.created_at,
                "updated_at": max(self.now, earliest),
            }
        )
        counter = self._number_for(record.id)
        after = written(stamped, self._start(before), host=self.host_id, counter=counter)
        self._keep(after, ChangeUnit(**self._local(after, counter)))
        return after

    def delete(self, record: R) -> R:
        """Make a tombstone of it."""
        return self._set_deleted(record, deleted=True)

    def restore(self, record: R) -> R:
        """Bring it back."""
        return self._set_deleted(record, deleted=False)

    def merge(self, foreign: R) -> R:
        """Take another device's version in. Its writes keep their own host and number."""
        before = self._kept(type(foreign), foreign.id)
        after = merge(before, foreign) if before is not None else foreign
        write = last_write(foreign)
        if write is None or write.counter < 1 or foreign.vector_clock.get(write.host) is None:
            raise RecordInvalid("A record from elsewhere must say which write it is.")
        self._require_plausible(foreign)
        # A copy of this very device may have counted further.
        self._counter = max(self._counter, foreign.vector_clock.get(self.host_id, 0))
        if before == after:
            return after
        unit = {"origin": "sync", "host_id": write.host, "counter": write.counter}
        self._keep(after, ChangeUnit(**unit, payload_type=kind_of(after), payload_id=after.id))
        return after

    def finish(self) -> NotificationBatch | None:
        """Write counter, history and batch (rule 3); None if nothing has changed."""
        if not self._changes:
            return None
        changes = list(self._changes.values())
        batch = make_batch(
            self._ids.new("batch"), [each.unit for each in changes], tokens=self._tokens()
        )
        cursor = self._write_batch(batch, [each.unit for each in changes])
        for each in changes:
            self._write_history(each, cursor)
        self.tx.execute("UPDATE journal_host SET counter = ? WHERE one = 1", (self._counter,))
        return batch.model_copy(update={"source_cursor": cursor})

    def _require_plausible(self, foreign: Record) -> None:
        """Numbers that nobody has counted to would leave none for the writes to come."""
        numbers = [*foreign.vector_clock.values(), foreign.deletions]
        numbers += [each.revision for each in foreign.versions.values()]
        ahead = foreign.vector_clock.get(self.host_id, 0) - self._counter
        if max(numbers) > _MOST_WRITES or ahead > _MOST_AHEAD:
            raise RecordInvalid("A record from elsewhere has counted further than anybody can.")

    def _set_deleted(self, record: R, *, deleted: bool) -> R:
        current = self.get(type(record), record.id, deleted=True)
        if current.deleted == deleted:
            return current
        return self.put(
            current.model_copy(
                update={
                    "deletions": current.deletions + 1,
                    "deleted_at": self.now if deleted else None,
                }
            )
        )

    def _kept(self, kind: type[R], record_id: str) -> R | None:
        found = load(self.tx, record_id)
        if found is not None and not isinstance(found, kind):
            raise RecordInvalid(f"{record_id} is the id of a record of another kind.")
        return found

    def _start(self, current: R | None) -> R | None:
        """What it was before this change: a second write in it is part of the first."""
        known = self._changes.get(current.id) if current is not None else None
        if known is None or known.unit.origin == "sync":
            return current
        before: Any = known.before
        return before  # type: ignore[no-any-return]

    def _number_for(self, record_id: str) -> int:
        known = self._changes.get(record_id)
        if known is not None and known.unit.origin == "local":
            return known.unit.counter
        self._counter += 1
        return self._counter

    def _local(self, record: Record, counter: int) -> dict[str, Any]:
        return {
            "origin": "local",
            "host_id": self.host_id,
            "counter": counter,
            "payload_type": kind_of(record),
            "payload_id": record.id,
        }

    def _keep(self, after: Record, unit: ChangeUnit) -> None:
        known = self._changes.get(after.id)
        before = known.before if known is not None else load(self.tx, after.id)
        store(self.tx, after)
        self._changes[after.id] = _Change(before, after, unit)

    def _tokens(self) -> list[TypedToken]:
        return [
            token
            for change in self._changes.values()
            for token in tokens_of(self.tx, change.before, change.after)
        ]

    def _write_batch(self, batch: NotificationBatch, units: list[ChangeUnit]) -> int:
        row = self.tx.fetch_all(
            _BATCH,
            (
                batch.local_batch_id,
                batch.logical_change_key,
                json.dumps([unit.model_dump() for unit in units]),
                json.dumps([token.model_dump(mode="json") for token in batch.typed_tokens]),
                self.actor,
                self.operation_id,
                format_timestamp(self.now),
            ),
        )[0]
        return int(row[0])

    def _write_history(self, change: _Change, cursor: int) -> None:
        unit, before = change.unit, change.before
        self.tx.execute(
            _HISTORY,
            (
                change.after.id,
                cursor,
                unit.origin,
                unit.host_id,
                unit.counter,
                content_of(before) if before is not None else None,
                content_of(change.after),
            ),
        )


def checked(kind: type[R], fields: Mapping[str, Any]) -> R:
    """A record of these fields; raises `RecordInvalid` with a sentence for each problem."""
    try:
        return kind.model_validate(dict(fields))
    except ValidationError as error:
        problems = problem_text(error)
        raise RecordInvalid(f"{RecordInvalid.sentence()} ({problems})") from error


def _same(a: Record, b: Record) -> bool:
    own = {"created_at", "updated_at", "vector_clock", "versions", "deleted_at"}
    return a.model_dump(exclude=own) == b.model_dump(exclude=own)
