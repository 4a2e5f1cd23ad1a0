"""The context as a turn uses it: on the disk, brought back, and taken part in by several."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from silas.app.context import context_jobs, open_context, open_memory
from silas.app.core import Core, make_core
from silas.context.models import ContextZone, Session
from silas.context.service import ChronicleEntry, ContextService
from silas.kernel import TaintLevel
from silas.memory.models import MemoryItem, MemoryQuery, MemoryType
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
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
async def core(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Core]:
    loaded = load_settings(data_dir=str(tmp_path), config_file=None, environ={}, cwd=tmp_path)
    vault = OnDemandVault(MemoryVault)  # type: ignore[arg-type]
    async with make_core(loaded, vault, clock=clock) as core:
        core.keys.generate_keypair()
        yield core


async def session_of(room: ContextService, session_id: str) -> Session:
    """The session of this id in ann's conversation."""
    sessions = {each.session_id: each for each in await room.sessions.of_scope("ann")}
    return sessions[session_id]


async def say(room: ContextService, said: ChronicleEntry) -> str | None:
    """Let something be said, as a turn does it; returns its session."""
    saying = await room.prepare(said)
    await room.chronicle._database.transaction(saying.write, brief=True)
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


async def test_it_is_the_room_that_the_stream_asks_for(core: Core) -> None:
    room: ContextService = open_context(core)
    assert await room.render("ann", 1) == ""
    assert (await room.provenance("ann")).taint is TaintLevel.OWNER


