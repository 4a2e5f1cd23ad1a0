"""Plans before the owner, from the card to the execution (5.1.2, steps 3 to 9).

`PlanCards` says what a card shows of its work items, and how risky they are. `asking` puts a plan
there that the runtime itself comes up with. `follow_decision` does what was decided:

1. The event on the bus names the card alone. What was decided is read from the reviews: a row on
   the bus authorises nothing.
2. The items are exactly those that the card showed, by their hashes; otherwise nothing is signed.
3. A yes has led to a token for each item, used up and attached in the transaction that stored it.
   What an older version decided, or what was stopped then, is verified and attached now. A yes that
   is too old to begin with is asked for again, on a new card.
4. Then the execution is asked for, once for each card. A goal with a schedule waits for it.
5. "Ask for changes" replaces the items: the planner gets the plan with the owner's words, and comes
   back with a revised one on a card of its own. Without words, a plan that writes a text becomes a
   draft to edit.
6. Anything else ends the items, and the person is told.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from silas.approval import ApprovalVerdict, DecisionRefused
from silas.audit.models import AuditTrail, OwnerKey
from silas.gates.risk import EffectOf, RiskLevel, riskiest
from silas.kernel import ApprovalError, Clock, Provenance, TaintLevel, format_timestamp
from silas.kernel.when import schedule_in_words
from silas.queue.consumer import Handled
from silas.queue.models import (
    Agent,
    AgentReply,
    ExecutionRequest,
    MessageKind,
    PlanRequest,
    QueueMessage,
    Urgency,
    follow,
)
from silas.queue.store import QueueStore
from silas.review.cards import (
    CHANGED,
    DEFAULT_TTL,
    UNDO,
    Card,
    CardDecision,
    CardStore,
    wished_changes,
)
from silas.review.decisions import Decisions
from silas.review.questions import QUESTION
from silas.storage import Database, Durability, Transaction
from silas.stream.errors import DecisionUnknown
from silas.stream.interaction import Surface
from silas.stream.ports import PlanReview
from silas.stream.store import Origin, WorkOrigin
from silas.stream.turn_context import TurnContext, Write
from silas.work.authorisation import attach, plan_risk, plans_of
from silas.work.control import CANCELLED, EXPIRED
from silas.work.execution_context import ExecutionContext
from silas.work.letters import is_to_known, letter_of
from silas.work.models import (
    ALWAYS_ON,
    STOPPED_BY_OWNER,
    BudgetUsed,
    WorkItem,
    WorkItemStatus,
    WorkItemType,
)
from silas.work.origins import OriginStore
from silas.work.store import WorkItemStore, save_item

STOP_WORK = "stop_work"
"""The event that lets the runtime end work that the owner no longer wants."""


class PlanCards(CardStore):
    """`silas.stream.ports.Reviews`: the cards, and how plans are put on them."""

    def __init__(
        self,
        database: Database,
        queue: QueueStore,
        *,
        decisions: Decisions,
        items: WorkItemStore,
        effect_of: EffectOf,
        origins: OriginStore,
        keys: OwnerKey,
        audit: AuditTrail,
        clock: Clock,
        ttl: timedelta = DEFAULT_TTL,
    ) -> None:
        """`effect_of` gives what a tool declares; the risk of a plan follows from it."""
        super().__init__(
            database,
            queue,
            decisions=decisions,
            plans=partial(plans_of, items),
            keys=keys,
            audit=audit,
            clock=clock,
            ttl=ttl,
        )
        self._effect_of = effect_of
        self._origins = origins

    def ask_plan(self, tx: Transaction, review: PlanReview) -> None:
        """Put a plan before the owner, as part of a transaction."""
        now = self._clock.now()
        risk = riskiest(*(self._risk(tx, item, review) for item in review.items))
        ttl = self._ttl if review.valid_for is None else review.valid_for
        card = Card(
            card_id=review.card_id,
            scope_id=review.scope_id,
            connection_id=review.connection_id,
            channel=review.channel,
            trace_id=review.trace_id,
            title=review.items[0].title,
            message=review.message,
            risk=risk,
            taint=review.taint,
            sources=self._sources_in(tx, review),
            plan_hashes={item.id: item.plan_hash for item in review.items},
            replaces=review.replaces,
            requested_by=review.requested_by,
            created_at=now,
            expires_at=now + ttl,
            state="open",
        )
        self.ask(tx, card)

    def _sources_in(self, tx: Transaction, review: PlanReview) -> tuple[str, ...]:
        """Where a plan from outside comes from; its items are noted with it, for their runs."""
        if review.taint is not TaintLevel.EXTERNAL:
            return ()
        names = [item.follow_up_of for item in review.items if item.follow_up_of]
        names += [review.replaces] if review.replaces else []
        known = self._origins.of_work_in(tx, [*names, *(item.id for item in review.items)])
        found = Provenance(review.taint, review.sources).joined(known)
        for item in review.items:
            self._origins.note_work_in(tx, item.id, found)
        return found.sources

    def _risk(self, tx: Transaction, item: WorkItem, review: PlanReview) -> RiskLevel:
        """An undo is the runtime's own: it puts back what was kept, where nobody has changed it.

        A letter that is shown whole is a medium risk, if nobody in it is new.
        """
        letter = letter_of(item)
        if letter is not None and is_to_known(tx, letter, review.taint):
            return RiskLevel.MEDIUM
        if review.requested_by == UNDO and not (item.approvals or item.reaches_network):
            return RiskLevel.LOW
        return plan_risk(item, review.taint, self._effect_of)


def require_shown(card: Card, items: Sequence[WorkItem | None]) -> list[WorkItem]:
    """The items, if they are all and exactly those of the card; raises `DecisionRefused`.

    To be asked before they are shown: the owner's yes is to the hashes of the card.
    """
    found = [item for item in items if item is not None]
    if {item.id: item.plan_hash for item in found} != card.plan_hashes:
        raise DecisionRefused(CHANGED)
    return found


_FRESH: dict[str, Any] = {
    "approval_token": None,
    "status": WorkItemStatus.PENDING,
    "attempts": 0,
    "verification_results": [],
    "created_at": None,
    "version": 0,
}


async def fresh_copy(services: TurnContext, item: WorkItem, **changes: object) -> WorkItem:
    """The item as if it had never run, under an id of its own."""
    base, number = str(changes.pop("id", item.id))[:110], 2
    while await services.items.known([name := f"{base}-{number}"]):
        number += 1
    update = {**_FRESH, "budget_used": BudgetUsed(), "id": name, **changes}
    return WorkItem.model_validate(item.model_copy(update=update).model_dump())


def asking(
    services: TurnContext,
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
        card_id=card_id or services.ids.new("card"),
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
    now, reviews = format_timestamp(services.clock.now()), services.reviews

    def write(tx: Transaction) -> None:
        if reviews is None:
            return
        save_item(tx, item, now=now)
        services.store.note_work(
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
    services: TurnContext,
    message: QueueMessage,
    origin: Origin,
    *,
    review: PlanReview,
    write: Write,
) -> Handled:
    """The card is written, and the person is told where it is."""
    told = reply(services, message, origin, review.message, card_id=review.card_id)
    return Handled((told,), (write,), Durability.TRUST)


def reply(
    services: TurnContext,
    message: QueueMessage,
    origin: Origin,
    text: str,
    *,
    card_id: str | None = None,
    final: bool = True,
) -> QueueMessage:
    """A message of the runtime's to the person; with a card, they are asked to look at it."""
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
            final=final,
        ),
        ids=services.ids,
        clock=services.clock,
        urgency=Urgency.NEEDS_ATTENTION if card_id else Urgency.INFORMATIONAL,
    )


