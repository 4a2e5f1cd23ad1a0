"""Forgetting reaches what a message left elsewhere, and no other message."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from silas.app.context import MemoryServices, open_context, open_memory
from silas.app.core import Core, make_core
from silas.context.chronicle import ChronicleStore, FileArchive
from silas.memory.forgetting import Forgetting, Selection
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.stream.traces import ConversationTraces
from silas.testing import FakeClock, MemoryVault
from tests.context.test_room import entry
from tests.context.test_room import say as say_in

SECRET = "the zebra is in the cellar"


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    loaded = load_settings(data_dir=str(tmp_path), config_file=None, environ={}, cwd=tmp_path)
    vault = MemoryVault()
    async with make_core(loaded, OnDemandVault(lambda: vault), clock=FakeClock()) as core:
        core.keys.generate_keypair()
        yield core


def traces_of(core: Core) -> ConversationTraces:
    archive = FileArchive(core.paths.archive, clock=core.clock)
    return ConversationTraces(core.database, archive, clock=core.clock)


async def say(core: Core, room: MemoryServices, number: int, text: str, scope: str = "ann") -> None:
    """A message, with everything that it leaves behind."""
    context = open_context(core)
    begin = f"[owner] {scope}: "
    said = entry(number, f"{begin}{text}", scope_id=scope, words_from=len(begin))
    await say_in(context, said)
    now = "2026-01-01T12:00:00.000000Z"
    await core.database.execute(
        "INSERT INTO said (message_id, connection_id, text, created_at) VALUES (?, ?, ?, ?)",
        (f"msg_{number}", scope, text, now),
    )
    await core.database.execute(
        "INSERT INTO deliveries (message_id, connection_id, scope_id, message, created_at) "
        "VALUES (?, ?, ?, json_object('content', ?), ?)",
        (f"out_{number}", scope, scope, text, now),
    )


async def left(core: Core) -> str:
    """Everything that the database holds of what was said."""
    found = []
    for sql in (
        "SELECT content FROM chronicle_entries",
        "SELECT text FROM said",
        "SELECT message FROM deliveries",
        "SELECT content FROM memory_items",
    ):
        found += [str(row[0]) for row in await core.database.fetch_all(sql)]
    return "\n".join(found)


async def test_what_a_message_said_goes_everywhere(core: Core) -> None:
    async with open_memory(core, vectors=False) as room:
        await say(core, room, 1, SECRET)
        await say(core, room, 2, "tea at five")
        await say(core, room, 3, "bob has a zebra in the cellar too", scope="bob")
        running = open_context(core, memory=room)
        assert SECRET in await running.render("ann", 2)
        traces = traces_of(core)
        done = await Forgetting(room.memories, "ann", traces=traces).forget(
            Selection(query="zebra cellar")
        )
        assert (done.memories, done.said) == (1, 3)
        text = await left(core)
        assert SECRET not in text
        assert text.count("tea at five") == 3
        assert text.count("bob has a zebra") == 3
        await say_in(running, entry(4))
        shown = await running.render("ann", 4)
        assert SECRET not in shown, "a context that is in memory is made anew"
        assert "tea at five" in shown
        assert "was forgotten" in shown


async def test_the_newest_entry_can_be_forgotten_too(core: Core) -> None:
    async with open_memory(core, vectors=False) as room:
        await say(core, room, 1, SECRET)
        running = open_context(core, memory=room)
        assert SECRET in await running.render("ann", 1)
        traces = traces_of(core)
        await Forgetting(room.memories, "ann", traces=traces).forget(Selection(query="zebra"))
        await say_in(running, entry(2))
        assert SECRET not in await running.render("ann", 2)


async def test_the_archive_forgets_as_well(core: Core, tmp_path: Path) -> None:
    async with open_memory(core, vectors=False) as room:
        await say(core, room, 1, SECRET)
        await say(core, room, 2, "tea at five")
        archive = FileArchive(core.paths.archive, clock=core.clock)
        chronicle = ChronicleStore(core.database, sink=archive)
        assert await chronicle.prune_before(core.clock.now() + timedelta(days=1)) == 2
        traces = traces_of(core)
        done = await Forgetting(room.memories, "ann", traces=traces).forget(
            Selection(ids=("raw_msg_1.in",))
        )
        assert done.said == 3
        (file,) = core.paths.archive.glob("chronicle-*.jsonl")
        assert SECRET not in file.read_text()
        assert "tea at five" in file.read_text()
