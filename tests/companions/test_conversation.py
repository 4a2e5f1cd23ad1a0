"""Talking: what is said is kept and shown, questions are answered in words, offline rules
understand their own examples, and what is no news is not told.
"""

from datetime import timedelta
from pathlib import Path

import pytest

from silas.agents.companion import CompanionAgent
from silas.agents.models.choices import OutputMode, Role
from silas.companions.conversation import CompanionWord
from silas.companions.errors import CompanionInvalid
from silas.companions.messages import WakeRun
from silas.companions.models import WakeReason, WakeStatus
from silas.companions.ports import CompanionProposal
from silas.companions.views import TurnView
from silas.testing.companions import CompanionDevice, opened_device
from silas.testing.fakes import FakeClock
from tests.agents.script import Script
from tests.agents.test_companion import request
from tests.companions.test_workflow import Scripted, asks, call, scripted

__all__ = ["scripted"]


@pytest.fixture
async def coach(device: CompanionDevice) -> str:
    return (await device.service.new("gym_coach", category_ids=[device.categories["gym"]])).id


async def say(device: CompanionDevice, agent: str, text: str) -> TurnView:
    """The turn that the words lead to, when it is over."""
    device.clock.advance(seconds=10)
    key = (await device.service.say(agent, text)).run_key
    await device.work()
    turns = (await device.service.conversation(agent)).turns
    return next(each for each in turns if each.run_key == key)


class TestWhatIsSaid:
    async def test_the_answer_of_a_model_is_shown_with_what_it_did(
        self, scripted: Scripted
    ) -> None:
        device, agent = scripted.device, scripted.agent
        add = call("create_task", category_id=device.categories["gym"], title="Squats")
        scripted.model._answers[:] = [
            CompanionProposal(thought="Start with the squats.", actions=(add,)),
            CompanionProposal(),
        ]
        turn = await say(device, agent, "What next?")
        assert (turn.said, turn.text) == ("What next?", "Start with the squats.")
        (did,) = turn.did
        assert (did.what, did.outcome, did.waits) == (
            "add a task", "waits for your decision", True
        )  # fmt: skip
        assert did.changes == ("task “Squats” added",)
        await device.approvals.approve(did.operation_id)
        await device.service.decided(did.operation_id)
        shown = (await device.service.conversation(agent)).turns[-1]
        assert [each.outcome for each in shown.did] == ["done"]

    async def test_a_turn_without_an_answer_says_why(self, scripted: Scripted) -> None:
        scripted.model._answers[:] = [CompanionProposal(fallback="Nobody is there.")]
        turn = await say(scripted.device, scripted.agent, "What next?")
        assert (turn.text, turn.problem) == ("", "Nobody is there.")
        assert turn.status is WakeStatus.FAILED_TERMINAL

    async def test_who_is_paused_says_that_it_did_not_hear(self, scripted: Scripted) -> None:
        device, agent = scripted.device, scripted.agent
        await device.service.pause(agent)
        turn = await say(device, agent, "Hello?")
        assert "paused" in str(turn.problem)

    async def test_words_that_are_none_are_refused(
        self, device: CompanionDevice, agent: str
    ) -> None:
        for text in ("  ", "x" * 32_001):
            with pytest.raises(CompanionInvalid):
                await device.service.say(agent, text)

    async def test_a_conversation_is_ended_and_the_next_words_begin_another(
        self, scripted: Scripted
    ) -> None:
        device, agent = scripted.device, scripted.agent
        first = await say(device, agent, "Hello")
        again = await say(device, agent, "Still there?")
        assert first.session_id == again.session_id
        ended = await device.service.end_conversation(agent)
        assert ended.session is None
        assert (await say(device, agent, "Hello")).session_id != first.session_id
        await device.companions.compactor.work()
        text = str(scripted.model.requests[-1].payload["memory"])
        assert "Still there?" not in text, "not summarised before the third was asked"
        await say(device, agent, "And now?")
        assert "Still there?" in str(scripted.model.requests[-1].payload["memory"]["summaries"])

    async def test_what_was_said_before_is_read_page_by_page(self, scripted: Scripted) -> None:
        device, agent = scripted.device, scripted.agent
        for number in range(5):
            await say(device, agent, f"Word {number}")
        newest = await device.service.conversation(agent, limit=2)
        assert [each.said for each in newest.turns] == ["Word 3", "Word 4"]
        assert newest.earlier
        before = await device.service.conversation(agent, before=newest.turns[0].at, limit=9)
        assert [each.said for each in before.turns] == ["Word 0", "Word 1", "Word 2"]
        assert not before.earlier


