"""What became of the owner's decisions, by family of action: the evidence that autonomy rests on.

1. A *family* is a kind of action: the tool of a call (`mail_archive`), `send` for whatever speaks
   to somebody, `file_write`, `file_remove`, `network`, `goal` or `command` for what a plan does.
2. An outcome is the owner's: approved, edited, declined, undone, dismissed. What expired was
   decided by nobody and is no outcome, and neither is an undo that was not wanted.
3. It is recorded once: the same reference, family and outcome are one row, however often it comes.
   A reference names what was decided, so that an approval and its undo are one case.
4. A tick that was set beforehand and that nobody touched is recorded, and is no evidence.
5. A decision counts if the owner's key vouches for when it was made (`Decisions.decided_at`), and
   what it was is read from the statement that was signed: a row that somebody wrote counts nothing.
6. A case was corrected if it was edited, declined or undone. Of a family, the share of corrected
   cases among the last so many, in so many days, is its correction rate; the rest is its precision.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from silas.approval.rules import digest
from silas.gates.risk import ActionKind, EffectOf
from silas.kernel import Clock, TaintLevel, format_timestamp, parse_timestamp
from silas.kernel.ids import person_of
from silas.review.cards import UNDO, CardStore
from silas.review.decisions import Decisions, QuestionKind
from silas.review.questions import QuestionStore
from silas.review.unasked import is_digest
from silas.storage import Database, Transaction
from silas.work.authorisation import AFTER_STEP, TAKE_OVER
from silas.work.effects import ChangeKind
from silas.work.ledger import CallUndo, CallUndos, UndoState
from silas.work.models import WorkItem, WorkItemType
from silas.work.ports import PausedCall
from silas.work.store import WorkItemStore

SEND = "send"
FILE_WRITE, FILE_REMOVE = "file_write", "file_remove"
PLANS_TOGETHER = "plans_together"
"""The family of a decision about several plans at once."""
SUGGESTION = "suggestion"
SOME = ".some"
"""How the id of a batch ends that the owner has chosen from another one."""
_KEEP = timedelta(days=400)
_LOOKED_BACK = timedelta(days=60)
_UNDONE_WITHIN = timedelta(days=7)
_INSERT = """
INSERT INTO action_outcomes (ref, family, outcome, scope_id, goal_id, confidence, touched, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (ref, family, outcome) DO NOTHING
"""
_SELECT = """
SELECT ref, family, outcome, goal_id, confidence, touched, at FROM action_outcomes
WHERE scope_id = ? AND at > ? ORDER BY at DESC, ref
"""
_CALLS = """
SELECT id, call FROM paused_calls WHERE decided_at > ? AND verdict IS NOT NULL ORDER BY decided_at
"""
_CALLS_OF = """
SELECT paused_calls.id, call FROM paused_calls
JOIN paused_runs ON paused_runs.id = paused_calls.run_id
WHERE work_item_id = ? AND verdict = 'approved' ORDER BY decided_at DESC
"""
_UNDONE = """
SELECT DISTINCT work_item_id FROM call_undos WHERE state = 'undone' AND begun_at > ?
"""


class ActionOutcome(StrEnum):
    """What became of one decision."""

    APPROVED = "approved"
    EDITED = "edited"
    DECLINED = "declined"
    UNDONE = "undone"
    DISMISSED = "dismissed"
    """A suggestion that was not wanted: no correction of anything."""


CORRECTIONS = frozenset({ActionOutcome.EDITED, ActionOutcome.DECLINED, ActionOutcome.UNDONE})
_OF_VERDICT = {
    "approved": ActionOutcome.APPROVED,
    "declined": ActionOutcome.DECLINED,
    "edit_requested": ActionOutcome.EDITED,
}
_OF_DRAFT = {
    "approve": ActionOutcome.APPROVED,
    "edit": ActionOutcome.EDITED,
    "rephrase": ActionOutcome.EDITED,
    "reject": ActionOutcome.DECLINED,
}


def record_outcome(
    tx: Transaction,
    *,
    family: str,
    scope_id: str,
    outcome: ActionOutcome,
    ref: str,
    at: datetime,
    goal_id: str | None = None,
    confidence: float | None = None,
    touched: bool = True,
) -> bool:
    """Record what became of a decision, as part of a transaction; False if it was known (rule 3).

    `touched` says whether the owner did something about it, or left a tick as it stood.
    """
    scope, certain = person_of(scope_id), None if confidence is None else round(confidence, 4)
    values = (ref, family, outcome.value, scope, goal_id, certain, int(touched))
    return bool(tx.execute(_INSERT, (*values, format_timestamp(at))))


class _Row(NamedTuple):
    """What `_SELECT` gives."""

    ref: str
    family: str
    outcome: str
    goal_id: str | None
    confidence: float | None
    touched: int
    at: str


class Case(NamedTuple):
    """One thing that was decided, with everything that became of it."""

    ref: str
    at: datetime
    """When it was last touched."""
    families: frozenset[str]
    outcomes: frozenset[ActionOutcome]
    goal_id: str | None
    confidence: float | None

    @property
    def corrected(self) -> bool:
        """Whether the owner edited, declined or undid it."""
        return bool(self.outcomes & CORRECTIONS)


@dataclass(frozen=True)
class Tally:
    """The cases of a family, or of all of them."""

    family: str
    cases: tuple[Case, ...] = ()

    @property
    def samples(self) -> int:
        """How many cases there are that somebody touched."""
        return len(self.cases)

    @property
    def corrections(self) -> int:
        """How many of them were corrected."""
        return sum(case.corrected for case in self.cases)

    @property
    def rate(self) -> float:
        """The correction rate; 0 without samples."""
        return round(self.corrections / self.samples, 4) if self.samples else 0.0

    @property
    def precision(self) -> float | None:
        """Which share was right; None without samples."""
        return round(1 - self.corrections / self.samples, 4) if self.samples else None

    def of_goal(self, goal_id: str) -> "Tally":
        """Those of one goal."""
        return Tally(self.family, tuple(case for case in self.cases if case.goal_id == goal_id))

    def at_least(self, confidence: float) -> "Tally":
        """Those of which Silas was so sure, at least."""
        sure = [each for each in self.cases if (each.confidence or 0.0) >= confidence]
        return Tally(self.family, tuple(sure))

    def between(self, low: float, high: float) -> "Tally":
        """Those of which Silas was at least so sure, and less than so sure."""
        found = [c for c in self.cases if c.confidence is not None and low <= c.confidence < high]
        return Tally(self.family, tuple(found))

    def after(self, moment: datetime) -> "Tally":
        """Those that were last touched after a moment."""
        return Tally(self.family, tuple(case for case in self.cases if case.at > moment))

    def newest(self, most: int) -> "Tally":
        """The last so many."""
        return Tally(self.family, self.cases[:most])


@dataclass(frozen=True)
class OutcomeStore:
    """The outcomes of one data directory, for reading."""

    database: Database
    clock: Clock

    async def cases(self, scope_id: str, *, since: datetime) -> list[Case]:
        """What the owner decided and touched since then, the newest first (rule 4)."""
        values = (person_of(scope_id), format_timestamp(since))
        rows = [_Row(*row) for row in await self.database.fetch_all(_SELECT, values)]
        found: dict[str, list[_Row]] = {}
        for row in rows:
            if row.touched:
                found.setdefault(row.ref, []).append(row)
        return [_case(ref, each) for ref, each in found.items()]

    async def tally(self, scope_id: str, family: str, *, window: timedelta, most: int) -> Tally:
        """The last cases of a family."""
        cases = await self.cases(scope_id, since=self.clock.now() - window)
        return Tally(family, tuple(each for each in cases if family in each.families)[:most])

    async def tallies(self, scope_id: str, *, window: timedelta, most: int) -> list[Tally]:
        """The last cases of every family that has any, by name."""
        cases = await self.cases(scope_id, since=self.clock.now() - window)
        names = sorted({name for case in cases for name in case.families})
        return [Tally(name, tuple(c for c in cases if name in c.families)[:most]) for name in names]


def case_of_batch(name: str) -> str:
    """The case that a batch belongs to, or one that the owner has chosen from it: it is one
    decision, however often it was made smaller. The name of other work is its own."""
    while name.endswith(SOME):
        name = name.removesuffix(SOME)
    return f"plan:{name}"


def of_actions(cases: Iterable[Case]) -> Tally:
    """All cases that are about actions: what was suggested, and dismissed, is none."""
    return Tally("", tuple(c for c in cases if not all(map(is_suggestion, c.families))))


def is_suggestion(family: str) -> bool:
    """Whether a family is one of suggestions."""
    return family.partition(":")[0] == SUGGESTION


def _case(ref: str, rows: Sequence[_Row]) -> Case:
    return Case(
        ref,
        max(parse_timestamp(row.at) for row in rows),
        frozenset(row.family for row in rows),
        frozenset(ActionOutcome(row.outcome) for row in rows),
        next((row.goal_id for row in rows if row.goal_id), None),
        next((row.confidence for row in rows if row.confidence is not None), None),
    )


def family_of_tool(tool: str, effect_of: EffectOf) -> str:
    """The family of a call (rule 1)."""
    effect = effect_of(tool)
    return SEND if effect is not None and effect.action is ActionKind.SEND else tool


def family_of_call(call: PausedCall, effect_of: EffectOf) -> str:
    """The family of a call that waited; files that were changed beyond a plan are such calls."""
    if call.tool == TAKE_OVER:
        removed = call.args.get("after") is None or call.args.get("kind") == ChangeKind.REMOVED
        return FILE_REMOVE if removed else FILE_WRITE
    tool = str(call.args.get("tool")) if call.tool == AFTER_STEP else call.tool
    return family_of_tool(tool, effect_of)


def families_of(item: WorkItem, effect_of: EffectOf) -> frozenset[str]:
    """The families of what a plan does (rule 1)."""
    changes = item.workspace.changes if item.workspace else None
    does = {
        "goal": item.type is WorkItemType.GOAL,
        FILE_REMOVE: bool(changes and changes.remove),
        FILE_WRITE: bool(changes and (changes.add or changes.change)),
        "network": item.reaches_network,
    }
    kinds = {kind for kind, is_so in does.items() if is_so}
    kinds |= {family_of_tool(each.tool, effect_of) for each in item.approvals}
    return frozenset(kinds or {"command"})


class _Found(NamedTuple):
    """One outcome that a store tells of."""

    ref: str
    families: frozenset[str]
    outcome: ActionOutcome
    at: datetime
    goal_id: str | None = None
    touched: bool = True


@dataclass
class OutcomeFeed:
    """Collects the outcomes of what the stores of the owner's decisions hold (rules 2 to 5)."""

    database: Database
    cards: CardStore
    questions: QuestionStore
    items: WorkItemStore
    undos: CallUndos
    decisions: Decisions
    effect_of: EffectOf
    clock: Clock
    owner_id: str
    _looked_at: datetime | None = field(default=None, init=False, repr=False)

    async def gather(self) -> int:
        """Record what is new; returns how many outcomes that were.

        The first look goes back far: what was decided before an update counts as well.
        """
        now = self.clock.now()
        since = now - _LOOKED_BACK if self._looked_at is None else self._looked_at
        found = [each async for each in self._found(since)]

        def write(tx: Transaction) -> int:
            tx.execute("DELETE FROM action_outcomes WHERE at < ?", (format_timestamp(now - _KEEP),))
            return sum(self._record(tx, each) for each in found)

        # What is being written while this looks has a time before `now`: look there once more.
        self._looked_at = now - timedelta(minutes=5)
        return await self.database.transaction(write) if found else 0

    def _record(self, tx: Transaction, found: _Found) -> int:
        return sum(
            record_outcome(
                tx,
                family=family,
                scope_id=self.owner_id,
                outcome=found.outcome,
                ref=found.ref,
                at=found.at,
                goal_id=found.goal_id,
                touched=found.touched,
            )
            for family in found.families
        )

    async def _found(self, since: datetime) -> AsyncIterator[_Found]:
        for looked in (self._of_cards, self._of_calls, self._of_questions, self._of_undos):
            async for found in looked(since):
                yield found

    async def _of_cards(self, since: datetime) -> AsyncIterator[_Found]:
        for card in await self.cards.decided_since(since):
            decided = await self._decided(card.card_id)
            if decided is None or person_of(card.scope_id) != self.owner_id:
                continue
            outcome, at = _OF_VERDICT.get(_verdict(decided.fields)), decided.at
            together = decided.fields.get("type") == "batch_decision"
            names = card.plan_ids
            if card.requested_by == UNDO:
                outcome = ActionOutcome.UNDONE if outcome is ActionOutcome.APPROVED else None
                names = tuple(name.removeprefix(f"{UNDO}_") for name in names)
            if outcome is None:
                continue
            yes = outcome is ActionOutcome.APPROVED
            if together and card.requested_by != UNDO:
                ref = f"plans:{digest(decided.statement.encode())}"
                yield _Found(ref, frozenset({PLANS_TOGETHER}), outcome, at)
            for item in await self._items(names):
                touched = not (together and yes)  # rule 4
                yield self._of_item(item, outcome, at, touched=touched)

    async def _of_calls(self, since: datetime) -> AsyncIterator[_Found]:
        rows = await self.database.fetch_all(_CALLS, (format_timestamp(since),))
        for name, kept in rows:
            decided = await self._decided(name)
            outcome = _OF_VERDICT.get(_verdict(decided.fields)) if decided else None
            call = PausedCall.model_validate_json(kept)
            if decided is None or outcome is None:
                continue
            family = family_of_call(call, self.effect_of)
            goal = await self._goal_of(call.work_item_id)
            # Of several calls on one card, those without a stranger's text are ticked beforehand.
            several = len(decided.fields.get("plan_hashes") or ()) > 1
            ticked = several and call.taint is not TaintLevel.EXTERNAL
            touched = not (ticked and outcome is ActionOutcome.APPROVED)
            kind, ref = frozenset({family}), f"call:{name}"
            yield _Found(ref, kind, outcome, decided.at, goal, touched)

    async def _of_questions(self, since: datetime) -> AsyncIterator[_Found]:
        for question in await self.questions.answered_since(QuestionKind.DRAFT, since):
            outcome = _OF_DRAFT.get(question.state)
            name = str(question.content.body.get("metadata", {}).get("work_item_id"))
            at = await self.decisions.decided_at(question.question_id)
            for item in await self._items([name]):
                if outcome is not None and at is not None:
                    yield self._of_item(item, outcome, at)
        for question in await self.questions.answered_since(QuestionKind.SUGGESTION, since):
            if is_digest(question):
                continue
            taken = question.state == "do_it"
            at = await self.decisions.decided_at(question.question_id)
            source = str(question.content.body.get("source") or "other")
            if at is not None:
                kind = frozenset({f"{SUGGESTION}:{source}"})
                outcome = ActionOutcome.APPROVED if taken else ActionOutcome.DISMISSED
                yield _Found(f"suggestion:{question.question_id}", kind, outcome, at)

    async def _of_undos(self, since: datetime) -> AsyncIterator[_Found]:
        """Calls in accounts that were taken back. When is not written down: now, at the latest."""
        begun = format_timestamp(since - _UNDONE_WITHIN)
        for (name,) in await self.database.fetch_all(_UNDONE, (begun,)):
            at, goal = self.clock.now(), await self._goal_of(name)
            for undo in await self.undos.of(name):
                if undo.state is UndoState.UNDONE:
                    kind = frozenset({family_of_tool(undo.tool, self.effect_of)})
                    ref = await self._ref_of(undo)
                    yield _Found(ref, kind, ActionOutcome.UNDONE, at, goal)

    async def _ref_of(self, undo: CallUndo) -> str:
        """What the owner had approved: the call by itself, or the plan that covered it."""
        for name, kept in await self.database.fetch_all(_CALLS_OF, (undo.work_item_id,)):
            call = PausedCall.model_validate_json(kept)
            if (call.tool, call.args) == (undo.tool, undo.args):
                return f"call:{name}"
        return case_of_batch(undo.work_item_id)

    def _of_item(
        self, item: WorkItem, outcome: ActionOutcome, at: datetime, *, touched: bool = True
    ) -> _Found:
        kinds, goal = families_of(item, self.effect_of), _goal_of(item)
        return _Found(f"plan:{item.id}", kinds, outcome, at, goal, touched)

    async def _items(self, names: Iterable[str]) -> list[WorkItem]:
        return [item for name in names if (item := await self.items.get(name))]

    async def _goal_of(self, work_item_id: str) -> str | None:
        item = await self.items.get(work_item_id)
        return _goal_of(item) if item is not None else None

    async def _decided(self, name: str) -> "_Statement | None":
        """Rule 5."""
        row, at = await self.decisions.row(name), await self.decisions.decided_at(name)
        if row is None or row.statement is None or at is None:
            return None
        return _Statement(row.statement, row.fields(), at)


class _Statement(NamedTuple):
    """What the owner has signed, and when."""

    statement: str
    fields: dict[str, Any]
    at: datetime


def _verdict(fields: dict[str, Any]) -> str:
    decision = fields.get("decision")
    return str(decision.get("verdict")) if isinstance(decision, dict) else ""


def _goal_of(item: WorkItem) -> str | None:
    return item.id if item.type is WorkItemType.GOAL else item.spawned_by
