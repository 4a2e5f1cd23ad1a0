"""Companions, wired: their file, policy and tools, what wakes them, and the service for fronts."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from silas.agents.companion_gateway import Destinations, ReferencedSecrets
from silas.app.agents import companion_choices, without_reading
from silas.app.context import MemoryServices, forget_memories, open_traces
from silas.app.core import Core, OpenDatabase
from silas.app.gates import open_gates
from silas.app.jobs import PeriodicJob
from silas.app.review import open_unasked
from silas.audit.models import AuditTrail
from silas.companions.budgets import Budgets
from silas.companions.compaction import CompactionPolicy, Compactor, ModelSummariser
from silas.companions.conversation import CompanionWord
from silas.companions.erasure import Elsewhere, ErasedElsewhere, Erasure
from silas.companions.errors import AgentDestroyed
from silas.companions.gateway import ModelDoor, StopSwitches
from silas.companions.kinds.library import KindLibrary
from silas.companions.lifecycle import CompanionNotifications, Lifecycle
from silas.companions.log import CompanionSessions
from silas.companions.messages import WakeRun
from silas.companions.models import AgentState, Companion, InteractiveSession, WakeReason
from silas.companions.operations import ActionApprovals, Operations
from silas.companions.ports import ProviderGateway, SecretAvailable
from silas.companions.resumption import OperationResumption
from silas.companions.retention import FOR_EVER, ArtifactClass, Retention
from silas.companions.service import CompanionService
from silas.companions.store import CompanionStore
from silas.companions.timers import Alarms
from silas.companions.tools.catalogue import companion_tools
from silas.companions.tools.executor import CallGates, ToolExecutor
from silas.companions.wake.dispatch import WakeDispatch
from silas.companions.wake.orchestrator import TokenIndex, WakeOrchestrator
from silas.companions.wake.worker import RunCompanion, WakeWorker
from silas.companions.workflow import CompanionWorkflow
from silas.gates.runner import GateRunner
from silas.journal import Journal
from silas.kernel import Clock, IdFactory
from silas.queue import Consumer, QueueName, QueueStore
from silas.review.questions import QuestionStore
from silas.settings.paths import Paths
from silas.settings.services import CompanionSettings
from silas.storage import Database, SqliteDatabase, load_migrations, migrate
from silas.stream.companions import CompanionTraces

_LOOK = timedelta(minutes=1)
_PRUNE = timedelta(days=1)
TellOwner = Callable[[CompanionWord], Awaitable[None]]
_MAX_RUNS_AT_ONCE = 4
"""How many companions may run at the same time."""


@dataclass(frozen=True)
class CompanionServices:
    """Companions, wired: the service that fronts talk to, and the parts that run behind it."""

    store: CompanionStore
    service: CompanionService
    lifecycle: Lifecycle
    workflow: CompanionWorkflow
    executor: ToolExecutor
    resumption: OperationResumption
    dispatch: WakeDispatch
    orchestrator: WakeOrchestrator
    worker: WakeWorker
    alarms: Alarms
    compactor: Compactor
    notifications: CompanionNotifications
    consumer: Consumer

    async def answered(self, about: str) -> None:
        """The owner has answered the card of an action: `companion:AGENT:OPERATION`."""
        await self.service.decided(about.rpartition(":")[2])

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Finish what a crash left, catch up, and go on until the end of the block."""
        await self.dispatch.recover()
        await self.orchestrator.start()
        tasks = [
            asyncio.create_task(self.consumer.run(), name="companions"),
            asyncio.create_task(self.orchestrator.run(), name="companions' catching up"),
            asyncio.create_task(self.alarms.run(), name="companions' timers"),
            asyncio.create_task(self.compactor.run(), name="companions' compaction"),
        ]
        try:
            yield
        finally:
            self.orchestrator.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def build_companions(
    store: CompanionStore,
    journal: Journal,
    *,
    queue: QueueStore,
    gateway: ProviderGateway | None,
    approvals: ActionApprovals | None,
    secret_available: SecretAvailable | None,
    time_zone: Callable[[], str],
    gates: CallGates,
    audit: AuditTrail,
    talked: Elsewhere | None,
    kinds: Path | None = None,
    compaction: CompactionPolicy | None = None,
    run: RunCompanion | None = None,
    tell: TellOwner | None = None,
) -> CompanionServices:
    """Companions on these ports, standing still. What is absent is a no.

    `run` takes the place of the workflow, for whoever looks at waking alone; `tell` is told what
    of a run is for the owner's eyes; `talked` erases what was said in other conversations.
    """
    registry = companion_tools()
    switches = StopSwitches(store, fence=journal.fence.move)
    budgets = Budgets(store, time_zone=time_zone)
    operations = Operations(store, approvals)
    executor = ToolExecutor(
        registry=registry,
        store=store,
        journal=journal,
        switches=switches,
        budgets=budgets,
        operations=operations,
        time_zone=time_zone,
        gates=gates,
        audit=audit,
    )
    door = ModelDoor(
        store,
        gateway,
        switches=switches,
        budgets=budgets,
        secret_available=secret_available,
    )
    workflow = CompanionWorkflow(store, journal, executor=executor, door=door, time_zone=time_zone)
    notifications = CompanionNotifications(store.ids, host_id=store.host_id)
    compactor = Compactor(store, summariser=ModelSummariser(store, door), policy=compaction)

    async def decided(agent_id: str, thread_id: str) -> None:
        # The thread of a run has ended long since; what was decided in it is remembered too.
        with contextlib.suppress(AgentDestroyed):
            ended = ":session:" not in thread_id
            await compactor.consider(agent_id, thread_id, ended=ended)

    resumption = OperationResumption(store, executor, remember=decided)
    dispatch, index, sessions = WakeDispatch(store, queue), TokenIndex(), CompanionSessions(store)

    async def session_ended(session: InteractiveSession) -> None:
        await compactor.consider(session.agent_id, session.thread_id, ended=True)

    alarms = Alarms(store, dispatch, sessions=sessions, time_zone=time_zone, closed=session_ended)

    async def run_ended(run: WakeRun) -> None:
        # It may have set its own alarm.
        alarms.poke()
        await _follow_up(store, notifications, compactor, run)
        word = await service.conversations.word_of(run) if tell is not None else None
        if word is not None and tell is not None:
            await tell(word)

    worker = WakeWorker(store, run or workflow.run, ended=run_ended)
    erasure = Erasure(
        store,
        elsewhere=companion_places(queue, approvals, talked),
        wipe=without_erased(store.database, queue.database),
        call_off=worker.call_off,
        fence=journal.fence.move,
    )
    lifecycle = Lifecycle(
        store,
        dispatch=dispatch,
        index=index,
        sessions=sessions,
        time_zone=time_zone,
        poke_alarms=alarms.poke,
        call_off=worker.call_off,
        fence=journal.fence.move,
        changed=notifications.agent_changed,
        forgotten=erasure.lost_category,
    )
    service = CompanionService(
        store,
        journal,
        lifecycle=lifecycle,
        worker=worker,
        resumption=resumption,
        door=door,
        switches=switches,
        budgets=budgets,
        operations=operations,
        library=KindLibrary(registry, kinds),
        registry=registry,
        audit=audit,
        session_ended=session_ended,
        erasure=erasure,
    )
    return CompanionServices(
        store=store,
        service=service,
        lifecycle=lifecycle,
        workflow=workflow,
        executor=executor,
        resumption=resumption,
        dispatch=dispatch,
        orchestrator=WakeOrchestrator(store, journal, dispatch=dispatch, index=index),
        worker=worker,
        alarms=alarms,
        compactor=compactor,
        notifications=notifications,
        consumer=Consumer(
            name="companion",
            queue=QueueName.COMPANION,
            handler=worker,
            store=queue,
            concurrency=_MAX_RUNS_AT_ONCE,
        ),
    )


