"""The real server is told to stop, or is killed; a real client comes back and finds everything.

`SILAS_CHAOS_ROUNDS=200` kills it as often as one likes.
"""

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from silas.app.core import open_core
from silas.app.jobs import in_background
from silas.queue.models import AgentReply, QueueMessage
from tests.chaos import Runner
from tests.stream.served import Served, Talker
from tests.web.place import settings_for

ROUNDS = int(os.environ.get("SILAS_CHAOS_ROUNDS", "2"))
SAY = [
    "hello",
    'run `sh -c "sleep 0.05; echo yes >> a.log; sleep 0.05"` in ~/silas-files',
    "help",
    'run `sh -c "echo no >> declined.log"` in ~/silas-files',
    'run `sh -c "sleep 0.05; echo yes >> b.log"` in ~/silas-files',
]
CARDS = 3
MINE = "NOT LIKE '%undo%'"
"""What was done can be undone for a while; nobody here wants to."""
# Nobody asks for a check here, so what was carried out ends `unchecked`.


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    runner = Runner("tests.stream.served")
    yield runner
    runner.close()


@pytest.fixture
async def served(runner: Runner, tmp_path: Path) -> AsyncIterator[Served]:
    served = await Served.make(tmp_path, runner)
    yield served
    if served.pid:
        served.end(signal.SIGKILL)


def no_to_declined(card: dict[str, Any]) -> str:
    return "declined" if "declined.log" in str(card["items"]) else "approved"


async def until(happened: Any, what: str, *, seconds: float = 180) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while not happened():
        assert asyncio.get_running_loop().time() < deadline, what
        await asyncio.sleep(0.02)


def rows(served: Served, query: str) -> list[tuple[Any, ...]]:
    path = served.root / "data" / "silas.db"
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(60_000)
    try:
        return list(connection.execute(query))
    finally:
        connection.close()


def finished(served: Served, talker: Talker) -> bool:
    """Whether all was accepted and answered, all cards are decided, and no work is under way."""
    if len(talker.accepted) < len(SAY) or len(talker.heard) < len(SAY) + CARDS:
        return False
    states = rows(served, f"SELECT state FROM review_cards WHERE id {MINE}")
    work = rows(served, f"SELECT status FROM work_items WHERE id {MINE}")
    return (
        len(states) == CARDS
        and ("open",) not in states
        and {status for (status,) in work} <= {"unchecked", "failed", "stuck"}
        and not rows(served, "SELECT 1 FROM queue_messages LIMIT 1")
    )


def require_honest(served: Served, talker: Talker, *, ended: bool) -> None:
    """Nothing twice, at any time; and at the end nothing lost."""
    answers: Counter[str] = Counter()
    for (body,) in rows(served, "SELECT message FROM deliveries ORDER BY number"):
        reply = QueueMessage.model_validate_json(body).payload
        if isinstance(reply, AgentReply) and reply.in_reply_to:
            answers[reply.in_reply_to] += 1
    assert set(answers.values()) <= {1}, "a message was answered twice"
    silas = served.home / "silas-files"
    for name in ("a.log", "b.log"):
        log = silas / name
        assert not log.exists() or log.read_text() == "yes\n", "an effect happened twice"
    assert not (silas / "declined.log").exists(), "what was declined happened"
    assert rows(served, "SELECT * FROM dead_letters") == []
    if not ended:
        return
    sent = [frame["message_id"] for frame in talker.frames]
    assert sorted(answers) == sorted(sent), "a message was not answered"
    made = [name for name in ("a.log", "b.log") if (silas / name).exists()]
    assert len(made) == CARDS - 1 - len(given_up(served))
    kept = [number for (number,) in rows(served, "SELECT number FROM deliveries ORDER BY number")]
    assert sorted(talker.heard) == kept, "the client has not heard what was kept"
    assert sorted(talker.decided.values()) == ["approved", "approved", "declined"]
    passed = rows(
        served,
        "SELECT work_item_id FROM work_attempts WHERE outcome = 'passed' ORDER BY work_item_id",
    )
    assert len(passed) == len(set(passed)) == len(made)
    plans = f"SELECT count(*) FROM conversation_work WHERE work_item_id {MINE}"
    assert rows(served, plans) == [(CARDS,)], "a plan was made twice"


