"""Calls that wait for the owner: shown with their arguments, decided by a device's signature."""

import base64
from typing import Any

import pytest

from silas.approval import ApprovalVerdict
from silas.kernel import TaintLevel, canonical_bytes, format_timestamp
from silas.work.paused import Scene, _Rows
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


async def let_it_wait(place: Place, call: PausedCall = CALL) -> None:
    """As a run leaves it that was paused."""
    run = PausedRun(history="", calls=(WaitingCall(call_id="c1", call=call),))
    limits = AgentLimits(tokens=1, cost_usd=1.0, seconds=1.0)
    briefing = Briefing(work_item_id="task_1", attempt=1, instructions="", limits=limits)
    scene = Scene(briefing=briefing, taint=TaintLevel.EXTERNAL)
    now = format_timestamp(place.ground.clock.now())
    until = "2999-01-01T00:00:00.000000Z"
    values = ("pause_1", "task_1", 1, run.model_dump_json(), scene.model_dump_json(), now, until)
    await place.ground.database.execute(
        "INSERT INTO paused_runs (id, work_item_id, attempt, state, run, scene, paused_at,"
        " expires_at) VALUES (?, ?, ?, 'waiting', ?, ?, ?, ?)",
        values,
    )
    await place.ground.database.execute(
        "INSERT INTO paused_calls (id, run_id, position, call_id, call) VALUES (?, ?, 0, ?, ?)",
        ("call_1", "pause_1", "c1", call.model_dump_json()),
    )
    texts = run.model_dump_json(), scene.model_dump_json()
    rows = _Rows("pause_1", "task_1", 1, *texts, until, (call.model_dump_json(),))
    key_id, seal = place.ground.keys.sign(rows.seal_bytes())
    await place.ground.database.execute(
        "INSERT INTO paused_seals (run_id, key_id, signature) VALUES (?, ?, ?)",
        ("pause_1", key_id, base64.b64encode(seal).decode()),
    )


def decision(line: Line, card: dict[str, Any], verdict: str) -> dict[str, Any]:
    said = {
        "type": "call_decision",
        "card_id": card["request_id"],
        "plan_hashes": {item["id"]: item["plan_hash"] for item in card["items"]},
        "decision": {"verdict": verdict, "approval_strength": "tap", "conditions": {}},
    }
    signature = line.device.sign(canonical_bytes(said))
    return {
        "type": "approval_response",
        "request_id": card["request_id"],
        "verdict": verdict,
        "signature": signature,
    }


async def verdict_of(place: Place) -> object:
    row = await place.ground.database.fetch_one("SELECT verdict, token FROM paused_calls")
    assert row is not None
    return row[0], row[1] is not None


@pytest.mark.parametrize("verdict", [ApprovalVerdict.APPROVED, ApprovalVerdict.DECLINED])
async def test_a_call_is_shown_whole_and_decided_once(
    place: Place, device: TestDevice, verdict: ApprovalVerdict
) -> None:
    await let_it_wait(place)
    async with device.conversation() as line:
        card = await line.until("approval_request", kind="call")
        assert (card["title"], card["risk_level"]) == ("Call send_mail", "high")
        assert '"to":"a@example.org"' in card["items"][0]["plan"]
        assert card["details_expanded"]
        frame = decision(line, card, verdict.value)
        await line.send(frame)
        assert (await line.until("card_closed"))["request_id"] == "call_1"
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
    await let_it_wait(place, CALL.model_copy(update={"tool": "delete_mail"}))
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
        await line.until("card_closed", request_id="call_1")
    assert await verdict_of(place) == ("approved", True)
