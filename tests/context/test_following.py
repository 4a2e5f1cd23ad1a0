"""A context follows the work of its conversation: its files are watched, its plans end."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from silas.app.context import open_context, open_memory
from silas.app.core import Core, WorkStores, make_core
from silas.context.models import ContextZone
from silas.context.service import ContextService
from silas.kernel import TaintLevel
from silas.memory.models import MemoryItem
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.storage import Transaction
from silas.stream.store import ConversationStore, WorkOrigin
from silas.testing import FakeClock, MemoryVault
from silas.work.attempt_store import AttemptOutcome
from silas.work.effects import Workspace
from silas.work.models import BudgetUsed, WorkItem, WorkItemStatus, WorkItemType
from tests.context.test_room import entry, say


@dataclass
class Site:
    """A core with a workspace, and work on it."""

    core: Core
    workspace: Path

    @property
    def stores(self) -> WorkStores:
        return self.core.work

    async def begin(self, name: str, *files: str, scope_id: str = "ann") -> WorkItem:
        """Work that somebody is at."""
        place = Workspace.model_validate({"path": str(self.workspace), "files": list(files)})
        kind = WorkItemType.TASK
        await self.stores.items.save(WorkItem(id=name, type=kind, title="Do it", workspace=place))
        store = ConversationStore(self.core.database, self.core.clock)
        origin = WorkOrigin(
            work_item_id=name, trace_id="t", scope_id=scope_id, taint=TaintLevel.OWNER
        )

        def note(tx: Transaction) -> None:
            store.note_work(tx, origin)

        await self.core.database.transaction(note)
        return await self.stores.attempts.start(name, runner="here")

    async def end(self, name: str) -> None:
        await self.stores.attempts.finish(
            name,
            1,
            outcome=AttemptOutcome.PASSED,
            status=WorkItemStatus.DONE,
            budget_used=BudgetUsed(),
        )

    def watched(self, room: ContextService, scope_id: str = "ann") -> list[str]:
        subs = room.manager.subscriptions(scope_id)
        return [sub.target.removeprefix(f"{self.workspace}/") for sub in subs if sub.active]


@pytest.fixture
async def site(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Site]:
    workspace = (tmp_path / "place").resolve()
    workspace.mkdir()
    for name in ("notes.md", "app.py"):
        (workspace / name).write_text("".join(f"{name} line {n}\n" for n in range(1, 31)))
    loaded = load_settings(
        data_dir=str(tmp_path / "data"),
        config_file=None,
        environ={"SILAS_PLANNER__WORKSPACE_DIR": str(workspace)},
        cwd=tmp_path,
    )
    vault = OnDemandVault(MemoryVault)  # type: ignore[arg-type]
    async with make_core(loaded, vault, clock=clock) as core:
        core.keys.generate_keypair()
        yield Site(core, workspace)


async def test_files_of_work_that_goes_on_are_watched_until_it_ends(site: Site) -> None:
    room = open_context(site.core)
    await site.begin("wi-1", "notes.md")
    await site.begin("wi-2", "app.py", scope_id="bob")
    await say(room, entry(1))
    assert site.watched(room) == ["notes.md"]
    text = await room.render("ann", 1)
    assert "notes.md line 7" in text
    assert "app.py" not in text, "another conversation's work"
    (site.workspace / "notes.md").write_text("changed")
    assert "changed" in await room.render("ann", 2)
    await site.end("wi-1")
    await say(room, entry(3))
    assert site.watched(room) == []
    assert "changed" not in await room.render("ann", 3)


async def test_they_are_watched_again_after_a_restart(site: Site) -> None:
    await site.begin("wi-1", "notes.md")
    await say(open_context(site.core), entry(1))
    after = open_context(site.core)
    await say(after, entry(2))
    assert "notes.md line 7" in await after.render("ann", 2)


async def test_lines_that_a_call_read_are_watched_and_said_to_be_stale(site: Site) -> None:
    item = await site.begin("wi-1")
    args = {"path": "app.py", "first_line": 3, "max_lines": 2}
    await site.stores.ledger.begin("wi-1", item.attempts, tool="read_file", args=args)
    room = open_context(site.core)
    await say(room, entry(1))
    text = await room.render("ann", 1)
    assert "app.py line 3\napp.py line 4\n" in text
    assert "app.py line 5" not in text
    (site.workspace / "app.py").write_text("new first line\n" * 9)
    assert "[stale — file changed since turn 1]" in await room.render("ann", 2)


async def test_what_nobody_speaks_of_goes_to_sleep_and_stays_asleep(site: Site) -> None:
    await site.begin("wi-1", "notes.md")
    room = open_context(site.core)
    for number in range(1, 14):
        await say(room, entry(number))
        await room.enforce_budget("ann", number, current_goal=None)
    assert site.watched(room) == []


async def test_a_file_outside_of_what_is_allowed_is_not_watched(site: Site) -> None:
    (site.workspace.parent / "secret.txt").write_text("hidden")
    (site.workspace / "link.txt").symlink_to(site.workspace.parent / "secret.txt")
    await site.begin("wi-1", "link.txt", "missing.txt")
    room = open_context(site.core)
    await say(room, entry(1))
    assert "hidden" not in await room.render("ann", 1)
    assert site.watched(room) == []


async def test_the_plan_of_work_that_ended_may_leave(site: Site) -> None:
    room = open_context(site.core)
    await site.begin("wi-1")
    await room.add_plan("ann", "wi-1", markdown="# One", taint=TaintLevel.OWNER)
    await say(room, entry(1))
    (plan,) = room.manager.get_zone("ann", ContextZone.WORKSPACE)
    assert plan.pinned
    await site.end("wi-1")
    await say(room, entry(2))
    (plan,) = room.manager.get_zone("ann", ContextZone.WORKSPACE)
    assert not plan.pinned
    assert "wi-1 | completed" in await room.render("ann", 2)


async def test_a_query_that_was_asked_for_stays_up_to_date(site: Site, clock: FakeClock) -> None:
    async with open_memory(site.core, vectors=False) as memory:
        room = open_context(site.core, memory=memory)
        await room.watch_query("ann", "tea", turn_number=1)
        await room.watch_query("ann", "tea", turn_number=1)
        assert "subscription" not in await room.render("ann", 1), "there is nothing to show yet"
        now = clock.now()
        for scope, text in (("ann", "She likes green tea."), ("bob", "He hates tea.")):
            await memory.memories.of(scope).store(
                MemoryItem(
                    memory_id="m",
                    scope_id=scope,
                    content=text,
                    taint=TaintLevel.OWNER,
                    created_at=now,
                    updated_at=now,
                )
            )
        text = await room.render("ann", 2)
        assert text.count("She likes green tea.") == 1
        assert "He hates" not in text
        await memory.memories.of("ann").delete("m", taint=TaintLevel.OWNER)
        assert "green tea" not in await room.render("ann", 2)
