"""The owner has decided about a card: token, verification, attachment, execution (5.1.2, 4 to 9).

1. The event on the bus names the card alone. What was decided is read from the reviews: a row on
   the bus authorises nothing.
2. The items are exactly those that the card showed, by their hashes; otherwise nothing is signed.
3. A yes: for each item a token is issued, verified and attached, once. An item that has its token
   already keeps it, and a token that was issued already is the one: the process died in between.
   A yes that is too old to begin with is asked for again, on a new card.
4. Then the execution is asked for, once for each card. A goal with a schedule waits for it.
5. Anything else ends the items, and the person is told.
"""

from silas.approval import ApprovalVerdict
from silas.kernel import ApprovalError, Clock, TaintLevel
from silas.queue.consumer import Handled
from silas.queue.follow import follow
from silas.queue.models import (
    Agent,
    AgentReply,
    ExecutionRequest,
    MessageKind,
    QueueMessage,
    SystemEvent,
    Urgency,
)
from silas.storage import Durability
from silas.stream.errors import DecisionUnknown
from silas.stream.ports import CardDecision, PlanReview
from silas.stream.review.asking_again import asked
from silas.stream.store import Origin
from silas.stream.surfaces import Surface
from silas.stream.turn_context import TurnContext
from silas.work.authorisation import authorise_once
from silas.work.models import ALWAYS_ON, WorkItem, WorkItemStatus, WorkItemType
from silas.work.workbench import Workbench

DECISION_MADE = "decision_made"
QUESTION = "question"
"""How the ids of questions begin; cards of plans begin otherwise."""
UNDO = "undo"
"""Who asks about taking back what was done."""
_TOO_LATE = "you said yes too long ago for me to begin with it now."
_LAPSED = f"{_TOO_LATE} Here is the plan again: nothing happens before your next yes."
_CHANGED = "The plan is not the one that the card showed. Nothing was approved."


def decision_made(card_id: str, *, trace_id: str, scope_id: str, clock: Clock) -> QueueMessage:
    """The event to be queued in the transaction that keeps the owner's decision."""
    return QueueMessage(
        message_id=f"{DECISION_MADE}.{card_id}",
        trace_id=trace_id,
        content="",
        sender=Agent.RUNTIME,
        message_kind=MessageKind.SYSTEM_EVENT,
        scope_id=scope_id,
        taint=TaintLevel.OWNER,
        created_at=clock.now(),
        payload=SystemEvent(event=DECISION_MADE, data={"card_id": card_id}),
        urgency=Urgency.NEEDS_ATTENTION,
    )


async def follow_decision(
    room: TurnContext, bench: Workbench, message: QueueMessage, card_id: str
) -> Handled:
    """What a decision leads to; or an answer, which is about no plan."""
    if card_id.startswith(QUESTION):
        if room.proactive is None:
            raise DecisionUnknown
        return await room.proactive.follow(message, card_id)
    decided = await room.reviews.decision(card_id) if room.reviews else None
    if decided is None:
        raise DecisionUnknown
    origin = await room.store.require_origin(message.trace_id)
    items = await _shown(bench, decided)
    if items is None:
        await room.audit.log("decision_refused", card_id=card_id, reason=_CHANGED)
        return Handled((_reply(room, message, origin, _CHANGED),))
    root = items[0]
    verdict = decided.decision.verdict
    if verdict is not ApprovalVerdict.APPROVED:
        await room.audit.log("plan_declined", work_item_id=root.id, verdict=verdict.value)
        await bench.control.cancel(root.id)
        return await _refused(room, message, origin, decided, root)
    try:
        for item in items:
            if not await _authorised(bench, item, decided):
                return await _asked_again(room, message, origin, decided=decided, items=items)
    except ApprovalError as error:
        return Handled((_reply(room, message, origin, error.message),))
    came = await room.store.work_origin(root.id)
    if came is not None:  # what the plan is derived from goes on with it
        message = message.model_copy(update={"taint": came.taint})
    return _begin(room, message, origin, root, card_id=card_id)


