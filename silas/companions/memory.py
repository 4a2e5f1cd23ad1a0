"""What a companion remembers when it wakes, within bounds, however long its log is.

Hot are the newest messages of the thread, as they are. Warm are summaries of what came before them
and of other threads. Cold are summaries of summaries. Nothing is told twice.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import Field

from silas.companions.models import AgentMessage, JsonMap
from silas.companions.store import CompanionStore
from silas.kernel import strict_loads
from silas.kernel.models import Data
from silas.storage import Reader, Row

_HOT = """
SELECT m.body, p.body FROM agent_messages AS m
LEFT JOIN agent_message_payloads AS p ON p.id = m.content_entry_id AND p.deleted_at IS NULL
WHERE m.agent_id = ? AND m.thread_id = ? AND m.summary_depth = 0 AND m.deleted_at IS NULL
ORDER BY m.sequence DESC LIMIT ?
"""
_SUMMARIES = """
SELECT m.body, p.body FROM agent_messages AS m
LEFT JOIN agent_message_payloads AS p ON p.id = m.content_entry_id AND p.deleted_at IS NULL
WHERE m.agent_id = ? AND m.summary_depth = ? AND m.sequence > ? AND m.deleted_at IS NULL
ORDER BY m.sequence DESC LIMIT ?
"""
_COLD_DEPTH = 2


class MemoryLimits(Data):
    """How much a companion may remember at once."""

    hot_messages: int = Field(default=30, ge=1)
    hot_tokens: int = Field(default=6_000, ge=1)
    warm_summaries: int = Field(default=12, ge=0)
    warm_tokens: int = Field(default=3_000, ge=0)
    cold_summaries: int = Field(default=4, ge=0)
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
    hot = _fitting(
        read_remembered(reader.fetch_all(_HOT, (agent_id, thread_id, limits.hot_messages))),
        limits.hot_tokens,
    )
    cold = _fitting(
        read_remembered(
            reader.fetch_all(_SUMMARIES, (agent_id, _COLD_DEPTH, -1, limits.cold_summaries))
        ),
        limits.cold_tokens,
    )
    # A cold summary stands where its span ends: whatever is older was taken up by one.
    taken_up = cold[-1].message.sequence if cold else -1
    oldest_hot = hot[0].message.sequence if hot else None
    # Those of this thread that only cover what is hot anyway make room for others.
    wanted = limits.warm_summaries + limits.hot_messages
    summaries = read_remembered(reader.fetch_all(_SUMMARIES, (agent_id, 1, taken_up, wanted)))
    before = [each for each in summaries if not _is_hot(each.message, thread_id, oldest_hot)]
    warm = _fitting(before[: limits.warm_summaries], limits.warm_tokens)
    tokens = sum(each.message.tokens_approx for each in (*hot, *warm, *cold))
    return AssembledMemory(hot=hot, warm=warm, cold=cold, tokens=tokens)


def _is_hot(summary: AgentMessage, thread_id: str, oldest_hot: int | None) -> bool:
    here = summary.thread_id == thread_id and oldest_hot is not None
    return here and summary.sequence >= (oldest_hot or 0)


def read_remembered(rows: Iterable[Row]) -> list[Remembered]:
    """Messages with their contents, from rows that have the bodies of both."""
    return [
        Remembered(
            AgentMessage.model_validate_json(message),
            strict_loads(payload)["content"] if payload else None,
        )
        for message, payload in rows
    ]


def _fitting(newest_first: list[Remembered], tokens: int) -> tuple[Remembered, ...]:
    """The newest that fit, oldest first."""
    kept: list[Remembered] = []
    for each in newest_first:
        tokens -= each.message.tokens_approx
        if tokens < 0:
            break
        kept.append(each)
    return tuple(kept[::-1])
