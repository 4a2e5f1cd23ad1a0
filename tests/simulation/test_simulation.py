"""A few seeds of the simulation, and that it sees what it is there to see."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from evals.simulation import run_simulation
from evals.simulation.invariants import check_now
from evals.simulation.life import live_once
from evals.simulation.machine import NothingWillHappen, SimulatedClock, SimulatedLoop
from evals.simulation.world import World, make_template

START = datetime(2026, 6, 1, tzinfo=UTC)
LIVES = 4
SEEDS = (18, 27, 45, 63, 260, 324, 1153)
"""Those that found something: work that was taken up twice when the clock jumped (18), and was then
called blocked although it had been done (27); a conversation that was never answered again because
its context had been read only in part (45); companions that missed a change when their disk was
full (63); a copy of a signed message that overtook it (260, with the model that lies); a failing
disk that nobody heard of (324); work that was done without the results of its checks (1153)."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_finds_nothing(seed: int) -> None:
    figures = run_simulation([seed], LIVES)
    assert figures.failed == (), figures.failed[0].problems
    assert (figures.tried, figures.withstood) == (1, 1)
    [run] = figures.runs
    assert run.said > 0
    assert run.touches > 100


@pytest.mark.slow
def test_the_same_seed_is_the_same_run() -> None:
    first, second = (run_simulation([9], 2).runs[0] for _ in range(2))
    assert first.events == second.events
    assert first.digest == second.digest
    assert first.commands > 0, "nothing was done in it that depends on the machine"
    assert run_simulation([6], 1).runs[0].digest != run_simulation([5], 1).runs[0].digest


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    make_template(folder.resolve())
    return folder.resolve()


@pytest.fixture
def world(tmp_path: Path, template: Path) -> Iterator[World]:
    """A world in which the owner has had things done."""
    world = World(1, tmp_path.resolve(), template=template)
    for number in range(3):
        live_once(world, number)
    assert world.problems == []
    yield world
    world.end()


def tampered(world: World, sql: str) -> list[str]:
    """What is found after somebody has changed the rows."""

    async def look() -> None:
        async with world.core() as core:
            await core.database.execute(sql)
        await check_now(world)

    loop = world.new_loop()
    loop.run_until_complete(look())
    loop.close()
    found, world.problems = world.problems, []
    return found


TAMPERING = (
    ("UPDATE conversation_origins SET taint = 'owner'", "INV-05"),
    ("INSERT INTO work_attempts VALUES ('unasked', 1, 'r', 'now', NULL, NULL, '')", "INV-01"),
    ("UPDATE audit_log SET body = replace(body, 'stream', 'dream')", "the audit log"),
    ("DELETE FROM deliveries", "lost: "),
)


@pytest.mark.slow
def test_what_is_wrong_is_found(world: World) -> None:
    for sql, found in TAMPERING:
        assert any(problem.startswith(found) for problem in tampered(world, sql)), sql


def test_time_passes_only_while_everybody_waits() -> None:
    clock = SimulatedClock(START)
    loop = SimulatedLoop(clock, Random(1))
    before = clock.now()
    loop.run_until_complete(asyncio.sleep(3600))
    assert (clock.now() - before).total_seconds() == pytest.approx(3600)
    with pytest.raises(NothingWillHappen):
        loop.run_until_complete(loop.create_future())
    loop.close()


def test_what_would_run_on_a_thread_runs_on_the_loop_and_not_once_it_is_dead() -> None:
    ran: list[int] = []
    clock = SimulatedClock(START)
    loop = SimulatedLoop(clock, Random(1))
    loop.run_until_complete(loop.run_in_executor(None, ran.append, 1))
    loop.dead = True
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(loop.run_in_executor(None, ran.append, 2))
    assert ran == [1]
    loop.close()
