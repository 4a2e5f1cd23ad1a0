"""Asks the owner about a gate, in the middle of a turn (`silas.stream.ports.GateDesk`).

Nobody there to be asked, no answer in time, an answer that nobody signed, or something too long to
be shown whole: the answer is no.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from silas.gates import GateResult
from silas.gates.risk import RiskLevel
from silas.kernel import Clock, IdFactory, TaintLevel
from silas.stream.gating import MAX_TEXT
from silas.stream.review.models import QUESTION, Action, Content, Kind, Question
from silas.stream.review.store import QuestionStore
from silas.work.ports import AuditTrail

PATIENCE = timedelta(seconds=120)
_LOOK_SECONDS = 0.2
_LET_THROUGH = ("response", "message")
"""What a yes lets through. Beside a response, the message is only what it answers."""


@dataclass(frozen=True)
class QuestionGateDesk:
    """Puts a gate's question before the owner as a card, and waits for the answer."""

    questions: QuestionStore
    audit: AuditTrail
    clock: Clock
    ids: IdFactory
    owner_id: str
    is_watched: Callable[[], bool]
    """Whether anybody could see the card now."""
    patience: timedelta = PATIENCE

    async def approve_gate(
        self, result: GateResult, *, connection_id: str, context: Mapping[str, Any]
    ) -> bool:
        """Whether it may go on."""
        value = next((str(context[key]) for key in _LET_THROUGH if key in context), "")
        reason = "nobody is there" if not self.is_watched() else ""
        if len(value) > MAX_TEXT:
            reason = "it is too long to be shown whole"
        if reason:
            await self.audit.log("gate_unasked", gate=result.gate_name, reason=reason)
            return False
        question = self._question(result, value, connection_id=connection_id, context=context)
        await self.questions.ask(question)
        try:
            return await self._answer(question)
        finally:
            if await self.questions.close(question.question_id, "expired"):
                await self.audit.log("gate_unanswered", gate=result.gate_name)

    async def _answer(self, question: Question) -> bool:
        while self.clock.now() < question.expires_at:
            found = await self.questions.answered(question.question_id)
            if found is not None:
                return bool(found[1].get("verdict") == "approve")
            await asyncio.sleep(_LOOK_SECONDS)
        return False

    def _question(
        self, result: GateResult, value: str, *, connection_id: str, context: Mapping[str, Any]
    ) -> Question:
        now, name = self.clock.now(), self.ids.new(QUESTION)
        known = {"connection_id": connection_id, "reason": result.reason}
        return Question(
            question_id=name,
            scope_id=self.owner_id,
            trace_id=str(context.get("trace_id") or f"trace_{name}"),
            about=f"gate:{name}",
            content=Content(
                kind=Kind.GATE,
                intent=f"Let this through? The gate “{result.gate_name}” asks.",
                rationale=result.reason or "A rule of yours wants your word for it.",
                risk=RiskLevel.MEDIUM,
                taint=TaintLevel.EXTERNAL,
                actions=[
                    Action(value="approve", label="Let it through this once"),
                    Action(value="block", label="Block it"),
                ],
                body={
                    "gate_name": result.gate_name,
                    "value": value,
                    "context": json.loads(json.dumps(known)),
                },
            ),
            created_at=now,
            expires_at=now + self.patience,
        )
