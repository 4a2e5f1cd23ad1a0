"""Memory over the API: read, put right, undone, forgotten; the owner's, and no other."""

import hashlib
import json
from typing import Any

import pytest
import pytest_asyncio

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.kernel import TaintLevel, canonical_bytes
from silas.memory.models import MODEL_WORDING, MemoryType, TrustLevel
from silas.memory.preferences import INFERRED
from silas.memory.trust import CONFIRMATION, MemoryClaim
from tests.memory.room import a_memory
from tests.web.place import Place, TestDevice

SAID = "the old boat lies in the harbour"


@pytest_asyncio.fixture(loop_scope="session")
async def entered(device: TestDevice) -> TestDevice:
    async with device.conversation():
        return device


async def remember(place: Place, text: str, name: str, **fields: Any) -> None:
    await place.house.memory.memories.of("owner").store(a_memory(text, memory_id=name, **fields))


async def say(device: TestDevice, text: str) -> str:
    async with device.conversation() as line:
        said = await line.say(text)
        told = await line.until("message", sender="silas", trace_id=f"trace_{said['message_id']}")
        return str(told["text"])


async def found(device: TestDevice, path: str = "page/remembered/newest") -> list[dict[str, Any]]:
    answer = await device.get(f"/api/memory/{path}")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["memories"])


async def texts(device: TestDevice, path: str = "page/remembered/newest") -> list[str]:
    return [each["memory"]["content"] for each in await found(device, path)]


async def test_each_says_where_it_came_from_and_how_sure_it_is(
    place: Place, entered: TestDevice
) -> None:
    await say(entered, f"Remember that {SAID}")
    await remember(place, "Anna likes tea", "mem_a", taint="auth", source_kind=MODEL_WORDING)
    await remember(place, "A page says so", "mem_p", taint=TaintLevel.EXTERNAL)
    await remember(place, "notes.txt has 3 lines", "mem_c", source_kind="context")
    shown = {each["memory"]["content"]: each for each in await found(entered)}
    assert shown[SAID]["origin"] == "Your words"
    assert shown[SAID]["sureness"] == "As you said it"
    assert shown[SAID]["correctable"]
    assert "notes.txt has 3 lines" not in shown, "nobody wished to have it remembered"
    assert shown["Anna likes tea"]["origin"] == "Worded by a model"
    assert shown["Anna likes tea"]["sureness"] == "Unsure: these are not your words"
    assert shown["A page says so"]["origin"] == "Text that is not yours"
    assert shown["A page says so"]["sureness"] == "Not trusted: it is somebody else's text"
    said = [
        each for each in await found(entered, "page/said/newest") if SAID in str(each["memory"])
    ]
    assert {each["origin"] for each in said} == {"Your words", "What Silas answered"}
    [passage] = [
        each for each in await found(entered, "page/said/newest") if "3 lines" in str(each)
    ]
    assert passage["sureness"] == "As it was then", "nobody said it"
    assert not passage["correctable"]
    assert not any(each["correctable"] for each in said)


async def test_pages_follow_each_other_and_hold_everything_once(
    place: Place, entered: TestDevice
) -> None:
    store = place.house.memory.memories.of("owner")
    await store.store_many([a_memory(f"number {n}", memory_id=f"mem_{n:04}") for n in range(250)])
    assert await ids(entered, "remembered") == [f"mem_{n:04}" for n in reversed(range(250))]
    assert len((await entered.get("/api/memory/find/remembered/number")).json()["memories"]) == 50


