"""Calls that wait for the owner: shown with their arguments, decided by a device's signature."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from silas.approval import ApprovalVerdict
from silas.kernel import TaintLevel, canonical_bytes
from silas.stream.store import ConversationStore, Origin, WorkOrigin
from silas.web.calls import Signed
from silas.work.models import WorkItem, WorkItemType
from silas.work.paused import Scene
from silas.work.ports import AgentLimits, Briefing, PausedCall, PausedRun, WaitingCall
from tests.web.place import Line, Place, TestDevice
from tests.web.test_strong_proof import enrolled

CALL = PausedCall(
    work_item_id="task_1",
    attempt=1,
    tool="send_mail",
    args={"to": "a@example.org", "text": "hello"},
    reasons=["It is outside of what was approved."],
    taint=TaintLevel.EXTERNAL,
    taint_sources=["a page"],
)


async def let_it_wait(place: Place, *calls: PausedCall) -> list[str]:
    """As a run leaves it that was paused; returns the ids of the calls."""
    bench = place.house.stream.work.bench
    assert bench.paused is not None
    await bench.items.save(WorkItem(id="task_1", type=WorkItemType.TASK, title="T", body="Do it."))
    item = await bench.attempts.start("task_1", runner="test")
    waiting = [WaitingCall(call_id=f"c{n}", call=each) for n, each in enumerate(calls or [CALL])]
    limits = AgentLimits(tokens=1, cost_usd=1.0, seconds=1.0)
    briefing = Briefing(work_item_id="task_1", attempt=1, instructions="", limits=limits)
    await bench.paused.keep(
        item,
        PausedRun(history="", calls=tuple(waiting)),
        scene=Scene(briefing=briefing, taint=TaintLevel.EXTERNAL),
        runner="test",
        used=item.budget_used,
    )
    (run,) = await bench.paused.waiting()
    return [each.id for each in run.calls]


def decision(
    line: Line, card: dict[str, Any], verdict: str, *, chosen: Sequence[str] | None = None
) -> dict[str, Any]:
    said = {
        "type": "call_decision",
        "card_id": card["request_id"],
        "plan_hashes": {
            item["id"]: item["plan_hash"]
            for item in card["items"]
            if chosen is None or item["id"] in chosen
        },
        "decision": {"verdict": verdict, "approval_strength": "tap", "conditions": {}},
    }
    signature = line.device.sign(canonical_bytes(said))
    return {
        "type": "approval_response",
        "request_id": card["request_id"],
        "verdict": verdict,
        "signature": signature,
        "chosen": chosen,
    }


async def verdicts(place: Place) -> list[object]:
    rows = await place.ground.database.fetch_all(
        "SELECT verdict, token FROM paused_calls ORDER BY position"
    )
    return [(verdict, token is not None) for verdict, token in rows]


async def verdict_of(place: Place) -> object:
    (verdict,) = await verdicts(place)
    return verdict


@pytest.mark.parametrize("verdict", [ApprovalVerdict.APPROVED, ApprovalVerdict.DECLINED])
async def test_a_call_is_shown_whole_and_decided_once(
    place: Place, device: TestDevice, verdict: ApprovalVerdict
) -> None:
    (call,) = await let_it_wait(place)
    async with device.conversation() as line:
        card = await line.until("approval_request", kind="call")
        assert (card["title"], card["risk_level"]) == ("Call send_mail", "high")
        assert '"to":"a@example.org"' in card["items"][0]["plan"]
        assert card["details_expanded"]
        frame = decision(line, card, verdict.value)
        await line.send(frame)
        assert (await line.until("card_closed"))["request_id"] == call
        await line.send(frame)
        await line.until("error")
    assert await verdict_of(place) == (verdict.value, verdict is ApprovalVerdict.APPROVED)


async def test_a_call_that_nobody_signed_is_not_decided(place: Place, device: TestDevice) -> None:
    await let_it_wait(place)
    async with device.conversation() as line:
        card = await line.until("approval_request", kind="call")
        signed_no = decision(line, card, "declined")
        for frame in (signed_no | {"verdict": "approved"}, line.decision(card, "approved")):
            await line.send(frame)
            assert (await line.until("error"))["code"] == "E_CHANNEL_UNSIGNED"
    assert await verdict_of(place) == (None, False)


async def test_a_call_that_destroys_takes_a_passkey(place: Place, device: TestDevice) -> None:
    (call,) = await let_it_wait(place, CALL.model_copy(update={"tool": "delete_mail"}))
    async with device.conversation() as line:
        card = await line.until("approval_request", kind="call")
        assert card["risk_level"] == "irreversible"
        await line.send(decision(line, card, "approved"))
        assert (await line.until("error"))["code"] == "E_CHANNEL_STRONGER_PROOF"
        assert await verdict_of(place) == (None, False)
        key = await enrolled(place, device)
        wanted = bytes.fromhex(card["items"][0]["plan_hash"])
        proof = key.assertion(wanted, origin=device.address).model_dump(mode="json")
        await line.send({**decision(line, card, "approved"), "passkey": proof})
        await line.until("card_closed", request_id=call)
    assert await verdict_of(place) == ("approved", True)


OTHER = CALL.model_copy(update={"args": {"to": "b@example.org", "text": "hello"}})
GONE = CALL.model_copy(update={"tool": "delete_mail", "args": {"id": "7"}})


async def test_calls_that_wait_together_are_one_card_and_each_is_decided(
    place: Place, device: TestDevice
) -> None:
    first, second, third = await let_it_wait(place, CALL, OTHER, CALL)
    async with device.conversation() as line:
        card = await line.until("approval_request", kind="call")
        assert (card["title"], card["taint"]) == ("3 calls", "external")
        assert [item["id"] for item in card["items"]] == [first, second, third]
        await line.send(decision(line, card, "approved", chosen=[first]))
        rest = await line.until("approval_request", title="2 calls")
        assert [item["id"] for item in rest["items"]] == [second, third]
        await line.send(decision(line, rest, "declined", chosen=[third]))
        last = await line.until("approval_request", request_id=second)
        await line.send(decision(line, last, "approved"))
        await line.until("card_closed", request_id=second)
    assert await verdicts(place) == [("approved", True), ("approved", True), ("declined", False)]


async def test_a_yes_to_some_calls_of_a_card_is_no_yes_to_others(
    place: Place, device: TestDevice
) -> None:
    first, second = await let_it_wait(place, CALL, OTHER)
    async with device.conversation() as line:
        card = await line.until("approval_request", kind="call")
        yes = decision(line, card, "approved", chosen=[first])
        forged = [
            yes | {"chosen": [second]},
            yes | {"chosen": [first, second]},
            yes | {"chosen": None},
            yes | {"chosen": [first, "call_9"]},
            decision(line, card | {"request_id": first}, "approved", chosen=[first]),
            decision(line, card | {"items": []}, "approved", chosen=["call_9"]),
        ]
        for frame in forged:
            await line.send(frame)
            assert (await line.until("error"))["code"].startswith("E_CHANNEL")
        assert await verdicts(place) == [(None, False)] * 2
        await line.send(yes)
        await line.until("approval_request", request_id=second)
        await line.send(yes)
        await line.until("error")
    assert await verdicts(place) == [("approved", True), (None, False)]


async def test_one_call_that_destroys_makes_the_whole_yes_strong(
    place: Place, device: TestDevice
) -> None:
    first, _ = await let_it_wait(place, CALL, GONE)
    async with device.conversation() as line:
        card = await line.until("approval_request", kind="call")
        assert card["risk_level"] == "irreversible"
        key = await enrolled(place, device)
        hashes = {item["id"]: item["plan_hash"] for item in card["items"]}
        alone = key.assertion(bytes.fromhex(hashes[first]), origin=device.address)
        yes = decision(line, card, "approved")
        for proof in (None, alone.model_dump(mode="json")):
            await line.send({**yes, "passkey": proof})
            await line.until("error")
        assert await verdicts(place) == [(None, False)] * 2
        challenge = hashlib.sha256(canonical_bytes(hashes)).digest()
        proof = key.assertion(challenge, origin=device.address).model_dump(mode="json")
        await line.send({**yes, "passkey": proof})
        await line.until("card_closed", request_id=card["request_id"])
    assert await verdicts(place) == [("approved", True)] * 2


async def test_once_it_is_decided_the_work_goes_on(place: Place, device: TestDevice) -> None:
    assert not await place.front.calls.go_on("task_1", "call_9")
    store = ConversationStore(place.ground.database, place.ground.clock)
    owner = place.front.owner_id
    origin = Origin(
        trace_id="t",
        scope_id=owner,
        connection_id=owner,
        channel="web",
        sender_id=owner,
        message_id="m",
        taint=TaintLevel.OWNER,
    )
    await store.write([lambda tx: store.note_origin(tx, origin)])
    work = WorkOrigin(work_item_id="task_1", trace_id="t", scope_id=owner, taint=TaintLevel.OWNER)
    await place.ground.database.transaction(lambda tx: store.note_work(tx, work))
    assert await place.front.calls.go_on("task_1", "call_9")
    told: list[tuple[str, str]] = []

    async def go_on(work_item_id: str, call_id: str) -> bool:
        told.append((work_item_id, call_id))
        return True

    (call,) = await let_it_wait(place)
    async with device.conversation() as line:
        card = await line.until("approval_request", kind="call")
        frame = decision(line, card, "declined")
        signed = Signed(device.device_id, base64.b64decode(frame["signature"]))
        calls = replace(place.front.calls, go_on=go_on)
        await calls.decide(call, ApprovalVerdict.DECLINED, signed)
    assert told == [("task_1", call)]
