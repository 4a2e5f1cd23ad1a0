"""Reading entries back: the newest, those that match, and those that cannot be read."""

from datetime import UTC, datetime

from silas.audit import AuditEntry
from silas.audit.store import UNREADABLE, entry_from
from tests.audit.ledger import Ledger


async def events(ledger: Ledger, count: int, **options: object) -> list[str]:
    return [entry.event for entry in await ledger.log.tail(count, **options)]  # type: ignore[arg-type]


async def test_the_newest_come_last(ledger: Ledger) -> None:
    for name in "abcde":
        await ledger.log.log(name)
    assert await events(ledger, 2) == ["d", "e"]
    assert await events(ledger, 99) == list("abcde")
    assert await events(ledger, 0) == []


async def test_an_empty_log(ledger: Ledger) -> None:
    assert await ledger.log.tail(5) == []


async def test_what_an_entry_holds(ledger: Ledger) -> None:
    entry_id = await ledger.log.log("x", a=1)
    (entry,) = await ledger.log.tail(1)
    assert (entry.seq, entry.entry_id, entry.event, entry.data) == (1, entry_id, "x", {"a": 1})
    assert entry.at == "2026-01-01T12:00:00.000000Z"


async def test_patterns(ledger: Ledger) -> None:
    for name in ("approval_issued", "secret_stored", "approval_used", "Approval_x"):
        await ledger.log.log(name)
    assert await events(ledger, 9, event="approval_*") == ["approval_issued", "approval_used"]
    assert await events(ledger, 1, event="approval_*") == ["approval_used"]
    assert await events(ledger, 9, event="nothing") == []


async def test_since(ledger: Ledger) -> None:
    for _ in range(3):
        await ledger.log.log("x")
        ledger.clock.advance(hours=1)
    since = datetime(2026, 1, 1, 13, tzinfo=UTC)
    assert [entry.seq for entry in await ledger.log.tail(9, since=since)] == [2, 3]
    assert [entry.seq for entry in await ledger.log.tail(9, after=2)] == [3]


async def test_what_cannot_be_read_is_shown_as_such(ledger: Ledger) -> None:
    await ledger.write(5)
    await ledger.database.execute("UPDATE audit_log SET body = 'x' WHERE seq = 2")
    await ledger.database.execute(
        "UPDATE audit_log SET body = CAST(x'ff' AS TEXT) WHERE seq IN (3, 5)"
    )
    entries = await ledger.log.tail(9, event="thing_*")
    assert [(entry.seq, entry.event == UNREADABLE) for entry in entries] == [
        (1, False),
        (2, True),
        (3, True),
        (4, False),
        (5, True),
    ]
    assert entries[1] == AuditEntry(
        seq=2, entry_id="", at="0001-01-01T00:00:00.000000Z", event="[unreadable]", data={}
    )
    # Nobody should overlook them, whatever was asked for.
    later = await ledger.log.tail(9, event="other", since=datetime(2027, 1, 1, tzinfo=UTC))
    assert [entry.seq for entry in later] == [2, 3, 5]


def test_bodies_that_are_none() -> None:
    whole = '{"at":"2026-01-01T12:00:00.000000Z","data":{},"entry_id":"a","event":"e","seq":1}'
    assert entry_from(1, whole).event == "e"
    for body in (
        "",
        "null",
        "[]",
        "{}",
        whole.replace("{}", "5"),
        whole.replace("{}", "[]"),
        whole.replace('"a",', "5,"),
        whole.replace('"entry_id":"a",', ""),
        whole.replace('"e"', "5"),
        whole.replace("2026-01-01T12:00:00.000000Z", "yesterday"),
        whole.replace('"2026-01-01T12:00:00.000000Z"', "5"),
    ):
        entry = entry_from(7, body)
        assert (entry.seq, entry.event) == (7, UNREADABLE)
