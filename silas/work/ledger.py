"""The tool ledger: every call of an attempt, in order, and what it really gave.

A call is written down before it is made and completed afterwards, so that after a crash nobody can
say that it was not made. Artifacts come from here, never from what an agent says about itself.
What a call printed is kept as the sandbox captured it (bounded, both ends of it), without secrets.

`CallUndos` keeps beside each call in an account of the owner's what takes it back. Its rows are
sealed: whoever can write the file can neither invent an undo nor turn one against something else.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any

from silas.approval import ApprovalEngine, ApprovalToken
from silas.approval.keys import Seal, Seals
from silas.audit.models import OwnerKey
from silas.kernel import Clock, canonical_bytes, format_timestamp, parse_timestamp, strict_loads
from silas.kernel.models import Data, UtcDatetime
from silas.kernel.redaction import redact_text
from silas.storage import Database, Durability, Row, Transaction
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


_SAME = "SELECT result FROM work_ledger WHERE work_item_id = ? AND tool = ? AND args = ?"


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

    async def was_lost(self, work_item_id: str, *, tool: str, args: Mapping[str, Any]) -> bool:
        """Whether exactly this call was made in any attempt, and nobody knows how it ended."""
        written = canonical_bytes(dict(args)).decode()
        rows = await self._database.fetch_all(_SAME, (work_item_id, tool, written))
        return any(
            result is None or ExecutionResult.model_validate_json(result).was_lost
            for (result,) in rows
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


_SEALED_UNDO = "call_undo"
_UNDO_COLUMNS = (
    "work_item_id, attempt, seq, title, tool, args, account, inverse, undo_args, permissions, "
    "approved_by, state, told, begun_at, until, token"
)
_WRITE_UNDO = f"""
INSERT INTO call_undos ({_UNDO_COLUMNS}, seal_key_id, seal)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (work_item_id, attempt, seq) DO UPDATE SET
    undo_args = excluded.undo_args, state = excluded.state, told = excluded.told,
    until = excluded.until, token = excluded.token,
    seal_key_id = excluded.seal_key_id, seal = excluded.seal
WHERE call_undos.state = 'begun'
"""  # noqa: S608 - names of columns
_UNDOS = f"""
SELECT {_UNDO_COLUMNS}, seal_key_id, seal FROM call_undos WHERE work_item_id = ?
ORDER BY attempt, seq
"""  # noqa: S608 - names of columns
_MOVE_UNDO = """
UPDATE call_undos SET state = ?, told = ?
WHERE work_item_id = ? AND attempt = ? AND seq = ? AND state = ?
"""
_UNDOS_OF_APPROVAL = "SELECT token FROM call_undos WHERE approved_by = ? AND token IS NOT NULL"


class UndoState(StrEnum):
    """How it stands with a call, and with taking it back."""

    BEGUN = "begun"
    """It is going on; after a crash, nobody knows whether it was made."""
    DONE = "done"
    """It was made, and it is known what it has left."""
    NOTHING = "nothing"
    """It has changed nothing, so that there is nothing to take back."""
    UNKNOWN = "unknown"
    """Nobody knows what it has done."""
    UNDOING = "undoing"
    """It is being taken back; after a crash, nobody knows whether it was."""
    UNDONE = "undone"
    LEFT = "left"
    """It was to be taken back and was not; `told` says why."""
    UNPROVEN = "unproven"
    """The row is not as Silas wrote it; never written."""


class CallUndo(Data):
    """One call in an account, and the call that takes it back."""

    work_item_id: str
    attempt: int
    seq: int
    title: str
    """What the work is called."""
    tool: str
    args: dict[str, Any]
    account: str
    """The id of the connection that it was made with, and is taken back with."""
    inverse: str | None = None
    """The tool that takes it back; None: nothing does."""
    undo_args: dict[str, Any] | None = None
    """What that tool is called with, for what the call has really changed."""
    permissions: list[str]
    """What the owner granted the account for this one call."""
    approved_by: str
    """The token of the work: taking that back ends this, too."""
    state: UndoState = UndoState.BEGUN
    told: str = ""
    """What became of it, in words; may hold a stranger's."""
    begun_at: UtcDatetime
    until: UtcDatetime | None = None
    """Until when it is taken back with one tap."""
    token: ApprovalToken | None = None

    def sealed_fields(self) -> dict[str, object]:
        """All but how it stands: the token's one use decides about that."""
        fields = self.model_dump(mode="json", exclude={"state", "told", "token"})
        return {**fields, "token": self.token.token_id if self.token else None}


