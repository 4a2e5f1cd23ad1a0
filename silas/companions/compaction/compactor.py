"""Carrying out compaction: jobs in the database, one after the other, each until it ends.

1. A job is done by a model if there is one and the span is worth it, else by rules. When the model
   has failed often enough, or the policy does not let it be asked, rules take over.
2. The summary, its edges, the pointer of the state and the end of the job are one transaction.
3. A summary has the id of its span and its contract. If it exists already with another content,
   the first stays, and the difference is written down.
4. A failure changes nothing but the job: it is tried again later, and not for ever.
"""

import asyncio
import logging
from datetime import datetime, timedelta
from typing import Any

from silas.companions.compaction.jobs import CompactionPolicy, plan_in
from silas.companions.compaction.ports import Summariser, SummaryRequest
from silas.companions.compaction.rules import CONTRACT_VERSION, summarise_by_rules
from silas.companions.compaction.spans import read_span, write_summary_in
from silas.companions.errors import AgentDestroyed, tool_code
from silas.companions.models import CompactionJob, CompactionStatus, JsonMap
from silas.companions.store import CompanionStore
from silas.kernel import (
    CompanionError,
    DatabaseError,
    SilasError,
    format_timestamp,
    parse_timestamp,
)
from silas.storage import Transaction

_READY = """
SELECT body FROM agent_compaction_jobs
WHERE status = 'pending' AND next_attempt_at <= ? ORDER BY created_at, id LIMIT 1
"""
_NEXT = "SELECT min(next_attempt_at) FROM agent_compaction_jobs WHERE status = 'pending'"
_CALM_DOWN = 1.0
_log = logging.getLogger(__name__)


