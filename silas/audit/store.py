"""The audit log's three tables, through the `Database` port alone.

Entries are appended and read back; `DatabaseSource` gives an examination what it reads, as an
exported file does (`ChainSource`); `newest_entries` are for people.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import islice, takewhile
from typing import Protocol

from silas.audit.drafts import Draft
from silas.audit.errors import AuditStateDamaged
from silas.audit.models import AuditEntry, ChainPosition, Checkpoint, SignedStatement, link
from silas.kernel import CanonicalError, format_timestamp, parse_timestamp, strict_loads
from silas.storage import Reader, Row, SqlValue, Transaction

# The casts make text of whatever somebody may have put there.
_ENTRIES = """
SELECT seq, CAST(body AS TEXT), CAST(hash AS TEXT) FROM audit_log WHERE seq > ? ORDER BY seq
"""
_CHECKPOINT = """
SELECT checkpoint_id, seq, CAST(body AS TEXT), CAST(key_id AS TEXT), CAST(signature AS TEXT)
FROM audit_checkpoints
"""
_NEWEST_CHECKPOINT = f"{_CHECKPOINT} ORDER BY seq DESC, checkpoint_id DESC LIMIT 1"
_CHECKPOINT_BEFORE = f"{_CHECKPOINT} WHERE seq < ? ORDER BY seq DESC, checkpoint_id DESC LIMIT 1"
_CHECKPOINT_NAMED = f"{_CHECKPOINT} WHERE checkpoint_id = ?"
# A body begins with {"at":" and the time; as text, times are in order.
_CHECKPOINT_UNTIL = f"""
{_CHECKPOINT} WHERE substr(CAST(body AS TEXT), 8, 27) < ?
ORDER BY seq DESC, checkpoint_id DESC LIMIT 1
"""
_CHECKPOINTS_FROM = f"{_CHECKPOINT} WHERE seq >= ? ORDER BY seq, checkpoint_id"
_INSERT_CHECKPOINT = """
INSERT INTO audit_checkpoints (checkpoint_id, seq, body, key_id, signature) VALUES (?, ?, ?, ?, ?)
"""
_STATE = "SELECT id, base_seq, base_hash, base_proof, head_seq, head_hash FROM audit_state"
_HEAD = "SELECT head_seq, head_hash FROM audit_state WHERE id = 1"
_SET_HEAD = "UPDATE audit_state SET head_seq = ?, head_hash = ? WHERE id = 1"
_SET_BASE = "UPDATE audit_state SET base_seq = ?, base_hash = ?, base_proof = ? WHERE id = 1"
_NEXT_NUMBER = "SELECT seq FROM audit_log WHERE seq > ? ORDER BY seq LIMIT 1"
_BODY = "SELECT CAST(body AS TEXT) FROM audit_log WHERE seq = ?"
_HASH_OF = "SELECT CAST(hash AS TEXT) FROM audit_log WHERE seq = ?"
_NUMBERS_UP_TO = "SELECT seq FROM audit_log WHERE seq <= ? ORDER BY seq LIMIT 100"
_FIRST_SINCE = "SELECT COALESCE(MIN(seq), ?) FROM audit_log WHERE substr(body, 8, 27) >= ?"
_ENTRY_NAMED = "SELECT 1 FROM audit_log WHERE seq > ? AND CAST(body AS TEXT) LIKE ?"
_REMOVE_ENTRIES = "DELETE FROM audit_log WHERE seq <= ?"
_REMOVE_CHECKPOINTS = "DELETE FROM audit_checkpoints WHERE seq < ?"
_INSERT = "INSERT INTO audit_log (seq, body, hash) VALUES (?, ?, ?)"
_INSERT_MANY = _INSERT + ", (?, ?, ?)" * 15
_CELLS_AT_ONCE = 16 * 3
_HASH = re.compile(r"[0-9a-f]{64}")
_UNREADABLE = ""
_BEYOND = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ChainState:
    """Where the chain starts, by whose leave, and where it ends."""

    base: ChainPosition
    base_proof: str
    head: ChainPosition


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A row of the table of checkpoints: a signed statement, and what the row says beside it."""

    checkpoint_id: str | None
    seq: int
    signed: SignedStatement


_UNREADABLE_CHECKPOINT = StoredCheckpoint(None, 0, SignedStatement("", "", ""))


def read_state(reader: Reader) -> ChainState | None:
    """The state, or None if somebody has tampered with its only row."""
    try:
        rows = reader.fetch_all(_STATE)
    except UnicodeDecodeError:
        return None
    if len(rows) != 1 or [type(cell) for cell in rows[0]] != [int, int, str, str, int, str]:
        return None
    row_id, base_seq, base_hash, base_proof, head_seq, head_hash = rows[0]
    if row_id != 1:
        return None
    return ChainState(
        ChainPosition(base_seq, base_hash), base_proof, ChainPosition(head_seq, head_hash)
    )


