"""The lives of a seed: one process after the other, each ended by its owner, by a fault or a kill.

In each life people talk and the owner decides (`People`). After it, everything is looked at as the
next process would find it. After the last one, a Silas on a healthy machine gets time to finish:
then nothing may be missing. `run_simulation` does that for many seeds.
"""

import asyncio
import base64
import contextlib
import logging
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from evals.simulation.invariants import check_end, check_now
from evals.simulation.machine import SimulatedLoop, bury
from evals.simulation.world import BLOCKED_MESSAGE, Said, Speaker, World, make_template
from silas.app.runtime import Runtime
from silas.approval import ApprovalDecision, ApprovalVerdict, message_bytes
from silas.kernel import SilasError
from silas.queue.models import UserMessage
from silas.review import OwnersProof
from silas.review.cards import Card, decision_bytes

LOG = "silas.db-wal"
_SCOPES: Mapping[Speaker, tuple[str, ...]] = {
    Speaker.OWNER: ("owner",),
    Speaker.GUEST: ("guest-1", "guest-2"),
    Speaker.STRANGER: ("stranger-1", "stranger-2"),
    Speaker.PRETENDER: ("owner",),
    Speaker.REPLAYER: ("owner", "stranger-1"),
}
_SPEAKERS = (
    *(Speaker.OWNER,) * 6,
    *(Speaker.GUEST, Speaker.STRANGER, Speaker.PRETENDER, Speaker.REPLAYER),
)
_OTHER_KEY = Ed25519PrivateKey.from_private_bytes(b"somebody else's key, 32 bytes ok"[:32])
_WISHES: tuple[str, ...] = (
    "Create a file {m}.txt with {m}",
    "Create a file {m}.txt with {m}",
    "Add {m} to shared.txt",
    "Add {m} to shared.txt",
    "Run `printf {m} >> {m}.txt` and check it with `test -f {m}.txt`",
    "run echo {m} and check that it prints {m}",
    "run basename {m} and check that it prints something else",
    "Remember that the number of the safe {m} is secret-{m}",
    "What is the number of the safe?",
    "Add task {m} in gym due tomorrow 9am",
    "Done with {m}",
    "What is on today?",
    "Plan my day",
    "Run `test -f {m}.txt` every 15 minutes",
    "Run `true` every day at 2:30",
    "What did you do?",
    "Forget about the number of the safe",
    "{m} blah",
    f"Create a file {{m}}.txt with {BLOCKED_MESSAGE}",
)
_VERDICTS = (
    *(ApprovalVerdict.APPROVED,) * 6,
    *(ApprovalVerdict.DECLINED, ApprovalVerdict.EDIT_REQUESTED),
)