def given_up(served: Served) -> list[Any]:
    """Work whose every attempt was killed, so that its budget is used up; the owner was told."""
    stuck = rows(served, "SELECT id FROM work_items WHERE status = 'stuck'")
    for (name,) in stuck:
        tried = f"SELECT outcome FROM work_attempts WHERE work_item_id = '{name}'"
        assert set(rows(served, tried)) == {("interrupted",)}
        told = f"SELECT 1 FROM deliveries WHERE message LIKE '%work show {name}%'"
        assert rows(served, told)
    return stuck


async def require_chain(served: Served) -> None:
    loaded = settings_for(served.root, served.environ)
    async with open_core(loaded, environ=served.environ) as core:
        report = await core.audit.examine()
        assert report.ok, report


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
async def test_killed_at_random(served: Served, number: int) -> None:
    chance = random.Random(number)
    served.start()
    talker = Talker(await served.device(), SAY, no_to_declined)
    async with in_background(talker.talk()):
        for _ in range(chance.randint(1, 4)):
            await asyncio.sleep(chance.uniform(0.0, 1.5))
            served.end(signal.SIGKILL)
            require_honest(served, talker, ended=False)
            served.start()
            await served.up()
        await until(lambda: finished(served, talker), "it does not come to an end")
        kept = rows(served, "SELECT max(number) FROM deliveries")[0][0]
        await until(lambda: max(talker.heard) >= kept, "the client does not hear it")
        await until(lambda: len(talker.decided) == CARDS, "the client does not see the decisions")
    assert served.end(signal.SIGTERM) == 0
    require_honest(served, talker, ended=True)
    await require_chain(served)


@pytest.mark.slow
async def test_told_to_stop_in_the_middle_of_work(served: Served, tmp_path: Path) -> None:
    """Nothing more is taken in, work is given back whole, the log is vouched for; it goes on."""
    served.start()
    # It ends where there is a file `go`, which is not before the server starts again.
    waiting = "until test -e go; do sleep 0.1; done"
    slow = f'run `sh -c "echo yes >> a.log; {waiting}"` in ~/silas-files'
    other = 'run `sh -c "echo yes >> b.log"` in ~/silas-files'
    only_the_slow = lambda card: "approved" if "a.log" in str(card["items"]) else None  # noqa: E731
    talker = Talker(await served.device(), [slow, other], only_the_slow)
    undecided = Talker(talker.device, [], lambda _card: None)
    async with in_background(talker.talk()):
        await until(
            lambda: rows(served, "SELECT 1 FROM work_attempts WHERE ended_at IS NULL"),
            "the work does not begin",
        )
        await until(lambda: len(talker.cards) == 2, "the second card does not come")
        assert served.end(signal.SIGTERM) == 0
    assert "Traceback" not in (tmp_path / "errors.txt").read_text()
    assert not (tmp_path / "data" / "silas.db-wal").exists(), "the log was not folded"
    assert not (tmp_path / "data" / "silas.sock").exists()
    assert not (served.home / "silas-files" / "a.log").exists(), "half an attempt was taken over"
    assert rows(served, "SELECT count(*) FROM queue_messages WHERE state = 'leased'") == [(0,)]
    states = rows(served, f"SELECT state FROM review_cards WHERE id {MINE} ORDER BY created_at")
    assert states == [("approved",), ("open",)]
    head, vouched = rows(
        served, "SELECT head_seq, (SELECT max(seq) FROM audit_checkpoints) FROM audit_state"
    )[0]
    assert head - vouched <= 1, "the end of the log is not vouched for"
    await require_chain(served)
    (served.home / "silas-files" / "go").touch()
    served.start()
    await served.up()
    async with in_background(undecided.talk()):
        done = f"SELECT 1 FROM work_items WHERE status = 'unchecked' AND id {MINE}"
        await until(lambda: rows(served, done), "the work does not go on")
        await until(lambda: len(undecided.cards) == 2, "the cards are not shown again")
    assert (served.home / "silas-files" / "a.log").read_text() == "yes\n"
    assert served.end(signal.SIGTERM) == 0
