"""Several conversations with a real Silas: contexts apart, one search, for the owner alone."""

import json
from typing import Any

import pytest

from silas.kernel import TaintLevel
from tests.web.place import Line, Place, TestDevice

A, B = "conv_aaaaaaaa", "conv_bbbbbbbb"
ODD = ["", '"', '"a" OR NEAR(', "*", "a:b", "\x00", "%_!", "(" * 300, "'; DROP TABLE said; --", "é"]


async def asked(device: TestDevice, command: str, **given: Any) -> Any:
    answer = await device.signed_post(f"/api/conversations/{command}", given)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def talk(line: Line, text: str, conversation: str | None = None) -> dict[str, Any]:
    """Say something and wait for the answer; returns it."""
    said = await line.say(text, conversation=conversation)
    trace = f"trace_{said['message_id']}"
    return await line.until("message", sender="silas", trace_id=trace)


async def test_answers_and_the_list_come_to_every_page(device: TestDevice) -> None:
    async with device.conversation() as line, device.conversation() as other:
        assert (await talk(line, "Remember that tea is green"))["conversation"] == "first"
        answer = await talk(line, "What can you do?", A)
        assert answer["conversation"] == A
        heard = await other.until("message", sender="silas", message_id=answer["message_id"])
        assert heard["conversation"] == A
        while (told := await other.until("conversations"))["conversations"] == [] or (
            told["conversations"][0]["conversation"] != A
        ):
            continue
        titles = [each["title"] for each in told["conversations"]]
        assert titles == ["What can you do?", "Remember that tea is green"]
        await asked(device, "rename", name=A, title="Abilities")
        while (told := await other.until("conversations"))["conversations"][0]["title"] == (
            "What can you do?"
        ):
            continue
        assert told["conversations"][0]["title"] == "Abilities"
    async with device.conversation() as again:
        history = await again.until("history")
        assert {each["conversation"] for each in history["messages"]} == {"first", A}


async def test_a_new_one_starts_clean_and_knows_what_is_remembered(
    place: Place, device: TestDevice
) -> None:
    context = place.house.stream.turns.context
    assert context is not None
    async with device.conversation() as line:
        await talk(line, "Remember that tea is green")
        await talk(line, "What do you remember about tea?", A)
        shown = await context.render(f"owner#{A}", 1)
        assert "tea is green" in shown  # from the memory
        assert "Remember that tea is green" not in shown
        assert (await context.provenance(f"owner#{A}")).taint is TaintLevel.OWNER


async def test_taint_does_not_cross(place: Place, device: TestDevice) -> None:
    context = place.house.stream.turns.context
    assert context is not None
    async with device.conversation() as line:
        forged = line.message("I am somebody else", signature="AAAA")
        await line.send(forged)
        await line.until("message", sender="silas", trace_id=f"trace_{forged['message_id']}")
        assert (await context.provenance("owner")).taint is TaintLevel.EXTERNAL
        await talk(line, "What can you do?", A)
        assert (await context.provenance(f"owner#{A}")).taint is TaintLevel.OWNER
        await line.say("create a file a.txt with hello", conversation=A)
        assert (await line.until("approval_request"))["taint"] == "owner"


async def test_a_frame_that_was_moved_is_refused(place: Place, device: TestDevice) -> None:
    context = place.house.stream.turns.context
    assert context is not None
    async with device.conversation() as line:
        frame = line.message("create a file a.txt with hello", conversation=A)
        await line.send({**frame, "conversation": B})
        trace = f"trace_{frame['message_id']}"
        answer = await line.until("message", sender="silas", trace_id=trace)
        assert "not signed by you for this conversation" in answer["text"]
        assert "a.txt" not in await context.render(f"owner#{B}", 1)
        await line.send(line.message("x", conversation="../first"))
        assert (await line.until("error"))["code"] == "E_CHANNEL_FRAME"


async def test_work_comes_back_to_its_conversation_and_is_found(
    place: Place, device: TestDevice
) -> None:
    async with device.conversation() as line:
        await talk(line, "What can you do?")
        await line.say("create a file notes/today.txt with buy bread", conversation=A)
        card = await line.until("approval_request")
        await line.send(line.decision(card, "approved"))
        done = await line.until("message", work_item_id=card["items"][0]["id"])
        assert done["conversation"] == A
        await line.until("work", status="done")
        for words in ("notes/today.txt", '"buy bread"', "Write notes", "BREAD"):
            found = await asked(device, "search", words=words, kinds=["work"])
            [hit] = found["hits"]
            assert (hit["work_item_id"], hit["conversation"]) == (card["items"][0]["id"], A)
            assert hit["status"].startswith("Done")
        found = await asked(device, "search", words="today.txt", kinds=["message"])
        assert {hit["sender"] for hit in found["hits"]} >= {"owner"}


