"""Two versions of one record become one, the same on every device (pure).

1. If one vector clock includes the other, the newer version is the result.
2. Concurrent edits are merged field by field: the write with the higher revision wins, then the
   higher host id, then its higher counter. A clock on the wall decides nothing.
3. Fields that only make sense together (begin and end) are one field.
4. Deletion is a counter, odd for deleted, and the higher one wins: a deletion wins over a
   concurrent edit, and whoever brings a record back after it wins over the deletion.
5. The vector clock of the result includes both.

Rules 2 to 5 are each a maximum, so merging is commutative, associative and idempotent. Rule 1
follows from them: whoever has seen a version writes with a higher revision.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from silas.journal.models import DayBlock, Record, TimeEntry, Version
from silas.kernel import canonical_bytes

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
    """The one version that follows from both (rules 1 to 5)."""
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
