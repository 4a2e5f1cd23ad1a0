"""Things that are watched: read anew, once each, and only where it is allowed."""

import os
from pathlib import Path

import pytest

from silas.context.manager import ContextManager
from silas.context.models import ContextZone, SubscriptionRefused
from silas.context.subscriptions import WatchedFiles
from silas.kernel import TaintLevel
from silas.memory.models import MemoryItem
from silas.testing.fakes import FakeRecall
from tests.context.making import NOW, item, manager, small_budget, subscription


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "allowed"
    folder.mkdir()
    (folder / "auth.py").write_text("".join(f"line {number}\n" for number in range(1, 101)))
    return folder


@pytest.fixture
def context(folder: Path) -> ContextManager:
    return manager(files=WatchedFiles([folder]))


def remembered(memory_id: str, content: str, scope_id: str = "ann") -> MemoryItem:
    return MemoryItem(
        memory_id=memory_id,
        scope_id=scope_id,
        content=content,
        taint=TaintLevel.AUTH,
        created_at=NOW,
        updated_at=NOW,
    )


def targets(context: ContextManager) -> list[str]:
    return [sub.target.rpartition("/")[2] for sub in context.subscriptions("ann") if sub.active]


class TestFiles:
    async def test_a_file_is_shown_as_it_is_now(
        self, context: ContextManager, folder: Path
    ) -> None:
        assert context.subscribe("ann", subscription("s", "auth.py")) == "s"
        text = await context.render("ann", 3)
        assert "line 100" in text
        assert f"--- subscription:file | {folder}/auth.py | live | last_changed: turn 3" in text
        (folder / "auth.py").write_text("other")
        assert await context.render("ann", 3) == text, "once in a turn"
        text = await context.render("ann", 4)
        assert "other" in text
        assert "last_changed: turn 4" in text
        assert await context.render("ann", 5) == text
        assert context.provenance("ann").taint is TaintLevel.EXTERNAL

    async def test_lines_that_changed_are_called_stale(
        self, context: ContextManager, folder: Path
    ) -> None:
        context.subscribe("ann", subscription("s", "auth.py:10-12", "file_lines"))
        text = await context.render("ann", 1)
        assert "\nline 10\nline 11\nline 12\n" in text
        assert "line 13" not in text
        whole = (folder / "auth.py").read_text()
        (folder / "auth.py").write_text("new\n" + whole)
        assert "[stale — file changed since turn 1]" in await context.render("ann", 2)
        (folder / "auth.py").write_text(whole)
        assert "stale" not in await context.render("ann", 3)

    async def test_what_is_too_long_sleeps(self, folder: Path) -> None:
        files = WatchedFiles([folder])
        context = manager(small_budget(max_subscription_tokens=50), files=files)
        context.subscribe("ann", subscription("s", "auth.py"))
        assert await context.render("ann", 1) == ""
        assert [(sub.active, sub.token_count) for sub in context.subscriptions("ann")] == [
            (False, 0)
        ]

    async def test_a_file_that_is_gone_sleeps(self, context: ContextManager, folder: Path) -> None:
        context.subscribe("ann", subscription("s", "auth.py"))
        await context.render("ann", 1)
        (folder / "auth.py").unlink()
        assert await context.render("ann", 2) == ""

    async def test_secrets_are_taken_out(self, folder: Path) -> None:
        context = manager(
            files=WatchedFiles([folder]),
            redact=lambda text: text.replace("line 7\n", "[redacted]\n"),
        )
        context.subscribe("ann", subscription("s", "auth.py"))
        assert "line 7\n" not in await context.render("ann", 1)


