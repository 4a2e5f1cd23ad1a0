"""After a crash: a fresh attempt, or what had passed is taken over; never half, never twice."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from silas.storage import DiskFull
from silas.work import AttemptOutcome, Plan, VerificationResult, WorkItem, WorkItemStatus
from silas.work.attempt_store import may_be_alive, this_runner
from silas.work.authorisation import revoke_approvals
from silas.work.before_images import BeforeImages
from silas.work.executor import WorkItemExecutor
from silas.work.workspaces import AttemptWorkspace, Publication, Workspaces
from tests.work.shop import Shop, check, task
from tests.work.test_project import git, make_repository

SITE = {
    "path": "site",
    "changes": {"add": ["new.txt"], "change": ["log.txt"], "remove": ["old.txt"]},
}
SHOWN = VerificationResult(name="check", passed=True, reason="", passed_before=False)
DEAD = "/".join([*this_runner().split("/")[:2], "999999999", "1"])


MAKES, MADE = "```file path=made\nmade\n```", check("test -f made")


def test_runners_know_who_is_alive() -> None:
    host, boot, pid, started = this_runner().split("/")
    assert may_be_alive(this_runner())
    assert may_be_alive("elsewhere/boot/1/1"), "of another machine nobody here can say"
    assert not may_be_alive(DEAD)
    assert not may_be_alive(f"{host}/{boot}/{pid}/1"), "another process with the same number"
    assert not may_be_alive(f"{host}/00000000/{pid}/{started}"), "before the machine was restarted"


async def abandoned(shop: Shop, item: WorkItem) -> WorkItem:
    """The item with an attempt of a runner that was killed."""
    (approved,) = await shop.approve_plan(Plan(item))
    return await shop.bench.attempts.start(approved.id, runner=DEAD)


async def again(shop: Shop) -> WorkItem:
    await WorkItemExecutor(shop.bench).recover()
    item = await shop.bench.items.get("t1")
    assert item is not None
    return item


async def test_an_interrupted_attempt_is_followed_by_a_fresh_one(shop: Shop) -> None:
    item = await abandoned(shop, task(MAKES, verify=[MADE]))
    await shop.bench.ledger.begin(item.id, 1, tool="shell_exec", args={"argv": ["x"]})
    item = await again(shop)
    assert item.status is WorkItemStatus.PENDING
    assert "work_interrupted" in shop.audit.events()
    assert (await shop.execute(item)).status is WorkItemStatus.DONE
    outcomes = [each.outcome for each in await shop.bench.attempts.list_of("t1")]
    assert outcomes == [AttemptOutcome.INTERRUPTED, AttemptOutcome.PASSED]
    (begun,) = await shop.bench.ledger.entries("t1", 1)
    assert begun.result is None, "nobody claims to know how it ended"


async def test_who_lives_is_left_alone(shop: Shop) -> None:
    (approved,) = await shop.approve_plan(Plan(task()))
    other = f"{this_runner().rsplit('/', 2)[0]}/1/{_started_of(1)}"
    await shop.bench.attempts.start(approved.id, runner=other)
    assert (await again(shop)).status is WorkItemStatus.RUNNING


def _started_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


async def test_a_crash_in_the_last_attempt_is_stuck_and_not_endless(shop: Shop) -> None:
    await abandoned(shop, task("```run\ntrue\n```", budget={"max_attempts": 1}))
    result = await shop.execute(await again(shop))
    assert result.status is WorkItemStatus.STUCK


async def test_the_owners_pause_survives_the_crash(shop: Shop) -> None:
    await abandoned(shop, task("```run\ntrue\n```"))
    await shop.bench.control.pause("t1")
    assert (await again(shop)).status is WorkItemStatus.PAUSED


async def test_a_process_gives_up_what_it_left_open_itself(shop: Shop) -> None:
    """As after a disk that failed just when the attempt was to be closed."""
    (approved,) = await shop.approve_plan(Plan(task(MAKES, verify=[MADE])))
    item = await shop.bench.attempts.start(approved.id, runner=shop.bench.runner)
    executor = WorkItemExecutor(shop.bench)
    with shop.bench.control.at_work(item.id):
        assert await executor.release() == [], "somebody is at it"
    assert [each.status for each in await executor.release()] == [WorkItemStatus.PENDING]
    assert "work_interrupted" in shop.audit.events()
    assert (await shop.execute(item)).status is WorkItemStatus.DONE


async def test_what_was_left_open_does_not_change_the_owners_word(shop: Shop) -> None:
    (approved,) = await shop.approve_plan(Plan(task("```run\ntrue\n```")))
    await shop.bench.attempts.start(approved.id, runner=shop.bench.runner)
    await shop.bench.control.pause("t1")
    [item] = await WorkItemExecutor(shop.bench).release()
    assert item.status is WorkItemStatus.PAUSED
    assert await shop.bench.attempts.list_open() == []


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site"
    path.mkdir()
    (path / "log.txt").write_text("start\n")
    (path / "old.txt").write_text("old\n")
    return path


async def passed(
    shop: Shop, item: WorkItem, results: Sequence[VerificationResult] = (SHOWN,)
) -> AttemptWorkspace:
    """What an attempt leaves whose checks had passed, when Silas is killed right then."""
    places = shop.bench.workspaces
    files = await places.open_attempt(item, item.attempts, {})
    with (files.directory / "log.txt").open("a") as log:
        log.write("once\n")
    (files.directory / "old.txt").unlink()
    (files.directory / "new.txt").write_text("new\n")
    publication = places.prepare(files, await places.deliver(files, files.changes()))
    places.remember(files, publication.model_copy(update={"results": list(results)}))
    return files


@pytest.mark.parametrize("repository", [False, True])
@pytest.mark.parametrize("applied", [(), ("log.txt",), ("log.txt", "new.txt", "old.txt")])
async def test_what_had_passed_is_taken_over_once(
    shop: Shop, site: Path, applied: tuple[str, ...], repository: bool
) -> None:
    if repository:
        make_repository(site)
    item = await abandoned(shop, task(workspace=SITE))
    files = await passed(shop, item)
    for name in applied:  # it was killed after it had written these
        source = files.directory / name
        if source.exists():
            (site / name).write_bytes(source.read_bytes())
        else:
            (site / name).unlink()
    item = await again(shop)
    assert item.status is WorkItemStatus.DONE
    assert (site / "log.txt").read_text() == "start\nonce\n"
    assert sorted(p.name for p in site.iterdir() if p.name != ".git") == ["log.txt", "new.txt"]
    assert (await shop.execute(item)).status is WorkItemStatus.DONE
    assert (site / "log.txt").read_text() == "start\nonce\n"
    if repository:
        assert git(site, "log", "--format=%s", "silas/t1").splitlines() == ["T", "start"]
        assert git(site, "log", "--format=%s").splitlines() == ["start"]
        assert git(site, "diff", "silas/t1", "--", "log.txt", "old.txt") == ""


async def test_a_crash_between_the_files_and_the_branch(shop: Shop, site: Path) -> None:
    make_repository(site)
    item = await abandoned(shop, task(workspace=SITE))
    await passed(shop, item)
    publication = shop.bench.workspaces.pending(item, 1)
    assert publication is not None
    shop.bench.workspaces.complete(publication, item)
    assert (await again(shop)).status is WorkItemStatus.DONE
    assert (site / "log.txt").read_text() == "start\nonce\n"
    assert git(site, "log", "--format=%s", "silas/t1").splitlines() == ["T", "start"]


async def test_what_had_passed_and_showed_nothing_is_not_done(shop: Shop, site: Path) -> None:
    item = await abandoned(shop, task(workspace=SITE))
    await passed(shop, item, results=[SHOWN.model_copy(update={"passed_before": True})])
    assert (await again(shop)).status is WorkItemStatus.UNCHECKED
    assert (site / "log.txt").read_text() == "start\nonce\n"


@pytest.mark.parametrize("word", ["cancel", "revoke", "pause"])
async def test_what_the_owner_stopped_after_the_crash_is_not_taken_over(
    shop: Shop, site: Path, word: str
) -> None:
    bench = shop.bench
    item = await abandoned(shop, task(workspace=SITE))
    await passed(shop, item)
    if word == "revoke":
        await revoke_approvals(bench.approvals, bench.items, bench.control, "t1")
    else:
        await getattr(bench.control, word)("t1")
    item = await again(shop)
    assert (site / "log.txt").read_text() == "start\n"
    assert sorted(each.name for each in site.iterdir()) == ["log.txt", "old.txt"]
    assert "work_done" not in shop.audit.events()
    assert await bench.attempts.list_open() == []
    if word != "pause":
        assert item.is_cancelled
        assert bench.workspaces.pending(item, 1) is None
        return
    assert item.status is WorkItemStatus.PAUSED
    result = await shop.execute(await bench.control.resume("t1"))
    assert result.status is WorkItemStatus.DONE
    assert (site / "log.txt").read_text() == "start\nonce\n"


async def test_what_had_begun_is_taken_over_to_its_end_and_not_called_done(
    shop: Shop, site: Path
) -> None:
    item = await abandoned(shop, task(workspace=SITE))
    files = await passed(shop, item)
    (site / "log.txt").write_bytes((files.directory / "log.txt").read_bytes())
    await shop.bench.control.cancel("t1")
    assert (await again(shop)).is_cancelled
    assert not (site / "old.txt").exists()
    assert "work_done" not in shop.audit.events()
    assert changed_files(shop) == ["log.txt", "new.txt", "old.txt"]


async def test_files_that_were_changed_while_the_owner_stopped_it_are_in_the_log(
    shop: Shop, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Workspaces.record

    async def stopped(places: Workspaces, publication: Publication, item: WorkItem) -> str | None:
        await shop.bench.control.cancel("t1")
        return await record(places, publication, item)

    monkeypatch.setattr(Workspaces, "record", stopped)
    wanted = task("```file path=new.txt\nnew\n```", verify=[check("cat new.txt")], workspace=SITE)
    assert (await shop.run(wanted)).status is WorkItemStatus.FAILED
    assert (site / "new.txt").exists()
    assert changed_files(shop) == ["new.txt"]


def changed_files(shop: Shop) -> list[str]:
    """The files that the log says were changed when an attempt ended that was not done."""
    found = [data for event, data in shop.audit.entries if event == "work_attempt_ended"]
    return sorted(change["path"] for data in found for change in data["changes"])


async def test_what_somebody_changed_in_the_meantime_is_not_overwritten(
    shop: Shop, site: Path
) -> None:
    item = await abandoned(shop, task(workspace=SITE))
    await passed(shop, item)
    (site / "log.txt").write_text("mine\n")
    assert (await again(shop)).status is WorkItemStatus.PENDING
    assert (site / "log.txt").read_text() == "mine\n"
    assert (site / "old.txt").exists()
    assert "work_not_recovered" in shop.audit.events()


async def test_what_was_taken_over_in_part_waits_for_the_owner(shop: Shop, site: Path) -> None:
    """Doing it again would do it twice; overwriting would lose the owner's change."""
    item = await abandoned(shop, task("```run\ntrue\n```", workspace=SITE))
    files = await passed(shop, item)
    (site / "log.txt").write_bytes((files.directory / "log.txt").read_bytes())
    (site / "old.txt").write_text("mine\n")
    result = await shop.execute(await again(shop))
    assert result.status is WorkItemStatus.BLOCKED
    assert "taken over in part: These files were changed by somebody else: old.txt." in (
        result.last_error or ""
    )
    assert (site / "old.txt").read_text() == "mine\n"
    (site / "old.txt").write_text("old\n")
    result = await shop.execute(await again(shop))
    assert result.status is WorkItemStatus.DONE
    assert (site / "log.txt").read_text() == "start\nonce\n"
    assert not (site / "old.txt").exists()


