"""Memories before the owner: what he does teaches preferences, and a card makes one a default.

1. Every decision about a plan is a signal about its domain, counted once, by the card's id.
2. What is clear enough, and what is used often, is put before the owner: a sealed card that shows
   the memory whole. A few at a time, and the same one not again for a month.
3. A yes is an answer that the owner has signed over the whole card. Only then is a token issued,
   for exactly the bytes in the card, and the store uses it up. A memory that has changed since
   stays as it is.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from silas.app.ground import Ground
from silas.app.housekeeping import PeriodicJob
from silas.app.memory import MemoryRoom
from silas.app.work import work_stores
from silas.approval import ApprovalDecision, ApprovalVerdict
from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel, canonical_bytes, format_timestamp, strict_loads
from silas.memory.confirmations import CONFIRMATION, MemoryClaim
from silas.memory.consolidator import MemoryConsolidator
from silas.memory.models import TrustLevel
from silas.memory.preferences import BehaviorPreferences, Outcome
from silas.stream.errors import CardUnknown
from silas.stream.review.models import QUESTION, Action, Content, Kind, Question
from silas.stream.review.store import QuestionStore

_ABOUT = "memory:"
_EVERY = timedelta(minutes=15)
_LOOKED_BACK = timedelta(days=7)
_NOT_AGAIN = timedelta(days=30)
_LIFETIME = timedelta(days=7)
_MOST_OPEN = 3
_YES = "approve"
_ACTIONS = [
    Action(value=_YES, label="Rely on it"),
    Action(value="decline", label="No"),
]
_DECIDED = """
SELECT id, state, requested_by, items FROM review_cards
WHERE scope_id = ? AND decided_at > ? AND state IN ('approved', 'declined', 'edit_requested')
ORDER BY decided_at
"""
_OUTCOMES = {
    "approved": Outcome.APPROVED,
    "declined": Outcome.DECLINED,
    "edit_requested": Outcome.EDIT_SELECTION,
}
Promoted = Callable[[str], Awaitable[None]]


class MemoryCards:
    """Learns from the owner's decisions, asks about what was learnt, and follows the answers."""

    def __init__(
        self,
        ground: Ground,
        memory: MemoryRoom,
        questions: QuestionStore,
        *,
        promoted: Promoted | None = None,
    ) -> None:
        """`promoted` is told the scope in which something became a default."""
        self._ground = ground
        self._memories = memory.memories
        self._consolidator = MemoryConsolidator(memory.memories)
        self._questions = questions
        self._items = work_stores(ground).items
        self._promoted = promoted
        self._owner = ground.settings.owner_id
        self._preferences = BehaviorPreferences(memory.memories, self._owner, ids=ground.ids)

    async def look(self) -> None:
        """Learn from what was decided lately, and ask about what is clear."""
        await self._learn()
        await self._ask()

    async def answered(self, about: str) -> None:
        """Follow an answer: make the memory trusted if the owner has said so (rule 3)."""
        claim = await self._claim_of(about.removeprefix(_ABOUT))
        answer = await self._answer_to(claim) if claim is not None else None
        if claim is None or answer is None:
            return
        question, said = answer
        shown = canonical_bytes(question.content.body["memory"])
        if said.get("selected_value") != _YES or shown != claim.plan_bytes():
            return
        yes = ApprovalDecision(verdict=ApprovalVerdict.APPROVED)
        decided_at = await self._questions.answered_at(question, said)
        token = await self._ground.approvals.token_for(
            claim, yes, CONFIRMATION, decided_at=decided_at
        )
        if token is None:
            await self._ground.audit.log("decision_lapsed", card_id=question.question_id)
            return  # it is asked again after a while, if it is still of use
        await self._preferences.promote(claim.items[0].memory_id, token)
        if self._promoted is not None:
            await self._promoted(self._owner)

    async def _answer_to(self, claim: MemoryClaim) -> tuple[Question, dict[str, Any]] | None:
        try:
            return await self._questions.answered(card_id(claim))
        except CardUnknown:
            return None  # what was shown is not what is remembered now

    async def _learn(self) -> None:
        since = format_timestamp(self._ground.clock.now() - _LOOKED_BACK)
        rows = await self._ground.database.fetch_all(_DECIDED, (self._owner, since))
        for card, state, asked_by, items in rows:
            outcome = _OUTCOMES[state]
            if asked_by == "undo":
                outcome = Outcome.UNDO
            for domain in await self._domains(items):
                await self._preferences.observe(
                    f"plan/{domain}", outcome, taint=TaintLevel.OWNER, signal=f"{card}/{domain}"
                )

    async def _domains(self, plan_hashes: str) -> list[str]:
        """What the plans of a card are about; of those that do not say, nothing is learnt."""
        found = [await self._items.get(name) for name in json.loads(plan_hashes)]
        return sorted({item.domain for item in found if item is not None and item.domain})

    async def _ask(self) -> None:
        now = self._ground.clock.now()
        waiting = [each for each in await self._questions.open() if each.about.startswith(_ABOUT)]
        left = _MOST_OPEN - len(waiting)
        claims = [
            *await self._preferences.proposals(),
            *await self._consolidator.proposals(self._owner),
        ]
        for claim in claims:
            about = f"{_ABOUT}{claim.items[0].memory_id}"
            if left > 0 and not await self._questions.was_asked(about, since=now - _NOT_AGAIN):
                await self._questions.ask(self._card(claim, about))
                left -= 1

    async def _claim_of(self, memory_id: str) -> MemoryClaim | None:
        item = await self._memories.of(self._owner).get(memory_id)
        if item is None or item.trust_level is not TrustLevel.WORKING:
            return None
        verified = item.model_copy(update={"trust_level": TrustLevel.VERIFIED})
        return MemoryClaim("update", self._owner, (verified,))

    def _card(self, claim: MemoryClaim, about: str) -> Question:
        item, now, name = claim.items[0], self._ground.clock.now(), card_id(claim)
        return Question(
            question_id=name,
            scope_id=self._owner,
            trace_id=f"trace_{name}",
            about=about,
            content=Content(
                kind=Kind.MEMORY,
                intent="Rely on this from now on?",
                rationale=f"{item.content}\n\nIt was used {item.access_count} times."
                if item.access_count
                else item.content,
                risk=RiskLevel.LOW,
                taint=item.taint,
                actions=_ACTIONS,
                body={"memory": strict_loads(claim.plan_bytes()), "question": item.content},
            ),
            created_at=now,
            expires_at=now + _LIFETIME,
        )


def card_id(claim: MemoryClaim) -> str:
    """The id of the card of a memory, as it is now."""
    return f"{QUESTION}_{hashlib.sha256(claim.plan_bytes()).hexdigest()[:40]}"


def learning_jobs(cards: MemoryCards) -> list[PeriodicJob]:
    """What is done again and again: learn, and ask."""
    return [PeriodicJob("learn from decisions", _EVERY, cards.look)]
