"""Companions for tests, with their state."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from silas.app.companions import CompanionServices, build_companions
from silas.companions.ids import run_message_id, state_id
from silas.companions.lifecycle import Lifecycle
from silas.companions.log import CompanionSessions, MessageLog
from silas.companions.messages import (
    AgentLink,
    AgentMessage,
    AgentMessagePayload,
    MessageDraft,
    RunOutcome,
    RunTrace,
    WakeJob,
    WakeRun,
)
from silas.companions.models import (
    AgentLifecycle,
    AgentLinkRelation,
    AgentMessageKind,
    AgentState,
    Companion,
    JsonMap,
    WakeStatus,
)
from silas.companions.store import CompanionStore
from silas.companions.timers import Alarms
from silas.companions.wake.dispatch import WakeDispatch
from silas.companions.wake.orchestrator import TokenIndex, WakeOrchestrator
from silas.companions.wake.worker import RunCompanion, WakeWorker
from silas.journal.edit import Edit
from silas.journal.store import Journal
from silas.queue import QueueName, QueueStore
from silas.queue.models import CompanionWake
from silas.testing import RecordingAudit
from silas.testing.companions import UnsafeNoGates


async def make_companion(
    store: CompanionStore, agent_id: str = "agent-1", **fields: Any
) -> Companion:
    """A companion that is awake, and its empty state."""
    now = store.clock.now()
    made = Companion(
        **{
            "id": agent_id,
            "kind": "planner",
            "display_name": "Planner",
            "lifecycle": AgentLifecycle.ACTIVE,
            "allowed_category_ids": ("gym",),
            "current_state_id": state_id(agent_id),
            "created_at": now,
            "updated_at": now,
            **fields,
        }
    )
    companion = await store.put(made)
    await store.put(AgentState(id=state_id(agent_id), agent_id=agent_id, updated_at=now))
    return companion


def draft(text: str = "hello", *, thread: str = "agent-1:run:1", **fields: Any) -> MessageDraft:
    """A message of the companion `agent-1`."""
    return MessageDraft(
        **{
            "agent_id": "agent-1",
            "thread_id": thread,
            "kind": AgentMessageKind.OBSERVATION,
            "content": {"text": text},
            **fields,
        }
    )


class ReadableLog(MessageLog):
    """The log with what only tests ask of it."""

    async def append(self, drafts: Sequence[MessageDraft]) -> tuple[AgentMessage, ...]:
        """Append all of these, or none."""
        return await self._store.transaction(lambda tx: self.append_in(tx, drafts))

    async def thread(self, agent_id: str, thread_id: str) -> list[AgentMessage]:
        """The messages of a thread, oldest first."""
        where = {"agent_id": agent_id, "thread_id": thread_id, "summary_depth": 0}
        return await self._store.find(AgentMessage, where)

    async def content(self, message: AgentMessage) -> JsonMap | None:
        """What a message says, if it says anything."""
        if message.content_entry_id is None:
            return None
        payload = await self._store.get(AgentMessagePayload, message.content_entry_id)
        return payload.content if payload else None

    async def links(self, relation: AgentLinkRelation, **ends: str) -> list[AgentLink]:
        """The links of a kind with this `from_id` or `to_id`, newest first."""
        return await self._store.find(AgentLink, {"type": relation, **ends}, newest_first=True)


async def let_sleep(store: CompanionStore, agent_id: str, until: datetime) -> None:
    """Let nothing but the owner wake a companion before this moment."""
    state = await store.require(AgentState, state_id(agent_id))
    await store.put(state.model_copy(update={"sleep_until": until}))


async def set_dormant(store: CompanionStore, agent_id: str, *, dormant: bool) -> None:
    """Let a companion sleep so that only the owner wakes it, or wake it up again."""
    companion = await store.require(Companion, agent_id)
    lifecycle = AgentLifecycle.DORMANT if dormant else AgentLifecycle.ACTIVE
    await store.put(companion.model_copy(update={"lifecycle": lifecycle}))


class RecordingRuns:
    """`RunCompanion` that writes down what it was asked to do, and does what a test says."""

    def __init__(self, store: CompanionStore) -> None:
        self.store = store
        self.jobs: list[WakeJob] = []
        self.during: Callable[[WakeJob], Awaitable[None]] | None = None
        self.status = WakeStatus.COMPLETED
        self.stopped: list[bool] = []

    async def run(
        self,
        job: WakeJob,
        companion: Companion,
        state: AgentState,
        stopping: Callable[[], bool],
    ) -> RunOutcome:
        self.jobs.append(job)
        if self.during is not None:
            await self.during(job)
        self.stopped.append(stopping())
        now = self.store.clock.now()
        return RunOutcome(
            status=WakeStatus.CANCELLED if stopping() else self.status,
            state=state,
            drafts=(
                MessageDraft(
                    agent_id=companion.id,
                    thread_id=job.thread_id,
                    kind=AgentMessageKind.THOUGHT,
                    content={"woken_by": job.reason},
                    message_id=run_message_id(job.run_key, 0),
                ),
            ),
            trace=RunTrace(
                run_key=job.run_key,
                agent_id=companion.id,
                thread_id=job.thread_id,
                reason=job.reason,
                status=self.status,
                started_at=now,
                ended_at=now,
            ),
        )


class FixedZone:
    """Where the owner is, as the test says."""

    def __init__(self, name: str = "Europe/Berlin") -> None:
        self.name = name

    def time_zone(self) -> str:
        return self.name


def waking_only(
    store: CompanionStore, journal: Journal, queue: QueueStore, run: RunCompanion
) -> CompanionServices:
    """Companions that nobody has a model, an owner or a secret for; runs are what the test says."""
    return build_companions(
        store,
        journal,
        queue=queue,
        gateway=None,
        approvals=None,
        secret_available=None,
        time_zone=FixedZone().time_zone,
        gates=UnsafeNoGates(),
        audit=RecordingAudit(),
        talked=None,
        run=run,
    )


class House:
    """The parts of waking, wired as the application does it, with runs that only write down."""

    def __init__(self, store: CompanionStore, journal: Journal, queue: QueueStore) -> None:
        self.store, self.journal, self.queue = store, journal, queue
        self.zone = FixedZone()
        self.index = TokenIndex()
        self.dispatch = WakeDispatch(store, queue)
        self.sessions = CompanionSessions(store)
        self.runs = RecordingRuns(store)
        self.worker = WakeWorker(store, self.runs.run)
        self.alarms = Alarms(
            store, self.dispatch, sessions=self.sessions, time_zone=self.zone.time_zone
        )
        self.orchestrator = WakeOrchestrator(
            store, journal, dispatch=self.dispatch, index=self.index
        )
        self.lifecycle = Lifecycle(
            store,
            dispatch=self.dispatch,
            index=self.index,
            sessions=self.sessions,
            time_zone=self.zone.time_zone,
            poke_alarms=self.alarms.poke,
            call_off=self.worker.call_off,
            fence=journal.fence.move,
        )

    async def work(self) -> list[WakeRun]:
        """Handle everything on the bus, one after the other."""
        ended = []
        while lease := await self.queue.lease(QueueName.COMPANION, consumer="companion"):
            handled = await self.worker(lease)
            await self.queue.finish(lease, consumer="companion", messages=handled.messages)
            payload = lease.message.payload
            assert isinstance(payload, CompanionWake)
            run = await self.dispatch.log.get(payload.run_key)
            assert run is not None
            ended.append(run)
        return ended

    async def change(self, edit: Callable[[Edit], Any], *, actor: str = "owner") -> Any:
        """A change of the journal, heard by everybody."""
        result = await self.journal.change(edit, actor=actor)
        await self.journal.settled()
        return result
