"""What could come next: found by plain rules, offered seldom, and dropped when it is not wanted.

1. Sources: goals that do not get on, cards that end undecided, commands that the owner lets run
   again and again, warnings that nobody has looked at, accounts that no goal looks after, and the
   next steps that a worker has named. No model is asked.
2. A suggestion does nothing. A yes leads to a plan, which asks again before anything happens, or to
   an answer that tells where to look.
3. Each has a key. The same one is not made again within the window, and after a "not now" not for a
   month. A source of which three in a row were not wanted rests for a month.
4. So many wait at once, and so many are made in an hour; what fits beyond that is made later.
5. What a stranger had a part in does not become the owner's own wish by repetition, and keeps its
   taint on the card.
"""

import hashlib
import shlex
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from silas.gates.risk import RiskLevel
from silas.kernel import Clock, IdFactory, TaintLevel, visible
from silas.kernel.models import Data, UtcDatetime
from silas.proactive.outcomes import SUGGESTION, ActionOutcome, record_outcome
from silas.review.cards import UNDO, CardStore
from silas.review.decisions import QuestionKind
from silas.review.questions import (
    QUESTION,
    Question,
    QuestionChoice,
    QuestionContent,
    QuestionStore,
)
from silas.review.unasked import is_digest
from silas.storage import Database
from silas.work.models import ENDED_WELL, WorkItem, WorkItemResult, WorkItemStatus, WorkItemType
from silas.work.script import RunStep, ScriptInvalid, read_script
from silas.work.store import WorkItemStore

SUGGESTION_TTL = timedelta(days=3)
MOST_STEPS = 2
OFTEN = 3
ACCEPTED, DISMISSED, DEFERRED = "accepted", "dismissed", "deferred"
POST_EXECUTION, IDLE, GOALS = "post_execution", "idle_heartbeat", "goal_monitor"
REVIEWS, WARNINGS, CONNECTIONS = "pending_reviews", "warnings", "connections"
_MAX_STEP_LENGTH = 300
_LATELY = timedelta(days=14)
_NOT_AGAIN = timedelta(days=30)
_ENDS_SOON = timedelta(days=1)
_RESTS_AFTER = 3
_MOST_LOOKED_AT = 200
_MOST_NAMED = 5
_HOUR = timedelta(hours=1)
_DOES_NOT_GET_ON = (WorkItemStatus.STUCK, WorkItemStatus.FAILED)
_YES, _DRAFT, _SHOW, _NO = "Plan it", "Draft it", "Show me", "Not now"

TaintOfItem = Callable[[WorkItem], Awaitable[TaintLevel]]


class SuggestionProposal(Data):
    """What could come next, before it is a card."""

    suggestion_id: str
    scope_id: str
    source: str
    intent: str
    rationale: str
    risk_level: RiskLevel = RiskLevel.LOW
    proposed_work_item_id: str | None = None
    cooldown_key: str
    created_at: UtcDatetime
    request: str = ""
    """What the planner is asked after a yes."""
    tells: str = ""
    """What the owner is told after a yes, if nothing is to be planned."""
    keeps: str | None = None
    """Work that would become a skill: then a yes leads to a draft, which asks again."""
    taint: TaintLevel
    """What a yes leads to is as little trusted."""


class Warned(Data):
    """Something that is not as it should be, or as it could be, and that nobody has looked at."""

    source: str = WARNINGS
    key: str
    intent: str
    rationale: str
    tells: str


async def no_warnings() -> Sequence[Warned]:
    """Everything is as it should be."""
    return ()


class SuggestionPolicy(Data):
    """The settings, as far as suggestions are concerned."""

    enabled: bool = True
    window: timedelta = timedelta(minutes=180)
    """Within it the same suggestion is not made again."""
    between: timedelta = timedelta(minutes=120)
    """How long it is after any suggestion before the next that nothing has led to."""
    most_waiting: int = 5
    an_hour: int = 6


def propose(
    ids: IdFactory,
    now: datetime,
    *,
    scope_id: str,
    source: str,
    intent: str,
    rationale: str,
    key: str,
    taint: TaintLevel,
    request: str = "",
    tells: str = "",
    keeps: str | None = None,
) -> SuggestionProposal:
    """A suggestion, with an id of its own."""
    return SuggestionProposal(
        suggestion_id=ids.new(QUESTION),
        scope_id=scope_id,
        source=source,
        intent=intent,
        rationale=rationale,
        cooldown_key=f"{SUGGESTION}:{key.strip().lower()}"[:400],
        created_at=now,
        request=request,
        tells=tells,
        keeps=keeps,
        taint=taint,
    )


