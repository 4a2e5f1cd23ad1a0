"""Learning from what the owner did, and asking whether it may be relied on.

1. What the owner approved, declined, sent back, undid or dismissed is a signal about the kind of
   action that it was: what its plan does, never what somebody calls it. Each decision counts once
   for each kind. What nobody decided (a card that expired, an undo that was not wanted) is nothing.
2. What is clear enough, and what is used often, is put before the owner: a sealed card that shows
   the memory whole, and what it rests on. A few at a time, and the same one not again for a month.
3. A yes is an answer that the owner has proven over the whole card. The token for exactly the bytes
   in the card is issued with it, and the store uses it up. A memory that has changed since stays as
   it is.
"""

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime, timedelta

from silas.audit.models import AuditTrail
from silas.gates.risk import RiskLevel
from silas.kernel import Clock, IdFactory, TaintLevel, canonical_bytes, strict_loads
from silas.kernel.ids import person_of
from silas.memory.consolidator import MemoryConsolidator
from silas.memory.models import TrustLevel
from silas.memory.preferences import (
    Behavior,
    BehaviorPreferences,
    PreferenceOutcome,
    PreferencePolicy,
    text_for_owner,
)
from silas.memory.store import MemoryStores
from silas.memory.trust import MemoryClaim
from silas.personality import PersonalityEngine
from silas.personality.feedback import FEEDBACK
from silas.review.cards import UNDO, CardStore, DecidedCard
from silas.review.decisions import Decisions, QuestionKind
from silas.review.errors import CardUnknown
from silas.review.questions import (
    QUESTION,
    YES,
    AnsweredQuestion,
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionStore,
)
from silas.review.unasked import UnaskedCards, is_digest
from silas.work.models import WorkItem, WorkItemType
from silas.work.store import WorkItemStore

_ABOUT = "memory:"
_LOOKED_BACK = timedelta(days=7)
_NOT_AGAIN = timedelta(days=30)
_LIFETIME = timedelta(days=7)
_MOST_OPEN = 3
_ACTIONS = [
    QuestionChoice(value=YES, label="Rely on it"),
    QuestionChoice(value="decline", label="No"),
]
_OUTCOMES = {
    "approved": PreferenceOutcome.APPROVED,
    "declined": PreferenceOutcome.DECLINED,
    "edit_requested": PreferenceOutcome.EDIT_SELECTION,
}
_SUGGESTIONS = {
    "post_execution": "suggestions for what comes next",
    "idle_heartbeat": "suggestions to watch something",
    "skill": "suggestions to keep work as a skill",
}
Promoted = Callable[[str], Awaitable[None]]


def action_kinds(item: WorkItem) -> Iterator[tuple[str, str]]:
    """The kinds of action that a plan is, each with its words."""
    changes = item.workspace.changes if item.workspace else None
    does = {
        ("repeats", "work that repeats"): item.type is WorkItemType.GOAL,
        ("removes_files", "plans that remove files"): bool(changes and changes.remove),
        ("changes_files", "plans that change files"): bool(changes and changes.change),
        ("adds_files", "plans that add files"): bool(changes and changes.add),
        ("reaches_network", "plans that reach the network"): item.reaches_network,
    }
    kinds = [kind for kind, is_so in does.items() if is_so]
    yield from kinds or [("only_runs", "plans that run commands and change no file")]


