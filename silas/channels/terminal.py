"""The conversation in a terminal: one line in, the answers out, decisions in between.

A message is signed before it is sent, so that it is the owner's. A card is shown whole, exactly as
it would be signed, and only a typed yes approves it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.kernel import SilasError, visible
from silas.queue.models import QueueMessage
from silas.stream.cards import Card
from silas.stream.delivery import Deliveries, Delivery

_END = frozenset({"exit", "quit", "bye", ":q"})
_ANSWERS = {"yes": True, "y": True, "no": False, "n": False}
_QUESTION = "Approve exactly this?"
_ACTIVITY = "activity"

ReadLine = Callable[[], Awaitable[str | None]]
"""One line of the person's; None when there is no more."""
Ask = Callable[[str], Awaitable[bool | None]]
"""A question that only a typed yes answers with yes; None if it cannot be asked now."""
Say = Callable[[str], None]
Send = Callable[[str], Awaitable[QueueMessage]]
"""Signs a text and sends it; once it returns, the text will be answered."""


class Cards(Protocol):
    """The owner's cards."""

    async def get(self, card_id: str) -> Card:
        """One card."""
        ...

    async def decide(
        self, card_id: str, decision: ApprovalDecision, *, shown: Mapping[str, str] | None = None
    ) -> Card:
        """Keep the owner's decision about what was shown."""
        ...


@dataclass
class TerminalChannel:
    """One conversation at one terminal."""

    connection_id: str
    deliveries: Deliveries
    cards: Cards
    send: Send
    show_card: Callable[[Card], Awaitable[str]]
    """The card as text: exactly what would be signed."""
    say: Say
    again_seconds: float = 1.0
    """How long to wait before listening again after a failure."""
    _open: list[Card] = field(default_factory=list)

    async def talk(self, read_line: ReadLine) -> None:
        """Go on until the person ends it. While a card is open, a line is its answer."""
        number = await self.deliveries.last(self.connection_id)
        listening = asyncio.create_task(self._listen(number))
        try:
            while (line := await read_line()) is not None:
                text = line.strip()
                if text.lower() in _END:
                    break
                if self._open:
                    await self._answer(text)
                elif text:
                    await self._send(text)
        finally:
            listening.cancel()

    async def ask_once(self, text: str, ask: Ask, *, wait: bool = False) -> list[Delivery]:
        """Send one message and show what comes back, until there is nothing more to wait for.

        That is the first answer; or, if it brought a card which was approved, the end of the work.
        With `wait`, a card that cannot be asked about now is waited for as well.
        """
        number = await self.deliveries.last(self.connection_id)
        sent = await self.send(text)
        heard: list[Delivery] = []
        answered = working = False
        async for delivery in self.deliveries.follow(self.connection_id, number):
            if delivery.message.trace_id != sent.trace_id:
                continue
            heard.append(delivery)
            answered = answered or delivery.reply.in_reply_to == sent.message_id
            card = await self._show(delivery)
            if card is not None:
                answer = await ask(f"{await self.show_card(card)}\n{_QUESTION}")
                if answer is None and not wait:
                    break
                working = answer is not False
                if answer is not None:
                    await self._decide(card, yes=answer)
                continue
            if _is_the_end(delivery) if working else answered:
                break
        return heard

    async def _listen(self, number: int) -> None:
        """Go on after whatever fails: it is said, and nothing that came is left out."""
        while True:
            try:
                async for delivery in self.deliveries.follow(self.connection_id, number):
                    number = delivery.number
                    await self._hear(delivery)
            except SilasError as error:
                self.say(error.message)
            await asyncio.sleep(self.again_seconds)

    async def _hear(self, delivery: Delivery) -> None:
        card = await self._show(delivery)
        if card is None:
            return
        if not self._open:
            await self._put(card)
        self._open.append(card)

    async def _show(self, delivery: Delivery) -> Card | None:
        """Say what came; the card that it brought, if it is still open."""
        self.say(visible(delivery.message.content))
        if delivery.reply.card_id is None:
            return None
        card = await self.cards.get(delivery.reply.card_id)
        return card if card.state == "open" else None

    async def _put(self, card: Card) -> None:
        self.say(f"{await self.show_card(card)}\n{_QUESTION} Type yes or no.")

    async def _answer(self, text: str) -> None:
        if text.lower() not in _ANSWERS:
            self.say("Please type yes or no.")
            return
        await self._decide(self._open.pop(0), yes=_ANSWERS[text.lower()])
        if self._open:
            await self._put(self._open[0])

    async def _decide(self, card: Card, *, yes: bool) -> None:
        verdict = ApprovalVerdict.APPROVED if yes else ApprovalVerdict.DECLINED
        try:
            decision = ApprovalDecision(verdict=verdict)
            await self.cards.decide(card.card_id, decision, shown=card.plan_hashes)
        except SilasError as error:
            self.say(error.message)

    async def _send(self, text: str) -> None:
        try:
            await self.send(text)
        except SilasError as error:
            self.say(error.message)


def _is_the_end(delivery: Delivery) -> bool:
    """Whether nothing more about the work follows by itself."""
    return delivery.reply.final and delivery.reply.surface != _ACTIVITY
