"""What time brings: research that was not answered, goals that are due.

Both are looked at every few seconds, and both lead to messages whose ids say what they are about:
looked at twice, they are sent once.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from silas.kernel import TaintLevel, format_timestamp
from silas.queue.models import (
    Agent,
    ExecutionRequest,
    MessageKind,
    QueueMessage,
    ResearchResult,
)
from silas.queue.store import QueueStore
from silas.scheduler import CronSchedule
from silas.storage import Database, Transaction
from silas.stream.research import TOO_LATE, Question, ResearchState
from silas.stream.research_store import ResearchStore
from silas.stream.store import Origin
from silas.stream.turn_context import TurnContext
from silas.work.models import ALWAYS_ON, WorkItem, WorkItemStatus, WorkItemType

SCHEDULER = "scheduler"
"""The sender of what nobody asked for: it is reported where one looks when one likes."""
HOME = "home"
"""The channel of the owner, whichever is open."""
_MINUTE = timedelta(minutes=1)
_CATCH_UP = timedelta(hours=24)
_REST = {WorkItemStatus.PAUSED, WorkItemStatus.DONE, WorkItemStatus.RUNNING}


@dataclass(frozen=True)
class Clockwork:
    """Looks at the clock for the conversation."""

    room: TurnContext
    queue: QueueStore
    database: Database
    states: ResearchStore
    timezone: tzinfo

    async def end_overdue_research(self) -> int:
        """Answer for whoever did not answer in time; returns how often."""
        now = self.room.clock.now()
        ended = 0
        for state in await self.states.overdue(now):
            for question in state.outstanding:
                if question.deadline <= now:
                    ended += await self.queue.enqueue(self._silence(state, question))
        return ended

    def _silence(self, state: ResearchState, question: Question) -> QueueMessage:
        request = state.request
        return QueueMessage(
            message_id=f"{question.research_id}.timeout",
            trace_id=request.trace_id,
            content=TOO_LATE,
            sender=Agent.EXECUTOR,
            message_kind=MessageKind.RESEARCH_RESULT,
            scope_id=request.scope_id,
            taint=state.taint,
            created_at=self.room.clock.now(),
            payload=ResearchResult(
                research_id=question.research_id, request_id=request.message_id, ok=False
            ),
        )

    async def start_due_goals(self) -> int:
        """Ask for a cycle of every goal that is due; returns how many are.

        A goal that was due several times while nobody looked runs once.
        """
        started = 0
        for status in set(WorkItemStatus) - _REST:
            for item in await self.room.items.list_by_status(status):
                if _is_scheduled(item):
                    started += await self._start_if_due(item)
        return started

    async def _start_if_due(self, goal: WorkItem) -> bool:
        now = self.room.clock.now()
        since = await self.room.store.looked_until(goal.id)
        due = _last_due(goal, since or now, now, self.timezone)
        message = None if due is None else self._cycle(goal, due)

        def look(tx: Transaction) -> None:
            self.room.store.looked(tx, goal.id, now)
            if message is not None:
                self.room.store.note_origin(tx, self._origin(message))
                self.queue.enqueue_in(tx, message)

        await self.database.transaction(look)
        if message is not None:
            self.queue.bus.notify_of([message])
        return message is not None

    def _cycle(self, goal: WorkItem, due: datetime) -> QueueMessage:
        owner, name = self.room.policy.owner_id, f"goal.{goal.id}.{format_timestamp(due)}"
        return QueueMessage(
            message_id=name[:200],
            trace_id=name[:200],
            content=goal.title,
            sender=Agent.RUNTIME,
            message_kind=MessageKind.EXECUTION_REQUEST,
            scope_id=owner,
            taint=TaintLevel.OWNER,
            created_at=self.room.clock.now(),
            payload=ExecutionRequest(work_item_id=goal.id, connection_id=owner),
            task_id=goal.id,
        )

    def _origin(self, message: QueueMessage) -> Origin:
        return Origin(
            trace_id=message.trace_id,
            scope_id=message.scope_id,
            connection_id=message.scope_id,
            channel=HOME,
            sender_id=SCHEDULER,
            message_id=message.message_id,
            taint=TaintLevel.OWNER,
        )


def _is_scheduled(item: WorkItem) -> bool:
    return (
        item.type is WorkItemType.GOAL
        and item.schedule not in (None, ALWAYS_ON)
        and item.approval_token is not None
    )


def _last_due(goal: WorkItem, since: datetime, now: datetime, timezone: tzinfo) -> datetime | None:
    """The latest full minute after `since` and up to `now` at which the goal is due."""
    schedule = CronSchedule.parse(goal.schedule or "")
    minute = now.replace(second=0, microsecond=0)
    earliest = max(since, now - _CATCH_UP)
    while minute > earliest:
        if schedule.is_due(minute.astimezone(timezone)):
            return minute
        minute -= _MINUTE
    return None
