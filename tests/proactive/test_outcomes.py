"""What became of decisions: recorded once, if the owner made them, and counted fairly."""

from datetime import timedelta
from typing import Any

import pytest

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.kernel import IdFactory, TaintLevel
from silas.proactive.outcomes import (
    PLANS_TOGETHER,
    ActionOutcome,
    Case,
    OutcomeFeed,
    OutcomeStore,
    families_of,
    of_actions,
    record_outcome,
)
from silas.queue import QueueStore
from silas.review import Decisions
from silas.review.questions import QuestionStore
from silas.storage import SqliteDatabase
from silas.stream.cards import PlanCards
from silas.stream.offers import draft_of
from silas.stream.store import Origin
from silas.testing import FakeClock
from silas.testing.work import SENDS, LaterApprover, PausingWorker, declaring
from silas.tools.declaration import Tool, ToolRegistry
from silas.work.effects import DeclaredChanges, Workspace
from silas.work.ledger import CallUndos
from silas.work.models import WorkItem
from silas.work.origins import OriginStore
from tests.stream.test_cards import write_decision
from tests.stream.test_review import NO, YES, Office, habit, office, writing
from tests.work.conftest import shop
from tests.work.paused_runner import FILE, Sender
from tests.work.shop import Shop
from tests.work.test_paused import decide, start
from tests.work.test_toolcalls import SendArguments

__all__ = ["office", "shop"]
EDIT = ApprovalDecision(verdict=ApprovalVerdict.EDIT_REQUESTED)
WINDOW = timedelta(days=14)


def feed_of(office: Office) -> OutcomeFeed:
    desk = office.desk
    keys, audit, clock = desk.keys, desk.audit, desk.clock
    decisions = Decisions(
        desk.database,
        keys,
        approvals=desk.engine,
        audit=audit,
        clock=clock,
        devices=office.devices,
    )
    undos = CallUndos(desk.database, clock, keys, timedelta(minutes=5))
    stores = (office.cards, office.questions, desk.items, undos, decisions)
    return OutcomeFeed(desk.database, *stores, declaring(send=SENDS), clock, "owner")


def files(name: str, **changes: Any) -> WorkItem:
    place = Workspace(path="/home/me", changes=DeclaredChanges(**changes))
    return writing(name, workspace=place)


async def cases(office: Office) -> dict[str, Case]:
    store = OutcomeStore(office.desk.database, office.desk.clock)
    since = office.desk.clock.now() - WINDOW
    return {case.ref: case for case in await store.cases("owner", since=since)}


async def decided(office: Office, item: WorkItem, verdict: ApprovalDecision, **more: Any) -> None:
    await office.ask_plan(f"card_{item.id}", item, **more)
    card = await office.cards.get(f"card_{item.id}")
    await office.cards.decide_with_vault(card.card_id, verdict, shown=card.plan_hashes)


async def test_plans_count_by_what_they_do_and_once(office: Office) -> None:
    await decided(office, files("w1", add=["a.txt"]), YES)
    await decided(office, files("w2", remove=["b.txt"]), NO)
    await decided(office, files("w3", change=["c.txt"]), EDIT)
    feed = feed_of(office)
    assert await feed.gather() == 3
    assert await feed.gather() == 0, "the same decision is one row"
    assert await feed_of(office).gather() == 0, "also for another process"
    found = await cases(office)
    assert {ref: (case.families, case.outcomes) for ref, case in found.items()} == {
        "plan:w1": ({"file_write"}, {ActionOutcome.APPROVED}),
        "plan:w2": ({"file_remove"}, {ActionOutcome.DECLINED}),
        "plan:w3": ({"file_write"}, {ActionOutcome.EDITED}),
    }
    total = of_actions(found.values())
    assert (total.samples, total.corrections) == (3, 2)


async def test_an_approval_and_its_undo_are_one_case(office: Office) -> None:
    await decided(office, files("w1", add=["a.txt"]), YES)
    undo = files("undo_w1", remove=["a.txt"])
    await decided(office, undo, YES, requested_by="undo")
    await feed_of(office).gather()
    [case] = (await cases(office)).values()
    assert case.outcomes == {ActionOutcome.APPROVED, ActionOutcome.UNDONE}
    assert case.corrected


async def test_what_expired_or_was_left_as_it_is_says_nothing(office: Office) -> None:
    await decided(office, files("undo_w1", remove=["a.txt"]), NO, requested_by="undo")
    await office.ask_plan("card_late", files("late", add=["a.txt"]))
    office.desk.clock.advance(days=8)
    assert await office.cards.decline_expired() == 1
    assert await feed_of(office).gather() == 0


async def test_a_row_that_somebody_wrote_is_no_decision(office: Office) -> None:
    await office.ask_plan("card_w1", files("w1", add=["a.txt"]))
    await office.desk.database.execute(
        "UPDATE review_cards SET state = 'approved', decided_at = created_at || 'x'"
    )
    await write_decision(office.desk, "card_w1", "{}", "key_x", "x")
    assert await feed_of(office).gather() == 0


