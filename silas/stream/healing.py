"""What follows when work has ended: retry -> consult the planner -> re-plan -> tell the user.

The first two happen inside the execution. Here is the rest: each level is exhausted before the
next, and a person is needed only when nothing is left, or when a policy wants a decision.

What a plan names for the case that something goes wrong (`on_block` of a gate, `on_stuck`,
`on_failure`) is followed by `WorkEscalation`: a message to whoever asked, the owner told, another
execution, a repair on a card.

`WorkProgress` tells how work goes: live to whoever watches, and on the bus where it has to be known
later.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any

from silas.gates import Gate
from silas.gates.models import GateBlock
from silas.kernel import ChannelError, TaintLevel
from silas.kernel.tasks import BackgroundWork
from silas.kernel.when import schedule_in_words
from silas.queue.models import (
    OWN_CHANNEL,
    Agent,
    ErrorCode,
    ExecutionRequest,
    ExecutionStatus,
    MessageKind,
    PrintedOutput,
    QueueMessage,
    QueueName,
    ReplanRequest,
    StatusPayload,
    Urgency,
    follow,
)
from silas.queue.store import QueueStore
from silas.storage import Transaction
from silas.stream.cards import asking, reply
from silas.stream.cases import HANDED_OVER
from silas.stream.consult import described
from silas.stream.gate_checks import clip
from silas.stream.store import Origin
from silas.stream.turn_context import TurnContext, Write
from silas.stream.visitors import is_visit
from silas.work.admission import GATE_BLOCKED, NO_APPROVAL
from silas.work.goal import ALL_PASSED, repairs_itself
from silas.work.models import ENDED_WELL, WorkItem, WorkItemResult, WorkItemStatus, WorkItemType
from silas.work.plan import CONSULT_PLANNER
from silas.work.spawning import spawn_task
from silas.work.tool_calls import GATE_STOPPED
from silas.work.wording import check_line, file_lines, kept_lines

_STATUS = {
    WorkItemStatus.DONE: ExecutionStatus.DONE,
    WorkItemStatus.UNCHECKED: ExecutionStatus.UNCHECKED,
    WorkItemStatus.HEALTHY: ExecutionStatus.DONE,
    WorkItemStatus.FAILED: ExecutionStatus.FAILED,
    WorkItemStatus.STUCK: ExecutionStatus.STUCK,
    WorkItemStatus.BLOCKED: ExecutionStatus.BLOCKED,
    WorkItemStatus.PAUSED: ExecutionStatus.BLOCKED,
    WorkItemStatus.REPLACED: ExecutionStatus.FAILED,
}


class Next(StrEnum):
    """What happens after an execution."""

    NOTHING = "nothing"
    REPORT = "report"
    """A goal's checks failed: the owner is told, and nothing else follows."""
    WAIT = "wait"
    """Something of it waits for the owner's decision."""
    REPLAN = "replan"
    ESCALATE = "escalate"


_URGENT = {Next.ESCALATE, Next.REPORT, Next.WAIT}


def what_next(item: WorkItem, result: WorkItemResult, *, depth: int, most: int) -> Next:
    """The next level of self-healing, for the item as it is after its execution.

    Nothing follows what the owner has stopped, what waits for the owner, and what a goal found in
    a cycle of its own: the next cycle looks again, and repairs while its budget lasts.
    """
    good = {*ENDED_WELL, WorkItemStatus.HEALTHY, WorkItemStatus.PAUSED}
    goal, failed = item.type is WorkItemType.GOAL, result.status is WorkItemStatus.FAILED
    cancelled = item.is_cancelled or (failed and item.type is WorkItemType.TASK)
    if result.status in good or cancelled:
        return Next.NOTHING
    if goal and failed:
        return Next.REPORT
    if result.status is WorkItemStatus.BLOCKED or item.on_stuck != CONSULT_PLANNER:
        return Next.ESCALATE
    return Next.REPLAN if depth < most else Next.ESCALATE


_BLOCKED_BY = {
    GATE_BLOCKED: ErrorCode.GATE_BLOCKED,
    NO_APPROVAL: ErrorCode.APPROVAL_DENIED,
}


@dataclass(frozen=True)
class StatusError:
    """What went wrong, as the headers of a status say it (spec 19.2.1)."""

    code: ErrorCode
    retryable: bool = False

    def headers(self, item: WorkItem) -> dict[str, Any]:
        """The normalized headers of the message."""
        return {
            "error_code": self.code,
            "retryable": self.retryable,
            "origin_agent": Agent.EXECUTOR,
            "attempt_number": item.attempts,
        }


