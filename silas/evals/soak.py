"""Mixed traffic at one real server for an hour: `python -m silas.evals.soak`.

The owner on several devices (each over its own WebSocket, leaving and coming back) and strangers,
each in a scope of his own, do what people do all day. Meanwhile the server is looked at; at the
end stands whether its memory is flat, and a picture.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from websockets.exceptions import WebSocketException

from silas.evals.crowd.acts import ACTS, CATEGORY, Owner, Steward, visit
from silas.evals.crowd.curve import CHARTS, Sample, growth, look_at, picture, slope
from silas.evals.crowd.page import Page
from silas.evals.crowd.server import Server, started
from silas.evals.crowd.tally import Tally
from silas.evals.crowd.visitor import Street, Visitor

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
    street, samples = Street.to(server.ground), list[Sample]()
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
            answer = await page.post("/api/companions/do", {"call": "new", "arguments": wanted})
            made.append(answer["answer"]["id"])
            more = {"agent_id": made[-1], "budget": _BUDGET}
            await page.post("/api/companions/do", {"call": "configure", "arguments": more})
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
    row = await server.ground.database.fetch_one("SELECT count(*) FROM queue_messages")
    minute, folder = (time.monotonic() - begun) / 60, server.ground.paths.data_dir
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
