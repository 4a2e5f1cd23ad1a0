"""Nothing that a worker leaves in its workspace stops Silas."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from silas.audit.errors import AuditError
from silas.storage import trees
from silas.testing.work import FakeWorker
from silas.tools.tree import FileRefused, Tree, TreeLimits, require_readable, split_path
from silas.work import Plan, WorkItem, WorkItemStatus
from silas.work.executor import WorkItemExecutor
from tests.storage.nasty_trees import as_nobody, nest
from tests.work.shop import Shop, calls, check, script, task
from tests.work.test_recovery import DEAD

DEEP = "i=0; while [ $i -lt 1500 ]; do mkdir d; cd d || exit; i=$((i+1)); done"
LONG = (
    "n=$(printf '%0200d' 0); i=0; while [ $i -lt 30 ]; do mkdir $n; cd $n || exit; i=$((i+1)); done"
)
CLOSED = "mkdir -p a/b; touch a/b/file; chmod 000 a/b; chmod 300 a"
NOT_UTF8 = "touch $(printf 'caf\\351.txt')"
ATTACKS = {
    "deep": (DEEP, "64 levels"),
    "long names": (LONG, "1024 bytes"),
    "not UTF-8": (NOT_UTF8, "not UTF-8"),
}


@pytest.mark.parametrize("place", ["empty", "copy"])
@pytest.mark.parametrize(("text", "told"), ATTACKS.values(), ids=ATTACKS)
async def test_an_attempt_that_leaves_such_a_tree_ends_with_a_sentence(
    shop: Shop, tmp_path: Path, text: str, told: str, place: str
) -> None:
    (tmp_path / "site").mkdir()
    workspace = {"path": "site"} if place == "copy" else None
    item = task(verify=[check("true")], workspace=workspace, budget={"max_attempts": 1})
    result = await shop.run(item, FakeWorker(calls(script(text), script("true"))))
    if place == "copy" or result.status is not WorkItemStatus.DONE:
        assert result.status is WorkItemStatus.STUCK
    [attempt] = await shop.bench.attempts.list_of("t1")
    ledger = await shop.bench.ledger.entries("t1", 1)
    said = [attempt.detail, *(entry.result.error or "" for entry in ledger if entry.result)]
    assert any(told in each for each in said), said
    assert not list((shop.root / "work" / "attempts").glob("*/*"))
    assert not list((tmp_path / "site").iterdir())
    assert await WorkItemExecutor(shop.bench).recover() == []


@pytest.mark.parametrize("text", [DEEP, LONG, CLOSED, NOT_UTF8])
async def test_after_a_kill_such_a_tree_is_swept_and_can_be_cancelled(
    shop: Shop, text: str
) -> None:
    (approved,) = await shop.approve_plan(Plan(task()))
    item = await shop.bench.attempts.start(approved.id, runner=DEAD)
    files = await shop.bench.workspaces.open_attempt(item, 1, {})
    await (await asyncio.create_subprocess_exec("sh", "-c", text, cwd=files.directory)).wait()
    assert any(files.directory.iterdir())
    [interrupted] = await WorkItemExecutor(shop.bench).recover()
    assert interrupted.status is WorkItemStatus.PENDING
    assert not files.place.parent.exists()
    assert [each.status for each in await shop.bench.control.cancel("t1")] == [
        WorkItemStatus.FAILED
    ]


async def test_what_cannot_be_removed_is_told_set_aside_and_tried_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = os.unlink

    def refuse(path: str, *, dir_fd: int | None = None) -> None:
        if path == "immutable":
            raise PermissionError(errno.EPERM, "Operation not permitted", path)
        unlink(path, dir_fd=dir_fd)

    with monkeypatch.context() as held:
        held.setattr(trees.os, "unlink", refuse)
        item = task(verify=[check("test -f immutable")])
        result = await shop.run(item, FakeWorker(calls(script("touch immutable"))))
        assert result.status is WorkItemStatus.DONE
        [data] = [data for name, data in shop.audit.entries if name == "files_not_removed"]
        assert data["work_item_id"] == "t1"
        assert "immutable (Operation not permitted)" in data["left"][0]
        [aside] = shop.bench.workspaces.set_aside()
        assert shop.bench.workspaces.tasks_with_files() == set()
        await WorkItemExecutor(shop.bench).recover()
        assert shop.bench.workspaces.set_aside() == [aside]
        assert shop.audit.events().count("files_not_removed") == 2
    await WorkItemExecutor(shop.bench).recover()
    assert shop.bench.workspaces.set_aside() == []
    assert shop.audit.events().count("files_not_removed") == 2


async def test_nothing_is_still_being_removed_when_the_log_fails(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever hears of the error may begin the next attempt at once."""
    removing, may_remove = threading.Event(), threading.Event()
    workspaces = shop.bench.workspaces
    discard, log = workspaces.discard, shop.audit.log

    def slow(item: WorkItem) -> list[str]:
        removing.set()
        assert may_remove.wait(60)
        return discard(item)

    async def fails(event: str, **data: object) -> str:
        if event == "work_done":
            raise AuditError("The disk is full.")
        return await log(event, **data)

    monkeypatch.setattr(workspaces, "discard", slow)
    monkeypatch.setattr(shop.audit, "log", fails)
    item = task(verify=[check("test -f made")])
    running = asyncio.ensure_future(shop.run(item, FakeWorker(calls(script("touch made")))))
    await asyncio.to_thread(removing.wait, 60)
    for _ in range(100):
        await asyncio.sleep(0)
    early = running.done()
    may_remove.set()
    with pytest.raises(AuditError, match="full"):
        await running
    assert not early
    assert workspaces.tasks_with_files() == set()


