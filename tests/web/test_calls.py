"""Calls that wait for the owner: shown with their arguments, decided by a device's signature."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.gates.risk import DeclaredEffect
from silas.kernel import TaintLevel, canonical_bytes
from silas.kernel.models import Data
from silas.queue import Bus, QueueName, QueueStore
from silas.review import OwnersProof, OwnersWord
from silas.stream.resuming import WorkResumption
from silas.stream.store import ConversationStore, Origin, WorkOrigin
from silas.testing.work import DESTROYS, SENDS
from silas.tools.declaration import Tool
from silas.tools.execution import ExecutionEnvelope, ExecutionResult
from silas.web.calls import GoingOn
from silas.work.models import WorkItem, WorkItemType
from silas.work.paused import Scene
from silas.work.ports import AgentLimits, Briefing, PausedCall, PausedRun, WaitingCall
from tests.web.place import Line, Place, TestDevice, strength_of
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


class NeverCalled:
    """`EphemeralExecutor` of a tool that is only asked about."""

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        raise NotImplementedError


def declare(place: Place, **effects: DeclaredEffect) -> None:
    """Give the runtime tools that declare this."""
    registry = place.house.stream.work.context.registry
    more = {
        name: Tool(name, Data, NeverCalled(), contained=False, effect=effect)
        for name, effect in effects.items()
    }
    registry.tools = MappingProxyType({**registry.tools, **more})


async def let_it_wait(place: Place, *calls: PausedCall) -> list[str]:
    """As a run leaves it that was paused; returns the ids of the calls."""
    bench = place.house.stream.work.context
    assert bench.paused is not None
    declare(place, send_mail=SENDS, delete_mail=DESTROYS)
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
    strength = strength_of(card, verdict)
    said = {
        "type": "call_decision",
        "card_id": card["request_id"],
        "plan_hashes": {
            item["id"]: item["plan_hash"]
            for item in card["items"]
            if chosen is None or item["id"] in chosen
        },
        "decision": {"verdict": verdict, "approval_strength": strength, "conditions": {}},
    }
    signature = line.device.sign(canonical_bytes(said))
    return {
        "type": "approval_response",
        "request_id": card["request_id"],
        "verdict": verdict,
        "strength": strength,
        "signature": signature,
        "chosen": chosen,
    }


async def verdicts(place: Place) -> list[object]:
    rows = await place.core.database.fetch_all(
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
    (timed,) = await place.core.audit.tail(10, event="card_answered")
    assert (timed.data["verdict"], timed.data["risk"]) == (verdict.value, "high")
    assert timed.data["asked_at"] <= timed.at


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


async def test_a_call_of_a_tool_that_nobody_declared_takes_a_passkey(
    place: Place, device: TestDevice
) -> None:
    await let_it_wait(place, CALL.model_copy(update={"tool": "read_the_weather"}))
    async with device.conversation() as line:
        card = await line.until("approval_request", kind="call")
        assert card["risk_level"] == "irreversible"
        await line.send(decision(line, card, "approved"))
        assert (await line.until("error"))["code"] == "E_CHANNEL_STRONGER_PROOF"
    assert await verdict_of(place) == (None, False)


def beyond(path: str, kind: str = "added", **more: Any) -> PausedCall:
    """A file that the work changed beyond its plan."""
    args = {
        "path": path,
        "kind": kind,
        "before": None if kind == "added" else "a" * 64,
        "after": None if kind == "removed" else "b" * 64,
        "executable": False,
        "executed_by": None,
        "diff": f"--- a/{path}\n+++ b/{path}\n@@ -0,0 +1 @@\n-old\n+new\n",
    }
    return PausedCall(
        work_item_id="task_1",
        attempt=1,
        tool="take_over",
        args={**args, **more},
        reasons=["The plan does not declare this."],
        taint=TaintLevel.OWNER,
    )


@pytest.mark.parametrize(
    ("call", "risk"),
    [
        (beyond("notes.txt"), "medium"),
        (beyond("notes.txt", "changed"), "medium"),
        (beyond("notes.txt", "removed"), "high"),
        (beyond("notes.txt", executable=True), "high"),
        (beyond("Makefile", executed_by="a build"), "high"),
        (beyond("Makefile"), "high"),
    ],
    ids=["added", "changed", "removed", "executable", "executed", "executed, though unsaid"],
)
async def test_a_file_that_others_execute_or_that_goes_away_is_of_high_risk(
    place: Place, device: TestDevice, call: PausedCall, risk: str
) -> None:
    await let_it_wait(place, call)
    async with device.conversation() as line:
        card = await line.until("approval_request", kind="call")
    assert (card["title"], card["risk_level"]) == ("1 file beyond the plan", risk)
    assert card["consequences"] == {"approved": "Take this file", "declined": "Leave it"}


async def test_files_beyond_a_plan_are_taken_and_the_others_on_the_card_are_left(
    place: Place, device: TestDevice
) -> None:
    first, second, _ = await let_it_wait(place, *(beyond(f"{name}.txt") for name in "abc"))
    async with device.conversation() as line:
        card = await line.until("approval_request", kind="call")
        assert card["title"] == "3 files beyond the plan"
        assert card["consequences"]["approved"] == "Take the ticked files"
        assert "What is not ticked is left" in card["rationale"]
        await line.send(decision(line, card, "approved", chosen=[first, second]))
        await line.until("card_closed", request_id=card["request_id"])
    assert await verdicts(place) == [("approved", True)] * 2 + [("declined", False)]


async def test_none_of_the_files_is_taken(place: Place, device: TestDevice) -> None:
    await let_it_wait(place, beyond("a.txt"), beyond("b.txt"))
    async with device.conversation() as line:
        card = await line.until("approval_request", kind="call")
        await line.send(decision(line, card, "declined"))
        await line.until("card_closed", request_id=card["request_id"])
    assert await verdicts(place) == [("declined", False)] * 2


async def test_an_unsigned_choice_of_files_takes_and_leaves_none(
    place: Place, device: TestDevice
) -> None:
    first, second = await let_it_wait(place, beyond("a.txt"), beyond("b.txt"))
    async with device.conversation() as line:
        card = await line.until("approval_request", kind="call")
        signed = decision(line, card, "approved", chosen=[first])
        await line.send(signed | {"chosen": [second]})
        assert (await line.until("error"))["code"] == "E_CHANNEL_UNSIGNED"
    assert await verdicts(place) == [(None, False)] * 2


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
    assert await place.front.calls.going_on("task_1", "call_9") is None
    store = ConversationStore(place.core.database, place.core.clock)
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
    await place.core.database.transaction(lambda tx: store.note_work(tx, work))
    (call,) = await let_it_wait(place)
    resumption = await place.front.calls.going_on("task_1", "call_9")
    assert resumption is not None
    # The bus on which the running Silas waits: on another one, nobody would be woken.
    assert resumption.queue is place.core.queue is place.house.stream.queue
    told: list[tuple[str, str]] = []
    core, bus = place.core, Bus()
    queue = QueueStore(core.database, clock=core.clock, ids=core.ids, bus=bus)

    async def going_on(work_item_id: str, call_id: str) -> WorkResumption:
        told.append((work_item_id, call_id))
        return replace(resumption, queue=queue)

    with bus.listening(QueueName.EXECUTOR) as woken:
        await decide_once(place, device, call, going_on)
        assert woken.is_set()  # at once, and not when the queue is looked at again
    assert told == [("task_1", call)]


async def decide_once(place: Place, device: TestDevice, call: str, going_on: GoingOn) -> None:
    async with device.conversation() as line:
        card = await line.until("approval_request", kind="call")
        frame = decision(line, card, "declined")
        no = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
        word = OwnersWord(no, OwnersProof(device.device_id, base64.b64decode(frame["signature"])))
        calls = replace(place.front.calls, going_on=going_on)
        await calls.decide(call, word)
