"""What files were before Silas changed them: all of it is kept, and all of it can be put back."""

import asyncio
import fcntl
import hashlib
import os
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.stream.offers import undo_item
from silas.testing import FakeClock
from silas.testing.work import FakeWorker
from silas.tools.tree import FileRefused, Tree
from silas.work import Plan, WorkItem, WorkItemStatus
from silas.work import before_images as module
from silas.work.attempt_files import apply_changes
from silas.work.attempt_store import this_runner
from silas.work.before_images import BeforeImage, BeforeImages, net_changes
from silas.work.effects import ChangeKind, FileChange
from silas.work.errors import PublicationConflict
from silas.work.models import ENDED_WELL
from silas.work.recovery import recover
from silas.work.store import require_item
from tests.tiny_disk import fill, tiny_disk
from tests.work.shop import Shop, calls, check, script, task

BINARY = bytes(range(256)) * 40
MONTH = timedelta(days=30)
DEAD = "/".join([*this_runner().split("/")[:2], "999999999", "1"])


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def removed(path: str, content: bytes) -> FileChange:
    return FileChange(path=path, before=sha(content), after=None)


@pytest.fixture
def images(database: SqliteDatabase, clock: FakeClock, tmp_path: Path) -> BeforeImages:
    return BeforeImages(database, clock, tmp_path / "data" / "before")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    place = tmp_path / "site"
    place.mkdir()
    return place


def contents(images: BeforeImages) -> set[str]:
    found = images.directory.glob("??/*")
    return {path.parent.name + path.name for path in found}