async def test_what_tools_gave_stands_with_what_was_said(place: Place, entered: TestDevice) -> None:
    store = place.house.memory.memories.of("owner")
    await store.store_many(
        [
            a_memory(f"number {n}", memory_id=f"mem_{n:04}", source_kind=kind)
            for n in range(160)
            for kind in [("context", "tool_output_raw", "memory_op")[n % 3]]
        ]
    )
    wished = [f"mem_{n:04}" for n in reversed(range(160)) if n % 3 == 2]
    assert await ids(entered, "remembered") == wished
    others = [f"mem_{n:04}" for n in reversed(range(160)) if n % 3 != 2]
    assert await ids(entered, "said") == others
    asked = await found(entered, "find/remembered/number")
    assert {each["memory"]["source_kind"] for each in asked} == {"memory_op"}
    asked = await found(entered, "find/said/number")
    assert {each["memory"]["source_kind"] for each in asked} == {"context", "tool_output_raw"}
    memory = place.front.memory
    listed = [each.memory_id for each in await memory.newest(limit=160)]
    assert listed == wished, "`silas memory list` lists the same"
    listed = [each.memory_id for each in await memory.newest(raw=True, limit=160)]
    assert sorted(listed) == sorted(others)
    kind = (await memory.show(memory_id="mem_0000")).memory.memory_type
    every = await memory.newest(kind=kind, limit=160)
    assert len(every) == 160, "who asks for a kind gets all of it"


async def ids(device: TestDevice, lane: str) -> list[str]:
    """A whole list, page by page."""
    seen: list[str] = []
    after = "newest"
    while True:
        page = (await device.get(f"/api/memory/page/{lane}/{after}")).json()
        seen += [each["memory"]["memory_id"] for each in page["memories"]]
        if page["next"] is None:
            return seen
        after = page["next"]


@pytest.mark.parametrize("after", ["x", "1", "-1.2.3", "1.2.3.4", "99999999999999999999.1.1"])
async def test_a_place_that_is_none_gets_a_sentence(entered: TestDevice, after: str) -> None:
    answer = await entered.get(f"/api/memory/page/said/{after}")
    assert answer.status_code == 400
    assert answer.json()["detail"] == "This list does not go on there. Open it anew."


async def test_a_correction_is_the_owners_words_and_can_be_undone(
    place: Place, entered: TestDevice
) -> None:
    await remember(place, "Anna likes tea", "mem_a", taint="auth", source_kind=MODEL_WORDING)
    body = {"memory_id": "mem_a", "text": "Anna likes coffee"}
    done = (await entered.signed_post("/api/memory/correct", body)).json()
    [line] = await found(entered)
    assert line["memory"]["content"] == "Anna likes coffee"
    assert (line["memory"]["taint"], line["origin"]) == ("owner", "Your words")
    assert line["text"] == "Anna likes coffee"
    [shown] = (await entered.get("/api/memory/changes")).json()
    assert shown["text"] == "Anna likes coffee"
    change = shown["change"]
    assert (change["before"]["content"], change["op"]) == ("Anna likes tea", "update")
    undone = await entered.signed_post("/api/memory/undo", {"change_id": done["change_id"]})
    assert undone.status_code == 200
    [line] = await found(entered)
    assert (line["memory"]["content"], line["origin"]) == ("Anna likes tea", "Worded by a model")
    assert line["text"] == "Anna likes tea"
    events = [entry.event for entry in await place.core.audit.tail(20)]
    assert events.count("memory_changed") == 1
    assert "memory_change_undone" in events


async def test_what_was_inferred_calls_the_owner_you(place: Place, entered: TestDevice) -> None:
    kept, shown = "The owner usually approves plans.", "You usually approve plans."
    await remember(place, kept, "mem_a", source_kind=INFERRED)
    [line] = await found(entered)
    assert (line["text"], line["memory"]["content"]) == (shown, kept), "agents read what is kept"
    going = await entered.signed_post("/api/memory/forgetting", {"memory_ids": ["mem_a"]})
    assert [each["text"] for each in going.json()["memories"]] == [shown]
    await say(entered, "forget mem_a")
    [made] = (await entered.get("/api/memory/changes")).json()
    assert (made["change"]["op"], made["text"]) == ("delete", shown)


