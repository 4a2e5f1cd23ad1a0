"""Changes: whole or not at all, with their history, and heard once."""

import asyncio
import logging
from pathlib import Path

import pytest

from silas.journal import NotificationBatch
from silas.journal.edit import Edit
from silas.journal.errors import OperationReused, RecordInvalid, RecordUnknown
from silas.journal.models import Category, Checklist, Note, Task, TaskStatus
from silas.storage import Transaction
from tests.journal.place import Place, opened


async def test_a_change_is_written_with_its_history_and_its_batch(place: Place) -> None:
    task = await place.journal.change(lambda e: e.create(Task, title="Squats"), actor="owner")
    place.clock.advance(minutes=5)
    await place.journal.change(
        lambda e: e.update(e.get(Task, task.id), status=TaskStatus.DONE), actor="companion:x"
    )
    history = await place.journal.history(task.id)
    assert [(each.actor, each.counter) for each in history] == [("owner", 1), ("companion:x", 2)]
    assert history[0].before is None
    assert history[1].before == history[0].after
    assert history[1].after["status"] == "done"
    found = await place.journal.get(Task, task.id)
    assert found.vector_clock == {place.journal.host_id: 2}
    assert found.updated_at > found.created_at
    batches = await place.journal.batches_after(0)
    assert [each.source_cursor for each in batches] == [1, 2]
    assert batches == await place.told()


async def test_a_change_that_fails_leaves_nothing(place: Place) -> None:
    def half(edit: Edit) -> None:
        edit.create(Task, title="one")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await place.journal.change(half, actor="owner")
    assert await place.journal.list_tasks() == []
    assert await place.journal.batches_after(0) == []
    assert await place.told() == []


async def test_a_change_that_changes_nothing_tells_nobody(place: Place) -> None:
    task = await place.journal.change(lambda e: e.create(Task, title="one"), actor="owner")
    await place.told()
    same = await place.journal.change(
        lambda e: e.update(e.get(Task, task.id), title="one"), actor="owner"
    )
    assert same == task
    assert await place.told() == []
    assert len(await place.journal.history(task.id)) == 1


async def test_two_writes_of_one_record_in_one_change_are_one_write(place: Place) -> None:
    def twice(edit: Edit) -> Task:
        task = edit.create(Task, title="one")
        return edit.update(edit.update(task, title="two"), body="more")

    task = await place.journal.change(twice, actor="owner")
    assert task.vector_clock == {place.journal.host_id: 1}
    assert [each.after["title"] for each in await place.journal.history(task.id)] == ["two"]
    (heard,) = await place.told()
    assert len(heard.change_unit_keys) == 1
    place.clock.advance(minutes=1)

    def again(edit: Edit) -> Task:
        return edit.update(edit.update(edit.get(Task, task.id), title="three"), title="four")

    after = await place.journal.change(again, actor="owner")
    assert after.versions["title"].counter == after.vector_clock[place.journal.host_id] == 2
    assert "body" not in after.versions


async def test_the_same_operation_a_second_time_changes_nothing(place: Place) -> None:
    def create(edit: Edit) -> Task:
        return edit.create(Task, title="once")

    first = await place.journal.change(create, actor="owner", operation_id="op")
    again = await place.journal.change(create, actor="owner", operation_id="op")
    assert again == first
    assert len(await place.journal.list_tasks()) == 1
    assert len(await place.told()) == 1
    with pytest.raises(OperationReused):
        await place.journal.change(create, actor="owner", operation_id="op", fingerprint="other")


@pytest.mark.parametrize("result", [None, 3, "text", ["a", 1.5], {"a": None}])
async def test_results_of_operations_are_kept(place: Place, result: object) -> None:
    kept = [
        await place.journal.change(lambda _: result, actor="owner", operation_id="op")
        for _ in range(2)
    ]
    assert kept == [result, result]


async def test_several_records_are_a_result(place: Place) -> None:
    def create(edit: Edit) -> tuple[Task, Note]:
        return edit.create(Task, title="a"), edit.create(Note, text="b")

    first = await place.journal.change(create, actor="owner", operation_id="op")
    assert await place.journal.change(create, actor="owner", operation_id="op") == first


