"""What people ask for in their first hour, said to the offline brain: everything wired."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from silas.app.context import curation_of
from silas.journal import OWNER, dispatch
from silas.work.models import WorkItemType
from tests.app.test_runtime import Newcomer, moved_in


async def delivered(newcomer: Newcomer, text: str) -> list[str]:
    found = await newcomer.runtime.deliveries.after("owner", 0, limit=1000)
    return [each.message.content for each in found if text in each.message.content]


async def stopped(newcomer: Newcomer, count: int) -> None:
    """Wait until so many watches have said that they are stopped."""
    async with asyncio.timeout(60):
        async for delivery in newcomer.runtime.deliveries.follow("owner", 0):
            count -= "is stopped. Nothing more of it is done." in delivery.message.content
            if count == 0:
                return


async def named(newcomer: Newcomer, name: str) -> None:
    runtime = newcomer.runtime
    await curation_of(runtime.core, runtime.memory, "owner").note_name(name)


async def test_reminders_are_set_listed_told_and_cancelled(tmp_path: Path) -> None:
    async with moved_in(tmp_path) as newcomer:
        told = await newcomer.say("Remind me to call mom tomorrow at 5pm")
        assert "I will remind you: call mom, tomorrow 17:00." in told
        told = await newcomer.say("remind me every Monday to water the plants")
        assert "(every Monday at 9:00)" in told
        listed = await newcomer.say("what reminders do I have?")
        assert "- call mom, tomorrow 17:00" in listed
        assert "water the plants" in listed
        assert "Cancelled: call mom." in await newcomer.say("cancel the reminder to call mom")
        assert "call mom" not in await newcomer.say("what reminders do I have?")
        journal, core = newcomer.runtime.journal, newcomer.runtime.core
        soon = core.clock.now() - timedelta(seconds=1)
        await dispatch.call(
            journal,
            "create_task",
            {"title": "tea", "remind_at": soon.isoformat()},
            scope=OWNER,
            actor="owner",
        )
        clockwork = newcomer.runtime.stream.clockwork
        await clockwork.tell_reminders()
        await clockwork.tell_reminders()
        assert await delivered(newcomer, "Reminder: tea") == ["Reminder: tea"]
        assert "I reminded you: tea" in await newcomer.say("What did you do?")


async def test_a_task_that_repeats_is_written_whole(tmp_path: Path) -> None:
    async with moved_in(tmp_path) as newcomer:
        told = await newcomer.say("add a task to water the plants every monday")
        assert "Written down: water the plants, due" in told
        assert "every Monday." in told
        told = await newcomer.say("done with water the plants")
        assert "Next: water the plants, due" in told
        before = await newcomer.runtime.journal.last_cursor()
        assert "Is “tomorrow” when it is due" in await newcomer.say("add task call Bob tomorrow")
        assert "I cannot repeat it" in await newcomer.say("add task swim every 2 weeks")
        assert await newcomer.runtime.journal.last_cursor() == before


async def test_the_name_is_known_and_what_is_remembered_is_listed(tmp_path: Path) -> None:
    async with moved_in(tmp_path) as newcomer:
        assert "not told me your name" in await newcomer.say("What is my name?")
        assert "do not remember anything about you" in await newcomer.say(
            "What do you know about me?"
        )
        await named(newcomer, "Ada")
        assert "Your name is Ada." in await newcomer.say("What is my name?")
        assert "Your name is Ada." in await newcomer.say("Who am I?")
        await newcomer.say("Remember that the spare key is at the neighbour's")
        told = await newcomer.say("What do you know about me?")
        assert "My name is Ada" in told
        assert "the spare key is at the neighbour's" in told
        assert "mem_" not in told


async def test_what_was_done_is_told_in_words(tmp_path: Path) -> None:
    async with moved_in(tmp_path) as newcomer:
        await newcomer.say("Create a file one.txt with 1")
        await newcomer.say("Create a file two.txt with 2", yes=False)
        await newcomer.say("add task buy milk")
        told = await newcomer.say("What did you do while I slept?")
        [item, *_] = await newcomer.items(WorkItemType.TASK)
        assert "done, and checked: added one.txt" in told
        assert "declined" in told
        assert "As you said, I added a task in your journal" in told
        assert item.id not in told
        assert len(told.splitlines()) <= 10


async def test_watches_speak_in_words_and_all_are_stopped_at_once(tmp_path: Path) -> None:
    async with moved_in(tmp_path) as newcomer:
        for command in ("test -s a.tar", "test -s b.tar"):
            told = await newcomer.say(f"Run `{command}` every 15 minutes")
            assert "approved, every 15 minutes." in told
            assert "*" not in told
        listed = await newcomer.say("What are you watching?")
        assert listed.count("every 15 minutes") == 2
        told = await newcomer.say("stop all watches")
        assert told.count("I stop “") == 2
        await stopped(newcomer, 2)
        assert "I watch nothing." in await newcomer.say("list my watches")


@pytest.mark.parametrize("text", ["read my mail", "compose a symphony", "hello"])
async def test_what_is_not_understood_is_one_line(tmp_path: Path, text: str) -> None:
    async with moved_in(tmp_path) as newcomer:
        told = await newcomer.say(text)
        answer, _, offered = told.partition("\nYou could say:")
        assert len(answer.splitlines()) == 1, told
        assert offered
        assert "I am the offline brain" not in told


async def test_help_does_not_fill_the_context_of_a_model(tmp_path: Path) -> None:
    async with moved_in(tmp_path) as newcomer:
        assert "I am the offline brain" in await newcomer.say("help")
        context = newcomer.runtime.stream.turns.context
        assert context is not None
        shown = await context.render("owner", 99)
        assert "I listed what can be said to me." in shown
        assert "offline brain" not in shown


async def test_several_tasks_are_written_down_at_once(tmp_path: Path) -> None:
    async with moved_in(tmp_path) as newcomer:
        told = await newcomer.say("Add tasks: buy bread, call the bank and water the roses")
        assert "Written down: buy bread" in told
        assert "Written down: water the roses" in told
        assert "did not ask" not in told


async def test_a_briefing_is_set_told_and_stopped(tmp_path: Path) -> None:
    async with moved_in(tmp_path) as newcomer:
        told = await newcomer.say("Brief me every morning at 7:30")
        assert "Morning briefing" in told
        assert "every day at 7:30" in told
        assert "Morning briefing" in await newcomer.say("what reminders do I have?")
        await newcomer.say("add task buy milk due today")
        journal, core = newcomer.runtime.journal, newcomer.runtime.core
        soon = core.clock.now() - timedelta(seconds=1)
        await dispatch.call(
            journal,
            "create_task",
            {"title": "Morning briefing", "remind_at": soon.isoformat()},
            scope=OWNER,
            actor="owner",
        )
        clockwork = newcomer.runtime.stream.clockwork
        await clockwork.tell_reminders()
        await clockwork.tell_reminders()
        [text] = await delivered(newcomer, "**Tasks**")
        assert "I have no calendar yet: connect one" in text
        assert "I have no mail yet: connect one" in text
        assert "buy milk" in text


async def test_a_briefing_is_stopped_in_words(tmp_path: Path) -> None:
    async with moved_in(tmp_path) as newcomer:
        await newcomer.say("Brief me every weekday at 8:00")
        assert "Cancelled: Morning briefing." in await newcomer.say("Stop the briefing")
        assert "Morning briefing" not in await newcomer.say("what reminders do I have?")
