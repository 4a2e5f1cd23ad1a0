"""Cases: conversations with visitors that a person is asked to look at.

1. A case is a card to the owner with the conversation as it is then, and a row of a queue: the
   named one, or the owner's own. Both are written in the transaction of the turn that says so.
2. One conversation has one open case in each queue. When too many wait, none is opened, and nobody
   is told that a person takes over.
3. What the owner answers, on the card or with `silas visitors reply`, reaches the visitor as the
   owner's own words, and is part of the conversation from then on. Silas goes on answering
   meanwhile.
4. When the owner revokes a link, or its time is over, what waits of it waits no longer: cases,
   cards of wishes, and calls that asked for a decision. What the owner has approved before is
   carried out.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from silas.audit.models import AuditTrail
from silas.context.service import ChronicleEntry, ContextService
from silas.gates.models import GateBlock
from silas.gates.risk import RiskLevel
from silas.kernel import (
    Clock,
    IdFactory,
    TaintLevel,
    format_timestamp,
    parse_timestamp,
    visible,
)
from silas.kernel.models import Data, UtcDatetime
from silas.queue.models import Agent, AgentReply, MessageKind, QueueMessage
from silas.queue.store import QueueStore
from silas.review.cards import CardStore
from silas.review.decisions import QuestionKind
from silas.review.questions import (
    QUESTION,
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionStore,
)
from silas.storage import Database, Durability, Row, Transaction
from silas.stream.delivery import Deliveries, UserMessageStore
from silas.stream.errors import CaseUnknown
from silas.stream.interaction import Surface
from silas.stream.store import ConversationStore, Origin
from silas.stream.visitors import VISIT, VisitorLink, VisitorStore
from silas.work.control import WITHDRAWN, Cancelled, WorkControl

HANDED_OVER = "A person was asked to look at this conversation."
OWNERS_WORDS = "owners_"
"""How the ids of messages begin that the owner wrote."""
SHOWN_TO_VISITORS = frozenset({Surface.STREAM.value, Surface.REVIEW.value})
_SEND, _CLOSE = "send", "close"
_LIFETIME = timedelta(days=7)
_MAX_OPEN = 50
_LINES, _LINE_CHARS = 20, 600
_SELECT = """
SELECT id, connection_id, queue, gate, reason, question_id, opened_at, closed_at
FROM visitor_cases
"""
_INSERT = """
INSERT INTO visitor_cases (id, connection_id, queue, gate, reason, question_id, opened_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING
"""
_WAITING_CALLS = """
SELECT run.work_item_id FROM paused_runs AS run
JOIN conversation_work AS work ON work.work_item_id = run.work_item_id
WHERE run.state = 'waiting' AND work.scope_id = ?
"""
_WAITING_PAST_END = """
SELECT connection.id FROM visitor_connections AS connection
JOIN visitor_links AS link ON link.id = connection.link_id
WHERE link.expires_at <= ? AND (
    EXISTS (
        SELECT 1 FROM visitor_cases AS waiting
        WHERE waiting.connection_id = connection.id AND waiting.closed_at IS NULL
    )
    OR EXISTS (
        SELECT 1 FROM review_cards AS card
        WHERE card.scope_id = connection.id AND card.state = 'open'
    )
    OR EXISTS (
        SELECT 1 FROM paused_runs AS run
        JOIN conversation_work AS work ON work.work_item_id = run.work_item_id
        WHERE run.state = 'waiting' AND work.scope_id = connection.id
    )
)
"""
_CLOSE_ALL = """
UPDATE visitor_cases SET closed_at = ? WHERE connection_id = ? AND closed_at IS NULL
"""


class VisitorCase(Data):
    """One conversation that waits for a person."""

    case_id: str
    connection_id: str
    queue: str | None
    """None: it was handed over to the owner."""
    gate: str
    reason: str
    question_id: str
    opened_at: UtcDatetime
    closed_at: UtcDatetime | None


class VisitLine(Data):
    """One line of a conversation with a visitor."""

    who: str
    """`visitor`, `silas`, or `owner` in person."""
    text: str
    at: UtcDatetime


@dataclass(frozen=True)
class VisitorCases:
    """The cases of one data directory."""

    database: Database
    visitors: VisitorStore
    questions: QuestionStore
    said: UserMessageStore
    deliveries: Deliveries
    queue: QueueStore
    conversations: ConversationStore
    audit: AuditTrail
    clock: Clock
    ids: IdFactory
    owner_id: str
    cards: CardStore
    control: WorkControl
    context: ContextService | None = None

    async def opening(
        self, origin: Origin, block: GateBlock, *, queue: str | None, said: str
    ) -> Callable[[Transaction], None] | None:
        """What opens a case in the turn's own transaction; None if no person would see it."""
        connection = await self.visitors.connection(origin.connection_id)
        if connection is None:
            return None
        waiting = await self.open()
        if any(
            (each.connection_id, each.queue) == (origin.connection_id, queue) for each in waiting
        ):
            return lambda _tx: None  # a person was asked already, and has not answered
        if len(waiting) >= _MAX_OPEN:
            await self.audit.log("visitor_cases_full", connection_id=origin.connection_id)
            return None
        key = hashlib.sha256(f"{origin.message_id} {queue}".encode()).hexdigest()[:32]
        case = VisitorCase(
            case_id=f"case_{key}",
            connection_id=origin.connection_id,
            queue=queue,
            gate=block.gate_name,
            reason=block.reason,
            question_id=f"{QUESTION}_{key}",
            opened_at=self.clock.now(),
            closed_at=None,
        )
        lines = await self.conversation(origin.connection_id)
        if not any(each.who == "visitor" and each.text == said for each in lines):
            lines.append(VisitLine(who="visitor", text=said, at=case.opened_at))
        question = self._question(case, connection.link.name, lines, trace_id=origin.trace_id)

        def write(tx: Transaction) -> None:
            if self.visitors.is_over_in(tx, origin.connection_id):
                return  # rule 4: the turn has begun before
            self.questions.ask_in(tx, question)
            tx.execute(_INSERT, _values(case))
            opened = {"case_id": case.case_id, "queue": queue, "gate": case.gate}
            self.audit.append(tx, "visitor_case_opened", {**opened, "link": connection.link.name})

        return write

    async def revoke(self, link_id: str) -> VisitorLink:
        """End a link, and what waits of it (rule 4); raises `LinkUnknown`."""
        ended: list[Cancelled] = []

        def withdraw(tx: Transaction, connection_ids: Sequence[str]) -> None:
            ended[:] = [each for name in connection_ids for each in self._withdraw_in(tx, name)]

        link = await self.visitors.revoke(link_id, also=withdraw)
        await self.control.after_cancel(ended)
        self.questions.tell()
        return link

    async def end_expired(self) -> int:
        """Withdraw what waits of links whose time is over (rule 4); returns of how many visits."""
        now = format_timestamp(self.clock.now())
        if not await self.database.fetch_all(_WAITING_PAST_END, (now,)):
            return 0
        ended: list[Cancelled] = []

        def withdraw(tx: Transaction) -> int:
            names = [name for (name,) in tx.fetch_all(_WAITING_PAST_END, (now,))]
            ended[:] = [each for name in names for each in self._withdraw_in(tx, name)]
            return len(names)

        count = await self.database.transaction(withdraw, durability=Durability.TRUST)
        await self.control.after_cancel(ended)
        self.questions.tell()
        return count

    def _withdraw_in(self, tx: Transaction, connection_id: str) -> list[Cancelled]:
        """Close the cases and cards of one connection, and cancel the work that they asked for."""
        rows = tx.fetch_all(
            f"{_SELECT} WHERE connection_id = ? AND closed_at IS NULL", (connection_id,)
        )
        for case in map(_case, rows):
            self.questions.close_in(tx, case.question_id, "outdated")
        tx.execute(_CLOSE_ALL, (format_timestamp(self.clock.now()), connection_id))
        waiting = [name for (name,) in tx.fetch_all(_WAITING_CALLS, (connection_id,))]
        names = dict.fromkeys([*self.cards.withdraw_in(tx, connection_id), *waiting])
        return [
            each for name in names for each in self.control.cancel_in(tx, name, event=WITHDRAWN)
        ]

    async def open(self, queue: str | None = None) -> list[VisitorCase]:
        """What waits for a person, oldest first; of one queue, or of all."""
        rows = await self.database.fetch_all(
            f"{_SELECT} WHERE closed_at IS NULL ORDER BY opened_at"
        )
        # A card that nobody answered in its time is gone, and with it whoever would see the case.
        since = self.clock.now() - _LIFETIME
        found = [case for row in rows if (case := _case(row)).opened_at > since]
        return [each for each in found if queue is None or each.queue == queue]

    async def conversation(self, connection_id: str) -> list[VisitLine]:
        """What was said lately, in its order."""
        said = await self.said.newest(connection_id, _LINES)
        start = max(0, await self.deliveries.last(connection_id) - 10 * _LINES)
        heard = await self.deliveries.after(connection_id, start, limit=10 * _LINES)
        lines = [VisitLine(who="visitor", text=each.text, at=each.at) for each in said]
        lines += [
            VisitLine(
                who=speaker_of(each.message), text=each.message.content, at=each.message.created_at
            )
            for each in heard
            if each.reply.surface in SHOWN_TO_VISITORS
        ]
        return sorted(lines, key=lambda line: line.at)[-2 * _LINES :]

    async def reply(self, connection_id: str, text: str) -> None:
        """Say something to a visitor in the owner's name, and close what waits (rule 3)."""
        if await self.visitors.connection(connection_id) is None:
            raise CaseUnknown
        now = self.clock.now()
        name = self.ids.new(OWNERS_WORDS.removesuffix("_"))
        message = QueueMessage(
            message_id=name,
            trace_id=f"trace_{name}",
            content=text,
            sender=Agent.RUNTIME,
            message_kind=MessageKind.AGENT_RESPONSE,
            scope_id=connection_id,
            taint=TaintLevel.OWNER,
            created_at=now,
            payload=AgentReply(connection_id=connection_id, channel=VISIT),
        )
        entry = None
        if self.context is not None:
            entry = await self.context.prepare(
                ChronicleEntry(
                    entry_id=name,
                    scope_id=connection_id,
                    turn_number=await self.conversations.turns(connection_id),
                    source="owner",
                    text=f"The owner, in person: {text}",
                    taint=TaintLevel.OWNER,
                )
            )
        waiting = [each for each in await self.open() if each.connection_id == connection_id]

        def write(tx: Transaction) -> None:
            if entry is not None:
                entry.write(tx)
            tx.execute(_CLOSE_ALL, (format_timestamp(now), connection_id))
            self.audit.append(tx, "visitor_answered", {"connection_id": connection_id})

        await self.queue.enqueue(message, writes=(write,))
        if entry is not None:
            await entry.show()
        for each in waiting:
            await self.questions.close(each.question_id, "answered")

    async def close(self, case_id: str) -> None:
        """End a case without an answer; raises `CaseUnknown`."""
        case = await self.get(case_id)
        await self.database.execute(
            "UPDATE visitor_cases SET closed_at = ? WHERE id = ? AND closed_at IS NULL",
            (format_timestamp(self.clock.now()), case_id),
        )
        await self.questions.close(case.question_id, "closed")

    async def get(self, case_id: str) -> VisitorCase:
        """One case; raises `CaseUnknown`."""
        row = await self.database.fetch_one(f"{_SELECT} WHERE id = ?", (case_id,))
        if row is None:
            raise CaseUnknown
        return _case(row)

    async def answered(self, about: str) -> None:
        """Follow the owner's answer on a card, whose signature was checked."""
        case = await self.get(about.removeprefix("visitor:"))
        found = await self.questions.answered(case.question_id)
        if found is None or case.closed_at is not None:
            return
        text = str(found.answer.get("freetext") or "").strip()
        if found.value == _CLOSE:
            await self.close(case.case_id)
        elif text:
            await self.reply(case.connection_id, text)

    def _question(
        self, case: VisitorCase, link: str, lines: list[VisitLine], *, trace_id: str
    ) -> Question:
        where = f"Queue “{case.queue}”: a" if case.queue else "A"
        shown = "\n".join(map(spoken_line, lines[-_LINES:]))
        return Question(
            question_id=case.question_id,
            scope_id=self.owner_id,
            trace_id=trace_id,
            about=f"visitor:{case.case_id}",
            content=QuestionContent(
                kind=QuestionKind.VISITOR,
                intent=f"{where} visitor of “{link}” needs a person.",
                rationale=f"The gate {case.gate} stopped something: {case.reason}",
                risk=RiskLevel.LOW,
                taint=TaintLevel.EXTERNAL,
                actions=[
                    QuestionChoice(value=_SEND, label="Send my answer to the visitor"),
                    QuestionChoice(value=_CLOSE, label="Close it without an answer"),
                ],
                body={
                    "question": shown,
                    "allow_freetext": True,
                    "case_id": case.case_id,
                    "connection_id": case.connection_id,
                },
            ),
            created_at=case.opened_at,
            expires_at=case.opened_at + _LIFETIME,
        )


def spoken_line(line: VisitLine) -> str:
    """One line for people: what a visitor says cannot look like a line of somebody else's."""
    text = visible(line.text[:_LINE_CHARS]).replace("\n", "\n    ")
    return f"{line.who}: {text}"


def speaker_of(message: QueueMessage) -> str:
    """Who says this to a visitor."""
    return "owner" if message.message_id.startswith(OWNERS_WORDS) else "silas"


def _values(case: VisitorCase) -> tuple[str | None, ...]:
    return (
        *(case.case_id, case.connection_id, case.queue, case.gate, case.reason),
        case.question_id,
        format_timestamp(case.opened_at),
    )


def _case(row: Row) -> VisitorCase:
    name, connection_id, queue, gate, reason, question_id, opened_at, closed_at = row
    return VisitorCase(
        case_id=name,
        connection_id=connection_id,
        queue=queue,
        gate=gate,
        reason=reason,
        question_id=question_id,
        opened_at=parse_timestamp(opened_at),
        closed_at=parse_timestamp(closed_at) if closed_at else None,
    )
