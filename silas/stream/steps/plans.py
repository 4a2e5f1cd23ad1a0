"""Step 12: a plan becomes work items and a card. Nothing here lets anything run.

An agent may say `needs_approval=false`. Its plan never has a token, so it always needs approval.
"""

from silas.gates.risk import RiskLevel
from silas.kernel import WorkError, format_timestamp
from silas.queue.models import PlanResult
from silas.storage import Transaction
from silas.stream.adopting import Wanted, adopt, plan_risk
from silas.stream.asking import is_owners
from silas.stream.decision_log import ASKED
from silas.stream.gating import known_of
from silas.stream.models import AgentResponse, InteractionRegister, PlanAction, PlanActionType
from silas.stream.ports import PlanReview, Reviews
from silas.stream.store import WorkOrigin
from silas.stream.turn_context import Turn, TurnContext
from silas.work.plan import Plan
from silas.work.store import save_item

_NO_REVIEWS = "I have a plan, but there is nobody here whom I could ask to approve it."
_TOO_MANY_CARDS = "The owner has not decided about your earlier requests yet. Ask again later."
_SAME = "The new plan is the one that did not work."
_GIVEN_UP = (
    "{item} did not work, and I found no other way. Everything that I could try by myself was "
    "tried. `silas work show {item}` shows what happened."
)
_PLANNED = (PlanActionType.PROPOSE, PlanActionType.REVISE)


async def handle_plan(room: TurnContext, turn: Turn) -> Turn:
    """Step 12: parse, store and ask; or say why not."""
    response, replaced = turn.response, _replaced(turn)
    if response is None:
        return turn
    action = response.plan_action
    if action is None or action.plan_markdown is None or action.action not in _PLANNED:
        return turn if replaced is None else _give_up(turn, replaced)
    if not response.needs_approval:
        await room.audit.log("needs_approval_overridden", **known_of(turn))
    if room.reviews is None:
        return turn.saying(f"{response.message}\n\n{_NO_REVIEWS}".strip())
    try:
        await _require_place(room, turn)
        plan = await adopt(room, _wanted(room, turn, action))
        await _require_new_approach(room, plan, replaced)
    except WorkError as error:
        await room.audit.log("plan_refused", **known_of(turn), reason=error.message)
        if replaced is not None:
            return _give_up(turn, replaced)
        return turn.saying(f"I wrote a plan that cannot be used. {error.message}")
    return await _ask(room, turn, plan, reviews=room.reviews, response=response)


async def _require_place(room: TurnContext, turn: Turn) -> None:
    """Whoever is not the owner cannot bury him in questions."""
    most = room.policy.max_open_cards
    if not is_owners(room, turn) and await room.store.open_cards(turn.scope_id) >= most:
        raise WorkError(_TOO_MANY_CARDS)


def _replaced(turn: Turn) -> str | None:
    payload = turn.message.payload
    return payload.replaces if isinstance(payload, PlanResult) else None


def _give_up(turn: Turn, replaced: str) -> Turn:
    """All automated ways are exhausted: now, and only now, a person is needed."""
    said = turn.response.message if turn.response else ""
    told = f"{_GIVEN_UP.format(item=replaced)}\n\n{said}".strip()
    return turn.saying(told).having(needs_attention=True, mood="blocked")


def _wanted(room: TurnContext, turn: Turn, action: PlanAction) -> Wanted:
    decided = turn.decision
    continues = action.continuation_of or (decided.continuation_of if decided else None)
    payload = turn.message.payload
    if isinstance(payload, PlanResult) and continues is None:
        continues = payload.continuation_of
    return Wanted(
        action=action.model_copy(update={"continuation_of": continues}),
        scope_id=turn.scope_id,
        is_owners=is_owners(room, turn),
        taint=turn.taint,
        initiative=turn.initiative,
        proxy_mode=turn.mode,
        register=decided.interaction_register if decided else InteractionRegister.EXECUTION,
    )


async def _require_new_approach(room: TurnContext, plan: Plan, replaced: str | None) -> None:
    before = await room.items.get(replaced) if replaced else None
    if before is not None and before.body.split() == plan.root.body.split():
        raise WorkError(_SAME)


async def _ask(
    room: TurnContext, turn: Turn, plan: Plan, *, reviews: Reviews, response: AgentResponse
) -> Turn:
    origin, replaced, now = turn.origin, _replaced(turn), format_timestamp(room.clock.now())
    earlier = await room.store.work_origin(replaced) if replaced else None
    depth = earlier.depth + 1 if earlier else (1 if replaced else 0)
    review = PlanReview(
        card_id=room.ids.new("card"),
        items=list(plan.items),
        scope_id=turn.scope_id,
        connection_id=origin.connection_id,
        channel=origin.channel,
        trace_id=turn.message.trace_id,
        message=response.message,
        taint=turn.taint,
        replaces=replaced,
        requested_by=turn.speaker.value,
    )

    def store(tx: Transaction) -> None:
        for item in plan.items:
            save_item(tx, item, now=now)
            room.store.note_work(
                tx,
                WorkOrigin(
                    work_item_id=item.id,
                    trace_id=turn.message.trace_id,
                    scope_id=turn.scope_id,
                    taint=turn.taint,
                    depth=depth,
                    replaces=replaced,
                ),
            )
        reviews.ask_plan(tx, review)

    if room.context is not None and response.plan_action and response.plan_action.plan_markdown:
        await room.context.add_plan(
            turn.scope_id,
            plan.root.id,
            markdown=response.plan_action.plan_markdown,
            taint=turn.taint,
        )
    risk = max((plan_risk(item, turn.taint) for item in plan.items), key=tuple(RiskLevel).index)
    asked = {**known_of(turn), "card_id": review.card_id, "risk": risk.value}
    return (
        turn.writing(store)
        .auditing(lambda tx: room.audit.append(tx, ASKED, asked))
        .having(card_id=review.card_id)
    )
