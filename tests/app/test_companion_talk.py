"""Companions that are spoken to from the conversation with Silas, and what they leave in it."""

from pathlib import Path
from typing import Any

from silas.companions.erasure import ErasureWish
from silas.journal import OWNER, dispatch
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
