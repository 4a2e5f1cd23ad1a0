"""Many conversations at once at one real server: `python -m evals.load`.

The owner's devices talk over their WebSockets, strangers over the bus. Everybody says three things
at once, hears the answers, thinks, and goes on, until the time is over. Then nothing may be
missing, doubled or out of order; how long answers took, and how much memory that needed, is
reported.
"""

import asyncio
import contextlib
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import click

from evals.crowd import Server, Street, Visitor, started
from evals.served import LONGEST_WAIT, Frame, Page, new_name, trace_of

_BURST = 3
_TEXTS = ("hello", "help", "thanks")


@dataclass
class Talk:
    """One conversation: what was said, what was heard, and how long each answer took."""

    scope: str
    said: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    """The ids of the messages that were answered, in the order of the answers."""
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """What came of it."""

    talks: list[Talk]
    seconds: float
    memory_before: int
    memory_after: int

    @property
    def turns(self) -> int:
        return sum(len(talk.heard) for talk in self.talks)

    @property
    def lost(self) -> int:
        """Messages without an answer, and answers too many."""
        return sum(len(set(talk.said) ^ set(talk.heard)) for talk in self.talks) + sum(
            len(talk.heard) - len(set(talk.heard)) for talk in self.talks
        )

    @property
    def reordered(self) -> int:
        """Conversations whose answers came in another order than the questions."""
        return sum(talk.heard != talk.said[: len(talk.heard)] for talk in self.talks)

    def lines(self) -> list[str]:
        """The report for people."""
        taken = sorted(each for talk in self.talks for each in talk.seconds)
        p50, p95, p99 = (taken[int(len(taken) * part)] * 1000 for part in (0.5, 0.95, 0.99))
        grown = (self.memory_after - self.memory_before) / len(self.talks) / 1024
        rate, megabyte = self.turns / self.seconds, 2**20
        return [
            f"{len(self.talks)} conversations, {self.turns} turns in {self.seconds:.0f} s",
            f"{rate:.0f} turns/s, lost {self.lost}, out of order {self.reordered}",
            f"answer after: 50 % {p50:.0f} ms, 95 % {p95:.0f} ms, 99 % {p99:.0f} ms",
            f"memory: {self.memory_before / megabyte:.0f} MB before, {grown:.0f} KB a conversation",
        ]


@dataclass(frozen=True)
class Manner:
    """How long everybody talks, and how long they think in between (on average)."""

    scopes: int = 200
    devices: int = 20
    """Of the owner's, whose conversation is one of the scopes."""
    seconds: float = 60.0
    pause: float = 30.0
    turns: int | None = None
    """At most so many turns each."""


class Speaker(Protocol):
    """Whoever has a conversation."""

    async def say(self, text: str) -> str:
        """Say something; returns its id."""
        ...

    async def listen(self) -> str:
        """The id of what the next answer answers."""
        ...


@dataclass
class AtPage:
    """A `Speaker` with a page of his own; answers to other devices are not his."""

    page: Page
    _mine: dict[str, str] = field(default_factory=dict)
    _answers: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        self.page.watch = self._watch

    async def say(self, text: str) -> str:
        name = new_name()
        self._mine[trace_of(name)] = name
        (await self.page.say(text, name=name)).cancel()  # `listen` hears every answer in its order
        return name

    async def listen(self) -> str:
        return await asyncio.wait_for(self._answers.get(), LONGEST_WAIT)

    def _watch(self, frame: Frame) -> None:
        if frame["type"] == "message" and frame["sender"] == "silas":
            name = self._mine.get(frame["trace_id"])
            if name is not None:
                self._answers.put_nowait(name)


async def chat(server: Server, manner: Manner) -> Report:
    """Let so many talk like that."""
    pages = [Page(await server.pair()) for _ in range(manner.devices)]
    street = Street.to(server.core)
    visitors = [Visitor(f"visitor-{number}", street) for number in range(manner.scopes - 1)]
    talks: list[Talk] = []
    before, begun = server.running.memory(), time.monotonic()
    until = begun + manner.seconds
    async with asyncio.TaskGroup() as group:

        def begin(name: str, speaker: Speaker, there: Callable[[], _There]) -> None:
            talks.append(Talk(name))
            group.create_task(_come(talks[-1], speaker, there, manner, until))

        for number, page in enumerate(pages):
            begin(f"device-{number}", AtPage(page), page.open)
        for visitor in visitors:
            begin(visitor.name, visitor, contextlib.nullcontext)
    return Report(talks, time.monotonic() - begun, before, server.running.memory())


_There = AbstractAsyncContextManager[None]


async def _come(
    talk: Talk, speaker: Speaker, there: Callable[[], _There], manner: Manner, until: float
) -> None:
    async with there():
        await _talk(talk, speaker, manner, until)


async def _talk(talk: Talk, speaker: Speaker, manner: Manner, until: float) -> None:
    chance = random.Random(talk.scope)
    while manner.turns is None or len(talk.said) < manner.turns:
        pause = chance.uniform(0, 2 * manner.pause)
        if time.monotonic() + pause >= until:
            return
        await asyncio.sleep(pause)
        sent: dict[str, float] = {}
        for text in _TEXTS[:_BURST]:
            begun = time.monotonic()
            sent[await speaker.say(text)] = begun
        talk.said.extend(sent)
        while sent:
            answered = await speaker.listen()
            talk.heard.append(answered)
            if answered in sent:
                talk.seconds.append(time.monotonic() - sent.pop(answered))


async def _run(folder: Path, manner: Manner) -> Report:
    async with started(folder) as server:
        return await chat(server, manner)


@click.command()
@click.option("--scopes", default=200, show_default=True)
@click.option("--devices", default=20, show_default=True)
@click.option("--seconds", default=60.0, show_default=True)
@click.option("--pause", default=30.0, show_default=True, help="Seconds of thinking in between.")
def main(scopes: int, devices: int, seconds: float, pause: float) -> None:
    """Measure many conversations at once; ends with 1 if one of them lost anything."""
    # Beside the sources, not in /tmp: that is often in memory, where a disk sync costs nothing.
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        report = asyncio.run(_run(Path(folder), Manner(scopes, devices, seconds, pause)))
    click.echo("\n".join(report.lines()))
    if report.lost or report.reordered:
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()
