"""Several processes, and processes that die: a token is still used as often as it says."""

import random
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from silas.approval.store import ISSUED
from silas.testing import FakePlan, MemoryVault
from tests.approval import worker
from tests.approval.desk import YES, Desk, open_desk
from tests.chaos import FORKED

PLAN = FakePlan()
KILLS = 200


def start(target: Callable[..., None], *arguments: object):
    ours, theirs = FORKED.Pipe(duplex=False)
    process = FORKED.Process(target=target, args=(*arguments[:2], theirs, *arguments[2:]))
    process.start()
    theirs.close()
    return process, ours


def drain(pipe: Connection) -> list[tuple[str, str]]:
    """What was said before the sender died; a message that was cut short was not said."""
    heard = []
    try:
        while pipe.poll():
            heard.append(pipe.recv())
    except (EOFError, OSError):
        pass
    return heard


@pytest.fixture
async def shared(tmp_path: Path):
    vault = MemoryVault()
    desk = await open_desk(tmp_path / "silas.db", vault=vault)
    yield desk, tmp_path / "silas.db", vault
    await desk.database.close()


async def test_of_many_processes_one_uses_the_token(shared: tuple[Desk, Path, MemoryVault]) -> None:
    desk, path, vault = shared
    token = await desk.engine.issue_token(PLAN, YES)
    started = [start(worker.use, path, vault, token) for _ in range(4)]
    successes = [pipe.recv() for _, pipe in started]
    for process, _ in started:
        process.join()
    assert sum(successes) == 1


@pytest.mark.slow
async def test_killed_at_any_point_nothing_is_lost_and_nothing_is_used_twice(
    shared: tuple[Desk, Path, MemoryVault],
) -> None:
    desk, path, vault = shared
    chance = random.Random(2026)
    said: list[tuple[str, str]] = []
    for _ in range(KILLS):
        process, pipe = start(worker.approve_and_use, path, vault)
        said += [pipe.recv() for _ in range(chance.randint(0, 9))]
        process.kill()
        process.join()
        said += drain(pipe)
        pipe.close()
    issued = {token_id for event, token_id in said if event == "issued"}
    used = {token_id for event, token_id in said if event == "used"}
    assert len(used) > KILLS
    rows = dict(
        await desk.database.fetch_all("SELECT token_id, executions_used FROM approval_tokens")
    )
    assert issued <= rows.keys(), "an approval that was acknowledged is there"
    assert all(rows[token_id] == 1 for token_id in used), "a use that was acknowledged is there"
    assert set(rows.values()) <= {0, 1}
    desk.audit.entries += [(ISSUED, {"token_id": token_id}) for token_id in used]
    for token_id in used:
        token = (await desk.engine.tokens.load(token_id)).token
        assert len(token.execution_nonces) == 1
        assert await desk.engine.check(token, PLAN) == (True, "Valid")
        assert await desk.engine.verify(token, PLAN) == (False, "The token has been used up")
