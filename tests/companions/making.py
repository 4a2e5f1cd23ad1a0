"""Companions for tests, with their state."""

from collections.abc import Awaitable, Callable
from typing import Any

from silas.companions.ids import run_message_id, state_id
from silas.companions.lifecycle import Lifecycle
from silas.companions.models import (
    AgentLifecycle,
    AgentMessageKind,
    AgentState,
    Companion,
    MessageDraft,
    RunOutcome,
    RunTrace,
    WakeJob,
    WakeRun,
    WakeStatus,
)
from silas.companions.sessions import Sessions
from silas.companions.store import CompanionStore
from silas.companions.wake.alarms import Alarms
from silas.companions.wake.dispatch import WakeDispatch
from silas.companions.wake.index import TokenIndex
from silas.companions.wake.orchestrator import WakeOrchestrator
from silas.companions.wake.worker import WakeWorker
from silas.journal.edit import Edit
from silas.journal.store import Journal
from silas.queue import QueueName, QueueStore
from silas.queue.models import CompanionWake


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


class RecordingRuns:
    """`CompanionRuns` that writes down what it was asked to do, and does what a test says."""

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
        *,
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
    """`OwnersZone`: where the test says."""

    def __init__(self, name: str = "Europe/Berlin") -> None:
        self.name = name

    def time_zone(self) -> str:
        return self.name


class House:
    """The parts of waking, wired as the application does it, with runs that only write down."""

    def __init__(self, store: CompanionStore, journal: Journal, queue: QueueStore) -> None:
        self.store, self.journal, self.queue = store, journal, queue
        self.zone = FixedZone()
        self.index = TokenIndex()
        self.dispatch = WakeDispatch(store, queue)
        self.sessions = Sessions(store)
        self.runs = RecordingRuns(store)
        self.worker = WakeWorker(store, self.runs)
        self.alarms = Alarms(store, self.dispatch, sessions=self.sessions, zone=self.zone)
        self.orchestrator = WakeOrchestrator(
            store, journal, dispatch=self.dispatch, index=self.index
        )
        self.lifecycle = Lifecycle(
            store,
            dispatch=self.dispatch,
            index=self.index,
            sessions=self.sessions,
            zone=self.zone,
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
