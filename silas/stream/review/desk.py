"""The review desk: asks what there is to ask, when there is reason to (`Proactive`)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from silas.kernel import TaintLevel
from silas.kernel.models import Data
from silas.queue.consumer import Handled
from silas.queue.models import QueueMessage
from silas.stream.card_statements import Card
from silas.stream.cards import CardStore
from silas.stream.decisions import UNDO
from silas.stream.errors import ConversationMoved
from silas.stream.review.asking_again import asking
from silas.stream.review.autonomy import Autonomy
from silas.stream.review.batches import FEWEST, batch_of, is_batchable
from silas.stream.review.drafts import draft_of
from silas.stream.review.following import Answers
from silas.stream.review.models import Kind, Question
from silas.stream.review.store import QuestionStore
from silas.stream.review.stuck import question_about
from silas.stream.review.suggestions import from_habit, from_next_steps, repeated_command
from silas.stream.review.undoing import WINDOW, summary_of, undo_item
from silas.stream.store import Origin
from silas.stream.turn_context import TurnContext, Write
from silas.work.before_images import BeforeImages
from silas.work.models import WorkItem, WorkItemResult, WorkItemStatus

_LATELY = timedelta(days=14)
_MOST_LOOKED_AT = 200

Listener = Callable[[str], Awaitable[None]]
"""Is told what the question was about, once its answer is kept and its signature checked."""


class DeskPolicy(Data):
    """The settings, as far as the desk is concerned."""

    suggestions: bool = True
    cooldown: timedelta = timedelta(minutes=180)
    most_waiting: int = 5
    suggestions_per_hour: int = 10
    proposals_per_week: int = 3


@dataclass
class ReviewDesk:
    """Asks questions, and follows their answers."""

    questions: QuestionStore
    cards: CardStore
    autonomy: Autonomy
    images: BeforeImages
    policy: DeskPolicy
    _room: TurnContext | None = None
    _elsewhere: dict[Kind, Listener] = field(default_factory=dict)

    def on_answer(self, kind: Kind, listener: Listener) -> None:
        """Let the answers to questions of this kind be followed in another room."""
        self._elsewhere[kind] = listener

    def attach(self, room: TurnContext) -> None:
        """The conversation that this desk belongs to; until then nothing is asked."""
        self._room = room

    async def surface(self, scope_id: str, *, now: datetime) -> None:
        """Offer what can be decided together; only the owner is asked anything."""
        del now
        if self._room is None or scope_id != self._room.policy.owner_id:
            return
        if len(await self.cards.open_cards()) >= FEWEST:
            await self._offer_batch(self._room)

    async def look(self) -> None:
        """The same, without anybody having said anything."""
        if self._room is not None:
            await self._offer_batch(self._room)

    async def heartbeat(self) -> None:
        """Look for something to suggest or to propose."""
        await self.images.prune(2 * WINDOW)
        room = self._room
        if room is not None:
            now, owner = room.clock.now(), room.policy.owner_id
            await self._suggest(room, owner, now)
            await self._propose(room, owner, now)

    async def follow(self, message: QueueMessage, name: str) -> Handled:
        """What an answer leads to."""
        answered = await self.questions.answered(name)
        listener = self._elsewhere.get(answered[0].content.kind) if answered else None
        if answered is not None and listener is not None:
            await listener(answered[0].about)
            return Handled()
        answers = Answers(self.questions, self.autonomy)
        return await answers.follow(self._attached, message, name)

    async def edit(self, origin: Origin, item: WorkItem) -> tuple[Write, ...]:
        """A plan's text as a draft, if it has one."""
        room = self._attached
        question = draft_of(room, origin, item, await room.store.taint_of(item))
        return (self._asking(question),) if question else ()

    @property
    def _attached(self) -> TurnContext:
        if self._room is None:
            raise ConversationMoved
        return self._room

    async def after_work(
        self, message: QueueMessage, item: WorkItem, result: WorkItemResult
    ) -> tuple[Write, ...]:
        """What work that has ended leaves to ask: its undo, what next, what to do about it."""
        room = self._room
        if room is None:
            return ()
        origin = await room.store.origin(message.trace_id)
        if origin is None or origin.scope_id != room.policy.owner_id:
            return ()
        asked = self._offers(room, origin, item, result, taint=message.taint)
        fresh = [each for each in asked if not await self._was_asked(each, room.clock.now())]
        writes = [self._asking(each) for each in fresh]
        undo = await self._undo(room, origin, item, result)
        return (*writes, *undo)

    def _offers(
        self,
        room: TurnContext,
        origin: Origin,
        item: WorkItem,
        result: WorkItemResult,
        *,
        taint: TaintLevel,
    ) -> list[Question]:
        stuck = question_about(room, origin, item, result, taint=taint)
        steps = result.next_steps if self.policy.suggestions else []
        next_ = from_next_steps(room, item, steps, scope_id=origin.scope_id, taint=taint)
        return [*([stuck] if stuck else []), *next_]

    def _asking(self, question: Question) -> Write:
        return lambda tx: self.questions.ask_in(tx, question)

    async def _undo(
        self, room: TurnContext, origin: Origin, item: WorkItem, result: WorkItemResult
    ) -> tuple[Write, ...]:
        if result.status is not WorkItemStatus.DONE:
            return ()
        images = await self.images.of(item.id)
        undo = undo_item(room, item, images)
        if undo is None:
            return ()
        _, write = asking(
            room,
            origin,
            undo,
            # The runtime has written this plan; what the run has read is no part of it.
            taint=await room.store.taint_of(item),
            message=f"“{item.title}” is done. To undo it: {summary_of(images)}",
            replaces=item.id,
            requested_by=UNDO,
            valid_for=WINDOW,
            card_id=f"card_{undo.id}",
        )
        return (write,)

    async def _offer_batch(self, room: TurnContext) -> None:
        pairs = await self._waiting(room)
        ids = {card.card_id for card, _ in pairs}
        waiting = [each for each in await self.questions.open() if each.content.kind is Kind.BATCH]
        for batch in waiting:
            if not set(batch.content.body["item_ids"]) <= ids:
                await self.questions.close(batch.question_id, "outdated")
        if len(pairs) < FEWEST:
            return
        question = batch_of(room, pairs, most=await self.autonomy.batch_size())
        # A smaller batch that the owner has chosen stays; one that grew is asked anew.
        if question is None or any(each.about == question.about for each in waiting):
            return
        if await self.questions.was_asked(question.about, since=room.clock.now() - _LATELY):
            return
        for batch in waiting:
            if set(batch.content.body["item_ids"]) < set(question.content.body["item_ids"]):
                await self.questions.close(batch.question_id, "outdated")
        await self.questions.ask(question)

    async def _waiting(self, room: TurnContext) -> list[tuple[Card, WorkItem]]:
        found = []
        for card in await self.cards.open_cards():
            items = [item for name in card.plan_hashes if (item := await room.items.get(name))]
            if is_batchable(card, items) and room.clock.now() < card.expires_at:
                found.append((card, items[0]))
        return found

    async def _suggest(self, room: TurnContext, scope_id: str, now: datetime) -> None:
        if not self.policy.suggestions:
            return
        done = await room.items.list_by_status(WorkItemStatus.DONE)
        recent = [
            item
            for item in done[-_MOST_LOOKED_AT:]
            if item.created_at
            and now - item.created_at < _LATELY
            # What a stranger had a part in does not become the owner's own wish by repetition.
            and await room.store.taint_of(item) is TaintLevel.OWNER
        ]
        found = repeated_command(recent)
        if found is None:
            return
        question = from_habit(room, *found, scope_id=scope_id)
        if not await self._was_asked(question, now, within=_LATELY):
            await self.questions.ask(question)

    async def _propose(self, room: TurnContext, scope_id: str, now: datetime) -> None:
        week = now - timedelta(days=7)
        if await self.questions.count_since("autonomy", week) >= self.policy.proposals_per_week:
            return
        question = await self.autonomy.proposal(room, scope_id)
        if question and not await self.questions.was_asked(question.about, since=week):
            await self.questions.ask(question)

    async def _was_asked(
        self, question: Question, now: datetime, *, within: timedelta | None = None
    ) -> bool:
        if question.content.kind is Kind.SUGGESTION:
            hour = await self.questions.count_since("suggestion", now - timedelta(hours=1))
            waiting = [
                each for each in await self.questions.open() if each.content.kind is Kind.SUGGESTION
            ]
            if hour >= self.policy.suggestions_per_hour or len(waiting) >= self.policy.most_waiting:
                return True
        since = now - (within or self.policy.cooldown)
        return await self.questions.was_asked(question.about, since=since)
