"""Questions, kept durably.

1. A question is sealed with the owner's key when it is asked. A row that was changed afterwards is
   nobody's question, and cannot be answered.
2. It is answered once, while it is open and its time is not over, by a signature of one of the
   owner's devices or by the owner's key, over the whole content and the answer.
3. The event that lets the answer be followed is sent in the transaction that keeps it. Whoever
   follows it checks the signature again.
4. When an answer was kept is vouched for by the owner's key (`silas.stream.receipts`): what an
   answer approves is approved once, and soon.
5. What cannot be undone takes more than a device's key, and passkeys are for plans and calls: such
   a question can be refused on a device, and is otherwise answered with the owner's key.
"""

import base64
import contextlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from silas.gates.risk import RiskLevel
from silas.kernel import Clock, format_timestamp, parse_timestamp
from silas.queue.store import QueueStore
from silas.storage import Database, Durability, Row, Transaction
from silas.stream.card_proofs import DeviceKeys
from silas.stream.card_statements import kept_signature, kept_statement
from silas.stream.decisions import decision_made
from silas.stream.errors import (
    CardNotOpen,
    CardUnknown,
    DecisionNotSigned,
    StrongerProofNeeded,
)
from silas.stream.receipts import Receipts, Signer
from silas.stream.review.models import Content, Question, answer_bytes, seal_bytes
from silas.work.ports import AuditTrail

_INSERT = """
INSERT INTO questions (id, kind, scope_id, trace_id, about, content, seal_key_id, seal, created_at,
    expires_at, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open')
ON CONFLICT (id) DO NOTHING
"""
_SELECT = """
SELECT id, scope_id, trace_id, about, content, created_at, expires_at, state, seal_key_id, seal,
    answer, key_id, signature
FROM questions
"""
_ANSWER = """
UPDATE questions SET state = ?, answer = ?, key_id = ?, signature = ?, answered_at = ?
WHERE id = ? AND state = 'open'
"""
_SAID = ("verdict", "selected_value", "action", "selected_action")
_CLOSE = "UPDATE questions SET state = ?, answered_at = ? WHERE id = ? AND state = 'open'"