class TestQuestionsInWords:
    async def test_yes_in_words_is_the_answer_and_what_waits_goes_on(
        self, scripted: Scripted
    ) -> None:
        device, agent = scripted.device, scripted.agent
        gated = call("get_or_create_day_plan", plan_date="2026-01-01")
        scripted.model._answers[:] = [
            CompanionProposal(
                actions=(asks("Begin a plan?"), gated.model_copy(update={"after": (0,)}))
            ),
            CompanionProposal(),
        ]
        turn = await say(device, agent, "Plan my day")
        assert [each.prompt_text for each in turn.questions] == ["Begin a plan?"]
        await device.service.say(agent, "Yes.")
        assert await device.service.questions(agent) == ()
        (shown,) = [
            each for each in (await device.service.conversation(agent)).turns if each.questions
        ]
        assert shown.questions[0].answer == "yes"

    async def test_two_questions_are_not_answered_by_one_yes(self, scripted: Scripted) -> None:
        device, agent = scripted.device, scripted.agent
        scripted.model._answers[:] = [
            CompanionProposal(actions=(asks("One?"), asks("Two?"))), CompanionProposal()
        ]  # fmt: skip
        await say(device, agent, "Go")
        await say(device, agent, "yes")
        assert len(await device.service.questions(agent)) == 2

    async def test_a_question_is_left_and_does_not_come_back_within_a_week(
        self, scripted: Scripted
    ) -> None:
        device, agent = scripted.device, scripted.agent
        gated = call("get_or_create_day_plan", plan_date="2026-01-01")
        asking = CompanionProposal(
            actions=(asks("Begin a plan?"), gated.model_copy(update={"after": (0,)}))
        )
        scripted.model._answers[:] = [asking, CompanionProposal()]
        await say(device, agent, "Plan my day")
        (asked,) = await device.service.questions(agent)
        await device.service.leave(asked.id)
        assert await device.service.questions(agent) == ()
        assert await device.service.waiting(agent) == ()
        with pytest.raises(CompanionInvalid):
            await device.service.leave(asked.id)
        for days, open_ones in ((1, 0), (7, 1)):
            device.clock.advance(days=days)
            scripted.model._answers[:] = [asking, CompanionProposal()]
            await say(device, agent, "Plan my day")
            assert len(await device.service.questions(agent)) == open_ones