async def test_a_conversation_that_could_be_read_only_in_part_is_read_again(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_context(core)
    await say(before, entry(1))
    after = open_context(core)
    bring_back = after._follower.bring_back
    ending = True

    async def bring_back_or_end(scope_id: str) -> None:
        if ending:
            raise asyncio.CancelledError
        await bring_back(scope_id)

    monkeypatch.setattr(after._follower, "bring_back", bring_back_or_end)
    with pytest.raises(asyncio.CancelledError):
        await after.render("ann", 1)
    ending = False
    await say(after, entry(2))
    assert "message 1\n" in await after.render("ann", 2)


async def test_a_restart_keeps_the_conversation(core: Core) -> None:
    before = open_context(core)
    for number in range(80):
        await say(before, entry(number))
    after = open_context(core)
    text = await after.render("ann", 80)
    assert "message 30\n" in text
    assert "message 29\n" not in text, "fifty entries are brought back"
    assert "[SYSTEM] Session rehydrated after restart." in text
    assert await after.render("bob", 1) == ""


async def test_a_turn_that_is_done_again_adds_nothing(core: Core) -> None:
    room = open_context(core)
    await say(room, entry(1))
    text = await room.render("ann", 1)
    await say(room, entry(1))
    assert await room.render("ann", 1) == text
    again = open_context(core)
    await say(again, entry(1))
    assert (await again.render("ann", 1)).count("message 1") == 1
    assert [each.turn_count for each in await room.sessions.of_scope("ann")] == [1, 1]


async def test_a_session_begins_goes_on_after_a_restart_and_ends_in_silence(
    core: Core, clock: FakeClock
) -> None:
    room = open_context(core)
    first = await say(room, entry(1))
    clock.advance(minutes=20)
    again = open_context(core)
    await say(again, entry(2))
    assert await say(again, entry(2)) == first, "a restart is no silence"
    assert first is not None
    assert (await session_of(again, first)).turn_count == 2
    clock.advance(minutes=31)
    second = await say(again, entry(3))
    assert second != first
    assert not (await session_of(again, first)).active
    clock.advance(minutes=31)
    for job in context_jobs(core):
        await job.run()
    assert second is not None
    assert not (await session_of(again, second)).active


async def test_what_another_process_said_is_seen(core: Core) -> None:
    here, there = open_context(core), open_context(core)
    await say(here, entry(1))
    await say(there, entry(2))
    await say(there, entry(3, "bob's", scope_id="bob"))
    await say(here, entry(4))
    text = await here.render("ann", 4)
    assert [text.index(f"message {number}") for number in (1, 2, 4)] == sorted(
        text.index(f"message {number}") for number in (1, 2, 4)
    )
    assert "bob's" not in text


async def test_what_was_committed_and_not_shown_comes_with_the_next(core: Core) -> None:
    room = open_context(core)
    await say(room, entry(1))
    late = await room.prepare(entry(2))
    await core.database.transaction(late.write, brief=True)
    await say(room, entry(3))
    await late.show()
    text = await room.render("ann", 3)
    places = [text.index(f"message {number}") for number in (1, 2, 3)]
    assert places == sorted(places)
    assert text.count("message 2") == 1


async def test_what_was_not_committed_is_not_shown(core: Core) -> None:
    room = open_context(core)
    await say(room, entry(1))
    lost = await room.prepare(entry(2))
    await lost.show()
    assert "message 2" not in await room.render("ann", 2)


async def test_many_at_once_bring_it_back_once(core: Core) -> None:
    await say(open_context(core), entry(1))
    room = open_context(core)
    await asyncio.gather(*(say(room, entry(number)) for number in range(2, 30)))
    text = await room.render("ann", 30)
    assert text.count("rehydrated") == 1
    assert all(text.count(f"message {number}\n") == 1 for number in range(1, 30))


async def test_secrets_reach_neither_the_context_nor_the_disk(core: Core) -> None:
    core.vault.set("mail", b"correct horse battery")
    room = open_context(core)
    await say(room, entry(1, "my password is correct horse battery"))
    await room.add_plan("ann", "wi_1", markdown="use correct horse battery", taint=TaintLevel.OWNER)
    assert "correct horse" not in await room.render("ann", 1)
    (kept,) = (await room.chronicle.recent_and_end("ann", 9))[0]
    assert "correct horse" not in kept.content


class TestPlans:
    async def test_the_newest_stays_and_the_one_before_may_leave(self, core: Core) -> None:
        room = open_context(core)
        await room.add_plan("ann", "wi_1", markdown="# One", taint=TaintLevel.OWNER)
        await room.add_plan("ann", "wi_2", markdown="# Two", taint=TaintLevel.EXTERNAL)
        items = room.manager.get_zone("ann", ContextZone.WORKSPACE)
        assert [(each.content, each.pinned) for each in items] == [
            ("# One", False),
            ("# Two", True),
        ]
        assert (await room.provenance("ann")).taint is TaintLevel.EXTERNAL

    async def test_one_that_is_too_long_to_stay_is_shown_as_long_as_there_is_room(
        self, core: Core
    ) -> None:
        room = open_context(core)
        await room.add_plan("ann", "wi_1", markdown="word " * 40_000, taint=TaintLevel.OWNER)
        (plan,) = room.manager.get_zone("ann", ContextZone.WORKSPACE)
        assert not plan.pinned
        await room.enforce_budget("ann", 1, current_goal=None)
        assert room.manager.get_zone("ann", ContextZone.WORKSPACE) == []


class TestDirectives:
    async def test_the_new_ones_take_the_place_of_the_old(self, core: Core) -> None:
        room = open_context(core)
        await room.set_directives("ann", "Be brief.")
        await room.set_directives("ann", "Be warm.")
        text = await room.render("ann", 1)
        assert "Be brief." not in text
        assert text.startswith("--- system | persona:directives ---\nBe warm.")
        await room.set_directives("ann", "")
        assert await room.render("ann", 1) == ""

    async def test_too_many_are_no_reason_not_to_answer(self, core: Core) -> None:
        room = open_context(core)
        await room.set_directives("ann", "word " * 10_000)
        assert await room.render("ann", 1) == ""


async def test_a_new_profile_is_written_down_once(core: Core) -> None:
    room = open_context(core)
    for _ in range(3):
        await room.set_profile("ann", "coding")
    told = [each.event for each in await core.audit.tail(10)]
    assert told.count("context_profile_changed") == 1


class TestMemory:
    async def test_memories_come_once_and_only_of_this_scope(
        self, core: Core, clock: FakeClock
    ) -> None:
        room = open_context(core)
        found = [memory("1", "likes tea", clock), memory("2", "bob's", clock, scope_id="bob")]
        await room.add_memories("ann", found, turn_number=1)
        await room.add_memories("ann", found, turn_number=2)
        items = room.manager.get_zone("ann", ContextZone.MEMORY)
        assert [each.content for each in items] == ["likes tea"]

    async def test_what_leaves_is_found_again_with_its_taint(self, core: Core) -> None:
        async with open_memory(core, vectors=False) as kept:
            room = open_context(core, memory=kept)
            await say(room, entry(1, "the walrus came by " * 30_000, taint=TaintLevel.EXTERNAL))
            await room.enforce_budget("ann", 1, current_goal=None)
            assert "walrus" not in await room.render("ann", 1)
            assert (await room.provenance("ann")).taint is TaintLevel.OWNER
            query = MemoryQuery(query="walrus", max_tokens=20_000)
            stored = await kept.memories.of("ann").search_keyword("walrus", 5)
            assert [(each.taint, each.trust_level.value) for each in stored] == [
                (TaintLevel.EXTERNAL, "working")
            ]
            assert await kept.retriever.retrieve(query, "bob") == []
            # The same entry, evicted once more after a restart, is the same memory.
            again = open_context(core, memory=kept)
            await again.enforce_budget("ann", 2, current_goal=None)
            assert len(await kept.memories.of("ann").search_keyword("walrus", 5)) == 1

    async def test_who_the_owner_is_comes_back_pinned(self, core: Core, clock: FakeClock) -> None:
        async with open_memory(core, vectors=False) as kept:
            store = kept.memories.of("ann")
            text = "user profile preferences: tea, no meetings before ten"
            await store.store(memory("p", text, clock, memory_type=MemoryType.PROFILE))
            await store.store(memory("f", "user profile preferences are a topic", clock))
            room = open_context(core, memory=kept)
            await say(room, entry(1))
            items = room.manager.get_zone("ann", ContextZone.MEMORY)
            assert [(each.content, each.pinned) for each in items] == [(text, True)]


async def test_what_was_said_long_ago_moves_to_the_archive(core: Core, clock: FakeClock) -> None:
    room = open_context(core)
    await say(room, entry(1))
    clock.advance(days=91)
    await say(room, entry(2))
    job, _ = context_jobs(core)
    await job.run()
    assert len((await room.chronicle.recent_and_end("ann", 9))[0]) == 1
    (path,) = core.paths.archive.iterdir()
    assert "message 1" in path.read_text()
