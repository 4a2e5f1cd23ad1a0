"""A plan that the runtime itself puts before the owner: a new item, a new card, a new approval."""

from datetime import timedelta
from typing import Any

from silas.kernel import TaintLevel, format_timestamp
from silas.queue.consumer import Handled
from silas.queue.follow import follow
from silas.queue.models import Agent, AgentReply, MessageKind, QueueMessage, Urgency
from silas.storage import Durability, Transaction
from silas.stream.ports import PlanReview
from silas.stream.store import Origin, WorkOrigin
from silas.stream.surfaces import Surface
from silas.stream.turn_context import TurnContext, Write
from silas.work.budget import BudgetUsed
from silas.work.models import WorkItem, WorkItemStatus
from silas.work.store import save_item

_FRESH: dict[str, Any] = {
    "approval_token": None,
    "status": WorkItemStatus.PENDING,
    "attempts": 0,
    "verification_results": [],
    "created_at": None,
    "version": 0,
}


async def fresh_copy(room: TurnContext, item: WorkItem, **changes: object) -> WorkItem:
    """The item as if it had never run, under an id of its own."""
    base, number = str(changes.pop("id", item.id))[:110], 2
    while await room.items.known([name := f"{base}-{number}"]):
        number += 1
    update = {**_FRESH, "budget_used": BudgetUsed(), "id": name, **changes}
    return WorkItem.model_validate(item.model_copy(update=update).model_dump())


def asking(
    room: TurnContext,
    origin: Origin,
    item: WorkItem,
    *,
    taint: TaintLevel,
    message: str,
    replaces: str | None = None,
    requested_by: str = "runtime",
    valid_for: timedelta | None = None,
    card_id: str | None = None,
) -> tuple[PlanReview, Write]:
    """The card, and what writes it together with its item."""
    review = PlanReview(
        card_id=card_id or room.ids.new("card"),
        items=[item],
        scope_id=origin.scope_id,
        connection_id=origin.connection_id,
        channel=origin.channel,
        trace_id=origin.trace_id,
        message=message,
        taint=taint,
        replaces=replaces,
        requested_by=requested_by,
        valid_for=valid_for,
    )
    now, reviews = format_timestamp(room.clock.now()), room.reviews

    def write(tx: Transaction) -> None:
        if reviews is None:
            return
        save_item(tx, item, now=now)
        room.store.note_work(
            tx,
            WorkOrigin(
                work_item_id=item.id,
                trace_id=origin.trace_id,
                scope_id=origin.scope_id,
                taint=taint,
            ),
        )
        reviews.ask_plan(tx, review)

    return review, write


def asked(
    room: TurnContext, message: QueueMessage, origin: Origin, *, review: PlanReview, write: Write
) -> Handled:
    """The card is written, and the person is told where it is."""
    told = reply(room, message, origin, review.message, card_id=review.card_id)
    return Handled((told,), (write,), Durability.TRUST)


def reply(
    room: TurnContext,
    message: QueueMessage,
    origin: Origin,
    text: str,
    *,
    card_id: str | None = None,
) -> QueueMessage:
    """A word of the runtime's to the person."""
    return follow(
        message,
        sender=Agent.RUNTIME,
        kind=MessageKind.AGENT_RESPONSE,
        content=text,
        payload=AgentReply(
            connection_id=origin.connection_id,
            channel=origin.channel,
            surface=(Surface.REVIEW if card_id else Surface.STREAM).value,
            card_id=card_id,
        ),
        ids=room.ids,
        clock=room.clock,
        urgency=Urgency.NEEDS_ATTENTION if card_id else Urgency.INFORMATIONAL,
    )
