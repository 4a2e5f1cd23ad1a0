"""What time brings: research that was not answered, goals that are due, reminders.

All are looked at every few seconds, and lead to messages whose ids say what they are about: looked
at twice, they are sent once.

A reminder is told in one transaction with the mark that it was: a crash before leaves it to be told
later, with the time at which it was due, and one after it tells nothing again. Of a reminder that
repeats, only the last time that was missed is told.
"""

import logging
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from silas.context.service import ChronicleEntry, PendingEntry
from silas.journal.conversation import DueReminder
from silas.kernel import TaintLevel, WorkError, format_timestamp, visible
from silas.kernel.when import schedule_in_words
from silas.queue.models import (
    OWN_CHANNEL,
    Agent,
    AgentReply,
    ExecutionRequest,
    MessageKind,
    QueueMessage,
    ResearchResult,
    Urgency,
)
from silas.queue.store import QueueStore
from silas.scheduler import CronSchedule
from silas.storage import Database, Durability, Transaction
from silas.stream.accounts import BRIEFING
from silas.stream.cards import asking, fresh_copy
from silas.stream.interaction import Surface
from silas.stream.research import TOO_LATE, ResearchQuestion, ResearchState, ResearchStore
from silas.stream.store import Origin, own_origin
from silas.stream.turn_context import TurnContext
from silas.work.binding import bind
from silas.work.control import WorkControl
from silas.work.models import ALWAYS_ON, ENDED_WELL, WorkItem, WorkItemStatus, WorkItemType
from silas.work.store import WorkItemStore
from silas.work.wording import last_results

SCHEDULER = "scheduler"
"""The sender of what nobody asked for: it is reported where one looks when one likes."""
REMINDER = "reminder"
"""How ids of reminders begin."""
_OTHER_SKILL = "its skill {skill} is another version now. It goes on if you approve it again."
_NAMED_IN_SETTINGS = (
    "`active_goal` in your settings names this goal. Once you approve it, it starts at its times."
)
_log = logging.getLogger(__name__)
_MINUTE = timedelta(minutes=1)
_CATCH_UP = timedelta(hours=24)
_REST = {
    *ENDED_WELL,
    WorkItemStatus.PAUSED,
    WorkItemStatus.RUNNING,
    WorkItemStatus.STUCK,
}


async def watches(items: WorkItemStore) -> list[WorkItem]:
    """The goals that are looked at by the clock."""
    found = [
        item
        for status in WorkItemStatus
        for item in await items.list_by_status(status)
        if item.approval_token is not None and _has_times(item) and not item.has_ended
    ]
    return sorted(found, key=lambda each: each.id)


async def list_watches(items: WorkItemStore) -> str:
    """What is watched, one on each line; empty if nothing is."""
    return "\n".join(_watched(item) for item in await watches(items))


def _watched(goal: WorkItem) -> str:
    often = schedule_in_words(goal.schedule or "")
    return f"{goal.id} ({often}, {_how_it_is(goal)}): {goal.title}"


def _how_it_is(goal: WorkItem) -> str:
    if goal.status is WorkItemStatus.PAUSED:
        return "paused"
    last = last_results(goal)
    if not last:
        return "not looked at yet"
    failed = [result.name for result in last if not result.passed]
    return f"failing: {', '.join(failed)}" if failed else "works"


