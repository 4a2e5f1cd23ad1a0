"""Mixed traffic at one real server for an hour: `python -m evals.soak`.

The owner on several devices (each over its own WebSocket, leaving and coming back) and strangers,
each in a scope of their own, do what people do all day. Meanwhile the server is looked at; at the
end stands whether its memory is flat, and a picture: what the process holds over time, with a line
through it.
"""

import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from websockets.exceptions import WebSocketException

from evals.crowd import (
    ACTS,
    CATEGORY,
    Owner,
    Server,
    Steward,
    Street,
    Tally,
    Visitor,
    started,
    visit,
)
from evals.served import Page

_MEGABYTE = 2**20
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 760, 90, 60, 40, 40


@dataclass(frozen=True)
class Sample:
    """One look at the server."""

    minute: float
    memory: float
    """Resident, in MB."""
    files: int
    threads: int
    waiting: int
    """Messages on the bus."""
    disk: float
    """All databases, in MB."""


Value = Callable[[Sample], float]
CHARTS: tuple[tuple[str, Value], ...] = (
    ("memory of the server, MB", lambda each: each.memory),
    ("open files", lambda each: each.files),
    ("threads", lambda each: each.threads),
    ("messages on the bus", lambda each: each.waiting),
    ("databases, MB", lambda each: each.disk),
)


def look_at(pid: int, folder: Path, *, minute: float, waiting: int) -> Sample:
    """What the process holds now."""
    process = Path(f"/proc/{pid}")
    pages = int(process.joinpath("statm").read_text("ascii").split()[1])
    return Sample(
        minute=minute,
        memory=pages * os.sysconf("SC_PAGESIZE") / _MEGABYTE,
        files=len(list(process.joinpath("fd").iterdir())),
        threads=len(list(process.joinpath("task").iterdir())),
        waiting=waiting,
        disk=sum(each.stat().st_size for each in folder.glob("*.db*")) / _MEGABYTE,
    )


def slope(samples: Sequence[Sample], value: Value) -> float:
    """The line through the second half, in units an hour."""
    half = samples[len(samples) // 2 :]
    if len(half) < 2:
        return 0.0
    hours, values = [each.minute / 60 for each in half], [value(each) for each in half]
    return statistics.linear_regression(hours, values).slope


def growth(samples: Sequence[Sample], value: Value) -> float:
    """The mean of the last sixth of the time, as a multiple of that of the second sixth."""
    end = samples[-1].minute
    early = [value(each) for each in samples if end / 6 <= each.minute < end / 3]
    late = [value(each) for each in samples if each.minute >= end * 5 / 6]
    return statistics.fmean(late) / statistics.fmean(early) if any(early) else 1.0


def picture(samples: Sequence[Sample], title: str) -> str:
    """All curves, one below the other, as an SVG."""
    width, height = _WIDTH + 2 * _LEFT, _TOP + len(CHARTS) * (_HEIGHT + _GAP)
    charts = [
        _chart(samples, value, name, top=_TOP + number * (_HEIGHT + _GAP))
        for number, (name, value) in enumerate(CHARTS)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
            "<style>text { font: 12px sans-serif }</style>",
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="{_LEFT}" y="18">{title}</text>',
            *charts,
            "</svg>\n",
        ]
    )


def _chart(samples: Sequence[Sample], value: Value, name: str, *, top: int) -> str:
    end = max(samples[-1].minute, 1e-9)
    most = max(*(value(each) for each in samples), 1) * 1.1
    points = " ".join(
        f"{_LEFT + each.minute / end * _WIDTH:.1f},{top + _HEIGHT * (1 - value(each) / most):.1f}"
        for each in samples
    )
    bottom = top + _HEIGHT
    return "\n".join(
        [
            f'<text x="{_LEFT}" y="{top - 4}">{name}</text>',
            f'<path d="M{_LEFT},{top} V{bottom} H{_LEFT + _WIDTH}" fill="none" stroke="#888"/>',
            f'<text x="{_LEFT - 4}" y="{top + 10}" text-anchor="end">{most:.0f}</text>',
            f'<text x="{_LEFT - 4}" y="{bottom}" text-anchor="end">0</text>',
            f'<text x="{_LEFT + _WIDTH}" y="{bottom + 14}" text-anchor="end">{end:.0f} min</text>',
            f'<polyline points="{points}" fill="none" stroke="#1565c0" stroke-width="1.5"/>',
        ]
    )


_STAYS = (5, 25)
"""A page is left after so many acts, and opened again."""
_MOST_GROWTH = 1.1
_COMPANIONS = ("planner", "gym_coach")
_BUDGET = {"tool_calls": 10**6, "runtime_ms": 10**9}


@dataclass(frozen=True)
class Manner:
    """How long, how many, and how long they think in between (on average)."""

    minutes: float = 60.0
    scopes: int = 50
    devices: int = 10
    pause: float = 15.0
    every: float = 20.0
    """Seconds between two looks at the server."""


@dataclass(frozen=True)
class Report:
    """What came of it."""

    tally: Tally
    samples: Sequence[Sample]
    manner: Manner

    @property
    def flat(self) -> bool:
        """Whether the memory has stopped growing."""
        return growth(self.samples, lambda each: each.memory) <= _MOST_GROWTH

    def lines(self) -> list[str]:
        """The report for people."""
        manner, first, last = self.manner, self.samples[0], self.samples[-1]
        curves = [
            f"{name}: {value(first):.0f} at first, {value(last):.0f} at the end, "
            f"last sixth / second sixth {growth(self.samples, value):.3f}, "
            f"second half {slope(self.samples, value):+.1f} an hour"
            for name, value in CHARTS
        ]
        return [
            f"{manner.scopes} scopes, the owner on {manner.devices} devices, {last.minute:.0f} min",
            *self.tally.lines(),
            *curves,
            f"memory is {'flat' if self.flat else 'NOT FLAT'}",
        ]


