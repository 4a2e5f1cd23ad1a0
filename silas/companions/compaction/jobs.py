"""Which span of a log is due to be compacted.

A thread that has ended becomes one summary whole. One that goes on keeps its newest messages. When
there are many summaries, the oldest of them become one. A thread has one open job at a time.
"""

from pydantic import Field

from silas.companions.ids import compaction_job_id
from silas.companions.models import CompactionJob, CompactionStatus
from silas.companions.store import CompanionStore
from silas.kernel.models import Data
from silas.storage import Reader, Transaction

_COVERED_IN_THREAD = """
SELECT max(sequence) FROM agent_messages
WHERE agent_id = ? AND thread_id = ? AND summary_depth = 1 AND deleted_at IS NULL
"""
_RAW = """
SELECT id FROM agent_messages
WHERE agent_id = ? AND thread_id = ? AND summary_depth = 0 AND sequence > ? AND deleted_at IS NULL
ORDER BY sequence LIMIT ?
"""
_COVERED = """
SELECT max(sequence) FROM agent_messages
WHERE agent_id = ? AND summary_depth = 2 AND deleted_at IS NULL
"""
_SUMMARIES = """
SELECT id FROM agent_messages
WHERE agent_id = ? AND summary_depth = 1 AND sequence > ? AND deleted_at IS NULL
ORDER BY sequence, id LIMIT ?
"""


class CompactionPolicy(Data):
    """When something is compacted, by whom, and how often it is tried."""

    trigger_messages: int = Field(default=40, ge=2)
    keep_messages: int = Field(default=20, ge=1)
    trigger_summaries: int = Field(default=16, ge=2)
    keep_summaries: int = Field(default=8, ge=1)
    longest_span: int = Field(default=200, ge=2)
    rules_below_tokens: int = Field(default=1_500, ge=0)
    """A short span is summarised by rules: a model would cost more than it saves."""
    model_attempts: int = Field(default=2, ge=0)
    max_attempts: int = Field(default=5, ge=1)
    first_delay_seconds: float = Field(default=30, gt=0)
    longest_delay_seconds: float = Field(default=3600, gt=0)


def summaries_thread(agent_id: str) -> str:
    """Where summaries of summaries are kept."""
    return f"{agent_id}:summaries"


def plan_in(
    tx: Transaction,
    store: CompanionStore,
    *,
    agent_id: str,
    thread_id: str,
    ended: bool,
    policy: CompactionPolicy,
) -> list[CompactionJob]:
    """Write down the jobs that are due for this thread and for the summaries of its companion."""
    raw = _raw_span(tx, agent_id, thread_id, ended=ended, policy=policy)
    summaries = _summaries_span(tx, agent_id, policy)
    wanted = [(thread_id, raw, 1), (summaries_thread(agent_id), summaries, 2)]
    return [
        store.put_in(tx, _job(store, agent_id, thread, span, depth))
        for thread, span, depth in wanted
        if span and not _has_open_job(tx, store, agent_id, thread)
    ]


def _raw_span(
    tx: Reader, agent_id: str, thread_id: str, *, ended: bool, policy: CompactionPolicy
) -> list[str]:
    covered = _number(tx, _COVERED_IN_THREAD, (agent_id, thread_id))
    rows = tx.fetch_all(_RAW, (agent_id, thread_id, covered, policy.longest_span))
    found = [row[0] for row in rows]
    if ended:
        return found
    return found[: -policy.keep_messages] if len(found) > policy.trigger_messages else []


def _summaries_span(tx: Reader, agent_id: str, policy: CompactionPolicy) -> list[str]:
    covered = _number(tx, _COVERED, (agent_id,))
    rows = tx.fetch_all(_SUMMARIES, (agent_id, covered, policy.longest_span))
    found = [row[0] for row in rows]
    return found[: -policy.keep_summaries] if len(found) > policy.trigger_summaries else []


def _number(tx: Reader, sql: str, params: tuple[str, ...]) -> int:
    row = tx.fetch_one(sql, params)
    return int(row[0]) if row and row[0] is not None else -1


def _has_open_job(tx: Reader, store: CompanionStore, agent_id: str, thread_id: str) -> bool:
    here = {"agent_id": agent_id, "thread_id": thread_id}
    return any(
        store.find_in(tx, CompactionJob, {**here, "status": status}, limit=1)
        for status in (CompactionStatus.PENDING, CompactionStatus.RUNNING)
    )


def _job(
    store: CompanionStore, agent_id: str, thread_id: str, span: list[str], depth: int
) -> CompactionJob:
    now = store.clock.now()
    start, end = span[0], span[-1]
    return CompactionJob(
        id=compaction_job_id(agent_id, thread_id, start=start, end=end, depth=depth),
        agent_id=agent_id,
        thread_id=thread_id,
        start_message_id=start,
        end_message_id=end,
        depth=depth,
        next_attempt_at=now,
        created_at=now,
        updated_at=now,
    )
