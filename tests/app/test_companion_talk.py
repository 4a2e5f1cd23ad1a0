"""Companions that are spoken to from the conversation with Silas, and what they leave in it."""

from pathlib import Path
from typing import Any

import pytest

from silas.app.core import make_core
from silas.cli.companions import ask_companions
from silas.companions.erasure import ErasureWish
from silas.journal import OWNER, dispatch
from silas.settings.load import load_settings
from tests.app.test_companion_cards import companion_cards, eventually
from tests.app.test_runtime import Newcomer, moved_in

CANARY = "zanzibarish"


async def coach_of(newcomer: Newcomer) -> str:
    runtime = newcomer.runtime
    by: Any = {"scope": OWNER, "actor": "owner"}
    made = await dispatch.call(runtime.journal, "create_category", {"name": "gym"}, **by)
    gym = made.payload["category_id"]
    for title in ("Squats", f"The {CANARY} stretch"):
        wanted = {"title": title, "category_id": gym}
        await dispatch.call(runtime.journal, "create_task", wanted, **by)
    return (await runtime.companions.service.new("gym_coach", category_ids=[gym])).id


async def cards_of_a_planner(newcomer: Newcomer) -> str:
    """Two actions with the canary in them: one was approved and done, one waits for its card."""
    runtime = newcomer.runtime
    by: Any = {"scope": OWNER, "actor": "owner"}
    made = await dispatch.call(runtime.journal, "create_category", {"name": "work"}, **by)
    work = made.payload["category_id"]
    planner = (await runtime.companions.service.new("planner", category_ids=[work])).id
    for number in range(2):
        wanted = {
            "title": f"{CANARY} {number}",
            "category_id": work,
            "checklist_items": ["Stretch"],
        }
        task = await dispatch.call(runtime.journal, "create_task", wanted, **by)
        done = {"task_id": task.payload["task_id"], "fields": {"status": "done"}}
        await dispatch.call(runtime.journal, "update_task_fields", done, **by)
        (card,) = await eventually(lambda: companion_cards(runtime))
        if number == 0:
            yes = {"verdict": "approve"}
            await runtime.reviews.questions.answer_with_vault(card.question_id, yes)
            await eventually(lambda: _done(newcomer))
    return planner


async def _done(newcomer: Newcomer) -> bool:
    found = await newcomer.runtime.journal.list_tasks()
    return any("(follow-up)" in each.title for each in found)


def files_with(newcomer: Newcomer, *words: str) -> set[str]:
    """The files of the data directory that hold one of these, byte by byte; but the journal's."""
    folder = newcomer.runtime.core.paths.data_dir
    return {
        path.name
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("journal.db")
        if any(word.encode() in path.read_bytes().lower() for word in words)
    }


async def test_who_asks_waits_for_the_answer_and_not_for_the_promise_of_one(
    tmp_path: Path,
) -> None:
    async with moved_in(tmp_path) as newcomer:
        agent = await coach_of(newcomer)
        told = await newcomer.say("ask the coach what is open")
        assert told.startswith("I asked Gym Coach. The answer comes into this conversation.")
        assert "Gym Coach: Open: “Squats”" in told
        await newcomer.runtime.companions.service.pause(agent)
        told = await newcomer.say("ask the coach what is open")
        assert "Gym Coach: It is paused, so it did not hear this." in told
        assert "What shall I ask Gym Coach?" in await newcomer.say("ask the coach")


async def test_a_word_is_gone_from_the_conversation_its_search_and_every_byte(
    tmp_path: Path,
) -> None:
    async with moved_in(tmp_path) as newcomer:
        runtime = newcomer.runtime
        agent, service = await coach_of(newcomer), runtime.companions.service
        told = await newcomer.say(f"tell the coach remember that {CANARY} is my word")
        assert f"I keep that: {CANARY} is my word" in told
        assert CANARY in await newcomer.say("ask the coach what is open")
        assert "Squats" in await newcomer.say("ask the coach what comes next")
        assert files_with(newcomer, CANARY) != set()

        wish = ErasureWish(words=CANARY)
        looked = await service.forget(wish)
        receipt = await service.forget(wish, really=True)
        assert files_with(newcomer, CANARY) == set()
        assert "words of theirs in your conversations: 3" in receipt.in_words
        assert "words to them in your conversations: 1" in receipt.in_words
        assert looked.removed["words of theirs in your conversations"] == 3
        # What does not hold it is still there.
        assert files_with(newcomer, "ask the coach what comes next") != set()
        assert "“Squats”" in await newcomer.say("ask the coach what comes next")
        turns = (await service.conversation(agent)).turns
        assert [(each.forgotten, bool(each.text)) for each in turns if each.said][-2:] == [
            (True, False), (False, True)
        ]  # fmt: skip
        shown = await service.show(agent)
        assert (shown.companion.display_name, shown.keeps) == ("Gym Coach", ())


async def test_who_is_forgotten_whole_leaves_no_word_in_the_conversation(tmp_path: Path) -> None:
    async with moved_in(tmp_path) as newcomer:
        service = newcomer.runtime.companions.service
        agent = await coach_of(newcomer)
        await newcomer.say("tell the coach remember that I like bulgarian bags")
        await newcomer.say("what is open?")
        await service.forget(ErasureWish(agent_id=agent), really=True)
        assert files_with(newcomer, "bulgarian", "gym coach:", "asked gym coach") == set()
        assert files_with(newcomer, "what is open?") != set()
        assert (await newcomer.runtime.core.audit.verify_chain())[0]


@pytest.mark.parametrize("whole", [False, True])
async def test_what_is_forgotten_without_a_server_is_gone_from_cards_tokens_bus_and_conversation(
    tmp_path: Path, whole: bool
) -> None:
    async with moved_in(tmp_path) as newcomer:
        agents = [await coach_of(newcomer), await cards_of_a_planner(newcomer)]
        assert CANARY in await newcomer.say(f"tell the coach remember that {CANARY} is my word")
        assert CANARY in await newcomer.say("ask the coach what is open")
        core = newcomer.runtime.core
    settings = load_settings(
        data_dir=str(core.paths.data_dir), config_file=None, environ={}, cwd=tmp_path
    )
    async with make_core(settings, core.vault) as core:
        for agent in agents:
            said = {"agent_id": agent, "said": f"What of {CANARY}?"}
            await ask_companions(core, "wake", said)
        wishes = [{"agent_id": each} for each in agents] if whole else [{"words": CANARY}]
        receipts = [
            await ask_companions(core, "forget", {"wish": each, "really": True}) for each in wishes
        ]
        assert (await core.audit.verify_chain())[0]
    removed = [name for each in receipts for name in each["removed"]]
    assert {"cards", "approved bytes", "messages on the bus"} <= set(removed), removed
    assert files_with(newcomer, CANARY) == set()
    if whole:
        assert files_with(newcomer, "gym coach:", "asked gym coach") == set()