class TestOfflineRulesUnderstandTheirOwnExamples:
    async def finished(self, device: CompanionDevice, *titles: str) -> list[str]:
        tasks = [await device.task(title) for title in titles]
        await device.finish(tasks[0])
        await device.work()
        return tasks

    @pytest.mark.parametrize("words", ["log 45 minutes on it", "45", "about 45 minutes.", "45 m"])
    async def test_the_same_words_answer_it_in_the_conversation(
        self, device: CompanionDevice, coach: str, words: str
    ) -> None:
        squats, _, _ = await self.finished(device, "Squats", "Bench press", "Rowing")
        turn = await say(device, coach, words)
        assert turn.text == "45 minutes on “Squats”, as you have said."
        (waiting,) = await device.service.waiting(coach)
        assert waiting.arguments["task_id"] == squats
        assert waiting.changes == ("45 minutes added",)
        assert await device.service.questions(coach) == ()

    async def test_of_two_that_were_asked_about_it_asks_which(
        self, device: CompanionDevice, coach: str
    ) -> None:
        _, deadlift, _ = await self.finished(device, "Squats", "Deadlift", "Rowing")
        await device.finish(deadlift)
        await device.work()
        turn = await say(device, coach, "log 45 minutes on it")
        assert [sorted(each.options) for each in turn.questions] == [["Deadlift", "Squats"]]

    @pytest.mark.parametrize(
        ("words", "minutes"),
        [("log 1 hour on squats", 60), ("add an hour and a half to squats", 90),
         ("log 1h30 on squats", 90), ("record half an hour of squats", 30),
         ("log 2 hours and 15 minutes on squats", 135)],
    )  # fmt: skip
    async def test_time_is_said_as_people_say_it(
        self, device: CompanionDevice, coach: str, words: str, minutes: int
    ) -> None:
        await device.task("Squats")
        assert (await say(device, coach, words)).text.startswith(f"{minutes} minutes on “Squats”")

    @pytest.mark.parametrize("words", ["log 45 minutes on it", "45", "about 45 minutes."])
    async def test_how_long_did_it_take_is_answered_as_the_question_says(
        self, device: CompanionDevice, coach: str, words: str
    ) -> None:
        squats, _ = await self.finished(device, "Squats", "Bench press")
        (question,) = await device.service.questions(coach)
        assert "log 45 minutes on it" in question.prompt_text
        device.clock.advance(minutes=1)
        await device.service.answer(question.id, words)
        await device.work()
        (waiting,) = await device.service.waiting(coach)
        assert waiting.tool_name == "create_retrospective_time_entry"
        assert waiting.arguments["task_id"] == squats
        shown = (await device.service.conversation(coach)).turns[-1]
        assert shown.text == "45 minutes on “Squats”, as you have said."

    async def test_which_of_these_is_answered_by_one_of_them(
        self, device: CompanionDevice, coach: str
    ) -> None:
        tasks = {name: await device.task(name) for name in ("Run long", "Run fast")}
        turn = await say(device, coach, "log 30 minutes on run")
        (asked,) = turn.questions
        assert sorted(asked.options) == ["Run fast", "Run long"]
        assert "log 30 minutes on run" in asked.prompt_text
        answered = await say(device, coach, "run long")
        assert answered.text == "30 minutes on “Run long”, as you have said."
        (waiting,) = await device.service.waiting(coach)
        assert waiting.arguments["task_id"] == tasks["Run long"]

    async def test_it_is_asked_about_where_several_are_open(
        self, device: CompanionDevice, coach: str
    ) -> None:
        for title in ("Squats", "Bench press"):
            await device.task(title)
        turn = await say(device, coach, "log 20 minutes on it")
        assert [sorted(each.options) for each in turn.questions] == [["Bench press", "Squats"]]

    async def test_a_name_that_nobody_has_is_told(
        self, device: CompanionDevice, coach: str
    ) -> None:
        turn = await say(device, coach, "log 20 minutes on swimming")
        assert turn.text.startswith("I found no single task of this name")

    async def test_plain_questions_are_answered_from_the_journal(
        self, device: CompanionDevice, agent: str
    ) -> None:
        await device.task("Taxes", due_at=device.clock.now() - timedelta(days=2))
        await device.task("Squats", due_at=device.clock.now() + timedelta(days=1))
        late = await say(device, agent, "What is overdue?")
        assert late.text.startswith("Overdue: “Taxes”")
        assert "Squats" not in late.text
        assert "“Squats”" in (await say(device, agent, "What is open?")).text
        assert (await say(device, agent, "What comes next?")).text.startswith("Next: “Taxes”")
        assert "I understand: log 45 minutes" in (await say(device, agent, "Sing to me")).text


