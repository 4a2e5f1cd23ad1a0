"""Many at once at one server: the owner on several devices, and strangers.

The devices are paired and talk over WebSockets: an `Owner` does what people do all day, one act
after the other, each to its end; the `Steward` answers what nobody else there has asked for.
Strangers have no socket of their own yet, so a `Visitor` comes in as from a channel of another
process: over the bus, on the same data directory. The `Tally` notes what was done, how long it took
and what went wrong.
"""

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx

from evals.served import (
    LONGEST_WAIT,
    BenchDevice,
    Frame,
    Page,
    Running,
    environment_for,
    new_name,
    silas_server,
    trace_of,
)
from silas.app.client import call_server
from silas.app.conversation import open_intake
from silas.app.core import Core, open_core
from silas.approval import ApprovalDecision, ApprovalStrength, ApprovalVerdict
from silas.kernel import Clock, SilasError
from silas.queue.models import UserMessage
from silas.review.cards import batch_decision_bytes
from silas.settings.load import load_settings
from silas.stream.admission import Intake
from silas.stream.delivery import Deliveries, Delivery

_FIELDS = {
    "gate_approval": ("gate_response", "verdict"),
    "decision": ("decision_response", "selected_value"),
    "suggestion": ("suggestion_response", "selected_value"),
    "autonomy_threshold_review": ("autonomy_threshold_response", "verdict"),
    "draft_review": ("draft_review_response", "verdict"),
}
_VERDICTS = {"approve": ApprovalVerdict.APPROVED, "decline": ApprovalVerdict.DECLINED}
QUESTIONS = frozenset({*_FIELDS, "batch_review"})


async def decide(page: Page, card: Frame, verdict: str) -> None:
    """Sign a decision about a plan or a call, as its card shows it."""
    hashes = {item["id"]: item["plan_hash"] for item in card["items"]}
    strength = _strength(card, grants=verdict == ApprovalVerdict.APPROVED)
    decided = ApprovalDecision(verdict=ApprovalVerdict(verdict), approval_strength=strength)
    decision = decided.model_dump(mode="json")
    said: dict[str, Any] = {"card_id": card["request_id"], "plan_hashes": hashes}
    if card["kind"] == "call":
        said |= {"type": "call_decision", "decision": decision}
    else:
        shown = {"risk": card["risk_level"], "taint": card["taint"]}
        said |= {"type": "card_decision", "decision": decision, **shown}
    await page.send(
        {
            "type": "approval_response",
            "request_id": card["request_id"],
            "verdict": verdict,
            "strength": strength.value,
            "signature": page.device.signed(said),
        }
    )


async def answer(page: Page, question: Frame, value: str) -> None:
    """Sign one of the answers that a question offers."""
    name = question["request_id"]
    strength = _strength(question, grants=value != question["actions"][-1]["value"])
    if question["type"] == "batch_review":
        decision = ApprovalDecision(verdict=_VERDICTS[value], approval_strength=strength)
        signature = page.device.sign(batch_decision_bytes(question["batch"], decision))
        said, kind = {"verdict": value}, "batch_review_response"
    else:
        kind, field = _FIELDS[question["type"]]
        said = {field: value}
        content = question["shown"]["plan_hash"]
        named = {} if strength is ApprovalStrength.TAP else {"approval_strength": strength.value}
        signature = page.device.signed(
            {"type": "answer", "card_id": name, "content_hash": content, "answer": said, **named}
        )
    sent = {"type": kind, "request_id": name, "signature": signature, **said}
    await page.send({**sent, "strength": strength.value})


def _strength(card: Frame, *, grants: bool) -> ApprovalStrength:
    """What was done for it: a slide where the card asks for one."""
    slid = grants and "slide" in card["steps"]
    return ApprovalStrength.SLIDE if slid else ApprovalStrength.TAP


def offered(question: Frame) -> list[str]:
    """What can be answered with one tap, the refusing answer last."""
    values = [action["value"] for action in question["actions"]]
    if question["type"] == "batch_review":
        return [each for each in values if each in _VERDICTS]
    return values


_CHANNEL = "crowd"


@dataclass(frozen=True)
class Street:
    """Where strangers come from: the bus of a data directory whose server is another process."""

    intake: Intake
    deliveries: Deliveries
    clock: Clock

    @classmethod
    def to(cls, core: Core) -> "Street":
        """The one that leads to this data directory."""
        deliveries = Deliveries(core.database, core.clock)
        return cls(open_intake(core), deliveries, core.clock)


