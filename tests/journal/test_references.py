"""Names of records: what is not clear is listed, never guessed."""

import pytest

from silas.journal.errors import AmbiguousReference, RecordUnknown
from silas.journal.lines import candidates, name_of, short_id, the_one
from silas.journal.models import Record
from tests.journal.place import Place, only


async def one(place: Place, text: str, kind: str = "task") -> Record:
    return await place.journal.read(lambda reader: the_one(reader, text, kinds={kind}))


async def test_ids_ends_of_ids_and_names(place: Place) -> None:
    squats, press = await place.task("Squats"), await place.task("Bench press")
    for text in (squats, short_id(squats), squats[-3:], "Squats", "squats", "squ", " SQU "):
        assert (await one(place, text)).id == squats, text
    assert (await one(place, "press")).id == press  # by its words
    with pytest.raises(RecordUnknown, match="task called 'nothing'"):
        await one(place, "nothing")
    with pytest.raises(RecordUnknown):
        await one(place, "squats", "note")
    with pytest.raises(RecordUnknown):
        await one(place, "")


async def test_several_that_fit_are_listed(place: Place) -> None:
    names = ["Squats", "Squash", "Squats on Friday"]
    ids = [await place.task(name) for name in names]
    with pytest.raises(AmbiguousReference) as several:
        await one(place, "squ")
    assert "3 records fit" in several.value.message
    assert all(
        f"{short_id(each)}  {name}" in several.value.message
        for each, name in zip(ids, names, strict=True)
    )
    assert {each["id"] for each in several.value.details["candidates"]} == set(ids)
    # A whole name wins over one that only begins like it.
    assert (await one(place, "squats")).id == ids[0]


async def test_two_of_the_same_name_are_two(place: Place) -> None:
    first, _ = await place.task("Squats"), await place.task("Squats")
    with pytest.raises(AmbiguousReference):
        await one(place, "Squats")
    assert (await one(place, first)).id == first


async def test_what_is_deleted_is_found_only_if_asked(place: Place) -> None:
    squats = await place.task("Squats")
    await place.do("delete_record", record_id=squats)
    for text in (squats, short_id(squats), "squats"):
        with pytest.raises(RecordUnknown):
            await one(place, text)
        found = await place.journal.read(
            lambda reader, text=text: the_one(reader, text, kinds={"task"}, deleted=True)  # type: ignore[misc]
        )
        assert found.id == squats


async def test_candidates_are_ranked_and_in_scope(place: Place) -> None:
    gym, home = await place.category("gym"), await place.category("home")
    own, other = await place.task("Squats", gym), await place.task("Squats at home", home)
    third = await place.task("More squats", gym)

    async def found(*scope: str) -> list[tuple[str, float]]:
        every = await place.journal.read(
            lambda reader: candidates(reader, "squats", kinds={"task"}, scope=only(*scope))
        )
        return [(each.record.id, each.confidence) for each in every]

    assert await found(gym) == [(own, 1.0), (third, 0.5)]
    assert await found(gym, home) == [(own, 1.0), (other, 0.8), (third, 0.5)]
    assert await found() == []


async def test_every_record_has_a_name(place: Place) -> None:
    note = await place.do("create_note", text="hello")
    assert name_of(note.records[0]) == "hello"
    plan = await place.do("get_or_create_day_plan", plan_date="2026-01-01")
    assert name_of(plan.records[0]) == short_id(plan.records[0].id) == "dayplan-2026-01-01"
