"""What is known from the owner's answers about items: rules, evidence, and what was proposed.

1. Only answers that are proven to be the owner's count (`QuestionStore.answered`).
2. A rule is an answer on a card of its own. It is in force from then on until it is taken back.
3. What the owner chose by hand was right; what was taken out, declined or undone was wrong. A tick
   that was set beforehand and that nobody touched says nothing.
4. An item is proposed once. If nothing was done about it although the owner said yes, or if nobody
   answered its card, it may come again. It is known again when it was moved and brought back.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from silas.approval import BatchPayload
from silas.audit.models import AuditTrail
from silas.gates.risk import RiskLevel
from silas.kernel import CanonicalError, Clock, LlmError, format_timestamp, strict_loads
from silas.kernel.models import Data, UtcDatetime
from silas.proactive.batch_run import ItemState, item_outcomes
from silas.proactive.triage import Band, ItemChoice, Knowledge, Reader, TaughtRule
from silas.review.decisions import QuestionKind
from silas.review.errors import CardUnknown
from silas.review.questions import YES, AnsweredQuestion, Question, QuestionStore, batch_payload
from silas.storage import Database
from silas.work.batch_policy import BatchPolicy, ItemCondition, condition_in_words, label_of
from silas.work.execution_context import ExecutionContext
from silas.work.models import WorkItem

EDIT, NO_RULE = "edit_selection", "no_rule"
_REMEMBERED = timedelta(days=90)
_MOST_READ, _MOST_REMEMBERED = 40, 5_000
"""Items that a model is shown in one cycle, and whose guesses are kept."""
_MAY_GO_ON = timedelta(days=14)
"""For how long it is looked what became of a batch: nothing of it goes on later."""
_EVER = datetime.min.replace(tzinfo=UTC)
_OPEN_STATES = (ItemState.NOT_TRIED, ItemState.NOT_DONE)
_UNDONE = """
SELECT work_item_id, args FROM call_undos WHERE state = 'undone' AND begun_at > ?
"""


class RuleShown(Data):
    """A rule that the owner has signed on a teaching card."""

    rule_id: str
    goal_id: str
    words: str
    then: str
    label: str
    signed_at: UtcDatetime | None = None


class RuleList(Data):
    """The rules that are in force, the newest first."""

    rules: list[RuleShown]


@dataclass
class Lessons:
    """What was proposed before about a goal's items, and what is known from it."""

    seen: set[str] = field(default_factory=set)
    knowledge: Knowledge = field(default_factory=Knowledge)
    _done: dict[str, tuple[BatchPayload, dict[str, Mapping[str, Any]]]] = field(
        default_factory=dict
    )

    def learn(self, answered: AnsweredQuestion, payload: BatchPayload | None) -> None:
        """Rule 3."""
        content, value = answered.question.content, answered.value or ""
        entries = entries_in(answered.question)
        if payload is not None:
            self._done[payload.batch_id] = payload, {str(each["item_id"]): each for each in entries}
        if content.kind is QuestionKind.TEACHING:
            self._right(entries[0], value)
            return
        action = str(content.body["action"])
        chosen = set(map(str, answered.answer.get("selected_item_ids") or ()))
        for each in entries:
            taken = value == YES or (value == EDIT and each["item_id"] in chosen)
            if not taken:
                self._wrong(each, action)
            elif not each["ticked"]:
                self._right(each, action)

    def undo(self, batch_id: str, args: str) -> None:
        """A call that was taken back was not right."""
        payload, entries = self._done.get(batch_id, (None, dict[str, Mapping[str, Any]]()))
        if payload is None:
            return
        try:
            [name] = strict_loads(args)[payload.ids]
        except (CanonicalError, KeyError, TypeError, ValueError):
            return
        if str(name) in entries:
            self._wrong(entries[str(name)], payload.action)

    def _right(self, entry: Mapping[str, Any], action: str) -> None:
        self.knowledge.right(
            str(entry["key"]), str(entry["address"]), action, verified=entry["verified"] is True
        )

    def _wrong(self, entry: Mapping[str, Any], action: str) -> None:
        self.knowledge.wrong(
            str(entry["key"]), str(entry["address"]), action, verified=entry["verified"] is True
        )


