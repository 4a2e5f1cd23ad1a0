"""The conversation in a terminal: one line in, the answers out, decisions in between.

A message is signed before it is sent, so that it is the owner's. A card is shown whole, exactly as
it would be signed, and only a typed yes approves it. What a gate asks in the middle of a turn is
asked here as well, and blocked by anything but a yes. An answer is shown while it grows; what is
shown then is no more than a preview, and the answer that is kept is shown if it differs. While
nothing can be shown, it is said now and then at which stage the answer is.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.channels.replies import WHICH_CHANGES, TextReply, question_for, reply_of
from silas.kernel import SilasError, quoted, visible
from silas.queue.models import AgentReply, QueueMessage
from silas.review.cards import MAX_CHANGES_CHARS, UNDO, Card, CardStore, asking_for
from silas.review.decisions import QuestionKind
from silas.review.questions import BLOCK, QUESTION, YES, Question, QuestionStore
from silas.stream.delivery import Deliveries, Delivery
from silas.stream.places import NARROW, NO
from silas.stream.ports import AnswerProgress
from silas.work.output import shown_lines

_END = frozenset({"exit", "quit", "bye", ":q", "/exit", "/quit"})
_HELP = frozenset({"/help", "/?"})
_ATTACH = "/attach"
_COMMANDS = {"/did": "What did you do?", "/can": "What can you do?"}
_TOLD = """\
/review  show what waits for your decision
/did     what was done while you were away
/can     what can be asked for
/attach FILE  send a file with your next message
Ctrl-C   stop the answer that is being made; again, or without one: leave
/exit    end this conversation (Ctrl-D does, too); work that goes on is not ended by it"""
_VERDICTS = {
    TextReply.YES: ApprovalVerdict.APPROVED,
    TextReply.NO: ApprovalVerdict.DECLINED,
}
_LET_THROUGH = "Let this through, this once?"
_READ_IT = "Let Silas read it?"
_ONLY = "only"
_TYPED_YES = frozenset({"y", "yes"})
_ACTIVITY = "activity"
_LONGEST_NOTE = 200
_STAGE_SECONDS = (2.0, 15.0, 60.0)
"""When it is said at which stage an answer is."""
_TAKEN_BACK = "What stands above is not the answer: it was taken back."
_MARKS = {
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
DecideCard = Callable[[Card], Awaitable[ApprovalDecision | None]]
"""Shows a card and takes the decision about it; None if nobody can be asked now."""
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


@dataclass
class TerminalChannel:
    """One conversation at one terminal."""

    connection_id: str
    deliveries: Deliveries
    cards: CardStore
    send: Send
    show_card: Callable[[Card], Awaitable[str]]
    """The card as text: what would be signed, in words."""
    show_exact: Callable[[Card], Awaitable[str]]
    """Every byte that would be signed."""
    say: Say
    scope_id: str | None = None
    """The conversation that is shown; without it, all of the connection's are."""
    questions: QuestionStore | None = None
    """Where gates ask; without it, nobody is asked here."""
    show_question: Callable[[Question], str] = str
    growing: Growing | None = None
    """Without it, answers are shown when they are complete."""
    note: Say | None = None
    """Says how work goes, in passing."""
    attach: Callable[[str], Awaitable[str]] | None = None
    """Takes the path of a file for the next message, and says what became of it."""
    columns: int = 1_000_000
    """How long a line may be before the terminal would wrap it."""
    look_seconds: float = 0.3
    """How often it is looked for questions of gates."""
    again_seconds: float = 1.0
    """How long to wait before listening again after a failure."""
    _open: list[Card | Question] = field(default_factory=list)
    _sent: set[str] = field(default_factory=set)
    """The requests that were made here."""
    _asked: set[str] = field(default_factory=set)
    """The gates' questions that were put here."""
    _changes: str | None = None
    """The card for which the next line says what should be different."""
    _grown: str = ""
    _grows: str | None = None
    """The request whose answer grows right now."""
    _made: dict[str, asyncio.TimerHandle] = field(default_factory=dict)
    """What will say of each answer that is being made that it takes its time."""

    async def talk(self, read_line: ReadLine) -> None:
        """Go on until the person ends it. While a card is open, a line is its answer."""
        number = await self.deliveries.last(self.connection_id)
        await self._show_waiting()
        listening = asyncio.create_task(self._listen(number))
        watching = asyncio.create_task(self._watch_gates(self._put_gate))
        try:
            while (line := await read_line()) is not None:
                text = line.strip()
                if text.lower() in _END:
                    break
                await self._take(text)
        finally:
            listening.cancel()
            watching.cancel()
            for later in self._made.values():
                later.cancel()

    async def _watch_gates(self, put: Callable[[Question], Awaitable[None]]) -> None:
        """Put every question of a gate, once, for as long as somebody is here."""
        while self.questions is not None:
            try:
                for question in await self.questions.open():
                    gate = question.content.kind is QuestionKind.GATE
                    if gate and question.question_id not in self._asked:
                        self._asked.add(question.question_id)
                        await put(question)
            except SilasError as error:
                self.say(error.message)
            await asyncio.sleep(self.look_seconds)

    async def _put_gate(self, question: Question) -> None:
        if not self._open:
            await self._put(question)
        self._open.append(question)

    async def _reply(self, question: Question, said: str) -> None:
        if self.questions is None:
            return
        answer = _answer_to(question, said)
        try:
            await self.questions.answer_with_vault(question.question_id, answer)
        except SilasError as error:  # somebody else was faster, or it was too late
            self.say(error.message)

    async def _take(self, text: str) -> None:
        if text in _HELP:
            self.say(_TOLD)
        elif text.split(maxsplit=1)[:1] == [_ATTACH]:
            await self._attach(text.removeprefix(_ATTACH).strip())
        elif text == "/review":
            await self._show_waiting(empty="Nothing is waiting for your decision.")
        elif self._open:
            await self._answer(text)
        elif text:
            await self._send(_COMMANDS.get(text, text))

    async def _attach(self, path: str) -> None:
        if not path or self.attach is None:
            self.say(f"Name the file: {_ATTACH} FILE")
            return
        try:
            self.say(await self.attach(path))
        except SilasError as error:
            self.say(error.message)

    def text(self, connection_id: str, trace_id: str, piece: str, *, start: int) -> None:
        """`silas.stream.ports.Live`: an answer grows. Of two at once, the first is shown so."""
        if self.growing is None or connection_id != self.connection_id:
            return
        if self.scope_id is not None and trace_id not in self._sent:
            return  # it may belong to another conversation; it is shown here once that is known
        if self._grows is None and start == 0 and piece:
            self._grows = trace_id
        if self._grows != trace_id:
            return
        if start < len(self._grown):
            self.growing.end_growing()
            self.say(_TAKEN_BACK)
            self._grown = ""
        if start == len(self._grown) and piece:
            self._grown += piece
            self.growing.grow(visible(piece))
        elif not self._grown:
            self._grows = None

    def answering(self, progress: AnswerProgress) -> None:
        """`silas.stream.ports.Live`: an answer is being made; a stage that lasts is told."""
        if progress.connection_id != self.connection_id:
            return
        before = self._made.pop(progress.trace_id, None)
        if before is not None:
            before.cancel()
        if not progress.over:
            loop = asyncio.get_running_loop()
            later = loop.call_later(_STAGE_SECONDS[0], self._tell_stage, progress, 0)
            self._made[progress.trace_id] = later

    def _tell_stage(self, progress: AnswerProgress, number: int) -> None:
        """Say what goes on, and again if it goes on for long."""
        seconds = f" ({_STAGE_SECONDS[number]:g} s)" if number else ""
        more = f". {progress.note}" if progress.note and not number else ""
        if self.note is not None and self._grows is None:
            self.note(f"… {progress.words}{seconds}{more}")
        if number + 1 < len(_STAGE_SECONDS):
            wait = _STAGE_SECONDS[number + 1] - _STAGE_SECONDS[number]
            loop = asyncio.get_running_loop()
            later = loop.call_later(wait, self._tell_stage, progress, number + 1)
            self._made[progress.trace_id] = later

    @property
    def being_made(self) -> tuple[str, ...]:
        """The answers that are being made right now, by the requests that they are for."""
        return tuple(self._made)

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

    async def ask_once(
        self, text: str, ask: Ask, decide: DecideCard, *, wait: bool = False
    ) -> list[Delivery]:
        """Send one message and show what comes back, until there is nothing more to wait for.

        That is the first answer that no other one follows; or, if it brought a card which was
        approved, the end of the work. With `wait`, a card that cannot be asked about now is waited
        for as well. `ask` is for what gates want to know.
        """
        number = await self.deliveries.last(self.connection_id)

        async def put(question: Question) -> None:
            yes = await ask(f"{self.show_question(question)}\n{_asks(question)}")
            if yes is not None:
                await self._reply(question, "yes" if yes else "no")

        watching = asyncio.create_task(self._watch_gates(put))
        try:
            return await self._ask_and_hear(text, ask, decide, number, wait=wait)
        finally:
            watching.cancel()

    async def _ask_and_hear(
        self, text: str, ask: Ask, decide: DecideCard, number: int, *, wait: bool
    ) -> list[Delivery]:
        sent = await self.send(text)
        heard: list[Delivery] = []
        answered = working = False
        async for delivery in self.deliveries.follow(self.connection_id, number):
            if delivery.message.trace_id != sent.trace_id:
                continue
            heard.append(delivery)
            reply = delivery.reply
            answered = answered or (reply.final and reply.in_reply_to == sent.message_id)
            card = await self._show(delivery)
            if isinstance(card, Question):
                answer = await ask(f"{self.show_question(card)}\n{_asks(card)}")
                if answer is None and not wait:
                    break
                working = True
                if answer is not None:
                    await self._reply(card, "yes" if answer else "no")
                continue
            if card is not None:
                decision = await decide(card)
                if decision is None and not wait:
                    break
                # A plan that is sent back comes again, on another card.
                working = decision is None or decision.verdict is not ApprovalVerdict.DECLINED
                if decision is not None:
                    await self._decide(card, decision)
                continue
            if _is_the_end(delivery) if working else answered:
                break
        return heard

    async def decide_typed(self, card: Card, read_line: ReadLine) -> ApprovalDecision | None:
        """Show a card, and read until a line decides; an empty one is a no, none at all is None."""
        self.say(await self.show_card(card))
        while True:
            self.say(question_for(card.risk))
            line = await read_line()
            if line is None:
                return None
            reply = reply_of(line, risk=card.risk)
            if reply is TextReply.LATER:
                return None
            if reply is TextReply.EXACT:
                self.say(await self.show_exact(card))
            elif reply is TextReply.CHANGES:
                self.say(WHICH_CHANGES)
                if words := (await read_line() or "").strip():
                    return asking_for(words[:MAX_CHANGES_CHARS])
            elif reply is not None or not line.strip():
                return ApprovalDecision(verdict=_VERDICTS[reply or TextReply.NO])

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
        if self.scope_id not in (None, delivery.message.scope_id):
            return
        card = await self._show(delivery)
        if card is None:
            return
        if card in self._open:
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

    async def _show(self, delivery: Delivery) -> Card | Question | None:
        """Say what came; the card or the question that it brought, if it is still open."""
        if delivery.reply.surface != _ACTIVITY:
            self._say_rest(delivery.message)
            for block in printed_blocks(delivery.reply, columns=self.columns):
                self.say(block)
            if offered := _options(delivery.reply):
                self.say(offered)
        name = delivery.reply.card_id
        if name is None:
            return None
        if name.startswith(QUESTION):
            question = await self.questions.get(name) if self.questions else None
            return question if question and question.state == "open" else None
        card = await self.cards.get(name)
        return card if card.state == "open" else None

    async def _put(self, card: Card | Question) -> None:
        if isinstance(card, Question):
            choices = "yes/only/no" if NARROW in card.values else "yes/no"
            self.say(f"{self.show_question(card)}\n{_asks(card)} ({choices})")
            return
        self.say(f"{await self.show_card(card)}\n{question_for(card.risk)}")

    async def _answer(self, text: str) -> None:
        card = self._open[0]
        if isinstance(card, Question):
            self._open.pop(0)
            await self._reply(card, text.lower())
            if self._open:
                await self._put(self._open[0])
            return
        if self._changes == card.card_id:
            await self._ask_for_changes(card, text)
            return
        reply = reply_of(text, risk=card.risk)
        if reply is None:
            self.say(question_for(card.risk))
            return
        if reply is TextReply.CHANGES:
            self._changes = card.card_id
            self.say(WHICH_CHANGES)
            return
        if reply is TextReply.EXACT:
            self.say(f"{await self.show_exact(card)}\n{question_for(card.risk)}")
            return
        self._open.pop(0)
        if reply is TextReply.LATER:
            self.say("It waits. `/review` shows it again.")
        else:
            await self._decide(card, ApprovalDecision(verdict=_VERDICTS[reply]))
        if self._open:
            await self._put(self._open[0])

    async def _ask_for_changes(self, card: Card, text: str) -> None:
        """The line after `changes` says what should be different; an empty one takes it back."""
        self._changes = None
        if not text:
            self.say(question_for(card.risk))
            return
        self._open.pop(0)
        await self._decide(card, asking_for(text[:MAX_CHANGES_CHARS]))
        if self._open:
            await self._put(self._open[0])

    async def _decide(self, card: Card, decision: ApprovalDecision) -> None:
        try:
            await self.cards.decide_with_vault(card.card_id, decision, shown=card.plan_hashes)
        except SilasError as error:
            self.say(error.message)

    async def _send(self, text: str) -> None:
        try:
            self._sent.add((await self.send(text)).trace_id)
        except SilasError as error:
            self.say(error.message)


