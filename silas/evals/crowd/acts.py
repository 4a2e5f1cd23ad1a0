"""What people do all day, one act after the other, each to its end."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from silas.evals.crowd.answers import QUESTIONS, answer, decide, offered
from silas.evals.crowd.page import LONGEST_WAIT, Frame, Page, new_name, trace_of
from silas.evals.crowd.visitor import Visitor

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
    body = {"call": "wake", "arguments": {"agent_id": owner.companion}}
    await owner.page.post("/api/companions/do", body)


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
