"""Attempts: who is working on an item right now, and how each try ended.

1. Starting an attempt makes the item `running`, counts it and claims it, in one step. Of any number
   of runners exactly one succeeds; the database itself refuses a second open attempt.
2. Finishing closes the attempt and sets the item's status, in one step. If the owner has paused or
   cancelled the item in the meantime, only the attempt is closed and the owner's word stands.
3. After a crash, open attempts are closed as `interrupted`, and what was running, also between two
   attempts, waits for a fresh one. Half an attempt is never continued.
4. An attempt whose run waits for the owner stays open, with the runner `waiting` (`paused.py`).
   Nobody works on it, so no crash interrupts it.
5. With the item, its approval is done: a row that is set back later does not make it new. That a
   task was begun under an approval, and that it was done, is also said in the audit log, in the
   same step: rows can be put back, but not what the owner's key has vouched for.

A runner's name lets another process ask whether it is still alive. It holds the host, its boot, the
process and the moment when that process started, so that a process that later got the same number
is not mistaken for it.
"""

import contextlib
import os
import socket
from collections.abc import Callable, Collection
from enum import StrEnum
from pathlib import Path

from silas.approval.store import BEGUN, DONE, complete_token, done_entry
from silas.audit.models import AuditTrail
from silas.kernel import Clock, SilasError, format_timestamp, parse_timestamp
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Database, DatabaseConstraint, Durability, Reader, Row, Transaction
from silas.work.errors import WorkItemConflict
from silas.work.models import (
    ENDED_WELL,
    BudgetUsed,
    VerificationResult,
    WorkItem,
    WorkItemStatus,
    WorkItemType,
)
from silas.work.store import load_item, move_item, save_item

WAITING = "waiting"
"""The runner of an attempt that waits for the owner; no process is called so."""

_WAITS = frozenset({WorkItemStatus.PENDING})

_SELECT = """
SELECT work_item_id, attempt, runner, started_at, ended_at, outcome, detail FROM work_attempts
"""
_OPEN = f"{_SELECT} WHERE ended_at IS NULL"
_CLOSE = """
UPDATE work_attempts SET ended_at = ?, outcome = ?, detail = ?
WHERE work_item_id = ? AND attempt = ? AND ended_at IS NULL
"""
_PASSED_AFTER_ALL = """
UPDATE work_attempts SET outcome = 'passed'
WHERE work_item_id = ? AND attempt = ? AND ended_at IS NOT NULL
"""
_HAND_OVER = """
UPDATE work_attempts SET runner = ?
WHERE work_item_id = ? AND attempt = ? AND runner = ? AND ended_at IS NULL
"""
_CLOSE_WAITING = """
UPDATE work_attempts SET ended_at = ?, outcome = 'stopped'
WHERE work_item_id = ? AND runner = 'waiting' AND ended_at IS NULL
"""
_DROP = """
UPDATE paused_runs SET state = 'dropped', run = '' WHERE work_item_id = ? AND state = 'waiting'
"""
_RUNNING = "SELECT id FROM work_items WHERE status = 'running' ORDER BY created_at, id"
_RUNNING_BY = """
SELECT item.id FROM work_items AS item
JOIN work_attempts AS last ON last.work_item_id = item.id AND last.attempt = item.attempts
WHERE item.status = 'running' AND last.runner = ? ORDER BY item.created_at, item.id
"""


OnStart = Callable[[Transaction, WorkItem], None]
"""Writes something together with the start of an attempt, such as that somebody is told of it."""


class AttemptOutcome(StrEnum):
    """How an attempt ended."""

    PASSED = "passed"
    FAILED = "failed"
    BLOCKED = "blocked"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"


class Attempt(Data):
    """One try at a work item."""

    work_item_id: str
    attempt: int
    runner: str
    started_at: UtcDatetime
    ended_at: UtcDatetime | None = None
    outcome: AttemptOutcome | None = None
    detail: str = ""