class TestKeeping:
    async def test_whatever_a_file_held_is_kept_privately(
        self, images: BeforeImages, site: Path
    ) -> None:
        (site / "a.jpg").write_bytes(BINARY)
        (site / "latin.txt").write_bytes("Grüße".encode("latin-1"))
        (site / "empty").write_bytes(b"")
        held = {path.name: path.read_bytes() for path in site.iterdir()}
        changes = [removed(name, content) for name, content in held.items()]
        with Tree.open(site) as target:
            await images.keep("one", 1, changes, target)
        for content in held.values():
            assert await images.content(sha(content)) == content
        modes = {stat.S_IMODE(path.stat().st_mode) for path in images.directory.glob("??/*")}
        assert modes == {0o600}
        assert {stat.S_IMODE(path.stat().st_mode) for path in images.directory.glob("??")} == {
            0o700
        }

    async def test_the_same_content_is_kept_once(self, images: BeforeImages, site: Path) -> None:
        for name in ("a", "b"):
            (site / name).write_bytes(BINARY)
        with Tree.open(site) as target:
            await images.keep("one", 1, [removed("a", BINARY), removed("b", BINARY)], target)
        assert contents(images) == {sha(BINARY)}
        assert [each.path for each in await images.of("one")] == ["a", "b"]

    async def test_every_change_is_written_down_and_says_whether_it_was_taken(
        self, images: BeforeImages, site: Path
    ) -> None:
        (site / "old").write_bytes(b"old")
        (site / "tool").write_bytes(b"tool")
        (site / "tool").chmod(0o755)
        taken = [
            FileChange(path="new", before=None, after=sha(b"new"), executable=True),
            FileChange(path="old", before=sha(b"old"), after=sha(b"other")),
            removed("tool", b"tool"),
        ]
        with Tree.open(site) as target:
            await images.keep("one", 1, taken, target)
        await images.left("one", 1, [FileChange(path=".envrc", before=None, after=sha(b"x"))])
        found = {each.path: each for each in await images.of("one")}
        assert {name: (each.kind, each.taken) for name, each in found.items()} == {
            ".envrc": (ChangeKind.ADDED, False),
            "new": (ChangeKind.ADDED, True),
            "old": (ChangeKind.CHANGED, True),
            "tool": (ChangeKind.REMOVED, True),
        }
        assert (found["new"].executable, found["tool"].was_executable) == (True, True)
        assert all(each.kept for each in found.values())
        assert found["old"].directory == str(site)
        assert sha(b"x") not in contents(images)

    async def test_what_was_left_and_is_taken_after_all_is_taken(
        self, images: BeforeImages, site: Path
    ) -> None:
        (site / "a").write_bytes(b"a")
        change = removed("a", b"a")
        await images.left("one", 1, [change])
        with Tree.open(site) as target:
            await images.keep("one", 1, [change], target)
        await images.left("one", 1, [change])
        (found,) = await images.of("one")
        assert (found.taken, found.kept, found.directory) == (True, True, str(site))

    async def test_keeping_can_be_repeated_also_after_a_crash_in_the_middle_of_the_take_over(
        self, images: BeforeImages, site: Path, tmp_path: Path
    ) -> None:
        (site / "a").write_bytes(b"a")
        (site / "a").chmod(0o755)
        (site / "b").write_bytes(BINARY)
        work = tmp_path / "work"
        work.mkdir()
        (work / "a").write_bytes(b"other")
        changes = [
            FileChange(path="a", before=sha(b"a"), after=sha(b"other")),
            removed("b", BINARY),
        ]
        with Tree.open(site) as target, Tree.open(work) as source:
            await images.keep("one", 1, changes, target)
            before = await images.of("one")
            apply_changes(source, target, changes[:1])
            await images.keep("one", 1, changes, target)
            apply_changes(source, target, changes)
            await images.keep("one", 1, changes, target)
        assert await images.of("one") == before
        assert before[0].was_executable
        assert contents(images) == {sha(b"a"), sha(BINARY)}

    async def test_what_somebody_else_changed_is_not_kept_as_if_it_were_ours(
        self, images: BeforeImages, site: Path
    ) -> None:
        (site / "a").write_bytes(b"somebody else")
        with Tree.open(site) as target, pytest.raises(PublicationConflict):
            await images.keep("one", 1, [removed("a", b"a")], target)
        assert await images.of("one") == []

    async def test_a_file_that_changes_while_it_is_copied_is_a_conflict(
        self, images: BeforeImages, site: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (site / "a").write_bytes(b"a")
        copy_to = Tree.copy_to

        def changed_first(tree: Tree, name: str, target: Any) -> str:
            (site / name).write_bytes(b"changed")
            return copy_to(tree, name, target)

        monkeypatch.setattr(Tree, "copy_to", changed_first)
        with Tree.open(site) as target, pytest.raises(PublicationConflict):
            await images.keep("one", 1, [removed("a", b"a")], target)
        assert contents(images) == set()
        assert await images.of("one") == []

    async def test_what_is_too_large_to_keep_is_not_touched(
        self, images: BeforeImages, site: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "MAX_BYTES", 100)
        (site / "a").write_bytes(b"a" * 60)
        (site / "b").write_bytes(b"b" * 60)
        changes = [removed("a", b"a" * 60), removed("b", b"b" * 60)]
        with Tree.open(site) as target, pytest.raises(FileRefused, match="more than 100 bytes"):
            await images.keep("one", 1, changes, target)
        assert await images.of("one") == []

    async def test_a_large_file_is_kept_without_being_held_in_memory(
        self, images: BeforeImages, site: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = os.urandom(3 * 1024 * 1024 + 7)
        (site / "film.mov").write_bytes(content)
        monkeypatch.setattr(Tree, "read", None)
        with Tree.open(site) as target:
            await images.keep("one", 1, [removed("film.mov", content)], target)
        assert await images.content(sha(content)) == content

    async def test_a_name_that_cannot_be_written_down_is_refused(
        self, images: BeforeImages, site: Path
    ) -> None:
        name = os.fsdecode(b"caf\xe9")
        (site / name).write_bytes(b"a")
        with Tree.open(site) as target, pytest.raises(FileRefused):
            await images.keep("one", 1, [removed(name, b"a")], target)

    async def test_a_full_disk_refuses(
        self, database: SqliteDatabase, clock: FakeClock, site: Path, tmp_path: Path
    ) -> None:
        (site / "a").write_bytes(os.urandom(300_000))
        change = removed("a", (site / "a").read_bytes())
        with tiny_disk(tmp_path / "disk", kilobytes=200) as disk, Tree.open(site) as target:
            images = BeforeImages(database, clock, disk / "before")
            with pytest.raises(FileRefused, match=r"No space left.*Nothing was changed"):
                await images.keep("one", 1, [change], target)
            assert contents(images) == set()
            fill(disk)
            images = BeforeImages(database, clock, disk / "elsewhere")
            with pytest.raises(FileRefused, match="No space left"):
                await images.keep("one", 1, [change], target)
        assert await images.of("one") == []

    async def test_content_that_is_not_whole_any_more_is_not_given_out(
        self, images: BeforeImages, site: Path
    ) -> None:
        (site / "a").write_bytes(BINARY)
        with Tree.open(site) as target:
            await images.keep("one", 1, [removed("a", BINARY)], target)
            (kept,) = images.directory.glob("??/*")
            kept.write_bytes(b"rotten")
            assert await images.content(sha(BINARY)) is None
            await images.keep("two", 1, [removed("a", BINARY)], target)
        assert await images.content(sha(BINARY)) == BINARY, "it was written anew"
        assert await images.content("../../silas.db") is None


class TestForgetting:
    async def test_only_what_nobody_refers_to_is_removed(
        self, images: BeforeImages, clock: FakeClock, site: Path
    ) -> None:
        for name, content in (("a", b"a"), ("b", b"b")):
            (site / name).write_bytes(content)
        with Tree.open(site) as target:
            await images.keep("old", 1, [removed("a", b"a"), removed("b", b"b")], target)
            clock.advance(days=20)
            await images.keep("young", 1, [removed("b", b"b")], target)
        assert await images.prune(MONTH) == 0
        assert contents(images) == {sha(b"a"), sha(b"b")}
        clock.advance(days=11)
        assert await images.prune(MONTH) == 2
        assert contents(images) == {sha(b"b")}
        assert [each.kept for each in await images.of("young")] == [True]
        assert await images.of("old") == []

    async def test_what_a_crash_left_without_a_row_is_removed(
        self, images: BeforeImages, site: Path
    ) -> None:
        (site / "a").write_bytes(b"a")
        with Tree.open(site) as target:
            await images.keep("one", 1, [removed("a", b"a")], target)
        (images.directory / "ab").mkdir(exist_ok=True)
        (images.directory / "ab" / ".0123.partial").write_bytes(b"half")
        await images.forget("one", 1)
        await images.prune(MONTH)
        assert list(images.directory.glob("??/*")) == []

    async def test_nothing_is_removed_between_a_content_and_its_row(
        self, images: BeforeImages, site: Path
    ) -> None:
        (site / "a").write_bytes(b"a")
        pruned: list[int] = []

        class Slow(BeforeImages):
            async def _write_down(self, *args: Any, **more: Any) -> None:
                pruned.append(await images.prune(MONTH))
                await super()._write_down(*args, **more)

        slow = Slow(images.database, images.clock, images.directory)
        with Tree.open(site) as target:
            await slow.keep("one", 1, [removed("a", b"a")], target)
        assert pruned == [0]
        assert await images.content(sha(b"a")) == b"a"

    async def test_whoever_keeps_waits_for_whoever_forgets(
        self, images: BeforeImages, site: Path
    ) -> None:
        (site / "a").write_bytes(b"a")
        images.directory.mkdir(parents=True)
        lock = os.open(images.directory / "lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        with Tree.open(site) as target:
            keeping = asyncio.ensure_future(images.keep("one", 1, [removed("a", b"a")], target))
            for _ in range(10):
                await asyncio.sleep(0)
            assert not keeping.done()
            os.close(lock)
            await keeping
        assert await images.content(sha(b"a")) == b"a"


class TestOldRows:
    async def test_rows_of_the_old_table_are_still_read(
        self, clock: FakeClock, tmp_path: Path
    ) -> None:
        database, every = SqliteDatabase.open(tmp_path / "old.db"), load_migrations("runtime")
        await migrate(database, [each for each in every if each.id < "015"], clock=clock)
        await database.execute(
            "INSERT INTO before_images VALUES ('one', 2, 'a.txt', ?, ?, 'old text', "
            "'2026-01-01T00:00:00.000000Z'), ('one', 2, 'new.txt', NULL, ?, NULL, "
            "'2026-01-01T00:00:00.000000Z')",
            (sha(b"old text"), sha(b"new"), sha(b"new")),
        )
        await migrate(database, every, clock=clock)
        images = BeforeImages(database, clock, tmp_path / "before")
        assert [
            (each.path, each.kind, each.taken, each.kept) for each in await images.of("one")
        ] == [
            ("a.txt", ChangeKind.CHANGED, True, True),
            ("new.txt", ChangeKind.ADDED, True, True),
        ]
        assert await images.content(sha(b"old text")) == b"old text"
        (migration,) = [each for each in every if each.id.startswith("015")]
        await database.execute(migration.sql)  # it can be repeated
        assert len(await images.of("one")) == 2
        await database.close()


class TestTogether:
    def image(self, clock: FakeClock, before: str | None, after: str | None) -> BeforeImage:
        clock.advance(seconds=1)
        return BeforeImage(path="a", before=before, after=after, created_at=clock.now())

    def test_what_several_tasks_did_to_a_file_is_one_change(self, clock: FakeClock) -> None:
        first = self.image(clock, "1" * 64, "2" * 64)
        second = self.image(clock, "2" * 64, None)
        (net,) = net_changes([second, first]) or []
        assert (net.before, net.after) == ("1" * 64, None)

    def test_what_came_and_went_is_none(self, clock: FakeClock) -> None:
        made, gone = self.image(clock, None, "1" * 64), self.image(clock, "1" * 64, None)
        assert net_changes([made, gone]) == []

    def test_with_somebody_elses_change_in_between_nobody_knows(self, clock: FakeClock) -> None:
        first = self.image(clock, "1" * 64, "2" * 64)
        assert net_changes([first, self.image(clock, "3" * 64, None)]) is None


def tidying(names: list[str], **more: Any) -> WorkItem:
    """A plan that removes these files."""
    body = "```run\n" + "\n".join(f"rm -- {name}" for name in names) + "\n```"
    workspace = {"path": "site", "changes": {"remove": names}}
    verify = [check(f"test ! -e {names[0]}")]
    return task(body, workspace=workspace, verify=verify, **more)


async def undone(shop: Shop, name: str = "t1", worker: Any = None) -> WorkItem:
    """The undo of an item, as the card offers it, approved and executed."""
    item = await shop.bench.items.get(name)
    assert item is not None
    undo = undo_item(item, await shop.bench.images.of(name), title=item.title)
    assert undo is not None
    if worker is not None:
        shop.having(agent=worker)
    await shop.execute(await shop.approve(undo))
    after = await shop.bench.items.get(undo.id)
    assert after is not None
    return after


class TestUndo:
    async def test_51_photos_and_a_pdf_come_back(self, shop: Shop, site: Path) -> None:
        held = {f"photo{n}.jpg": os.urandom(20_000) for n in range(51)}
        held["tax.pdf"] = b"%PDF-1.7\n" + BINARY
        for name, content in held.items():
            (site / name).write_bytes(content)
        result = await shop.run(tidying(sorted(held)))
        assert result.status is WorkItemStatus.DONE
        assert list(site.iterdir()) == []
        told = [data for event, data in shop.audit.entries if event in ("work_done", "work_files")]
        assert {each["path"]: each["before"] for data in told for each in data["changes"]} == {
            name: sha(content) for name, content in held.items()
        }
        after = await undone(shop)
        assert after.status is WorkItemStatus.DONE
        assert {path.name: path.read_bytes() for path in site.iterdir()} == held

    async def test_modes_names_and_any_bytes_come_back_and_what_was_made_goes(
        self, shop: Shop, site: Path
    ) -> None:
        held = {"run me.sh": b"#!/bin/sh\r\n", "latin.txt": b"caf\xe9", "same": b"x", "-n": b"x"}
        for name, content in held.items():
            (site / name).write_bytes(content)
        (site / "run me.sh").chmod(0o755)
        work = "rm -- 'run me.sh' -n; printf new > made; printf y > latin.txt; chmod +x same"
        item = task(
            workspace={
                "path": "site",
                "changes": {
                    "add": ["made"],
                    "change": ["latin.txt", "same"],
                    "remove": ["run me.sh", "-n"],
                    "executable": ["same"],
                },
            },
            verify=[check("test -e made")],
        )
        result = await shop.run(item, FakeWorker(calls(script(work))))
        assert result.status is WorkItemStatus.DONE
        after = await undone(shop, worker=FakeWorker())
        assert after.status is WorkItemStatus.DONE, "no model plays it"
        assert {path.name: path.read_bytes() for path in site.iterdir()} == held
        executable = [path.name for path in site.iterdir() if path.stat().st_mode & 0o100]
        assert executable == ["run me.sh"]

    async def test_its_plan_declares_exactly_its_files(self, shop: Shop, site: Path) -> None:
        (site / "tool").write_bytes(b"tool")
        (site / "tool").chmod(0o755)
        plan = tidying(["tool"])
        assert plan.workspace is not None
        workspace = plan.workspace.model_copy(update={"files": {"tool": "editable"}})
        await shop.run(plan.model_copy(update={"workspace": workspace}))
        item = await require_item(shop.bench.items, "t1")
        undo = undo_item(item, await shop.bench.images.of("t1"), title="T")
        assert undo is not None
        assert undo.workspace is not None
        declared = undo.workspace.changes
        assert (declared.add, declared.executable) == (["tool"], ["tool"])
        assert (declared.change, declared.remove) == ([], [])

    async def test_whoever_has_changed_a_file_since_keeps_it(self, shop: Shop, site: Path) -> None:
        (site / "a").write_bytes(b"a")
        await shop.run(tidying(["a"]))
        (site / "a").write_bytes(b"mine")
        assert (await undone(shop)).status is not WorkItemStatus.DONE
        assert (site / "a").read_bytes() == b"mine"

    async def test_without_the_content_nothing_is_offered(self, shop: Shop, site: Path) -> None:
        (site / "a").write_bytes(b"a")
        await shop.run(tidying(["a"]))
        for path in shop.bench.images.directory.glob("??/*"):
            path.unlink()
        item = await shop.bench.items.get("t1")
        assert item is not None
        assert undo_item(item, await shop.bench.images.of("t1"), title="T") is None

    async def test_what_cannot_be_kept_is_not_removed(self, shop: Shop, site: Path) -> None:
        (site / "a").write_bytes(BINARY)
        with tiny_disk(shop.root / "disk", kilobytes=64) as disk:
            ballast = fill(disk)
            images = BeforeImages(shop.bench.images.database, shop.clock, disk / "before")
            shop.having(images=images)
            result = await shop.run(tidying(["a"], budget={"max_attempts": 1}))
            assert result.status is WorkItemStatus.BLOCKED
            assert "cannot be kept for undo (No space left on device)" in (result.last_error or "")
            assert (site / "a").read_bytes() == BINARY
            assert await images.of("t1") == []
            ballast.unlink()

    @pytest.mark.parametrize("kept", [False, True])
    async def test_killed_before_the_take_over_it_goes_on_and_can_be_undone(
        self, shop: Shop, site: Path, kept: bool
    ) -> None:
        (site / "a").write_bytes(BINARY)
        bench = shop.bench
        (approved,) = await shop.approve_plan(Plan(tidying(["a"])))
        item = await bench.attempts.start(approved.id, runner=DEAD)
        files = await bench.workspaces.open_attempt(item, item.attempts, {})
        (files.directory / "a").unlink()
        delivery = await bench.workspaces.deliver(files, [removed("a", BINARY)])
        publication = bench.workspaces.prepare(files, delivery)
        bench.workspaces.remember(files, publication)
        if kept:
            with Tree.open(site) as target:
                await bench.images.keep("t1", 1, publication.changes, target)
        await recover(bench)
        after = await bench.items.get("t1")
        assert after is not None
        assert after.status in ENDED_WELL
        assert not (site / "a").exists()
        assert (await undone(shop)).status is WorkItemStatus.DONE
        assert (site / "a").read_bytes() == BINARY


class TestOnlyThePlansScript:
    async def kept(self, shop: Shop, site: Path, content: bytes = b"secret") -> str:
        (site / "a").write_bytes(content)
        await shop.run(tidying(["a"]))
        return sha(content)

    async def test_no_model_sees_the_tool(self, shop: Shop) -> None:
        registry = shop.bench.registry
        assert "restore_file" in registry.tools
        assert "restore_file" not in registry.names
        assert "restore_file" not in {each.name for each in registry.offers}

    async def test_a_worker_that_calls_it_anyway_is_refused(self, shop: Shop, site: Path) -> None:
        digest = await self.kept(shop, site)
        call = ("restore_file", {"path": "b", "sha256": digest, "executable": False})
        result = await shop.run(
            task(id="t2", workspace={"path": "site"}, budget={"max_attempts": 1}),
            FakeWorker(calls(call)),
        )
        assert result.status is not WorkItemStatus.DONE
        assert not (site / "b").exists()

    async def test_a_plan_brings_nothing_from_another_directory(
        self, shop: Shop, site: Path
    ) -> None:
        digest = await self.kept(shop, site)
        (shop.root / "elsewhere").mkdir()
        result = await shop.run(
            task(
                f"```restore path=b sha256={digest} executable=no\n```",
                id="t2",
                workspace={"path": "elsewhere", "changes": {"add": ["b"]}},
                verify=[check("test -e b")],
                budget={"max_attempts": 1},
            )
        )
        assert result.status is not WorkItemStatus.DONE
        assert not (shop.root / "elsewhere" / "b").exists()

    async def test_a_hash_that_nobody_kept_puts_nothing_back(self, shop: Shop, site: Path) -> None:
        result = await shop.run(
            task(
                f"```restore path=b sha256={'0' * 64} executable=no\n```",
                workspace={"path": "site", "changes": {"add": ["b"]}},
                verify=[check("test -e b")],
                budget={"max_attempts": 1},
            )
        )
        assert result.status is not WorkItemStatus.DONE
        assert not (site / "b").exists()
