"""SIGKILL of a whole Silas, at random points of a conversation between three agents.

Every message that was accepted is answered exactly once, no side effect happens twice, the order of
a scope is kept, and a signed message stays the owner's. `SILAS_CHAOS_ROUNDS=300` runs as many
rounds as one likes.
"""

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from silas.queue import QueueMessage
from silas.work import AttemptOutcome, WorkItemStatus
from tests.chaos import Runner
from tests.stream.chaos_runner import chaos_house
from tests.stream.house import House

ROUNDS = int(os.environ.get("SILAS_CHAOS_ROUNDS", "10"))
SAID = [("owner", "ask 1"), ("owner", "do a"), ("owner", "ask 2"), ("guest", "ask 3")]


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    runner = Runner("tests.stream.chaos_runner")
    yield runner
    runner.close()


async def prepare(root: Path) -> list[QueueMessage]:
    (root / "site-a").mkdir()
    async with chaos_house(root) as house:
        return [
            await house.say(text, connection=scope, signed=scope == "owner") for scope, text in SAID
        ]


async def delivered(house: House) -> list[tuple[str, str | None, str, str, str, str]]:
    rows = await house.database.fetch_all(
        "SELECT message_id, in_reply_to, trace_id, taint, scope_id, content "
        "FROM test_delivered ORDER BY at"
    )
    return [tuple(row) for row in rows]  # type: ignore[misc]


async def require_honest(root: Path, said: list[QueueMessage], *, ended: bool) -> None:
    async with chaos_house(root) as house:
        replies = await delivered(house)
        answers = Counter(reply[1] for reply in replies if reply[1])
        assert set(answers.values()) <= {1}, "a message was answered twice"
        texts = Counter(reply[5] for reply in replies)
        assert set(texts.values()) <= {1}, texts
        log = root / "site-a" / "log"
        assert not log.exists() or log.read_text() == "a", "an effect happened twice"
        if not ended:
            return
        assert set(answers) == {message.message_id for message in said}
        assert {reply[2] for reply in replies} == {message.trace_id for message in said}
        assert log.read_text() == "a"
        item = await house.stream.turns.items.get("item-a")
        assert item is not None
        assert item.status is WorkItemStatus.DONE
        attempts = await house.stream.work.context.attempts.list_of("item-a")
        assert [a.outcome for a in attempts].count(AttemptOutcome.PASSED) == 1
        assert await house.dead() == []
        order = [each[5] for each in replies if each[5].startswith("answer") and each[4] == "owner"]
        assert order == ["answer 1", "answer 2"]
        taints = {each[5]: each[3] for each in replies}
        assert taints["answer 1"] == "owner", "a crash made a message its own replay"
        assert taints["answer 3"] == "external"
        assert await house.on_the_bus() == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
async def test_killed_at_random(runner: Runner, tmp_path: Path, number: int) -> None:
    chance = random.Random(number)
    root = tmp_path.resolve()
    said = await prepare(root)
    for _ in range(chance.randint(1, 4)):
        pid = runner.run(root)
        await asyncio.sleep(chance.uniform(0.0, 0.9))
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        runner.wait()
        await require_honest(root, said, ended=False)
    runner.run(root)
    assert runner.wait() == 0
    await require_honest(root, said, ended=True)
