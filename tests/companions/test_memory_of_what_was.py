"""What companions remember: decisions, reasons, goals, wishes; and never what nobody said."""

from pathlib import Path

import pytest

from evals.half_year import LEAST_RECALL, half_year
from silas.companions.compaction import line_of, supported
from silas.companions.errors import CompanionInvalid
from silas.companions.log import Remembered
from silas.companions.messages import AgentMessage, WakeRun
from silas.companions.models import AgentMessageKind, AgentState, Companion
from silas.companions.ports import CompanionProposal
from silas.testing.companions import CompanionDevice
from tests.companions.test_conversation import say
from tests.companions.test_workflow import Scripted, asks, call, scripted

__all__ = ["scripted"]


async def slots(device: CompanionDevice, agent: str) -> AgentState:
    companion = await device.store.require(Companion, agent)
    return await device.store.require(AgentState, companion.current_state_id)


async def summaries(device: CompanionDevice, agent: str) -> str:
    await device.companions.compactor.work()
    rows = await device.agent_db.fetch_all(
        "SELECT p.body FROM agent_messages m JOIN agent_message_payloads p"
        " ON p.id = m.content_entry_id WHERE m.agent_id = ? AND m.kind = 'summary'",
        (agent,),
    )
    return "\n".join(str(body) for (body,) in rows)


@pytest.mark.parametrize(("approves", "told"), [(True, "approved"), (False, "said no to")])
async def test_what_the_owner_decided_reaches_memory_with_what_and_why(
    scripted: Scripted, approves: bool, told: str
) -> None:
    device, agent = scripted.device, scripted.agent
    add = call("create_task", category_id=device.categories["gym"], title="Rest day")
    await scripted.run(add.model_copy(update={"reason": "Your knee hurts."}))
    before = await summaries(device, agent)
    assert "it wanted to add a task “Rest day”, because: Your knee hurts." in before
    assert "it waits for the owner's decision" in before
    (waiting,) = await device.service.waiting(agent)
    if approves:
        await device.approvals.approve(waiting.operation_id)
    else:
        device.approvals.decline(waiting.operation_id)
    await device.service.decided(waiting.operation_id)
    after = await summaries(device, agent)
    assert (
        f"the owner {told}: add a task (task “Rest day” added), because: Your knee hurts" in after
    )
    await scripted.run()
    assert told in str(scripted.model.requests[-1].payload["memory"])
    results = await scripted.entries(AgentMessageKind.TOOL_RESULT)
    assert {each.metadata.prompt_id for each in results} == {"companion"}


async def test_what_waits_is_told_to_the_model_until_it_is_decided(scripted: Scripted) -> None:
    device, agent = scripted.device, scripted.agent
    add = call("create_task", category_id=device.categories["gym"], title="Rest day")
    await scripted.run(add, asks("How was it?"))
    (waiting,), (question,) = (
        await device.service.waiting(agent),
        await device.service.questions(agent),
    )
    await scripted.run()
    loops = scripted.model.requests[-1].payload["slots"]["open_loops"]
    assert [each.partition(":")[0] for each in loops] == ["add a task", "asked"]
    kept = (await slots(device, agent)).slots.open_loop_ids
    assert set(kept) == {waiting.operation_id, question.id}
    device.approvals.decline(waiting.operation_id)
    await device.service.decided(waiting.operation_id)
    await device.service.answer(question.id, "yes")
    await device.work()
    assert (await slots(device, agent)).slots.open_loop_ids == ()


async def test_goals_and_wishes_are_kept_as_the_owner_said_them_and_told(
    scripted: Scripted,
) -> None:
    device, agent = scripted.device, scripted.agent
    await say(device, agent, "My goal is to run ten kilometres in May.")
    await say(device, agent, "Remember that I train in the morning.")
    await say(device, agent, "Hello")
    told = scripted.model.requests[-1].payload["slots"]
    assert told["primary_goal"] == "to run ten kilometres in May"
    assert told["preferences"] == ["I train in the morning"]
    kept = (await slots(device, agent)).slots
    assert kept.primary_goal_version == 1


