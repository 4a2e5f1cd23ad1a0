"""Links of visitors: how long they are good, and how much comes over them."""

import asyncio
from datetime import timedelta

import pytest

from silas.kernel import IdFactory, SilasError
from silas.storage import SqliteDatabase
from silas.stream.errors import LinkUnknown, VisitLimitReached, VisitorsClosed
from silas.stream.visitors import VisitorDoor, VisitorLimits, VisitorStore
from silas.testing import FakeClock
from silas.testing.fakes import RecordingAudit
from silas.work.models import WorkItem, WorkItemType

GOAL = WorkItem.model_validate(
    {
        "id": "shop",
        "type": WorkItemType.GOAL,
        "title": "Shop",
        "access_levels": {"public": {"description": "Everybody"}},
    }
)


@pytest.fixture
def store(database: SqliteDatabase, clock: FakeClock) -> VisitorStore:
    return VisitorStore(database, clock, IdFactory(clock), RecordingAudit())


def door_of(store: VisitorStore, *goals: WorkItem) -> VisitorDoor:
    async def in_force() -> tuple[WorkItem, ...]:
        return goals

    return VisitorDoor(store, in_force)


async def test_a_link_ends_at_its_time_with_everything_that_came_over_it(
    store: VisitorStore, clock: FakeClock
) -> None:
    day = timedelta(days=1)
    link, secret = await store.invite("Shop", "shop", limits=VisitorLimits(), valid_for=day)
    _, mine = await store.open(link)
    clock.advance(seconds=day.total_seconds() - 1)
    assert (await store.entered(mine)).link.link_id == link.link_id
    clock.advance(seconds=1)
    with pytest.raises(LinkUnknown):
        await store.entered(mine)
    with pytest.raises(LinkUnknown):
        await store.link_of(secret)


async def test_a_links_secret_is_no_connections_and_no_connections_a_links(
    store: VisitorStore,
) -> None:
    link, secret = await store.invite("Shop", "shop", limits=VisitorLimits())
    _, mine = await store.open(link)
    for wrong in (secret, "", "vconn_", mine[:-1]):
        with pytest.raises(LinkUnknown):
            await store.entered(wrong)
    with pytest.raises(LinkUnknown):
        await store.link_of(mine)


async def test_no_secret_is_kept(store: VisitorStore, database: SqliteDatabase) -> None:
    link, secret = await store.invite("Shop", "shop", limits=VisitorLimits())
    _, mine = await store.open(link)
    rows = [
        *await database.fetch_all("SELECT * FROM visitor_links"),
        *await database.fetch_all("SELECT * FROM visitor_connections"),
    ]
    entries = store.audit.entries  # type: ignore[attr-defined]
    assert secret not in f"{rows}{entries}"
    assert mine not in f"{rows}{entries}"


async def test_no_more_connections_than_allowed_are_there_at_once(
    store: VisitorStore, clock: FakeClock
) -> None:
    link, _ = await store.invite("Shop", "shop", limits=VisitorLimits(connections=3))
    opened = await asyncio.gather(*(store.open(link) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(each, VisitLimitReached) for each in opened) == 5
    clock.advance(minutes=15)
    await store.open(link)


async def test_a_connection_that_comes_back_counts_again(
    store: VisitorStore, clock: FakeClock
) -> None:
    limits = VisitorLimits(connections=2)
    link, _ = await store.invite("Shop", "shop", limits=limits)
    secrets = [(await store.open(link))[1] for _ in range(2)]
    clock.advance(seconds=16 * 60)
    _, third = await store.open(link)  # the first two are away
    assert await store.entered(secrets[0])
    with pytest.raises(VisitLimitReached, match="Too many people are here"):
        await store.entered(secrets[1])
    assert await store.entered(third)
    assert await store.entered(secrets[0])  # who is there stays there
    clock.advance(seconds=16 * 60)
    assert await store.entered(secrets[1])


@pytest.mark.parametrize(("messages", "tokens"), [(2, 0), (0, 100)])
async def test_what_a_link_has_used_counts_for_the_day(
    store: VisitorStore, database: SqliteDatabase, clock: FakeClock, messages: int, tokens: int
) -> None:
    limits = VisitorLimits(messages_per_day=2, tokens_per_day=100)
    link, _ = await store.invite("Shop", "shop", limits=limits)
    connection, _ = await store.open(link)
    door = door_of(store, GOAL)
    await door.require_place(connection, "hello")
    await database.transaction(
        lambda tx: store.count_in(tx, link.link_id, messages=messages, tokens=tokens)
    )
    with pytest.raises(VisitLimitReached, match="tomorrow"):
        await door.require_place(connection, "hello")
    clock.advance(days=1)
    await door.require_place(connection, "hello")


async def test_long_messages_and_many_in_a_minute_are_refused(store: VisitorStore) -> None:
    limits = VisitorLimits(messages_per_minute=2, message_chars=5)
    link, _ = await store.invite("Shop", "shop", limits=limits)
    connection, _ = await store.open(link)
    door = door_of(store, GOAL)
    with pytest.raises(VisitLimitReached, match="at most 5 characters"):
        await door.require_place(connection, "hello!")
    for _ in range(2):
        await door.require_place(connection, "hello")
    with pytest.raises(SilasError):
        await door.require_place(connection, "hello")


async def test_without_its_goal_in_force_a_link_opens_nothing(store: VisitorStore) -> None:
    link, secret = await store.invite("Shop", "shop", limits=VisitorLimits())
    connection, _ = await store.open(link)
    other = GOAL.model_copy(update={"id": "other"})
    unlevelled = GOAL.model_copy(update={"access_levels": {}})
    for goals in ((), (other,), (unlevelled,)):
        door = door_of(store, *goals)
        with pytest.raises(VisitorsClosed):
            await door.open(secret)
        with pytest.raises(VisitorsClosed):
            await door.require_place(connection, "hello")