async def soak(
    server: Server, manner: Manner, *, told: Callable[[Sample], None] = lambda _sample: None
) -> Report:
    """Let them all do so; `told` hears of each look at the server."""
    tally, asked = Tally(), set[str]()
    owners = [
        Owner(Page(await server.pair(), watch=tally.watch), random.Random(number), asked=asked)
        for number in range(manner.devices)
    ]
    steward = Steward(Owner(Page(await server.pair()), random.Random("steward"), asked=asked))
    steward.owner.page.watch = steward.watch
    await _make_companions(owners)
    street, samples = Street.to(server.core), list[Sample]()
    begun = time.monotonic()
    until = begun + 60 * manner.minutes
    async with asyncio.TaskGroup() as group:
        serving = group.create_task(_serve(steward, tally))
        looking = group.create_task(_look(server, samples, manner, begun, told))
        async with asyncio.TaskGroup() as people:
            for owner in owners:
                people.create_task(_day(owner, tally, manner, until))
            for number in range(manner.scopes - 1):
                visitor = Visitor(f"visitor-{number}", street)
                people.create_task(_stroll(visitor, tally, manner, until))
        serving.cancel()
        looking.cancel()
    tally.acts["answered"] = steward.answered
    samples.append(await _sample(server, begun))
    return Report(tally, samples, manner)


async def _make_companions(owners: Sequence[Owner]) -> None:
    page = owners[0].page
    async with page.open():
        await page.hear(f"Add task Warm up in {CATEGORY}")
        known = (await page.get("/api/companions"))["categories"]
        [category] = [each["id"] for each in known if each["name"] == CATEGORY]
        made = []
        for kind in _COMPANIONS:
            wanted = {"kind": kind, "category_ids": [category]}
            answer = await page.post("/api/companions/new", wanted)
            made.append(answer["id"])
            more = {"agent_id": made[-1], "budget": _BUDGET}
            await page.post("/api/companions/configure", more)
    for number, owner in enumerate(owners):
        owner.companion = made[number % len(made)]


async def _day(owner: Owner, tally: Tally, manner: Manner, until: float) -> None:
    acts, weights = list(ACTS), list(ACTS.values())
    while time.monotonic() < until:
        try:
            async with owner.page.open():
                for _ in range(owner.chance.randint(*_STAYS)):
                    if not await _thinks(owner.chance, manner.pause, until):
                        return
                    [act] = owner.chance.choices(acts, weights)
                    await tally.count(act.__name__, act(owner))
        except (OSError, WebSocketException) as error:
            tally.failures[f"the page: {type(error).__name__} {error}"[:120]] += 1
        tally.acts["reconnect"] += 1


async def _stroll(visitor: Visitor, tally: Tally, manner: Manner, until: float) -> None:
    chance, comes = random.Random(visitor.name), True  # however short the time is, once
    while comes:
        await tally.count("visit", visit(visitor, chance))
        comes = await _thinks(chance, manner.pause, until)


async def _thinks(chance: random.Random, pause: float, until: float) -> bool:
    """Wait a while; False if the time is over by then."""
    seconds = chance.uniform(0, 2 * pause)
    if time.monotonic() + seconds >= until:
        return False
    await asyncio.sleep(seconds)
    return True


async def _serve(steward: Steward, tally: Tally) -> None:
    while True:
        try:
            async with steward.owner.page.open():
                await steward.serve()
        except (OSError, WebSocketException) as error:
            tally.failures[f"the steward: {type(error).__name__} {error}"[:120]] += 1


async def _look(
    server: Server,
    samples: list[Sample],
    manner: Manner,
    begun: float,
    told: Callable[[Sample], None],
) -> None:
    while True:
        samples.append(await _sample(server, begun))
        told(samples[-1])
        await asyncio.sleep(manner.every)


async def _sample(server: Server, begun: float) -> Sample:
    row = await server.core.database.fetch_one("SELECT count(*) FROM queue_messages")
    minute, folder = (time.monotonic() - begun) / 60, server.core.paths.data_dir
    return look_at(server.running.pid, folder, minute=minute, waiting=int(row[0]) if row else 0)


async def _run(folder: Path, manner: Manner) -> Report:
    async with started(folder) as server:
        return await soak(server, manner, told=_tell)


def _tell(sample: Sample) -> None:
    shown = (f"{name} {value(sample):.0f}" for name, value in CHARTS)
    click.echo(f"{sample.minute:.1f} min: {'; '.join(shown)}", err=True)


@click.command()
@click.option("--minutes", default=60.0, show_default=True)
@click.option("--scopes", default=50, show_default=True)
@click.option("--devices", default=10, show_default=True)
@click.option("--pause", default=15.0, show_default=True, help="Seconds of thinking in between.")
@click.option("--plot", type=click.Path(path_type=Path), default=Path("soak.svg"))
def main(minutes: float, scopes: int, devices: int, pause: float, plot: Path) -> None:
    """Soak a server; ends with 1 if anything went wrong, or if its memory is not flat."""
    manner = Manner(minutes, scopes, devices, pause)
    # Beside the sources, not in /tmp: that is often in memory, where a disk sync costs nothing.
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        report = asyncio.run(_run(Path(folder), manner))
    lines = report.lines()
    plot.write_text(picture(report.samples, lines[0]), "utf-8")
    click.echo("\n".join([*lines, f"plotted in {plot}"]))
    if report.tally.wrong or not report.flat:
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()