@dataclass
class Visitor:
    """One of them."""

    name: str
    street: Street
    _answers: AsyncIterator[Delivery] | None = field(default=None, repr=False)

    async def say(self, text: str) -> str:
        """Say something; returns the message's id."""
        said = UserMessage(
            channel=_CHANNEL,
            connection_id=self.name,
            sender_id=self.name,
            timestamp=self.street.clock.now(),
        )
        return (await self.street.intake.accept(text, said)).message_id

    async def listen(self) -> str:
        """The id of the message that the next answer answers."""
        if self._answers is None:
            self._answers = self.street.deliveries.follow(self.name, 0)
        delivery = await asyncio.wait_for(anext(self._answers), LONGEST_WAIT)
        return delivery.reply.in_reply_to or ""

    async def hear(self, text: str) -> None:
        """Say something, and wait for its answer."""
        name = await self.say(text)
        while await self.listen() != name:
            pass


CATEGORY = "gym"
_UNFINISHED = frozenset({"pending", "running", "queued"})
_DECLINED = 0.3
_THINGS = 60
"""So many things are talked about: what is known of them changes, and does not grow for ever."""


@dataclass
class Owner:
    """The owner at one of his devices."""

    page: Page
    chance: random.Random
    companion: str = ""
    """A companion that can be woken."""
    asked: set[str] = field(default_factory=set)
    """Traces of what is decided by whoever asked for it; shared by all devices."""


async def chat(owner: Owner) -> None:
    """Small talk, and questions about what happened."""
    await owner.page.hear(owner.chance.choice(("hello", "help", "thanks", "What did you do?")))


async def remember(owner: Owner) -> None:
    """Something is remembered, looked up, and forgotten again."""
    thing = f"box {owner.chance.randrange(_THINGS)}"
    colour = owner.chance.choice(("green", "red", "blue"))
    await owner.page.hear(f"Remember that {thing} is {colour}")
    await owner.page.hear(f"Where is {thing}?")
    if owner.chance.random() < 0.5:
        await owner.page.hear(f"Forget about {thing}")


async def plan(owner: Owner) -> None:
    """A plan is asked for, its card comes, and it is approved or declined."""
    word = f"word{owner.chance.randrange(_THINGS)}"
    wish = owner.chance.choice(
        (
            f"run echo {word} and check that it prints {word}",
            f"Create a file soak/{word}.txt with {word}",
        )
    )
    name = new_name()
    trace = trace_of(name)
    owner.asked.add(trace)
    try:
        comes = owner.page.expect("approval_request", lambda frame: frame["trace_id"] == trace)
        await owner.page.say(wish, name=name)
        card = await asyncio.wait_for(comes, LONGEST_WAIT)
        verdict = "declined" if owner.chance.random() < _DECLINED else "approved"
        await _decided(owner.page, card, verdict)
    finally:
        owner.asked.discard(trace)


async def _decided(page: Page, card: Frame, verdict: str) -> None:
    """Decide it, and wait until what was decided is done; another device may have been faster."""
    name, trace = card["request_id"], card["trace_id"]
    ended = page.expect(
        "work", lambda frame: frame["trace_id"] == trace and frame["status"] not in _UNFINISHED
    )
    closed = page.expect("card_closed", lambda frame: frame["request_id"] == name)
    too_late = page.expect("error", lambda frame: frame["about"] == name)
    await decide(page, card, verdict)
    async with asyncio.timeout(LONGEST_WAIT):
        await asyncio.wait({closed, too_late}, return_when=asyncio.FIRST_COMPLETED)
        if closed.done() and closed.result()["state"] == "approved":
            await ended
    for each in (ended, closed, too_late):
        each.cancel()


async def journal(owner: Owner) -> None:
    """A task is written down by talking, its time is logged, it is done; companions see that."""
    task = f"Soak {owner.chance.randrange(10**6)}"
    await owner.page.hear(f"Add task {task} in {CATEGORY}")
    await owner.page.hear(f"Log 5 minutes on {task}")
    await owner.page.hear(f"Done with {task}")


async def look(owner: Owner) -> None:
    """The journal, the companions and the activity are opened in the page."""
    await owner.page.get("/api/journal/day/today")
    await owner.page.get("/api/companions")
    shown = owner.page.expect("activity")
    await owner.page.send({"type": "activity_request", "count": 60})
    await asyncio.wait_for(shown, LONGEST_WAIT)


async def wake(owner: Owner) -> None:
    """A companion is woken by hand."""
    await owner.page.post("/api/companions/wake", {"agent_id": owner.companion})


ACTS: Mapping[Callable[[Owner], Awaitable[None]], int] = MappingProxyType(
    {chat: 6, remember: 3, plan: 4, journal: 3, look: 2, wake: 1}
)
"""How often each of them is done."""