async def test_what_is_taken_over_later_has_the_whole_record(
    shop: Shop, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails between the files and the rows: the attempt that passed still counts."""

    complete, failures = Workspaces.complete, [DiskFull()]

    def failing(places: Workspaces, publication: Publication, item: WorkItem) -> None:
        complete(places, publication, item)
        if failures:
            raise failures.pop()

    monkeypatch.setattr(Workspaces, "complete", failing)
    body = "```append path=log.txt\nonce\n```\n\n```file path=new.txt\nnew\n```"
    wanted = task(
        body,
        verify=[check("grep -q once log.txt")],
        workspace=SITE,
        budget={"max_attempts": 1},
    )
    with pytest.raises(DiskFull):
        await shop.run(wanted)
    item = await again(shop)
    assert item.status is WorkItemStatus.PENDING
    result = await shop.execute(item)
    assert result.status is WorkItemStatus.DONE
    assert [check.passed for check in result.verification_results] == [True]
    item = await again(shop)
    assert item.verification_results == result.verification_results
    assert (item.attempts, item.budget_used.attempts) == (1, 1)
    assert item.budget_used.executor_runs == 2
    outcomes = [each.outcome for each in await shop.bench.attempts.list_of("t1")]
    assert outcomes == [AttemptOutcome.PASSED]
    assert (site / "log.txt").read_text() == "start\nonce\n"
    follow_up = task(
        "```run\ncp new.txt newer.txt\n```",
        id="t2",
        follow_up_of="t1",
        input_artifacts_from=["new.txt"],
        verify=[check("cmp new.txt newer.txt")],
    )
    ended = await shop.run(follow_up)
    assert ended.status is WorkItemStatus.DONE, "its artifacts are found"


async def test_what_could_not_be_undone_is_not_taken_over(shop: Shop, site: Path) -> None:
    class Failing(BeforeImages):
        async def keep(self, *args: object, **more: object) -> None:
            raise DiskFull

    whole = shop.bench.images
    shop.having(images=Failing(whole.database, whole.clock, whole.directory))
    body = "```append path=log.txt\nonce\n```"
    with pytest.raises(DiskFull):
        await shop.run(task(body, verify=[check("grep -q once log.txt")], workspace=SITE))
    assert (site / "log.txt").read_text() == "start\n"
    shop.having(images=whole)
    assert (await shop.execute(await again(shop))).status is WorkItemStatus.DONE
    assert (site / "log.txt").read_text() == "start\nonce\n"


async def test_a_branch_in_the_way_does_not_undo_what_is_done(shop: Shop, site: Path) -> None:
    make_repository(site)
    git(site, "branch", "silas")
    body = "```file path=new.txt\nnew\n```"
    result = await shop.run(task(body, verify=[check("test -f new.txt")], workspace=SITE))
    assert result.status is WorkItemStatus.DONE
    assert (site / "new.txt").read_text() == "new\n"
    [note] = [data["note"] for name, data in shop.audit.entries if name == "taken_over_with_a_note"]
    assert note.startswith("The files are there, and no commit was made of them: The branch silas")