async def test_records_of_an_operation_have_the_same_ids_on_every_device(
    place: Place, tmp_path: Path
) -> None:
    def create(edit: Edit) -> tuple[Task, Checklist]:
        task = edit.create(Task, title="a")
        return task, edit.create(Checklist, task_id=task.id)

    here = await place.journal.change(create, actor="owner", operation_id="op")
    async with opened(tmp_path / "other.db") as other:
        there = await other.journal.change(create, actor="owner", operation_id="op")
        elsewhere = await other.journal.change(create, actor="owner", operation_id="op2")
    assert [each.id for each in here] == [each.id for each in there]
    assert elsewhere[0].id != here[0].id


async def test_deleting_and_bringing_back(place: Place) -> None:
    note = await place.journal.change(lambda e: e.create(Note, text="hello"), actor="owner")
    gone = await place.journal.change(lambda e: e.delete(e.get(Note, note.id)), actor="owner")
    assert gone.deleted
    assert gone.deleted_at == place.clock.now()
    assert await place.journal.find(Note, note.id) is None
    assert await place.journal.search("hello") == []
    assert await place.journal.find(Note, note.id, deleted=True) == gone
    back = await place.journal.change(
        lambda e: e.restore(e.get(Note, note.id, deleted=True)), actor="owner"
    )
    assert (back.deleted, back.deletions, back.deleted_at) == (False, 2, None)
    assert await place.journal.search("hello") == [back]
    with pytest.raises(RecordUnknown):
        await place.journal.get(Task, note.id)


async def test_what_cannot_be_kept_is_refused_in_words(place: Place) -> None:
    with pytest.raises(RecordInvalid, match="title: must not be empty"):
        await place.journal.change(lambda e: e.create(Task, title=""), actor="owner")
    with pytest.raises(RecordInvalid, match="is not a known key"):
        await place.journal.change(lambda e: e.create(Task, title="a", colour=1), actor="owner")
    note = await place.journal.change(lambda e: e.create(Note, text="a"), actor="owner")
    with pytest.raises(RecordInvalid, match="another kind"):
        await place.journal.change(lambda e: e.create(Task, id=note.id, title="a"), actor="owner")


async def test_a_clock_that_is_set_back_does_not_make_a_record_older(place: Place) -> None:
    task = await place.journal.change(lambda e: e.create(Task, title="a"), actor="owner")
    place.clock.advance(days=-3)
    after = await place.journal.change(
        lambda e: e.update(e.get(Task, task.id), title="b"), actor="owner"
    )
    assert after.updated_at == task.updated_at


async def test_listeners_hear_every_commit_once_in_order(place: Place) -> None:
    other: list[int | None] = []

    async def slow(batch: NotificationBatch) -> None:
        await asyncio.sleep(0)
        other.append(batch.source_cursor)

    def broken(_: NotificationBatch) -> None:
        raise RuntimeError("a listener")

    place.journal.subscribe(broken)
    unsubscribe = place.journal.subscribe(slow)
    await asyncio.gather(*(place.task(f"task {number}") for number in range(20)))
    told = await place.told()
    assert [each.source_cursor for each in told] == list(range(1, 21))
    assert other == list(range(1, 21))
    unsubscribe()
    await place.task("one more")
    assert len(await place.told()) == 1
    assert len(other) == 20


async def test_a_caller_that_gives_up_does_not_keep_others_from_hearing(place: Place) -> None:
    entered = asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(edit: Edit) -> Task:
        loop.call_soon_threadsafe(entered.set)
        return edit.create(Task, title="anyway")

    task = asyncio.create_task(place.journal.change(slow, actor="owner"))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await place.task("next")
    assert len(await place.told()) == 2


async def test_what_was_missed_can_be_caught_up(place: Place, tmp_path: Path) -> None:
    for number in range(7):
        await place.task(f"task {number}")
    told = await place.told()
    assert await place.journal.batches_after(4) == told[4:]
    assert await place.journal.batches_after(0, limit=3) == told[:3]
    assert await place.journal.last_cursor() == 7
    async with opened(tmp_path / "journal.db") as again:
        assert await again.journal.batches_after(0) == told