def card_of(proposal: SuggestionProposal) -> Question:
    """The suggestion as a card (rule 2)."""
    yes = _DRAFT if proposal.keeps else _SHOW if proposal.tells else _YES
    return Question(
        question_id=proposal.suggestion_id,
        scope_id=proposal.scope_id,
        trace_id=f"trace_{proposal.suggestion_id}",
        about=proposal.cooldown_key,
        content=QuestionContent(
            kind=QuestionKind.SUGGESTION,
            intent=proposal.intent,
            rationale=proposal.rationale,
            risk=proposal.risk_level,
            taint=proposal.taint,
            actions=[
                QuestionChoice(value="do_it", label=yes),
                QuestionChoice(value="not_now", label=_NO),
            ],
            body={
                "source": proposal.source,
                "request": proposal.request,
                "cooldown_key": proposal.cooldown_key,
                **({"tells": proposal.tells} if proposal.tells else {}),
                **({"keeps": proposal.keeps} if proposal.keeps else {}),
            },
        ),
        created_at=proposal.created_at,
        expires_at=proposal.created_at + SUGGESTION_TTL,
    )


@dataclass(frozen=True)
class SuggestionEngine:
    """Finds what could come next in one data directory."""

    database: Database
    items: WorkItemStore
    cards: CardStore
    questions: QuestionStore
    clock: Clock
    ids: IdFactory
    policy: SuggestionPolicy
    taint_of: TaintOfItem
    warnings: Callable[[], Awaitable[Sequence[Warned]]] = no_warnings

    async def generate_idle(self, scope_id: str, now: datetime) -> list[SuggestionProposal]:
        """What could come next though nobody has said anything: what fits now (rules 3 and 4)."""
        if not self.policy.enabled or await self._asked_since(now - self.policy.between):
            return []
        found = [
            *await self._of_reviews(scope_id, now),
            *await self._of_warnings(scope_id, now),
            *await self._of_goals(scope_id, now),
            *await self._of_habits(scope_id, now),
        ]
        return (await self.fitting(found, now))[:1]

    async def generate_post_execution(
        self, scope_id: str, item: WorkItem, result: WorkItemResult, *, taint: TaintLevel
    ) -> list[SuggestionProposal]:
        """What the worker named; its words are derived from what it has seen."""
        now = self.clock.now()
        steps = result.next_steps if self.policy.enabled else []
        found = [
            propose(
                self.ids,
                now,
                scope_id=scope_id,
                source=POST_EXECUTION,
                request=step[:_MAX_STEP_LENGTH],
                key=step[:_MAX_STEP_LENGTH],
                intent=step[:_MAX_STEP_LENGTH],
                rationale=f"It came up while I worked on “{item.title}”.",
                taint=taint,
            )
            for step in steps[:MOST_STEPS]
            if step.strip()
        ]
        return await self.fitting(found, now)

    async def fitting(
        self, found: Sequence[SuggestionProposal], now: datetime
    ) -> list[SuggestionProposal]:
        """Those that may be made now (rules 3 and 4)."""
        if not self.policy.enabled or not found:
            return []
        waiting = [e for e in await self.questions.open() if _is_suggestion(e)]
        made = await self.questions.count_since(SUGGESTION, now - _HOUR)
        room = min(self.policy.most_waiting - len(waiting), self.policy.an_hour - made)
        refused = await self._refused(now)
        fits: list[SuggestionProposal] = []
        for each in found:
            since = now - self.policy.window
            if each.source in refused or each.cooldown_key in refused or len(fits) >= room:
                continue
            if not await self.questions.was_asked(each.cooldown_key, since=since):
                fits.append(each)
        return fits

    async def mark_handled(self, scope_id: str, suggestion: Question, outcome: str) -> None:
        """Record what became of a suggestion; `deferred` is no answer."""
        known = {ACCEPTED: ActionOutcome.APPROVED, DISMISSED: ActionOutcome.DISMISSED}
        kind = known.get(outcome)
        if kind is None:
            return
        source, now = str(suggestion.content.body.get("source") or "other"), self.clock.now()
        await self.database.transaction(
            lambda tx: record_outcome(
                tx,
                family=f"{SUGGESTION}:{source}",
                scope_id=scope_id,
                outcome=kind,
                ref=f"suggestion:{suggestion.question_id}",
                at=now,
            )
        )

    async def _refused(self, now: datetime) -> set[str]:
        """The keys and sources that the owner does not want to see for a month (rule 3)."""
        since = now - _NOT_AGAIN
        answered = await self.questions.answered_since(QuestionKind.SUGGESTION, since)
        said = [each for each in answered if _is_suggestion(each)]
        found = {each.about for each in said if each.state == "not_now"}
        by_source: dict[str, list[str]] = {}
        for each in said:
            by_source.setdefault(str(each.content.body.get("source")), []).append(each.state)
        for source, states in by_source.items():
            last = states[-_RESTS_AFTER:]
            if len(last) == _RESTS_AFTER and set(last) == {"not_now"}:
                found.add(source)
        return found

    async def _asked_since(self, moment: datetime) -> bool:
        return await self.questions.count_since(SUGGESTION, moment) > 0

    async def _of_reviews(self, scope_id: str, now: datetime) -> list[SuggestionProposal]:
        """Cards that end within a day, undecided."""
        ending = [
            card
            for card in await self.cards.open_cards()
            if card.requested_by != UNDO
            and now < card.expires_at <= now + _ENDS_SOON
            and now - card.created_at > _ENDS_SOON
        ]
        if not ending:
            return []
        count = len(ending)
        names = hashlib.sha256("\n".join(c.card_id for c in ending).encode()).hexdigest()[:16]
        named = [visible(card.title, keep_newlines=False) for card in ending[:_MOST_NAMED]]
        titles = ", ".join(f"“{title}”" for title in named)
        more = f" and {count - _MOST_NAMED} more" if count > _MOST_NAMED else ""
        outside = any(card.taint is TaintLevel.EXTERNAL for card in ending)
        return [
            propose(
                self.ids,
                now,
                scope_id=scope_id,
                source=REVIEWS,
                key=f"reviews:{names}",
                intent=f"Look at {count} card{'s' * (count != 1)} before the time is over",
                rationale="Nobody has decided, and within a day that is a no.",
                tells=f"Waiting in Review: {titles}{more}.",
                taint=TaintLevel.EXTERNAL if outside else TaintLevel.OWNER,
            )
        ]

    async def _of_warnings(self, scope_id: str, now: datetime) -> list[SuggestionProposal]:
        return [
            propose(
                self.ids,
                now,
                scope_id=scope_id,
                source=each.source,
                key=f"{each.source}:{each.key}",
                intent=each.intent,
                rationale=each.rationale,
                tells=each.tells,
                taint=TaintLevel.OWNER,  # the runtime's own words
            )
            for each in await self.warnings()
        ]

    async def _of_goals(self, scope_id: str, now: datetime) -> list[SuggestionProposal]:
        """Goals that do not get on."""
        goals = [
            item
            for status in _DOES_NOT_GET_ON
            for item in await self.items.list_by_status(status)
            if item.type is WorkItemType.GOAL and not item.is_cancelled
        ]
        return [await self._of_goal(scope_id, item, now) for item in goals]

    async def _of_goal(self, scope_id: str, item: WorkItem, now: datetime) -> SuggestionProposal:
        title = visible(item.title, keep_newlines=False)
        return propose(
            self.ids,
            now,
            scope_id=scope_id,
            source=GOALS,
            key=f"goal:{item.id}",
            intent=f"Plan another way for the goal “{title}”",
            rationale="Its last check failed, and it does not get on by itself.",
            request=f"The goal “{title}” does not hold any more. Plan another way to reach it.\n\n"
            f"{item.body}",
            taint=await self.taint_of(item),
        )

    async def _of_habits(self, scope_id: str, now: datetime) -> list[SuggestionProposal]:
        ended = [each for status in ENDED_WELL for each in await self.items.list_by_status(status)]
        done = sorted(ended, key=lambda item: (str(item.created_at), item.id))
        recent = [
            item
            for item in done[-_MOST_LOOKED_AT:]
            if item.created_at
            and now - item.created_at < _LATELY
            and await self.taint_of(item) is TaintLevel.OWNER  # rule 5
        ]
        found = repeated_command(recent)
        return [from_habit(self.ids, now, *found, scope_id=scope_id)] if found else []


