"""What a companion remembers when it wakes, within bounds, however long its log is.

Hot are the newest messages of the thread, as they are. Warm are summaries of what came before them
and of other threads. Cold are summaries of summaries. Nothing is told twice.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic import Field

from silas.companions.models import AgentMessage, JsonMap
from silas.companions.store import CompanionStore
from silas.kernel import strict_loads
from silas.kernel.models import Data
from silas.storage import Reader, Row

_BOTH = """
SELECT m.body, p.body FROM agent_messages AS m
LEFT JOIN agent_message_payloads AS p ON p.id = m.content_entry_id AND p.deleted_at IS NULL
"""
_HOT = f"""{_BOTH}
WHERE m.agent_id = ? AND m.thread_id = ? AND m.summary_depth = 0 AND m.deleted_at IS NULL
ORDER BY m.sequence DESC LIMIT ?
"""
_COLD = f"""{_BOTH}
WHERE m.agent_id = ? AND m.summary_depth = 2 AND m.deleted_at IS NULL
ORDER BY m.sequence DESC LIMIT ?
"""
# Without those of this thread that only cover what is hot anyway.
_WARM = f"""{_BOTH}
WHERE m.agent_id = ? AND m.summary_depth = 1 AND m.sequence > ? AND m.deleted_at IS NULL
    AND NOT (m.thread_id = ? AND m.sequence >= ?)
ORDER BY m.sequence DESC LIMIT ?
"""
_NOTHING_IS_HOT = 2**53


class MemoryLimits(Data):
    """How much a companion may remember at once."""

    hot_messages: int = Field(default=30, ge=1)
    hot_tokens: int = Field(default=6_000, ge=1)
    warm_summaries: int = Field(default=8, ge=0)
    warm_tokens: int = Field(default=3_000, ge=0)
    cold_summaries: int = Field(default=2, ge=0)
    cold_tokens: int = Field(default=1_500, ge=0)


@dataclass(frozen=True)
class Remembered:
    """A message with what it says."""

    message: AgentMessage
    content: JsonMap | None


@dataclass(frozen=True)
class AssembledMemory:
    """What fits, each part oldest first."""

    hot: tuple[Remembered, ...]
    warm: tuple[Remembered, ...]
    cold: tuple[Remembered, ...]
    tokens: int


class MemoryAssembler:
    """Puts together what a run is told of the past."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    async def assemble(
        self, agent_id: str, thread_id: str, *, limits: MemoryLimits | None = None
    ) -> AssembledMemory:
        """What this companion remembers in this thread."""
        bounds = limits or MemoryLimits()
        return await self._store.database.snapshot(
            lambda reader: assemble_in(reader, agent_id, thread_id, limits=bounds)
        )


def assemble_in(
    reader: Reader, agent_id: str, thread_id: str, *, limits: MemoryLimits
) -> AssembledMemory:
    """The same on a view of the database. Each part is one bounded look into an index."""
    hot = _fitting(reader.rows(_HOT, (agent_id, thread_id, limits.hot_messages)), limits.hot_tokens)
    cold = _fitting(reader.rows(_COLD, (agent_id, limits.cold_summaries)), limits.cold_tokens)
    # A cold summary stands where its span ends: whatever is older was taken up by one.
    taken_up = cold[-1].message.sequence if cold else -1
    oldest_hot = hot[0].message.sequence if hot else _NOTHING_IS_HOT
    warm = _fitting(
        reader.rows(_WARM, (agent_id, taken_up, thread_id, oldest_hot, limits.warm_summaries)),
        limits.warm_tokens,
    )
    tokens = sum(each.message.tokens_approx for each in (*hot, *warm, *cold))
    return AssembledMemory(hot=hot, warm=warm, cold=cold, tokens=tokens)


def read_remembered(rows: Iterable[Row]) -> list[Remembered]:
    """Messages with their contents, from rows that have the bodies of both."""
    return [_remembered(row) for row in rows]


def _fitting(newest_first: Iterator[Row], tokens: int) -> tuple[Remembered, ...]:
    """The newest that fit, oldest first. What does not fit is not even read."""
    kept: list[Remembered] = []
    for each in map(_remembered, newest_first):
        tokens -= each.message.tokens_approx
        if tokens < 0:
            break
        kept.append(each)
    return tuple(kept[::-1])


def _remembered(row: Row) -> Remembered:
    message, payload = row
    content = strict_loads(payload)["content"] if payload else None
    return Remembered(AgentMessage.model_validate_json(message), content)