async def visit(visitor: Visitor, chance: random.Random) -> None:
    """A stranger says something; sometimes he wants something done."""
    word = f"word{chance.randrange(_THINGS)}"
    wishes = ("hello", "help", f"Where is box {word}?", f"run echo {word}", "What did you do?")
    await visitor.hear(chance.choice(wishes))


@dataclass
class Steward:
    """The owner's device that answers what nobody else there has asked for."""

    owner: Owner
    answered: int = 0
    _open: dict[str, Frame] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def watch(self, frame: Frame) -> None:
        """For `Page.watch`."""
        if frame["type"] in QUESTIONS or frame["type"] == "approval_request":
            if frame["state"] == "open":
                self._open[frame["request_id"]] = frame
                self._news.set()
        elif frame["type"] == "card_closed":
            self._open.pop(frame["request_id"], None)

    async def serve(self) -> None:
        """Answer until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            for name, frame in list(self._open.items()):
                await self._answer(name, frame)

    async def _answer(self, name: str, frame: Frame) -> None:
        page, chance = self.owner.page, self.owner.chance
        if frame["type"] == "approval_request":
            if frame["trace_id"] in self.owner.asked:
                return
            self._open.pop(name, None)
            await decide(page, frame, "declined")
        else:
            self._open.pop(name, None)
            await answer(page, frame, chance.choice(offered(frame)))
        self.answered += 1


DECIDED_ELSEWHERE = "E_CHANNEL_CARD_DECIDED"


@dataclass
class Tally:
    """Counts of one run."""

    acts: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    """Errors that pages were told of, by their codes."""
    seconds: list[float] = field(default_factory=list)

    async def count(self, name: str, act: Awaitable[object]) -> None:
        """Let it happen; what goes wrong is counted, except a connection that was lost."""
        begun = time.monotonic()
        try:
            await act
        except (TimeoutError, httpx.HTTPError, SilasError) as error:
            self.failures[f"{name}: {type(error).__name__} {error}"[:120]] += 1
        else:
            self.acts[name] += 1
            self.seconds.append(time.monotonic() - begun)

    def watch(self, frame: Frame) -> None:
        """For `Page.watch`."""
        if frame["type"] == "error":
            self.refusals[frame["code"]] += 1

    @property
    def wrong(self) -> int:
        """Acts that did not come to their end, and refusals that nobody expects."""
        unexpected = self.refusals.total() - self.refusals[DECIDED_ELSEWHERE]
        return self.failures.total() + unexpected

    def lines(self) -> list[str]:
        """The counts for people."""
        shares = (0.5, 0.95, 0.99)
        taken = sorted(self.seconds) or [0.0]
        p50, p95, p99 = (taken[int(len(taken) * share)] for share in shares)
        done = ", ".join(f"{name} {count}" for name, count in sorted(self.acts.items()))
        told = [f"refused: {code} {count}" for code, count in sorted(self.refusals.items())]
        wrong = [f"failed: {what} ({count})" for what, count in sorted(self.failures.items())]
        return [
            f"{self.acts.total()} acts: {done}",
            f"an act took: 50 % {p50:.2f} s, 95 % {p95:.2f} s, 99 % {p99:.2f} s",
            *told,
            *wrong,
        ]


UNLIMITED = {
    "SILAS_LIMITS__WS_MESSAGES_PER_MINUTE_PER_SCOPE": "1000000",
    "SILAS_LIMITS__WS_MESSAGES_PER_MINUTE_PER_IP": "1000000",
    "SILAS_LIMITS__MESSAGES_PER_MINUTE_PER_SENDER": "1000000",
    "SILAS_BACKPRESSURE__MAX_PENDING_TURNS_PER_SCOPE": "1000",
    "SILAS_BACKPRESSURE__MAX_PENDING_TURNS_TOTAL": "100000",
}


@dataclass(frozen=True)
class Server:
    """Where it is."""

    running: Running
    core: Core
    """Its data directory, opened by us as well."""
    pair: Callable[[], Awaitable[BenchDevice]]
    """One more device of the owner's."""


@contextlib.asynccontextmanager
async def started(folder: Path) -> AsyncIterator[Server]:
    """One that was set up just now in this folder, and never says that it is too busy."""
    async with silas_server(folder, **UNLIMITED) as (running, first):
        environ = {**environment_for(folder), **UNLIMITED}
        loaded = load_settings(data_dir=None, config_file=None, environ=environ, cwd=folder)

        async def pair() -> BenchDevice:
            answer = await asyncio.to_thread(call_server, loaded.paths, "/api/web/pair")
            device = BenchDevice(first.port)
            code = str(answer["link"]).partition("#pair=")[2]
            await asyncio.to_thread(device.pair, code)
            return device

        async with open_core(loaded, environ=environ) as core:
            yield Server(running, core, pair)
