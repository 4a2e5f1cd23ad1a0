"""Many seeds, one after the other, and what came of them."""

import contextlib
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from silas.evals.simulation.life import live_once, settle
from silas.evals.simulation.world import World, make_template


@dataclass(frozen=True)
class Run:
    """What one seed came to."""

    seed: int
    digest: str
    """The same for every run of the seed."""
    problems: tuple[str, ...]
    events: tuple[str, ...]
    said: int
    decided: int
    refused: int
    commands: int
    touches: int
    """How often SQLite wrote or synced."""


@dataclass(frozen=True)
class Figures:
    """What many seeds came to."""

    runs: tuple[Run, ...]
    seconds: float
    failed: tuple[Run, ...] = field(default=())

    @property
    def tried(self) -> int:
        return len(self.runs)

    @property
    def withstood(self) -> int:
        return len(self.runs) - len(self.failed)


def run_simulation(seeds: Iterable[int], rounds: int) -> Figures:
    """Run each seed for this many lives of the process, and a last one in which all is finished.

    Seeds whose `Run.problems` is not empty are in `Figures.failed`. It runs in this process, with
    an event loop of its own, and must not be called from a running one.
    """
    began = time.perf_counter()
    with _first_day() as template:
        runs = tuple(run_seed(seed, rounds, template=template) for seed in seeds)
    failed = tuple(run for run in runs if run.problems)
    return Figures(runs, time.perf_counter() - began, failed)


def run_seed(seed: int, rounds: int, *, template: Path) -> Run:
    """Run one seed in a directory of its own."""
    with _folder() as folder:
        world = World(seed, folder, template=template)
        try:
            for number in range(rounds):
                live_once(world, number)
            settle(world)
        finally:
            world.end()
    records = world.records
    return Run(
        seed=seed,
        digest=world.trace.digest,
        problems=tuple(dict.fromkeys(world.problems)),
        events=tuple(world.trace.events),
        said=len(records.said),
        decided=len(records.decided),
        refused=records.refusals,
        commands=world.sandbox.runs,
        touches=world.disk.touches,
    )


@contextlib.contextmanager
def _first_day() -> Iterator[Path]:
    with _folder() as folder:
        make_template(folder)
        yield folder


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="silas-simulation-") as folder:
        yield Path(folder).resolve()