async def test_nobody_hears_of_a_commit_without_provenance(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    await place.task("one")
    await place.database.execute("UPDATE batches SET change_units = '[]'")
    await place.task("two")
    with caplog.at_level(logging.ERROR):
        found = await place.journal.batches_after(0)
    assert [each.source_cursor for each in found] == [2]
    assert "does not say where it came from" in caplog.text


async def test_a_commit_of_another_process_is_heard_with_the_next(
    place: Place, tmp_path: Path
) -> None:
    async with opened(tmp_path / "journal.db") as elsewhere:
        await elsewhere.task("from elsewhere")
    await place.task("from here")
    assert [each.source_cursor for each in await place.told()] == [1, 2]


async def test_two_processes_of_one_journal_are_one_device(place: Place, tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as other:
        assert other.journal.host_id == place.journal.host_id
        await asyncio.gather(*(each.task("a") for _ in range(10) for each in (place, other)))
    rows = await place.database.fetch_all("SELECT counter FROM history ORDER BY counter")
    assert [row[0] for row in rows] == list(range(1, 21))


async def test_another_devices_version_is_merged_and_keeps_its_provenance(
    place: Place, tmp_path: Path
) -> None:
    task_id = await place.task("Squats")
    mine = await place.journal.get(Task, task_id)
    async with opened(tmp_path / "other.db") as other:
        await other.journal.change(lambda e: e.merge(mine), actor="sync")
        theirs = await other.journal.change(
            lambda e: e.update(e.get(Task, task_id), status=TaskStatus.DONE), actor="owner"
        )
        (first, _) = await other.journal.batches_after(0)
        host = other.journal.host_id
    await place.journal.change(
        lambda e: e.update(e.get(Task, task_id), title="Deep squats"), actor="owner"
    )
    merged = await place.journal.change(lambda e: e.merge(theirs), actor="sync")
    assert (merged.title, merged.status) == ("Deep squats", TaskStatus.DONE)
    assert set(merged.vector_clock) == {host, place.journal.host_id}
    newest = (await place.journal.history(task_id))[-1]
    assert newest.host_id == host
    unit = await place.database.fetch_one("SELECT change_units FROM batches WHERE cursor = 3")
    assert unit is not None
    assert '"origin": "sync"' in unit[0]
    told = await place.told()
    assert await place.journal.change(lambda e: e.merge(theirs), actor="sync") == merged
    assert await place.told() == []
    assert first.logical_change_key == told[0].logical_change_key, "one change, on both devices"
    assert len({each.logical_change_key for each in told}) == 3


async def test_notification_batch_identity(place: Place, tmp_path: Path) -> None:
    """`local_batch_id` is stable on this device; `logical_change_key` is the same on every one."""
    task = await place.journal.get(Task, await place.task("Squats"))
    (batch,) = await place.told()
    async with opened(tmp_path / "journal.db") as again:
        assert await again.journal.batches_after(0) == [batch]
    received = []
    for name in ("one.db", "two.db"):
        async with opened(tmp_path / name) as other:
            await other.journal.change(lambda e: e.merge(task), actor="sync")
            received += await other.journal.batches_after(0)
    assert len({batch.local_batch_id, *(each.local_batch_id for each in received)}) == 3
    keys = {batch.logical_change_key, *(each.logical_change_key for each in received)}
    assert len(keys) == 1, "where it was made, it has the same key as where it was received"


async def test_sync_replay_idempotency_behavior(place: Place, tmp_path: Path) -> None:
    """What was received is received again, also out of order: nothing changes, nobody hears."""
    async with opened(tmp_path / "other.db") as other:
        first = await other.journal.get(Task, await other.task("Squats"))
        second = await other.journal.change(
            lambda e: e.update(e.get(Task, first.id), title="Deep squats"), actor="owner"
        )
    for each in (first, second):
        await place.journal.change(lambda e, each=each: e.merge(each), actor="sync")
    kept, cursor = await place.journal.get(Task, first.id), await place.journal.last_cursor()
    for each in (second, first, second):
        await place.journal.change(lambda e, each=each: e.merge(each), actor="sync")
    assert await place.journal.get(Task, first.id) == kept
    assert kept.title == "Deep squats"
    assert await place.journal.last_cursor() == cursor


async def test_a_copy_of_this_device_that_counted_further_is_not_counted_again(
    place: Place,
) -> None:
    task_id = await place.task("a")
    mine = await place.journal.get(Task, task_id)
    host = place.journal.host_id
    ahead = mine.model_copy(
        update={
            "title": "b",
            "vector_clock": {host: 90},
            "versions": {
                "*": mine.versions["*"],
                "title": mine.versions["*"].model_copy(update={"revision": 2, "counter": 90}),
            },
        }
    )
    await place.journal.change(lambda e: e.merge(ahead), actor="sync")
    await place.task("next")
    newest = await place.journal.batches_after(2)
    row = await place.database.fetch_one("SELECT counter FROM journal_host")
    assert row == (91,)
    assert len(newest) == 1


@pytest.mark.parametrize(
    "forged",
    [
        {"vector_clock": {"host_x": 2**53 - 1}},
        {"versions": {"*": {"revision": 2**53 - 1, "host": "host_x", "counter": 1}}},
        {"deletions": 2**53 - 1},
    ],
)
async def test_forged_numbers_leave_room_for_the_writes_to_come(
    place: Place, forged: dict[str, object]
) -> None:
    task_id = await place.task("a")
    mine = await place.journal.get(Task, task_id)
    versions = {"*": {"revision": 2, "host": "host_x", "counter": 1}}
    data = mine.model_dump() | {"vector_clock": {"host_x": 1}, "versions": versions} | forged
    own = mine.model_dump() | {"vector_clock": {place.journal.host_id: 2**40}}
    for wrong in (data, own):
        record = Task.model_validate(wrong)
        with pytest.raises(RecordInvalid, match="counted further"):
            await place.journal.change(lambda e, it=record: e.merge(it), actor="sync")  # type: ignore[misc]
    await place.do("update_task_fields", task_id=task_id, fields={"title": "b"})


async def test_a_journal_whose_database_is_closed_is_quiet(place: Place) -> None:
    await place.task("a")
    await place.journal.close()
    await place.task("b")
    await place.database.close()
    await place.journal.settled()
    assert len(place.heard) <= 2


async def test_search_finds_words_beginnings_and_no_language_of_the_index(place: Place) -> None:
    gym = await place.category("gym")
    task = await place.task("Kniebeugen üben", gym, labels=["legs"], body="five by five")
    for text in ("kniebeugen", "ube", "LEGS", "five kniebeu", "by"):
        assert [each.id for each in await place.journal.search(text)] == [task], text
    for text in ("", "   ", "NOT", "legs OR", '"', "*", "words:kniebeugen", "nothing"):
        assert await place.journal.search(text) == [], text
    assert await place.journal.search("legs", categories={gym}, kinds={"task"})
    assert await place.journal.search("legs", categories={"other"}) == []
    assert await place.journal.search("legs", kinds={"note"}) == []
    assert [each.id for each in await place.journal.search("gym")] == [gym]


async def test_categories_are_listed_by_name(place: Place) -> None:
    for name in ("work", "Gym", "art"):
        await place.category(name)
    assert [each.name for each in await place.journal.categories()] == ["art", "Gym", "work"]


async def test_the_history_cannot_be_written_without_its_batch(place: Place) -> None:
    def forge(tx: Transaction) -> None:
        tx.execute(
            "INSERT INTO history (record_id, batch, origin, host_id, counter, after) "
            "VALUES ('a', 99, 'local', 'h', 1, '{}')"
        )

    with pytest.raises(Exception, match="FOREIGN KEY"):
        await place.database.transaction(forge)


async def test_a_category_is_a_category(place: Place) -> None:
    made = await place.category("gym")
    assert (await place.journal.get(Category, made)).kind == "category"