class AttemptStore:
    """The attempts of all work items."""

    def __init__(self, database: Database, clock: Clock, audit: AuditTrail) -> None:
        self._database = database
        self._clock = clock
        self._audit = audit

    async def start(
        self,
        work_item_id: str,
        *,
        runner: str,
        only_from: Collection[WorkItemStatus] | None = None,
        record: OnStart | None = None,
    ) -> WorkItem:
        """Claim the item; its `attempts` is the number of this attempt.

        `record` is called in the same transaction with the item as it then is.

        With `only_from`, only if it has one of these statuses: so that work which the owner has
        just paused is not started after all. Raises `WorkItemConflict` if that or if somebody is at
        it, `IllegalTransition` if it cannot run.
        """
        now = format_timestamp(self._clock.now())

        def begin(tx: Transaction) -> WorkItem:
            item = _start(tx, work_item_id, runner=runner, now=now, only_from=only_from)
            self._say(tx, BEGUN, item)
            if record is not None:
                record(tx, item)
            return item

        try:
            return await self._database.transaction(begin, durability=Durability.TRUST)
        except DatabaseConstraint as error:
            # Another process was faster, between our look and our insert.
            raise WorkItemConflict(
                f"Somebody else has just started the work item {work_item_id}.",
                work_item=work_item_id,
            ) from error

    async def finish(
        self,
        work_item_id: str,
        attempt: int,
        *,
        outcome: AttemptOutcome,
        status: WorkItemStatus,
        budget_used: BudgetUsed,
        detail: str = "",
        results: list[VerificationResult] | None = None,
    ) -> WorkItem:
        """Close the attempt and give the item its status; returns the item as it is now.

        The returned status is not the wanted one if the owner stopped the item (rule 2).
        """
        now = format_timestamp(self._clock.now())

        def close(tx: Transaction) -> WorkItem:
            close_attempt(tx, work_item_id, attempt, outcome=outcome, detail=detail, now=now)
            item = load_item(tx, work_item_id)
            history = [*item.verification_results, *(results or [])]
            changes = {"budget_used": budget_used, "verification_results": history}
            if item.status is WorkItemStatus.RUNNING:
                self._use_up(tx, item, status, now=now)
                return move_item(tx, item, status=status, now=now, **changes)
            return save_item(tx, item.model_copy(update=changes), now=now)

        item = await self._database.transaction(close, durability=Durability.TRUST)
        if item.status in ENDED_WELL:
            await self._vouch()
        return item

    async def conclude(
        self,
        work_item_id: str,
        attempt: int,
        *,
        status: WorkItemStatus,
        budget_used: BudgetUsed,
        results: list[VerificationResult],
    ) -> WorkItem:
        """An attempt that was closed had passed after all, and is taken over: the item is done.

        This is no attempt of its own, and one step: a crash in it leaves everything as it was.
        Raises `WorkItemConflict` if the item does not wait or somebody is at it.
        """
        now = format_timestamp(self._clock.now())

        def end(tx: Transaction) -> WorkItem:
            item = _require_idle(load_item(tx, work_item_id), tx, only_from=_WAITS)
            if not tx.execute(_PASSED_AFTER_ALL, (work_item_id, attempt)):
                raise WorkItemConflict(f"There was no attempt {attempt} at {work_item_id}.")
            history = [*item.verification_results, *results]
            changes = {"budget_used": budget_used, "verification_results": history}
            item = move_item(tx, item, status=WorkItemStatus.RUNNING, now=now)
            self._use_up(tx, item, status, now=now)
            return move_item(tx, item, status=status, now=now, **changes)

        item = await self._database.transaction(end, durability=Durability.TRUST)
        await self._vouch()
        return item

    async def _vouch(self) -> None:
        """Have it vouched for that this was done. It was done in any case, and is said to be."""
        try:
            await self._audit.write_checkpoint()
        except SilasError as error:
            with contextlib.suppress(SilasError):  # a disk that fails now takes nothing of it back
                await self._audit.log("audit_checkpoint_failed", error=error.message)

    def _use_up(self, tx: Transaction, item: WorkItem, status: WorkItemStatus, *, now: str) -> None:
        """Rule 5."""
        if status in ENDED_WELL and item.approval_token is not None:
            token_id = item.approval_token.token_id
            complete_token(tx, token_id, content_hash=item.plan_hash, now=now)
            self._say(tx, DONE, item)

    def _say(self, tx: Transaction, event: str, item: WorkItem) -> None:
        if item.approval_token is not None and item.type is not WorkItemType.GOAL:
            token_id = item.approval_token.token_id
            self._audit.append(tx, event, done_entry(token_id, item.plan_hash))

    async def interrupt(self, *, runner: str | None = None) -> list[WorkItem]:
        """After a crash (of this runner): close its attempts; returns the items that wait again."""
        now = format_timestamp(self._clock.now())
        return await self._database.transaction(
            lambda tx: _interrupt(tx, runner, now=now), durability=Durability.TRUST
        )

    async def give_up(self, work_item_id: str, attempt: int) -> WorkItem:
        """Close an open attempt that nobody is at any more; the item waits for a fresh one."""
        now = format_timestamp(self._clock.now())

        def close(tx: Transaction) -> WorkItem:
            over = AttemptOutcome.INTERRUPTED
            close_attempt(tx, work_item_id, attempt, outcome=over, now=now)
            item = load_item(tx, work_item_id)
            if item.status is not WorkItemStatus.RUNNING:
                return item  # the owner's word stands
            return move_item(tx, item, status=WorkItemStatus.PENDING, now=now)

        return await self._database.transaction(close, durability=Durability.TRUST)

    async def drop_waiting(self, work_item_id: str) -> None:
        """End an attempt that waits for the owner, because the item was cancelled."""
        now = format_timestamp(self._clock.now())

        await self._database.transaction(
            lambda tx: drop_waiting_in(tx, work_item_id, now=now), durability=Durability.TRUST
        )

    async def list_open(self) -> list[Attempt]:
        """The attempts that are going on, oldest first."""
        rows = await self._database.fetch_all(f"{_OPEN} ORDER BY started_at, work_item_id")
        return [_attempt(row) for row in rows]

    async def open_of(self, work_item_id: str) -> Attempt | None:
        """The attempt at this item that is going on, if any."""
        row = await self._database.fetch_one(f"{_OPEN} AND work_item_id = ?", (work_item_id,))
        return _attempt(row) if row else None

    async def list_of(self, work_item_id: str) -> list[Attempt]:
        """All attempts of one item, in order."""
        rows = await self._database.fetch_all(
            f"{_SELECT} WHERE work_item_id = ? ORDER BY attempt", (work_item_id,)
        )
        return [_attempt(row) for row in rows]


