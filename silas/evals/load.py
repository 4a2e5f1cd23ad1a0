"""Many conversations at once through one whole house: `python -m silas.evals.load`.

Everybody says three things at once, hears the answers, thinks, and goes on, until the time is
over. Then nothing may be missing, doubled or out of order; how long answers took, and how much
memory that needed, is reported.
"""

import asyncio
import contextlib
import random
import resource
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from silas.app.ground import OnDemandVault, make_ground
from silas.app.house import House, open_house
from silas.app.settings import load_settings
from silas.queue.models import UserMessage
from silas.testing import MemoryVault

_BURST = 3
_TEXTS = ("hello", "help", "thanks")
_UNLIMITED = {
    "SILAS_LIMITS__WS_MESSAGES_PER_MINUTE_PER_SCOPE": "1000000",
    "SILAS_LIMITS__MESSAGES_PER_MINUTE_PER_SENDER": "1000000",
    "SILAS_BACKPRESSURE__MAX_PENDING_TURNS_TOTAL": "100000",
}
_LONGEST_WAIT = 120.0


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

    seconds: float = 60.0
    pause: float = 30.0
    turns: int | None = None
    """At most so many turns each."""


async def chat(folder: Path, *, scopes: int, manner: Manner) -> Report:
    """Let so many talk like that."""
    async with _house(folder) as house:
        talks = [Talk(f"visitor-{number}") for number in range(scopes)]
        before, begun = _memory(), time.monotonic()
        async with asyncio.TaskGroup() as group:
            for talk in talks:
                group.create_task(_talk(house, talk, manner, until=begun + manner.seconds))
        return Report(talks, time.monotonic() - begun, before, _memory())


async def _talk(house: House, talk: Talk, manner: Manner, *, until: float) -> None:
    answers, chance = house.deliveries.follow(talk.scope, 0), random.Random(talk.scope)
    while manner.turns is None or len(talk.said) < manner.turns:
        pause = chance.uniform(0, 2 * manner.pause)
        if time.monotonic() + pause >= until:
            return
        await asyncio.sleep(pause)
        sent: dict[str, float] = {}
        for text in _TEXTS[:_BURST]:
            sent[await _say(house, talk, text)] = time.monotonic()
        while sent:
            delivery = await asyncio.wait_for(anext(answers), _LONGEST_WAIT)
            answered = delivery.reply.in_reply_to or ""
            talk.heard.append(answered)
            if answered in sent:
                talk.seconds.append(time.monotonic() - sent.pop(answered))


async def _say(house: House, talk: Talk, text: str) -> str:
    said = UserMessage(
        channel="load",
        connection_id=talk.scope,
        sender_id=talk.scope,
        timestamp=house.ground.clock.now(),
    )
    message = await house.stream.intake.accept(text, said)
    talk.said.append(message.message_id)
    return message.message_id


@contextlib.asynccontextmanager
async def _house(folder: Path) -> AsyncIterator[House]:
    (folder / "data").mkdir(mode=0o700)
    loaded = load_settings(
        data_dir=str(folder / "data"), config_file=None, environ=_UNLIMITED, cwd=folder
    )
    vault: Any = MemoryVault()
    async with make_ground(loaded, OnDemandVault(lambda: vault)) as ground:
        ground.keys.generate_keypair()
        async with open_house(ground, environ={}, home=folder) as house:
            yield house


def _memory() -> int:
    """The memory of this process in bytes, as large as it ever was."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@click.command()
@click.option("--scopes", default=200, show_default=True)
@click.option("--seconds", default=60.0, show_default=True)
@click.option("--pause", default=30.0, show_default=True, help="Seconds of thinking in between.")
def main(scopes: int, seconds: float, pause: float) -> None:
    """Measure many conversations at once; ends with 1 if one of them lost anything."""
    # Beside the sources, not in /tmp: that is often in memory, where a disk sync costs nothing.
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        report = asyncio.run(chat(Path(folder), scopes=scopes, manner=Manner(seconds, pause)))
    click.echo("\n".join(report.lines()))
    if report.lost or report.reordered:
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()