async def test_search_over_all_conversations(place: Place, device: TestDevice) -> None:
    async with device.conversation() as line:
        said = await line.say("Remember that the spare key is under the red pot")
        answer = await line.until("message", sender="silas")
        await talk(line, "Where is src/app.py kept?", A)
        found = (await asked(device, "search", words="spare ke"))["hits"]
        assert [(hit["kind"], hit["sender"]) for hit in found] == [
            ("conversation", None),
            ("message", "owner"),
            ("message", "silas"),
        ]
        assert [hit["message_id"] for hit in found[1:]] == [
            said["message_id"],
            answer["message_id"],
        ]
        assert (await asked(device, "search", words='"key spare"'))["hits"] == []
        hits = (await asked(device, "search", words="src/app.py", kinds=["message"]))["hits"]
        assert {hit["conversation"] for hit in hits} == {A}
        shown = await asked(device, "show", name="first", around=found[1]["at"], limit=5)
        texts = [each["text"] for each in shown["messages"]]
        assert texts == [said["text"], answer["text"]]
        await asked(device, "delete", name=A)
        left = (await asked(device, "search", words="app.py"))["hits"]
        assert left == []


@pytest.mark.parametrize("words", ODD)
async def test_no_query_is_an_error(device: TestDevice, words: str) -> None:
    async with device.conversation() as line:
        await talk(line, "What can you do?")
        found = await asked(device, "search", words=words)
        assert found["hits"] or found["note"]


async def test_no_snippet_shows_a_secret(place: Place, device: TestDevice) -> None:
    place.core.vault.set("bank", b"hunter2-hunter2")
    async with device.conversation() as line:
        await talk(line, "Look: hunter2-hunter2, and the word penguin", A)
        found = await asked(device, "search", words="penguin")
        assert found["hits"]
        assert "hunter2" not in json.dumps(found)
        assert "hunter2" not in str(await place.front.search.conversations.list())


async def test_deleting_takes_it_out_of_context_and_memory(
    place: Place, device: TestDevice
) -> None:
    context = place.house.stream.turns.context
    assert context is not None
    async with device.conversation() as line:
        await talk(line, "Tell me about zebras")
        await talk(line, "Tell me about lions", A)
        gone = await asked(device, "delete", name="first")
        assert gone["messages"] == 2
        assert "zebras" not in await context.render("owner", 2)
        raw = await place.core.database.fetch_all("SELECT content FROM raw_records")
        assert "zebras" not in str(raw)
        # An old page goes on in the first one, which begins anew.
        await talk(line, "Hello again")
        assert "zebras" not in await context.render("owner", 3)
        listed = await place.front.search.conversations.list()
        assert [each.title for each in listed] == ["Hello again", "Tell me about lions"]


async def test_it_goes_on_after_a_restart_of_its_context(place: Place, device: TestDevice) -> None:
    context = place.house.stream.turns.context
    assert context is not None
    async with device.conversation() as line:
        await talk(line, "Tell me about zebras", A)
        await talk(line, "Tell me about lions", B)
        context.drop(f"owner#{A}")
        shown = await context.render(f"owner#{A}", 2)
        assert "zebras" in shown
        assert "lions" not in shown


async def test_nobody_else_sees_or_changes_anything(place: Place, device: TestDevice) -> None:
    stranger = TestDevice(place.address)
    for command in ("search", "show", "rename", "archive", "delete"):
        answer = await stranger.post(f"/api/conversations/{command}", {"name": "first"})
        assert answer.status_code == 401
    assert (await stranger.post("/api/conversations/list", {})).status_code == 404
    async with device.conversation() as line:
        await talk(line, "What can you do?")
        unsigned = await device.post(
            "/api/conversations/delete",
            {"name": "first"},
            Cookie=f"silas_session={device.cookie}",
        )
        assert unsigned.status_code == 403
        assert len(await place.front.search.conversations.list()) == 1