async def test_what_a_conversation_shows_follows_a_correction(
    place: Place, entered: TestDevice
) -> None:
    await remember(place, "Anna likes tea", "mem_a")
    context = place.house.stream.turns.context
    assert context is not None
    item = await place.house.memory.memories.of("owner").get("mem_a")
    assert item is not None
    await context.add_memories("owner", [item], turn_number=1)
    assert "Anna likes tea" in await context.render("owner", 1)
    body = {"memory_id": "mem_a", "text": "Anna likes coffee"}
    await entered.signed_post("/api/memory/correct", body)
    assert "Anna likes tea" not in await context.render("owner", 1)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"memory_id": "mem_x", "text": "Hello"}, "There is no memory 'mem_x' here"),
        ({"memory_id": "mem_v", "text": "Tea"}, "You have confirmed this memory word for word"),
        ({"memory_id": "mem_w", "text": "  "}, "A memory without content cannot be kept"),
        ({"memory_id": "mem_w", "text": "My pin is 1234"}, "`silas secrets set pin`"),
    ],
)
async def test_a_correction_that_is_not_made_says_why(
    place: Place, entered: TestDevice, body: dict[str, str], sentence: str
) -> None:
    await confirmed(place, "Plans are approved", "mem_v")
    await remember(place, "Anna likes tea", "mem_w")
    answer = await entered.signed_post("/api/memory/correct", body)
    assert answer.status_code >= 400
    assert sentence in answer.json()["detail"]
    assert "Anna likes tea" in await texts(entered)


async def test_nobody_changes_or_reads_anything_without_the_device(
    place: Place, entered: TestDevice
) -> None:
    await remember(place, "Anna likes tea", "mem_a")
    stranger = TestDevice(place.address)
    for path in (
        "page/remembered/newest",
        "find/remembered/tea",
        "item/mem_a",
        "changes",
        "numbers",
    ):
        assert (await stranger.get(f"/api/memory/{path}")).status_code == 401
    cookie = {"Cookie": f"silas_session={entered.cookie}"}
    body = {"memory_id": "mem_a", "text": "Coffee"}
    assert (await entered.post("/api/memory/correct", body, **cookie)).status_code == 403
    gone = {"memory_ids": ["mem_a"]}
    assert (await entered.post("/api/memory/forget_these", gone, **cookie)).status_code == 403
    # Those of the terminal are for the owner's socket alone.
    for name in ("search", "newest", "forget", "to_forget"):
        assert (await entered.signed_post(f"/api/memory/{name}", {})).status_code == 404
    assert await texts(entered) == ["Anna likes tea"]


async def test_what_visitors_have_is_not_shown(place: Place, entered: TestDevice) -> None:
    other = a_memory("A visitor's order", memory_id="mem_v").model_copy(
        update={"scope_id": "visit_1", "taint": TaintLevel.EXTERNAL}
    )
    await place.house.memory.memories.of("visit_1").store(other)
    assert await found(entered) == []
    assert await found(entered, "find/remembered/order") == []
    assert (await entered.get("/api/memory/item/mem_v")).status_code == 404


async def test_forgetting_says_what_goes_and_takes_along_what_was_said(
    place: Place, entered: TestDevice
) -> None:
    await say(entered, f"Remember that {SAID}")
    await say(entered, "Remember that Anna likes tea")
    [memory] = [each for each in await found(entered) if each["memory"]["content"] == SAID]
    body = {"memory_ids": [memory["memory"]["memory_id"]]}
    going = (await entered.signed_post("/api/memory/forgetting", body)).json()
    assert [each["memory"]["content"] for each in going["memories"]] == [
        SAID,
        f"Remember that {SAID}",
        f"I will remember: {SAID}",
    ]
    assert (going["said"], going["confirmed"]) == (2, [])
    done = await entered.signed_post("/api/memory/forget_these", body)
    assert done.status_code == 200
    for path in (
        "page/remembered/newest",
        "page/said/newest",
        "find/remembered/boat",
        "find/said/harbour",
    ):
        assert SAID not in str(await found(entered, path)), path
    assert "Anna likes tea" in await texts(entered)
    rows = await place.core.database.fetch_all("SELECT content FROM chronicle_entries", ())
    said = await place.core.database.fetch_all("SELECT text FROM said", ())
    sent = await place.core.database.fetch_all("SELECT message FROM deliveries", ())
    kept = await place.core.database.fetch_all("SELECT after FROM memory_changes", ())
    assert "old boat" not in json.dumps([*rows, *said, *sent, *kept])
    await say(entered, "What can you do?")
    context = place.house.stream.turns.context
    assert context is not None
    assert "old boat" not in await context.render("owner", 3)