def companion_places(
    queue: QueueStore, approvals: ActionApprovals | None, talked: Elsewhere | None
) -> list[Elsewhere]:
    """Where companions' words go outside of their own file."""

    async def on_the_bus(about: ErasedElsewhere) -> dict[str, int]:
        if not about.really:
            return {}
        return {"messages on the bus": await queue.forget(QueueName.COMPANION, about.fits)}

    cards = approvals.forget if approvals is not None else None
    return [on_the_bus, *(each for each in (cards, talked) if each is not None)]


def without_erased(*databases: Database) -> Callable[[], Awaitable[bool]]:
    """What writes these files anew, so that nothing that was erased stays in them."""

    async def write() -> bool:
        files = [each for each in databases if isinstance(each, SqliteDatabase)]
        return all([await each.write_anew() for each in files])

    return write


async def _follow_up(
    store: CompanionStore,
    notifications: CompanionNotifications,
    compactor: Compactor,
    run: WakeRun,
) -> None:
    """After a run: those who listen hear of it, and its thread may be due for a summary."""
    companion = await store.get(Companion, run.agent_id)
    if companion is None or companion.is_destroyed:
        return
    state = await store.get(AgentState, companion.current_state_id)
    if state is not None:
        notifications.state_changed(state)
    ended = run.job.reason is not WakeReason.USER_INITIATED
    with contextlib.suppress(AgentDestroyed):
        await compactor.consider(run.agent_id, run.job.thread_id, ended=ended)