async def _asked_again(
    room: TurnContext,
    message: QueueMessage,
    origin: Origin,
    *,
    decided: CardDecision,
    items: list[WorkItem],
) -> Handled:
    """A new card for what was decided too long ago; for what has begun since, only a word."""
    root, reviews = items[0], room.reviews
    await room.audit.log("decision_lapsed", card_id=decided.card_id, work_item_id=root.id)
    waits = all(item.status is WorkItemStatus.PENDING for item in items)
    if reviews is None or not waits or decided.requested_by == UNDO:
        return Handled((_reply(room, message, origin, f"{root.title}: {_TOO_LATE}"),))
    review = PlanReview(
        card_id=f"{decided.card_id}_again",
        items=items,
        scope_id=origin.scope_id,
        connection_id=origin.connection_id,
        channel=origin.channel,
        trace_id=origin.trace_id,
        message=f"{root.title}: {_LAPSED}",
        taint=await room.store.taint_of(root),
        requested_by=decided.requested_by,
    )
    return asked(
        room, message, origin, review=review, write=lambda tx: reviews.ask_plan(tx, review)
    )


async def _refused(
    room: TurnContext, message: QueueMessage, origin: Origin, decided: CardDecision, root: WorkItem
) -> Handled:
    """Nothing is done. Whoever wants changes to a text gets it to edit."""
    verdict = decided.decision.verdict
    if decided.requested_by == UNDO:
        return Handled()  # what was not undone stays; nobody has to be told
    if verdict is ApprovalVerdict.EDIT_REQUESTED and room.proactive is not None:
        asked = await room.proactive.edit(origin, root)
        if asked:
            told = f"{root.title}: here is its text, for you to change."
            return Handled((_reply(room, message, origin, told),), tuple(asked), Durability.TRUST)
    told = f"{root.title}: not approved ({verdict.value}). I do nothing about it."
    return Handled((_reply(room, message, origin, told),))


async def _shown(bench: Workbench, decided: CardDecision) -> list[WorkItem] | None:
    """The items of the card as they are stored, the whole before its parts; None if they differ."""
    items = []
    for name, shown in decided.plan_hashes.items():
        item = await bench.items.get(name)
        if item is None or item.plan_hash != shown:
            return None
        items.append(item)
    return sorted(items, key=lambda item: item.parent in decided.plan_hashes) or None


async def _authorised(bench: Workbench, item: WorkItem, decided: CardDecision) -> bool:
    """Whether the item has its token now; False if the decision is too old for that."""
    token = item.approval_token
    if token is not None:
        check = (
            bench.approvals.check_goal if item.type is WorkItemType.GOAL else bench.approvals.check
        )
        if (await check(token, item))[0]:
            return True
    when = decided.decided_at
    return await authorise_once(bench, item, decided.decision, decided_at=when) is not None


def _begin(
    room: TurnContext, message: QueueMessage, origin: Origin, root: WorkItem, *, card_id: str
) -> Handled:
    if root.type is WorkItemType.GOAL and root.schedule is not None:
        when = "as long as I run" if root.schedule == ALWAYS_ON else f"at {root.schedule}"
        return Handled((_reply(room, message, origin, f"{root.title}: approved, {when}."),))
    request = follow(
        message,
        sender=Agent.RUNTIME,
        kind=MessageKind.EXECUTION_REQUEST,
        content=root.title,
        payload=ExecutionRequest(work_item_id=root.id, connection_id=origin.connection_id),
        ids=room.ids,
        clock=room.clock,
        task_id=root.id,
        urgency=Urgency.INFORMATIONAL,
    )
    once = request.model_copy(update={"message_id": f"execute.{card_id}"})
    begun = _reply(room, message, origin, f"{root.title}: approved. I begin.", final=False)
    return Handled((once, begun))


def _reply(
    room: TurnContext, message: QueueMessage, origin: Origin, text: str, *, final: bool = True
) -> QueueMessage:
    return follow(
        message,
        sender=Agent.RUNTIME,
        kind=MessageKind.AGENT_RESPONSE,
        content=text,
        payload=AgentReply(
            connection_id=origin.connection_id,
            channel=origin.channel,
            surface=Surface.STREAM.value,
            final=final,
        ),
        ids=room.ids,
        clock=room.clock,
    )
