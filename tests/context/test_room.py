"""The context as a turn uses it: on the disk, brought back, and taken part in by several."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silas.app.context import context_jobs, open_context
from silas.app.context_room import Contexts
from silas.app.ground import Ground, OnDemandVault, make_ground
from silas.app.memory import open_memory
from silas.app.settings import load_settings
from silas.context.models import ContextZone
from silas.kernel import TaintLevel
from silas.memory.models import MemoryItem, MemoryQuery, MemoryType
from silas.storage import briefly
from silas.stream.ports import ChronicleEntry, ContextRoom
from silas.testing import FakeClock, MemoryVault


def entry(number: int, text: str = "", scope_id: str = "ann", **more: object) -> ChronicleEntry:
    fields: dict[str, object] = {
        "entry_id": f"msg_{number}.in",
        "scope_id": scope_id,
        "turn_number": number,
        "source": "channel:web",
        "text": text or f"[owner] ann: message {number}",
        "taint": TaintLevel.OWNER,
    }
    return ChronicleEntry.model_validate(fields | more)


@pytest.fixture
async def ground(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Ground]:
    loaded = load_settings(data_dir=str(tmp_path), config_file=None, environ={}, cwd=tmp_path)
    vault = OnDemandVault(MemoryVault)  # type: ignore[arg-type]
    async with make_ground(loaded, vault, clock=clock) as ground:
        ground.keys.generate_keypair()
        yield ground


async def say(room: Contexts, said: ChronicleEntry) -> str | None:
    """Let something be said, as a turn does it; returns its session."""
    saying = await room.saying(said)
    await briefly(room.chronicle._database, saying.write)
    await saying.show()
    return saying.session


def memory(memory_id: str, content: str, clock: FakeClock, **more: object) -> MemoryItem:
    fields: dict[str, object] = {
        "memory_id": memory_id,
        "scope_id": "ann",
        "content": content,
        "taint": TaintLevel.OWNER,
        "created_at": clock.now(),
        "updated_at": clock.now(),
    }
    return MemoryItem.model_validate(fields | more)


async def test_it_is_the_room_that_the_stream_asks_for(ground: Ground) -> None:
    room: ContextRoom = open_context(ground)
    assert await room.render("ann", 1) == ""
    assert await room.taint("ann") is TaintLevel.OWNER


async def test_a_restart_keeps_the_conversation(ground: Ground) -> None:
    before = open_context(ground)
    for number in range(80):
        await say(before, entry(number))
    after = open_context(ground)
    text = await after.render("ann", 80)
    assert "message 30\n" in text
    assert "message 29\n" not in text, "fifty entries are brought back"
    assert "[SYSTEM] Session rehydrated after restart." in text
    assert await after.render("bob", 1) == ""


async def test_a_turn_that_is_done_again_adds_nothing(ground: Ground) -> None:
    room = open_context(ground)
    await say(room, entry(1))
    text = await room.render("ann", 1)
    await say(room, entry(1))
    assert await room.render("ann", 1) == text
    again = open_context(ground)
    await say(again, entry(1))
    assert (await again.render("ann", 1)).count("message 1") == 1
    assert [each.turn_count for each in await room.sessions.of_scope("ann")] == [1, 1]


async def test_a_session_begins_goes_on_after_a_restart_and_ends_in_silence(
    ground: Ground, clock: FakeClock
) -> None:
    room = open_context(ground)
    first = await say(room, entry(1))
    clock.advance(minutes=20)
    again = open_context(ground)
    await say(again, entry(2))
    assert await say(again, entry(2)) == first, "a restart is no silence"
    assert first is not None
    assert (await again.sessions.get("ann", first)).turn_count == 2
    clock.advance(minutes=31)
    second = await say(again, entry(3))
    assert second != first
    assert not (await again.sessions.get("ann", first)).active
    clock.advance(minutes=31)
    for job in context_jobs(ground):
        await job.run()
    assert second is not None
    assert not (await again.sessions.get("ann", second)).active


async def test_what_another_process_said_is_seen(ground: Ground) -> None:
    here, there = open_context(ground), open_context(ground)
    await say(here, entry(1))
    await say(there, entry(2))
    await say(there, entry(3, "bob's", scope_id="bob"))
    await say(here, entry(4))
    text = await here.render("ann", 4)
    assert [text.index(f"message {number}") for number in (1, 2, 4)] == sorted(
        text.index(f"message {number}") for number in (1, 2, 4)
    )
    assert "bob's" not in text


async def test_what_was_committed_and_not_shown_comes_with_the_next(ground: Ground) -> None:
    room = open_context(ground)
    await say(room, entry(1))
    late = await room.saying(entry(2))
    await briefly(ground.database, late.write)
    await say(room, entry(3))
    await late.show()
    text = await room.render("ann", 3)
    places = [text.index(f"message {number}") for number in (1, 2, 3)]
    assert places == sorted(places)
    assert text.count("message 2") == 1


async def test_what_was_not_committed_is_not_shown(ground: Ground) -> None:
    room = open_context(ground)
    await say(room, entry(1))
    lost = await room.saying(entry(2))
    await lost.show()
    assert "message 2" not in await room.render("ann", 2)


async def test_many_at_once_bring_it_back_once(ground: Ground) -> None:
    await say(open_context(ground), entry(1))
    room = open_context(ground)
    await asyncio.gather(*(say(room, entry(number)) for number in range(2, 30)))
    text = await room.render("ann", 30)
    assert text.count("rehydrated") == 1
    assert all(text.count(f"message {number}\n") == 1 for number in range(1, 30))


async def test_secrets_reach_neither_the_context_nor_the_disk(ground: Ground) -> None:
    ground.vault.set("mail", b"correct horse battery")
    room = open_context(ground)
    await say(room, entry(1, "my password is correct horse battery"))
    await room.add_plan("ann", "wi_1", markdown="use correct horse battery", taint=TaintLevel.OWNER)
    assert "correct horse" not in await room.render("ann", 1)
    (kept,) = await room.chronicle.get_recent("ann", 9)
    assert "correct horse" not in kept.content


class TestPlans:
    async def test_the_newest_stays_and_the_one_before_may_leave(self, ground: Ground) -> None:
        room = open_context(ground)
        await room.add_plan("ann", "wi_1", markdown="# One", taint=TaintLevel.OWNER)
        await room.add_plan("ann", "wi_2", markdown="# Two", taint=TaintLevel.EXTERNAL)
        items = room.manager.get_zone("ann", ContextZone.WORKSPACE)
        assert [(each.content, each.pinned) for each in items] == [
            ("# One", False),
            ("# Two", True),
        ]
        assert await room.taint("ann") is TaintLevel.EXTERNAL

    async def test_one_that_is_too_long_to_stay_is_shown_as_long_as_there_is_room(
        self, ground: Ground
    ) -> None:
        room = open_context(ground)
        await room.add_plan("ann", "wi_1", markdown="word " * 40_000, taint=TaintLevel.OWNER)
        (plan,) = room.manager.get_zone("ann", ContextZone.WORKSPACE)
        assert not plan.pinned
        await room.enforce_budget("ann", 1, current_goal=None)
        assert room.manager.get_zone("ann", ContextZone.WORKSPACE) == []


class TestDirectives:
    async def test_the_new_ones_take_the_place_of_the_old(self, ground: Ground) -> None:
        room = open_context(ground)
        await room.set_directives("ann", "Be brief.")
        await room.set_directives("ann", "Be warm.")
        text = await room.render("ann", 1)
        assert "Be brief." not in text
        assert text.startswith("--- system | persona:directives ---\nBe warm.")
        await room.set_directives("ann", "")
        assert await room.render("ann", 1) == ""

    async def test_too_many_are_no_reason_not_to_answer(self, ground: Ground) -> None:
        room = open_context(ground)
        await room.set_directives("ann", "word " * 10_000)
        assert await room.render("ann", 1) == ""


async def test_a_new_profile_is_written_down_once(ground: Ground) -> None:
    room = open_context(ground)
    for _ in range(3):
        await room.set_profile("ann", "coding")
    told = [each.event for each in await ground.audit.tail(10)]
    assert told.count("context_profile_changed") == 1


class TestMemory:
    async def test_memories_come_once_and_only_of_this_scope(
        self, ground: Ground, clock: FakeClock
    ) -> None:
        room = open_context(ground)
        found = [memory("1", "likes tea", clock), memory("2", "bob's", clock, scope_id="bob")]
        await room.add_memories("ann", found, turn_number=1)
        await room.add_memories("ann", found, turn_number=2)
        items = room.manager.get_zone("ann", ContextZone.MEMORY)
        assert [each.content for each in items] == ["likes tea"]

    async def test_what_leaves_is_found_again_with_its_taint(self, ground: Ground) -> None:
        async with open_memory(ground, vectors=False) as kept:
            room = open_context(ground, memory=kept)
            await say(room, entry(1, "the walrus came by " * 30_000, taint=TaintLevel.EXTERNAL))
            await room.enforce_budget("ann", 1, current_goal=None)
            assert "walrus" not in await room.render("ann", 1)
            assert await room.taint("ann") is TaintLevel.OWNER
            query = MemoryQuery(query="walrus", max_tokens=20_000)
            stored = await kept.memories.of("ann").search_keyword("walrus", 5)
            assert [(each.taint, each.trust_level.value) for each in stored] == [
                (TaintLevel.EXTERNAL, "working")
            ]
            assert await kept.retriever.retrieve(query, "bob") == []
            # The same entry, evicted once more after a restart, is the same memory.
            again = open_context(ground, memory=kept)
            await again.enforce_budget("ann", 2, current_goal=None)
            assert len(await kept.memories.of("ann").search_keyword("walrus", 5)) == 1

    async def test_who_the_owner_is_comes_back_pinned(
        self, ground: Ground, clock: FakeClock
    ) -> None:
        async with open_memory(ground, vectors=False) as kept:
            store = kept.memories.of("ann")
            text = "user profile preferences: tea, no meetings before ten"
            await store.store(memory("p", text, clock, memory_type=MemoryType.PROFILE))
            await store.store(memory("f", "user profile preferences are a topic", clock))
            room = open_context(ground, memory=kept)
            await say(room, entry(1))
            items = room.manager.get_zone("ann", ContextZone.MEMORY)
            assert [(each.content, each.pinned) for each in items] == [(text, True)]


async def test_what_was_said_long_ago_moves_to_the_archive(
    ground: Ground, clock: FakeClock
) -> None:
    room = open_context(ground)
    await say(room, entry(1))
    clock.advance(days=91)
    await say(room, entry(2))
    job, _ = context_jobs(ground)
    await job.run()
    assert len(await room.chronicle.get_recent("ann", 9)) == 1
    (path,) = ground.paths.archive.iterdir()
    assert "message 1" in path.read_text()