@dataclass(frozen=True)
class CallUndos:
    """What takes back the calls that work has made in accounts of the owner's."""

    database: Database
    clock: Clock
    keys: OwnerKey
    window: timedelta
    """For how long a call is taken back with one tap; afterwards it takes a plan."""

    @cached_property
    def _seals(self) -> Seals:
        return Seals(self.keys)

    async def write(
        self, undo: CallUndo, also: Callable[[Transaction], None] | None = None
    ) -> None:
        """Write it down before the call, and complete it once afterwards; `also` goes with it.

        Raises `WorkItemConflict` if it was completed before.
        """
        seal = await asyncio.to_thread(self._seals.sign, _SEALED_UNDO, undo.sealed_fields())

        def write(tx: Transaction) -> None:
            if not tx.execute(_WRITE_UNDO, (*_undo_row(undo), seal.key_id, seal.signature)):
                raise WorkItemConflict(
                    f"What takes back call {undo.seq} of {undo.work_item_id} is known already."
                )
            if also is not None:
                also(tx)

        await self.database.transaction(write, durability=Durability.TRUST)

    async def of(self, work_item_id: str) -> list[CallUndo]:
        """The calls of a work item, in their order; a row that nobody has sealed says so."""
        rows = await self.database.fetch_all(_UNDOS, (work_item_id,))
        return [self._proven(row) for row in rows]

    async def move(self, undo: CallUndo, state: UndoState, told: str = "") -> bool:
        """Say how it stands now; False if somebody else has done so meanwhile."""
        known = (undo.work_item_id, undo.attempt, undo.seq, undo.state.value)
        changed = await self.database.transaction(
            lambda tx: tx.execute(_MOVE_UNDO, (state.value, told, *known)),
            durability=Durability.TRUST,
        )
        return bool(changed)

    def _proven(self, row: Row) -> CallUndo:
        *columns, key_id, signature = row
        undo, now = _undo(columns), self.clock.now()
        held = self._seals.holds(
            Seal(key_id, signature), _SEALED_UNDO, undo.sealed_fields(), at=now
        )
        unproven = {"state": UndoState.UNPROVEN, "undo_args": None, "until": None, "token": None}
        return undo if held else undo.model_copy(update=unproven)


def revoke_undos(tx: Transaction, approved_by: str, *, approvals: ApprovalEngine) -> None:
    """Whoever takes back the approval of work takes back the tokens that would undo it."""
    for (token,) in tx.fetch_all(_UNDOS_OF_APPROVAL, (approved_by,)):
        approvals.revoke_in(tx, ApprovalToken.model_validate_json(token))


def _undo_row(undo: CallUndo) -> tuple[Any, ...]:
    args = None if undo.undo_args is None else canonical_bytes(undo.undo_args).decode()
    return (
        *(undo.work_item_id, undo.attempt, undo.seq, undo.title, undo.tool),
        *(canonical_bytes(undo.args).decode(), undo.account, undo.inverse, args),
        *(canonical_bytes(undo.permissions).decode(), undo.approved_by),
        *(undo.state.value, undo.told, format_timestamp(undo.begun_at)),
        format_timestamp(undo.until) if undo.until else None,
        undo.token.model_dump_json() if undo.token else None,
    )


def _undo(columns: list[Any]) -> CallUndo:
    named = dict(zip(_UNDO_COLUMNS.split(", "), columns, strict=True))
    for each in ("args", "undo_args", "permissions"):
        named[each] = None if named[each] is None else strict_loads(named[each])
    token = named["token"]
    named["token"] = ApprovalToken.model_validate_json(token) if token else None
    return CallUndo.model_validate(
        {
            **named,
            "begun_at": parse_timestamp(named["begun_at"]),
            "until": parse_timestamp(named["until"]) if named["until"] else None,
            "state": UndoState(named["state"]),
        }
    )