class Compactor:
    """Turns spans into summaries."""

    def __init__(
        self,
        store: CompanionStore,
        *,
        summariser: Summariser | None = None,
        policy: CompactionPolicy | None = None,
    ) -> None:
        self._store = store
        self._summariser = summariser
        self._policy = policy or CompactionPolicy()
        self._wanted = asyncio.Event()
        self._turn = asyncio.Lock()

    async def consider(self, agent_id: str, thread_id: str, *, ended: bool) -> list[CompactionJob]:
        """Write down what is due for this thread; somebody else does it."""
        jobs = await self._store.transaction(
            lambda tx: plan_in(
                tx,
                self._store,
                agent_id=agent_id,
                thread_id=thread_id,
                ended=ended,
                policy=self._policy,
            )
        )
        if jobs:
            self._wanted.set()
        return jobs

    async def recover(self) -> int:
        """Put back what a crash left in the middle; returns how many that were."""
        left = await self._store.find(CompactionJob, {"status": CompactionStatus.RUNNING})
        for job in left:
            await self._update(job, status=CompactionStatus.PENDING)
        return len(left)

    async def retry(self, job_id: str) -> CompactionJob:
        """Try a job that was given up once more from the beginning."""
        job = await self._store.require(CompactionJob, job_id)
        again = await self._update(
            job,
            status=CompactionStatus.PENDING,
            attempt_count=0,
            next_attempt_at=self._store.clock.now(),
        )
        self._wanted.set()
        return again

    async def run(self) -> None:
        """Go on until cancelled; sleeps until there is something to do."""
        while True:
            self._wanted.clear()
            try:
                await self.recover()  # also what a database that failed left in the middle
                nearest = await self.work()
            except DatabaseError as error:
                _log.warning("compaction waits: %s [%s]", error.message, error.code)
                nearest = self._store.clock.now() + timedelta(seconds=_CALM_DOWN)
            except Exception:  # noqa: BLE001 - a bad moment must not be the end of compaction
                _log.exception("compaction had to stop for a moment")
                nearest = self._store.clock.now() + timedelta(seconds=_CALM_DOWN)
            await self._until(nearest)

    async def work(self) -> datetime | None:
        """Do everything that is ready; returns when the next job is, or None."""
        async with self._turn:
            while job := await self._ready():
                await self._attempt(job)
        row = await self._store.database.fetch_one(_NEXT)
        return parse_timestamp(row[0]) if row and row[0] else None

    async def _until(self, nearest: datetime | None) -> None:
        wait = None
        if nearest is not None:
            wait = max(0.0, (nearest - self._store.clock.now()).total_seconds())
        try:
            async with asyncio.timeout(wait):
                await self._wanted.wait()
        except TimeoutError:
            return

    async def _ready(self) -> CompactionJob | None:
        now = format_timestamp(self._store.clock.now())
        row = await self._store.database.fetch_one(_READY, (now,))
        return CompactionJob.model_validate_json(row[0]) if row else None

    async def _attempt(self, job: CompactionJob) -> None:
        job = await self._update(
            job, status=CompactionStatus.RUNNING, attempt_count=job.attempt_count + 1
        )
        try:
            entries = await self._store.database.snapshot(lambda reader: read_span(reader, job))
            request = SummaryRequest(job.agent_id, job.thread_id, job.depth, entries)
            content, contract = await self._summary(job, request)
            await self._store.transaction(
                lambda tx: self._finish_in(tx, job, request, content, contract)
            )
        except AgentDestroyed as error:
            await self._give_up(job, error)
        except Exception as error:  # noqa: BLE001 - raw messages stay the truth, whatever it was
            await self._failed(job, error)

    async def _summary(self, job: CompactionJob, request: SummaryRequest) -> tuple[JsonMap, str]:
        tokens = sum(each.message.tokens_approx for each in request.entries)
        worth_it = tokens >= self._policy.rules_below_tokens
        patient = job.attempt_count <= self._policy.model_attempts
        if self._summariser is not None and worth_it and patient:
            try:
                content = await self._summariser.summarise(request)
            except CompanionError as error:
                # The policy says no, and will say so again: nobody needs to wait for that.
                _log.info("compaction by rules: %s [%s]", error.message, error.code)
            else:
                return content, self._summariser.contract_version
        return summarise_by_rules(request), CONTRACT_VERSION

    def _finish_in(
        self,
        tx: Transaction,
        job: CompactionJob,
        request: SummaryRequest,
        content: JsonMap,
        contract: str,
    ) -> None:
        # What was forgotten meanwhile does not come back as a summary.
        read_span(tx, job)
        write_summary_in(tx, self._store, request, content=content, contract_version=contract)
        now = self._store.clock.now()
        done = {"status": CompactionStatus.DONE, "last_error": None, "updated_at": now}
        self._store.put_in(tx, job.model_copy(update=done))
        # The thread may be long, and there may be summaries enough for a summary of them.
        plan_in(
            tx,
            self._store,
            agent_id=job.agent_id,
            thread_id=job.thread_id,
            ended=False,
            policy=self._policy,
        )

    async def _failed(self, job: CompactionJob, error: Exception) -> None:
        if job.attempt_count >= self._policy.max_attempts:
            await self._give_up(job, error)
            return
        policy = self._policy
        delay = min(
            policy.first_delay_seconds * 2 ** (job.attempt_count - 1),
            policy.longest_delay_seconds,
        )
        await self._update(
            job,
            status=CompactionStatus.PENDING,
            next_attempt_at=self._store.clock.now() + timedelta(seconds=delay),
            last_error=_said(error),
        )

    async def _give_up(self, job: CompactionJob, error: Exception) -> None:
        _log.warning("compaction of %s was given up: %s", job.thread_id, error)
        await self._update(job, status=CompactionStatus.FAILED_TERMINAL, last_error=_said(error))

    async def _update(self, job: CompactionJob, **changes: Any) -> CompactionJob:
        changes["updated_at"] = self._store.clock.now()
        return await self._store.put(job.model_copy(update=changes))


def _said(error: Exception) -> str:
    code = tool_code(error) if isinstance(error, SilasError) else type(error).__name__
    return f"{code}: {error}"
