"""Work that waits for the owner: how it asks, and how it goes on once that was decided.

1. `AskByCard` answers for an owner who is not there: a call waits (`silas.work.paused`), and a
   repair that no standing approval covers is put on one card. Until that is decided, nothing asks
   again.
2. The request to go on is written in the transaction that keeps the decision about a call. After
   the commit the bus is notified, so that the running Silas goes on at once.
3. What goes on is the whole that the work belongs to: the goal or the project, which knows what is
   next. Whether anything may be executed is decided at admission.
4. What nobody decided in time is not done, and the owner is told once, with what can be done now:
   the work rests until the owner resumes it (`ExpiredCalls`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from silas.kernel import Clock, TaintLevel, join_taint
from silas.queue.models import (
    Agent,
    ExecutionRequest,
    ExecutionStatus,
    MessageKind,
    QueueMessage,
    Urgency,
)
from silas.queue.store import QueueStore
from silas.review import ShownQuestion
from silas.storage import Database, Durability, Transaction
from silas.stream.healing import status_message
from silas.stream.ports import PlanReview
from silas.stream.scheduling import SCHEDULER
from silas.stream.store import ConversationStore, Origin, WorkOrigin, own_origin
from silas.stream.turn_context import TurnContext, Write
from silas.work.authorisation import AFTER_STEP, TAKE_OVER
from silas.work.models import WorkItem, WorkItemResult
from silas.work.paused import KeptCall, KeptRun, PausedRuns
from silas.work.ports import Later, PausedCall
from silas.work.store import WorkItemStore

CauseOf = Callable[[WorkItem], QueueMessage | None]
"""Names the message that led to work which goes on here."""
REPAIR = "goal"
"""Who has asked for a card about a repair."""
_NOT_COVERED = (
    "The standing approval of this goal does not cover the repair any more. "
    "The goal rests until you have decided."
)


class AskByCard:
    """`Approver` of the running Silas (rule 1)."""

    def __init__(self, cause_of: CauseOf) -> None:
        self._cause_of = cause_of
        self._context: TurnContext | None = None

    def attach(self, context: TurnContext) -> None:
        """The conversation whose cards are used."""
        self._context = context

    async def decide_call(self, call: PausedCall, question: ShownQuestion) -> Later:
        """Later: the call waits, and is shown with the cards."""
        del call, question
        return Later()

    async def decide_item(self, item: WorkItem, question: ShownQuestion) -> Later:
        """Put the item on a card, unless it was put on one before."""
        del question
        context, cause = self._context, self._cause_of(item)
        origin = await context.store.origin(cause.trace_id) if context and cause else None
        if context is None or origin is None or await context.store.work_origin(item.id):
            return Later()
        reviews, taint = context.reviews, await context.store.taint_of(item)
        if reviews is None:
            return Later()
        review = PlanReview(
            card_id=f"card_{item.id}",
            items=[item],
            scope_id=origin.scope_id,
            connection_id=origin.connection_id,
            channel=origin.channel,
            trace_id=origin.trace_id,
            message=f"{item.title}: {_NOT_COVERED}",
            # What checks printed is in its body.
            taint=join_taint(taint, TaintLevel.EXTERNAL),
            requested_by=REPAIR,
        )
        made = WorkOrigin(
            work_item_id=item.id,
            trace_id=origin.trace_id,
            scope_id=origin.scope_id,
            taint=review.taint,
        )
        await context.store.write(
            [
                lambda tx: context.store.note_work(tx, made),
                lambda tx: reviews.ask_plan(tx, review),
            ]
        )
        return Later()


@dataclass(frozen=True)
class WorkResumption:
    """What lets the running Silas go on with one piece of work."""

    queue: QueueStore
    store: ConversationStore
    request: QueueMessage
    origin: Origin

    def write(self, tx: Transaction) -> None:
        """Queue the request in the transaction that keeps the decision."""
        self.store.note_origin(tx, self.origin)
        self.queue.enqueue_in(tx, self.request)

    def notify(self) -> None:
        """Wake whoever executes work, once the transaction is committed."""
        self.queue.bus.notify_of([self.request])


@dataclass(frozen=True)
class WorkResumptions:
    """Makes the resumption of work that came from a conversation, or that the clock began."""

    store: ConversationStore
    items: WorkItemStore
    queue: QueueStore
    clock: Clock
    owner_id: str

    async def __call__(self, work_item_id: str, call_id: str) -> WorkResumption | None:
        """What lets this work go on after the decision about this call; None for other work."""
        item = await self.items.get(work_item_id)
        if item is None:
            return None
        whole = item.spawned_by or item.parent or item.id
        made = await self.store.work_origin(whole)
        origin = await self.store.origin(made.trace_id) if made else None
        if origin is None and item.spawned_by is not None:
            origin = await self.of_clock(f"resume.{call_id}", whole)
        if origin is None:
            return None
        request = self.request(f"resume.{call_id}", whole, origin, made)
        return WorkResumption(self.queue, self.store, request, origin)

    def request(
        self, name: str, whole: str, origin: Origin, made: WorkOrigin | None
    ) -> QueueMessage:
        """The message that asks to go on with the whole, for whoever has asked for it."""
        return QueueMessage(
            message_id=name,
            trace_id=origin.trace_id,
            content=whole,
            sender=Agent.RUNTIME,
            message_kind=MessageKind.EXECUTION_REQUEST,
            scope_id=origin.scope_id,
            taint=made.taint if made else TaintLevel.EXTERNAL,
            created_at=self.clock.now(),
            payload=ExecutionRequest(
                work_item_id=whole, connection_id=origin.connection_id, resume=True
            ),
            task_id=whole,
            urgency=Urgency.NEEDS_ATTENTION,
        )

    async def of_clock(self, name: str, work_item_id: str) -> Origin:
        """A goal that nobody has asked for in a conversation is reported to the owner."""
        scope = await self.store.scope_of_work(work_item_id, self.owner_id)
        return own_origin(
            self.owner_id, name, scope_id=scope, sender_id=SCHEDULER, taint=TaintLevel.OWNER
        )


_REST = "The work rests. `silas work resume {name}` takes it up again{how}, with a new approval."
_WITHOUT = " without it"


@dataclass(frozen=True)
class ExpiredCalls:
    """Tells the owner of what nobody decided in time (rule 4)."""

    services: TurnContext
    database: Database
    paused: PausedRuns
    resumptions: WorkResumptions

    async def look(self) -> int:
        """Note every run whose time is over, and tell of it once; returns how many there were."""
        return sum([await self._end(run) for run in await self.paused.overdue()])

    async def _end(self, run: KeptRun) -> bool:
        item = await self.services.items.get(run.work_item_id)
        if item is None:
            return False
        message = await self._message(item, run)
        text = _expired_text(item, run.overdue(self.services.clock.now()))
        status = status_message(
            self.services,
            message,
            item,
            status=ExecutionStatus.BLOCKED,
            text=f"{item.title}: {text}",
            detail=text,
            urgency=Urgency.NEEDS_ATTENTION,
        )
        writes = await self._offers(message, item, text)

        def note(tx: Transaction) -> bool:
            if not self.paused.expire_in(tx, run):
                return False
            self.resumptions.queue.enqueue_in(tx, status)
            for write in writes:
                write(tx)
            return True

        noted = await self.database.transaction(note, durability=Durability.TRUST)
        self.resumptions.queue.bus.notify_of([status] if noted else [])
        return noted

    async def _message(self, item: WorkItem, run: KeptRun) -> QueueMessage:
        """What the words follow from: the owner's request, or nobody's; it is never sent."""
        store, owner = self.resumptions.store, self.resumptions.owner_id
        whole = item.spawned_by or item.parent or item.id
        made = await store.work_origin(whole)
        origin = await store.origin(made.trace_id) if made else None
        name = f"expired.{run.id}"
        if origin is None or origin.connection_id != owner:
            origin = await self.resumptions.of_clock(name, whole)
            mine = origin
            await store.write([lambda tx: store.note_origin(tx, mine)])
        return self.resumptions.request(name, whole, origin, made)

    async def _offers(self, message: QueueMessage, item: WorkItem, text: str) -> Sequence[Write]:
        """What the owner can choose in the page: again, another way, or to leave it."""
        if self.services.proactive is None or item.parent or item.spawned_by:
            return ()  # what belongs to a goal or a project is not begun by itself
        result = WorkItemResult(
            work_item_id=item.id,
            status=item.status,
            summary="It is blocked.",
            last_error=text,
            budget_used=item.budget_used,
        )
        return await self.services.proactive.after_work(message, item, result)


def _expired_text(item: WorkItem, calls: Sequence[KeptCall]) -> str:
    """What was not decided, what became of it, and what now."""
    tools = [each.call.tool for each in calls]
    name = item.id if item.spawned_by else item.parent or item.id
    if AFTER_STEP in tools:
        what, became, how = "the result of a step", "It counts as a no.", ""
    elif all(tool == TAKE_OVER for tool in tools):
        files = "1 file" if len(tools) == 1 else f"{len(tools)} files"
        what, became, how = f"{files} beyond the plan", "Nothing of it was taken over.", _WITHOUT
    else:
        named = ", ".join(dict.fromkeys(tools))
        what, became, how = f"a call of {named}", "The call was not made.", _WITHOUT
    return f"nobody decided in time about {what}. {became} {_REST.format(name=name, how=how)}"