class People:
    """Everybody, and the owner's decisions."""

    def __init__(self, world: World, runtime: Runtime) -> None:
        self._world = world
        self._runtime = runtime
        self._chance = world.chance(f"people {world.lives}")
        self._signed: list[tuple[str, UserMessage]] = []

    async def live(self, steps: int) -> None:
        """Do this many things, one after the other, with pauses."""
        doing: tuple[Callable[[], object], ...] = (
            *(self._speak,) * 4,
            *(self._decide,) * 4,
            self._forge,
            self._jump,
        )
        for _ in range(steps):
            await self._chance.choice(doing)()  # type: ignore[misc]
            await asyncio.sleep(self._chance.choice((0.0, 0.001, 0.5, 3.0, 15.0)))

    async def _speak(self) -> None:
        speaker = self._chance.choice(_SPEAKERS)
        scope = self._chance.choice(_SCOPES[speaker])
        mark = self._world.records.next_mark()
        text = self._chance.choice(_WISHES).format(m=mark)
        said = self._message(speaker, scope, text)
        if speaker is Speaker.REPLAYER:
            if not self._signed:
                return
            text, said = self._chance.choice(self._signed)
            said = said.model_copy(update={"connection_id": scope, "sender_id": scope})
            mark = ""
        try:
            message = await self._runtime.stream.intake.accept(text, said)
        except SilasError as error:
            self._refused("speak", error)
            return
        self._accepted(message.message_id, speaker, said, text, mark)

    def _accepted(
        self, name: str, speaker: Speaker, said: UserMessage, text: str, mark: str
    ) -> None:
        world, scope = self._world, said.connection_id
        if world.disk.dead:
            return  # nobody is there any more to hear it
        if speaker is Speaker.OWNER:
            self._signed.append((text, said))
        if mark and "secret-" in text:
            world.records.secrets[f"secret-{mark}"] = scope
        syncs = world.disk.syncs.get(LOG, 0)
        world.records.said.append(Said(name, scope, speaker, text, mark, syncs))
        world.trace.note("said", speaker.name, scope, name, text)

    def _message(self, speaker: Speaker, scope: str, text: str) -> UserMessage:
        core = self._runtime.core
        now, nonce = core.clock.now(), core.ids.new("nonce")
        payload = message_bytes(text=text, timestamp=now, nonce=nonce)
        signature: bytes | None = None
        if speaker is Speaker.OWNER:
            _, signature = core.keys.sign(payload)
        elif speaker is Speaker.GUEST:
            signature = _OTHER_KEY.sign(payload)
        return UserMessage(
            channel="simulated",
            connection_id=scope,
            sender_id=scope,
            timestamp=now,
            signature=base64.b64encode(signature).decode() if signature else None,
            nonce=nonce if signature else None,
        )

    async def _decide(self) -> None:
        card = await self._some_card()
        if card is None:
            return
        verdict = self._chance.choice(_VERDICTS)
        records = self._world.records
        # What the owner has signed may count, also if he is told that it was not kept.
        if verdict is ApprovalVerdict.APPROVED:
            records.approved_items |= set(card.plan_hashes)
            if card.requested_by == "undo" and card.replaces:
                records.undone.add(card.replaces)
        try:
            await self._runtime.cards.decide_with_vault(
                card.card_id, ApprovalDecision(verdict=verdict), shown=card.plan_hashes
            )
        except SilasError as error:
            self._refused("decide", error)
            return
        if not self._world.disk.dead:
            records.decided[card.card_id] = verdict
            self._world.trace.note("decided", card.card_id, verdict.value)

    async def _forge(self) -> None:
        """Somebody who is not the owner wants to have something approved."""
        card = await self._some_card()
        if card is None:
            return
        yes = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
        cards = self._runtime.cards
        try:
            if self._chance.random() < 0.5:
                other = dict.fromkeys(card.plan_hashes, "0" * 64)
                taken = await cards.decide_with_vault(card.card_id, yes, shown=other)
            else:
                signature = _OTHER_KEY.sign(decision_bytes(card, yes))
                taken = await cards.decide(card.card_id, yes, OwnersProof("device", signature))
        except SilasError as error:
            self._refused("forge", error)
            return
        if taken.state != "declined":  # a card that has expired is
            self._world.problems.append(f"INV-01: a forged yes to {card.card_id} was taken")

    async def _some_card(self) -> Card | None:
        try:
            cards = await self._runtime.cards.open_cards()
        except SilasError as error:
            self._refused("look", error)
            return None
        return self._chance.choice(cards) if cards else None

    async def _jump(self) -> None:
        step = jump(self._chance)
        self._world.clock.jump(step)
        self._world.trace.note("jump", step)

    def _refused(self, what: str, error: SilasError) -> None:
        self._world.records.refusals += 1
        self._world.trace.note("refused", what, error.code)


def jump(chance: Random) -> timedelta:
    """How far a clock is set: mostly a little, sometimes past what is valid for minutes or days."""
    minutes = chance.choice((-90.0, -5.0, -0.5, 0.5, 6.0, 45.0, 24 * 60.0, 8 * 24 * 60.0))
    return timedelta(minutes=minutes)


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
        async with world.runtime() as runtime:
            await People(world, runtime).live(steps)
    except SilasError as error:
        world.trace.note("stopped", error.code)


async def _finish(world: World) -> None:
    async with world.runtime() as runtime, asyncio.timeout(_LONGEST_SETTLING):
        quiet = 0
        while quiet < _QUIET:
            await asyncio.sleep(5)
            waiting = sum((await runtime.stream.queue.depth()).values())
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