class TestWhatMayBeRead:
    def test_without_directories_nothing(self, folder: Path) -> None:
        with pytest.raises(SubscriptionRefused):
            manager().subscribe("ann", subscription("s", str(folder / "auth.py")))

    @pytest.mark.parametrize(
        "target", ["../outside.txt", "/etc/passwd", "sub/../../outside.txt", "link", "folder/x", ""]
    )
    def test_nothing_outside(self, context: ContextManager, folder: Path, target: str) -> None:
        (folder.parent / "outside.txt").write_text("secret")
        (folder.parent / "elsewhere").mkdir()
        (folder.parent / "elsewhere" / "x").write_text("secret")
        (folder / "link").symlink_to(folder.parent / "outside.txt")
        (folder / "folder").symlink_to(folder.parent / "elsewhere")
        (folder / "sub").mkdir()
        for kind, ending in (("file", ""), ("file_lines", ":1-2")):
            with pytest.raises(SubscriptionRefused):
                context.subscribe("ann", subscription("s", target + ending, kind))

    async def test_a_link_within_is_followed(self, context: ContextManager, folder: Path) -> None:
        (folder / "also.py").symlink_to("auth.py")
        context.subscribe("ann", subscription("s", "also.py"))
        assert "line 7" in await context.render("ann", 1)

    async def test_a_file_that_became_a_link_out_is_not_read(
        self, context: ContextManager, folder: Path
    ) -> None:
        (folder.parent / "outside.txt").write_text("secret")
        context.subscribe("ann", subscription("s", "auth.py"))
        (folder / "auth.py").unlink()
        (folder / "auth.py").symlink_to(folder.parent / "outside.txt")
        assert "secret" not in await context.render("ann", 1)

    async def test_a_directory_swapped_in_between_is_not_entered(self, folder: Path) -> None:
        (folder / "sub").mkdir()
        (folder / "sub" / "a.txt").write_text("mine")
        (folder.parent / "elsewhere").mkdir()
        (folder.parent / "elsewhere" / "a.txt").write_text("secret")
        files = WatchedFiles([folder])
        located = files.locate("sub/a.txt")
        (folder / "sub").rename(folder / "old")
        (folder / "sub").symlink_to(folder.parent / "elsewhere")
        with pytest.raises(SubscriptionRefused):
            await files.read(located)

    async def test_a_pipe_is_not_waited_for(self, context: ContextManager, folder: Path) -> None:
        os.mkfifo(folder / "pipe")
        context.subscribe("ann", subscription("s", "pipe"))
        assert await context.render("ann", 1) == ""

    @pytest.mark.parametrize("target", ["auth.py", "auth.py:0-3", "auth.py:5-2", "auth.py:a-b"])
    def test_lines_need_a_range(self, context: ContextManager, target: str) -> None:
        with pytest.raises(SubscriptionRefused):
            context.subscribe("ann", subscription("s", target, "file_lines"))

    def test_nothing_that_changes_comes_into_the_system_zone(self, context: ContextManager) -> None:
        with pytest.raises(SubscriptionRefused):
            context.subscribe("ann", subscription("s", "auth.py", zone=ContextZone.SYSTEM))


class TestOneForEach:
    def test_the_same_file_under_two_names(self, context: ContextManager, folder: Path) -> None:
        assert context.subscribe("ann", subscription("s", "auth.py")) == "s"
        assert context.subscribe("ann", subscription("t", str(folder / "auth.py"))) == "s"
        assert targets(context) == ["auth.py"]

    async def test_a_whole_file_stands_for_its_lines(self, context: ContextManager) -> None:
        context.subscribe("ann", subscription("a", "auth.py:1-5", "file_lines"))
        context.subscribe("ann", subscription("b", "auth.py:50-55", "file_lines"))
        await context.render("ann", 1)
        assert context.subscribe("ann", subscription("c", "auth.py")) == "c"
        assert context.subscribe("ann", subscription("d", "auth.py:3-4", "file_lines")) == "c"
        assert targets(context) == ["auth.py"]
        assert (await context.render("ann", 2)).count("--- end ---") == 1

    async def test_ranges_that_meet_become_one(self, context: ContextManager) -> None:
        context.subscribe("ann", subscription("a", "auth.py:1-5", "file_lines"))
        context.subscribe("ann", subscription("b", "auth.py:20-30", "file_lines"))
        assert targets(context) == ["auth.py:1-5", "auth.py:20-30"]
        assert context.subscribe("ann", subscription("c", "auth.py:6-8", "file_lines")) == "a"
        assert targets(context) == ["auth.py:1-8", "auth.py:20-30"]
        await context.render("ann", 1)
        assert context.subscribe("ann", subscription("d", "auth.py:7-21", "file_lines")) == "a"
        assert targets(context) == ["auth.py:1-30"]
        text = await context.render("ann", 2)
        assert "line 30" in text
        assert "stale" not in text
        assert context.subscribe("ann", subscription("e", "auth.py:2-3", "file_lines")) == "a"

    def test_each_scope_watches_for_itself(self, context: ContextManager) -> None:
        context.subscribe("ann", subscription("s", "auth.py"))
        assert context.subscribe("bob", subscription("t", "auth.py")) == "t"