_TOO_LATE = "you said yes too long ago for me to begin with it now."
_LAPSED = f"{_TOO_LATE} Here is the plan again: nothing happens before your next yes."
_CHANGED = "The plan is not the one that the card showed. Nothing was approved."
_WHICH_CHANGES = "sent back. Tell me what should be different, and I plan it anew."


async def follow_decision(
    services: TurnContext, ctx: ExecutionContext, message: QueueMessage, card_id: str
) -> Handled:
    """What a decision leads to; or an answer, which is about no plan."""
    if card_id.startswith(QUESTION):
        if services.proactive is None:
            raise DecisionUnknown
        return await services.proactive.follow(message, card_id)
    decided = await services.reviews.decision(card_id) if services.reviews else None
    if decided is None:
        raise DecisionUnknown
    origin = await services.store.require_origin(message.trace_id)
    items = await _shown(ctx, decided)
    if items is None:
        await services.audit.log("decision_refused", card_id=card_id, reason=_CHANGED)
        return Handled((reply(services, message, origin, _CHANGED),))
    root = items[0]
    verdict = decided.decision.verdict
    if verdict is ApprovalVerdict.EDIT_REQUESTED and decided.requested_by != UNDO:
        return await _sent_back(services, ctx, message, origin, decided=decided, items=items)
    if verdict is not ApprovalVerdict.APPROVED:
        # Who lets a result stand has declined nothing, and neither has who decided nothing.
        if decided.requested_by != UNDO and not decided.expired:
            await services.audit.log("plan_declined", work_item_id=root.id, verdict=verdict.value)
        await ctx.control.cancel(root.id, event=EXPIRED if decided.expired else CANCELLED)
        if root.spawned_by is not None:  # else the next cycle would ask the same again
            await ctx.control.pause(root.spawned_by)
        return _refused(services, message, origin, decided, root)
    return await _approved(services, ctx, message, origin, decided=decided, items=items)


