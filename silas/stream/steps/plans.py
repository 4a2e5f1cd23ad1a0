"""Step 12: a plan becomes work items and a card. Nothing here lets anything run.

An agent may say `needs_approval=false`. Its plan never has a token, so it always needs approval.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from silas.gates.risk import riskiest
from silas.kernel import TaintLevel, WorkError, format_timestamp, join_taint
from silas.queue.models import Agent, MessageKind, PlanResult, RequestFolders, SystemEvent
from silas.review.decision_log import ASKED
from silas.storage import Transaction
from silas.stream.adopting import Adopted, Wanted, adopt
from silas.stream.cards import STOP_WORK, asking, fresh_copy
from silas.stream.gate_checks import known_of
from silas.stream.models import (
    ALL_WATCHES,
    LAST_UNDO,
    PLANNED,
    WHAT_RUNS,
    InteractionRegister,
    PlanAction,
    PlanActionType,
)
from silas.stream.ports import PlanReview, Reviews
from silas.stream.scheduling import watches
from silas.stream.steps.routing import is_owners
from silas.stream.steps.visiting import ask_for_wishes
from silas.stream.store import WorkOrigin
from silas.stream.turn_context import Turn, TurnContext, message_of
from silas.work.authorisation import plan_risk
from silas.work.models import (
    ENDED_WELL,
    PLAN_FIELDS,
    WorkItem,
    WorkItemResult,
    WorkItemStatus,
    WorkItemType,
)
from silas.work.output import outputs_to_show
from silas.work.plan import Plan
from silas.work.store import save_item
from silas.work.wording import status_words

_NO_REVIEWS = "I have a plan, but there is nobody here whom I could ask to approve it."
_TOO_MANY_CARDS = "The owner has not decided about your earlier requests yet. Ask again later."
_SAME = "The new plan is the one that did not work."
_GIVEN_UP = (
    "“{title}” did not work, and I found no other way. Everything that I could try by myself was "
    "tried. `silas work show {item}` shows what happened."
)
_NO_OTHER_WAY = "I found no other way."
_UNCHANGED = "It is the plan that you wanted changed, word by word. Say it in other words."
_NOT_REVISED = "“{title}” stays sent back: nothing of it is done. Ask again in other words."
_NO_SUCH_WORK = "I do not know which work is meant. `silas work list` shows what there is."
_HOW_TO_GO_ON = "`silas work list` shows what goes on, `silas review list` what waits for you."
_NOTHING_RUNS = (
    "Nothing runs in this conversation. What waits for your yes is not done before it; "
    "“What are you watching?” lists what is looked at again and again."
)
_UNDO_CARD = "This is what I would take back. Nothing happens before your yes."
_NO_UNDO = (
    "There is no change of files here that I can take back now: that is possible for five minutes. "
    "A change of your journal or in an account has *Undo* under its answer; Memory shows what I "
    "remember, with its changes."
)
_AGAIN = "Here is the plan again. Nothing happens before your yes."
_OVER = ENDED_WELL | {WorkItemStatus.FAILED, WorkItemStatus.REPLACED}
_STOPPED = frozenset(
    {
        WorkItemStatus.FAILED,
        WorkItemStatus.STUCK,
        WorkItemStatus.BLOCKED,
        WorkItemStatus.PAUSED,
        WorkItemStatus.REPLACED,
    }
)


async def handle_plan(services: TurnContext, turn: Turn) -> Turn:
    """Step 12: a plan becomes a card; work that is there already goes on or stops."""
    turn = await ask_for_wishes(services, turn)
    response = turn.response
    if response is None:
        return turn
    action = response.plan_action
    if action is not None and turn.goal is not None:
        # A visitor gets no plans, whoever writes them: what visitors wish for are single calls.
        await services.audit.log("visitor_plan_dropped", **known_of(turn))
        action = None
    if action is not None and action.action not in PLANNED:
        return await about_known_work(services, turn, action)
    if action is None or action.plan_markdown is None:
        return await _without_plan(services, turn)
    if not response.needs_approval:
        await services.audit.log("needs_approval_overridden", **known_of(turn))
    if services.reviews is None:
        return _adding(turn, _NO_REVIEWS)
    return await _planned(services, turn, action, services.reviews)


async def _planned(services: TurnContext, turn: Turn, action: PlanAction, reviews: Reviews) -> Turn:
    """Parse, store and ask; or say why not."""
    try:
        await _require_place(services, turn)
        adopted = await adopt(services, _wanted(services, turn, action))
        await _require_new_approach(services, turn, adopted.plan)
    except WorkError as error:
        await services.audit.log("plan_refused", **known_of(turn), reason=error.message)
        if _result_of(turn).replaces is not None:
            # What the planner says about a plan that is refused would announce it.
            return await _without_plan(services, turn.saying(error.message))
        return turn.saying(f"I wrote a plan that cannot be used. {error.message}")
    turn = _adding(turn, _where(_result_of(turn).folders, adopted))
    return await _ask(services, turn, adopted.plan, reviews=reviews, action=action)


def _where(folders: RequestFolders, adopted: Adopted) -> str:
    """Says where work happens if the plan did not, and why not in the folder that was picked."""
    parts = [folders.note]
    if adopted.filled_in is not None:
        parts.append(f"I work in {adopted.filled_in}.")
    return " ".join(filter(None, parts))


async def _require_place(services: TurnContext, turn: Turn) -> None:
    """Whoever is not the owner cannot bury him in questions."""
    most = services.policy.max_open_cards
    if not is_owners(services, turn) and await services.store.open_cards(turn.scope_id) >= most:
        raise WorkError(_TOO_MANY_CARDS)


def _result_of(turn: Turn) -> PlanResult:
    """What the planner's answer says about itself; the proxy's own plans say nothing."""
    payload = turn.message.payload
    return payload if isinstance(payload, PlanResult) else PlanResult(connection_id="owner")


async def _without_plan(services: TurnContext, turn: Turn) -> Turn:
    """An answer in place of a plan; whoever waits for another version of one is told."""
    result = _result_of(turn)
    text = turn.response.message if turn.response else ""
    if result.replaces is not None:
        return await _give_up(services, turn, result.replaces)
    if result.revises is not None:
        before = await services.items.get(result.revises)
        title = before.title if before else result.revises
        return turn.saying(f"{text}\n\n{_NOT_REVISED.format(title=title)}".strip())
    return turn


async def _give_up(services: TurnContext, turn: Turn, replaced: str) -> Turn:
    """All automated ways are exhausted: now, and only now, the person is asked what to do."""
    said = turn.response.message if turn.response else ""
    item = await services.items.get(replaced)
    given_up = _GIVEN_UP.format(title=item.title if item else replaced, item=replaced)
    told = f"{given_up}\n\n{said}".strip()
    checks = item.verification_results[-len(item.verify) or None :] if item else []
    if services.proactive is not None and item is not None and item.status is WorkItemStatus.STUCK:
        ended = WorkItemResult(
            work_item_id=item.id,
            status=item.status,
            summary=_NO_OTHER_WAY,
            verification_results=checks,
        )
        turn = turn.auditing(*await services.proactive.after_work(turn.message, item, ended))
    return replace(
        turn.saying(told),
        needs_attention=True,
        mood="blocked",
        told_work=replaced if item else None,
        printed=tuple(outputs_to_show((), checks)),
    )


def _wanted(services: TurnContext, turn: Turn, action: PlanAction) -> Wanted:
    decided, result = turn.decision, _result_of(turn)
    continues = action.continuation_of or (decided.continuation_of if decided else None)
    return Wanted(
        action=action.model_copy(update={"continuation_of": continues or result.continuation_of}),
        scope_id=turn.scope_id,
        is_owners=is_owners(services, turn),
        taint=turn.taint,
        initiative=turn.initiative,
        proxy_mode=turn.mode,
        register=decided.interaction_register if decided else InteractionRegister.EXECUTION,
        folders=result.folders,
        instead_of=result.revises or result.replaces,
        asked=result.asked or turn.text,
    )


async def _require_new_approach(services: TurnContext, turn: Turn, plan: Plan) -> None:
    """What did not work is not tried again, and what the owner wants changed is changed."""
    result = _result_of(turn)
    failed = await services.items.get(result.replaces) if result.replaces else None
    if failed is not None and failed.body.split() == plan.root.body.split():
        raise WorkError(_SAME)
    before = await services.items.get(result.revises) if result.revises else None
    if before is not None and _content(before) == _content(plan.root):
        raise WorkError(_UNCHANGED)


def _content(item: WorkItem) -> dict[str, Any]:
    fields = PLAN_FIELDS - {"id", "tasks", "interaction_mode"}
    return item.model_dump(mode="json", include=set(fields))


async def _ask(
    services: TurnContext, turn: Turn, plan: Plan, *, reviews: Reviews, action: PlanAction
) -> Turn:
    origin, result, now = turn.origin, _result_of(turn), format_timestamp(services.clock.now())
    replaced = result.replaces
    earlier = await services.store.work_origin(replaced) if replaced else None
    depth = earlier.depth + 1 if earlier else (1 if replaced else 0)
    review = PlanReview(
        card_id=services.ids.new("card"),
        items=list(plan.items),
        scope_id=turn.scope_id,
        connection_id=origin.connection_id,
        channel=origin.channel,
        trace_id=turn.message.trace_id,
        message=turn.response.message if turn.response else "",
        taint=turn.taint,
        sources=turn.sources,
        replaces=replaced or result.revises,
        requested_by=turn.speaker.value,
    )

    def store(tx: Transaction) -> None:
        for item in plan.items:
            save_item(tx, item, now=now)
            services.store.note_work(
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
        services.store.note_folders(tx, turn.message.trace_id, result.folders)
        reviews.ask_plan(tx, review)

    if services.context is not None and action.plan_markdown:
        await services.context.add_plan(
            turn.scope_id,
            plan.root.id,
            markdown=action.plan_markdown,
            taint=turn.taint,
            sources=turn.sources,
        )
    risk = riskiest(*(plan_risk(item, turn.taint, services.effect_of) for item in plan.items))
    asked = {**known_of(turn), "card_id": review.card_id, "risk": risk.value}
    return replace(
        turn.writing(store).auditing(lambda tx: services.audit.append(tx, ASKED, asked)),
        card_id=review.card_id,
    )


async def about_known_work(services: TurnContext, turn: Turn, action: PlanAction) -> Turn:
    """`execute_next` and `abort`: what the planner wants to become of work that is there already.

    Neither decides anything. To go on is asked on a card, as the plan stands. To stop is done for
    the owner's own words alone. A goal ends only by words that no model has read: what the owner
    has set up, the owner ends.
    """
    name = action.continuation_of or _result_of(turn).continuation_of
    if _NAMED.get(name) is action.action and is_owners(services, turn):
        return await _about_all(services, turn, name)
    item = await services.items.get(name) if name else None
    in_scope = item is not None and (
        is_owners(services, turn)
        or item.id in await services.store.of_scope(turn.scope_id, [item.id])
    )
    if item is None or not in_scope:
        return _adding(turn, _NO_SUCH_WORK)
    if action.action is PlanActionType.ABORT:
        return _stopping(services, turn, item)
    return await _going_on(services, turn, item)


_NAMED: Mapping[str | None, PlanActionType] = {
    ALL_WATCHES: PlanActionType.ABORT,
    WHAT_RUNS: PlanActionType.ABORT,
    LAST_UNDO: PlanActionType.EXECUTE_NEXT,
}


async def _about_all(services: TurnContext, turn: Turn, name: str | None) -> Turn:
    """What the owner has named by what it is, and not by its id."""
    if name == LAST_UNDO:
        card_id = await services.store.last_undo(turn.scope_id, now=services.clock.now())
        if card_id is None:
            return _adding(turn, _NO_UNDO)
        return replace(_adding(turn, _UNDO_CARD), card_id=card_id)
    if name == WHAT_RUNS:
        ids = await services.store.under_way(turn.scope_id)
        meant = [item for each in ids if (item := await services.items.get(each)) is not None]
    else:
        meant = await watches(services.items)
    for each in meant:
        turn = _stopping(services, turn, each)
    return turn if meant else _adding(turn, _NOTHING_RUNS)


def _stopping(services: TurnContext, turn: Turn, item: WorkItem) -> Turn:
    is_goal = item.type is WorkItemType.GOAL
    if item.has_ended or (item.status in _OVER and not is_goal):
        return _adding(turn, f"“{item.title}” is {status_words(item.status)}: nothing to stop.")
    foreign = turn.taint is TaintLevel.EXTERNAL or not is_owners(services, turn)
    if foreign or (is_goal and not turn.is_exact):
        return _adding(turn, f"To stop “{item.title}”: `silas work cancel {item.id}`.")
    event = message_of(
        services,
        turn,
        sender=Agent.RUNTIME,
        kind=MessageKind.SYSTEM_EVENT,
        content=item.title,
        payload=SystemEvent(event=STOP_WORK, data={"work_item_id": item.id}),
    )
    return _adding(turn, f"I stop “{item.title}”.").sending(event)


async def _going_on(services: TurnContext, turn: Turn, item: WorkItem) -> Turn:
    reviews = services.reviews
    if item.status not in _STOPPED or item.type is not WorkItemType.TASK or reviews is None:
        return _adding(turn, f"“{item.title}” is {status_words(item.status)}. {_HOW_TO_GO_ON}")
    taint = join_taint(turn.taint, await services.store.taint_of(item))
    review, write = asking(
        services,
        turn.origin,
        await fresh_copy(services, item),
        taint=taint,
        message=_AGAIN,
        replaces=item.id,
    )
    risk = plan_risk(item, taint, services.effect_of)
    asked = {**known_of(turn), "card_id": review.card_id, "risk": risk.value}
    asks = _adding(turn, _AGAIN).writing(write)
    return replace(
        asks.auditing(lambda tx: services.audit.append(tx, ASKED, asked)), card_id=review.card_id
    )


def _adding(turn: Turn, text: str) -> Turn:
    before = turn.response.message if turn.response else ""
    return turn.saying(f"{before}\n\n{text}".strip())
