"""What models have used: written with the turn, once, on the owner's day, priced or not."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from silas.kernel import IdFactory, TaintLevel
from silas.queue import Consumer, Handled, Lease, QueueName, QueueStore
from silas.queue.models import Agent, MessageKind, QueueMessage, UserMessage
from silas.storage import SqliteDatabase, Transaction
from silas.stream.usage import (
    MAX_DAYS,
    ModelUse,
    UsageLedger,
    UsageReport,
    in_dollars,
    note_on,
)
from silas.testing import FakeClock


def used(role: str = "proxy", tokens: int = 100, cost: float | None = 0.5) -> ModelUse:
    return ModelUse(
        role=role, model="openai:m", input_tokens=tokens, output_tokens=10, cost_usd=cost
    )


@pytest.fixture
def ledger(database: SqliteDatabase, clock: FakeClock) -> UsageLedger:
    return UsageLedger(database, clock, IdFactory(clock), ZoneInfo("Europe/Vienna"))


@pytest.fixture
def queue(database: SqliteDatabase, clock: FakeClock) -> QueueStore:
    return QueueStore(database, clock=clock, ids=IdFactory(clock))


async def rows(database: SqliteDatabase) -> int:
    row = await database.fetch_one("SELECT COUNT(*) FROM model_usage")
    assert row is not None
    return int(row[0])


def said(clock: FakeClock) -> QueueMessage:
    return QueueMessage(
        message_id="m",
        trace_id="trace",
        content="hello",
        sender=Agent.USER,
        message_kind=MessageKind.USER_MESSAGE,
        scope_id="owner",
        taint=TaintLevel.OWNER,
        created_at=clock.now(),
        payload=UserMessage(
            connection_id="owner", channel="web", sender_id="owner", timestamp=clock.now()
        ),
    )


async def test_it_is_written_in_the_transaction_that_ends_the_message(
    ledger: UsageLedger, queue: QueueStore, database: SqliteDatabase, clock: FakeClock
) -> None:
    async def handler(_lease: Lease) -> Handled:
        ledger.note(used())

        def look(tx: Transaction) -> None:
            # The last write of the handler itself: nothing of it is on the disk by then.
            assert tx.fetch_one("SELECT COUNT(*) FROM model_usage") == (0,)

        return Handled(writes=(look,))

    await queue.enqueue(said(clock))
    proxy = Consumer("proxy", QueueName.PROXY, ledger.carried_by(handler), queue)
    await proxy.run_until_empty()
    assert await rows(database) == 1
    await ledger.flush()
    assert await rows(database) == 1


async def test_a_turn_that_fails_loses_nothing_and_counts_it_once(
    ledger: UsageLedger, queue: QueueStore, database: SqliteDatabase, clock: FakeClock
) -> None:
    calls = 0

    async def handler(_lease: Lease) -> Handled:
        nonlocal calls
        calls += 1
        ledger.note(used())

        def fail(_tx: Transaction) -> None:
            raise ValueError("the disk")

        return Handled(writes=(fail,) if calls == 1 else ())

    await queue.enqueue(said(clock))
    proxy = Consumer("proxy", QueueName.PROXY, ledger.carried_by(handler), queue)
    await proxy.run_until_empty()
    assert (calls, await rows(database)) == (1, 0)
    clock.advance(hours=1)
    await proxy.run_until_empty()
    assert (calls, await rows(database)) == (2, 2)  # the model was asked twice


async def test_who_carries_the_same_at_once_writes_it_once(
    ledger: UsageLedger, database: SqliteDatabase
) -> None:
    async def handler(_lease: Lease) -> Handled:
        return Handled()

    ledger.note(used())
    lease: Lease = None  # type: ignore[assignment]
    first, second = [await ledger.carried_by(handler)(lease) for _ in range(2)]
    for handled in (first, second):
        for write in handled.writes:
            await database.transaction(write)
    assert await rows(database) == 1
    for handled in (first, second):
        for after in handled.after:
            await after()
    assert (await ledger.carried_by(handler)(lease)).writes == ()


async def test_a_day_is_the_owners_and_empty_days_are_shown(
    ledger: UsageLedger, clock: FakeClock
) -> None:
    clock.set(datetime(2026, 3, 1, 22, 30, tzinfo=UTC))  # 23:30 in Vienna
    ledger.note(used(tokens=1))
    clock.advance(hours=1)
    ledger.note(used(tokens=2))
    ledger.note(used("planner", tokens=500, cost=None))
    clock.advance(days=2)
    report = await ledger.report(days=4)
    assert [(str(day.date), day.tokens) for day in report.days] == [
        ("2026-03-01", 11),
        ("2026-03-02", 522),
        ("2026-03-03", 0),
        ("2026-03-04", 0),
    ]
    assert [(each.role, each.does, each.answers) for each in report.lines] == [
        ("planner", "Planning", 1),
        ("proxy", "Answering", 2),
    ]
    assert (await ledger.report(days=3)).days[0].tokens == 522


async def test_a_price_that_nobody_knows_is_never_nothing(ledger: UsageLedger) -> None:
    ledger.note(used("planner", cost=None))
    only = await ledger.report(days=1)
    assert only.lines[0].cost == "unknown"
    assert note_on(only, has_model=True).startswith("What this cost is not known")
    ledger.note(used("planner", cost=0.25))
    both = await ledger.report(days=1)
    assert both.lines[0].cost == both.days[0].cost == "$0.25 and more"
    assert note_on(both, has_model=True) == (
        "The price of one answer is not known; dollars are of the rest."
    )


async def test_what_to_make_of_nothing(ledger: UsageLedger) -> None:
    nothing = UsageReport(days=(), lines=())
    assert note_on(nothing, has_model=False) == (
        "Silas answers without a model: nothing is used, and nothing costs anything."
    )
    assert note_on(nothing, has_model=True) == "No model was asked in this time."
    ledger.note(used(cost=0.0))
    assert note_on(await ledger.report(days=1), has_model=True) == (
        "Nothing was charged: these models run on your machine."
    )


@pytest.mark.parametrize(
    ("amount", "words"),
    [(0, "$0.00"), (1.204, "$1.20"), (0.01234, "$0.0123"), (0.00000001, "less than $0.0001")],
)
def test_a_little_is_not_nothing(amount: float, words: str) -> None:
    assert in_dollars(amount) == words


async def test_what_is_too_old_to_be_asked_for_is_removed(
    ledger: UsageLedger, clock: FakeClock, database: SqliteDatabase
) -> None:
    ledger.note(used())
    await ledger.flush()
    clock.advance(days=MAX_DAYS)
    await ledger.prune()
    assert await rows(database) == 1
    clock.advance(days=1)
    await ledger.prune()
    assert await rows(database) == 0
