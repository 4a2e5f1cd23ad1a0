"""What follows when work has ended: retry -> consult the planner -> re-plan -> tell the user.

The first two happen inside the execution. Here is the rest: each level is exhausted before the
next, and a person is needed only when nothing is left, or when a policy wants a decision.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from silas.kernel import TaintLevel
from silas.queue.follow import follow
from silas.queue.models import (
    Agent,
    ExecutionRequest,
    ExecutionStatus,
    MessageKind,
    QueueMessage,
    ReplanRequest,
    StatusPayload,
    Urgency,
)
from silas.stream.consult import described
from silas.stream.gating import clip
from silas.stream.turn_context import TurnContext
from silas.work.models import WorkItem, WorkItemResult, WorkItemStatus, WorkItemType
from silas.work.plan_rules import CONSULT_PLANNER

_STATUS = {
    WorkItemStatus.DONE: ExecutionStatus.DONE,
    WorkItemStatus.HEALTHY: ExecutionStatus.DONE,
    WorkItemStatus.FAILED: ExecutionStatus.FAILED,
    WorkItemStatus.STUCK: ExecutionStatus.STUCK,
    WorkItemStatus.BLOCKED: ExecutionStatus.BLOCKED,
    WorkItemStatus.PAUSED: ExecutionStatus.BLOCKED,
}


class Next(StrEnum):
    """What happens after an execution."""

    NOTHING = "nothing"
    REPLAN = "replan"
    ESCALATE = "escalate"


def what_next(item: WorkItem, result: WorkItemResult, *, depth: int, most: int) -> Next:
    """The next level of self-healing.

    A task that is `failed` was cancelled by the owner, and one that is `paused` is wanted so.
    """
    good = (WorkItemStatus.DONE, WorkItemStatus.HEALTHY, WorkItemStatus.PAUSED)
    cancelled = result.status is WorkItemStatus.FAILED and item.type is WorkItemType.TASK
    if result.status in good or cancelled:
        return Next.NOTHING
    if result.status is WorkItemStatus.BLOCKED or item.on_stuck != CONSULT_PLANNER:
        return Next.ESCALATE
    return Next.REPLAN if depth < most else Next.ESCALATE


def after_execution(
    room: TurnContext,
    request: QueueMessage,
    item: WorkItem,
    result: WorkItemResult,
    *,
    depth: int,
    most: int,
) -> tuple[QueueMessage, ...]:
    """The messages that an execution leads to."""
    following = what_next(item, result, depth=depth, most=most)
    status = status_message(
        room,
        request,
        item,
        status=_STATUS[result.status],
        text=told(item, result, following),
        detail=result.last_error,
        urgency=Urgency.NEEDS_ATTENTION if following is Next.ESCALATE else Urgency.INFORMATIONAL,
    )
    if following is not Next.REPLAN:
        return (status,)
    return status, _replan(room, request, item, result, depth=depth)


def told(item: WorkItem, result: WorkItemResult, following: Next) -> str:
    """How it ended, in the runtime's words; the worker's own come last."""
    lines = [f"{item.title}: {result.summary}"]
    if result.last_error:
        lines.append(result.last_error)
    for check in result.verification_results:
        mark = "passed" if check.passed else "failed"
        lines.append(f"- check {mark}: {check.name} ({check.reason})")
    lines += [f"- made {name}" for name in sorted(result.artifacts)]
    lines += [f"- next: {step}" for step in result.next_steps]
    if following is Next.REPLAN:
        lines.append("I am looking for another way.")
    if following is Next.ESCALATE:
        lines.append(f"I cannot go on by myself. `silas work show {item.id}` shows everything.")
    return clip("\n".join(lines))


def status_message(
    room: TurnContext,
    request: QueueMessage,
    item: WorkItem,
    *,
    status: ExecutionStatus,
    text: str,
    detail: str | None = None,
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
        ),
        ids=room.ids,
        clock=room.clock,
        task_id=item.id,
        urgency=urgency,
    )


def _replan(
    room: TurnContext, request: QueueMessage, item: WorkItem, result: WorkItemResult, *, depth: int
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
            else room.policy.owner_id,
            depth=depth + 1,
            failures=[check.name for check in failed],
        ),
        ids=room.ids,
        clock=room.clock,
        # What checks print comes from the checked system, and may hold anything.
        taint=TaintLevel.EXTERNAL,
        task_id=item.id,
    )


class Running:
    """Which message led to the work that goes on in this process."""

    def __init__(self) -> None:
        self._causes: dict[str, QueueMessage] = {}

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