def _asks(question: Question) -> str:
    return _READ_IT if question.content.kind is QuestionKind.PLACE else _LET_THROUGH


def _answer_to(question: Question, said: str) -> dict[str, str]:
    """What a word means as an answer; whatever is no yes is a no."""
    if question.content.kind is not QuestionKind.PLACE:
        return {"verdict": YES if said in _TYPED_YES else BLOCK}
    if said == _ONLY and NARROW in question.values:
        return {"selected_value": NARROW}
    return {"selected_value": YES if said in _TYPED_YES else NO}


def printed_blocks(reply: AgentReply, *, columns: int) -> list[str]:
    """What commands and checks printed, quoted: no line of it can be taken for one of Silas'."""
    blocks = []
    for each in reply.printed:
        title = visible(each.title, keep_newlines=False)
        head = f"Check “{title}”" if each.is_check else f"$ {title}"
        error = f"  ({visible(each.error, keep_newlines=False)})" if each.error else ""
        blocks.append(f"{head}{error}\n{quoted(shown_lines(each), width=columns)}")
    if any(each.more or each.left_out for each in reply.printed) and reply.work_item_id:
        blocks.append(f"All of it: silas work show {reply.work_item_id} --output")
    return blocks


def _is_the_end(delivery: Delivery) -> bool:
    """Whether nothing more about the work follows by itself."""
    return delivery.reply.final and delivery.reply.surface != _ACTIVITY


def _noted(what: str, detail: str) -> str | None:
    """How work goes, on one line; None for what need not be told."""
    line = visible(" ".join(detail.split()))[:_LONGEST_NOTE]
    mark = None if what == "attempt" and line.startswith("1 ") else _MARKS.get(what)
    return None if mark is None else f"{mark} {line}".rstrip()


def _options(reply: AgentReply) -> str:
    """What can be said next, one on each line, for whoever explores; others are not interrupted."""
    explores = (reply.interaction_register, reply.interaction_mode) == (
        "exploration",
        "default_and_offer",
    )
    lines = [f"  {visible(each)}" for each in reply.chips] if explores else []
    return "\n".join(["You could say:", *lines]) if lines else ""
