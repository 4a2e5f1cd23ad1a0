"""Forgetting reaches what a message left elsewhere, and no other message."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from silas.app.context import open_context
from silas.app.ground import Ground, OnDemandVault, make_ground
from silas.app.memory import MemoryRoom, open_memory
from silas.app.settings import load_settings
from silas.app.traces import ConversationTraces
from silas.context.archive import FileArchive
from silas.context.chronicle import ChronicleStore
from silas.kernel import TaintLevel
from silas.memory.forgetting import Forgetting, Selection
from silas.memory.models import MemoryItem
from silas.storage import briefly
from silas.testing import FakeClock, MemoryVault
from tests.context.test_room import entry
from tests.context.test_room import say as say_in

SECRET = "the zebra is in the cellar"


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    loaded = load_settings(data_dir=str(tmp_path), config_file=None, environ={}, cwd=tmp_path)
    vault = MemoryVault()
    async with make_ground(loaded, OnDemandVault(lambda: vault), clock=FakeClock()) as ground:
        ground.keys.generate_keypair()
        yield ground


def raw(number: int, text: str, ground: Ground, scope_id: str = "ann") -> MemoryItem:
    now = ground.clock.now()
    return MemoryItem(
        memory_id=f"raw_msg_{number}.in",
        scope_id=scope_id,
        content=text,
        taint=TaintLevel.OWNER,
        created_at=now,
        updated_at=now,
    )


async def say(ground: Ground, room: MemoryRoom, number: int, text: str, scope: str = "ann") -> None:
    """A message, with everything that it leaves behind."""
    context = open_context(ground)
    await say_in(context, entry(number, f"[owner] {scope}: {text}", scope_id=scope))
    keep = room.keeper.raw_record(raw(number, text, ground, scope))
    await briefly(ground.database, lambda tx: keep(tx, None))
    now = "2026-01-01T12:00:00.000000Z"
    await ground.database.execute(
        "INSERT INTO said (message_id, connection_id, text, created_at) VALUES (?, ?, ?, ?)",
        (f"msg_{number}", scope, text, now),
    )
    await ground.database.execute(
        "INSERT INTO deliveries (message_id, connection_id, scope_id, message, created_at) "
        "VALUES (?, ?, ?, json_object('content', ?), ?)",
        (f"out_{number}", scope, scope, text, now),
    )


async def left(ground: Ground) -> str:
    """Everything that the database holds of what was said."""
    found = []
    for sql in (
        "SELECT content FROM chronicle",
        "SELECT text FROM said",
        "SELECT message FROM deliveries",
        "SELECT content FROM memory_items",
    ):
        found += [str(row[0]) for row in await ground.database.fetch_all(sql)]
    return "\n".join(found)


async def test_what_a_message_said_goes_everywhere(ground: Ground) -> None:
    async with open_memory(ground, vectors=False) as room:
        await say(ground, room, 1, SECRET)
        await say(ground, room, 2, "tea at five")
        await say(ground, room, 3, "bob has a zebra in the cellar too", scope="bob")
        running = open_context(ground, memory=room)
        assert SECRET in await running.render("ann", 2)
        traces = ConversationTraces(ground)
        done = await Forgetting(room.memories, "ann", traces=traces).forget(
            Selection(query="zebra cellar")
        )
        assert (done.memories, done.said) == (1, 3)
        text = await left(ground)
        assert SECRET not in text
        assert text.count("tea at five") == 4
        assert text.count("bob has a zebra") == 4
        await say_in(running, entry(4))
        shown = await running.render("ann", 4)
        assert SECRET not in shown, "a context that is in memory is made anew"
        assert "tea at five" in shown
        assert "was forgotten" in shown


async def test_the_newest_entry_can_be_forgotten_too(ground: Ground) -> None:
    async with open_memory(ground, vectors=False) as room:
        await say(ground, room, 1, SECRET)
        running = open_context(ground, memory=room)
        assert SECRET in await running.render("ann", 1)
        traces = ConversationTraces(ground)
        await Forgetting(room.memories, "ann", traces=traces).forget(Selection(query="zebra"))
        await say_in(running, entry(2))
        assert SECRET not in await running.render("ann", 2)


async def test_the_archive_forgets_as_well(ground: Ground, tmp_path: Path) -> None:
    async with open_memory(ground, vectors=False) as room:
        await say(ground, room, 1, SECRET)
        await say(ground, room, 2, "tea at five")
        archive = FileArchive(ground.paths.archive, clock=ground.clock)
        chronicle = ChronicleStore(ground.database, sink=archive)
        assert await chronicle.prune_before(ground.clock.now() + timedelta(days=1)) == 2
        traces = ConversationTraces(ground)
        done = await Forgetting(room.memories, "ann", traces=traces).forget(
            Selection(ids=("raw_msg_1.in",))
        )
        assert done.said == 3
        (file,) = ground.paths.archive.glob("chronicle-*.jsonl")
        assert SECRET not in file.read_text()
        assert "tea at five" in file.read_text()