async def test_what_the_owner_said_counts_and_not_the_row(office: Office) -> None:
    await decided(office, files("w1", add=["a.txt"]), NO)
    await office.desk.database.execute("UPDATE review_cards SET state = 'approved'")
    await feed_of(office).gather()
    [case] = (await cases(office)).values()
    assert case.outcomes == {ActionOutcome.DECLINED}


async def test_a_tick_that_nobody_touched_is_no_evidence(office: Office) -> None:
    question = await office.batch(*(writing(f"w{number}") for number in range(3)))
    await office.decide(question.content.body)
    await feed_of(office).gather()
    found = list((await cases(office)).values())
    assert [case.families for case in found] == [{PLANS_TOGETHER}], "one look, one decision"
    rows = await office.desk.database.fetch_all(
        "SELECT sum(touched), count(*) FROM action_outcomes"
    )
    assert rows == [(1, 4)]


async def test_drafts_and_suggestions(office: Office) -> None:
    item = writing("w1")
    await office.desk.items.save(item)
    origin = Origin(
        trace_id="t",
        scope_id="owner",
        connection_id="owner",
        channel="web",
        sender_id="owner",
        message_id="m",
        taint=TaintLevel.OWNER,
    )
    draft = draft_of(office.room, origin, item, TaintLevel.OWNER)
    assert draft is not None
    await office.put(draft)
    await office.answer(draft, {"verdict": "edit", "edited_text": "other"})
    for answer in ("do_it", "not_now"):
        question = await office.put(habit(office))
        await office.answer(question, {"selected_value": answer})
    await feed_of(office).gather()
    found = await cases(office)
    assert found["plan:w1"].outcomes == {ActionOutcome.EDITED}
    outcomes = {o for ref, c in found.items() if ref.startswith("sugg") for o in c.outcomes}
    assert outcomes == {ActionOutcome.APPROVED, ActionOutcome.DISMISSED}
    assert of_actions(found.values()).samples == 1, "a suggestion is no action"


def feed_of_shop(shop: Shop) -> OutcomeFeed:
    bench = shop.bench
    database, keys = bench.undos.database, bench.undos.keys
    queue = QueueStore(database, clock=bench.clock, ids=IdFactory(bench.clock))
    more: dict[str, Any] = {
        "decisions": bench.decisions,
        "keys": keys,
        "audit": bench.audit,
        "clock": bench.clock,
    }
    effects, origins = bench.registry.effect_of, OriginStore(database, bench.clock)
    cards = PlanCards(
        database, queue, items=bench.items, effect_of=effects, origins=origins, **more
    )
    questions = QuestionStore(database, queue, **more)
    stores = (cards, questions, bench.items, bench.undos, bench.decisions)
    return OutcomeFeed(database, *stores, effects, bench.clock, "owner")


@pytest.mark.parametrize("decision", [YES, NO])
async def test_calls_of_running_work(shop: Shop, decision: ApprovalDecision) -> None:
    tools = [
        *shop.bench.registry.tools.values(),
        Tool("mail", SendArguments, Sender(), contained=False, effect=SENDS),
    ]
    shop.having(registry=ToolRegistry(tools), approver=LaterApprover())
    await start(shop, PausingWorker(FILE, ("mail", {"to": "a"})))
    feed = feed_of_shop(shop)
    assert await feed.gather() == 0, "nobody has decided"
    await decide(shop, decision)
    assert await feed.gather() == 1
    rows = await feed.database.fetch_all("SELECT family, outcome, touched FROM action_outcomes")
    assert rows == [("send", decision.verdict.value, 1)]


async def test_the_newest_of_a_family_and_how_sure(database: SqliteDatabase) -> None:
    clock = FakeClock()
    store = OutcomeStore(database, clock)

    async def record(number: int, outcome: ActionOutcome, confidence: float, **more: Any) -> None:
        clock.advance(minutes=1)
        await database.transaction(
            lambda tx: record_outcome(
                tx,
                family="mail_archive",
                scope_id="owner#conv_12345678",
                outcome=outcome,
                confidence=confidence,
                ref=f"item:{number}",
                at=clock.now(),
                **more,
            )
        )

    for number in range(10):
        await record(
            number, ActionOutcome.DECLINED if number < 3 else ActionOutcome.APPROVED, number / 10
        )
    await record(99, ActionOutcome.DECLINED, 0.99, touched=False)
    tally = await store.tally("owner", "mail_archive", window=WINDOW, most=50)
    assert (tally.samples, tally.corrections, tally.precision) == (10, 3, 0.7)
    assert tally.newest(7).corrections == 0
    assert tally.at_least(0.2).samples == 8
    assert tally.at_least(0.3).precision == 1.0
    assert (await store.tally("owner", "send", window=WINDOW, most=50)).precision is None
    clock.advance(days=15)
    assert await store.tallies("owner", window=WINDOW, most=50) == []


def test_families() -> None:
    effects = declaring(send=SENDS)
    assert families_of(writing("w"), effects) == {"command"}
    assert families_of(files("w", add=["a"], remove=["b"]), effects) == {
        "file_write",
        "file_remove",
    }
