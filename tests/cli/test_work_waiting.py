"""`silas work waiting` and `silas work decide`."""

import asyncio
import json
from pathlib import Path

import pytest

from silas.approval import KeyManager
from silas.audit import AuditLog
from silas.kernel import IdFactory, SystemClock, TaintLevel
from silas.secrets import open_vault
from silas.storage import SqliteDatabase
from silas.work import AttemptStore, WorkItem, WorkItemStore
from silas.work.effects import executed_by
from silas.work.paused import PausedRuns, Scene
from silas.work.ports import AgentLimits, Briefing, PausedCall, PausedRun, WaitingCall
from tests.cli.machine import Machine, output_of


@pytest.fixture
def call(owner: Machine) -> str:
    """The id of a call that waits."""
    return asyncio.run(_pause(owner))


@pytest.fixture
def files(owner: Machine) -> list[str]:
    """The ids of three files beyond a plan."""
    return asyncio.run(_pause_files(owner, "a.txt", "Makefile", "old.txt"))


async def _pause(owner: Machine) -> str:
    call = PausedCall(
        work_item_id="t1",
        attempt=1,
        tool="send",
        args={"to": "a\u202efriend"},
        reasons=["It changes something."],
        taint=TaintLevel.OWNER,
    )
    return (await _kept(owner, call))[0]


async def _pause_files(owner: Machine, *paths: str) -> list[str]:
    calls = [
        PausedCall(
            work_item_id="t1",
            attempt=1,
            tool="take_over",
            args={
                "path": path,
                "kind": "removed" if path == "old.txt" else "added",
                "before": None,
                "after": "b" * 64,
                "executable": False,
                "executed_by": executed_by(path),
                "diff": f"+++ b/{path}\n+new\u202e line\n",
            },
            reasons=["The plan does not declare this."],
            taint=TaintLevel.OWNER,
        )
        for path in paths
    ]
    return await _kept(owner, *calls)


async def _kept(owner: Machine, *calls: PausedCall) -> list[str]:
    clock = SystemClock()
    database = SqliteDatabase.open(owner.data_dir / "silas.db")
    vault = open_vault(owner.vault, environ=owner.environ)
    keys = KeyManager(vault, clock=clock)
    ids, audit = IdFactory(clock), AuditLog(database, clock=clock, ids=IdFactory(clock))
    runs = PausedRuns(database, clock=clock, ids=ids, keys=keys, audit=audit)
    fields = {"id": "t1", "type": "task", "title": "T", "body": "Do it."}
    await WorkItemStore(database, clock).save(WorkItem.model_validate(fields))
    item = await AttemptStore(database, clock, audit).start("t1", runner="test")
    waiting = tuple(WaitingCall(call_id=str(n), call=each) for n, each in enumerate(calls))
    run = PausedRun(history="[]", calls=waiting)
    limits = AgentLimits(tokens=1, cost_usd=1.0, seconds=1.0)
    briefing = Briefing(work_item_id="t1", attempt=1, instructions="Do it.", limits=limits)
    scene = Scene(briefing=briefing, taint=TaintLevel.OWNER)
    await runs.keep(item, run, scene=scene, runner="test", used=item.budget_used)
    kept = await runs.of("t1")
    await database.close()
    assert kept is not None
    return [each.id for each in kept.calls]


def test_nothing_waits(owner: Machine) -> None:
    assert output_of(owner.run("work", "waiting")).startswith("No call waits for you.")


def test_what_waits_is_shown_whole_and_approved_by_its_hash(owner: Machine, call: str) -> None:
    assert "waits for you" in output_of(owner.run("work", "show", "t1"))
    shown = output_of(owner.run("work", "waiting"))
    assert call in shown
    assert "It changes something." in shown
    assert "\u202e" not in shown
    (data,) = json.loads(output_of(owner.run("work", "waiting", "--json")))["waiting"]
    assert data["args"] == {"to": "a\u202efriend"}
    assert data["hash"] in shown
    wrong = owner.run("work", "decide", call, "--approve", "0" * 64)
    assert (wrong.returncode, b"not the hash" in wrong.stderr) == (2, True)
    told = output_of(owner.run("work", "decide", call, "--approve", data["hash"]))
    assert "approved. Go on with: silas work resume t1" in told
    assert output_of(owner.run("work", "waiting")).startswith("No call waits for you.")
    assert owner.run("work", "decide", call, "--decline").returncode == 80