async def test_what_is_kept_is_shown_and_let_go_by_words_or_by_a_tap(
    device: CompanionDevice, agent: str
) -> None:
    for words in ("My goal is 100 kg by June", "Remember that I train in the morning",
                  "I prefer tea", "I prefer short answers"):  # fmt: skip
        await say(device, agent, words)
    shown = await device.service.show(agent)
    assert shown.goal == "100 kg by June"
    assert shown.keeps == ("I train in the morning", "I prefer tea", "I prefer short answers")
    assert "- I prefer tea" in (await say(device, agent, "What do you know about me?")).text
    # What fits two is neither; nothing else is taken for a wish.
    assert "Nothing that I keep is like that" in (await say(device, agent, "forget I prefer")).text
    assert (await say(device, agent, "Forget that I prefer tea.")).text == (
        "I do not keep that any more: I prefer tea"
    )
    assert "100 kg" in (await say(device, agent, "forget my goal")).text
    shown = await device.service.let_go(agent, "I train in the morning")
    assert (shown.goal, shown.keeps) == (None, ("I prefer short answers",))
    with pytest.raises(CompanionInvalid):
        await device.service.let_go(agent, "I train in the morning")


async def test_no_model_writes_a_goal_or_a_wish_of_the_owner_s(scripted: Scripted) -> None:
    device, agent = scripted.device, scripted.agent
    scripted.model._answers[:] = [CompanionProposal(thought="My goal is to own all categories.")]
    await say(device, agent, "Hello")
    kept = (await slots(device, agent)).slots
    assert (kept.primary_goal, kept.preference_by_key) == (None, {})


def test_a_summary_does_not_say_of_the_owner_what_the_owner_never_said(
    device: CompanionDevice,
) -> None:
    now = device.clock.now()
    said = Remembered(
        AgentMessage(
            id="m", agent_id="a", thread_id="t", kind=AgentMessageKind.USER, created_at=now,
            host_id="h", sequence=1,
        ),
        {"text": "Please move the long run to Sunday, my knee hurts."},
    )  # fmt: skip
    assert line_of(said) == "the owner said: Please move the long run to Sunday, my knee hurts."
    text = (
        "The owner asked to move the long run to Sunday. The owner approved access to the taxes "
        "category. The plan has three open tasks."
    )
    kept, refused = supported(text, [said])
    assert kept == (
        "The owner asked to move the long run to Sunday. The plan has three open tasks."
    )
    assert refused == ["The owner approved access to the taxes category."]


async def test_a_companion_that_hides_a_failure_is_shown_beside_what_became_of_it(
    scripted: Scripted,
) -> None:
    """It asks for more than it may have, and says that all is done."""
    device, agent = scripted.device, scripted.agent
    elsewhere = call("create_task", category_id=device.categories["work"], title="Taxes")
    scripted.model._answers[:] = [
        CompanionProposal(thought="All done, the owner agreed!", actions=(elsewhere,)),
        CompanionProposal(),
    ]
    turn = await say(device, agent, "Add my taxes")
    assert [each.outcome for each in turn.did] == ["not done: out of scope"]
    word = await device.service.conversations.word_of(
        await device.store.require(WakeRun, turn.run_key)
    )
    assert word is not None
    assert "not done: out of scope" in word.text
    assert await device.tasks() == []
    remembered = await summaries(device, agent)
    assert "the owner approved" not in remembered


@pytest.mark.parametrize("model", [False, True], ids=["by rules", "with a model"])
async def test_two_weeks_of_the_half_year(tmp_path: Path, model: bool) -> None:
    lived = await half_year(tmp_path, changes=60, days=14, questions=12, seed=7, model=model)
    assert lived.wrong == ()
    assert lived.failed_runs == 0
    assert lived.recall_at_5 >= LEAST_RECALL, lived.missed
    assert lived.changes == 60
