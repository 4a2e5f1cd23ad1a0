"""Cards, work and messages as the page gets them.

A card carries the very bytes whose hash is signed, so that the page shows what it signs. The words
on its buttons and its risk are the runtime's; no agent has a say in them.
"""

from collections.abc import Sequence

from silas.gates.risk import EffectOf, RiskLevel
from silas.kernel.ids import conversation_of
from silas.kernel.program import as_typed
from silas.queue.models import Agent
from silas.review.cards import UNDO, Card
from silas.review.decisions import UNSEALED, Decisions
from silas.stream.delivery import Delivery, StoredUserMessage
from silas.stream.ports import AnswerProgress
from silas.stream.proposed_work import CLIENT_WORK
from silas.web import wire
from silas.web.front import Front
from silas.work.authorisation import plan_finals, plan_scope
from silas.work.before_images import BeforeImages
from silas.work.models import ALWAYS_ON, WorkItem, WorkItemStatus, WorkItemType
from silas.work.previews import PlanPreview, preview_plan
from silas.work.store import WorkItemStore
from silas.work.wording import (
    has_proof,
    is_proven,
    last_results,
    outcome_of,
    path_notes,
    taken_and_left,
    why_unchecked,
)

_MOST_FILES = 200
_DECLINE = "Decline, do nothing"
_CHANGE = "Ask for changes"
_ASKED_BY = {
    "goal": "Requested by the scheduler",
    "visitor": "A visitor asks for this",
    CLIENT_WORK: "Another program asks for this",
}
_UNDOING = {"approved": "Undo it", "declined": "Keep it as it is"}


async def card_frame(front: Front, card: Card) -> wire.ApprovalRequest:
    """The card whole; while it waits, with what its plans would write."""
    items, preview = await items_of(card, front.items), PlanPreview()
    if card.state == "open" and card.requested_by != UNDO:
        preview = await preview_plan(items, scripted=front.scripted)
    shown = shown_card(card, items, front.decisions, front.calls.work.registry.effect_of)
    return shown.model_copy(update={"preview": preview})


async def items_of(card: Card, store: WorkItemStore) -> list[WorkItem]:
    """The work items that the card is about, those that are still there."""
    found = [await store.get(name) for name in card.plan_hashes]
    return [item for item in found if item is not None]


def shown_card(
    card: Card, items: Sequence[WorkItem], decisions: Decisions, effect_of: EffectOf
) -> wire.ApprovalRequest:
    """The card whole."""
    needs = decisions.requirement(card.risk, plan_scope(items))
    root = items[0] if items else None
    undo = card.requested_by == UNDO
    return wire.ApprovalRequest(
        kind="result" if undo else "plan",
        request_id=card.card_id,
        title=card.title,
        body=card.message,
        risk_level=card.risk,
        rationale=" ".join([_rationale(card, items), *plan_finals(items, effect_of)]),
        steps=needs.steps,
        details_expanded=needs.details_expanded,
        consequences=_UNDOING if undo else _consequences(root, card.risk),
        items=[
            wire.PlanShown(id=item.id, plan=item.plan_bytes().decode(), plan_hash=item.plan_hash)
            for item in items
        ],
        budget=root.budget.model_dump(mode="json") if root else {},
        verify=[check.model_dump(mode="json") for item in items for check in item.verify],
        notes=_notes(items),
        taint=card.taint.value,
        sources=list(card.sources),
        trace_id=card.trace_id,
        state=card.state,
        created_at=card.created_at,
        expires_at=card.expires_at,
        refusal="" if card.sealed else UNSEALED,
        replaces=card.replaces,
    )


def _notes(items: Sequence[WorkItem]) -> dict[str, str]:
    declared = [item.workspace.changes for item in items if item.workspace]
    return {path: note for changes in declared for path, note in path_notes(changes).items()}


