"""Escalations: every action, its fallbacks and its limits."""

from typing import Any

import pytest

from silas.gates import EscalationAction
from silas.gates.escalation import BUILT_IN_ESCALATIONS, EscalationOutcome, Escalator
from silas.gates.models import GateBlock
from silas.testing import RecordingAudit
from silas.testing.fakes import FakeEscalation

TOLD = ("notify_owner", "The gate guard stopped this: why")


async def handled(
    on_block: str,
    desk: FakeEscalation,
    *,
    audit: RecordingAudit | None = None,
    **known: dict[str, Any],
) -> EscalationOutcome:
    escalations = {name: EscalationAction.model_validate(each) for name, each in known.items()}
    block = GateBlock(gate_name="guard", reason="why", sender_id="anna", on_block=on_block)
    escalator = Escalator(desk, audit=audit or RecordingAudit(), escalations=escalations)
    return await escalator.handle(block)


async def test_the_built_in_ones_need_no_goal() -> None:
    desk = FakeEscalation()
    outcome = await handled("polite_redirect", desk)
    assert desk.done == [("send", "I can't help with that. How else can I assist you?")]
    assert outcome == EscalationOutcome(steps=["respond"], resolved=False)
    desk = FakeEscalation()
    await handled("report", desk)
    assert desk.done == [TOLD]


async def test_a_goal_may_say_it_otherwise() -> None:
    desk = FakeEscalation()
    await handled("polite_redirect", desk, polite_redirect={"action": "respond", "message": "No."})
    assert desk.done == [("send", "No.")]


async def test_an_unknown_name_is_reported_and_warned_about() -> None:
    desk, audit = FakeEscalation(), RecordingAudit()
    outcome = await handled("nowhere", desk, audit=audit)
    assert desk.done == [TOLD]
    assert outcome.steps == ["report"]
    assert audit.events() == ["escalation_warning", "gate_escalated"]
    assert "nowhere" in audit.entries[0][1]["warning"]


async def test_every_block_is_in_the_log_with_gate_reason_and_sender() -> None:
    for name in BUILT_IN_ESCALATIONS:
        audit = RecordingAudit()
        await handled(name, FakeEscalation(), audit=audit)
        (data,) = [data for event, data in audit.entries if event == "gate_escalated"]
        assert (data["gate"], data["reason"], data["sender_id"]) == ("guard", "why", "anna")


HUMAN: dict[str, Any] = {"action": "escalate_human", "message": "One moment."}


async def test_a_person_takes_over_if_the_channel_has_one() -> None:
    desk = FakeEscalation()
    outcome = await handled("h", desk, h=HUMAN)
    assert desk.done == [("hand_over", "One moment.")]
    assert outcome.resolved is False


async def test_otherwise_the_queue_and_without_one_a_report() -> None:
    desk = FakeEscalation(people=False)
    await handled("h", desk, h={**HUMAN, "queue": "support"})
    assert desk.done[1:] == [("transfer", "support"), ("send", "One moment.")]
    desk = FakeEscalation(people=False)
    await handled("h", desk, h=HUMAN)
    assert desk.done == [("hand_over", "One moment."), TOLD]


async def test_a_transfer_is_announced_when_it_has_happened() -> None:
    desk = FakeEscalation()
    await handled("t", desk, t={"action": "transfer_to_queue", "queue": "q", "message": "Wait."})
    assert desk.done == [("transfer", "q"), ("send", "Wait.")]


REPHRASE: dict[str, Any] = {
    "action": "suppress_and_rephrase",
    "instruction": "Kinder.",
    "max_retries": 3,
}


@pytest.mark.parametrize(("passes_after", "tries"), [(1, 1), (3, 3), (4, 3), (None, 3)])
async def test_rephrasing_has_a_limit_and_a_fallback(passes_after: int | None, tries: int) -> None:
    desk = FakeEscalation(passes_after=passes_after)
    sorry = {"action": "respond", "message": "Sorry."}
    outcome = await handled("r", desk, r={**REPHRASE, "fallback": "sorry"}, sorry=sorry)
    assert [what for what, _ in desk.done].count("rephrase") == tries
    solved = passes_after is not None and passes_after <= 3
    assert outcome.resolved is solved
    assert (("send", "Sorry.") in desk.done) is not solved


@pytest.mark.parametrize("retries", [0, 2])
async def test_retrying_has_a_limit_and_without_a_fallback_it_is_reported(retries: int) -> None:
    desk = FakeEscalation()
    outcome = await handled("r", desk, r={"action": "retry", "max_retries": retries})
    assert desk.done == [("retry", "")] * retries + [TOLD]
    assert outcome.steps == ["retry", "report"]
    assert outcome.resolved is False


async def test_suppress_and_escalate_always_goes_on() -> None:
    desk = FakeEscalation()
    await handled(
        "s", desk, s={"action": "suppress_and_escalate", "message": "Hm.", "fallback": "h"}, h=HUMAN
    )
    assert desk.done == [("send", "Hm."), ("hand_over", "One moment.")]
    desk = FakeEscalation()
    await handled("s", desk, s={"action": "suppress_and_escalate"})
    assert desk.done == [TOLD]


async def test_a_task_is_spawned_from_the_block() -> None:
    desk = FakeEscalation()
    await handled("spawn_task", desk)
    assert desk.done == [("spawn_task", "guard")]


async def test_fallbacks_that_lead_in_a_circle_end_in_a_report() -> None:
    desk = FakeEscalation()
    circle = {"action": "retry", "max_retries": 1}
    outcome = await handled("a", desk, a={**circle, "fallback": "b"}, b={**circle, "fallback": "a"})
    assert desk.done == [("retry", ""), ("retry", ""), TOLD]
    assert outcome.steps == ["retry", "retry", "report"]


@pytest.mark.parametrize(
    ("name", "broken"),
    [("polite_redirect", "send"), ("escalate_human", "hand_over"), ("spawn_task", "spawn_task")],
)
async def test_what_fails_is_reported(name: str, broken: str) -> None:
    desk, audit = FakeEscalation(broken=(broken,)), RecordingAudit()
    outcome = await handled(name, desk, audit=audit)
    assert desk.done[-1] == TOLD
    assert outcome.steps[-1] == "report"
    assert audit.events() == ["escalation_warning", "gate_escalated"]


async def test_a_report_that_fails_is_still_in_the_log() -> None:
    audit = RecordingAudit()
    await handled("report", FakeEscalation(broken=("notify_owner",)), audit=audit)
    assert audit.events() == ["escalation_warning", "gate_escalated"]
