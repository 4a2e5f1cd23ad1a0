"""Two journals that exchange files, in whatever order, become the same."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from silas.journal.errors import RecordInvalid, RecordUnknown
from silas.journal.models import Record, Task
from silas.journal.notifications import ChangeUnit
from tests.journal.place import Place, opened

DEVICES = 2
steps = st.lists(
    st.tuples(
        st.integers(0, DEVICES - 1),
        st.sampled_from(["create", "title", "done", "delete", "restore", "plan", "rate", "send"]),
        st.integers(0, 3),
    ),
    max_size=16,
)


@asynccontextmanager
async def devices() -> AsyncIterator[list[Place]]:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        yield [
            await stack.enter_async_context(opened(folder / f"{number}.db"))
            for number in range(DEVICES)
        ]


async def act(places: list[Place], who: int, what: str, number: int) -> None:
    place, other = places[who], places[1 - who]
    tasks = [each for each in await place.journal.export() if isinstance(each, Task)]
    if what == "create":
        await place.task(f"task {number}")
    elif what == "plan":
        await place.do("get_or_create_day_plan", plan_date=f"2026-01-0{number + 1}")
    elif what == "send":
        await send(place, other)
    elif tasks:
        await change(place, what, tasks[number % len(tasks)].id, number)


async def change(place: Place, what: str, task_id: str, number: int) -> None:
    wanted: dict[str, tuple[str, dict[str, Any]]] = {
        "title": ("update_task_fields", {"task_id": task_id, "fields": {"title": f"t{number}"}}),
        "done": ("update_task_fields", {"task_id": task_id, "fields": {"status": "done"}}),
        "delete": ("delete_record", {"record_id": task_id}),
        "restore": ("restore_record", {"record_id": task_id}),
        "rate": (
            "create_or_update_rating",
            {"target_id": task_id, "dimension": "joy", "value": number},
        ),
    }
    name, arguments = wanted[what]
    try:
        await place.do(name, **arguments)
    except (RecordUnknown, RecordInvalid):
        return  # it is deleted, and is not changed


async def send(source: Place, target: Place) -> None:
    records = [each.model_dump(mode="json") for each in await source.journal.export()]
    await target.do("import_records", records=records)


def by_id(records: Any) -> dict[str, Record]:
    return {each.id: each for each in records}


@settings(max_examples=25)
@given(steps)
def test_two_devices_converge_and_every_write_is_accounted_for(
    story: list[tuple[int, str, int]],
) -> None:
    async def tell() -> None:
        async with devices() as places:
            for step in story:
                await act(places, *step)
            await send(places[0], places[1])
            await send(places[1], places[0])
            await send(places[0], places[1])
            first, second = [by_id(await each.journal.export()) for each in places]
            assert first == second
            for place in places:
                await accounted_for(place)

    asyncio.run(tell())


async def accounted_for(place: Place) -> None:
    """The history leads to what is there, and every row of it is told in a batch."""
    batches = await place.journal.batches_after(0)
    assert await place.told() == batches
    keys = {key for batch in batches for key in batch.change_unit_keys}
    rows = await place.database.fetch_all(
        "SELECT h.origin, h.host_id, h.counter, r.kind, h.record_id "
        "FROM history AS h JOIN records AS r ON r.id = h.record_id"
    )
    for origin, host, counter, kind, record in rows:
        unit = ChangeUnit(
            origin=origin, host_id=host, counter=counter, payload_type=kind, payload_id=record
        )
        assert unit.change_unit_key in keys
    for record in await place.journal.export():
        history = await place.journal.history(record.id)
        assert history[-1].after == record.model_dump(mode="json")
        assert all(b.before == a.after for a, b in pairwise(history))