def test_what_waits_is_with_the_cards_and_decided_there(owner: Machine, call: str) -> None:
    listed = output_of(owner.run("review", "list"))
    assert call in listed
    assert "It changes something." in listed
    (data,) = json.loads(output_of(owner.run("review", "list", "--json")))["calls"]
    shown = output_of(owner.run("review", "show", call))
    assert data["hash"] in shown
    assert owner.run("review", "show", "call_nobody").returncode == 2
    told = output_of(owner.run("review", "approve", call, "--hash", data["hash"]))
    assert "is approved" in told
    assert output_of(owner.run("review", "list")) == "Nothing is waiting for your decision.\n"


def test_a_no_beside_the_cards(owner: Machine, call: str) -> None:
    assert "is declined" in output_of(owner.run("review", "decline", call))


def test_it_is_declined_or_asked_on_a_terminal(owner: Machine, call: str) -> None:
    assert owner.run("work", "decide", call).returncode == 2
    assert owner.run("work", "decide", call, "--approve", "x", "--decline").returncode == 2
    code, said = owner.type("work", "decide", call, answers=[("happen?", "n\n")])
    assert (code, "is declined" in said) == (0, True)


def test_files_beyond_a_plan_are_shown_with_their_difference(
    owner: Machine, files: list[str]
) -> None:
    shown = output_of(owner.run("work", "waiting"))
    assert "added Makefile (a build executes it)" in shown
    assert "removed old.txt" in shown
    assert "+new" in shown
    assert "\u202e" not in shown
    assert all(each in shown for each in files)


def test_files_are_taken_one_by_one_and_the_others_are_left(
    owner: Machine, files: list[str]
) -> None:
    code, said = owner.type(
        "work",
        "decide",
        "t1",
        answers=[
            ("3 files beyond the plan. Take them", "each"),
            ("Take this file?", "y"),
            ("Take this file?", "n"),
            ("Take this file?", "y"),
        ],
    )
    assert code == 0, said
    first, second, third = files
    for name, verdict in ((first, "approved"), (second, "declined"), (third, "approved")):
        assert f"{name} is {verdict}." in said
    assert output_of(owner.run("work", "waiting")).startswith("No call waits for you.")


@pytest.mark.parametrize(("typed", "verdict"), [("all", "approved"), ("none", "declined")])
def test_all_files_are_taken_or_none(
    owner: Machine, files: list[str], typed: str, verdict: str
) -> None:
    code, said = owner.type("work", "decide", "t1", answers=[("Take them", typed)])
    assert code == 0, said
    assert said.count(f" is {verdict}.") == len(files)


def test_silence_takes_no_file(owner: Machine, files: list[str]) -> None:
    code, said = owner.type("work", "decide", "t1", answers=[("Take them", "")])
    assert code == 0, said
    assert said.count(" is declined.") == len(files)


def test_without_a_terminal_the_hashes_say_which_files_are_taken(
    owner: Machine, files: list[str]
) -> None:
    waiting = json.loads(output_of(owner.run("work", "waiting", "--json")))["waiting"]
    first = waiting[0]["hash"]
    assert owner.run("work", "decide", "t1").returncode == 2
    assert owner.run("work", "decide", *files[1:], "--approve", first).returncode == 2
    told = output_of(owner.run("work", "decide", "t1", "--approve", first, "--json"))
    verdicts = {each["call"]: each["verdict"] for each in json.loads(told)["decided"]}
    assert verdicts == {files[0]: "approved", files[1]: "declined", files[2]: "declined"}


def test_nothing_is_said_to_wait_for_nobody_while_something_does(owner: Machine) -> None:
    """A plan waits and no call does, then a call does: neither list denies the other's."""
    Path(owner.environ["HOME"]).mkdir()
    owner.run("ask", "create a file a.txt with hello")
    assert "Nothing is waiting" not in output_of(owner.run("work", "waiting"))
    assert "Write a.txt" in output_of(owner.run("review", "list"))


def test_a_call_that_waits_is_in_the_list_of_what_waits(owner: Machine, call: str) -> None:
    listed = output_of(owner.run("review", "list"))
    assert "Nothing is waiting" not in listed
    assert call in listed
