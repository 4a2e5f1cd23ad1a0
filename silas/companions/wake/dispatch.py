"""Putting wakes on the bus. The log of wakes is written first, so a crash in between loses none.

Nor does a database that fails in between: what is in the log and not on the bus is kept, and sent
as soon as that works. Until then every further change would only go along with it, unheard.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from silas.companions.models import WakeJob, WakeReason
from silas.companions.store import CompanionStore
from silas.companions.wake.runlog import WakeRunLog
from silas.kernel import DatabaseError, TaintLevel
from silas.queue import Agent, MessageKind, QueueMessage, QueueStore, Urgency
from silas.queue.models import CompanionWake
from silas.storage import Transaction

_ASKED_BY_THE_OWNER = (WakeReason.USER_INITIATED, WakeReason.MANUAL)


class WakeDispatch:
    """Takes wakes: into the log of wakes, then onto the bus."""

    def __init__(self, store: CompanionStore, queue: QueueStore) -> None:
        self._store = store
        self._queue = queue
        self._unsent: dict[str, QueueMessage] = {}
        self.log = WakeRunLog(store)
        self.behind = asyncio.Event()
        """Set while something waits for a database to work again."""

    async def enqueue(
        self, jobs: Sequence[WakeJob], *, also: Callable[[Transaction], None] | None = None
    ) -> list[WakeJob]:
        """Take these wakes, in one transaction with `also`; returns those that were new."""

        def take(tx: Transaction) -> list[WakeJob]:
            if also is not None:
                also(tx)
            taken = (self.log.enqueue_in(tx, job) for job in jobs)
            return [job for job in taken if job is not None]

        fresh = await self._store.transaction(take)
        await self.send(fresh)
        return fresh

    async def send(self, jobs: Iterable[WakeJob], *, again: str = "") -> None:
        """Put wakes that are in the log onto the bus."""
        messages = [self._message(job, again) for job in jobs]
        self._unsent |= {message.message_id: message for message in messages}
        await self.send_rest()

    async def send_rest(self) -> None:
        """Put onto the bus what could not be before."""
        try:
            for name, message in list(self._unsent.items()):
                await self._queue.enqueue(message)
                self._unsent.pop(name, None)
        except DatabaseError:
            self.behind.set()
            raise

    async def recover(self) -> int:
        """Send whatever a crash has left unfinished; returns how many that were.

        Some may be on the bus already: whoever comes second finds that nothing is left to do.
        """
        unfinished = await self.log.unfinished()
        await self.send((run.job for run in unfinished), again=self._store.ids.new("again"))
        return len(unfinished)

    def _message(self, job: WakeJob, again: str) -> QueueMessage:
        return QueueMessage(
            message_id=f"wake_{job.run_key}{again and '_'}{again}",
            trace_id=job.run_key,
            content="",
            sender=Agent.RUNTIME,
            message_kind=MessageKind.COMPANION_WAKE,
            scope_id=job.agent_id,
            # What a companion acts on is decided by its scope; what is quoted in a wake may come
            # from anywhere.
            taint=TaintLevel.EXTERNAL,
            created_at=self._store.clock.now(),
            payload=CompanionWake(
                run_key=job.run_key, agent_id=job.agent_id, job=job.model_dump(mode="json")
            ),
            urgency=(
                Urgency.NEEDS_ATTENTION if job.reason in _ASKED_BY_THE_OWNER else Urgency.BACKGROUND
            ),
        )