class MemoryCards:
    """Learns from the owner's decisions, asks about what was learnt, and follows the answers."""

    def __init__(
        self,
        memories: MemoryStores,
        owner_id: str,
        *,
        cards: CardStore,
        questions: QuestionStore,
        unasked: UnaskedCards,
        items: WorkItemStore,
        decisions: Decisions,
        audit: AuditTrail,
        clock: Clock,
        ids: IdFactory,
        policy: PreferencePolicy,
        promoted: Promoted,
        personality: PersonalityEngine | None = None,
    ) -> None:
        """`promoted` is told the scope in which something became a default."""
        self._memories = memories
        self._owner = owner_id
        self._cards = cards
        self._questions = questions
        self._unasked = unasked
        self._items = items
        self._decisions = decisions
        self._audit = audit
        self._clock = clock
        self._policy = policy
        self._promoted = promoted
        self._personality = personality
        self._consolidator = MemoryConsolidator(memories)
        self._preferences = BehaviorPreferences(memories, owner_id, ids=ids, policy=policy)

    async def look(self) -> None:
        """Learn from what was decided lately, and ask about what is clear."""
        await self._preferences.retract()
        for seen in await self._seen(self._clock.now() - _LOOKED_BACK):
            await self._preferences.observe(seen, taint=TaintLevel.OWNER)
        if not self._policy.needs_confirmation:
            await self._promoted(self._owner)
        await self._ask()

    async def answered(self, about: str) -> None:
        """Follow an answer: make the memory trusted if the owner has said so (rule 3)."""
        claim = await self._claim_of(about.removeprefix(_ABOUT))
        answer = await self._answer_to(claim) if claim is not None else None
        if claim is None or answer is None:
            return
        question = answer.question
        shown = canonical_bytes(question.content.body["memory"])
        if answer.value != YES or shown != claim.plan_bytes():
            return
        token = await self._decisions.token_of(answer.decision, claim.id)
        if token is None:
            await self._audit.log("decision_lapsed", card_id=question.question_id)
            return  # it is asked again after a while, if it is still of use
        await self._preferences.promote(claim.items[0].memory_id, token)
        await self._promoted(self._owner)

    async def _answer_to(self, claim: MemoryClaim) -> AnsweredQuestion | None:
        try:
            return await self._questions.answered(card_id(claim))
        except CardUnknown:
            return None  # what was shown is not what is remembered now

    async def _seen(self, since: datetime) -> list[Behavior]:
        """What the owner did since then (rule 1)."""
        found = []
        for card in await self._cards.decided_since(since):
            if person_of(card.scope_id) == self._owner:
                found += await self._about_card(card)
        suggestions = await self._questions.answered_since(QuestionKind.SUGGESTION, since)
        mine = [
            each
            for each in suggestions
            if person_of(each.scope_id) == self._owner and not is_digest(each)
        ]
        found += [_about_suggestion(each) for each in mine]
        if self._personality is not None:
            for event in await self._personality.trusted_events(self._owner, since):
                if event.event_type in FEEDBACK:
                    wanted = FEEDBACK[event.event_type].wanted
                    found.append(
                        Behavior(
                            f"style/{event.event_type}",
                            wanted,
                            PreferenceOutcome.ASKED,
                            what=f"asked for {wanted}",
                            signal=event.event_id,
                        )
                    )
        return found

    async def _about_card(self, card: DecidedCard) -> list[Behavior]:
        outcome, plan_ids = _OUTCOMES.get(card.verdict), card.plan_ids
        if card.requested_by == UNDO:
            # An undo that is not wanted leaves things as they are: it says nothing.
            undone = outcome is PreferenceOutcome.APPROVED
            outcome = PreferenceOutcome.UNDO if undone else None
            plan_ids = tuple(name.removeprefix(f"{UNDO}_") for name in plan_ids)
        if outcome is None:
            return []
        kinds = {kind for name in plan_ids for kind in await self._kinds_of(name)}
        return [
            Behavior(f"plan/{key}", words, outcome, what=card.title, signal=f"{card.card_id}/{key}")
            for key, words in sorted(kinds)
        ]

    async def _kinds_of(self, plan_id: str) -> Sequence[tuple[str, str]]:
        item = await self._items.get(plan_id)
        return [] if item is None else [*action_kinds(item)]

    async def _ask(self) -> None:
        now = self._clock.now()
        waiting = [each for each in await self._questions.open() if each.about.startswith(_ABOUT)]
        left = _MOST_OPEN - len(waiting)
        claims = [
            *await self._preferences.proposals(),
            *await self._consolidator.proposals(self._owner),
        ]
        for claim in claims:
            about = f"{_ABOUT}{claim.items[0].memory_id}"
            if left > 0 and not await self._questions.was_asked(about, since=now - _NOT_AGAIN):
                await self._unasked.ask(await self._card(claim, about))
                left -= 1

    async def _claim_of(self, memory_id: str) -> MemoryClaim | None:
        item = await self._memories.of(self._owner).get(memory_id)
        if item is None or item.trust_level is not TrustLevel.WORKING:
            return None
        verified = item.model_copy(update={"trust_level": TrustLevel.VERIFIED})
        return MemoryClaim("update", self._owner, (verified,))

    async def _card(self, claim: MemoryClaim, about: str) -> Question:
        item, now, name = claim.items[0], self._clock.now(), card_id(claim)
        text = text_for_owner(item)
        why = [await self._preferences.evidence(item)]
        if item.access_count:
            why.append(f"It was used {item.access_count} times.")
        return Question(
            question_id=name,
            scope_id=self._owner,
            trace_id=f"trace_{name}",
            about=about,
            content=QuestionContent(
                kind=QuestionKind.MEMORY,
                intent="Rely on this from now on?",
                rationale="\n\n".join(part for part in (text, *why) if part),
                risk=RiskLevel.LOW,
                taint=item.taint,
                actions=_ACTIONS,
                body={"memory": strict_loads(claim.plan_bytes()), "question": text},
            ),
            created_at=now,
            expires_at=now + _LIFETIME,
        )


def _about_suggestion(question: Question) -> Behavior:
    source = str(question.content.body.get("source", ""))
    taken = question.state == "do_it"
    return Behavior(
        f"suggestion/{source or 'other'}",
        _SUGGESTIONS.get(source, "suggestions"),
        PreferenceOutcome.APPROVED if taken else PreferenceOutcome.DISMISSED,
        what=question.content.intent,
        signal=question.question_id,
    )


def card_id(claim: MemoryClaim) -> str:
    """The id of the card of a memory, as it is now."""
    return f"{QUESTION}_{hashlib.sha256(claim.plan_bytes()).hexdigest()[:40]}"
