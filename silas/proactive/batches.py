"""Reviewed batches: what fits the items of an account is put before the owner, and followed.

    batches = Batches(...)                       # `ExecutionContext.propose` is `batches.propose`
    batches.attach(executor.context)
    reviews.on_answer(QuestionKind.ITEMS, batches.answered)

1. In a cycle of a goal with a policy, its source is looked at, and `triage` says what fits; where
   nothing does and the policy wants it, a model without tools guesses from one line of each. What
   is surely right becomes a card of at most so many items; what is less sure a card of its own,
   without ticks; of what is not known, one item of each sender becomes a teaching card, a few each
   day (`silas.review.unasked`).
2. A card shows one line for each item, and names goal, connection, tool and arguments, the items in
   their order with the state that they were in, and how many there are. The yes is to all of that.
3. Fewer items are another batch: it is asked anew, and approved by itself.
4. An answer on a teaching card is for that item. The rule for later ones is a question of its own,
   shown in the same place and signed by itself; it is listed, and in force until it is taken back.
5. What is known from earlier answers, and what was proposed before: `lessons`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, NamedTuple

from pydantic import ValidationError

from silas.approval import ApprovalScope, BatchPayload
from silas.audit.models import AuditTrail
from silas.gates.risk import ActionKind, Reversibility, RiskLevel, risk_of_tool
from silas.kernel import (
    Clock,
    IdFactory,
    TaintLevel,
    WorkError,
)
from silas.kernel.models import Data
from silas.proactive.batch_run import (
    ACCOUNT_ARGUMENT,
    BatchReport,
    ItemState,
    batch_item,
    batch_report,
    run_batch,
)
from silas.proactive.lessons import (
    EDIT,
    NO_RULE,
    Guesses,
    ItemAnswers,
    entry_of,
    taps_of,
)
from silas.proactive.outcomes import (
    SOME,
    ActionOutcome,
    case_of_batch,
    family_of_tool,
    record_outcome,
)
from silas.proactive.triage import (
    Band,
    Bands,
    ItemChoice,
    SeenItem,
    Sorter,
    SourceNotUnderstood,
    candidates_of,
    chunks,
)
from silas.queue.models import (
    OWN_CHANNEL,
    Agent,
    AgentReply,
    MessageKind,
    QueueMessage,
    Urgency,
)
from silas.review.decisions import Decisions, QuestionKind
from silas.review.questions import (
    QUESTION,
    YES,
    AnsweredQuestion,
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionStore,
    batch_payload,
)
from silas.review.unasked import UnaskedCards
from silas.storage import Database, Transaction
from silas.tools.declaration import ArgumentsRefused, Tool
from silas.work.batch_policy import LEAVE, BatchAction, BatchPolicy, ItemCondition, label_of
from silas.work.errors import WorkItemUnknown
from silas.work.execution_context import ExecutionContext
from silas.work.models import ENDED_WELL, WorkItem
from silas.work.ports import ToolCaller
from silas.work.store import require_item
from silas.work.undo_calls import NOTHING_UNDOES, answer_in

ITEMS, BATCH = "items", "batch"
"""How the ids of questions' subjects and of batches begin."""
DECLINE = "decline"
_CARD_TTL = timedelta(days=5)
_MOST_OPEN = 6
"""Cards of one goal that wait at once; the rest stays where it is until the next look."""
_OUTCOMES = {
    YES: ActionOutcome.APPROVED,
    EDIT: ActionOutcome.EDITED,
    DECLINE: ActionOutcome.DECLINED,
}


class CannotLook(WorkError):
    """The items of the account could not be looked at. Try `silas connections check`."""

    code = "E_WORK_SOURCE"


class BatchLimits(Data):
    """How much is proposed."""

    bands: Bands = Bands()


class _Target(NamedTuple):
    """An action as it can be proposed now: its tool, and with which connection."""

    name: str
    label: str
    action: BatchAction
    connection: str
    connection_name: str
    risk: RiskLevel
    undoes: bool


async def _as_usual(goal_id: str | None = None) -> int:
    del goal_id
    return 10


