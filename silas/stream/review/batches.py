"""Batches: plans that wait and are much alike, decided together by one signature over all of them.

1. Only plans of at most medium risk, as the runtime has sealed them, and never an undo.
2. An item that is unlike the others is flagged, and not chosen from the start.
3. The batch names every card with its hashes, its risk and its taint, in order, and their number.
   When one of them is decided elsewhere, the batch is outdated.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from silas.gates.risk import RiskLevel
from silas.kernel import TaintLevel
from silas.stream.card_statements import Card, batch_entry
from silas.stream.review.models import QUESTION, Action, Content, Kind, Question
from silas.stream.turn_context import TurnContext
from silas.work.models import WorkItem, WorkItemType

FEWEST = 3
LIFETIME = timedelta(days=7)
_TOGETHER = (RiskLevel.LOW, RiskLevel.MEDIUM)
_ACTION = "run"


def is_batchable(card: Card, items: Sequence[WorkItem]) -> bool:
    """Rule 1."""
    return (
        card.sealed
        and card.risk in _TOGETHER
        and card.requested_by != "undo"
        and len(items) == 1
        and items[0].type is WorkItemType.TASK
        and items[0].plan_hash == card.plan_hashes.get(items[0].id)
    )


def anomaly_of(card: Card, item: WorkItem, *, usual_place: str | None) -> str:
    """How an item differs from the others (rule 2); empty if it does not."""
    place = item.workspace.path if item.workspace else None
    if card.taint is TaintLevel.EXTERNAL:
        return "Text from outside had a part in it."
    if item.workspace and item.workspace.network:
        return "It uses the network."
    if place != usual_place:
        return f"It works somewhere else: {place or 'in a private folder'}."
    return "" if item.verify else "Nothing checks its result."


def batch_of(
    room: TurnContext, cards: Sequence[tuple[Card, WorkItem]], *, most: int
) -> Question | None:
    """The question about these cards, if there are enough of them to ask together."""
    chosen = [pair for pair in cards if is_batchable(pair[0], [pair[1]])][:most]
    if len(chosen) < FEWEST:
        return None
    places = Counter(item.workspace.path if item.workspace else None for _, item in chosen)
    usual = places.most_common(1)[0][0]
    entries = [
        {
            **batch_entry(card),
            "title": item.title,
            "actor": card.connection_id,
            "occurred_at": card.created_at.isoformat(),
            "reason": _reason(item),
            "anomaly": anomaly_of(card, item, usual_place=usual),
        }
        for card, item in chosen
    ]
    return _question(room, chosen[0][0], entries)


def selection_of(room: TurnContext, question: Question, chosen: Sequence[str]) -> Question | None:
    """A new batch of some of the items, in their order; it needs an approval of its own."""
    entries = [entry for entry in question.content.body["items"] if entry["card_id"] in chosen]
    known = [entry["card_id"] for entry in entries]
    if (
        not entries
        or set(known) != set(chosen)
        or len(known) == len(question.content.body["items"])
    ):
        return None
    quiet = [{**entry, "anomaly": ""} for entry in entries]
    return _question(room, question, quiet)


def _question(
    room: TurnContext, first: Card | Question, entries: list[dict[str, object]]
) -> Question:
    ids, now = [str(entry["card_id"]) for entry in entries], room.clock.now()
    odd = sum(bool(entry["anomaly"]) for entry in entries)
    told = "They are all alike." if not odd else f"{odd} of them are unlike the others: look there."
    risk = max((RiskLevel(str(entry["risk"])) for entry in entries), key=list(RiskLevel).index)
    external = any(entry["taint"] == TaintLevel.EXTERNAL for entry in entries)
    return Question(
        question_id=room.ids.new(QUESTION),
        scope_id=first.scope_id,
        trace_id=first.trace_id,
        about=f"batch:{','.join(ids)}",
        content=Content(
            kind=Kind.BATCH,
            intent=f"Decide {len(ids)} plans together",
            rationale=f"{len(ids)} plans wait that stay in the sandbox. {told}",
            risk=risk,
            taint=TaintLevel.EXTERNAL if external else TaintLevel.OWNER,
            actions=[
                Action(value="approve", label=f"Approve {len(ids)} and run them"),
                Action(value="edit_selection", label="Approve only those chosen"),
                Action(value="decline", label=f"Decline {len(ids)}, do nothing"),
            ],
            body={
                "goal_id": first.scope_id,
                "action": _ACTION,
                "item_ids": ids,
                "count": len(ids),
                "items": entries,
            },
        ),
        created_at=now,
        expires_at=now + LIFETIME,
    )


def _reason(item: WorkItem) -> str:
    checks = len(item.verify)
    return "no check" if not checks else f"{checks} check{'s' if checks > 1 else ''}"
