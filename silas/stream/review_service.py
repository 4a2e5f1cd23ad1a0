"""Asks the owner what there is to ask, when there is reason to (`Proactive`), and follows answers.

`GateQuestions` asks about a gate in the middle of a turn. Nobody there to be asked, no answer in
time, an answer that nobody signed, or something too long to be shown whole: the answer is no.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from silas.audit.models import AuditTrail
from silas.gates import GateResult
from silas.gates.risk import RiskLevel
from silas.kernel import Clock, IdFactory, TaintLevel
from silas.kernel.ids import person_of
from silas.kernel.models import Data
from silas.proactive.autonomy import AutonomyService
from silas.proactive.calibrator import AutonomyCalibrator
from silas.proactive.grants import StandingGrants
from silas.proactive.suggestions import SuggestionEngine, SuggestionProposal, card_of
from silas.queue.consumer import Handled
from silas.queue.models import QueueMessage
from silas.review.cards import UNDO, Card, CardStore
from silas.review.decisions import QuestionKind
from silas.review.questions import (
    BLOCK,
    QUESTION,
    YES,
    AnsweredQuestion,
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionStore,
)
from silas.review.unasked import UnaskedCards
from silas.storage import Transaction
from silas.stream.answers import MOST_OPEN, Answers, question_of
from silas.stream.cards import asking
from silas.stream.errors import ConversationMoved
from silas.stream.models import MAX_TEXT
from silas.stream.offers import (
    FEWEST,
    UNDO_TTL,
    batch_of,
    draft_of,
    is_batchable,
    question_about,
    summary_of,
    undo_item,
)
from silas.stream.ports import RecordProposal
from silas.stream.skills import SkillOffers
from silas.stream.store import Origin
from silas.stream.turn_context import TurnContext, Write
from silas.work.before_images import BeforeImage, BeforeImages, net_changes
from silas.work.models import ENDED_WELL, WorkItem, WorkItemResult, WorkItemStatus, WorkItemType
from silas.work.wording import status_words

_LATELY = timedelta(days=14)
_MOST_LOOKED_AT = 200

Listener = Callable[[str], Awaitable[None]]
"""Is told what the question was about, once its answer is kept and its signature checked."""


class ReviewPolicy(Data):
    """The settings, as far as cards are concerned."""

    proposals_per_week: int = 3
    keep_before_images: timedelta = timedelta(days=30)


@dataclass
class ReviewService:
    """Asks questions, and follows their answers."""

    questions: QuestionStore
    cards: CardStore
    autonomy: AutonomyCalibrator
    suggestions: SuggestionEngine
    grants: StandingGrants
    unasked: UnaskedCards
    images: BeforeImages
    policy: ReviewPolicy
    _services: TurnContext | None = None
    _skills: SkillOffers | None = None
    _elsewhere: dict[QuestionKind, Listener] = field(default_factory=dict)

    def on_answer(self, kind: QuestionKind, listener: Listener) -> None:
        """Let the answers to questions of this kind be followed in another package."""
        self._elsewhere[kind] = listener

    def attach(self, services: TurnContext, skills: SkillOffers | None = None) -> None:
        """The conversation that these cards belong to; until then nothing is asked."""
        self._services, self._skills = services, skills

    async def surface(self, scope_id: str, *, now: datetime) -> None:
        """Offer what can be decided together; only the owner is asked anything."""
        del now
        if self._services is None or person_of(scope_id) != self._services.policy.owner_id:
            return
        if len(await self.cards.open_cards()) >= FEWEST:
            await self._offer_batch(self._services)

    async def look(self) -> None:
        """The same, without anybody having said anything."""
        if self._services is not None:
            await self._offer_batch(self._services)

    async def heartbeat(self) -> None:
        """Look for something to suggest or to propose."""
        await self.images.prune(self.policy.keep_before_images)
        services = self._services
        if services is None:
            return
        now, owner = services.clock.now(), services.policy.owner_id
        scope = await services.store.latest_scope(owner)
        for each in await self.suggestions.generate_idle(scope, now):
            await self.unasked.ask(card_of(each))
        await self._propose(owner, now)
        await self.unasked.renew_digest()

    async def follow(self, message: QueueMessage, name: str) -> Handled:
        """What an answer leads to."""
        answered = await self.questions.answered(name)
        listener = self._elsewhere.get(answered.question.content.kind) if answered else None
        if answered is not None and listener is not None:
            await listener(answered.question.about)
            return Handled()
        if answered is not None and self._skills is not None and _keeps_work(answered):
            return await self._skills.follow(self._attached, message, answered.question)
        services = self._attached
        autonomy = AutonomyService(self.autonomy, self.grants, services.policy.owner_id)
        answers = Answers(self.questions, autonomy, self.suggestions, self.unasked)
        return await answers.follow(services, message, name)

    async def ask_changes(self, proposal: RecordProposal) -> Write | None:
        """A card with all changes of one turn; None if enough of them wait already."""
        waiting = [
            each for each in await self.questions.open() if each.content.kind is QuestionKind.RECORD
        ]
        if len(waiting) >= MOST_OPEN:
            return None
        return self._asking(question_of(proposal, now=self._attached.clock.now()))

    async def edit(self, origin: Origin, item: WorkItem) -> tuple[Write, ...]:
        """A plan's text as a draft, if it has one."""
        services = self._attached
        question = draft_of(services, origin, item, await services.store.taint_of(item))
        return (self._asking(question),) if question else ()

    @property
    def _attached(self) -> TurnContext:
        if self._services is None:
            raise ConversationMoved
        return self._services

    async def after_work(
        self, message: QueueMessage, item: WorkItem, result: WorkItemResult
    ) -> tuple[Write, ...]:
        """What work that has ended leaves to ask: its undo, what next, what to do about it."""
        services = self._services
        if services is None:
            return ()
        origin = await services.store.origin(message.trace_id)
        if origin is None or person_of(origin.scope_id) != services.policy.owner_id:
            return ()
        stuck = question_about(services, origin, item, result, taint=message.taint)
        if stuck is not None and await self._was_asked(stuck, services.clock.now()):
            stuck = None
        found = await self.suggestions.generate_post_execution(
            origin.scope_id, item, result, taint=message.taint
        )
        if self._skills is not None:
            await self._skills.put_made(services, item, result)
            if not (found or stuck):
                found = await self._to_keep(services, origin, item, taint=message.taint)
        writes = [self._asking(stuck)] if stuck else []
        writes += [self._suggesting(each) for each in found]
        undo = await self._undo(services, origin, item, result)
        return (*writes, *undo)

    async def _to_keep(
        self, services: TurnContext, origin: Origin, item: WorkItem, *, taint: TaintLevel
    ) -> list[SuggestionProposal]:
        """The offer to keep this work as a skill, if there is room for one more suggestion."""
        now, between = services.clock.now(), self.suggestions.policy.between
        if self._skills is None or await self.questions.count_since("suggestion", now - between):
            return []
        offer = await self._skills.offer(services, item, scope_id=origin.scope_id, taint=taint)
        return await self.suggestions.fitting([offer] if offer else [], now)

    def _suggesting(self, proposal: SuggestionProposal) -> Write:
        question = card_of(proposal)

        def write(tx: Transaction) -> None:
            self.unasked.ask_in(tx, question)

        return write

    def _asking(self, question: Question) -> Write:
        return lambda tx: self.questions.ask_in(tx, question)

    async def _undo(
        self, services: TurnContext, origin: Origin, item: WorkItem, result: WorkItemResult
    ) -> tuple[Write, ...]:
        if result.status not in ENDED_WELL | {WorkItemStatus.HEALTHY}:
            return ()
        writes = []
        for done, images in await self._taken_over(services, item):
            undo = undo_item(done, images, title=item.title)
            if undo is None or await services.items.known([undo.id]):
                continue
            _, write = asking(
                services,
                origin,
                undo,
                # The runtime has written this plan; what the run has read is no part of it.
                taint=await services.store.taint_of(item),
                message=f"“{item.title}” is {status_words(result.status)}. "
                f"To undo it: {summary_of(images)}",
                replaces=item.id,
                requested_by=UNDO,
                valid_for=UNDO_TTL,
                card_id=f"card_{undo.id}",
            )
            writes.append(write)
        return tuple(writes)

    async def _taken_over(
        self, services: TurnContext, item: WorkItem
    ) -> list[tuple[WorkItem, list[BeforeImage]]]:
        """What a task has changed, what the tasks of a project have in each directory, or what the
        last repair of a goal has; each with an item that worked there."""
        found: dict[str, tuple[WorkItem, list[BeforeImage]]] = {}
        for done in await self._parts(services, item):
            where = (done.workspace.path if done.workspace else None) or ""
            images = [each for each in await self.images.of(done.id) if each.taken]
            found.setdefault(where, (done, []))[1].extend(images)
        whole = [(done, net_changes(images)) for done, images in found.values()]
        return [(done, images) for done, images in whole if images]

    async def _parts(self, services: TurnContext, item: WorkItem) -> list[WorkItem]:
        if item.type is WorkItemType.TASK:
            return [item]
        below = await services.items.list_by_parent(item.id)
        if item.type is WorkItemType.GOAL:
            ended = [each for each in below if each.status in ENDED_WELL]
            return sorted(ended, key=lambda each: (str(each.created_at), each.id))[-1:]
        return below

    async def _offer_batch(self, services: TurnContext) -> None:
        pairs = await self._waiting(services)
        ids = {card.card_id for card, _ in pairs}
        waiting = [
            each for each in await self.questions.open() if each.content.kind is QuestionKind.BATCH
        ]
        for batch in waiting:
            if not set(batch.content.body["item_ids"]) <= ids:
                await self.questions.close(batch.question_id, "outdated")
        if len(pairs) < FEWEST:
            return
        question = batch_of(services, pairs, most=await self.autonomy.batch_size())
        # A smaller batch that the owner has chosen stays; one that grew is asked anew.
        if question is None or any(each.about == question.about for each in waiting):
            return
        if await self.questions.was_asked(question.about, since=services.clock.now() - _LATELY):
            return
        for batch in waiting:
            if set(batch.content.body["item_ids"]) < set(question.content.body["item_ids"]):
                await self.questions.close(batch.question_id, "outdated")
        await self.questions.ask(question)

    async def _waiting(self, services: TurnContext) -> list[tuple[Card, WorkItem]]:
        found = []
        for card in await self.cards.open_cards():
            items = [item for name in card.plan_hashes if (item := await services.items.get(name))]
            if is_batchable(card, items) and services.clock.now() < card.expires_at:
                found.append((card, items[0]))
        return found

    async def _propose(self, scope_id: str, now: datetime) -> None:
        """More or less freedom, from what the owner has decided; what turned is taken back."""
        await self.autonomy.tighten_where_corrected(scope_id)
        await self.grants.end_where_corrected()
        week = now - timedelta(days=7)
        found = await self.autonomy.evaluate(scope_id, now, self.grants.subjects)
        found += await self.grants.propose(now)
        for question in found:
            made = [await self.questions.count_since(each, week) for each in ("autonomy", "grant")]
            if sum(made) >= self.policy.proposals_per_week:
                return
            if not await self.questions.was_asked(question.about, since=week):
                await self.unasked.ask(question)

    async def _was_asked(self, question: Question, now: datetime) -> bool:
        since = now - self.suggestions.policy.window
        return await self.questions.was_asked(question.about, since=since)


def _keeps_work(answered: AnsweredQuestion) -> bool:
    content = answered.question.content
    offered = content.kind is QuestionKind.SUGGESTION and "keeps" in content.body
    return offered and answered.value == "do_it"


PATIENCE = timedelta(seconds=120)
_LOOK_SECONDS = 0.2
_LET_THROUGH = ("response", "message")
"""What a yes lets through. Beside a response, the message is only what it answers."""


@dataclass(frozen=True)
class GateQuestions:
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
                return found.value == YES
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
            content=QuestionContent(
                kind=QuestionKind.GATE,
                intent=f"Let this through? The gate “{result.gate_name}” asks.",
                rationale=result.reason or "A rule of yours wants your word for it.",
                risk=RiskLevel.MEDIUM,
                taint=TaintLevel.EXTERNAL,
                actions=[
                    QuestionChoice(value=YES, label="Let it through this once"),
                    QuestionChoice(value=BLOCK, label="Block it"),
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