class TestAttention:
    async def by_itself(self, scripted: Scripted, thought: str, **more: object) -> WakeRun:
        device = scripted.device
        device.clock.advance(minutes=5)
        scripted.model._answers[:] = [CompanionProposal(thought=thought, **more)]  # type: ignore[arg-type]
        await device.finish(await device.task("Squats", checklist_items=("a",)))
        key = (await device.work())[-1]
        return await device.store.require(WakeRun, key)

    async def shown(self, scripted: Scripted) -> list[str]:
        found = await scripted.device.service.conversation(scripted.agent)
        return [each.text or str(each.problem) for each in found.turns]

    async def test_the_same_word_is_told_once_and_the_rest_is_counted(
        self, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # What it answered offline is no model's word, so the name of the scripted one is its own.
        device = scripted.device
        reader = device.service.conversations
        monkeypatch.setattr("silas.companions.conversation.OFFLINE_MODEL", "none")
        words = [
            await reader.word_of(await self.by_itself(scripted, "Rest today.")) for _ in range(3)
        ]
        assert [each is not None for each in words] == [True, False, False]
        assert await self.shown(scripted) == ["Rest today."]
        found = await device.service.conversation(scripted.agent)
        assert found.quiet == 2
        assert await reader.word_of(await self.by_itself(scripted, "Run today.")) is not None
        assert await self.shown(scripted) == ["Rest today.", "Run today."]

    async def test_a_run_with_nothing_to_say_is_no_news(self, scripted: Scripted) -> None:
        run = await self.by_itself(scripted, "")
        assert await scripted.device.service.conversations.word_of(run) is None
        assert await self.shown(scripted) == []

    async def test_a_failure_is_told_once_and_counted(self, scripted: Scripted) -> None:
        reader = scripted.device.service.conversations
        runs = [await self.by_itself(scripted, "", fallback="Down.") for _ in range(2)]
        words = [await reader.word_of(run) for run in runs]
        assert [each.text if each else None for each in words] == ["Down.", None]
        (turn,) = (await scripted.device.service.conversation(scripted.agent)).turns
        assert (turn.problem, turn.repeats) == ("Down.", 1)

    async def test_who_asks_elsewhere_is_answered_there(self, tmp_path: Path) -> None:
        told: list[CompanionWord] = []

        async def hear(word: CompanionWord) -> None:
            told.append(word)

        async with opened_device(tmp_path) as device:
            made = await device.service.new("planner", category_ids=[device.categories["gym"]])
            key = (
                await device.service.say(made.id, "What is open?", reply_to={"trace_id": "t"})
            ).run_key
            await device.work()
            word = await device.service.conversations.word_of(
                await device.store.require(WakeRun, key)
            )
            assert word is not None
            assert word.reply_to == {"trace_id": "t"}
            assert word.is_told
            assert word.text == "Nothing is open in what I may see."

    async def test_who_answers_elsewhere_is_answered_there_too(
        self, device: CompanionDevice, coach: str
    ) -> None:
        await device.finish(await device.task("Squats"))
        await device.work()
        place = {"trace_id": "t", "message_id": "m"}
        device.clock.advance(seconds=10)
        woken = await device.service.say(coach, "half an hour", reply_to=place)
        await device.work()
        run = await device.store.require(WakeRun, woken.run_key)
        word = await device.service.conversations.word_of(run)
        assert woken.replies
        assert word is not None
        assert word.reply_to == place
        assert word.text.startswith("30 minutes on “Squats”")

    async def test_who_waits_elsewhere_hears_also_that_there_is_no_answer(
        self, scripted: Scripted
    ) -> None:
        device, reader = scripted.device, scripted.device.service.conversations
        scripted.model._answers[:] = [CompanionProposal()]
        woken = await device.service.say(scripted.agent, "Hello?", reply_to={"trace_id": "t"})
        await device.work()
        word = await reader.word_of(await device.store.require(WakeRun, woken.run_key))
        assert word is not None
        assert word.text == "It had nothing to say."


async def test_the_answer_is_heard_while_it_grows_and_only_where_somebody_waits() -> None:
    heard: list[tuple[str, str, str]] = []
    script = Script(({"thought": "Start with the squats, then rest for two minutes."},))
    agent = CompanionAgent(
        script.player(role=Role.PLANNER, mode=OutputMode.NATIVE),
        clock=FakeClock(),
        heard=lambda *piece: heard.append(piece),
    )
    await agent.propose(request())
    assert heard == []
    asked = request().model_copy(update={"wake_reason": WakeReason.USER_INITIATED})
    answer = await agent.propose(asked)
    texts = [text for _, _, text in heard]
    assert len(texts) > 1
    assert texts == sorted(texts, key=len)
    assert all(answer.thought.startswith(text) for text in texts)
    assert heard[-1][:2] == ("a", "run")