def from_habit(
    ids: IdFactory, now: datetime, command: str, count: int, *, scope_id: str
) -> SuggestionProposal:
    """To let a command be watched, instead of asking each time."""
    request = f"watch the command `{command}` every day"
    return propose(
        ids,
        now,
        scope_id=scope_id,
        source=IDLE,
        request=request,
        key=request,
        intent=f"Watch `{command}` every day",
        rationale=f"You have let me run it {count} times lately. I could look by myself, and tell "
        "you when it does not work.",
        taint=TaintLevel.OWNER,  # rule 5: only work that the owner's own words made is counted
    )


def repeated_command(done: Sequence[WorkItem]) -> tuple[str, int] | None:
    """The command that was run most often by itself, if it was often enough."""
    commands = Counter(command for item in done if (command := _only_command(item)))
    often = [(command, count) for command, count in commands.most_common(1) if count >= OFTEN]
    return often[0] if often else None


def _only_command(item: WorkItem) -> str | None:
    if item.type is not WorkItemType.TASK:
        return None
    try:
        steps = read_script(item.body)
    except ScriptInvalid:
        return None
    if len(steps) != 1 or not isinstance(steps[0], RunStep):
        return None
    argv = steps[0].argv
    command = argv[2] if argv[:2] == ("sh", "-c") and len(argv) == len("abc") else shlex.join(argv)
    return command if "`" not in command and "\n" not in command else None


def _is_suggestion(question: Question) -> bool:
    return question.content.kind is QuestionKind.SUGGESTION and not is_digest(question)
