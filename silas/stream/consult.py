"""A worker that is stuck asks the planner, over the bus, and waits.

1. The question is written down and queued together; the worker is suspended.
2. The answer counts only while it is waited for: until its deadline, and once. All others are late
   and ignored, with a line in the audit log.
3. The worker is resumed with the advice, or without it when the time is over.
4. What the planner uses for it is the planner's, not the work item's: of the item's budget it costs
   one planner call.

If the process dies meanwhile, the attempt is over anyway: the next one asks anew.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta

from silas.audit.models import AuditTrail
from silas.kernel import Clock, IdFactory, TaintLevel, format_timestamp
from silas.queue.models import (
    Agent,
    ConsultRequest,
    MessageKind,
    PlannerGuidance,
    QueueMessage,
    Urgency,
    follow,
)
from silas.queue.store import QueueStore
from silas.storage import Database, Transaction
from silas.work.models import VerificationResult, WorkItem
from silas.work.ports import Guidance
from silas.work.spawning import describe_failures

_INSERT = """
INSERT INTO planner_consults (consult_id, work_item_id, status, deadline) VALUES (?, ?, 'open', ?)
"""
_ANSWER = """
UPDATE planner_consults SET status = 'answered', advice = ?, tokens = ?, cost_usd = ?
WHERE consult_id = ? AND work_item_id = ? AND status = 'open' AND deadline > ?
"""
_CLOSE = "DELETE FROM planner_consults WHERE consult_id = ?"
_FORGET = "DELETE FROM planner_consults WHERE deadline <= ?"
_READ = """
SELECT advice, tokens, cost_usd FROM planner_consults WHERE consult_id = ? AND status = 'answered'
"""
_POLL_SECONDS = 0.5


class Consultations:
    """The questions that are open, in the database and in this process."""

    def __init__(self, database: Database, *, clock: Clock, poll: float = _POLL_SECONDS) -> None:
        self._database = database
        self._clock = clock
        self._poll = poll
        self._heard: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def open_in(self, tx: Transaction, request: ConsultRequest) -> None:
        """Write a question down; those that a crash has left behind are forgotten."""
        tx.execute(_FORGET, (format_timestamp(self._clock.now()),))
        deadline = format_timestamp(request.deadline)
        tx.execute(_INSERT, (request.consult_id, request.work_item_id, deadline))

    async def answer(self, guidance: PlannerGuidance, text: str) -> bool:
        """Take an answer in; False if it is late or was never asked for."""
        now = format_timestamp(self._clock.now())
        taken = await self._database.execute(
            _ANSWER,
            (
                text,
                guidance.tokens,
                guidance.cost_usd,
                guidance.consult_id,
                guidance.work_item_id,
                now,
            ),
        )
        if guidance.consult_id in self._heard:
            self._heard[guidance.consult_id].set()
        return bool(taken)

    async def wait(self, request: ConsultRequest) -> Guidance | None:
        """The advice and what it used, which the item is charged for; None if none came in time.

        The answer may come in another process.
        """
        heard = self._heard[request.consult_id]
        try:
            while self._clock.now() < request.deadline:
                advice = await self._advice(request.consult_id)
                if advice is not None:
                    return advice
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._poll):
                        await heard.wait()
                heard.clear()
            return await self._advice(request.consult_id)
        finally:
            self._heard.pop(request.consult_id, None)
            await self._database.execute(_CLOSE, (request.consult_id,))

    async def _advice(self, consult_id: str) -> Guidance | None:
        row = await self._database.fetch_one(_READ, (consult_id,))
        if row is None:
            return None
        text, tokens, cost_usd = row
        return Guidance(text=text, tokens=tokens, cost_usd=cost_usd)


class BusPlanner:
    """`silas.work.ports.Planner` over the bus."""

    def __init__(
        self,
        queue: QueueStore,
        database: Database,
        consultations: Consultations,
        *,
        audit: AuditTrail,
        clock: Clock,
        ids: IdFactory,
        cause: Callable[[WorkItem], QueueMessage | None],
        seconds: float = 90.0,
    ) -> None:
        """`cause` says which message led to the work; without one nobody is asked."""
        self._queue = queue
        self._database = database
        self._consultations = consultations
        self._audit = audit
        self._clock = clock
        self._ids = ids
        self._cause = cause
        self._seconds = seconds

    async def consult(
        self, item: WorkItem, failures: Sequence[VerificationResult], *, reason: str
    ) -> Guidance:
        cause = self._cause(item)
        if cause is None:
            raise TimeoutError("nothing says for whom this work is done")
        request = ConsultRequest(
            consult_id=self._ids.new("consult"),
            work_item_id=item.id,
            attempt_number=item.attempts,
            failures=[failure.name for failure in failures],
            deadline=self._clock.now() + timedelta(seconds=self._seconds),
        )
        message = self._message(cause, item, request, described(item, failures, reason))

        def ask(tx: Transaction) -> None:
            self._consultations.open_in(tx, request)
            self._queue.enqueue_in(tx, message)

        await self._database.transaction(ask)
        self._queue.bus.notify_of([message])
        advice = await self._consultations.wait(request)
        if advice is None:
            raise TimeoutError(f"no advice within {self._seconds:g} seconds")
        return advice

    def _message(
        self, cause: QueueMessage, item: WorkItem, request: ConsultRequest, text: str
    ) -> QueueMessage:
        return follow(
            cause,
            sender=Agent.RUNTIME,
            kind=MessageKind.CONSULT_PLANNER,
            content=text,
            payload=request,
            ids=self._ids,
            clock=self._clock,
            # What checks print comes from the checked system, and may hold anything.
            taint=TaintLevel.EXTERNAL,
            task_id=item.id,
            urgency=Urgency.NEEDS_ATTENTION,
        )


def described(item: WorkItem, failures: Sequence[VerificationResult], reason: str) -> str:
    """What happened, for a planner who knows nothing about it yet."""
    found = describe_failures(list(failures)) or "- nothing was found out by checks"
    return (
        f"The work item {item.id} ({item.title}) is stuck after {item.attempts} attempts.\n"
        f"Reason: {reason or 'unknown'}\n\nIts briefing:\n{item.body}\n\nFailed checks:\n{found}"
    )
