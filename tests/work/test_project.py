"""Projects: order, side by side, limits, conflicts, merges; and what a failed task means."""

import asyncio
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from silas.testing.work import FakeWorker
from silas.work import Plan, WorkItem, WorkItemResult, WorkItemStatus
from silas.work.ports import Briefing, ToolCaller
from tests.work.shop import Shop, check, task

DONE, FAILED, BLOCKED = WorkItemStatus.DONE, WorkItemStatus.FAILED, WorkItemStatus.BLOCKED
UNCHECKED = WorkItemStatus.UNCHECKED


def project(*tasks: WorkItem, **more: Any) -> Plan:
    ids = [each.id for each in tasks]
    fields = {"id": "p", "type": "project", "title": "P", "tasks": ids, **more}
    root = WorkItem.model_validate(fields)
    children = [
        each.model_copy(update={"parent": "p", "workspace": root.workspace}) for each in tasks
    ]
    return Plan(root, tuple(children))


def step(name: str, body: str = "", **more: Any) -> WorkItem:
    """A task that makes a file, and a check that shows it; another body has its own."""
    if not body:
        more = {"verify": [check(f"test -f {name}.txt")], **more}
    return task(body or f"```file path={name}.txt\n{name}\n```", id=name, **more)


def makes(name: str, path: str, **more: Any) -> WorkItem:
    """A task that has to make this file."""
    return step(name, verify=[check(f"test -f {path}")], **more)


async def run(shop: Shop, plan: Plan) -> WorkItemResult:
    root, *_ = await shop.approve_plan(plan)
    return await shop.execute(root)


async def statuses(shop: Shop) -> dict[str, str]:
    found = await shop.bench.items.list_by_parent("p")
    return {item.id: item.status.value for item in found}


async def test_tasks_run_in_order_and_pass_on_what_they_made(shop: Shop) -> None:
    plan = project(
        step("a"),
        makes(
            "b",
            "b.txt",
            body="```run\ncp a.txt b.txt\n```",
            depends_on=["a"],
            input_artifacts_from=["*"],
        ),
        makes(
            "c",
            "c.txt",
            body="```run\ncp b.txt c.txt\n```",
            depends_on=["b"],
            input_artifacts_from=["b.txt"],
        ),
        verify=[check("cat a.txt b.txt c.txt", equals="a\na\na\n")],
    )
    result = await run(shop, plan)
    assert (result.status, result.last_error) == (DONE, None)
    assert result.budget_used.executor_runs == 3
    assert await statuses(shop) == {"a": "done", "b": "done", "c": "done"}


async def test_every_item_needs_its_own_approval(shop: Shop) -> None:
    plan = project(step("a"), step("b"))
    root, first, second = await shop.bench.items.save_plan(plan)
    root, first = await shop.approve(root), await shop.approve(first)
    result = await shop.execute(root)
    assert result.status is BLOCKED
    assert await statuses(shop) == {"a": "done", "b": "blocked"}
    assert second.approval_token is None


async def test_without_the_projects_approval_no_task_runs(shop: Shop) -> None:
    root, task_ = await shop.bench.items.save_plan(project(step("a")))
    await shop.approve(task_)
    assert (await shop.execute(root)).status is BLOCKED
    assert await statuses(shop) == {"a": "pending"}


class Meeting:
    """A worker that notes how many work at the same time."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.all_here = asyncio.Event()
        self.now = 0
        self.most = 0

    async def __call__(self, _briefing: Briefing, tools: ToolCaller) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now >= self.expected:
            self.all_here.set()
        await asyncio.wait_for(self.all_here.wait(), 60)
        await tools.call("write_file", {"path": "x", "content": "x"})
        self.now -= 1


@pytest.mark.parametrize(("per_scope", "everywhere", "most"), [(8, 16, 4), (2, 16, 2), (8, 1, 1)])
async def test_independent_tasks_run_side_by_side_within_the_limits(
    shop: Shop, per_scope: int, everywhere: int, most: int
) -> None:
    meeting = Meeting(expected=most)
    shop.having(
        agent=FakeWorker(meeting),
        limits=replace(shop.bench.limits, per_scope=per_scope, pool=asyncio.Semaphore(everywhere)),
    )
    result = await run(shop, project(*(makes(name, "x") for name in "abcd")))
    assert (result.status, meeting.most) == (DONE, most)


async def test_a_failed_task_ends_the_project(shop: Shop) -> None:
    bad = step("a", verify=[check("false", name="no")], budget={"max_attempts": 1})
    result = await run(shop, project(bad, step("b", depends_on=["a"])))
    assert result.status is FAILED
    assert "a is stuck: The checks did not pass." in (result.last_error or "")
    assert await statuses(shop) == {"a": "stuck", "b": "pending"}


async def test_the_projects_own_checks_decide(shop: Shop) -> None:
    result = await run(shop, project(step("a"), verify=[check("test -f b.txt", name="both")]))
    assert (result.status, result.last_error) == (FAILED, "These checks did not pass: both.")


async def test_two_tasks_that_make_different_files_of_one_name(shop: Shop) -> None:
    plan = project(
        makes("a", "x", body="```file path=x\n1\n```"),
        makes("b", "x", body="```file path=x\n2\n```"),
        step("c", depends_on=["a", "b"], input_artifacts_from=["x"]),
    )
    result = await run(shop, plan)
    assert result.status is BLOCKED
    assert "Two tasks made different files named x." in (result.last_error or "")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site"
    path.mkdir()
    (path / "one.txt").write_text("1\n2\n3\n4\n5\n")
    (path / "two.txt").write_text("two\n")
    return path


def git(site: Path, *arguments: str) -> str:
    environ = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_AUTHOR_NAME": "Owner",
        "GIT_AUTHOR_EMAIL": "owner@localhost",
        "GIT_COMMITTER_NAME": "Owner",
        "GIT_COMMITTER_EMAIL": "owner@localhost",
    }
    command = ["git", "-C", str(site), *arguments]
    ran = subprocess.run(command, env=environ, capture_output=True, check=True)
    return ran.stdout.decode()


def make_repository(site: Path) -> None:
    git(site, "init", "-q", "-b", "main")
    git(site, "add", ".")
    git(site, "commit", "-q", "-m", "start")


def git_files(site: Path) -> dict[str, bytes]:
    """Everything in the owner's `.git`."""
    top = site / ".git"
    return {
        str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()
    }


