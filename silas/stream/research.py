"""The planner's research: a state machine that survives a crash at any point.

`planning` -> `awaiting_research` -> `planning` ... -> `ready_to_finalize` or `expired`

1. A question goes out only while fewer than `in_flight` are out, only in one of `rounds` rounds,
   and only once: one that was asked before, in other spacing or case, is not asked again.
2. A result counts only for a question that is out and before its deadline. All others are late.
3. When nothing is out any more, the planner goes on. After the last round it must finish; so must
   it if a whole round brought nothing in time (`expired`), or if its budget is used up.
4. The message that closed a round is written down: if the process dies then, the same message,
   delivered again, goes on from there. No other does.

This module computes; `research_store.py` keeps.
"""

import hashlib
from datetime import datetime
from enum import StrEnum

from pydantic import Field

from silas.kernel import TaintLevel, join_taint
from silas.kernel.models import Data, UtcDatetime
from silas.queue.models import QueueMessage
from silas.stream.models import Usage
from silas.stream.ports import Finding

TOO_LATE = "There was no answer in time."


class ResearchStatus(StrEnum):
    """Where the planner stands with one request."""

    PLANNING = "planning"
    AWAITING = "awaiting_research"
    READY = "ready_to_finalize"
    EXPIRED = "expired"


class ResearchLimits(Data):
    """How much the planner may ask, and what one request may cost."""

    in_flight: int = Field(default=3, ge=1)
    rounds: int = Field(default=5, ge=1)
    seconds: float = Field(default=120, gt=0)
    max_tokens: int = Field(default=200_000, ge=1)
    max_cost_usd: float = Field(default=2.0, ge=0)


class Question(Data):
    """One question of the planner's, and what came back."""

    research_id: str
    question: str
    digest: str
    round: int
    deadline: UtcDatetime
    finding: Finding | None = None
    """None while it is out."""


class ResearchState(Data):
    """Everything about one plan request. It is enough to go on after a crash."""

    request: QueueMessage
    status: ResearchStatus = ResearchStatus.PLANNING
    round: int = 0
    questions: list[Question] = Field(default_factory=list)
    closed_by: str | None = None
    usage: Usage = Usage()
    taint: TaintLevel

    @property
    def findings(self) -> list[Finding]:
        """What is known so far."""
        return [each.finding for each in self.questions if each.finding is not None]

    @property
    def outstanding(self) -> list[Question]:
        """The questions that are out."""
        return [each for each in self.questions if each.finding is None]

    @property
    def must_finish(self) -> bool:
        """Whether no more research is offered."""
        return self.status in (ResearchStatus.READY, ResearchStatus.EXPIRED)

    @property
    def next_deadline(self) -> datetime | None:
        """When something that is waited for becomes too late."""
        return min((each.deadline for each in self.outstanding), default=None)


def begin(request: QueueMessage) -> ResearchState:
    """The state of a request that has just come in."""
    return ResearchState(request=request, taint=request.taint)


def digest_of(question: str) -> str:
    """Equal for questions that differ in spacing or case alone."""
    return hashlib.sha256(" ".join(question.casefold().split()).encode()).hexdigest()


def refusal(state: ResearchState, question: str, *, more: int, limits: ResearchLimits) -> str:
    """Why the question cannot be asked now, for the planner; empty if it can.

    `more` questions were accepted since the planner began to think.
    """
    if state.must_finish or state.round >= limits.rounds:
        return "There is no more research. Write the plan with what is known."
    if any(each.digest == digest_of(question) for each in state.questions):
        return "This was asked before. Its answer is among the findings."
    if more >= limits.in_flight:
        return f"At most {limits.in_flight} questions at a time. Ask again in the next round."
    return ""


def asked(state: ResearchState, questions: list[Question]) -> ResearchState:
    """The planner has asked these questions: they are out."""
    return state.model_copy(
        update={
            "status": ResearchStatus.AWAITING,
            "round": state.round + 1,
            "questions": [*state.questions, *questions],
            "closed_by": None,
        }
    )


class Result(Data):
    """What came back for one question."""

    research_id: str
    finding: Finding
    usage: Usage = Usage()
    taint: TaintLevel
    at: UtcDatetime


def received(state: ResearchState, result: Result, limits: ResearchLimits) -> ResearchState:
    """The state after a result; the same one if it is late, doubled, or was never asked for."""
    known = next((q for q in state.outstanding if q.research_id == result.research_id), None)
    if state.status is not ResearchStatus.AWAITING or known is None:
        return state
    late = result.at >= known.deadline
    finding = result.finding.model_copy(update={"question": known.question})
    if late:
        finding = Finding(question=known.question, answer=TOO_LATE, ok=False, sources=[])
    answered = known.model_copy(update={"finding": finding})
    questions = [answered if q.research_id == known.research_id else q for q in state.questions]
    changes: dict[str, object] = {
        "questions": questions,
        "usage": add_usage(state.usage, result.usage),
    }
    if not late:
        changes["taint"] = join_taint(state.taint, result.taint)
    now = state.model_copy(update=changes)
    return now if now.outstanding else _closed(now, result.research_id, limits)


def _closed(state: ResearchState, by: str, limits: ResearchLimits) -> ResearchState:
    this_round = [q.finding for q in state.questions if q.round == state.round and q.finding]
    used_up = state.usage.tokens >= limits.max_tokens or state.usage.cost_usd >= limits.max_cost_usd
    if all(finding.answer == TOO_LATE for finding in this_round):
        status = ResearchStatus.EXPIRED
    elif state.round >= limits.rounds or used_up:
        status = ResearchStatus.READY
    else:
        status = ResearchStatus.PLANNING
    return state.model_copy(update={"status": status, "closed_by": by})


def goes_on(state: ResearchState, research_id: str) -> bool:
    """Whether the planner goes on with this message: it is the one that closed the round."""
    return state.status is not ResearchStatus.AWAITING and state.closed_by == research_id


def add_usage(*used: Usage) -> Usage:
    """What several calls used together."""
    return Usage(
        tokens=sum(each.tokens for each in used), cost_usd=sum(each.cost_usd for each in used)
    )