def append_drafts(tx: Transaction, drafts: Sequence[Draft]) -> ChainPosition:
    """Put the entries at the end of the chain, in this order; returns the new end."""
    # The end is read inside the transaction, which no other process can overlap.
    row = tx.fetch_one(_HEAD)
    if row is None or not _is_position(*row):
        raise AuditStateDamaged
    seq, digest = row
    cells: list[SqlValue] = []
    for draft in drafts:
        seq += 1
        body = draft.body(seq)
        digest = link(digest, body)
        cells += (seq, body, digest)
    _insert_entries(tx, cells)
    tx.execute(_SET_HEAD, (seq, digest))
    return ChainPosition(seq, digest)


def _insert_entries(tx: Transaction, cells: list[SqlValue]) -> None:
    """Many rows in one statement cost a third of as many statements."""
    many = len(cells) - len(cells) % _CELLS_AT_ONCE
    for start in range(0, many, _CELLS_AT_ONCE):
        tx.execute(_INSERT_MANY, cells[start : start + _CELLS_AT_ONCE])
    for start in range(many, len(cells), 3):
        tx.execute(_INSERT, cells[start : start + 3])


def _is_position(seq: object, digest: object) -> bool:
    return type(seq) is int and type(digest) is str and bool(_HASH.fullmatch(digest))


def entries_after(reader: Reader, seq: int) -> Iterator[Row]:
    """Number, body and hash of all later entries, also of those that are no text any more."""
    while True:
        try:
            for row in reader.rows(_ENTRIES, (seq,)):
                yield row
                seq = row[0]
        except UnicodeDecodeError:
            # The driver stops at bytes that are not UTF-8. Say so in their place, and go on.
            (seq,) = reader.fetch_all(_NEXT_NUMBER, (seq,))[0]
            yield seq, _readable(reader, _BODY, seq), _readable(reader, _HASH_OF, seq)
        else:
            return


def _readable(reader: Reader, sql: str, seq: int) -> str:
    try:
        ((text,),) = reader.fetch_all(sql, (seq,))
    except UnicodeDecodeError:
        return _UNREADABLE
    return str(text)


def numbers_up_to(reader: Reader, seq: int) -> list[int]:
    """The numbers of entries up to this one: a chain that starts there has none."""
    return [number for (number,) in reader.fetch_all(_NUMBERS_UP_TO, (seq,))]


def insert_checkpoint(tx: Transaction, checkpoint: Checkpoint) -> bool:
    """Add the checkpoint, unless another process has added one since this one was signed."""
    newest = newest_checkpoint(tx)
    if (newest.checkpoint_id if newest else None) != checkpoint.previous:
        return False
    signed = checkpoint.signed
    tx.execute(
        _INSERT_CHECKPOINT,
        (
            checkpoint.checkpoint_id,
            checkpoint.position.seq,
            signed.body,
            signed.key_id,
            signed.signature,
        ),
    )
    return True


def newest_checkpoint(reader: Reader) -> StoredCheckpoint | None:
    """The checkpoint that vouches for most; None if there is none."""
    return _one_checkpoint(reader, _NEWEST_CHECKPOINT)


def find_checkpoint(reader: Reader, checkpoint_id: str) -> StoredCheckpoint | None:
    """The checkpoint with this id, or None."""
    return _one_checkpoint(reader, _CHECKPOINT_NAMED, checkpoint_id)


def checkpoints_from(reader: Reader, seq: int) -> Iterator[StoredCheckpoint]:
    """The checkpoints at this entry and later, by the entries that they vouch for."""
    try:
        yield from map(_stored_checkpoint, reader.rows(_CHECKPOINTS_FROM, (seq,)))
    except UnicodeDecodeError:
        yield _UNREADABLE_CHECKPOINT


def _one_checkpoint(reader: Reader, sql: str, *params: SqlValue) -> StoredCheckpoint | None:
    try:
        row = reader.fetch_one(sql, params)
    except UnicodeDecodeError:
        return _UNREADABLE_CHECKPOINT
    return _stored_checkpoint(row) if row else None


def _stored_checkpoint(row: Row) -> StoredCheckpoint:
    checkpoint_id, seq, body, key_id, signature = row
    # A number that is none fits no statement, so the checkpoint will be reported as damaged.
    number = seq if type(seq) is int else -1
    return StoredCheckpoint(checkpoint_id, number, SignedStatement(body, key_id, signature))


def first_entry_since(reader: Reader, moment: str) -> int:
    """The number of the first entry of that time or later; beyond the end if there is none."""
    ((seq,),) = reader.fetch_all(_FIRST_SINCE, (_BEYOND, moment))
    return int(seq)


def last_checkpoint_before(reader: Reader, seq: int) -> StoredCheckpoint | None:
    """The last checkpoint that vouches for an entry before that one."""
    return _one_checkpoint(reader, _CHECKPOINT_BEFORE, seq)