@pytest.fixture
def repository(site: Path) -> Path:
    make_repository(site)
    return site


def edit(name: str, old: str, new: str, path: str = "one.txt") -> WorkItem:
    """A task that changes a line, and a check that shows it."""
    body = f"```run\nsed -i s/{old}/{new}/ {path}\n```"
    return step(name, body, verify=[check(f"grep {new} {path}")])


def site_with(**changes: list[str]) -> dict[str, Any]:
    return {"workspace": {"path": "site", "changes": changes}}


SITE = site_with(change=["one.txt", "two.txt"])


async def test_parallel_changes_of_a_directory_are_put_together(shop: Shop, site: Path) -> None:
    plan = project(
        edit("a", "1", "A"),
        edit("b", "two", "B", "two.txt"),
        verify=[check("cat one.txt two.txt", contains="A\n2\n3\n4\n5\nB\n")],
        **SITE,
    )
    assert (await run(shop, plan)).status is DONE
    assert (site / "two.txt").read_text() == "B\n"


async def test_tasks_side_by_side_do_not_keep_each_other_from_the_end(
    shop: Shop, site: Path
) -> None:
    names = "abcdefgh"
    declared = site_with(add=[f"{name}.txt" for name in names])
    result = await run(shop, project(*map(step, names), **declared))
    assert (result.status, result.last_error) == (DONE, None)
    assert all((site / f"{name}.txt").exists() for name in names)


@pytest.mark.parametrize("in_git", [False, True])
async def test_a_clash_blocks_and_names_the_file(shop: Shop, site: Path, in_git: bool) -> None:
    if in_git:
        make_repository(site)
    result = await run(shop, project(edit("a", "1", "A"), edit("b", "1", "B"), **SITE))
    assert result.status is BLOCKED
    assert "changed by somebody else: one.txt." in (result.last_error or "")
    assert sorted((await statuses(shop)).values()) == ["blocked", "done"]
    assert (site / "one.txt").read_text() in ("A\n2\n3\n4\n5\n", "B\n2\n3\n4\n5\n")


@pytest.mark.parametrize("in_git", [False, True])
async def test_parallel_changes_of_a_text_are_merged(shop: Shop, site: Path, in_git: bool) -> None:
    if in_git:
        make_repository(site)
    plan = project(
        edit("a", "1", "A"),
        edit("b", "5", "B"),
        verify=[check("cat one.txt", contains="A")],
        **SITE,
    )
    result = await run(shop, plan)
    assert (result.status, result.last_error) == (DONE, None)
    assert (site / "one.txt").read_text() == "A\n2\n3\n4\nB\n"


async def test_each_task_has_one_commit_on_a_branch_of_its_own(
    shop: Shop, repository: Path
) -> None:
    before = git_files(repository)
    plan = project(edit("a", "1", "A"), edit("b", "two", "B", "two.txt"), **SITE)
    assert (await run(shop, plan)).status is DONE
    after = git_files(repository)
    new = {name for name in after if name not in before}
    refs = {name for name in new if not name.startswith("objects/")}
    assert refs == {"refs/heads/silas/a", "refs/heads/silas/b"}
    assert {name: after[name] for name in before} == before, "nothing else of it has changed"
    for name, path in (("a", "one.txt"), ("b", "two.txt")):
        branch = f"silas/{name}"
        assert git(repository, "log", "--format=%s", f"main..{branch}") == "T\n"
        assert git(repository, "diff", "--name-only", "main", branch) == f"{path}\n"
        assert f"Silas-Work-Item: {name}\n" in git(repository, "log", "-1", "--format=%b", branch)
        assert git(repository, "show", f"{branch}:{path}") == (repository / path).read_text()
    assert git(repository, "status", "--porcelain") == " M one.txt\n M two.txt\n"
    assert git(repository, "fsck", "--strict") == ""