@dataclass(frozen=True)
class Clockwork:
    """Looks at the clock for the conversation."""

    services: TurnContext
    queue: QueueStore
    database: Database
    states: ResearchStore
    timezone: tzinfo

    async def end_overdue_research(self) -> int:
        """Answer for whoever did not answer in time; returns how often."""
        now = self.services.clock.now()
        ended = 0
        for state in await self.states.overdue(now):
            for question in state.outstanding:
                if question.deadline <= now:
                    ended += await self.queue.enqueue(self._silence(state, question))
        return ended

    def _silence(self, state: ResearchState, question: ResearchQuestion) -> QueueMessage:
        request = state.request
        return QueueMessage(
            message_id=f"{question.research_id}.timeout",
            trace_id=request.trace_id,
            content=TOO_LATE,
            sender=Agent.EXECUTOR,
            message_kind=MessageKind.RESEARCH_RESULT,
            scope_id=request.scope_id,
            taint=state.taint,
            created_at=self.services.clock.now(),
            payload=ResearchResult(
                research_id=question.research_id, request_id=request.message_id, ok=False
            ),
        )

    async def start_due_goals(self) -> int:
        """Ask for a cycle of every goal that is due; returns how many are.

        A goal that was due several times while nobody looked runs once. One that was cancelled has
        no approval any more. One whose repair waits for the owner, or cannot be gone on with
        without the owner, rests: the answer starts its next cycle.
        """
        started = 0
        for status in set(WorkItemStatus) - _REST:
            for item in await self.services.items.list_by_status(status):
                approved = item.approval_token is not None
                if approved and _has_times(item) and not await self._rests(item):
                    started += await self._start_if_due(item)
        return started

    async def tell_reminders(self) -> int:
        """Tell the owner what the owner wished to be reminded of by now; returns how much."""
        journal = self.services.journal
        found = await journal.due_reminders(self.services.clock.now()) if journal else []
        # A briefing last: it asks accounts, which may take a minute.
        found = sorted(found, key=_is_briefing)
        told = [await self._tell_reminder(each) for each in found]
        return sum(told)

    async def _tell_reminder(self, reminder: DueReminder) -> bool:
        name = f"{REMINDER}.{reminder.task_id}"
        told = await self.services.store.looked_until(name)
        if told is not None and told >= reminder.at:
            return False
        message = self._reminder(reminder, f"{name}.{format_timestamp(reminder.at)}"[:200])
        if _is_briefing(reminder) and self.services.accounts is not None:
            text = await self.services.accounts.brief()
            message = message.model_copy(update={"content": text, "taint": TaintLevel.EXTERNAL})
        entry = await self._remembered(message)
        logged = {"task_id": reminder.task_id, "message_id": message.message_id}

        def tell(tx: Transaction) -> bool:
            # Looked at again in here: another process may tell it just now.
            if not self.services.store.first_told(tx, name, reminder.at):
                return False
            self.queue.enqueue_in(tx, message)
            self.services.audit.append(tx, "reminder_told", logged)
            if entry is not None:
                entry.write(tx)
            return True

        if not await self.database.transaction(tell, durability=Durability.TRUST):
            return False
        self.queue.bus.notify_of([message])
        if entry is not None:
            await entry.show()
        return True

    def _reminder(self, reminder: DueReminder, name: str) -> QueueMessage:
        owner = self.services.policy.owner_id
        return QueueMessage(
            message_id=name,
            trace_id=name,
            content=reminder.text,
            sender=Agent.RUNTIME,
            message_kind=MessageKind.AGENT_RESPONSE,
            scope_id=owner,
            taint=reminder.taint,
            created_at=self.services.clock.now(),
            urgency=Urgency.NEEDS_ATTENTION,
            payload=AgentReply(
                connection_id=owner,
                channel=OWN_CHANNEL,
                surface=Surface.STREAM.value,
                chips=[] if _is_briefing(reminder) else [_done_with(reminder)],
            ),
        )

    async def _remembered(self, message: QueueMessage) -> PendingEntry | None:
        """Its line of the conversation: an agent knows what the owner was told."""
        if self.services.context is None:
            return None
        return await self.services.context.prepare(
            ChronicleEntry(
                entry_id=f"{message.message_id}.out",
                scope_id=message.scope_id,
                turn_number=await self.services.store.turns(message.scope_id),
                source=f"agent:{Agent.RUNTIME.value}",
                text=f"Silas: {message.content}",
                taint=message.taint,
            )
        )

    async def _rests(self, goal: WorkItem) -> bool:
        if goal.status is not WorkItemStatus.BLOCKED or goal.approval_token is None:
            return False
        if self.services.clock.now() >= goal.approval_token.expires_at:
            return True
        below = await self.services.items.list_by_parent(goal.id)
        return any(
            each.waits_for_approval or each.status is WorkItemStatus.BLOCKED for each in below
        )

    async def register_active_goal(self, control: WorkControl) -> None:
        """Ask once for the approval of the goal that the settings name, if it has times.

        Each version of its file is an item of its own. The one before it is cancelled.
        """
        goal, policy = self.services.active_goal, self.services.policy
        if goal is None or not _has_times(goal):
            return
        try:
            bound = await bind(
                goal,
                base=policy.home,
                off_limits=policy.off_limits,
                skills=self.services.skills,
            )
        except WorkError as error:
            await self.services.audit.log("active_goal_refused", goal=goal.id, reason=error.message)
            _log.warning("The goal that `active_goal` names cannot be used: %s", error.message)
            return
        current = bound.model_copy(update={"id": f"{goal.id[:110]}-{bound.plan_hash[:8]}"})
        for item in await self._versions_of(goal.id):
            if item.id != current.id:
                await control.cancel(item.id)
        if not await self.services.items.known([current.id]):
            await self._ask_for(current)

    async def _versions_of(self, goal_id: str) -> list[WorkItem]:
        named = re.compile(rf"{re.escape(goal_id[:110])}-[0-9a-f]{{8}}")
        found = []
        for status in set(WorkItemStatus) - ENDED_WELL:
            found += await self.services.items.list_by_status(status)
        return [item for item in found if _has_times(item) and named.fullmatch(item.id)]

    async def _ask_for(self, goal: WorkItem) -> None:
        origin = await self._origin(f"goal.{goal.id}", goal)
        _, write = asking(
            self.services,
            origin,
            goal,
            taint=TaintLevel.OWNER,
            message=f"{goal.title}: {_NAMED_IN_SETTINGS}",
            card_id=f"card_{goal.id}",
        )
        await self.services.store.write(
            [lambda tx: self.services.store.note_origin(tx, origin), write]
        )

    async def ask_again_about(self, control: WorkControl, skill: str) -> int:
        """Put the goals before the owner anew whose skill is another version now.

        What was approved is not run any more, and is cancelled; returns how many were asked about.
        """
        asked = 0
        for status in set(WorkItemStatus) - ENDED_WELL:
            for goal in await self.services.items.list_by_status(status):
                if goal.type is WorkItemType.GOAL and goal.approval_token is not None:
                    asked += await self._ask_with_skill(control, goal, skill)
        return asked

    async def _ask_with_skill(self, control: WorkControl, goal: WorkItem, skill: str) -> bool:
        before, skills = goal.skill_hashes.get(skill), self.services.skills
        now = await skills.digest(skill) if skills is not None else None
        if before is None or now in (None, before):
            return False
        hashes = {**goal.skill_hashes, skill: now}
        fresh = await fresh_copy(self.services, goal, skill_hashes=hashes)
        origin = await self._origin(f"goal.{fresh.id}", goal)
        _, write = asking(
            self.services,
            origin,
            fresh,
            taint=await self.services.store.taint_of(goal),
            message=f"{goal.title}: {_OTHER_SKILL.format(skill=skill)}",
            replaces=goal.id,
            card_id=f"card_{fresh.id}",
        )
        await self.services.store.write(
            [lambda tx: self.services.store.note_origin(tx, origin), write]
        )
        await control.cancel(goal.id)
        return True

    async def _start_if_due(self, goal: WorkItem) -> bool:
        now = self.services.clock.now()
        since = await self.services.store.looked_until(goal.id)
        due = _last_due(goal, since or now, now, self.timezone)
        message, origin = None, None
        if due is not None:
            name = f"goal.{goal.id}.{format_timestamp(due)}"
            origin = await self._origin(name, goal)
            message = self._cycle(goal, origin)

        def look(tx: Transaction) -> None:
            self.services.store.looked(tx, goal.id, now)
            if message is not None and origin is not None:
                self.services.store.note_origin(tx, origin)
                self.queue.enqueue_in(tx, message)

        await self.database.transaction(look)
        if message is not None:
            self.queue.bus.notify_of([message])
        return message is not None

    def _cycle(self, goal: WorkItem, origin: Origin) -> QueueMessage:
        return QueueMessage(
            message_id=origin.message_id,
            trace_id=origin.trace_id,
            content=goal.title,
            sender=Agent.RUNTIME,
            message_kind=MessageKind.EXECUTION_REQUEST,
            scope_id=origin.scope_id,
            taint=TaintLevel.OWNER,
            created_at=self.services.clock.now(),
            payload=ExecutionRequest(work_item_id=goal.id, connection_id=origin.connection_id),
            task_id=goal.id,
        )

    async def _origin(self, name: str, goal: WorkItem) -> Origin:
        """What a goal finds is told in the conversation in which it was made."""
        owner = self.services.policy.owner_id
        scope = await self.services.store.scope_of_work(goal.id, owner)
        return own_origin(
            owner, name[:200], scope_id=scope, sender_id=SCHEDULER, taint=TaintLevel.OWNER
        )


def _has_times(item: WorkItem) -> bool:
    return (
        item.type is WorkItemType.GOAL
        and item.schedule not in (None, ALWAYS_ON)
        and item.agent == "ephemeral"
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


def _is_briefing(reminder: DueReminder) -> bool:
    return reminder.title == BRIEFING


def _done_with(reminder: DueReminder) -> str:
    return f"Done with {visible(reminder.title, keep_newlines=False)}"[:200]
