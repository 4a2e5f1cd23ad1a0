"""Where old requests came from is forgotten, except where something still belongs to them."""

from datetime import timedelta

import pytest

from silas.storage import SqliteDatabase
from silas.stream.store import ConversationStore, Origin, WorkOrigin
from silas.testing import FakeClock
from silas.work.models import WorkItemStatus
from silas.work.plan import parse
from silas.work.store import WorkItemStore
from tests.stream.test_cards import NO, Desk


def origin(name: str) -> Origin:
    return Origin(
        trace_id=name,
        scope_id="owner",
        connection_id="owner",
        channel="test",
        sender_id="owner",
        message_id=f"m_{name}",
    )


@pytest.fixture
async def store(database: SqliteDatabase, clock: FakeClock) -> ConversationStore:
    store = ConversationStore(database, clock)
    for name in ("old", "worked", "trace_1"):
        await begin(store, name)
    clock.advance(days=100)
    await begin(store, "new")
    return store


async def begin(store: ConversationStore, name: str) -> None:
    await store.write([lambda tx: store.note_origin(tx, origin(name))])


async def left(store: ConversationStore) -> set[str]:
    names = ("old", "worked", "trace_1", "new")
    return {name for name in names if await store.origin(name)}


async def test_what_still_matters_stays(
    store: ConversationStore, database: SqliteDatabase, clock: FakeClock
) -> None:
    desk = Desk(database, clock)
    await desk.ask()
    items = WorkItemStore(database, clock)
    await items.save(parse("---\nid: w\ntype: task\ntitle: W\n---\nDo it.\n"))
    work = WorkOrigin(work_item_id="w", trace_id="worked", scope_id="owner", taint="owner")  # type: ignore[arg-type]
    await database.transaction(lambda tx: store.note_work(tx, work))
    before = clock.now() - timedelta(days=90)
    assert await store.prune(before=before) == 1
    assert await left(store) == {"worked", "trace_1", "new"}
    item = await items.get("w")
    assert item is not None
    await items.update_status("w", WorkItemStatus.FAILED, item.budget_used)
    await desk.cards.decide_with_vault("card_1", NO)
    assert await store.prune(before=before) == 2
    assert await left(store) == {"new"}
