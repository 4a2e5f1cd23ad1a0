"""Entries read back, for people: the newest ones, or those that match."""

from collections.abc import Iterator
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import islice, takewhile

from silas.audit.models import AuditEntry
from silas.kernel import CanonicalError, format_timestamp, parse_timestamp, strict_loads
from silas.storage import Reader, Row

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
        said = strict_loads(body)
        fields = {name: said[name] for name in _FIELDS}
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
