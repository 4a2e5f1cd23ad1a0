"""Wakes: into the log of wakes first, then onto the bus, so that a crash in between loses none.

1. A run key that is known is not taken again, whatever has become of it.
2. A companion that was destroyed takes no wake.
3. While a wake for a change still waits, further changes for the same companion go along with it:
   their own run keys are kept, and end as it ends.
4. What has ended is never changed.
5. What is in the log and not on the bus, because a database failed, is kept and sent as soon as
   that works. Until then every further change would only go along with it, unheard.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from silas.companions.messages import WakeJob, WakeRun
from silas.companions.models import AgentLifecycle, Companion, WakeReason, WakeStatus
from silas.companions.store import CompanionStore
from silas.kernel import DatabaseError, TaintLevel
from silas.queue import Agent, MessageKind, QueueMessage, QueueStore, Urgency
from silas.queue.models import CompanionWake
from silas.storage import Reader, Transaction

_MAX_TOLD = 200
"""A run is told at most this many of the changes and records; it can look for others itself. Each
change has a line of its own, and a line that grew with every change would be ever slower to write.
"""
# One that goes along comes after the one that it goes along with, so this finds it at once.
_HOST = """
SELECT body FROM wake_run_log
WHERE agent_id = ? AND status = 'queued' AND json_extract(body, '$.absorbed_into') IS NULL
    AND json_extract(body, '$.job.reason') = 'subscription'
ORDER BY queued_at LIMIT 1
"""


class WakeRunLog:
    """Writes down what becomes of every wake."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    def enqueue_in(self, tx: Transaction, job: WakeJob) -> WakeJob | None:
        """Take a wake; returns the job that is to be sent, or None if none is."""
        store = self._store
        companion = store.get_in(tx, Companion, job.agent_id)
        if companion is None or companion.lifecycle is AgentLifecycle.DESTROYED:
            return None
        if store.get_in(tx, WakeRun, job.run_key) is not None:
            return None
        host = self._host_for(tx, job)
        store.put_in(
            tx,
            WakeRun(
                run_key=job.run_key,
                agent_id=job.agent_id,
                job=job,
                status=WakeStatus.QUEUED,
                queued_at=store.clock.now(),
                absorbed_into=host.run_key if host else None,
            ),
        )
        if host is None:
            return job
        store.put_in(tx, host.model_copy(update={"job": _together(host.job, job)}))
        return None

    def start_in(self, tx: Transaction, job: WakeJob) -> WakeRun | None:
        """Begin a wake; None if it has ended, or goes along with another."""
        known = self._store.get_in(tx, WakeRun, job.run_key)
        if known is not None and (known.status.is_terminal or known.absorbed_into is not None):
            return None
        now = self._store.clock.now()
        # A row that a power cut took back is written again: the message carries the whole job.
        run = known or WakeRun(
            run_key=job.run_key,
            agent_id=job.agent_id,
            job=job,
            status=WakeStatus.QUEUED,
            queued_at=now,
        )
        return self._store.put_in(
            tx,
            run.model_copy(
                update={
                    "status": WakeStatus.RUNNING,
                    "started_at": now,
                    "start_count": run.start_count + 1,
                }
            ),
        )

    def end_in(
        self,
        tx: Transaction,
        run_key: str,
        status: WakeStatus,
        *,
        reason: str | None = None,
        error_code: str | None = None,
        error_message: str | None = None,
    ) -> WakeRun:
        """Bring a wake to its end, together with those that went along."""
        run = self._store.require_in(tx, WakeRun, run_key)
        if run.status.is_terminal:
            return run
        changes: dict[str, Any] = {
            "status": status,
            "skip_reason": reason,
            "error_code": error_code,
            "error_message": error_message,
            "ended_at": self._store.clock.now(),
        }
        for along in self._along_with(tx, run):
            self._store.put_in(tx, along.model_copy(update=changes))
        return self._store.put_in(tx, run.model_copy(update=changes))

    def end_waiting_in(self, tx: Transaction, agent_id: str, status: WakeStatus) -> int:
        """Bring everything of a companion to its end that has not begun; returns how many."""
        waiting = self._store.find_in(
            tx, WakeRun, {"agent_id": agent_id, "status": WakeStatus.QUEUED}
        )
        for run in waiting:
            self.end_in(tx, run.run_key, status, reason=status)
        return len(waiting)

    async def unfinished(self) -> list[WakeRun]:
        """What a crash left behind: everything that is not at its end and has its own message."""
        found: list[WakeRun] = []
        for status in (WakeStatus.RUNNING, WakeStatus.QUEUED):
            found += await self._store.find(WakeRun, {"status": status})
        return [run for run in found if run.absorbed_into is None]

    async def get(self, run_key: str) -> WakeRun | None:
        """The line of a wake."""
        return await self._store.get(WakeRun, run_key)

    def _host_for(self, reader: Reader, job: WakeJob) -> WakeRun | None:
        if job.reason is not WakeReason.SUBSCRIPTION:
            return None
        row = reader.fetch_one(_HOST, (job.agent_id,))
        return WakeRun.model_validate_json(row[0]) if row else None

    def _along_with(self, reader: Reader, run: WakeRun) -> list[WakeRun]:
        waiting = self._store.find_in(
            reader, WakeRun, {"agent_id": run.agent_id, "status": WakeStatus.QUEUED}
        )
        return [each for each in waiting if each.absorbed_into == run.run_key]


def _together(host: WakeJob, more: WakeJob) -> WakeJob:
    """The waiting wake with the changes of another; its run key stays that of its first change."""
    keys = dict.fromkeys((*host.logical_change_keys, *more.logical_change_keys))
    entities = dict.fromkeys((*host.changed_entity_ids, *more.changed_entity_ids))
    return host.model_copy(
        update={
            "logical_change_keys": tuple(keys)[:_MAX_TOLD],
            "changed_entity_ids": tuple(entities)[:_MAX_TOLD],
            "source_cursor": more.source_cursor,
        }
    )


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
