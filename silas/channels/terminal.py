"""The conversation in a terminal: one line in, the answers out, decisions in between.

A message is signed before it is sent, so that it is the owner's. A card is shown whole, exactly as
it would be signed, and only a typed yes approves it. An answer is shown while it grows; what is
shown then is no more than a preview, and the answer that is kept is shown if it differs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.channels.replies import Reply, question_for, reply_of
from silas.kernel import SilasError, visible
from silas.queue.models import QueueMessage
from silas.stream.cards import Card
from silas.stream.decisions import UNDO
from silas.stream.delivery import Deliveries, Delivery

_END = frozenset({"exit", "quit", "bye", ":q", "/exit", "/quit"})
_HELP = frozenset({"/help", "/?"})
_COMMANDS = {"/did": "What did you do?", "/can": "What can you do?"}
_TOLD = """\
/review  show what waits for your decision
/did     what was done while you were away
/can     what can be asked for
/exit    end this conversation (Ctrl-D does, too); work that goes on is not ended by it"""
_VERDICTS = {
    Reply.YES: ApprovalVerdict.APPROVED,
    Reply.NO: ApprovalVerdict.DECLINED,
    Reply.CHANGES: ApprovalVerdict.EDIT_REQUESTED,
}
_QUESTION = "Approve exactly this?"
_ACTIVITY = "activity"
_LONGEST_NOTE = 200
_MARKS = {
    "planning": "… planning",
    "attempt": "… attempt",
    "call": "·",
    "note": "·",
    "passed": "✓",
    "failed": "✗",
    "waits": "… waits:",
    "blocked": "… waits:",
}
"""How each thing that happens while work goes on is told."""

ReadLine = Callable[[], Awaitable[str | None]]
"""One line of the person's; None when there is no more."""
Ask = Callable[[str], Awaitable[bool | None]]
"""A question that only a typed yes answers with yes; None if it cannot be asked now."""
Say = Callable[[str], None]
Send = Callable[[str], Awaitable[QueueMessage]]
"""Signs a text and sends it; once it returns, the text will be answered."""


class Growing(Protocol):
    """Where an answer is shown while it grows."""

    def grow(self, piece: str) -> None:
        """The next piece."""
        ...

    def end_growing(self) -> None:
        """It is complete."""
        ...


class Cards(Protocol):
    """The owner's cards."""

    async def open_cards(self) -> list[Card]:
        """Those that wait, oldest first."""
        ...

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
    growing: Growing | None = None
    """Without it, answers are shown when they are complete."""
    note: Say | None = None
    """Says how work goes, in passing."""
    again_seconds: float = 1.0
    """How long to wait before listening again after a failure."""
    _open: list[Card] = field(default_factory=list)
    _grown: str = ""
    _grows: str | None = None
    """The request whose answer grows right now."""

    async def talk(self, read_line: ReadLine) -> None:
        """Go on until the person ends it. While a card is open, a line is its answer."""
        number = await self.deliveries.last(self.connection_id)
        await self._show_waiting()
        listening = asyncio.create_task(self._listen(number))
        try:
            while (line := await read_line()) is not None:
                text = line.strip()
                if text.lower() in _END:
                    break
                await self._take(text)
        finally:
            listening.cancel()

    async def _take(self, text: str) -> None:
        if text in _HELP:
            self.say(_TOLD)
        elif text == "/review":
            await self._show_waiting(empty="Nothing waits for your decision.")
        elif self._open:
            await self._answer(text)
        elif text:
            await self._send(_COMMANDS.get(text, text))

    def text(self, connection_id: str, trace_id: str, piece: str) -> None:
        """`silas.stream.ports.Live`: an answer grows. Of two at once, the first is shown so."""
        if self.growing is None or connection_id != self.connection_id:
            return
        if self._grows is None:
            self._grows = trace_id
        if self._grows == trace_id:
            self._grown += piece
            self.growing.grow(visible(piece))

    def progress(self, trace_id: str, what: str, detail: str = "") -> None:
        """`silas.stream.ports.Live`: work goes on."""
        del trace_id
        told = _noted(what, detail)
        if self.note is not None and told is not None and self._grows is None:
            self.note(told)

    async def _show_waiting(self, empty: str = "") -> None:
        """Ask about what was open before this conversation began."""
        try:
            found = await self.cards.open_cards()
            waiting = [card for card in found if card.requested_by != UNDO]
        except SilasError as error:
            self.say(error.message)
            return
        self._open = list(waiting)
        if waiting:
            await self._put(waiting[0])
        elif empty:
            self.say(empty)

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
                    await self._decide(card, _VERDICTS[Reply.YES if answer else Reply.NO])
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
        if card.card_id in {each.card_id for each in self._open}:
            return
        if not self._open:
            await self._put(card)
        self._open.append(card)

    def _say_rest(self, message: QueueMessage) -> None:
        """The answer, or what is left of it where it was shown while it grew."""
        text, grown = message.content, self._grown
        if self.growing is None or self._grows != message.trace_id:
            self.say(visible(text))
            return
        self._grows, self._grown = None, ""
        if text.startswith(grown):
            self.growing.grow(visible(text.removeprefix(grown)))
            self.growing.end_growing()
        else:
            self.growing.end_growing()
            self.say(visible(text))

    async def _show(self, delivery: Delivery) -> Card | None:
        """Say what came; the card that it brought, if it is still open."""
        if delivery.reply.surface != _ACTIVITY:
            self._say_rest(delivery.message)
        if delivery.reply.card_id is None:
            return None
        card = await self.cards.get(delivery.reply.card_id)
        return card if card.state == "open" else None

    async def _put(self, card: Card) -> None:
        self.say(f"{await self.show_card(card)}\n{question_for(card.risk)}")

    async def _answer(self, text: str) -> None:
        card = self._open[0]
        reply = reply_of(text, risk=card.risk)
        if reply is None:
            self.say(question_for(card.risk))
            return
        self._open.pop(0)
        if reply is Reply.LATER:
            self.say("It waits. `/review` shows it again.")
        else:
            await self._decide(card, _VERDICTS[reply])
        if self._open:
            await self._put(self._open[0])

    async def _decide(self, card: Card, verdict: ApprovalVerdict) -> None:
        try:
            decision = ApprovalDecision(verdict=verdict)
            await self.cards.decide(card.card_id, decision, shown=card.plan_hashes)
        except SilasError as error:
            self.say(error.message)
            return
        if verdict is ApprovalVerdict.EDIT_REQUESTED:
            self.say("Say what should be different.")

    async def _send(self, text: str) -> None:
        try:
            await self.send(text)
        except SilasError as error:
            self.say(error.message)


def _is_the_end(delivery: Delivery) -> bool:
    """Whether nothing more about the work follows by itself."""
    return delivery.reply.final and delivery.reply.surface != _ACTIVITY


def _noted(what: str, detail: str) -> str | None:
    """How work goes, on one line; None for what need not be told."""
    line = visible(" ".join(detail.split()))[:_LONGEST_NOTE]
    mark = None if what == "attempt" and line.startswith("1 ") else _MARKS.get(what)
    return None if mark is None else f"{mark} {line}".rstrip()