async def _approved(
    services: TurnContext,
    ctx: ExecutionContext,
    message: QueueMessage,
    origin: Origin,
    *,
    decided: CardDecision,
    items: list[WorkItem],
) -> Handled:
    """The work begins, unless the owner has stopped it meanwhile: then that is what is told."""
    root = items[0]
    if root.status in STOPPED_BY_OWNER:
        await services.audit.log(
            "decision_overtaken", card_id=decided.card_id, work_item_id=root.id
        )
        told = f"{root.title}: approved, but it was stopped before ({root.status.value})."
        return Handled((reply(services, message, origin, f"{told} I do not begin it."),))
    try:
        for item in items:
            if not await _authorised(ctx, item, decided):
                return await _asked_again(services, message, origin, decided=decided, items=items)
    except ApprovalError as error:
        return Handled((reply(services, message, origin, error.message),))
    came = await services.store.work_origin(root.id)
    if came is not None:  # what the plan is derived from goes on with it
        message = message.model_copy(update={"taint": came.taint})
    return _begin(services, message, origin, root, card_id=decided.card_id)


async def _asked_again(
    services: TurnContext,
    message: QueueMessage,
    origin: Origin,
    *,
    decided: CardDecision,
    items: list[WorkItem],
) -> Handled:
    """A new card for what was decided too long ago; for what has begun since, only a word."""
    root, reviews = items[0], services.reviews
    await services.audit.log("decision_lapsed", card_id=decided.card_id, work_item_id=root.id)
    waits = all(item.status is WorkItemStatus.PENDING for item in items)
    if reviews is None or not waits or decided.requested_by == UNDO:
        return Handled((reply(services, message, origin, f"{root.title}: {_TOO_LATE}"),))
    review = PlanReview(
        card_id=f"{decided.card_id}_again",
        items=items,
        scope_id=origin.scope_id,
        connection_id=origin.connection_id,
        channel=origin.channel,
        trace_id=origin.trace_id,
        message=f"{root.title}: {_LAPSED}",
        taint=await services.store.taint_of(root),
        requested_by=decided.requested_by,
    )
    return asked(
        services, message, origin, review=review, write=lambda tx: reviews.ask_plan(tx, review)
    )


def _refused(
    services: TurnContext,
    message: QueueMessage,
    origin: Origin,
    decided: CardDecision,
    root: WorkItem,
) -> Handled:
    """Nothing is done."""
    if decided.requested_by == UNDO:
        return Handled()  # what was not undone stays; nobody has to be told
    said = "nobody decided in time" if decided.expired else decided.decision.verdict.value
    told = f"{root.title}: not approved ({said}). Nothing of it was done."
    if root.spawned_by is not None:
        told += f" The goal is paused; `silas work resume {root.spawned_by}` lets it go on."
    return Handled((reply(services, message, origin, told),))


async def _sent_back(
    services: TurnContext,
    ctx: ExecutionContext,
    message: QueueMessage,
    origin: Origin,
    *,
    decided: CardDecision,
    items: list[WorkItem],
) -> Handled:
    """The owner wants the plan changed (rule 5)."""
    root, wish = items[0], wished_changes(decided.decision)
    draft = (
        () if wish or services.proactive is None else await services.proactive.edit(origin, root)
    )
    await _replace(services, ctx, items)
    if draft:
        text = f"{root.title}: here is its text, for you to change."
        return Handled((reply(services, message, origin, text),), tuple(draft), Durability.TRUST)
    if not wish:
        return Handled((reply(services, message, origin, f"{root.title}: {_WHICH_CHANGES}"),))
    begun = reply(services, message, origin, f"{root.title}: I change the plan.", final=False)
    return Handled((begun, await _revision(services, message, origin, root, wish=wish)))


async def stop_work(
    services: TurnContext, ctx: ExecutionContext, message: QueueMessage, work_item_id: str
) -> Handled:
    """End work that the owner no longer wants, and say what is so then."""
    origin = await services.store.require_origin(message.trace_id)
    stopped = await ctx.control.cancel(work_item_id)
    if not stopped:
        return Handled()  # it has ended meanwhile, and that was told
    text = f"“{message.content}” is stopped. Nothing more of it is done."
    return Handled((reply(services, message, origin, text),))


async def _replace(services: TurnContext, ctx: ExecutionContext, items: Sequence[WorkItem]) -> None:
    """Nothing of these plans is ever done; what replaces them is another plan."""

    def record(tx: Transaction, before: WorkItem) -> None:
        services.audit.append(tx, "work_replaced", {"work_item_id": before.id})

    for item in items:
        if item.status is WorkItemStatus.PENDING:
            status = WorkItemStatus.REPLACED
            await ctx.items.update_status(item.id, status, item.budget_used, record=record)