async def confirmed(place: Place, text: str, name: str) -> None:
    """A preference that the owner has confirmed."""
    item = a_memory(
        text,
        memory_id=name,
        memory_type=MemoryType.PREFERENCE,
        trust_level=TrustLevel.VERIFIED,
        semantic_tags=["behavior:plan/x"],
    )
    core, claim = place.core, MemoryClaim("store", "owner", (item,))

    token = await core.approvals.issue_token(
        claim, ApprovalDecision(verdict=ApprovalVerdict.APPROVED), CONFIRMATION
    )
    await place.house.memory.memories.of("owner").store(item, token=token)


async def test_what_was_confirmed_goes_with_a_signature_over_exactly_that(
    place: Place, entered: TestDevice
) -> None:
    await confirmed(place, "Plans are approved", "mem_v")
    [line] = await found(entered)
    assert (line["sureness"], line["pinned"]) == ("Sure: you have confirmed it", True)
    assert not line["correctable"]
    body: dict[str, Any] = {"memory_ids": ["mem_v"]}
    going = (await entered.signed_post("/api/memory/forgetting", body)).json()
    assert going["confirmed"] == ["mem_v"]
    kept = (await entered.signed_post("/api/memory/forget_these", body)).json()
    assert kept["kept"] == ["mem_v"]

    def signed(shown: str, **changes: Any) -> dict[str, Any]:
        statement = {
            "type": "card_decision",
            "card_id": "forget_12345678",
            "plan_hashes": {going["claim_id"]: shown},
            "decision": {"verdict": "approved", "approval_strength": "tap", "conditions": {}},
            "risk": going["risk"],
            "taint": going["taint"],
        }
        confirmation = {
            "question_id": "forget_12345678",
            "claim_hash": going["claim_hash"],
            "signature": entered.sign(canonical_bytes({**statement, **changes})),
        }
        return {**body, "confirmed": confirmation}

    other = hashlib.sha256(b"another").hexdigest()
    for wrong in (signed(other), signed(going["claim_hash"], risk="low")):
        refused = await entered.signed_post("/api/memory/forget_these", wrong)
        assert refused.status_code >= 400
        assert await texts(entered) == ["Plans are approved"]
    done = await entered.signed_post("/api/memory/forget_these", signed(going["claim_hash"]))
    assert done.status_code == 200, done.text
    assert await texts(entered) == []


async def test_looking_is_not_using(place: Place, entered: TestDevice) -> None:
    await remember(place, "Anna likes tea", "mem_a")
    await found(entered, "find/remembered/tea")
    await place.house.memory.memories.flush()
    item = await place.house.memory.memories.of("owner").get("mem_a")
    assert item is not None
    assert item.access_count == 0


async def test_the_name_that_was_given_is_known(place: Place, entered: TestDevice) -> None:
    for name in ("Ada", "Ada Lovelace"):
        await entered.signed_post("/api/setup/finish", {"name": name})
    assert await texts(entered) == ["My name is Ada Lovelace"]
    for question in ("What is my name?", "What do you know about me?"):
        assert "name is Ada Lovelace" in await say(entered, question)