@contextlib.asynccontextmanager
async def open_companion_store(
    paths: Paths,
    *,
    clock: Clock,
    ids: IdFactory,
    host_id: str,
    open_database: OpenDatabase = SqliteDatabase.open,
) -> AsyncIterator[CompanionStore]:
    """The companions' records; the file is made if it is not there yet.

    `host_id` is the journal's: a device has one name in all vector clocks.
    """
    database = open_database(paths.companions)
    try:
        await migrate(database, load_migrations("agent"), clock=clock)
        yield CompanionStore(database, clock=clock, ids=ids, host_id=host_id)
    finally:
        await database.close()


def action_approvals(core: Core, questions: QuestionStore) -> ActionApprovals:
    """The owner's answers to what companions want to do."""
    return ActionApprovals(
        questions,
        open_unasked(core, questions),
        decisions=core.decisions,
        engine=core.approvals,
        audit=core.audit,
        clock=core.clock,
        owner_id=core.settings.owner_id,
    )


def make_companions(
    core: Core,
    journal: Journal,
    store: CompanionStore,
    *,
    queue: QueueStore,
    questions: QuestionStore | None = None,
    environ: Mapping[str, str] | None = None,
    gates: GateRunner | None = None,
    models: Destinations | None = None,
    tell: TellOwner | None = None,
    memory: MemoryServices | None = None,
) -> CompanionServices:
    """Companions as the settings say, standing still.

    Without `questions`, nothing can be put to the owner; without `models`, none can be asked.
    """
    settings, zone = core.settings.companions, core.settings.scheduler.timezone
    around = os.environ if environ is None else environ
    return build_companions(
        store,
        journal,
        queue=queue,
        gateway=models or Destinations(companion_choices(core.settings, without_reading)),
        approvals=action_approvals(core, questions) if questions is not None else None,
        secret_available=ReferencedSecrets(core.vault.get, environ=around).available,
        time_zone=lambda: zone,
        gates=CallGates(core.settings.gates.system, gates or open_gates(core)),
        audit=core.audit,
        kinds=core.paths.companion_kinds,
        compaction=CompactionPolicy(model_attempts=settings.summary_model_attempts),
        tell=tell,
        talked=CompanionTraces(
            core.database, forget_memories(core, memory, traces=open_traces(core))
        ),
    )


@contextlib.asynccontextmanager
async def open_companions(
    core: Core,
    journal: Journal,
    *,
    queue: QueueStore,
    questions: QuestionStore | None = None,
    environ: Mapping[str, str] | None = None,
    gates: GateRunner | None = None,
    models: Destinations | None = None,
    tell: TellOwner | None = None,
    memory: MemoryServices | None = None,
) -> AsyncIterator[CompanionServices]:
    """Companions, awake for as long as the block lasts."""
    async with open_companion_store(
        core.paths,
        clock=core.clock,
        ids=core.ids,
        host_id=journal.host_id,
        open_database=core.machine.open_database,
    ) as store:
        companions = make_companions(
            core,
            journal,
            store,
            queue=queue,
            questions=questions,
            environ=environ,
            gates=gates,
            models=models,
            tell=tell,
            memory=memory,
        )
        await companions.service.recover()
        try:
            async with companions.running():
                yield companions
        finally:
            if models is not None:
                await models.close()


def companion_retention(store: CompanionStore, settings: CompanionSettings) -> Retention:
    """How long what companions leave behind is kept, as the settings say."""
    days = settings.keep_days
    room = settings.max_megabytes
    return Retention(
        store,
        {each: getattr(days, each.value) or FOR_EVER for each in ArtifactClass},
        max_bytes=room * 1_000_000 if room is not None else None,
    )


def companion_jobs(companions: CompanionServices, settings: CompanionSettings) -> list[PeriodicJob]:
    """What companions need again and again: what nobody answers, or needs any more, ends."""
    retention = companion_retention(companions.store, settings)
    return [
        PeriodicJob("end unanswered questions of companions", _LOOK, companions.service.expire),
        PeriodicJob("prune companions", _PRUNE, retention.prune),
    ]