def last_checkpoint_until(reader: Reader, moment: str) -> StoredCheckpoint | None:
    """The last checkpoint that says of itself to be older than that; its signature is not read."""
    return _one_checkpoint(reader, _CHECKPOINT_UNTIL, moment)


def has_entry(reader: Reader, entry_id: str, *, after: int) -> bool:
    """Whether the entry with this id is among the later ones."""
    return reader.fetch_one(_ENTRY_NAMED, (after, f'%"entry_id":"{entry_id}"%')) is not None


def remove_archived(tx: Transaction, base: ChainPosition, proof: SignedStatement) -> None:
    """Let the chain start at `base`: what lies before has been archived."""
    tx.execute(_REMOVE_ENTRIES, (base.seq,))
    tx.execute(_REMOVE_CHECKPOINTS, (base.seq,))
    tx.execute(_SET_BASE, (base.seq, base.hash, proof.to_bytes().decode()))


class ChainSource(Protocol):
    """A chain, read from beginning to end without being held in memory."""

    def state(self) -> ChainState | None:
        """Where the chain says that it starts and ends; None if that cannot be read."""
        ...

    def entries(self, after: int) -> Iterator[Row]:
        """Number, body and hash of the entries behind that number."""
        ...

    def strays(self, up_to: int) -> list[int]:
        """Numbers of entries that lie before the start of the chain (the first of them)."""
        ...

    def checkpoints(self, from_seq: int) -> Iterator[StoredCheckpoint]:
        """The checkpoints that vouch for this entry and for later ones."""
        ...

    def checkpoint(self, checkpoint_id: str) -> StoredCheckpoint | None:
        """The checkpoint with this id, or None."""
        ...

    def newest_checkpoint(self) -> StoredCheckpoint | None:
        """The checkpoint that vouches for most, or None."""
        ...


class DatabaseSource:
    """The chain in the database, in one consistent view."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def state(self) -> ChainState | None:
        return read_state(self._reader)

    def entries(self, after: int) -> Iterator[Row]:
        return entries_after(self._reader, after)

    def strays(self, up_to: int) -> list[int]:
        return numbers_up_to(self._reader, up_to)

    def checkpoints(self, from_seq: int) -> Iterator[StoredCheckpoint]:
        return checkpoints_from(self._reader, from_seq)

    def checkpoint(self, checkpoint_id: str) -> StoredCheckpoint | None:
        return find_checkpoint(self._reader, checkpoint_id)

    def newest_checkpoint(self) -> StoredCheckpoint | None:
        return newest_checkpoint(self._reader)


UNREADABLE = "[unreadable]"

_NEWEST_FIRST = """
SELECT seq, CAST(body AS TEXT) FROM audit_log WHERE seq <= ? ORDER BY seq DESC
"""
_LAST_UP_TO = "SELECT seq FROM audit_log WHERE seq <= ? ORDER BY seq DESC LIMIT 1"
_LAST_NUMBER = 2**63 - 1
_FIELDS = {"entry_id": str, "at": str, "event": str, "data": dict}
_UNKNOWN_TIME = "0001-01-01T00:00:00.000000Z"


def newest_entries(
    reader: Reader, count: int, *, event: str, since: datetime | None, after: int
) -> list[AuditEntry]:
    """The last entries, oldest first, whose event matches the pattern (`approval_*`).

    Those that cannot be read always match: nobody should overlook them.
    """
    rows = takewhile(lambda row: row[0] > after, _rows_backwards(reader))
    entries = (entry_from(seq, body) for seq, body in rows)
    wanted = (entry for entry in entries if matches(entry, event=event, since=since))
    return list(islice(wanted, count))[::-1]


def matches(entry: AuditEntry, *, event: str, since: datetime | None) -> bool:
    """Whether somebody who asked for these events since then wants to see this entry."""
    if entry.event == UNREADABLE:
        return True
    young = since is None or entry.at >= format_timestamp(since)
    return young and fnmatchcase(entry.event, event)


def entry_from(seq: int, body: str) -> AuditEntry:
    """The entry in a stored body; one that cannot be read says so."""
    try:
        content = strict_loads(body)
        fields = {name: content[name] for name in _FIELDS}
        parse_timestamp(fields["at"])
    except (CanonicalError, ValueError, KeyError, TypeError):
        return _unreadable(seq)
    if not all(isinstance(fields[name], kind) for name, kind in _FIELDS.items()):
        return _unreadable(seq)
    return AuditEntry(seq=seq, **fields)


def _unreadable(seq: int) -> AuditEntry:
    return AuditEntry(seq=seq, entry_id="", at=_UNKNOWN_TIME, event=UNREADABLE, data={})


def _rows_backwards(reader: Reader) -> Iterator[Row]:
    last = _LAST_NUMBER
    while True:
        try:
            for row in reader.rows(_NEWEST_FIRST, (last,)):
                last = row[0] - 1
                yield row
        except UnicodeDecodeError:
            (seq,) = reader.fetch_all(_LAST_UP_TO, (last,))[0]
            last = seq - 1
            yield seq, ""
        else:
            return