def drop_waiting_in(tx: Transaction, work_item_id: str, *, now: str) -> None:
    """End an attempt that waits for the owner, as part of a transaction."""
    tx.execute(_CLOSE_WAITING, (now, work_item_id))
    tx.execute(_DROP, (work_item_id,))


def open_attempt(reader: Reader, work_item_id: str) -> Attempt | None:
    """The attempt that is going on for this item, if any."""
    row = reader.fetch_one(f"{_OPEN} AND work_item_id = ?", (work_item_id,))
    return _attempt(row) if row else None


def _start(
    tx: Transaction,
    work_item_id: str,
    *,
    runner: str,
    now: str,
    only_from: Collection[WorkItemStatus] | None,
) -> WorkItem:
    item = _require_idle(load_item(tx, work_item_id), tx, only_from=only_from)
    number = item.attempts + 1
    used = item.budget_used.model_copy(update={"attempts": item.budget_used.attempts + 1})
    tx.execute(
        "INSERT INTO work_attempts (work_item_id, attempt, runner, started_at) VALUES (?, ?, ?, ?)",
        (work_item_id, number, runner, now),
    )
    return move_item(
        tx, item, status=WorkItemStatus.RUNNING, now=now, attempts=number, budget_used=used
    )


def _require_idle(
    item: WorkItem, reader: Reader, *, only_from: Collection[WorkItemStatus] | None
) -> WorkItem:
    if item.is_cancelled or (only_from is not None and item.status not in only_from):
        raise WorkItemConflict(
            f"The work item {item.id} is {item.status.value}, so it is not started.",
            work_item=item.id,
        )
    other = open_attempt(reader, item.id)
    if other:
        raise WorkItemConflict(
            f"The work item {item.id} is being worked on by {other.runner} "
            f"(attempt {other.attempt}). Wait until it has ended.",
            work_item=item.id,
        )
    return item