async def test_names_of_the_owner_that_are_not_utf8_are_left_out_and_left_alone(
    shop: Shop, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    (site / os.fsdecode(b"d\xff")).mkdir(parents=True)
    names = [os.fsdecode(b"caf\xe9.txt"), os.fsdecode(b"d\xff/inside")]
    for name in names:
        (site / name).write_text("mine")
    (site / "link").symlink_to(os.fsdecode(b"caf\xe9.txt"))
    item = task(
        verify=[check("test -e new")], workspace={"path": "site", "changes": {"add": ["new"]}}
    )
    result = await shop.run(item, FakeWorker(calls(script("touch new"))))
    assert result.status is WorkItemStatus.DONE
    assert [(site / name).read_text() for name in names] == ["mine", "mine"]
    assert (site / "new").exists()
    assert (site / "link").is_symlink()
    [told] = [data["names"] for name, data in shop.audit.entries if name == "files_left_out"]
    assert told == ["caf\\xe9.txt", "d\\xff/inside", "link"]


LIMITS = {
    "files": ({"limit": 2}, "more than 2 files"),
    "directories": ({"limits": TreeLimits(directories=1)}, "more than 1 directories"),
    "size": ({"limits": TreeLimits(size=10)}, "more than 10 bytes"),
    "depth": ({"limits": TreeLimits(depth=2)}, "more than 2 levels"),
    "name": ({"limits": TreeLimits(name_bytes=3)}, "a/b/....: its name has more than 3 bytes"),
    "path": ({"limits": TreeLimits(path_bytes=7)}, "a/b/....: its path has more than 7 bytes"),
}


@pytest.mark.parametrize(("given", "told"), LIMITS.values(), ids=LIMITS)
def test_every_limit_of_a_listing_has_its_sentence(
    tmp_path: Path, given: dict[str, object], told: str
) -> None:
    nest(tmp_path, ["a", "b"], content=b"0123456789")
    (tmp_path / "a" / "one").write_text("x")
    (tmp_path / "a" / "b" / "long").touch()
    with Tree.open(tmp_path) as tree:
        assert len(tree.listing(limit=3).files) == 3
        with pytest.raises(FileRefused, match=told):
            tree.listing(**{"limit": 3, **given})  # type: ignore[arg-type]


def test_holes_count_as_what_they_pretend(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(5 * 1024**3)
    with Tree.open(tmp_path) as tree, pytest.raises(FileRefused, match="bytes"):
        tree.listing(limit=10)


@pytest.mark.parametrize("mode", [0o000, 0o300, 0o400])
def test_a_directory_that_cannot_be_listed_is_refused(mode: int) -> None:
    as_nobody(
        f"""
        from pathlib import Path
        from silas.tools.tree import FileRefused
        from silas.tools.tree import Tree
        os.mkdir("closed")
        open("closed/file", "w").close()
        os.chmod("closed", {mode})
        try:
            with Tree.open(Path.cwd()) as tree:
                print(tree.listing(limit=10))
        except FileRefused as error:
            print("closed in" in error.message and "cannot be read" in error.message)
        """,
        says="True",
    )


def test_names_that_are_not_utf8_are_neither_files_nor_gone(tmp_path: Path) -> None:
    with Tree.open(tmp_path) as tree:
        before = tree.listing(limit=10)
        (tmp_path / os.fsdecode(b"\xff\n")).touch()
        after = tree.listing(limit=10)
    assert (after.files, after.unreadable) == ({}, ("\\xff\\n",))
    require_readable(after, after)
    for now, then in ((after, before), (before, after)):
        with pytest.raises(FileRefused, match="not UTF-8"):
            require_readable(now, then)


@pytest.mark.parametrize("name", ["\udcff", "n" * 200 + "/" + "n" * 900])
def test_a_worker_cannot_name_what_nobody_can_read(name: str) -> None:
    with pytest.raises(FileRefused, match=r"not UTF-8|more than 1024 bytes"):
        split_path(name)
