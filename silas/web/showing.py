"""Cards, work and messages as the page gets them.

A card carries the very bytes whose hash is signed, so that the page shows what it signs. The words
on its buttons and its risk are the runtime's; no agent has a say in them.
"""

from collections.abc import Sequence

from silas.gates.risk import RiskLevel, interaction_for
from silas.queue.models import Agent
from silas.stream.card_statements import UNSEALED
from silas.stream.cards import Card
from silas.stream.decisions import UNDO
from silas.stream.delivery import Delivery
from silas.stream.said import Saying
from silas.web import wire
from silas.work.models import ALWAYS_ON, WorkItem, WorkItemType
from silas.work.store import WorkItemStore

_DECLINE = "Decline, do nothing"
_CHANGE = "Ask for changes"
_UNDOING = {"approved": "Undo it", "declined": "Keep it as it is"}


async def items_of(card: Card, store: WorkItemStore) -> list[WorkItem]:
    """The work items that the card is about, those that are still there."""
    found = [await store.get(name) for name in card.plan_hashes]
    return [item for item in found if item is not None]


def shown_card(card: Card, items: Sequence[WorkItem]) -> wire.ApprovalRequest:
    """The card whole."""
    interaction = interaction_for(card.risk)
    root = items[0] if items else None
    undo = card.requested_by == UNDO
    return wire.ApprovalRequest(
        kind="result" if undo else "plan",
        request_id=card.card_id,
        title=card.title,
        body=card.message,
        risk_level=card.risk,
        rationale=_rationale(card, items),
        steps=interaction.steps,
        details_expanded=interaction.details_expanded,
        consequences=_UNDOING if undo else _consequences(root, card.risk),
        items=[
            wire.PlanShown(id=item.id, plan=item.plan_bytes().decode(), plan_hash=item.plan_hash)
            for item in items
        ],
        budget=root.budget.model_dump(mode="json") if root else {},
        verify=[check.model_dump(mode="json") for item in items for check in item.verify],
        taint=card.taint.value,
        trace_id=card.trace_id,
        state=card.state,
        created_at=card.created_at,
        expires_at=card.expires_at,
        refusal="" if card.sealed else UNSEALED,
        replaces=card.replaces,
    )


def _rationale(card: Card, items: Sequence[WorkItem]) -> str:
    if card.requested_by == UNDO:
        return card.message
    checks = sum(len(item.verify) for item in items)
    asked = "Requested by the scheduler" if card.requested_by == "goal" else "You asked for this"
    outside = sorted({each.tool for item in items for each in item.approvals})
    if outside:
        asked = f"{asked}. It may call {', '.join(outside)} outside of the sandbox"
    if not checks:
        return f"{asked}. No check is part of this plan, so its result is reported, not verified."
    told = "one check decides" if checks == 1 else f"{checks} checks decide"
    where = "Everything else runs" if outside else "It runs"
    return f"{asked}. {where} in the sandbox, and {told} whether it is done."


def _consequences(root: WorkItem | None, risk: RiskLevel) -> dict[str, str]:
    final = ", for good" if risk is RiskLevel.IRREVERSIBLE else ""
    return {"approved": f"{_yes(root)}{final}", "edit_requested": _CHANGE, "declined": _DECLINE}


def _yes(root: WorkItem | None) -> str:
    if root is None:
        return "Approve"
    if root.type is WorkItemType.GOAL and root.schedule is not None:
        return "Approve, keep on" if root.schedule == ALWAYS_ON else "Approve the schedule"
    return "Approve and run all tasks" if root.tasks else "Approve and run"


def shown_work(card: Card, item: WorkItem) -> wire.Work:
    """How far a work item is."""
    results = {result.name: result for result in item.verification_results}
    checks = [
        wire.CheckShown(name=check.name, passed=found.passed, reason=found.reason)
        if (found := results.get(check.name))
        else wire.CheckShown(name=check.name, passed=None)
        for check in item.verify
    ]
    return wire.Work(
        trace_id=card.trace_id,
        work_item_id=item.id,
        title=item.title,
        status=item.status.value,
        attempts=item.attempts,
        checks=checks,
        budget=item.budget.model_dump(mode="json"),
        budget_used=item.budget_used.model_dump(mode="json"),
    )


def shown_delivery(delivery: Delivery) -> wire.Message:
    """An answer or a report."""
    message, reply = delivery.message, delivery.reply
    return wire.Message(
        sender="owner" if message.sender is Agent.USER else "silas",
        number=delivery.number,
        message_id=message.message_id,
        text=message.content,
        timestamp=message.created_at,
        trace_id=message.trace_id,
        surface=reply.surface,
        final=reply.final,
        chips=reply.chips,
        card_id=reply.card_id,
    )


def shown_saying(saying: Saying) -> wire.Message:
    """What the owner said."""
    return wire.Message(
        sender="owner",
        number=saying.number,
        message_id=saying.message_id,
        text=saying.text,
        timestamp=saying.at,
        trace_id=f"trace_{saying.message_id}",
    )