class TestSleep:
    async def test_what_nobody_speaks_of_sleeps_and_can_be_woken(
        self, context: ContextManager
    ) -> None:
        context.subscribe("ann", subscription("s", "auth.py"))
        await context.render("ann", 1)
        context.add("ann", item("m", "I looked at auth.py", source="agent:proxy", turn_number=4))
        assert await context.enforce_budget("ann", 14) == []
        assert await context.enforce_budget("ann", 15) == ["s"]
        assert context.token_usage("ann")["workspace"] == 0
        assert "line 7" not in await context.render("ann", 15)
        assert context.subscribe("ann", subscription("t", "auth.py", turn_created=15)) == "s"
        assert "line 7" in await context.render("ann", 15)

    async def test_the_user_does_not_keep_it_awake(self, context: ContextManager) -> None:
        context.subscribe("ann", subscription("s", "auth.py"))
        context.add("ann", item("m", "what of auth.py", turn_number=4))
        await context.enforce_budget("ann", 12)
        assert targets(context) == []

    async def test_ended_is_asleep(self, context: ContextManager) -> None:
        context.subscribe("ann", subscription("s", "auth.py"))
        await context.render("ann", 1)
        context.unsubscribe("ann", "s")
        context.unsubscribe("ann", "unknown")
        assert await context.render("ann", 1) == ""

    async def test_it_gives_way_when_the_workspace_is_full(self, folder: Path) -> None:
        files = WatchedFiles([folder])
        context = manager(small_budget(2000), files=files)
        context.subscribe("ann", subscription("s", "auth.py"))
        await context.render("ann", 1)
        context.set_profile("ann", "research")
        context.add("ann", item("p", "word " * 300, ContextZone.WORKSPACE))
        assert await context.enforce_budget("ann", 1) == ["s"]
        assert targets(context) == []


class TestQueries:
    async def test_it_is_asked_every_time_and_shows_nothing_twice(self) -> None:
        recall = FakeRecall()
        context = manager(recall=recall)
        recall.found = [remembered("1", "likes tea"), remembered("2", "has a dog")]
        context.add("ann", item("mem_1", "likes tea", ContextZone.MEMORY))
        context.subscribe("ann", subscription("q", "preferences", "memory_query"))
        text = await context.render("ann", 1)
        assert text.count("likes tea") == 1
        assert "has a dog" in text
        recall.found = [remembered("3", "moved house")]
        assert "moved house" in await context.render("ann", 1)
        assert recall.queries == [("ann", "preferences")] * 2
        assert context.provenance("ann").taint is TaintLevel.AUTH

    async def test_a_memory_of_somebody_else_is_never_shown(self) -> None:
        recall = FakeRecall()
        context = manager(recall=recall)
        recall.found = [remembered("1", "bob is ill", scope_id="bob")]
        context.subscribe("ann", subscription("q", "health", "memory_query"))
        assert "bob is ill" not in await context.render("ann", 1)

    async def test_without_a_memory_it_sleeps(self) -> None:
        context = manager()
        context.subscribe("ann", subscription("q", "health", "memory_query"))
        assert await context.render("ann", 1) == ""
        assert targets(context) == []

    @pytest.mark.parametrize("words", ["", "x" * 2001])
    def test_a_query_the_memory_would_not_take(self, words: str) -> None:
        with pytest.raises(SubscriptionRefused):
            manager().subscribe("ann", subscription("q", words, "memory_query"))
