"""Autonomy that is earned: proposed from what the owner decided, changed only by his approval.

1. The evidence for a knob is the share of cases that the owner corrected (`outcomes`), among the
   last so many, in so many days. Without enough of them nothing is proposed.
2. Below one threshold more is proposed, above a higher one less: the two differ, so that proposals
   do not go to and fro. A change of a knob makes its evidence start anew, and a knob that was
   tightened is widened only if less than before was corrected.
3. A change is in force only by a token of the scope `autonomy_threshold` for exactly this proposal,
   verified when it was given and checked at every look. A row without one changes nothing. Taking
   it back needs no token.
4. Until when changes were taken back, or followed by another one, is kept in the vault, by knob: no
   row brings them back.
5. No value goes beyond its cap, whatever a change says: the cap is applied at every look.
6. Every change ends by itself, with its token.
7. When corrections rise, a widening ends by itself at once, and the owner is told afterwards. More
   than what was widened is not taken back without him: that is proposed.
8. What a proposal says is written here, from names and figures. No text of a model, a stranger or a
   work item stands in it.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pydantic import Field

from silas.approval import ApprovalEngine, ApprovalScope, ApprovalToken
from silas.approval.keys import EVERYTHING, EndedNames
from silas.audit.models import AuditTrail
from silas.gates.risk import RiskLevel
from silas.kernel import (
    ApprovalError,
    Clock,
    IdFactory,
    TaintLevel,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
    strict_loads,
)
from silas.kernel.models import Data, UtcDatetime
from silas.proactive.outcomes import Case, OutcomeStore, Tally, of_actions
from silas.review.decisions import Decisions, QuestionKind
from silas.review.questions import (
    AUTONOMY_TTL,
    QUESTION,
    AnsweredQuestion,
    Question,
    QuestionChoice,
    QuestionContent,
    autonomy_payload,
)
from silas.secrets.vault import Vault
from silas.storage import Database, Durability, Transaction

ENDED_AUTONOMY_REF = "silas/ended-autonomy"
LIFETIME = timedelta(days=7)
TIGHTENED = "autonomy_tightened"
_JUST_BEFORE = timedelta(microseconds=1)
_ACCEPT = frozenset({ApprovalScope.AUTONOMY_THRESHOLD})
_STEP = 0.05
_HIGHEST_MIN = 0.99
_FEWEST_TO_TIGHTEN = 10
_MOST_SHOWN = 12
_OPEN = "SELECT proposal_id, payload, token FROM autonomy_changes WHERE ended_at IS NULL "


class Knob(StrEnum):
    """What the owner can widen or tighten, and nobody else."""

    SCOPE = "standing.scope"
    EXECUTIONS = "standing.max_executions"
    EXPIRY = "standing.expires_at"
    BATCH_SIZE = "batch_review.default_size"
    HIGH_MIN = "batch_review.confidence.high_min"


class AutonomyPolicy(Data):
    """The settings, as far as proposals are concerned."""

    enabled: bool = True
    min_samples: int = 30
    window_actions: int = 50
    window_days: int = 14
    widen_at_most: float = 0.05
    tighten_from: float = 0.20
    hysteresis: float = 0.05
    batch_size: int = 10
    batch_cap: int = 50
    high_min: float = 0.85
    high_min_cap: float = 0.70
    """The lowest that the high band can begin at."""
    standing_cap: int = 100
    """Most uses of a standing grant."""
    standing_days_cap: int = 90

    @property
    def window(self) -> timedelta:
        return timedelta(days=self.window_days)

    @property
    def words(self) -> str:
        """The window, as a card says it."""
        return f"last {self.window_actions} decisions / {self.window_days} days"


Direction = Literal["widen", "tighten"]


class AutonomyThresholdProposal(Data):
    """A change of thresholds as it is put before the owner, with what it rests on."""

    proposal_id: str
    scope_id: str
    goal_id: str | None = None
    """The goal or the standing grant that it is about; None: everything."""
    changes: tuple[dict[str, str], ...]
    sample_size: int
    correction_rate: float
    evidence_window: str
    rationale: str
    risk_level: Literal["medium", "high"] = "high"
    created_at: UtcDatetime
    decisions: tuple[dict[str, Any], ...] = Field(default=())
    """The newest of the decisions that it rests on: references, times and what became of them."""

    @property
    def widens(self) -> bool:
        return any(each["direction"] == "widen" for each in self.changes)


class InForce(NamedTuple):
    """A change that the owner has approved, as it is now."""

    key: str
    goal_id: str | None
    value: str
    before: str
    direction: str
    since: datetime
    until: datetime
    proposal_id: str
    sample_size: int
    correction_rate: float


class KnobSubject(NamedTuple):
    """One knob of a standing grant that could be widened, with the cases that speak about it."""

    goal_id: str
    key: Knob
    current_value: str
    proposed_value: str
    cases: Sequence[Case]
    fewest: int
    """How many cases it takes."""
    why: str


KnobSubjects = Callable[[], Awaitable[Sequence[KnobSubject]]]


async def no_subjects() -> Sequence[KnobSubject]:
    """Nothing stands."""
    return ()


def name_of(key: str, goal_id: str | None) -> str:
    """The name of a knob of one subject, as its end is kept."""
    return key if goal_id is None else f"{key}@{goal_id}"


@dataclass(frozen=True)
class AutonomyCalibrator:
    """The thresholds of one data directory."""

    database: Database
    approvals: ApprovalEngine
    decisions: Decisions
    policy: AutonomyPolicy
    outcomes: OutcomeStore
    vault: Vault
    audit: AuditTrail
    clock: Clock
    ids: IdFactory

    @cached_property
    def ended(self) -> EndedNames:
        """What was taken back (rule 4)."""
        return EndedNames(self.vault, ENDED_AUTONOMY_REF, self.clock)

    async def batch_size(self, goal_id: str | None = None) -> int:
        """How many items one batch holds now (rules 3 and 5)."""
        return int(await self.value(Knob.BATCH_SIZE, goal_id))

    async def high_min(self, goal_id: str | None = None) -> float:
        """From which confidence on an item belongs to the high band now (rules 3 and 5)."""
        return float(await self.value(Knob.HIGH_MIN, goal_id))

    async def value(self, key: str, goal_id: str | None = None) -> str:
        """What is in force of the two knobs of batches: for this goal, for all, or as set."""
        found = {each.goal_id: each.value for each in await self.in_force() if each.key == key}
        usual = {
            Knob.BATCH_SIZE: str(self.policy.batch_size),
            Knob.HIGH_MIN: _share(self.policy.high_min),
        }
        return found.get(goal_id) or found.get(None) or usual[Knob(key)]

    async def in_force(self) -> list[InForce]:
        """The changes that the owner has approved and nobody has ended, the newest of each."""
        rows = await self.database.fetch_all(f"{_OPEN} ORDER BY changed_at DESC")
        found: dict[str, InForce] = {}
        for name, payload, token in rows:
            changes = await self._proven(str(payload), str(token))
            if not changes:
                await self._close(str(name))  # it is refused once, not at every look
            for each in changes:
                found.setdefault(name_of(each.key, each.goal_id), each)
        return list(found.values())

    async def _proven(self, kept: str, kept_token: str) -> list[InForce]:
        """The changes of a row that are in force: with the token for exactly them (rule 3)."""
        try:
            payload = autonomy_payload(strict_loads(kept))
            token = ApprovalToken.model_validate_json(kept_token)
        except (ValueError, KeyError, TypeError):
            return []
        ended = self.ended
        # A vault that does not open is no answer: it raises, before anything is refused for good.
        await asyncio.to_thread(ended.until, payload.id)
        if not (await self.approvals.check(token, payload, accept=_ACCEPT))[0]:
            return []
        return [
            InForce(
                each.key,
                payload.goal_id,
                value,
                each.current_value,
                each.direction,
                token.issued_at,
                token.expires_at,
                payload.proposal_id,
                payload.sample_size,
                payload.correction_rate,
            )
            for each in payload.changes
            if (value := self.capped(each.key, each.proposed_value)) is not None
            and not await asyncio.to_thread(
                ended.covers, name_of(each.key, payload.goal_id), token.issued_at
            )
        ]

    def capped(self, key: str, value: str) -> str | None:
        """A value within its cap (rule 5); None if it is no value of this knob."""
        try:
            if key == Knob.BATCH_SIZE:
                return str(max(1, min(int(value), self.policy.batch_cap)))
            if key == Knob.HIGH_MIN:
                lowest = min(self.policy.high_min_cap, self.policy.high_min)
                return _share(min(_HIGHEST_MIN, max(lowest, float(value))))
            if key == Knob.EXECUTIONS:
                return str(max(1, min(int(value), self.policy.standing_cap)))
            if key == Knob.EXPIRY:
                return format_timestamp(parse_timestamp(value))
        except ValueError:
            return None
        return value if key == Knob.SCOPE else None

    async def evaluate(
        self, scope_id: str, now: datetime, subjects: KnobSubjects = no_subjects
    ) -> list[Question]:
        """What to propose now, as cards (rules 1 and 2)."""
        if not self.policy.enabled:
            return []
        cases = await self.outcomes.cases(scope_id, since=now - self.policy.window)
        found = [await self._of_batches(scope_id, cases), await self._of_band(scope_id, cases)]
        found += [await self._of_grant(scope_id, subject) for subject in await subjects()]
        return [self.card(each) for each in found if each is not None]

    async def _of_batches(
        self, scope_id: str, cases: Sequence[Case]
    ) -> AutonomyThresholdProposal | None:
        size, policy = await self.batch_size(), self.policy
        tally = await self._since_change(of_actions(cases), Knob.BATCH_SIZE)
        if size < policy.batch_cap and await self._may_widen(tally, Knob.BATCH_SIZE):
            wanted = min(size * 2, policy.batch_cap)
            why = "More of them could be decided at once."
            return self._proposal(scope_id, Knob.BATCH_SIZE, tally, values=(size, wanted), why=why)
        if size > policy.batch_size // 2 and size > 1 and self._should_tighten(tally):
            why = "Fewer at once would be easier to look at."
            wanted = max(size // 2, 1)
            return self._proposal(
                scope_id, Knob.BATCH_SIZE, tally, values=(size, wanted), why=why, wider=False
            )
        return None

    async def _of_band(
        self, scope_id: str, cases: Sequence[Case]
    ) -> AutonomyThresholdProposal | None:
        """The band: widened on the items that would be new in it, tightened on those in it."""
        low, policy = await self.high_min(), self.policy
        tally = await self._since_change(of_actions(cases), Knob.HIGH_MIN)
        lower = max(policy.high_min_cap, round(low - _STEP, 4))
        new = tally.between(lower, low)
        if lower < low and await self._may_widen(new, Knob.HIGH_MIN):
            why = "That is how it was with items that I was a little less sure of."
            values = _share(low), _share(lower)
            return self._proposal(scope_id, Knob.HIGH_MIN, new, values=values, why=why)
        sure = tally.at_least(low)
        higher = round(min(_HIGHEST_MIN, low + _STEP), 4)
        if low <= policy.high_min and higher > low and self._should_tighten(sure):
            why = "That is how it was with items that I was sure of."
            values = _share(low), _share(higher)
            return self._proposal(
                scope_id, Knob.HIGH_MIN, sure, values=values, why=why, wider=False
            )
        return None

    async def _of_grant(
        self, scope_id: str, subject: KnobSubject
    ) -> AutonomyThresholdProposal | None:
        """One more step for a standing grant."""
        key, goal = subject.key, subject.goal_id
        tally = await self._since_change(Tally("", tuple(subject.cases)), key, goal)
        if not await self._may_widen(tally, key, goal, fewest=subject.fewest):
            return None
        values = subject.current_value, subject.proposed_value
        return self._proposal(scope_id, key, tally, values=values, why=subject.why, goal_id=goal)

    async def _since_change(self, tally: Tally, key: str, goal_id: str | None = None) -> Tally:
        """The cases since this knob was changed or taken back (rule 2)."""
        until = await asyncio.to_thread(self.ended.until, name_of(key, goal_id))
        last = tally.newest(len(tally.cases)) if until is None else tally.after(until)
        return last.newest(self.policy.window_actions)

    async def _may_widen(
        self, tally: Tally, key: str, goal_id: str | None = None, *, fewest: int | None = None
    ) -> bool:
        """Rules 1 and 2."""
        policy = self.policy
        if tally.samples < (fewest or policy.min_samples):
            return False
        name = f"{name_of(key, goal_id)}/tightened"
        tightened = await asyncio.to_thread(self.ended.until, name)
        limit = policy.widen_at_most
        if tightened is not None:
            limit = max(0.0, limit - policy.hysteresis)
        return tally.rate <= limit

    def _should_tighten(self, tally: Tally) -> bool:
        return tally.samples >= self.policy.min_samples and tally.rate >= self.policy.tighten_from

    def _proposal(
        self,
        scope_id: str,
        key: Knob,
        tally: Tally,
        *,
        values: tuple[object, object],
        why: str,
        wider: bool = True,
        goal_id: str | None = None,
    ) -> AutonomyThresholdProposal:
        direction: Direction = "widen" if wider else "tighten"
        change = {
            "key": key.value,
            "current_value": str(values[0]),
            "proposed_value": str(values[1]),
            "direction": direction,
        }
        corrected = f"You corrected {tally.corrections} of the last {tally.samples} decisions."
        return AutonomyThresholdProposal(
            proposal_id=self.ids.new(QUESTION),
            scope_id=scope_id,
            goal_id=goal_id,
            changes=(change,),
            sample_size=tally.samples,
            correction_rate=tally.rate,
            evidence_window=self.policy.words,
            rationale=f"{corrected} {why}",
            created_at=self.clock.now(),
            decisions=tuple(map(_shown, tally.cases[:_MOST_SHOWN])),
        )

    def card(self, proposal: AutonomyThresholdProposal) -> Question:
        """The proposal as a card (rule 8)."""
        [change] = proposal.changes
        key, value = change["key"], change["proposed_value"]
        about = name_of(key, proposal.goal_id)
        return Question(
            question_id=proposal.proposal_id,
            scope_id=proposal.scope_id,
            trace_id=f"trace_{proposal.proposal_id}",
            about=f"autonomy:{about}",
            content=QuestionContent(
                kind=QuestionKind.AUTONOMY,
                intent=_INTENTS[Knob(key)].format(value=value, current=change["current_value"]),
                rationale=proposal.rationale,
                risk=RiskLevel.HIGH,
                taint=TaintLevel.OWNER,
                actions=[
                    QuestionChoice(
                        value="approve", label=f"Change it for {AUTONOMY_TTL.days} days"
                    ),
                    QuestionChoice(value="tighten_now", label="Tighten: take everything back"),
                    QuestionChoice(value="decline", label="Leave it as it is"),
                ],
                body=proposal.model_dump(mode="json", exclude={"rationale", "risk_level"}),
            ),
            created_at=proposal.created_at,
            expires_at=proposal.created_at + LIFETIME,
        )

    async def apply(self, answered: AnsweredQuestion) -> None:
        """Put an approved change in force (rules 3 and 4); raises `ApprovalError`."""
        question = answered.question
        payload = autonomy_payload(question.content.body)
        token = await self.decisions.token_of(answered.decision, payload.id)
        if token is None:
            raise ApprovalError("Nothing was changed: it was decided too long ago.")
        valid, reason = await self.approvals.verify(token, payload, accept=_ACCEPT)
        if not valid:  # it may have been used up for this very change, just before a crash
            valid, _ = await self.approvals.check(token, payload, accept=_ACCEPT)
        if not valid:
            raise ApprovalError(f"Nothing was changed: {reason}.")
        names = [name_of(each.key, payload.goal_id) for each in payload.changes]
        tightens = [
            f"{name_of(each.key, payload.goal_id)}/tightened"
            for each in payload.changes
            if each.direction == "tighten"
        ]
        await asyncio.to_thread(self.ended.end, [*names, *tightens], token.issued_at - _JUST_BEFORE)
        values = (
            payload.proposal_id,
            canonical_bytes(question.content.body).decode(),
            token.model_dump_json(),
            format_timestamp(self.clock.now()),
        )

        def write(tx: Transaction) -> None:
            if tx.execute(
                "INSERT INTO autonomy_changes (proposal_id, payload, token, changed_at) "
                "VALUES (?, ?, ?, ?) ON CONFLICT (proposal_id) DO NOTHING",
                values,
            ):
                entry = {"proposal": payload.proposal_id, "verdict": "approve"}
                self.audit.append(tx, "autonomy_decided", entry)

        await self.database.transaction(write, durability=Durability.TRUST)

    async def tighten(self, proposal_id: str | None = None) -> list[InForce]:
        """Take every widening back, at once; returns what was in force."""
        known = await self.in_force()
        now = self.clock.now()
        names = [name_of(each.key, each.goal_id) for each in known]
        await asyncio.to_thread(self.ended.end, [EVERYTHING, *names], now)

        def write(tx: Transaction) -> None:
            tx.execute(
                "UPDATE autonomy_changes SET ended_at = ? WHERE ended_at IS NULL",
                (format_timestamp(now),),
            )
            entry = {"proposal": proposal_id, "verdict": "tighten_now", "changes": len(known)}
            self.audit.append(tx, "autonomy_decided", entry)

        await self.database.transaction(write, durability=Durability.TRUST)
        return known

    async def tighten_where_corrected(self, scope_id: str) -> list[InForce]:
        """Take back the widenings whose evidence has turned (rule 7); returns them."""
        widened = [each for each in await self.in_force() if each.direction == "widen"]
        if not widened:
            return []
        since = self.clock.now() - self.policy.window
        cases = await self.outcomes.cases(scope_id, since=since)
        turned = [each for each in widened if self.has_turned(_evidence(each, cases))]
        now = self.clock.now()
        names = [name_of(each.key, each.goal_id) for each in turned]
        if not turned:
            return []
        marked = [f"{name}/tightened" for name in names]
        await asyncio.to_thread(self.ended.end, [*names, *marked], now)
        for each in turned:
            tally = _evidence(each, cases).newest(_FEWEST_TO_TIGHTEN)
            await self.audit.log(
                TIGHTENED,
                key=each.key,
                goal=each.goal_id,
                value=each.value,
                before=each.before,
                samples=tally.samples,
                corrections=tally.corrections,
            )
        return turned

    def has_turned(self, tally: Tally) -> bool:
        """Whether much was corrected lately: fewer cases are enough than for more freedom."""
        few = min(_FEWEST_TO_TIGHTEN, self.policy.min_samples)
        lately, longer = tally.newest(few), tally.newest(self.policy.min_samples)
        sudden = lately.samples >= few and lately.rate >= 2 * self.policy.tighten_from
        steady = longer.samples >= self.policy.min_samples
        return sudden or (steady and longer.rate >= self.policy.tighten_from)

    async def _close(self, name: str) -> None:
        await self.database.execute(
            "UPDATE autonomy_changes SET ended_at = ? WHERE proposal_id = ?",
            (format_timestamp(self.clock.now()), name),
        )


_INTENTS = {
    Knob.BATCH_SIZE: "Decide up to {value} items at once, instead of {current}",
    Knob.HIGH_MIN: "Put what I am sure of from {value} on into batches, instead of {current}",
    Knob.EXECUTIONS: "Let a standing grant be used {value} times, instead of {current}",
    Knob.EXPIRY: "Let a standing grant hold longer",
    Knob.SCOPE: "Let a standing grant cover more",
}


def _evidence(change: InForce, cases: Sequence[Case]) -> Tally:
    """The cases since a widening that are about what it has widened."""
    tally = of_actions(cases)
    if change.goal_id is not None:
        tally = tally.of_goal(change.goal_id)
    if change.key == Knob.HIGH_MIN:
        tally = tally.at_least(float(change.value))
    return tally.after(change.since)


def _shown(case: Case) -> dict[str, Any]:
    return {
        "ref": case.ref,
        "at": format_timestamp(case.at),
        "families": sorted(case.families),
        "outcomes": sorted(case.outcomes),
    }


def _share(value: float) -> str:
    return json.dumps(round(value, 4))