def _rationale(card: Card, items: Sequence[WorkItem]) -> str:
    if card.requested_by == UNDO:
        return card.message
    checks = sum(not check.influenced_by for item in items for check in item.verify)
    asked = _ASKED_BY.get(card.requested_by, "You asked for this")
    outside = sorted({each.tool for item in items for each in item.approvals})
    if outside:
        asked = f"{asked}. It may call {', '.join(outside)} outside of the sandbox"
    where = "Everything else runs" if outside else "It runs"
    if not checks or not all(map(has_proof, items)):
        return f"{asked}. {where} in the sandbox."
    told = "one check decides" if checks == 1 else f"{checks} checks decide"
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


async def work_frame(trace_id: str, item: WorkItem, images: BeforeImages) -> wire.Work:
    """How far a work item is, with what became of the owner's files once it has stopped."""
    if item.status in (WorkItemStatus.PENDING, WorkItemStatus.RUNNING):
        return _shown_work(trace_id, item, [])
    taken, left = await taken_and_left(images, item.id)
    files = [wire.FileShown(kind=each.kind, path=each.path, taken=True) for each in taken]
    files += [wire.FileShown(kind=each.kind, path=each.path, taken=False) for each in left]
    return _shown_work(trace_id, item, files[:_MOST_FILES])


def _shown_work(trace_id: str, item: WorkItem, files: list[wire.FileShown]) -> wire.Work:
    results = {result.name: result for result in item.verification_results}
    checks = [
        wire.CheckShown(
            name=check.name, passed=found.passed, reason=found.reason, outcome=outcome_of(found)
        )
        if (found := results.get(check.name))
        else wire.CheckShown(name=check.name, passed=None)
        for check in item.verify
    ]
    return wire.Work(
        trace_id=trace_id,
        work_item_id=item.id,
        title=item.title,
        status=_status(item),
        attempts=item.attempts,
        why=_why(item),
        checks=checks,
        files=files,
        budget=item.budget.model_dump(mode="json"),
        budget_used=item.budget_used.model_dump(mode="json"),
    )


def _status(item: WorkItem) -> str:
    """Done is what a check has shown, and what the owner has stopped has not failed."""
    if _is_unproven(item):
        return WorkItemStatus.UNCHECKED.value
    stopped = item.is_cancelled or item.type is WorkItemType.TASK
    failed = item.status is WorkItemStatus.FAILED
    return "cancelled" if failed and stopped else item.status.value


def _is_unproven(item: WorkItem) -> bool:
    done = item.status is WorkItemStatus.DONE and not is_proven(item)
    return done or item.status is WorkItemStatus.UNCHECKED


def _why(item: WorkItem) -> str:
    if not _is_unproven(item):
        return ""
    why = why_unchecked(last_results(item))
    return f"{why[0].upper()}{why[1:]}."


def shown_answering(progress: AnswerProgress) -> wire.Answering:
    """Where an answer is that is being made."""
    return wire.Answering.model_validate(progress.model_dump(exclude={"connection_id"}))


def shown_delivery(delivery: Delivery) -> wire.Message:
    """An answer or a report."""
    message, reply = delivery.message, delivery.reply
    return wire.Message(
        sender="owner" if message.sender is Agent.USER else "silas",
        number=delivery.number,
        message_id=message.message_id,
        text=message.content if message.sender is Agent.USER else as_typed(message.content),
        timestamp=message.created_at,
        trace_id=message.trace_id,
        surface=reply.surface,
        final=reply.final,
        answers=reply.in_reply_to is not None,
        chips=reply.chips,
        interaction_register=reply.interaction_register,
        interaction_mode=reply.interaction_mode,
        card_id=reply.card_id,
        journal_changes=reply.journal_changes,
        work_item_id=reply.work_item_id,
        printed=reply.printed,
        undo_until=reply.undo_until,
        undo_items=reply.undo_items,
        leaves_at=reply.leaves_at,
        conversation=conversation_of(message.scope_id),
    )


def shown_saying(saying: StoredUserMessage) -> wire.Message:
    """What the owner said."""
    return wire.Message(
        sender="owner",
        number=saying.number,
        message_id=saying.message_id,
        text=saying.text,
        timestamp=saying.at,
        trace_id=f"trace_{saying.message_id}",
        conversation=conversation_of(saying.scope_id),
        attachments=[
            wire.FileAttached(sha256=each.sha256, name=each.name, kind=each.kind, size=each.size)
            for each in saying.files
        ],
    )