async def _revision(
    services: TurnContext, message: QueueMessage, origin: Origin, root: WorkItem, *, wish: str
) -> QueueMessage:
    """The request for another version, in the owner's words; once for each plan.

    It is about the folders of the request, not about one that the plan has named: nobody has
    agreed to that one.
    """
    taint = await services.store.taint_of(root)
    request = follow(
        message,
        sender=Agent.RUNTIME,
        kind=MessageKind.PLAN_REQUEST,
        content=wish,
        payload=PlanRequest(
            connection_id=origin.connection_id,
            interaction_register="execution",
            interaction_mode=root.interaction_mode.value,
            continuation_of=root.follow_up_of,
            revises=root.id,
            folders=await services.store.folders_of(origin.trace_id),
        ),
        ids=services.ids,
        clock=services.clock,
        taint=taint,
    )
    once = {"message_id": f"revise.{root.id}"[:200], "trace_id": origin.trace_id}
    return request.model_copy(update=once)


async def _shown(ctx: ExecutionContext, decided: CardDecision) -> list[WorkItem] | None:
    """The items of the card as they are stored, the whole before its parts; None if they differ."""
    items = []
    for name, shown in decided.plan_hashes.items():
        item = await ctx.items.get(name)
        if item is None or item.plan_hash != shown:
            return None
        items.append(item)
    return sorted(items, key=lambda item: item.parent in decided.plan_hashes) or None


async def _authorised(ctx: ExecutionContext, item: WorkItem, decided: CardDecision) -> bool:
    """Whether the item has its token now; False if the decision is too old for that."""
    token, token_id = item.approval_token, decided.tokens.get(item.id)
    when, approvals = decided.decided_at, ctx.approvals
    is_current = when is not None and approvals.is_current(when)
    if is_current and token is not None and token.token_id == token_id:
        return True  # the door of execution says whether it is genuine
    if token is not None:
        check = approvals.check_goal if item.type is WorkItemType.GOAL else approvals.check
        if (await check(token, item))[0]:
            return True
    if token_id is None or not is_current:
        return False
    await attach(ctx, item, (await approvals.tokens.load(token_id)).token)
    return True


def _goal_begins(services: TurnContext, goal: WorkItem) -> str:
    """What a yes to a goal leads to."""
    if goal.schedule != ALWAYS_ON:
        off = (
            ""
            if services.policy.starts_goals
            else " It is not started: `scheduler.enabled` is off."
        )
        times = schedule_in_words(goal.schedule or "")
        # What words cannot say is said as the plan writes it.
        return f"approved, {'at ' if times == goal.schedule else ''}{times}.{off}"
    if goal.agent != "stream":
        return "approved, but it is never started: only a cron expression gives it times."
    gates = "1 gate looks" if len(goal.gates) == 1 else f"{len(goal.gates)} gates look"
    said = f"approved. Its {gates} at every turn from now on, until you cancel it."
    if not goal.gates:
        said = "approved. It has no gates, so nothing changes by it."
    if goal.access_levels:
        said += " Its access levels are in force only if `active_goal` in the settings names it."
    return said


def _begin(
    services: TurnContext, message: QueueMessage, origin: Origin, root: WorkItem, *, card_id: str
) -> Handled:
    if root.type is WorkItemType.GOAL and root.schedule is not None:
        return Handled(
            (reply(services, message, origin, f"{root.title}: {_goal_begins(services, root)}"),)
        )
    waits = services.policy.letters_wait if letter_of(root) is not None else None
    leaves_at = None if waits is None else services.clock.now() + waits
    request = follow(
        message,
        sender=Agent.RUNTIME,
        kind=MessageKind.EXECUTION_REQUEST,
        content=root.title,
        # A repair belongs to its goal, whose cycle goes on with it.
        payload=ExecutionRequest(
            work_item_id=root.spawned_by or root.id,
            connection_id=origin.connection_id,
            not_before=leaves_at,
        ),
        ids=services.ids,
        clock=services.clock,
        task_id=root.id,
        urgency=Urgency.INFORMATIONAL,
    )
    once = request.model_copy(update={"message_id": f"execute.{card_id}"})
    told = f"{root.title}: approved. I am starting."
    if waits is not None:
        minutes = int(waits.total_seconds() // 60)
        told = f"{root.title}: approved. It leaves in {minutes} minutes, unless you keep it here: "
        told += f"`silas approvals revoke {root.id}`."
    begun = reply(services, message, origin, told, final=False)
    if leaves_at is not None and isinstance(begun.payload, AgentReply):
        stays = {"work_item_id": root.id, "leaves_at": leaves_at}
        begun = begun.model_copy(update={"payload": begun.payload.model_copy(update=stays)})
    return Handled((once, begun))
