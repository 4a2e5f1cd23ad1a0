"""The lives of a seed: one process after the other, each ended by its owner, by a fault or a kill.

After each life everything is looked at as the next process would find it. After the last one, a
Silas on a healthy machine gets time to finish: then nothing may be missing.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from silas.evals.simulation.invariants import check_end, check_now
from silas.evals.simulation.loop import SimulatedLoop, bury
from silas.evals.simulation.people import LOG, People
from silas.evals.simulation.world import World
from silas.kernel import SilasError

_RATES = (0.0, 0.0, 0.0005, 0.002, 0.01)
_LONGEST_SETTLING = 6 * 3600
_QUIET = 3


@dataclass(frozen=True)
class Ending:
    """How a process is to end, if nothing ends it before."""

    after: float | None
    """Seconds until it is killed; None: the owner stops it when he has done his things."""
    power: bool


def live_once(world: World, number: int) -> None:
    """One life, and what it leaves behind."""
    chance = world.chance(f"life {number}")
    world.rate = chance.choice(_RATES)
    ending = _ending(chance)
    world.trace.note("life", number, world.rate, ending.after, ending.power)
    steps = chance.randint(8, 30)
    _process(world, lambda: _a_life(world, steps, ending))
    world.rate = 0.0
    _process(world, lambda: check_now(world))


def settle(world: World) -> None:
    """The last life: nothing goes wrong any more, and what is left to do is done."""
    world.trace.note("settling")
    _process(world, lambda: _finish(world))
    _process(world, lambda: check_end(world))


def _ending(chance: Random) -> Ending:
    if chance.random() < 0.4:
        return Ending(None, power=False)
    return Ending(
        chance.choice((2.0, 20.0, 60.0, 200.0)) * chance.random(), power=chance.random() < 0.5
    )


async def _a_life(world: World, steps: int, ending: Ending) -> None:
    if ending.after is not None:
        loop = asyncio.get_running_loop()
        loop.call_later(ending.after, lambda: world.disk.die(power=ending.power))
    try:
        async with world.house() as house:
            await People(world, house).live(steps)
    except SilasError as error:
        world.trace.note("stopped", error.code)


async def _finish(world: World) -> None:
    async with world.house() as house, asyncio.timeout(_LONGEST_SETTLING):
        quiet = 0
        while quiet < _QUIET:
            await asyncio.sleep(5)
            waiting = sum((await house.stream.queue.depth()).values())
            quiet = 0 if waiting else quiet + 1


def _process(world: World, life: Any) -> None:
    """Run a process to its end, whatever that is."""
    loop = world.new_loop()
    loop.set_exception_handler(lambda _loop, context: _unheard(world, loop, context))
    with _listening(world):
        task = loop.create_task(life())
        try:
            loop.run_until_complete(task)
        except SilasError as error:
            world.problems.append(f"the process ended: {error.code} {error.message}")
        except RuntimeError:
            if not world.disk.dead:
                raise
            _died(world)
        finally:
            elapsed = world.clock.monotonic()
            bury(loop, task)
            world.clock.back_to(elapsed)
    world.disk.drop_connections()
    if world.disk.dead:
        world.disk.restart()
    world.trace.note("touches", world.disk.touches, world.clock.now())


def _died(world: World) -> None:
    """Note what may be lost: what was accepted and never synced."""
    synced = world.disk.syncs.get(LOG, 0)
    world.trace.note("died", world.disk.touches)
    for said in world.records.said:
        said.unsynced = world.disk.lost_power and said.syncs >= synced


def _unheard(world: World, loop: SimulatedLoop, context: dict[str, Any]) -> None:
    if not loop.dead:
        world.problems.append(
            f"nobody heard: {context.get('message')} {context.get('exception')!r}"
        )


class _Listener(logging.Handler):
    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if not self._world.disk.dead:
            why = record.exc_info[1] if record.exc_info else ""
            self._world.problems.append(f"logged: {record.getMessage()} {why!r}")


@contextlib.contextmanager
def _listening(world: World) -> Iterator[None]:
    """Whatever is logged as an error while the machine is alive is one."""
    logger, listener = logging.getLogger("silas"), _Listener(world)
    logger.addHandler(listener)
    before = logger.propagate
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(listener)
        logger.propagate = before
