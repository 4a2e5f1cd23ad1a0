"""`silas plan`, as people and scripts use it."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from silas.kernel import SystemClock
from silas.storage import SqliteDatabase
from silas.work import Plan, WorkItemStore, parse_plan
from silas.work.binding import bind_plan
from silas.work.effects import Workspace
from silas.work.off_limits import OffLimits
from tests.cli.machine import Machine, failure_of, output_of

PLANS = Path(__file__).parents[2] / "plans"
FOLLOW_UP = "---\nid: b\ntype: task\ntitle: T\nfollow_up_of: a\n---\nGo on."
BOUND = """---
id: page
type: task
title: Write the page
workspace: { path: site, changes: { add: [page.txt, check.sh] } }
verify: [{ name: new, run: sh check.sh, expect: { equals: "new\\n" } }]
---
Write the page, and what checks it.
"""
FIRST = "---\nid: a\ntype: task\ntitle: First\u202e\n---\nStart \u200bhere."


def store(machine: Machine, plan: Plan) -> None:
    async def save() -> None:
        database = SqliteDatabase.open(machine.data_dir / "silas.db")
        await WorkItemStore(database, SystemClock()).save_plan(plan)
        await database.close()

    asyncio.run(save())


@pytest.fixture
def stranger(machine: Machine, tmp_path: Path) -> Machine:
    """The same machine, where Silas was never set up."""
    machine.environ["SILAS_DATA_DIR"] = str(tmp_path / "nothing")
    return machine


def test_a_good_plan_is_summed_up(stranger: Machine) -> None:
    shown = output_of(stranger.run("plan", "check", str(PLANS / "deployment.md")))
    assert shown.startswith("This is a plan.\n  deploy-2-4-0 (project): Deploy version 2.4.0\n")
    assert "after deploy-2-4-0-build, deploy-2-4-0-changelog" in shown
    data = json.loads(output_of(stranger.run("plan", "check", str(PLANS / "trade.md"), "--json")))
    assert data["valid"] is True
    assert data["unchecked_references"] == []
    assert [(item["id"], item["checks"], item["gates"]) for item in data["items"]] == [
        ("rebalance-index-fund", 2, 2)
    ]


def test_problems_are_told_with_their_lines_and_an_exit_code_of_their_own(
    stranger: Machine,
) -> None:
    bad = "---\nid: a\ntype: task\ntitel: T\n---\n"
    code, message = failure_of(stranger.run("plan", "check", "-", stdin=bad))
    assert code == 80
    assert "line 4, titel: is not a known key; did you mean `title`?" in message
    assert "line 2, title: is missing" in message
    run = stranger.run("plan", "check", "-", "--json", stdin=bad)
    error = json.loads(run.stdout)["error"]
    assert (run.returncode, error["code"]) == (80, "E_WORK_PLAN")
    assert {(each["line"], each["field"]) for each in error["details"]["problems"]} == {
        (2, "title"),
        (4, "titel"),
        (6, "body"),
    }


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"---\nid: \xff\n---\n", "line 2: this is not UTF-8"),
        (b"---\nid: a\x00\n---\n", "control character"),
        (b"x" * 1_000_001, "at most 1000000 bytes"),
        (b"", "a plan starts with a line `---`"),
        (b"\x1b[2J---\n", "control character '\\x1b'"),
    ],
)
def test_what_is_not_text_is_refused(stranger: Machine, raw: bytes, words: str) -> None:
    code, message = failure_of(stranger.run("plan", "check", "-", stdin=raw))
    assert code == 80
    assert words in message
    assert "\x1b" not in message


def test_a_missing_file_is_a_wrong_argument(stranger: Machine) -> None:
    code, message = failure_of(stranger.run("plan", "check", "no-such-file.md"))
    assert code == 2
    assert "no-such-file.md" in message


def test_the_hash_is_the_one_that_an_approval_names(stranger: Machine, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "page.txt").write_text("old\n")
    path = tmp_path / "plan.md"
    path.write_text(BOUND)
    written = parse_plan(BOUND)
    off_limits = OffLimits(home=tmp_path / "home", own=())
    [item] = asyncio.run(bind_plan(written, base=tmp_path, off_limits=off_limits)).items
    assert item.plan_hash != written.root.plan_hash
    assert (item.workspace or Workspace()).changes.change == ["page.txt"]
    assert item.verify[0].influenced_by == ["check.sh"]
    shown = output_of(stranger.run("plan", "hash", str(path)))
    assert shown.splitlines() == [f"{item.plan_hash}  page"]
    data = json.loads(output_of(stranger.run("plan", "hash", str(path), "--json")))
    assert data["items"] == [{"id": "page", "plan_hash": item.plan_hash}]


def test_a_hash_that_no_approval_would_name_is_not_shown(machine: Machine, tmp_path: Path) -> None:
    """An approval is bound to the files of the skills, too; where they are not, there is none."""
    copied = shutil.copytree(PLANS, tmp_path / "plans")  # Silas' own program is no place to work
    for command in ("hash", "run"):
        run = machine.run("plan", command, str(copied / "deployment.md"))
        assert (run.returncode, run.stdout) == (80, b"")
        told = "The skill coding is not installed, so it cannot be approved."
        assert told in run.stderr.decode()


def test_no_hash_is_shown_of_work_on_silas_itself(machine: Machine, tmp_path: Path) -> None:
    path = tmp_path / "plan.md"
    path.write_text(BOUND.replace("path: site", f"path: {machine.data_dir}"))
    for command in ("hash", "run"):
        run = machine.run("plan", command, str(path))
        assert (run.returncode, run.stdout) == (80, b"")
        assert "The workspace cannot be bound" in run.stderr.decode()


def test_a_check_names_no_hash(stranger: Machine) -> None:
    """What is only read is not bound to files and directories: its hash would be another one."""
    written = parse_plan((PLANS / "deployment.md").read_text())
    shown = output_of(stranger.run("plan", "check", str(PLANS / "deployment.md")))
    as_json = output_of(stranger.run("plan", "check", str(PLANS / "deployment.md"), "--json"))
    for item in written.items:
        assert item.plan_hash not in shown + as_json
    assert "hash" not in shown


def test_references_are_looked_up_where_silas_is_set_up(machine: Machine) -> None:
    code, message = failure_of(machine.run("plan", "check", "-", stdin=FOLLOW_UP))
    assert (code, "line 5, follow_up_of: there is no work item `a`" in message) == (80, True)
    store(machine, parse_plan(FIRST))
    assert "This is a plan." in output_of(machine.run("plan", "check", "-", stdin=FOLLOW_UP))


def test_references_that_cannot_be_looked_up_are_named(stranger: Machine) -> None:
    shown = output_of(stranger.run("plan", "check", "-", stdin=FOLLOW_UP))
    assert "Not looked up, because Silas is not set up here: a." in shown


def test_a_stored_plan_is_shown_whole_and_visible(machine: Machine) -> None:
    plan = parse_plan(FIRST)
    store(machine, plan)
    shown = output_of(machine.run("plan", "show", "a"))
    assert shown.startswith("a (task): First\\u202e\n  status pending\n")
    assert plan.root.plan_hash in shown
    assert "\u202e" not in shown
    assert "\u200b" not in shown
    content = json.loads(shown[shown.index("{") :])
    assert content == json.loads(plan.root.plan_bytes())
    data = json.loads(output_of(machine.run("plan", "show", "a", "--json")))
    assert (data["plan_hash"], data["status"]) == (plan.root.plan_hash, "pending")


def test_an_unknown_plan_is_an_error(machine: Machine, stranger: Machine) -> None:
    code, _ = failure_of(stranger.run("plan", "show", "a"))
    assert code == 10
    machine.environ["SILAS_DATA_DIR"] = str(machine.data_dir)
    code, message = failure_of(machine.run("plan", "show", "a"))
    assert (code, "There is no work item a here." in message) == (80, True)