def close_attempt(
    tx: Transaction,
    work_item_id: str,
    attempt: int,
    *,
    outcome: AttemptOutcome,
    now: str,
    detail: str = "",
) -> None:
    """Close an attempt that is open; raises `WorkItemConflict` if it is not."""
    if not tx.execute(_CLOSE, (now, outcome.value, detail, work_item_id, attempt)):
        raise WorkItemConflict(
            f"Attempt {attempt} of the work item {work_item_id} is not open any more.",
            work_item=work_item_id,
        )


def reassign(tx: Transaction, work_item_id: str, attempt: int, *, old: str, new: str) -> None:
    """Let another runner have an open attempt; raises `WorkItemConflict` if it is another's."""
    if not tx.execute(_HAND_OVER, (new, work_item_id, attempt, old)):
        raise WorkItemConflict(
            f"Attempt {attempt} of the work item {work_item_id} belongs to somebody else.",
            work_item=work_item_id,
        )


def _interrupt(tx: Transaction, runner: str | None, *, now: str) -> list[WorkItem]:
    for attempt in [_attempt(row) for row in tx.fetch_all(_OPEN)]:
        if runner in (None, attempt.runner) and attempt.runner != WAITING:
            name, number = attempt.work_item_id, attempt.attempt
            close_attempt(tx, name, number, outcome=AttemptOutcome.INTERRUPTED, now=now)
    rows = tx.fetch_all(_RUNNING) if runner is None else tx.fetch_all(_RUNNING_BY, (runner,))
    return [
        move_item(tx, load_item(tx, name), status=WorkItemStatus.PENDING, now=now)
        for (name,) in rows
    ]


def _attempt(row: Row) -> Attempt:
    work_item_id, attempt, runner, started_at, ended_at, outcome, detail = row
    return Attempt(
        work_item_id=work_item_id,
        attempt=attempt,
        runner=runner,
        started_at=parse_timestamp(started_at),
        ended_at=parse_timestamp(ended_at) if ended_at else None,
        outcome=AttemptOutcome(outcome) if outcome else None,
        detail=detail,
    )


_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STARTED_FIELD = 19  # of /proc/PID/stat, counted after the process's name


def this_runner() -> str:
    """The name of this process."""
    return f"{_host()}/{os.getpid()}/{_started(os.getpid())}"


def may_be_alive(runner: str) -> bool:
    """Whether the runner could still be at work; of another machine nobody here can say."""
    host, boot, pid, started = (*runner.split("/"), "", "", "")[:4]
    if host != socket.gethostname() or not pid.isdigit():
        return True
    if f"{host}/{boot}" != _host():
        return False
    return _started(int(pid)) == started


def _host() -> str:
    try:
        boot = _BOOT.read_text().strip()[:8]
    except OSError:
        boot = "unknown"
    return f"{socket.gethostname()}/{boot}"


def _started(pid: int) -> str:
    """When the process started, in the kernel's count; empty if there is none or it is dead."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[_STARTED_FIELD]
