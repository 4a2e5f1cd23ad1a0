"""The conversation, wired: three loops and a runtime on one bus, on one ground floor.

At the start, in this order: what dead processes held is given out again, their attempts at work are
put in order, then the loops begin. At the end: nothing more is taken in, what is being worked on
may finish within the grace time, and the rest is given back, to be done when Silas is back.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from zoneinfo import ZoneInfo

from silas.app.gates import open_gates
from silas.app.ground import Ground
from silas.app.housekeeping import Housekeeping, PeriodicJob
from silas.app.settings import Settings
from silas.app.turns import Minds, Rooms, open_turns, research_limits
from silas.app.workshop import open_workshop
from silas.kernel import SilasError
from silas.queue import Consumer, Handler, QueueName, QueueStore
from silas.stream.admission import Admission
from silas.stream.consult import BusPlanner, Consultations
from silas.stream.draining import Busy
from silas.stream.healing import Running
from silas.stream.intake import Intake
from silas.stream.limits import RateLimit
from silas.stream.loops.executor import ExecutorLoop
from silas.stream.loops.planner import PlannerLoop
from silas.stream.loops.proxy import ProxyLoop
from silas.stream.loops.runtime import RuntimeLoop, after_death
from silas.stream.progress import WorkProgress
from silas.stream.research_store import ResearchStore
from silas.stream.scheduling import Clockwork
from silas.stream.turn_context import TurnContext
from silas.work.executor import WorkItemExecutor
from silas.work.runners import may_be_alive

__all__ = ["Minds", "Rooms", "Stream", "make_stream", "open_intake", "open_queue", "open_stream"]

_LOOK_AT_THE_CLOCK = timedelta(seconds=5)
_RELEASE = timedelta(minutes=1)
_AT_ONCE = 32
"""Messages of one queue; how much work goes on at once is limited by its own pool."""
_REMEMBER = timedelta(days=30)
_REMEMBER_ORIGINS = timedelta(days=90)


@dataclass
class Stream:
    """The conversation of one data directory."""

    intake: Intake
    queue: QueueStore
    room: TurnContext
    work: WorkItemExecutor
    consumers: tuple[Consumer, ...]
    clockwork: Clockwork
    busy: Busy

    async def recover(self) -> None:
        """Put in order what a crash left behind."""
        await self.queue.recover(alive=may_be_alive)
        await self.work.recover()

    async def run(self) -> None:
        """Go on until cancelled."""
        jobs = [
            PeriodicJob(
                "end overdue research", _LOOK_AT_THE_CLOCK, self.clockwork.end_overdue_research
            ),
            PeriodicJob("start due goals", _LOOK_AT_THE_CLOCK, self.clockwork.start_due_goals),
            PeriodicJob("close what a bad disk left open", _RELEASE, self.work.release),
            PeriodicJob("forget what was processed", timedelta(days=1), self._forget),
        ]
        async with asyncio.TaskGroup() as group:
            for consumer in self.consumers:
                group.create_task(consumer.run(), name=consumer.name)
            group.create_task(Housekeeping(jobs, clock=self.room.clock).run(), name="clockwork")

    async def _forget(self) -> None:
        now = self.room.clock.now()
        await self.queue.prune_processed(before=now - _REMEMBER)
        await self.room.store.prune(before=now - _REMEMBER_ORIGINS)

    async def drain(self, seconds: float) -> None:
        """Take nothing more, and let what is being worked on finish if it can in this time."""
        self.intake.close()
        await self.busy.drain(seconds)


@contextlib.asynccontextmanager
async def open_stream(
    ground: Ground, minds: Minds, *, rooms: Rooms | None = None, queue: QueueStore | None = None
) -> AsyncIterator[Stream]:
    """The conversation, running; at the end of the block it is taken down, and nothing is lost."""
    stream = make_stream(ground, minds, rooms=rooms or Rooms(), queue=queue)
    await stream.recover()
    await ground.audit.log("stream_started")
    task = asyncio.create_task(stream.run(), name="stream")
    try:
        yield stream
    finally:
        await stream.drain(ground.settings.backpressure.shutdown_grace_seconds)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await ground.audit.log("stream_stopped")
        with contextlib.suppress(SilasError):  # a vault that is locked vouches for nothing
            await ground.audit.write_checkpoint()


def open_queue(ground: Ground) -> QueueStore:
    """The bus of this ground floor."""
    clock = ground.clock
    return QueueStore(
        ground.database,
        clock=clock,
        ids=ground.ids,
        holder=ground.machine.runner,
        after_death=after_death(clock),
    )


def open_intake(ground: Ground, queue: QueueStore) -> Intake:
    """The way in, with the limits that are configured."""
    clock, limits, most = ground.clock, ground.settings.limits, ground.settings.backpressure
    admission = Admission(
        queue,
        per_scope=RateLimit(clock, limits.ws_messages_per_minute_per_scope),
        per_sender=RateLimit(clock, limits.messages_per_minute_per_sender),
        owner_id=ground.settings.owner_id,
        most_per_scope=most.max_pending_turns_per_scope,
        most_total=most.max_pending_turns_total,
    )
    return Intake(queue, clock=clock, ids=ground.ids, admission=admission)


def make_stream(
    ground: Ground, minds: Minds, *, rooms: Rooms, queue: QueueStore | None = None
) -> Stream:
    """The conversation, wired and standing still."""
    queue = queue or open_queue(ground)
    running, consultations = Running(), Consultations(ground.database, clock=ground.clock)
    progress, busy = WorkProgress(running), Busy()
    work = open_workshop(
        ground,
        agent=minds.executor,
        gates=open_gates(ground, model=minds.gate),
        planner=_planner(ground, queue, consultations, running) if minds.planner else None,
        approver=rooms.approver,
        skills=rooms.skills,
        progress=progress,
    )
    room = open_turns(ground, minds, rooms, queue=queue, work=work)
    progress.attach(room)
    states, settings = ResearchStore(ground.database), ground.settings
    handlers: dict[QueueName, Handler] = {
        QueueName.PROXY: ProxyLoop(room),
        QueueName.PLANNER: PlannerLoop(room, states, research_limits(settings), minds.planner),
        QueueName.EXECUTOR: _executor(minds, room, work, running, settings),
        QueueName.RUNTIME: RuntimeLoop(room, work.bench, consultations),
    }
    return Stream(
        intake=open_intake(ground, queue),
        queue=queue,
        room=room,
        work=work,
        consumers=tuple(
            _consumer(name, busy.watching(handler), queue) for name, handler in handlers.items()
        ),
        clockwork=Clockwork(
            room, queue, ground.database, states, ZoneInfo(settings.scheduler.timezone)
        ),
        busy=busy,
    )


def _planner(
    ground: Ground, queue: QueueStore, consultations: Consultations, running: Running
) -> BusPlanner:
    return BusPlanner(
        queue,
        ground.database,
        consultations,
        audit=ground.audit,
        clock=ground.clock,
        ids=ground.ids,
        cause=running.cause,
        seconds=ground.settings.planner.consult_timeout_seconds,
    )


def _executor(
    minds: Minds, room: TurnContext, work: WorkItemExecutor, running: Running, settings: Settings
) -> ExecutorLoop:
    return ExecutorLoop(
        room,
        work,
        running,
        minds.research,
        research_cost_usd=settings.planner.max_cost_usd_per_turn,
        max_replans=settings.planner.max_replans if minds.planner else 0,
        per_scope=work.bench.per_scope,
    )


def _consumer(name: QueueName, handler: Handler, queue: QueueStore) -> Consumer:
    return Consumer(
        name=name.value.removesuffix("_queue"),
        queue=name,
        handler=handler,
        store=queue,
        concurrency=_AT_ONCE,
    )