def error_of(result: WorkItemResult, following: Next) -> StatusError | None:
    """What went wrong; None if nothing did, or the owner has stopped it, or decides about it."""
    if following in (Next.NOTHING, Next.WAIT):
        return None
    if result.status is WorkItemStatus.STUCK:
        return StatusError(ErrorCode.BUDGET_EXCEEDED)
    if result.status is WorkItemStatus.BLOCKED:
        return StatusError(_BLOCKED_BY.get(result.cause, ErrorCode.TOOL_FAILURE))
    failed = any(not check.passed for check in result.verification_results)
    return StatusError(
        ErrorCode.VERIFICATION_FAILED if failed else ErrorCode.TOOL_FAILURE, retryable=True
    )


def after_execution(
    services: TurnContext,
    request: QueueMessage,
    item: WorkItem,
    result: WorkItemResult,
    *,
    following: Next,
    depth: int,
    before: WorkItemStatus | None = None,
    printed: Sequence[PrintedOutput] = (),
    undo_until: datetime | None = None,
) -> tuple[QueueMessage, ...]:
    """The messages that an execution leads to; `before` is what the item was when it began."""
    status = status_message(
        services,
        request,
        item,
        status=_STATUS[result.status],
        text=report_of(item, result, following, before=before),
        detail=result.last_error,
        printed=printed,
        undo_until=undo_until,
        error=error_of(result, following),
        urgency=Urgency.NEEDS_ATTENTION if following in _URGENT else Urgency.INFORMATIONAL,
    )
    if following is not Next.REPLAN:
        return (status,)
    return status, _replan(services, request, item, result, depth=depth)


def report_of(
    item: WorkItem,
    result: WorkItemResult,
    following: Next,
    *,
    before: WorkItemStatus | None = None,
) -> str:
    """How it ended, in the runtime's words; the worker's own come last."""
    if item.type is WorkItemType.GOAL and result.summary == ALL_PASSED:
        again = before is WorkItemStatus.FAILED
        return clip(f"{item.title}: {'works again.' if again else result.summary}")
    lines = [f"{item.title}: {result.summary}"]
    if following is Next.REPORT:
        lines = [f"{item.title}: does not work."]
    elif result.last_error:
        lines.append(result.last_error)
    lines += [f"- {check_line(check)}" for check in result.verification_results]
    lines += [f"- {line}" for line in file_lines(result.changes, result.left)]
    lines += [f"- {line}" for line in kept_lines(result)]
    lines += [f"- next: {step}" for step in result.next_steps]
    if following is Next.REPORT:
        lines.append(f"I look again {_often(item)}, and tell you when it works again.")
    if following is Next.REPLAN:
        lines.append("I am looking for another way.")
    if following is Next.WAIT:
        lines.append("It goes on when you have decided: `silas review list` shows what waits.")
    if following is Next.ESCALATE:
        lines.append(f"I cannot go on by myself. `silas work show {item.id}` shows everything.")
    return clip("\n".join(lines))


def _often(goal: WorkItem) -> str:
    times = schedule_in_words(goal.schedule or "")
    return "at its times" if times == goal.schedule else times


def status_message(
    services: TurnContext,
    request: QueueMessage,
    item: WorkItem,
    *,
    status: ExecutionStatus,
    text: str,
    detail: str | None = None,
    printed: Sequence[PrintedOutput] = (),
    undo_until: datetime | None = None,
    error: StatusError | None = None,
    urgency: Urgency = Urgency.BACKGROUND,
) -> QueueMessage:
    """How far an item is."""
    budget, used = item.budget, item.budget_used
    return follow(
        request,
        sender=Agent.RUNTIME,
        kind=MessageKind.EXECUTION_STATUS,
        content=text,
        payload=StatusPayload(
            status=status,
            detail=clip(detail) if detail else None,
            attempt_number=item.attempts,
            budget_remaining_tokens=max(0, budget.max_tokens - used.tokens),
            budget_remaining_usd=max(0.0, budget.max_cost_usd - used.cost_usd),
            printed=list(printed),
            undo_until=undo_until,
        ),
        ids=services.ids,
        clock=services.clock,
        task_id=item.id,
        urgency=urgency,
        **(error.headers(item) if error else {}),
    )


