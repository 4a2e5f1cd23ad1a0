"""The conversation, wired: the turns, three loops and their bus, of one data directory.

At the start, in this order: what dead processes held is given out again, their attempts at work are
put in order, then the loops begin. At the end: nothing more is taken in, what is being worked on
may finish within the grace time, and the rest is given back, to be done when Silas is back.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

from silas.agents.models.choices import Role
from silas.app.agents import Agents, model_name, providers_elsewhere
from silas.app.core import Core
from silas.app.gates import open_gates
from silas.app.jobs import Housekeeping, PeriodicJob
from silas.app.work import off_limits_of, open_executor, paused_runs_of, resumptions_of
from silas.context.service import ContextService
from silas.gates.access import AccessChange, CustomerDirectory, Visitors
from silas.gates.runner import GateRunner
from silas.journal.conversation import JournalConversation
from silas.kernel import SilasError
from silas.kernel.tasks import BackgroundWork, end_task
from silas.memory.service import MemoryService
from silas.personality import PersonalityEngine
from silas.proactive.batches import Batches
from silas.queue import Consumer, Handler, QueueName, QueueStore
from silas.review.questions import QuestionStore
from silas.settings.models import Settings
from silas.stream.accounts import AccountReading
from silas.stream.activity import ActivityTitles, while_away
from silas.stream.admission import Admission, Busy, Intake
from silas.stream.answering import AnswersInProgress, AnswerStops
from silas.stream.cadence import CadenceWatch
from silas.stream.cases import VisitorCases
from silas.stream.consult import BusPlanner, Consultations
from silas.stream.gate_checks import StandingGoals
from silas.stream.healing import Running, WorkProgress
from silas.stream.limits import RateLimit
from silas.stream.loops.executor import ExecutorLoop
from silas.stream.loops.planner import PlannerLoop
from silas.stream.loops.proxy import ProxyLoop
from silas.stream.loops.runtime import RuntimeLoop
from silas.stream.models import InteractionRegister
from silas.stream.places import OpenedPlaces
from silas.stream.ports import GateApprover, Live, Proactive, Reviews
from silas.stream.reading_tools import PLANNER_TOOLS, PROXY_TOOLS, ReadingToolbox
from silas.stream.research import ResearchLimits, ResearchStore
from silas.stream.resuming import AskByCard, ExpiredCalls
from silas.stream.scheduling import Clockwork, list_watches
from silas.stream.turn_context import SpeakToCompanion, TurnContext, TurnPolicy, VaultDoor, nobody
from silas.stream.usage import UsageLedger
from silas.stream.visitors import VisitorDoor, VisitorStore
from silas.tools import RESEARCH_TOOLS
from silas.work.attempt_store import may_be_alive
from silas.work.executor import WorkItemExecutor
from silas.work.models import InteractionMode, WorkItem
from silas.work.off_limits import OffLimits
from silas.work.plan import parse_plan
from silas.work.ports import Approver

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TurnServices:
    """What the conversation may use besides; see the ports for what absence means."""

    memory: MemoryService | None = None
    journal: JournalConversation | None = None
    context: ContextService | None = None
    personality: PersonalityEngine | None = None
    reviews: Reviews | None = None
    gate_approver: GateApprover | None = None
    proactive: Proactive | None = None
    batches: Batches | None = None
    approver: Approver | None = None
    live: Live | None = None
    is_known: Callable[[str, str], bool] = nobody
    visitors: VisitorStore | None = None
    cases: VisitorCases | None = None
    places: OpenedPlaces | None = None
    vault: VaultDoor | None = None
    spoken_to: SpeakToCompanion | None = None


def open_turns(
    core: Core, agents: Agents, services: TurnServices, work: WorkItemExecutor
) -> TurnContext:
    """What the turns of this data directory work with."""
    settings, clock = core.settings, core.clock
    goal = _active_goal(settings.active_goal)
    standing = StandingGoals(core.work.items, core.approvals, clock)

    async def in_force() -> tuple[WorkItem, ...]:
        return (*(() if goal is None else (goal,)), *await standing.in_force())

    reading = _reading(core, services, work)
    if services.context is not None and agents.beside_context is not None:
        tools = reading.described()
        given = zip(agents.beside_context, tools, strict=True)
        services.context.manager.reserve(["\n".join(each) for each in given])
    return TurnContext(
        store=core.conversations,
        items=core.work.items,
        audit=core.audit,
        clock=clock,
        ids=core.ids,
        reading=reading,
        visitors=_visitors(core, goal),
        policy=_policy(settings, off_limits_of(core.paths)),
        enqueue=core.queue.enqueue,
        effect_of=work.context.registry.effect_of,
        proxy=agents.proxy,
        gates=work.context.gates,
        system_gates=settings.gates.system,
        messages=core.messages,
        keys=lambda: core.keys.public,
        is_known=services.is_known,
        memory=services.memory,
        journal=services.journal,
        context=services.context,
        personality=services.personality,
        reviews=services.reviews,
        gate_approver=services.gate_approver,
        proactive=services.proactive,
        skills=core.skill_files,
        accounts=AccountReading(
            core.skill_files,
            core.connections,
            clock,
            core.ids,
            ZoneInfo(settings.scheduler.timezone),
            services.journal,
        ),
        live=services.live,
        answers=AnswersInProgress(
            settings.owner_id, clock, AnswerStops(core.database, clock), services.live
        ),
        proxy_model=model_name(settings, Role.PROXY),
        active_goal=goal,
        standing_goals=standing.in_force,
        door=VisitorDoor(services.visitors, in_force) if services.visitors else None,
        cases=services.cases,
        places=services.places,
        vault=services.vault,
        spoken_to=services.spoken_to,
        goal_tool=work.context.registry.get,
        memory_ops=RateLimit(clock, settings.limits.memory_ops_per_minute_per_scope),
        worker_tools=frozenset(
            name for name, tool in work.context.registry.tools.items() if tool.offered
        ),
        proxy_hears_context=agents.proxy_hears_context,
        planner_hears_context=agents.planner_hears_context,
        attachments=core.attachments,
        proxy_sees_images=agents.proxy_sees_images,
        planner_sees_images=agents.planner_sees_images,
        exact=agents.exact,
    )


def _reading(core: Core, services: TurnServices, work: WorkItemExecutor) -> ReadingToolbox:
    looking = [work.context.registry.get(name) for name in sorted(RESEARCH_TOOLS)]
    return ReadingToolbox(
        ids=core.ids,
        memory=services.memory,
        context=services.context,
        journal=services.journal,
        tools=tuple(tool for tool in looking if tool is not None and tool.only_observes),
        directory=core.settings.planner.research_dir,
        origins=core.work.origins,
        activity=partial(
            while_away,
            core.audit,
            owner_id=core.settings.owner_id,
            clock=core.clock,
            zone=ZoneInfo(core.settings.scheduler.timezone),
            titles=ActivityTitles(core.database),
        ),
        searches=core.searches,
        watches=partial(list_watches, core.work.items),
    )


def _visitors(core: Core, goal: WorkItem | None) -> Visitors:
    writing = BackgroundWork(_log)

    def note(change: AccessChange) -> None:
        entry = change.model_dump(mode="json")
        writing.start(
            partial(core.audit.log, "access_changed", **entry),
            "A change of access was not logged",
        )

    return Visitors(
        goal.access_levels if goal else {},
        clock=core.clock,
        on_change=note,
        all_tools=sorted(PROXY_TOOLS | PLANNER_TOOLS | RESEARCH_TOOLS),
        customers=CustomerDirectory(
            core.settings.sandbox.customer_context_dir, data_dir=core.paths.data_dir
        ),
    )


def _policy(settings: Settings, off_limits: OffLimits) -> TurnPolicy:
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
        max_open_cards=settings.backpressure.max_open_cards_per_visitor,
        max_tokens=planner.max_tokens_per_turn,
        max_cost_usd=planner.max_cost_usd_per_turn,
        starts_goals=settings.scheduler.enabled,
        letters_wait=timedelta(minutes=settings.undo.window_minutes)
        if settings.undo.delay_sending
        else None,
        home=Path.home(),
        workspace=planner.workspace_dir,
        off_limits=off_limits,
    )


def open_places(core: Core, questions: QuestionStore) -> OpenedPlaces:
    """What the owner has opened to reading in this data directory."""
    planner = core.settings.planner
    policy = _policy(core.settings, off_limits_of(core.paths))
    return OpenedPlaces(
        core.database,
        questions,
        audit=core.audit,
        clock=core.clock,
        ids=core.ids,
        owner_id=core.settings.owner_id,
        around=policy.surroundings,
        seen_by=providers_elsewhere(core.settings),
        always=(planner.research_dir,) if planner.research_dir else (),
    )


def research_limits(settings: Settings) -> ResearchLimits:
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


__all__ = ["Stream", "TurnServices", "make_stream", "open_intake", "open_stream"]

_LOOK_AT_THE_CLOCK = timedelta(seconds=5)
_RELEASE = timedelta(minutes=1)
_EXPIRE = timedelta(minutes=1)
_WRITE_DOWN = timedelta(minutes=1)
_AT_ONCE = 32
"""Messages of one queue; how much work goes on at once is limited by its own pool."""
_REMEMBER = timedelta(days=30)
_REMEMBER_ORIGINS = timedelta(days=90)


@dataclass
class Stream:
    """The conversation of one data directory."""

    intake: Intake
    queue: QueueStore
    turns: TurnContext
    work: WorkItemExecutor
    consumers: tuple[Consumer, ...]
    clockwork: Clockwork
    expired: ExpiredCalls
    busy: Busy
    usage: UsageLedger
    starts_goals: bool
    """Whether anything is begun at set times: `scheduler.enabled`."""

    async def recover(self) -> None:
        """Put in order what a crash left behind."""
        await self.queue.recover(alive=may_be_alive)
        await self.work.recover()
        await self.clockwork.register_active_goal(self.work.context.control)

    async def run(self) -> None:
        """Go on until cancelled."""
        jobs = self.jobs()
        async with asyncio.TaskGroup() as group:
            for consumer in self.consumers:
                group.create_task(consumer.run(), name=consumer.name)
            group.create_task(Housekeeping(jobs, clock=self.turns.clock).run(), name="clockwork")

    def jobs(self) -> list[PeriodicJob]:
        """What is done again and again."""
        look, work = _LOOK_AT_THE_CLOCK, self.clockwork
        starting = [PeriodicJob("start due goals", look, work.start_due_goals)]
        return [
            PeriodicJob("end overdue research", look, work.end_overdue_research),
            PeriodicJob("end calls that nobody decided", _EXPIRE, self.expired.look),
            *(starting if self.starts_goals else ()),
            PeriodicJob("tell reminders", look, work.tell_reminders),
            PeriodicJob("close what a bad disk left open", _RELEASE, self.work.release),
            PeriodicJob("write down what models used", _WRITE_DOWN, self.usage.flush),
            PeriodicJob("forget what was processed", timedelta(days=1), self._forget),
        ]

    async def _forget(self) -> None:
        now = self.turns.clock.now()
        await self.queue.prune_processed(before=now - _REMEMBER)
        await self.turns.store.prune(before=now - _REMEMBER_ORIGINS)
        await self.usage.prune()

    async def drain(self, seconds: float) -> None:
        """Take nothing more, and let what is being worked on finish if it can in this time."""
        self.intake.close()
        await self.busy.drain(seconds)


@contextlib.asynccontextmanager
async def open_stream(
    core: Core,
    agents: Agents,
    *,
    services: TurnServices | None = None,
    gates: GateRunner | None = None,
) -> AsyncIterator[Stream]:
    """The conversation, running; at the end of the block it is taken down, and nothing is lost."""
    stream = make_stream(core, agents, services=services or TurnServices(), gates=gates)
    await stream.recover()
    await core.audit.log("stream_started")
    task = asyncio.create_task(stream.run(), name="stream")
    try:
        yield stream
    finally:
        await stream.drain(core.settings.backpressure.shutdown_grace_seconds)
        await end_task(task)
        with contextlib.suppress(SilasError):  # a record of use is not worth a stop that fails
            await core.usage.flush()
        await core.audit.log("stream_stopped")
        with contextlib.suppress(SilasError):  # a vault that is locked vouches for nothing
            await core.audit.write_checkpoint()


def open_intake(core: Core) -> Intake:
    """The way in, with the limits that are configured."""
    clock, limits, most = core.clock, core.settings.limits, core.settings.backpressure
    admission = Admission(
        core.queue,
        per_scope=RateLimit(clock, limits.ws_messages_per_minute_per_scope),
        per_sender=RateLimit(clock, limits.messages_per_minute_per_sender),
        owner_id=core.settings.owner_id,
        most_per_scope=most.max_pending_turns_per_scope,
        most_total=most.max_pending_turns_total,
    )
    return Intake(core.queue, clock=clock, ids=core.ids, admission=admission)


def make_stream(
    core: Core, agents: Agents, *, services: TurnServices, gates: GateRunner | None = None
) -> Stream:
    """The conversation, wired and standing still. Without `gates`, those of the core are made."""
    queue = core.queue
    running, consultations = Running(), Consultations(core.database, clock=core.clock)
    progress, busy, asking = WorkProgress(running, queue), Busy(), AskByCard(running.cause)
    work = open_executor(
        core,
        agent=agents.executor,
        gates=gates or open_gates(core, model=agents.gate),
        planner=_planner(core, consultations, running) if agents.planner else None,
        approver=services.approver or asking,
        progress=progress,
        on_start=progress.started_in,
        propose=services.batches.propose if services.batches else None,
    )
    turns = open_turns(core, agents, services, work)
    progress.attach(turns)
    asking.attach(turns)
    states, settings = ResearchStore(core.database), core.settings
    handlers: dict[QueueName, Handler] = {
        QueueName.PROXY: ProxyLoop(turns),
        QueueName.PLANNER: PlannerLoop(
            turns,
            states,
            research_limits(settings),
            agents.planner,
            looks_first=agents.planner_looks_first,
        ),
        QueueName.EXECUTOR: _executor(agents, turns, work, running, settings),
        QueueName.RUNTIME: RuntimeLoop(
            turns, work.context, consultations, CadenceWatch(core.audit, core.clock)
        ),
    }
    return Stream(
        intake=open_intake(core),
        queue=queue,
        turns=turns,
        work=work,
        consumers=tuple(
            _consumer(name, busy.watching(core.usage.carried_by(handler)), queue)
            for name, handler in handlers.items()
        ),
        clockwork=Clockwork(
            turns, queue, core.database, states, ZoneInfo(settings.scheduler.timezone)
        ),
        expired=ExpiredCalls(turns, core.database, paused_runs_of(core), resumptions_of(core)),
        busy=busy,
        usage=core.usage,
        starts_goals=settings.scheduler.enabled,
    )


def _planner(core: Core, consultations: Consultations, running: Running) -> BusPlanner:
    return BusPlanner(
        core.queue,
        core.database,
        consultations,
        audit=core.audit,
        clock=core.clock,
        ids=core.ids,
        cause=running.cause,
        seconds=core.settings.planner.consult_timeout_seconds,
    )


def _executor(
    agents: Agents, turns: TurnContext, work: WorkItemExecutor, running: Running, settings: Settings
) -> ExecutorLoop:
    return ExecutorLoop(
        turns,
        work,
        running,
        agents.research,
        research_cost_usd=settings.planner.max_cost_usd_per_turn,
        max_replans=settings.planner.max_replans if agents.planner else 0,
        per_scope=work.context.limits.per_scope,
    )


def _consumer(name: QueueName, handler: Handler, queue: QueueStore) -> Consumer:
    return Consumer(
        name=name.value.removesuffix("_queue"),
        queue=name,
        handler=handler,
        store=queue,
        concurrency=_AT_ONCE,
    )