@dataclass
class Guesses:
    """What a model makes of items that nothing else decides; it is shown each of them once."""

    reader: Reader | None = None
    """None: there is no model."""
    audit: AuditTrail | None = None
    _read: dict[str, str] = field(default_factory=dict)
    """What was said of items, by what they are known again by."""

    async def of(
        self, goal: WorkItem, policy: BatchPolicy, choices: Sequence[ItemChoice]
    ) -> dict[str, str]:
        """Guesses by the item's id, where the owner wants any. Without an answer there is none."""
        if self.reader is None or not policy.guess:
            return {}
        novel = [each.item for each in choices if each.band is Band.NOVEL]
        unread = [each for each in novel if each.identity not in self._read][:_MOST_READ]
        try:
            names = {name: label_of(policy, name) for name in policy.actions}
            found = await self.reader(names, unread) if unread else {}
        except LlmError as error:
            if self.audit is not None:
                await self.audit.log("items_not_read", goal=goal.id, reason=error.message)
        else:
            if len(self._read) > _MOST_REMEMBERED:
                self._read.clear()
            self._read |= {each.identity: found.get(each.item_id, "") for each in unread}
        known = {each.item_id: self._read.get(each.identity, "") for each in novel}
        return {name: action for name, action in known.items() if action}


@dataclass(frozen=True)
class ItemAnswers:
    """The owner's answers about items, in one data directory."""

    database: Database
    questions: QuestionStore
    audit: AuditTrail
    clock: Clock

    async def waiting(
        self, goal_id: str, kind: QuestionKind = QuestionKind.ITEMS
    ) -> list[Question]:
        """The cards of this goal that wait."""
        return [
            each
            for each in await self.questions.open()
            if each.content.kind is kind and each.content.body.get("goal_id") == goal_id
        ]

    async def outdate(self, goal_id: str, there: Collection[str]) -> None:
        """Close the cards with items that are not there any more; what is left is asked anew."""
        for kind in (QuestionKind.ITEMS, QuestionKind.TEACHING):
            for each in await self.waiting(goal_id, kind):
                if not {str(entry["item_id"]) for entry in entries_in(each)} <= set(there):
                    await self.questions.close(each.question_id, "outdated")
                    if rule := each.content.body.get("rule_card"):
                        await self.questions.close(str(rule), "outdated")

    async def lessons(self, ctx: ExecutionContext, goal_id: str) -> Lessons:
        """What is known about the items of a goal."""
        now, found = self.clock.now(), Lessons()
        for kind in (QuestionKind.ITEMS, QuestionKind.TEACHING):
            for open_ in await self.waiting(goal_id, kind):
                found.seen |= _identities(entries_in(open_))
            for answered in await self._proven(kind, now - _REMEMBERED):
                if answered.question.content.body.get("goal_id") == goal_id:
                    await self._add(ctx, found, answered)
        since = format_timestamp(now - _REMEMBERED)
        for work, args in await self.database.fetch_all(_UNDONE, (since,)):
            found.undo(str(work), str(args))
        return found

    async def _add(self, ctx: ExecutionContext, found: Lessons, answered: AnsweredQuestion) -> None:
        content, value = answered.question.content, answered.value or ""
        payload, left = batch_payload(content.body, value), set[str]()
        if content.kind is QuestionKind.ITEMS and value == EDIT:
            # Those that were chosen are on a card of their own.
            left = set(map(str, answered.answer.get("selected_item_ids") or ()))
        elif payload is not None and self._may_go_on(answered):
            outcomes = await item_outcomes(ctx, payload)
            left = {each.item_id for each in outcomes if each.state in _OPEN_STATES}
        entries = entries_in(answered.question)
        found.seen |= _identities(entries) - _identities(entries, left)
        found.learn(answered, payload)

    def _may_go_on(self, answered: AnsweredQuestion) -> bool:
        at = answered.decision.decided_at
        return at is not None and self.clock.now() - at < _MAY_GO_ON

    async def rules(self, goal_id: str | None = None) -> list[RuleShown]:
        """The rules that are in force, of one goal or of all; the newest first (rule 2)."""
        found = []
        for answered in reversed(await self._proven(QuestionKind.RULE, _EVER)):
            body, then = answered.question.content.body, answered.value
            if then in (None, NO_RULE) or goal_id not in (None, body["goal_id"]):
                continue
            found.append(
                RuleShown(
                    rule_id=answered.question.question_id,
                    goal_id=str(body["goal_id"]),
                    words=condition_in_words(ItemCondition.model_validate(body["when"])),
                    then=str(then),
                    label=str(body["labels"].get(then, then)),
                    signed_at=answered.decision.decided_at,
                )
            )
        return found

    async def taught(self, goal_id: str) -> list[TaughtRule]:
        """The same as they are applied."""
        found = []
        for rule in await self.rules(goal_id):
            question = await self.questions.get(rule.rule_id)
            when = ItemCondition.model_validate(question.content.body["when"])
            found.append(TaughtRule(rule.rule_id, when, rule.then))
        return found

    async def list_rules(self) -> RuleList:
        """Every rule that you have signed on a card."""
        return RuleList(rules=await self.rules())

    async def drop_rule(self, rule_id: str) -> RuleList:
        """Take a rule back; those that are left. Raises `CardUnknown` if there is none."""
        if not await self.questions.take_back(rule_id, QuestionKind.RULE):
            raise CardUnknown("There is no such rule. `silas review rules` lists them.")
        await self.audit.log("item_rule_dropped", rule=rule_id)
        return await self.list_rules()

    async def _proven(self, kind: QuestionKind, since: datetime) -> list[AnsweredQuestion]:
        """Rule 1."""
        found = []
        for each in await self.questions.answered_since(kind, since):
            answered = await self.questions.answered(each.question_id)
            if answered is not None:
                found.append(answered)
        return found