class WorkEscalation:
    """`EscalationHandler` of work that was executed. It collects what is sent and written.

    What the owner has asked for is reported to the owner anyway; nobody is told twice.
    """

    def __init__(
        self,
        services: TurnContext,
        request: QueueMessage,
        origin: Origin,
        item: WorkItem,
        *,
        result: WorkItemResult,
        execute: Callable[[WorkItem], Awaitable[WorkItemResult]],
    ) -> None:
        self._services = services
        self._request = request
        self._origin = origin
        self._item = item
        self._execute = execute
        self.result = result
        self.block: GateBlock | None = None
        """What is being handled."""
        self.messages: list[QueueMessage] = []
        self.writes: list[Write] = []

    async def send(self, message: str) -> None:
        self.messages.append(
            reply(self._services, self._request, self._origin, message, final=False)
        )

    async def hand_over(self, message: str | None) -> bool:
        """The owner takes over: told where the owner looks, with what it is about.

        What a visitor asked for becomes a card with the conversation.
        """
        if is_visit(self._origin.connection_id):
            if not await self._open_case(None):
                return False
            await self.send(message or HANDED_OVER)
            return True
        if message is not None:
            await self.send(message)
        await self.notify_owner(
            f"{self._item.title} needs a person. {self.result.last_error or ''}"
        )
        return True

    async def transfer(self, queue: str) -> None:
        if not await self._open_case(queue):
            raise ChannelError(f"Nobody looks at a queue {queue} for this work.")

    async def _open_case(self, queue: str | None) -> bool:
        cases, block = self._services.cases, self.block
        write = None
        if cases is not None and block is not None:
            write = await cases.opening(self._origin, block, queue=queue, said=self._item.title)
        if write is None:
            return False
        self.writes.append(write)
        return True

    async def rephrase(self, instruction: str) -> bool:
        del instruction
        return False  # work says nothing that could be said anew

    async def retry(self) -> bool:
        """Execute it once more, within its budget and its approval."""
        item = await self._services.items.get(self._item.id) or self._item
        self.result = await self._execute(item)
        return self.result.status in {*ENDED_WELL, WorkItemStatus.HEALTHY}

    async def spawn_task(self, block: GateBlock) -> None:
        """A task that repairs it, on a card: it needs its own approval."""
        failed = [each for each in self.result.verification_results if not each.passed]
        made = spawn_task(self._item, failed, task_id=self._services.ids.new("task"))
        body = made.body.strip() or f"Repair this: {block.reason}"
        task = made.model_copy(update={"parent": None, "spawned_by": None, "body": body})
        origin = await self._reported_to()
        review, write = asking(
            self._services,
            origin,
            task,
            taint=TaintLevel.EXTERNAL,  # what checks printed is in its body
            message=f"{self._item.title}: {block.reason} This would repair it.",
        )
        told = reply(self._services, self._request, origin, review.message, card_id=review.card_id)
        scope = {"scope_id": origin.scope_id, "trace_id": origin.trace_id}
        self.messages.append(told.model_copy(update=scope))
        self.writes += [lambda tx: self._services.store.note_origin(tx, origin), write]

    async def _reported_to(self) -> Origin:
        """Whoever asked is told of a repair; of what a visitor asked for, the owner."""
        if not is_visit(self._origin.connection_id):
            return self._origin
        name, owner = f"repair_{self._origin.trace_id}"[:200], self._services.policy.owner_id
        changes = {"trace_id": name, "message_id": name, "channel": OWN_CHANNEL, "sender_id": owner}
        scope = await self._services.store.latest_scope(owner)
        return self._origin.model_copy(
            update={**changes, "scope_id": scope, "connection_id": owner}
        )

    async def notify_owner(self, text: str) -> None:
        owner = self._services.policy.owner_id
        if self._origin.connection_id == owner:
            return
        to_owner = self._origin.model_copy(update={"connection_id": owner, "channel": OWN_CHANNEL})
        told = reply(self._services, self._request, to_owner, text)
        changes = {"scope_id": owner, "urgency": Urgency.NEEDS_ATTENTION}
        self.messages.append(told.model_copy(update=changes))


def escalations_of(
    item: WorkItem, result: WorkItemResult, gates: Sequence[Gate], following: Next
) -> list[GateBlock]:
    """What is to be followed after an execution: of gates that blocked, and of the plan itself."""
    reason = result.last_error or result.summary
    found = [
        GateBlock(gate_name=gate.name, reason=reason, on_block=gate.on_block) for gate in gates
    ]
    if result.status is WorkItemStatus.STUCK and following is Next.ESCALATE:
        if item.on_stuck != CONSULT_PLANNER:
            found.append(GateBlock(gate_name="on_stuck", reason=reason, on_block=item.on_stuck))
    elif result.status is WorkItemStatus.FAILED and following is not Next.NOTHING:
        if item.type is WorkItemType.GOAL and repairs_itself(item):
            return found
        found.append(GateBlock(gate_name="on_failure", reason=reason, on_block=item.on_failure))
    return found


