"""The conversation, wired: three loops and a runtime on one bus, on one ground floor.

At the start, in this order: what dead processes held is given out again, their attempts at work are
put in order, then the loops begin. At the end: nothing more is taken in, what is being worked on
may finish within the grace time, and the rest is given back, to be done when Silas is back.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from silas.app.gates import open_gates
from silas.app.ground import Ground
from silas.app.housekeeping import Housekeeping, PeriodicJob
from silas.app.settings import Settings
from silas.app.workshop import open_workshop
from silas.gates.access import AccessChange
from silas.gates.customers import CustomerDirectory
from silas.gates.ports import GateModel
from silas.queue import Consumer, Handled, Handler, Lease, QueueName, QueueStore
from silas.stream.access import Visitors
from silas.stream.consult import BusPlanner, Consultations
from silas.stream.healing import Running
from silas.stream.intake import Intake
from silas.stream.loops.executor import ExecutorLoop
from silas.stream.loops.planner import PlannerLoop
from silas.stream.loops.proxy import ProxyLoop
from silas.stream.loops.runtime import RuntimeLoop, after_death
from silas.stream.models import InteractionRegister
from silas.stream.ports import (
    ContextRoom,
    GateDesk,
    Live,
    MemoryRoom,
    PersonalityRoom,
    PlannerAgent,
    Proactive,
    ProxyAgent,
    ResearchAgent,
    Reviews,
)
from silas.stream.progress import WorkProgress
from silas.stream.reading_room import PLANNER_TOOLS, PROXY_TOOLS, ReadingRoom
from silas.stream.research import ResearchLimits
from silas.stream.research_store import ResearchStore
from silas.stream.scheduling import Clockwork
from silas.stream.store import ConversationStore
from silas.stream.turn_context import TurnContext, TurnPolicy, nobody
from silas.work.executor import WorkItemExecutor
from silas.work.executors import RESEARCH_TOOLS
from silas.work.models import InteractionMode, WorkItem
from silas.work.plan import parse_plan
from silas.work.ports import Approver, ExecutorAgent, SkillFiles
from silas.work.runners import may_be_alive, this_runner
from silas.work.store import WorkItemStore

_LOOK_AT_THE_CLOCK = timedelta(seconds=5)
_SCOPES_AT_ONCE = 32
_EXECUTIONS_AT_ONCE = 24


@dataclass(frozen=True)
class Minds:
    """The agents. Whoever is absent says so when asked; nothing is done instead."""

    proxy: ProxyAgent | None = None
    planner: PlannerAgent | None = None
    research: ResearchAgent | None = None
    executor: ExecutorAgent | None = None
    gate: GateModel | None = None


@dataclass(frozen=True)
class Rooms:
    """What the conversation may use besides; see the ports for what absence means."""

    memory: MemoryRoom | None = None
    context: ContextRoom | None = None
    personality: PersonalityRoom | None = None
    reviews: Reviews | None = None
    gate_desk: GateDesk | None = None
    proactive: Proactive | None = None
    skills: SkillFiles | None = None
    approver: Approver | None = None
    live: Live | None = None
    is_known: Callable[[str, str], bool] = nobody


@dataclass
class Stream:
    """The conversation of one data directory."""

    intake: Intake
    queue: QueueStore
    room: TurnContext
    work: WorkItemExecutor
    consumers: tuple[Consumer, ...]
    clockwork: Clockwork
    busy: "Busy"

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
        ]
        async with asyncio.TaskGroup() as group:
            for consumer in self.consumers:
                group.create_task(consumer.run(), name=consumer.name)
            group.create_task(Housekeeping(jobs, clock=self.room.clock).run(), name="clockwork")

    async def drain(self, seconds: float) -> None:
        """Take nothing more, and let what is being worked on finish if it can in this time."""
        self.intake.close()
        await self.busy.drain(seconds)


@dataclass
class Busy:
    """Counts the handlers at work. When it drains, those that begin wait to be given back."""

    _count: int = 0
    _draining: bool = False
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    def watching(self, handler: Handler) -> Handler:
        """The handler, counted."""

        async def counted(lease: Lease) -> Handled:
            if self._draining:
                await asyncio.Event().wait()
            self._count += 1
            try:
                return await handler(lease)
            finally:
                self._count -= 1
                if not self._count:
                    self._idle.set()

        return counted

    async def drain(self, seconds: float) -> None:
        """Begin nothing more, and wait until nobody works."""
        self._draining = True
        if self._count:
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), seconds)


@contextlib.asynccontextmanager
async def open_stream(
    ground: Ground, minds: Minds, *, rooms: Rooms | None = None
) -> AsyncIterator[Stream]:
    """The conversation, running; at the end of the block it is taken down, and nothing is lost."""
    stream = make_stream(ground, minds, rooms=rooms or Rooms())
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


def make_stream(ground: Ground, minds: Minds, *, rooms: Rooms) -> Stream:
    """The conversation, wired and standing still."""
    settings, clock, ids = ground.settings, ground.clock, ground.ids
    queue = QueueStore(
        ground.database, clock=clock, ids=ids, holder=this_runner(), after_death=after_death(clock)
    )
    running, consultations = Running(), Consultations(ground.database, clock=clock)
    progress = WorkProgress(running)
    gates = open_gates(ground, model=minds.gate)
    planner = BusPlanner(
        queue,
        ground.database,
        consultations,
        audit=ground.audit,
        clock=clock,
        ids=ids,
        cause=running.cause,
        seconds=settings.planner.consult_timeout_seconds,
    )
    work = open_workshop(
        ground,
        agent=minds.executor,
        gates=gates,
        planner=planner if minds.planner else None,
        approver=rooms.approver,
        skills=rooms.skills,
        progress=progress,
    )
    looking = [work.bench.registry.get(name) for name in sorted(RESEARCH_TOOLS)]
    room = replace(
        _room(ground, minds, rooms, queue),
        gates=gates,
        reading=ReadingRoom(
            ids=ids,
            memory=rooms.memory,
            context=rooms.context,
            tools=tuple(tool for tool in looking if tool is not None),
            directory=settings.planner.research_dir,
        ),
    )
    progress.attach(room)
    busy, states = Busy(), ResearchStore(ground.database)
    limits = _limits(settings)
    handlers: dict[QueueName, tuple[Handler, int]] = {
        QueueName.PROXY: (ProxyLoop(room), _SCOPES_AT_ONCE),
        QueueName.PLANNER: (PlannerLoop(room, states, limits, minds.planner), _SCOPES_AT_ONCE),
        QueueName.EXECUTOR: (
            ExecutorLoop(
                room,
                work,
                running,
                minds.research,
                research_cost_usd=settings.planner.max_cost_usd_per_turn,
                max_replans=settings.planner.max_replans if minds.planner else 0,
                per_scope=work.bench.per_scope,
            ),
            _EXECUTIONS_AT_ONCE,
        ),
        QueueName.RUNTIME: (RuntimeLoop(room, work.bench, consultations), _SCOPES_AT_ONCE),
    }
    return Stream(
        intake=Intake(queue, clock=clock, ids=ids),
        queue=queue,
        room=room,
        work=work,
        consumers=tuple(
            Consumer(
                name=queue_name.value.removesuffix("_queue"),
                queue=queue_name,
                handler=busy.watching(handler),
                store=queue,
                concurrency=at_once,
            )
            for queue_name, (handler, at_once) in handlers.items()
        ),
        clockwork=Clockwork(
            room, queue, ground.database, states, ZoneInfo(settings.scheduler.timezone)
        ),
        busy=busy,
    )


def _room(ground: Ground, minds: Minds, rooms: Rooms, queue: QueueStore) -> TurnContext:
    settings, database, clock = ground.settings, ground.database, ground.clock
    goal = _active_goal(settings.active_goal)
    return TurnContext(
        store=ConversationStore(database, clock),
        items=WorkItemStore(database, clock),
        audit=ground.audit,
        clock=clock,
        ids=ground.ids,
        reading=ReadingRoom(ids=ground.ids),
        visitors=_visitors(ground, goal),
        policy=_policy(settings),
        enqueue=queue.enqueue,
        proxy=minds.proxy,
        system_gates=settings.gates.system,
        messages=ground.messages,
        keys=lambda: ground.keys.public,
        is_known=rooms.is_known,
        memory=rooms.memory,
        context=rooms.context,
        personality=rooms.personality,
        reviews=rooms.reviews,
        gate_desk=rooms.gate_desk,
        proactive=rooms.proactive,
        skills=rooms.skills,
        live=rooms.live,
        active_goal=goal,
    )


def _visitors(ground: Ground, goal: WorkItem | None) -> Visitors:
    writing: set[asyncio.Task[str]] = set()

    def note(change: AccessChange) -> None:
        task = asyncio.get_running_loop().create_task(
            ground.audit.log("access_changed", **change.model_dump(mode="json"))
        )
        writing.add(task)
        task.add_done_callback(writing.discard)

    return Visitors(
        goal.access_levels if goal else {},
        clock=ground.clock,
        on_change=note,
        all_tools=sorted(PROXY_TOOLS | PLANNER_TOOLS | RESEARCH_TOOLS),
        customers=CustomerDirectory(
            ground.settings.sandbox.customer_context_dir, data_dir=ground.paths.data_dir
        ),
    )


def _policy(settings: Settings) -> TurnPolicy:
    interaction, planner = settings.interaction, settings.planner
    return TurnPolicy(
        owner_id=settings.owner_id,
        default_profile=settings.context.default_profile,
        profiles=tuple(settings.context.profiles),
        high_initiative_min=interaction.high_initiative_min,
        default_modes={
            InteractionRegister(register): InteractionMode(mode)
            for register, mode in interaction.default_mode_by_register.items()
        },
        max_memory_ops=settings.limits.max_memory_ops_per_turn,
        max_tokens=planner.max_tokens_per_turn,
        max_cost_usd=planner.max_cost_usd_per_turn,
        plans_base=Path.home(),
    )


def _limits(settings: Settings) -> ResearchLimits:
    planner = settings.planner
    return ResearchLimits(
        in_flight=planner.research_in_flight,
        rounds=planner.research_rounds,
        seconds=planner.research_timeout_seconds,
        max_tokens=planner.max_tokens_per_request,
        max_cost_usd=planner.max_cost_usd_per_request,
    )


def _active_goal(path: Path | None) -> WorkItem | None:
    """The goal that configures the conversation: its gates, access levels and escalations."""
    return None if path is None else parse_plan(path.read_text("utf-8")).root