def entries_in(question: Question) -> list[Mapping[str, Any]]:
    """The items that a card is about."""
    body = question.content.body
    return [body["item"]] if "item" in body else list(body["items"])


def _identities(
    entries: Iterable[Mapping[str, Any]], ids: Collection[str] | None = None
) -> set[str]:
    """By what items are known again: all of them, or those with these ids."""
    return {str(each["identity"]) for each in entries if ids is None or each["item_id"] in ids}


def entry_of(choice: ItemChoice) -> dict[str, Any]:
    """One item as a card holds it; its line is what is shown and signed."""
    item = choice.item
    day = f", {item.occurred_at:%Y-%m-%d}" if item.occurred_at else ""
    vouched = "" if item.verified else " (sender not verified)"
    return {
        "item_id": item.item_id,
        "state": item.state,
        "identity": item.identity,
        "line": f"{item.title or '(no subject)'}, from {item.actor or 'nobody'}{day}{vouched}",
        "title": item.title,
        "actor": item.actor,
        "address": item.address,
        "verified": item.verified,
        "occurred_at": item.occurred_at.isoformat() if item.occurred_at else "",
        "reason": choice.reason,
        "confidence": choice.confidence,
        "key": choice.key,
        "anomaly": choice.anomaly,
        "ticked": choice.ticked,
    }


def taps_of(found: AnsweredQuestion, value: str) -> int:
    """What the answer took: each tick that was changed, the answer, and a yes that asks twice."""
    content = found.question.content
    chosen = set(map(str, found.answer.get("selected_item_ids") or ()))
    changed = sum((str(e["item_id"]) in chosen) != bool(e["ticked"]) for e in content.body["items"])
    twice = value == YES and content.risk is not RiskLevel.LOW
    return (changed if value == EDIT else 0) + 1 + int(twice)
