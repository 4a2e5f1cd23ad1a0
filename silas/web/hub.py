"""The hub: everything that is new goes to every open page of the owner's.

One task reads the deliveries for all of them. A page that comes back says how far it has read, and
pages drop what they have already, so that between history and news nothing is lost or doubled.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Protocol

from fastapi import Request
from pydantic_core import to_json

from silas.kernel import SilasError
from silas.kernel.models import Data
from silas.kernel.tasks import BackgroundWork, end_task
from silas.stream.cadence import CadenceWatch, is_crowded
from silas.stream.delivery import Delivery
from silas.stream.ports import AnswerProgress
from silas.web import wire
from silas.web.front import Front
from silas.web.showing import (
    card_frame,
    shown_answering,
    shown_delivery,
    shown_saying,
    work_frame,
)

_MAX_LIVE_LINES = 500
_MAX_DETAIL_CHARACTERS = 500
_WORK_SECONDS = 0.25
"""Work that goes on is looked up so often at most, however much happens in it."""
_log = logging.getLogger(__name__)


class Page(Protocol):
    """One open socket."""

    @property
    def device_id(self) -> str:
        """Whose it is."""
        ...

    def put(self, frame: Data) -> None:
        """Send this, in its turn."""
        ...

    def leave(self) -> None:
        """The device is no longer trusted: close at once."""
        ...

    def call_again(self) -> None:
        """Silas was set up anew: close, and have the page come back."""
        ...


class Hub:
    """`silas.stream.ports.Live`, and the news."""

    def __init__(self) -> None:
        self.pages: set[Page] = set()
        self.attention = wire.Attention()
        """What pages show beside the decisions."""
        self._cadence: CadenceWatch | None = None
        self._said = 0
        self._conversations: wire.Conversations | None = None
        self._open_cards: frozenset[str] = frozenset()
        self._open_calls: frozenset[str] = frozenset()
        self._front: Front | None = None
        self._moving: set[str] = set()
        self._looking: asyncio.Task[None] | None = None
        self._telling = BackgroundWork(_log)
        self._terminals: set[asyncio.Queue[bytes | None]] = set()
        self._companion_news: asyncio.TimerHandle | None = None

    def look_again(self) -> None:
        """Something was asked, or is asked no longer."""
        if self._front is not None and self.pages:
            # The next delivery brings them all, so a disk that fails just now loses nothing.
            telling = partial(self.tell_cards, self._front)
            self._telling.start(telling, "Pages were not told what is asked")

    def _hear_of(self, owner_id: str, connection_id: str) -> None:
        """A visitor was answered: that may have put a card before the owner."""
        if connection_id != owner_id:
            self.look_again()

    @property
    def watched(self) -> bool:
        """Whether a page is open."""
        return bool(self.pages)

    def text(self, connection_id: str, trace_id: str, piece: str, *, start: int) -> None:
        """An answer grows. Pages show every conversation of the owner's, terminals their own."""
        self.tell(wire.Streaming(trace_id=trace_id, start=start, piece=piece))
        self._tell_terminals(
            connection_id=connection_id, trace_id=trace_id, piece=piece, start=start
        )

    def answering(self, progress: AnswerProgress) -> None:
        """An answer is at another stage, or is over."""
        self.tell(shown_answering(progress))
        self._tell_terminals(**progress.model_dump())

    def progress(self, trace_id: str, what: str, detail: str = "") -> None:
        """Work goes on."""
        self.tell(wire.ProgressFrame(trace_id=trace_id, what=what, detail=detail))
        shown = detail[:_MAX_DETAIL_CHARACTERS]
        self._tell_terminals(trace_id=trace_id, what=what, detail=shown)
        if self._front is None or not self.pages:
            return
        self._moving.add(trace_id)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(self._front), name="web work")

    async def _look(self, front: Front) -> None:
        """Show how far the work is that has moved."""
        try:
            while self._moving:
                await asyncio.sleep(_WORK_SECONDS)
                moved, self._moving = self._moving, set()
                for trace_id in moved:
                    await self.tell_work(front, trace_id)
        except SilasError as error:
            _log.warning("Pages were not told how far the work is: %s", error.message)
        finally:
            self._looking = None

    async def live(self) -> AsyncIterator[bytes]:
        """What grows and goes on from now on, as lines of JSON, for a terminal beside the page."""
        waiting: asyncio.Queue[bytes | None] = asyncio.Queue(_MAX_LIVE_LINES)
        self._terminals.add(waiting)
        try:
            while (line := await waiting.get()) is not None:
                yield line
        finally:
            self._terminals.discard(waiting)

    def _tell_terminals(self, **event: object) -> None:
        if self._terminals:
            self._put_to_terminals(to_json(event) + b"\n")

    def _put_to_terminals(self, line: bytes | None) -> None:
        for waiting in self._terminals:
            if waiting.full():
                waiting.get_nowait()  # nothing relies on it: the newest is worth more
            waiting.put_nowait(line)

    def tell(self, frame: Data) -> None:
        """Send it to every page."""
        for page in tuple(self.pages):
            page.put(frame)

    def companion_text(self, agent_id: str, run_key: str, text: str) -> None:
        """The answer of a companion grows: all of it so far."""
        self.tell(wire.CompanionAnswering(agent_id=agent_id, run_key=run_key, text=text))
        self._tell_terminals(companion=agent_id, run_key=run_key, text=text)

    def companions_changed(self) -> None:
        """Tell pages soon: what changes in one moment is one frame."""
        if self.pages and self._companion_news is None:
            loop = asyncio.get_running_loop()
            self._companion_news = loop.call_later(_WORK_SECONDS, self._tell_companions)

    def _tell_companions(self) -> None:
        self._companion_news = None
        self.tell(wire.CompanionsChanged())

    async def hear_companion_commands(self, request: Request) -> AsyncIterator[None]:
        """Around each request about companions, of a page or a terminal. A GET changes nothing."""
        yield
        if request.method != "GET":
            self.companions_changed()

    def call_again(self) -> None:
        """Have every page come back."""
        for page in tuple(self.pages):
            page.call_again()

    @contextlib.asynccontextmanager
    async def running(self, front: Front) -> AsyncIterator[None]:
        """Read the news until the end of the block; then every page is told to go."""
        newest = await front.said.newest(front.owner_id, 1)
        self._said = newest[-1].number if newest else 0
        number = await front.deliveries.last(front.owner_id)
        task = asyncio.create_task(self._follow(front, number), name="web news")
        self._front = front
        ignore = front.deliveries.listen(partial(self._hear_of, front.owner_id))
        try:
            yield
        finally:
            ignore()
            self._front = None
            if self._companion_news is not None:
                self._companion_news.cancel()
                self._companion_news = None
            self._put_to_terminals(None)
            await end_task(task)
            if self._looking is not None:
                await end_task(self._looking)

    async def drop_untrusted(self, front: Front) -> None:
        """Whoever was revoked goes now."""
        if not self.pages:
            return
        trusted = {device.device_id for device in await front.devices.list() if device.trusted}
        for page in tuple(self.pages):
            if page.device_id not in trusted:
                page.leave()

    async def tell_said(self, front: Front) -> bool:
        """What the owner said, on whichever channel; whether there was anything."""
        news = await front.said.after(front.owner_id, self._said)
        for saying in news:
            self._said = max(self._said, saying.number)
            self.tell(shown_saying(saying))
        return bool(news)

    async def tell_conversations(self, front: Front) -> None:
        """The list of the conversations, if it has changed."""
        now = wire.Conversations(conversations=await front.search.conversations.list())
        if now != self._conversations:
            self._conversations = now
            self.tell(now)

    async def tell_cards(self, front: Front) -> None:
        """Cards that are new, and those that were decided meanwhile."""
        before = self._open_cards
        now = {card.card_id: card for card in await front.cards.open_cards()}
        self._open_cards = frozenset(now)
        for name in before - now.keys():
            card = await front.cards.get(name)
            self.tell(wire.CardClosed(request_id=name, state=card.state))
        for name in now.keys() - before:
            self.tell(await card_frame(front, now[name]))
        if before != now.keys():
            await self._tell_attention(front, [card.risk.value for card in now.values()])
        await self._tell_calls(front)

    async def _tell_attention(self, front: Front, risks: Sequence[str]) -> None:
        """Cues for whoever decides, when they change."""
        if self._cadence is None:
            self._cadence = CadenceWatch(front.audit, front.clock)
        cadence = await self._cadence.now()
        cues = wire.Attention(crowded=is_crowded(risks), hasty=cadence.hasty)
        if cues != self.attention:
            self.attention = cues
            self.tell(cues)

    async def _tell_calls(self, front: Front) -> None:
        before = self._open_calls
        now = {card.request_id: card for card in await front.calls.cards()}
        self._open_calls = frozenset(now)
        for name in before - now.keys():
            self.tell(wire.CardClosed(request_id=name, state="decided"))
        for name in now.keys() - before:
            self.tell(now[name])

    async def tell_work(self, front: Front, trace_id: str) -> None:
        """How far the work is that came from a request."""
        for name in await front.cards.plans_of_trace(trace_id):
            item = await front.items.get(name)
            if item is not None:
                self.tell(await work_frame(trace_id, item, front.calls.work.images))

    async def _follow(self, front: Front, number: int) -> None:
        """Tell everything that is new; after a disk that failed, from where it was left."""
        while True:
            try:
                await self.tell_cards(front)
                async for delivery in front.deliveries.follow(front.owner_id, number):
                    await self._tell_delivery(front, delivery)
                    number = delivery.number
            except SilasError as error:
                _log.warning("Pages were not told what is new: %s", error.message)
                await asyncio.sleep(_WORK_SECONDS)

    async def _tell_delivery(self, front: Front, delivery: Delivery) -> None:
        await self.drop_untrusted(front)
        if not self.pages:
            return
        # The list of conversations changes with what the owner says, not with what is answered.
        if await self.tell_said(front):
            await self.tell_conversations(front)
        await self.tell_cards(front)
        self.tell(shown_delivery(delivery))
        await self.tell_work(front, delivery.message.trace_id)