def _replan(
    services: TurnContext,
    request: QueueMessage,
    item: WorkItem,
    result: WorkItemResult,
    *,
    depth: int,
) -> QueueMessage:
    failed = [check for check in result.verification_results if not check.passed]
    connection = request.payload
    return follow(
        request,
        sender=Agent.RUNTIME,
        kind=MessageKind.REPLAN_REQUEST,
        content=clip(described(item, failed, result.last_error or "")),
        payload=ReplanRequest(
            work_item_id=item.id,
            connection_id=connection.connection_id
            if isinstance(connection, ExecutionRequest)
            else services.policy.owner_id,
            depth=depth + 1,
            failures=[check.name for check in failed],
        ),
        ids=services.ids,
        clock=services.clock,
        task_id=item.id,
    )


def started_message(services: TurnContext, request: QueueMessage, item: WorkItem) -> QueueMessage:
    """That work was started: sent once, however often it is taken up again after a crash."""
    text = f"I started {item.title}."
    started = status_message(services, request, item, status=ExecutionStatus.RUNNING, text=text)
    return started.model_copy(update={"message_id": f"{request.message_id}.running"})


class Running:
    """Which message led to the work that goes on in this process, and which gates stopped it."""

    def __init__(self) -> None:
        self._causes: dict[str, QueueMessage] = {}
        self._gates: dict[str, list[str]] = {}

    def note_gate(self, work_item_id: str, gate: str) -> None:
        """A gate has blocked something of this item."""
        self._gates.setdefault(work_item_id, []).append(gate)

    def take_gates(self, names: Iterable[str]) -> list[str]:
        """The gates that have blocked something of these items; then they are forgotten."""
        found = [gate for name in names for gate in self._gates.pop(name, [])]
        return list(dict.fromkeys(found))

    @contextmanager
    def entered(self, item: WorkItem, cause: QueueMessage) -> Iterator[None]:
        """The item is worked on for as long as the block lasts."""
        self._causes[item.id] = cause
        try:
            yield
        finally:
            self._causes.pop(item.id, None)

    def cause_of(self, work_item_id: str) -> QueueMessage | None:
        """The message behind exactly this item."""
        return self._causes.get(work_item_id)

    def cause(self, item: WorkItem) -> QueueMessage | None:
        """The message behind an item, or behind the project or goal that it belongs to."""
        for name in (item.id, item.parent, item.spawned_by):
            if name is not None and name in self._causes:
                return self._causes[name]
        return None


_log = logging.getLogger(__name__)
_CHECK_FAILED = "failed"
_ATTEMPT = "attempt"


class WorkProgress:
    """`silas.work.ports.Progress` of the stream."""

    def __init__(self, running: Running, queue: QueueStore) -> None:
        self._running = running
        self._queue = queue
        self._services: TurnContext | None = None
        self._told: Counter[str] = Counter()
        self._sending = BackgroundWork(_log)

    def attach(self, services: TurnContext) -> None:
        """Where to tell it; before that, nobody hears anything."""
        self._services = services

    def __call__(self, work_item_id: str, what: str, detail: str = "") -> None:
        services, cause = self._services, self._running.cause_of(work_item_id)
        if what == GATE_STOPPED:
            self._running.note_gate(work_item_id, detail)
        if services is None or cause is None:
            return
        if services.live is not None:
            services.live.progress(cause.trace_id, what, detail)
        if what == _ATTEMPT:
            self._queue.bus.notify((QueueName.PROXY,))  # `started_in` has put a message there
        if what != _CHECK_FAILED:
            return
        self._told[work_item_id] += 1
        number = self._told[work_item_id]
        # The report at the end says it once more, so a disk that fails just now loses nothing.
        telling = partial(self._tell, work_item_id, detail, number)
        self._sending.start(telling, f"{work_item_id}: that a check failed was not told")

    def started_in(self, tx: Transaction, item: WorkItem) -> None:
        """Tell that a task was started, in the transaction that starts its first attempt.

        What is blocked at the door was not started, and nobody is told so.
        """
        services, cause = self._services, self._running.cause_of(item.id)
        if services is None or cause is None or item.type is not WorkItemType.TASK:
            return
        self._queue.enqueue_in(tx, started_message(services, cause, item))

    async def _tell(self, work_item_id: str, detail: str, number: int) -> None:
        """A check did not pass; what follows from that is the execution's business."""
        services, cause = self._services, self._running.cause_of(work_item_id)
        item = await services.items.get(work_item_id) if services else None
        if services is None or cause is None or item is None or item.type is WorkItemType.GOAL:
            return  # a goal's cycle says it itself, if it is news
        status = status_message(
            services,
            cause,
            item,
            status=ExecutionStatus.VERIFICATION_FAILED,
            text=f"{item.title}: a check did not pass. {detail}",
            detail=detail,
            error=StatusError(ErrorCode.VERIFICATION_FAILED, retryable=True),
            urgency=Urgency.BACKGROUND,
        )
        once = {"message_id": f"{cause.message_id}.{work_item_id}.check{number}"[:200]}
        await services.enqueue(status.model_copy(update=once))
