"""The journal as a file over HTTP: taken along, counted, taken in; whole or not at all."""

import json
from typing import Any

import pytest
import pytest_asyncio

from silas.journal import OWNER, dispatch
from silas.web.host_guard import MAX_BODY_BYTES
from silas.web.journal import IMPORT, MAX_IMPORT_BODY_BYTES, MAX_IMPORT_CHARACTERS
from tests.web.place import Place, TestDevice


@pytest_asyncio.fixture(loop_scope="session")
async def entered(device: TestDevice) -> TestDevice:
    """A device with a session."""
    async with device.conversation():
        pass
    return device


async def add(place: Place, title: str, **more: Any) -> str:
    wanted = {"title": title, **more}
    made = await dispatch.call(
        place.house.journal, "create_task", wanted, scope=OWNER, actor="owner"
    )
    return str(made.payload["task_id"])


async def bring(device: TestDevice, text: str, *, apply: bool = False) -> tuple[int, Any]:
    answer = await device.signed_post(IMPORT, {"text": text, "apply": apply})
    return answer.status_code, answer.json()


async def exported(device: TestDevice) -> dict[str, Any]:
    answer = await device.get("/api/journal/export")
    assert answer.status_code == 200
    assert answer.headers["content-disposition"].startswith('attachment; filename="silas-journal-')
    return dict(answer.json())


def elsewhere(file: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The same file as another device would write it, with other titles of tasks."""
    text = json.dumps(file).replace(file["host_id"], "host-elsewhere")
    other: dict[str, Any] = json.loads(text)
    for record in other["records"]:
        record["id"] = f"{record['id']}-there"
        record |= {name: value for name, value in changes.items() if name in record}
    return other


async def test_a_file_is_counted_first_and_then_taken_in_once(
    place: Place, entered: TestDevice
) -> None:
    await add(place, "Squats")
    here = await exported(entered)
    assert [each["title"] for each in here["records"]] == ["Squats"]
    assert await bring(entered, json.dumps(here), apply=True) == (
        200,
        {"preview": False, "records": 1, "new": 0, "changed": 0, "kinds": []},
    )

    file = elsewhere(here, title="Lunges")
    file["records"] += here["records"]
    counts = {"records": 2, "new": 1, "changed": 0}
    kinds = {"kinds": [{"kind": "task", "new": 1, "changed": 0}]}
    before = await place.house.journal.last_cursor()
    assert await bring(entered, json.dumps(file)) == (200, {"preview": True, **counts, **kinds})
    assert await place.house.journal.last_cursor() == before
    async with entered.conversation() as line:
        told = await bring(entered, json.dumps(file), apply=True)
        assert told == (200, {"preview": False, **counts, **kinds})
        assert (await line.until("journal_changed"))["cursor"] == before + 1
    titles = {each["title"] for each in (await exported(entered))["records"]}
    assert titles == {"Squats", "Lunges"}
    again = (await bring(entered, json.dumps(file), apply=True))[1]
    assert (again["new"], again["changed"]) == (0, 0)


@pytest.mark.parametrize("apply", [False, True], ids=["counted", "taken in"])
async def test_a_bad_file_is_one_sentence_and_nothing_of_it_is_taken(
    place: Place, entered: TestDevice, apply: bool
) -> None:
    await add(place, "Squats")
    here = await exported(entered)
    other = elsewhere(here)
    good, bad = other["records"][0], {**other["records"][0], "id": "task_bad"}
    ahead = {**bad, "vector_clock": {"host-elsewhere": 2**53 - 1}}
    for records, told in (
        ([good, {**bad, "title": ""}], "Record 2 of this file cannot be read: task.title must not"),
        ([good, {**bad, "kind": "spaceship"}], "Record 2 of this file cannot be read: its kind is"),
        ([good, {**bad, "versions": {}}], "must say which write it is"),
        ([good, ahead], "has counted further than anybody can"),
    ):
        status, answer = await bring(
            entered, json.dumps({**other, "records": records}), apply=apply
        )
        assert status in (400, 422)
        assert told in answer["detail"]
    for text, told in (
        ("", "This file is not an export of a journal. Nothing was changed."),
        ("(A) a todo", "This file is not an export of a journal. Nothing was changed."),
        (json.dumps({**here, "version": 2}), "This export is of another version of Silas."),
    ):
        status, answer = await bring(entered, text, apply=apply)
        assert (status, told in answer["detail"]) == (400, True), answer
    assert await exported(entered) | {"exported_at": ""} == here | {"exported_at": ""}


async def test_only_so_much_is_taken_and_only_from_the_owner(
    place: Place, device: TestDevice
) -> None:
    refused = await device.get("/api/journal/export")
    assert refused.status_code == 401
    # Without a session nothing is read, however much is announced.
    unknown = await device.signed_post(IMPORT, {"text": "x" * MAX_BODY_BYTES, "apply": True})
    assert unknown.status_code == 401
    async with device.conversation():
        pass
    body = {"text": "x" * MAX_BODY_BYTES, "apply": True}
    unsigned = await device.post(IMPORT, body, Cookie=f"silas_session={device.cookie}")
    assert unsigned.status_code == 403
    status, answer = await bring(device, "x" * (MAX_IMPORT_CHARACTERS + 1))
    assert (status, "larger than 8 MB" in answer["detail"]) == (400, True)
    too_long = await device.signed_post(IMPORT, {"text": "x" * MAX_IMPORT_BODY_BYTES})
    assert too_long.status_code == 413
    for body in ({"apply": True}, {"text": 7}, [], {"text": "{}", "apply": "perhaps"}):
        odd = await device.signed_post(IMPORT, body)
        assert (odd.status_code, "cannot be taken in" in odd.json()["detail"]) == (400, True)
