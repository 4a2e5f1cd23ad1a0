"""The planner's research: a state machine that survives a crash at any point.

`planning` -> `awaiting_research` -> `planning` ... -> `ready_to_finalize` or `expired`

1. A question goes out only while fewer than `in_flight` are out, only in one of `rounds` rounds,
   and only once: one that was asked before, in other spacing or case, is not asked again.
2. A result counts only for a question that is out and before its deadline. All others are late.
3. When nothing is out any more, the planner goes on. After the last round it must finish; so must
   it if a whole round brought nothing in time (`expired`), or if its budget is used up.
4. The message that closed a round is written down: if the process dies then, the same message,
   delivered again, goes on from there. No other does.

The functions compute; `ResearchStore` is where the planner's requests survive a crash.
"""

import hashlib
from datetime import datetime
from enum import StrEnum

from pydantic import Field

from silas.kernel import TaintLevel, format_timestamp, join_taint
from silas.kernel.models import Data, UtcDatetime
from silas.kernel.taint import first_sources
from silas.queue.models import QueueMessage
from silas.storage import Database, Transaction
from silas.stream.errors import ConversationMoved
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


class ResearchQuestion(Data):
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
    questions: list[ResearchQuestion] = Field(default_factory=list)
    closed_by: str | None = None
    usage: Usage = Usage()
    taint: TaintLevel
    sources: tuple[str, ...] = ()
    problem: str = ""
    """Why the plan that was written cannot be used; the planner is asked for it once more."""

    @property
    def findings(self) -> list[Finding]:
        """What is known so far."""
        return [each.finding for each in self.questions if each.finding is not None]

    @property
    def outstanding(self) -> list[ResearchQuestion]:
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
    return ResearchState(request=request, taint=request.taint, sources=tuple(request.taint_sources))


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


def asked(state: ResearchState, questions: list[ResearchQuestion]) -> ResearchState:
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
    sources: tuple[str, ...] = ()
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
        changes["sources"] = first_sources((*state.sources, *result.sources))
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


_INSERT = """
INSERT INTO planner_requests (request_id, scope_id, status, state, next_deadline, version)
VALUES (?, ?, ?, ?, ?, 1)
"""
_UPDATE = """
UPDATE planner_requests SET status = ?, state = ?, next_deadline = ?, version = version + 1
WHERE request_id = ? AND version = ?
"""
_SELECT = "SELECT state, version FROM planner_requests WHERE request_id = ?"
_UNDER_WAY = "SELECT state FROM planner_requests ORDER BY request_id"
_OVERDUE = "SELECT state FROM planner_requests WHERE next_deadline <= ? ORDER BY request_id LIMIT ?"


class ResearchStore:
    """The planner's requests. A finished one is removed: what comes for it then is late."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, request_id: str) -> tuple[ResearchState, int] | None:
        """The state and its version; None if there is no such request, or not any more."""
        row = await self._database.fetch_one(_SELECT, (request_id,))
        return (ResearchState.model_validate_json(row[0]), row[1]) if row else None

    async def under_way(self) -> list[ResearchState]:
        """All requests that are being planned, the oldest first."""
        rows = await self._database.fetch_all(_UNDER_WAY)
        return [ResearchState.model_validate_json(body) for (body,) in rows]

    async def record(
        self, request_id: str, result: Result, limits: ResearchLimits
    ) -> tuple[ResearchState, int] | None:
        """Take in a result, and return the state after it; None if the request is over."""

        def change(tx: Transaction) -> tuple[ResearchState, int] | None:
            row = tx.fetch_one(_SELECT, (request_id,))
            if row is None:
                return None
            before, version = ResearchState.model_validate_json(row[0]), row[1]
            after = received(before, result, limits)
            if after == before:
                return before, version
            self.save_in(tx, after, version=version)
            return after, version + 1

        return await self._database.transaction(change)

    def save_in(self, tx: Transaction, state: ResearchState, *, version: int) -> None:
        """Write the state over this version of it (0: it is new)."""
        deadline = format_timestamp(state.next_deadline) if state.next_deadline else None
        written = state.model_dump_json()
        request = state.request
        if version == 0:
            tx.execute(
                _INSERT,
                (request.message_id, request.scope_id, state.status.value, written, deadline),
            )
        elif not tx.execute(
            _UPDATE, (state.status.value, written, deadline, request.message_id, version)
        ):
            raise ConversationMoved

    def remove_in(self, tx: Transaction, request_id: str, *, version: int) -> None:
        """The planner is done with this version of the request."""
        gone = tx.execute(
            "DELETE FROM planner_requests WHERE request_id = ? AND version = ?",
            (request_id, version),
        )
        if version and not gone:
            raise ConversationMoved

    async def overdue(self, now: datetime, *, limit: int = 100) -> list[ResearchState]:
        """Requests in which something that is waited for is too late."""
        rows = await self._database.fetch_all(_OVERDUE, (format_timestamp(now), limit))
        return [ResearchState.model_validate_json(row[0]) for row in rows]
