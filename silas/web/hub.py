"""The hub: everything that is new goes to every open page of the owner's.

One task reads the deliveries for all of them. A page that comes back says how far it has read, and
pages drop what they have already, so that between history and news nothing is lost or doubled.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from silas.kernel.models import Data
from silas.stream.cadence import CadenceWatch, is_crowded
from silas.stream.decisions import UNDO
from silas.web import wire
from silas.web.front import Front
from silas.web.showing import items_of, shown_card, shown_delivery, shown_saying, shown_work

_RECENT_CARDS = 30
_WORK_SECONDS = 0.25
"""Work that goes on is looked up so often at most, however much happens in it."""


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
        self._said = 0
        self._open_cards: frozenset[str] = frozenset()
        self._open_calls: frozenset[str] = frozenset()
        self._front: Front | None = None
        self._moving: set[str] = set()
        self._looking: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()

    def look_again(self) -> None:
        """Something was asked, or is asked no longer."""
        if self._front is not None and self.pages:
            task = asyncio.create_task(self.tell_cards(self._front), name="web cards")
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    @property
    def watched(self) -> bool:
        """Whether a page is open."""
        return bool(self.pages)

    def text(self, connection_id: str, trace_id: str, piece: str) -> None:
        """An answer grows."""
        del connection_id  # only the owner's pages are here, and he may see every conversation
        self.tell(wire.Streaming(trace_id=trace_id, piece=piece))

    def progress(self, trace_id: str, what: str, detail: str = "") -> None:
        """Work goes on."""
        self.tell(wire.Progress(trace_id=trace_id, what=what, detail=detail))
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
        finally:
            self._looking = None

    def tell(self, frame: Data) -> None:
        """Send it to every page."""
        for page in tuple(self.pages):
            page.put(frame)

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
        try:
            yield
        finally:
            self._front = None
            await _ended(task)
            if self._looking is not None:
                await _ended(self._looking)

    async def drop_untrusted(self, front: Front) -> None:
        """Whoever was revoked goes now."""
        if not self.pages:
            return
        trusted = {device.device_id for device in await front.devices.list() if device.trusted}
        for page in tuple(self.pages):
            if page.device_id not in trusted:
                page.leave()

    async def tell_said(self, front: Front) -> None:
        """What the owner said, on whichever channel."""
        for saying in await front.said.after(front.owner_id, self._said):
            self._said = max(self._said, saying.number)
            self.tell(shown_saying(saying))

    async def tell_cards(self, front: Front) -> None:
        """Cards that are new, and those that were decided meanwhile."""
        before = self._open_cards
        now = {card.card_id: card for card in await front.cards.open_cards()}
        self._open_cards = frozenset(now)
        for name in before - now.keys():
            card = await front.cards.get(name)
            self.tell(wire.CardClosed(request_id=name, state=card.state))
        for name in now.keys() - before:
            self.tell(shown_card(now[name], await items_of(now[name], front.items)))
        if before != now.keys():
            await self._tell_attention(front, [card.risk.value for card in now.values()])
        await self._tell_calls(front)

    async def _tell_attention(self, front: Front, risks: Sequence[str]) -> None:
        """Cues for whoever decides, when they change."""
        cadence = await CadenceWatch(front.audit, front.clock).now()
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
        for card in await front.cards.recent(_RECENT_CARDS):
            undone = card.requested_by != UNDO or card.state == "approved"
            if card.trace_id == trace_id and undone:
                for item in await items_of(card, front.items):
                    self.tell(shown_work(card, item))

    async def _follow(self, front: Front, number: int) -> None:
        await self.tell_cards(front)
        async for delivery in front.deliveries.follow(front.owner_id, number):
            await self.drop_untrusted(front)
            if not self.pages:
                continue
            await self.tell_said(front)
            await self.tell_cards(front)
            self.tell(shown_delivery(delivery))
            await self.tell_work(front, delivery.message.trace_id)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
