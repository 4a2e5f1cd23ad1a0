"""`silas work waiting` and `silas work decide`."""

import asyncio
import json

import pytest

from silas.approval import KeyManager
from silas.audit import AuditLog
from silas.kernel import IdFactory, SystemClock, TaintLevel
from silas.secrets import open_vault
from silas.storage import SqliteDatabase
from silas.work import AttemptStore, WorkItem, WorkItemStore
from silas.work.paused import PausedRuns, Scene
from silas.work.ports import AgentLimits, Briefing, PausedCall, PausedRun, WaitingCall
from tests.cli.machine import Machine, output_of


@pytest.fixture
def call(owner: Machine) -> str:
    """The id of a call that waits."""
    return asyncio.run(_pause(owner))


async def _pause(owner: Machine) -> str:
    clock = SystemClock()
    database = SqliteDatabase.open(owner.data_dir / "silas.db")
    vault = open_vault(owner.vault, environ=owner.environ)
    keys = KeyManager(vault, clock=clock)
    ids, audit = IdFactory(clock), AuditLog(database, clock=clock, ids=IdFactory(clock))
    runs = PausedRuns(database, clock=clock, ids=ids, signer=keys, audit=audit)
    fields = {"id": "t1", "type": "task", "title": "T", "body": "Do it."}
    await WorkItemStore(database, clock).save(WorkItem.model_validate(fields))
    item = await AttemptStore(database, clock, audit).start("t1", runner="test")
    paused = PausedCall(
        work_item_id="t1",
        attempt=1,
        tool="send",
        args={"to": "a\u202efriend"},
        reasons=["It changes something."],
        taint=TaintLevel.OWNER,
    )
    run = PausedRun(history="[]", calls=(WaitingCall(call_id="0", call=paused),))
    limits = AgentLimits(tokens=1, cost_usd=1.0, seconds=1.0)
    briefing = Briefing(work_item_id="t1", attempt=1, instructions="Do it.", limits=limits)
    scene = Scene(briefing=briefing, taint=TaintLevel.OWNER)
    await runs.keep(item, run, scene=scene, runner="test", used=item.budget_used)
    kept = await runs.of("t1")
    await database.close()
    assert kept is not None
    return kept.calls[0].id


def test_nothing_waits(owner: Machine) -> None:
    assert output_of(owner.run("work", "waiting")) == "Nothing waits for you.\n"


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
    assert output_of(owner.run("work", "waiting")) == "Nothing waits for you.\n"
    assert owner.run("work", "decide", call, "--decline").returncode == 84


def test_it_is_declined_or_asked_on_a_terminal(owner: Machine, call: str) -> None:
    assert owner.run("work", "decide", call).returncode == 2
    assert owner.run("work", "decide", call, "--approve", "x", "--decline").returncode == 2
    code, said = owner.type("work", "decide", call, answers=[("happen?", "n\n")])
    assert (code, "is declined" in said) == (0, True)
