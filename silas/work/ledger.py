"""The tool ledger: every call of an attempt, in order, and what it really gave.

A call is written down before it is made and completed afterwards, so that after a crash nobody can
say that it was not made. Artifacts come from here, never from what an agent says about itself.
What a call printed is kept as the sandbox captured it (bounded, both ends of it), without secrets.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from silas.kernel import Clock, canonical_bytes, format_timestamp, parse_timestamp, strict_loads
from silas.kernel.models import Data, UtcDatetime
from silas.kernel.redaction import redact_text
from silas.storage import Database, Row, Transaction
from silas.tools.execution import ExecutionResult
from silas.work.attempt_store import open_attempt
from silas.work.errors import WorkItemConflict

_INSERT = """
INSERT INTO work_ledger (work_item_id, attempt, seq, tool, args, started_at)
VALUES (?, ?, ?, ?, ?, ?)
"""
_NEXT = """
SELECT COALESCE(MAX(seq), 0) + 1 FROM work_ledger WHERE work_item_id = ? AND attempt = ?
"""
_FINISH = """
UPDATE work_ledger SET result = ?, ended_at = ?
WHERE work_item_id = ? AND attempt = ? AND seq = ? AND result IS NULL
"""
_LIST = """
SELECT seq, tool, args, started_at, ended_at, result FROM work_ledger
WHERE work_item_id = ? AND attempt = ? ORDER BY seq
"""
_ARGUMENTS = """
SELECT tool, args FROM work_ledger WHERE work_item_id = ? AND attempt = ?
    AND tool IN ('read_file', 'write_file', 'edit_file') ORDER BY seq DESC LIMIT ?
"""


class LedgerEntry(Data):
    """One tool call. Without a result it was begun, and nobody knows how it ended."""

    seq: int
    tool: str
    args: dict[str, Any]
    started_at: UtcDatetime
    ended_at: UtcDatetime | None = None
    result: ExecutionResult | None = None


class ToolLedger:
    """What the attempts at all work items did."""

    def __init__(
        self, database: Database, clock: Clock, *, redact: Callable[[str], str] = redact_text
    ) -> None:
        """`redact` takes secrets out of what calls print, before it is written down."""
        self._database = database
        self._clock = clock
        self._redact = redact

    async def begin(
        self, work_item_id: str, attempt: int, *, tool: str, args: Mapping[str, Any]
    ) -> int:
        """Write down that a call is about to be made; returns its number in this attempt."""
        now = format_timestamp(self._clock.now())
        written = canonical_bytes(dict(args)).decode()

        def insert(tx: Transaction) -> int:
            current = open_attempt(tx, work_item_id)
            if current is None or current.attempt != attempt:
                raise WorkItemConflict(
                    f"Attempt {attempt} of the work item {work_item_id} is not open, so it cannot "
                    "call a tool."
                )
            row = tx.fetch_one(_NEXT, (work_item_id, attempt))
            seq: int = row[0] if row else 1
            tx.execute(_INSERT, (work_item_id, attempt, seq, tool, written, now))
            return seq

        return await self._database.transaction(insert)

    async def finish(
        self, work_item_id: str, attempt: int, *, seq: int, result: ExecutionResult
    ) -> None:
        """Write down what a call gave; that can be said only once."""
        now = format_timestamp(self._clock.now())
        printed = {"return_value": self._redact(result.return_value)}
        if result.error is not None:
            printed["error"] = self._redact(result.error)
        result = result.model_copy(update=printed)
        written = await self._database.execute(
            _FINISH, (result.model_dump_json(), now, work_item_id, attempt, seq)
        )
        if not written:
            raise WorkItemConflict(
                f"Call {seq} of attempt {attempt} of the work item {work_item_id} is not open."
            )

    async def entries(self, work_item_id: str, attempt: int) -> list[LedgerEntry]:
        """The calls of one attempt, in order."""
        return [
            _entry(row) for row in await self._database.fetch_all(_LIST, (work_item_id, attempt))
        ]

    async def file_calls(
        self, work_item_id: str, attempt: int, *, most: int
    ) -> list[tuple[str, dict[str, Any]]]:
        """The tools and arguments of calls that read or wrote one file, the newest first."""
        rows = await self._database.fetch_all(_ARGUMENTS, (work_item_id, attempt, most))
        return [(tool, strict_loads(args)) for tool, args in rows]


def collect_artifacts(entries: Iterable[LedgerEntry]) -> dict[str, str]:
    """The artifacts of the calls that succeeded; of two with one name the later call's counts."""
    collected: dict[str, str] = {}
    for entry in sorted(entries, key=lambda each: each.seq):
        if entry.result is not None and entry.result.success:
            collected |= entry.result.artifacts
    return collected


def _entry(row: Row) -> LedgerEntry:
    seq, tool, args, started_at, ended_at, result = row
    return LedgerEntry(
        seq=seq,
        tool=tool,
        args=strict_loads(args),
        started_at=parse_timestamp(started_at),
        ended_at=parse_timestamp(ended_at) if ended_at else None,
        result=ExecutionResult.model_validate_json(result) if result else None,
    )