class QuestionStore:
    """The questions of one data directory."""

    def __init__(
        self,
        database: Database,
        queue: QueueStore,
        *,
        signer: Signer,
        devices: DeviceKeys,
        audit: AuditTrail,
        clock: Clock,
    ) -> None:
        self._database = database
        self._queue = queue
        self._signer = signer
        self._devices = devices
        self._audit = audit
        self._clock = clock
        self._receipts = Receipts(database, signer)
        self.news: set[Callable[[], None]] = set()
        """Called when there is a question more or less."""

    def ask_in(self, tx: Transaction, question: Question) -> None:
        """Ask, as part of a transaction (rule 1)."""
        key_id, seal = self._signer.sign(seal_bytes(question))
        content = question.content
        tx.execute(
            _INSERT,
            (
                question.question_id,
                content.kind.value,
                question.scope_id,
                question.trace_id,
                question.about,
                content.to_bytes().decode(),
                key_id,
                base64.b64encode(seal).decode(),
                format_timestamp(question.created_at),
                format_timestamp(question.expires_at),
            ),
        )

    async def ask(self, question: Question) -> None:
        """The same as a transaction of its own."""
        await self._database.transaction(lambda tx: self.ask_in(tx, question))
        self._tell()

    async def get(self, question_id: str) -> Question:
        """One question; raises `CardUnknown`."""
        return self._question(await self._row(question_id))

    async def open(self) -> list[Question]:
        """What waits, oldest first; what was changed since it was asked is left out."""
        rows = await self._database.fetch_all(
            f"{_SELECT} WHERE state = 'open' ORDER BY created_at, id"
        )
        found, now = [], self._clock.now()
        for row in rows:
            with contextlib.suppress(CardUnknown):  # one that cannot be read hides no other one
                found.append(self._question(row))
        return [each for each in found if each.sealed and now < each.expires_at]

    async def was_asked(self, about: str, *, since: datetime) -> bool:
        """Whether this was asked not long ago, or still waits."""
        row = await self._database.fetch_one(
            "SELECT 1 FROM questions WHERE about = ? AND (created_at > ? OR state = 'open') "
            "AND state <> 'outdated'",
            (about, format_timestamp(since)),
        )
        return row is not None

    async def count_since(self, kind: str, since: datetime) -> int:
        """How many of this kind were asked."""
        row = await self._database.fetch_one(
            "SELECT count(*) FROM questions WHERE kind = ? AND created_at > ?",
            (kind, format_timestamp(since)),
        )
        return int(row[0]) if row else 0

    async def answer_signed(
        self, question_id: str, answer: Mapping[str, Any], *, key_id: str, signature: bytes
    ) -> Question:
        """Keep an answer that was signed on a device (rules 1 and 2), and let it be followed."""
        question = await self.get(question_id)
        payload = answer_bytes(question, answer)
        if not question.sealed or not await self._devices.verify(key_id, payload, signature):
            await self._audit.log("answer_unsigned", card_id=question_id, key_id=key_id)
            raise DecisionNotSigned
        if _takes_more(question, answer):
            raise StrongerProofNeeded
        return await self._keep(question, answer, key_id=key_id, signature=signature)

    async def answer(self, question_id: str, answer: Mapping[str, Any]) -> Question:
        """The same, signed with the owner's own key."""
        question = await self.get(question_id)
        if not question.sealed:
            raise DecisionNotSigned
        key_id, signature = self._signer.sign(answer_bytes(question, answer))
        return await self._keep(question, answer, key_id=key_id, signature=signature)

    async def _keep(
        self, question: Question, answer: Mapping[str, Any], *, key_id: str, signature: bytes
    ) -> Question:
        name, now = question.question_id, self._clock.now()
        if now >= question.expires_at:
            raise CardNotOpen(f"{name} has expired: nobody answered it in time.")
        said = (answer.get(name) for name in _SAID)
        value = next((str(each) for each in said if each), "answered")
        signed = base64.b64encode(signature).decode()
        values = (value, json.dumps(dict(answer)), key_id, signed, format_timestamp(now), name)
        event = decision_made(
            name, trace_id=question.trace_id, scope_id=question.scope_id, clock=self._clock
        )

        def write(tx: Transaction) -> bool:
            if tx.execute(_ANSWER, values) != 1:
                return False
            self._receipts.keep(tx, name, answer_bytes(question, answer), now=now)
            return self._queue.enqueue_in(tx, event)

        if not await self._database.transaction(write, durability=Durability.TRUST):
            raise CardNotOpen(f"{name} was answered already.")
        self._queue.bus.notify_of([event])
        await self._audit.log("question_answered", card_id=name, answer=value)
        self._tell()
        return question.model_copy(update={"state": value})

    async def answered(self, question_id: str) -> tuple[Question, dict[str, Any]] | None:
        """The answer, if there is one that the owner has signed (rule 3)."""
        row = await self._row(question_id)
        question, (kept, key_id, signature) = self._question(row), row[10:13]
        if kept is None or not question.sealed:
            return None
        answer = kept_statement(kept)
        payload, made = answer_bytes(question, answer), kept_signature(signature)
        now = self._clock.now()
        if self._signer.verify(key_id, payload, made, at=now):
            return question, answer
        if not _takes_more(question, answer) and await self._devices.verify(key_id, payload, made):
            return question, answer
        await self._audit.log("answer_forged", card_id=question_id)
        return None

    async def answered_at(self, question: Question, answer: Mapping[str, Any]) -> datetime | None:
        """When exactly this was answered; None if nobody vouches for it (rule 4)."""
        return await self._receipts.decided_at(question.question_id, answer_bytes(question, answer))

    async def close(self, question_id: str, state: str) -> bool:
        """End a question without an answer."""
        values = (state, format_timestamp(self._clock.now()), question_id)
        closed = await self._database.execute(_CLOSE, values) == 1
        if closed:
            self._tell()
        return closed

    async def end_expired(self) -> int:
        """Nobody answered in time: nothing follows from it."""
        return await self._database.execute(
            "UPDATE questions SET state = 'expired' WHERE state = 'open' AND expires_at <= ?",
            (format_timestamp(self._clock.now()),),
        )

    def _tell(self) -> None:
        for hear in tuple(self.news):
            hear()

    def _question(self, row: Row) -> Question:
        try:
            content = Content.model_validate_json(row[4])
        except ValidationError as error:
            raise CardUnknown(f"The question {row[0]!a} cannot be read.") from error
        question = Question(
            question_id=row[0],
            scope_id=row[1],
            trace_id=row[2],
            about=row[3],
            content=content,
            created_at=parse_timestamp(row[5]),
            expires_at=parse_timestamp(row[6]),
            state=row[7],
        )
        sealed = self._signer.verify(
            row[8], seal_bytes(question), kept_signature(row[9]), at=self._clock.now()
        )
        return question if sealed else question.model_copy(update={"sealed": False})

    async def _row(self, question_id: str) -> Row:
        row = await self._database.fetch_one(f"{_SELECT} WHERE id = ?", (question_id,))
        if row is None:
            raise CardUnknown(f"There is no card {question_id!a}. `silas review list` shows them.")
        return row


def _takes_more(question: Question, answer: Mapping[str, Any]) -> bool:
    """Rule 5; the last of the actions is the one that refuses."""
    refused = question.content.actions[-1].value
    said = [answer[name] for name in _SAID if answer.get(name)]
    return question.content.risk is RiskLevel.IRREVERSIBLE and said != [refused]