async def test_the_owners_unsaved_changes_are_worked_on_and_kept(
    shop: Shop, repository: Path
) -> None:
    (repository / "one.txt").write_text("1\nmine\n")
    (repository / "two.txt").write_text("also mine\n")
    (repository / "three.txt").write_text("not even added\n")
    assert (await run(shop, project(edit("a", "1", "A"), **SITE))).status is DONE
    assert (repository / "one.txt").read_text() == "A\nmine\n"
    assert (repository / "two.txt").read_text() == "also mine\n"
    assert (repository / "three.txt").read_text() == "not even added\n"
    assert git(repository, "status", "--porcelain") == " M one.txt\n M two.txt\n?? three.txt\n"
    assert git(repository, "diff", "--name-only", "main", "silas/a") == "one.txt\n"


@pytest.mark.parametrize("in_git", [False, True])
async def test_new_removed_and_executable_files_are_taken_over(
    shop: Shop, site: Path, in_git: bool
) -> None:
    if in_git:
        make_repository(site)
    body = "```file path=new/x\ntrue\n```\n```run\nchmod +x new/x\nrm two.txt\n```"
    declared = site_with(add=["new/x"], executable=["new/x"], remove=["two.txt"])
    gone = check("test -x new/x && ! test -e two.txt")
    assert (await run(shop, project(step("a", body, verify=[gone]), **declared))).status is DONE
    assert os.access(site / "new" / "x", os.X_OK)
    assert not (site / "two.txt").exists()
    if in_git:
        told = git(site, "diff", "--summary", "main", "silas/a")
        assert told == " create mode 100755 new/x\n delete mode 100644 two.txt\n"


async def test_nothing_of_the_repository_acts(shop: Shop, repository: Path, tmp_path: Path) -> None:
    alarm = tmp_path / "alarm"
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        hook = repository / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {alarm}\n")
        hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", f"touch {alarm}; false")
    git(repository, "config", "filter.evil.clean", f"touch {alarm}")
    (repository / ".gitattributes").write_text("* filter=evil\n")
    alarm.unlink(missing_ok=True)
    assert (await run(shop, project(edit("a", "1", "A"), **SITE))).status is DONE
    assert not alarm.exists()


async def test_work_that_nothing_has_shown_holds_up_what_depends_on_it(shop: Shop) -> None:
    unshown = step("a", verify=[check("true")])
    result = await run(shop, project(unshown, step("b", depends_on=["a"])))
    assert result.status is BLOCKED
    assert "a was done, but nothing has shown it." in (result.last_error or "")
    assert await statuses(shop) == {"a": "unchecked", "b": "blocked"}


async def test_a_plan_may_accept_what_nothing_has_shown(shop: Shop) -> None:
    unshown = step("a", verify=[check("true")])
    follower = step("b", depends_on=["a"], accepts_unchecked=True)
    assert (await run(shop, project(unshown, follower))).status is UNCHECKED
    assert await statuses(shop) == {"a": "unchecked", "b": "done"}


async def test_the_projects_own_check_shows_what_its_tasks_do_not(shop: Shop) -> None:
    unshown = step("a", verify=[check("true")])
    whole = check("test -f a.txt", name="whole")
    result = await run(shop, project(unshown, verify=[whole]))
    assert (result.status, result.summary) == (DONE, "All tasks are done, and checked.")
    assert await statuses(shop) == {"a": "unchecked"}


async def test_a_cycle_is_blocked(shop: Shop) -> None:
    plan = project(step("a", depends_on=["b"]), step("b", depends_on=["a"]))
    root, *_ = [await shop.approve(item) for item in await shop.bench.items.save_plan(plan)]
    assert (await shop.execute(root)).last_error == "The tasks wait for each other."


async def test_a_blocked_project_goes_on_where_it_was(shop: Shop) -> None:
    plan = project(step("a"), step("b", depends_on=["a"]))
    root, first, second = await shop.bench.items.save_plan(plan)
    root, first = await shop.approve(root), await shop.approve(first)
    assert (await shop.execute(root)).status is BLOCKED
    second = await shop.bench.items.get("b")
    assert second is not None
    await shop.approve(second)
    stored = await shop.bench.items.get("p")
    assert stored is not None
    assert (await shop.execute(stored)).status is DONE
    assert len(await shop.bench.attempts.list_of("a")) == 1