@dataclass
class Batches:
    """What is proposed about the items of the owner's accounts, in one data directory."""

    database: Database
    questions: QuestionStore
    decisions: Decisions
    audit: AuditTrail
    clock: Clock
    ids: IdFactory
    owner_id: str
    enqueue: Callable[[QueueMessage], Awaitable[object]]
    unasked: UnaskedCards
    """The one budget of cards that nobody asked for; teaching cards are of it."""
    limits: BatchLimits = field(default_factory=BatchLimits)
    size: Callable[[str | None], Awaitable[int]] = _as_usual
    """How many items one card of a goal holds now."""
    high_min: Callable[[str | None], Awaitable[float]] | None = None
    """From which confidence on an item of a goal is surely right now; None: as `limits` says."""
    guesses: Guesses = field(default_factory=Guesses)
    _ctx: ExecutionContext | None = None

    def attach(self, ctx: ExecutionContext) -> None:
        """What batches are executed with; until then none is."""
        self._ctx = ctx

    @property
    def answers(self) -> ItemAnswers:
        """What the owner has answered about items before."""
        return ItemAnswers(self.database, self.questions, self.audit, self.clock)

    # Looking, and asking.

    async def propose(self, ctx: ExecutionContext, goal: WorkItem, calls: ToolCaller) -> None:
        """Rule 1; raises `WorkError` if the source cannot be looked at."""
        policy = goal.batch
        if policy is None:
            return
        items, whole = await self._look(ctx, policy, calls)
        answers = self.answers
        if whole:
            await answers.outdate(goal.id, {each.item_id for each in items})
        earlier = await answers.lessons(ctx, goal.id)
        waiting = await answers.waiting(goal.id)
        fresh = [each for each in items if each.identity not in earlier.seen]
        taught = await answers.taught(goal.id)
        bands = self.limits.bands
        if self.high_min is not None:
            bands = bands.model_copy(update={"high_min": await self.high_min(goal.id)})
        sorter = Sorter(policy, bands, taught, earlier.knowledge)
        choices = sorter.choices(fresh, self.clock.now())
        if guessed := await self.guesses.of(goal, policy, choices):
            choices = replace(sorter, guessed=guessed).choices(fresh, self.clock.now())
        asked = await self._batches_of(ctx, goal, choices, most=_MOST_OPEN - len(waiting))
        teaching = await self._teaching_of(ctx, goal, choices)
        for question in asked:
            await self.questions.ask(question)
        for card, *rules in teaching:
            if await self.unasked.ask(card):
                for rule in rules:  # it stands below its card, and is no card more
                    await self.questions.ask(rule)
        await self.audit.log(
            "items_sorted",
            goal=goal.id,
            found=len(items),
            new=len(fresh),
            cards=len(asked),
            teaching=len(teaching),
        )

    async def _look(
        self, ctx: ExecutionContext, policy: BatchPolicy, calls: ToolCaller
    ) -> tuple[list[SeenItem], bool]:
        """The items, and whether these are all that there are."""
        source = policy.source
        tool = ctx.registry.get(source.tool)
        if tool is None or not tool.only_observes:
            raise CannotLook(f"{source.tool} is no tool of this goal that only looks.")
        view = await calls.call(source.tool, dict(source.args))
        answer = answer_in(view.return_value)
        if not view.success or not answer or "error" in answer:
            raise CannotLook(
                str(answer.get("error") or view.error or f"{source.tool} gave no answer.")
            )
        try:
            items = candidates_of(source, answer)
        except (SourceNotUnderstood, ValidationError) as error:
            raise CannotLook(str(error)) from error
        limit = source.args.get("limit")
        return items, isinstance(limit, int) and len(items) < limit

    async def _targets(self, ctx: ExecutionContext, policy: BatchPolicy) -> dict[str, _Target]:
        """The actions that the connection may do now."""
        account = policy.source.args.get(ACCOUNT_ARGUMENT)
        named = {ACCOUNT_ARGUMENT: account} if account is not None else {}
        found = {}
        for name, action in policy.actions.items():
            tool = ctx.registry.get(action.tool)
            if tool is None or tool.account is None:
                continue
            try:
                context = await tool.account.gate_context({**action.args, **named})
            except ArgumentsRefused as error:
                raise CannotLook(str(error)) from error
            needed = set(context.get("required_permissions") or ())
            if needed <= set(context.get("permissions_granted") or ()):
                found[name] = _Target(
                    name,
                    label_of(policy, name),
                    action,
                    str(context["connection_id"]),
                    str(context["connection"]),
                    _risk_of(ctx, tool),
                    tool.inverse is not None,
                )
        return found

    async def _batches_of(
        self, ctx: ExecutionContext, goal: WorkItem, choices: Sequence[ItemChoice], *, most: int
    ) -> list[Question]:
        policy = goal.batch
        if policy is None:
            return []
        targets, size = await self._targets(ctx, policy), await self.size(goal.id)
        asked: list[Question] = []
        for band in (Band.HIGH, Band.MEDIUM):
            for name, target in targets.items():
                fitting = [each for each in choices if (each.action, each.band) == (name, band)]
                asked += [self._card(goal, target, each) for each in chunks(fitting, size)]
        missing = set(policy.actions) - set(targets)
        if missing and any(each.action in missing for each in choices):
            await self.audit.log("items_not_allowed", goal=goal.id, actions=sorted(missing))
        return asked[: max(0, most)]

    def _card(self, goal: WorkItem, target: _Target, choices: Sequence[ItemChoice]) -> Question:
        entries = [entry_of(each) for each in choices]
        return self._items_card(goal.id, target, entries)

    def _items_card(
        self, goal_id: str, target: _Target, entries: Sequence[Mapping[str, Any]]
    ) -> Question:
        """The card of a batch (rule 2)."""
        shown = self._payload(goal_id, target, entries)
        count = len(entries)
        odd = sum(bool(each["anomaly"]) for each in entries)
        reasons = sorted({str(each["reason"]) for each in entries})
        told = f"{count} in {target.connection_name}: {'; '.join(reasons)}."
        if odd and count == 1:
            told += " It is unlike the others of its rule: look at it."
        elif odd:
            told += f" {odd} of them {'is' if odd == 1 else 'are'} unlike the rest: look there."
        told += " One tap takes it back for a while." if target.undoes else f" {NOTHING_UNDOES}"
        body = {
            "batch": shown.shown(),
            "goal_id": goal_id,
            "action": target.name,
            "label": target.label,
            "connection_name": target.connection_name,
            "items": [dict(each) for each in entries],
            "confidence_min": min(float(each["confidence"]) for each in entries),
        }
        return self._question(
            QuestionKind.ITEMS,
            intent=f"{target.label}: {count} {'item' if count == 1 else 'items'}",
            rationale=told[:2_000],
            risk=target.risk,
            actions=[
                QuestionChoice(value=YES, label=f"{target.label}: {count}"),
                QuestionChoice(value=EDIT, label="Only those chosen"),
                QuestionChoice(value=DECLINE, label="None of them"),
            ],
            body=body,
        )

    def _payload(
        self, goal_id: str, target: _Target, entries: Sequence[Mapping[str, Any]]
    ) -> BatchPayload:
        return BatchPayload(
            batch_id=self.ids.new(BATCH),
            goal_id=goal_id,
            action=target.name,
            connection=target.connection,
            tool=target.action.tool,
            args=target.action.args,
            ids=target.action.ids,
            item_ids=tuple(str(each["item_id"]) for each in entries),
            states=tuple(str(each["state"]) for each in entries),
            lines=tuple(str(each["line"]) for each in entries),
            state=target.action.state,
        )

    def _question(
        self,
        kind: QuestionKind,
        *,
        intent: str,
        rationale: str,
        risk: RiskLevel,
        actions: list[QuestionChoice],
        body: dict[str, Any],
        name: str | None = None,
    ) -> Question:
        now, name = self.clock.now(), name or self.ids.new(QUESTION)
        return Question(
            question_id=name,
            scope_id=self.owner_id,
            trace_id=f"trace_{name}",
            about=f"{ITEMS}:{name}",
            content=QuestionContent(
                kind=kind,
                intent=intent,
                rationale=rationale,
                risk=risk,
                taint=TaintLevel.EXTERNAL,
                actions=actions,
                body=body,
            ),
            created_at=now,
            expires_at=now + _CARD_TTL,
        )

    # Teaching.

    async def _teaching_of(
        self, ctx: ExecutionContext, goal: WorkItem, choices: Sequence[ItemChoice]
    ) -> list[list[Question]]:
        """One card for each sender of what is not known, a few each day (rule 1)."""
        policy, left = goal.batch, await self.unasked.left_today()
        unsure = [each for each in choices if each.band in (Band.NOVEL, Band.LOW)]
        if policy is None or left <= 0 or not unsure:
            return []
        targets = await self._targets(ctx, policy)
        waiting = {
            str(each.content.body.get("address"))
            for each in await self.answers.waiting(goal.id, QuestionKind.TEACHING)
        }
        asked: list[list[Question]] = []
        for each in unsure:
            if each.item.address not in waiting and left > 0 and targets:
                waiting.add(each.item.address)
                asked.append(self._teaching(goal, policy, targets, each))
                left -= 1
        return asked

    def _teaching(
        self,
        goal: WorkItem,
        policy: BatchPolicy,
        targets: Mapping[str, _Target],
        choice: ItemChoice,
    ) -> list[Question]:
        """The card about one item, and the one about its rule (rule 4)."""
        entry, name = entry_of(choice), self.ids.new(QUESTION)
        options = {
            each.name: self._payload(goal.id, each, [entry]).shown() for each in targets.values()
        }
        leave = QuestionChoice(value=LEAVE, label=label_of(policy, LEAVE))
        ways = [QuestionChoice(value=each.name, label=each.label) for each in targets.values()]
        common = {
            "goal_id": goal.id,
            "address": choice.item.address,
            "item": entry,
            "question": f"{entry['line']}. {choice.anomaly or 'No rule of yours fits it.'}",
        }
        item = choice.item
        rules: list[Question] = []
        if item.verified and item.address:
            about = f"mails from {item.address}, whom your provider vouches for"
            rules.append(
                self._question(
                    QuestionKind.RULE,
                    intent=f"A rule for later: {about}",
                    rationale="Only if you sign it. It ticks such items beforehand; each batch "
                    "still waits for your yes. Connections lists the rules that you signed.",
                    risk=RiskLevel.MEDIUM,
                    actions=[*ways, leave, QuestionChoice(value=NO_RULE, label="No rule")],
                    body={
                        **common,
                        "teaches": name,
                        "question": f"What shall fit {about}, from now on?",
                        "when": ItemCondition(sender=[item.address]).model_dump(
                            mode="json", exclude_none=True
                        ),
                        "labels": {each.value: each.label for each in (*ways, leave)},
                    },
                )
            )
        card = self._question(
            QuestionKind.TEACHING,
            intent="What should I do with this one?",
            rationale=f"{choice.reason.capitalize()}. Your answer is for this item alone.",
            risk=max((each.risk for each in targets.values()), key=list(RiskLevel).index),
            actions=[*ways, leave],
            body={
                **common,
                "options": options,
                "key": choice.key,
                "rule_card": rules[0].question_id if rules else None,
            },
            name=name,
        )
        return [card, *rules]

    # Following.

    async def answered(self, about: str) -> None:
        """What a proven answer leads to; called again after a crash, it goes on."""
        found = await self.questions.answered(about.partition(":")[2])
        if found is None:
            return
        content, value = found.question.content, found.value or ""
        if content.kind is QuestionKind.RULE:
            await self.audit.log("item_rule_signed", rule=found.question.question_id, then=value)
        elif content.kind is QuestionKind.ITEMS and value == EDIT:
            await self._ask_smaller(found)
        elif batch_payload(content.body, value) is not None:
            await self._run(found, value)
        await self._note(found, value)

    async def _ask_smaller(self, found: AnsweredQuestion) -> None:
        """Rule 3; once, however often the answer is followed."""
        body = found.question.content.body
        chosen = set(map(str, found.answer.get("selected_item_ids") or ()))
        entries = [each for each in body["items"] if each["item_id"] in chosen]
        if not entries or len(entries) != len(chosen):
            return
        shown = BatchPayload.read(body["batch"])
        smaller = BatchPayload(
            **{
                **vars(shown),
                "batch_id": f"{shown.batch_id}{SOME}",
                "item_ids": tuple(str(each["item_id"]) for each in entries),
                "states": tuple(str(each["state"]) for each in entries),
                "lines": tuple(str(each["line"]) for each in entries),
            }
        )
        content = found.question.content
        count, label = len(entries), body["label"]
        actions = [
            QuestionChoice(value=YES, label=f"{label}: {count}"),
            QuestionChoice(value=EDIT, label="Only those chosen"),
            QuestionChoice(value=DECLINE, label="None of them"),
        ]
        quiet = [{**each, "anomaly": "", "ticked": True} for each in entries]
        question = self._question(
            QuestionKind.ITEMS,
            intent=f"{label}: {count} {'item' if count == 1 else 'items'}",
            rationale="These are the ones that you chose.",
            risk=content.risk,
            actions=actions,
            body={**body, "batch": smaller.shown(), "items": quiet, "chosen_from": shown.batch_id},
            name=f"{found.question.question_id}{SOME}"[:120],
        )
        await self.questions.ask(question)

    async def _run(self, found: AnsweredQuestion, value: str) -> None:
        ctx, body = self._ctx, found.question.content.body
        payload = batch_payload(body, value)
        if ctx is None or payload is None:
            return
        label = str(body.get("label") or _label_in(found, value))
        token = await self.decisions.token_of(found.decision, payload.id)
        if token is None:
            known = await ctx.items.get(payload.batch_id)
            late = f"{label}: you said yes too long ago. I did nothing more about it."
            if known is None:
                await self._tell(payload, late)
                return
            report: BatchReport | None = await batch_report(ctx, payload, stopped=late)
        else:
            try:
                goal = await require_item(ctx.items, payload.goal_id)
            except WorkItemUnknown:
                return
            if why := await self._not_from(ctx, goal, payload):
                report = await batch_report(ctx, payload, stopped=why)
            else:
                item = batch_item(payload, goal, f"{label}: {len(payload.item_ids)}")
                report = await run_batch(ctx, payload, token, item)
        if report is None:
            return
        await self.audit.log(
            "items_done",
            batch=payload.batch_id,
            goal=payload.goal_id,
            action=payload.action,
            **{state.value: report.count(state) for state in ItemState},
        )
        await self._tell(payload, report.text(label), report)

    async def _not_from(self, ctx: ExecutionContext, goal: WorkItem, payload: BatchPayload) -> str:
        """Why the batch is not begun or gone on with; empty if its goal is as it was approved.

        The gates and the skills of a batch are its goal's: one that was stopped, or whose row is
        another one, has none that the owner has signed.
        """
        known, approved = await ctx.items.get(payload.batch_id), goal.approval_token
        if known is not None and known.status in ENDED_WELL:
            return ""
        if approved is not None and (await ctx.approvals.check_goal(approved, goal))[0]:
            return ""
        return "The goal that proposed it was stopped, or is not as you approved it."

    async def _tell(
        self, payload: BatchPayload, text: str, report: BatchReport | None = None
    ) -> None:
        """One message for each batch, with its undo."""
        name = f"{ITEMS}.{payload.batch_id}"
        failed = report is None or report.done < len(report.outcomes)
        await self.enqueue(
            QueueMessage(
                message_id=name,
                trace_id=name,
                content=text,
                sender=Agent.RUNTIME,
                message_kind=MessageKind.AGENT_RESPONSE,
                scope_id=self.owner_id,
                taint=TaintLevel.EXTERNAL,
                created_at=self.clock.now(),
                urgency=Urgency.NEEDS_ATTENTION if failed else Urgency.INFORMATIONAL,
                payload=AgentReply(
                    connection_id=self.owner_id,
                    channel=OWN_CHANNEL,
                    work_item_id=payload.batch_id if report is not None else None,
                    undo_until=report.undo_until if report is not None else None,
                    undo_items=report.undoable if report is not None else [],
                ),
            )
        )

    async def _note(self, found: AnsweredQuestion, value: str) -> None:
        """What became of the decision, once; of several items as of one decision."""
        content, at = found.question.content, found.decision.decided_at
        if content.kind is not QuestionKind.ITEMS or self._ctx is None or at is None:
            return
        body, scope = content.body, found.question.scope_id
        family = family_of_tool(str(body["batch"]["tool"]), self._ctx.registry.effect_of)
        outcome = _OUTCOMES.get(value)
        ref = case_of_batch(str(body["batch"]["batch_id"]))
        # A tick that was set beforehand says nothing; one that the owner set does.
        touched = value != YES or not all(each["ticked"] for each in body["items"])
        ticked = sum(bool(each["ticked"]) for each in body["items"])

        def write(tx: Transaction) -> None:
            if outcome is None or not record_outcome(
                tx,
                family=family,
                scope_id=scope,
                outcome=outcome,
                ref=ref,
                at=at,
                goal_id=str(body["goal_id"]),
                confidence=float(body["confidence_min"]),
                touched=touched,
            ):
                return
            entry = {"card_id": found.question.question_id, "verdict": value, "ticked": ticked}
            more = {"batch": body["batch"]["batch_id"], "taps": taps_of(found, value)}
            if body.get("chosen_from"):
                more["chosen_from"] = body["chosen_from"]
            self.audit.append(tx, "items_decided", {**entry, **more, "items": len(body["items"])})

        await self.database.transaction(write)


def _label_in(found: AnsweredQuestion, value: str) -> str:
    labels = {each.value: each.label for each in found.question.content.actions}
    return labels.get(value, value)


def _risk_of(ctx: ExecutionContext, tool: Tool) -> RiskLevel:
    """A tidying call that can be undone carries ids alone: strangers' text does not raise it."""
    effect = ctx.registry.effect_of(tool.name)
    tidies = (
        effect is not None
        and effect.action is ActionKind.TIDY
        and effect.reversibility is Reversibility.REVERSIBLE
    )
    return risk_of_tool(
        ApprovalScope.CONNECTION_ACT, effect, taint=TaintLevel.EXTERNAL, inside_envelope=tidies
    )
