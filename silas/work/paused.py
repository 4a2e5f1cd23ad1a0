"""Runs that wait for the owner, kept whole, so that another process can go on with them.

1. Pausing is one step: the run and its calls are written down, the attempt stays open but is
   nobody's, and the item is `blocked`. If the owner has stopped the item meanwhile, that stands.
2. A call is decided once, and only until it expires, which is later than the approval of its plan.
   One that nobody decided in time is not made: that is noted once (`expire_in`), and the run rests
   until the owner resumes it. The decision, its token and its entry in the audit log are one
   transaction. Once decided, the run goes on under the approval that was in force when it was begun
   (`admission.begun_at`).
3. Of any number of processes exactly one goes on with a run. If that one is killed, the attempt is
   interrupted like any other: half an attempt is continued only where it was paused.
4. Cancelling the item drops the run (`AttemptStore.drop_waiting`).
5. What the run knew (its taint, its briefing, its calls, when it was paused) is sealed with the
   owner's key. Rows that say something else are nobody's run: their calls cannot be decided, and
   nobody goes on with them.
6. A run goes on once. That it did is in the audit log: rows that are put back later do not make it
   wait again.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from pydantic import Field

from silas.approval import ApprovalToken, ApprovalVerdict
from silas.approval.keys import Seal, Seals
from silas.audit.models import AuditTrail, OwnerKey
from silas.kernel import (
    AuditError,
    Clock,
    IdFactory,
    TaintLevel,
    format_timestamp,
    parse_timestamp,
)
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Database, Durability, Transaction
from silas.work.attempt_store import (
    WAITING,
    AttemptOutcome,
    close_attempt,
    reassign,
)
from silas.work.errors import WorkItemConflict
from silas.work.models import (
    STOPPED_BY_OWNER,
    BudgetUsed,
    VerificationResult,
    WorkItem,
    WorkItemStatus,
)
from silas.work.ports import Briefing, CallVerdict, PausedCall, PausedRun
from silas.work.store import load_item, move_item, save_item

Write = Callable[[Transaction], None]
_DAY_SECONDS = 86_400
_PAUSED, _CLAIMED = "run_paused", "run_went_on"
_EXPIRED = "The owner did not decide in time."
_INSERT_RUN = """
INSERT INTO paused_runs (id, work_item_id, attempt, state, run, scene, paused_at, expires_at)
VALUES (?, ?, ?, 'waiting', ?, ?, ?, ?)
"""
_INSERT_CALL = """
INSERT INTO paused_calls (id, run_id, position, call_id, call) VALUES (?, ?, ?, ?, ?)
"""
_RUN = """
SELECT id, work_item_id, attempt, run, scene, paused_at, expires_at FROM paused_runs
WHERE state = 'waiting'
"""
_SEALED = "paused_run"
_INSERT_SEAL = "INSERT INTO paused_seals (run_id, key_id, signature) VALUES (?, ?, ?)"
_SEAL_OF = "SELECT key_id, signature FROM paused_seals WHERE run_id = ?"
_CALLS = """
SELECT id, call_id, call, verdict, token FROM paused_calls WHERE run_id = ? ORDER BY position
"""
_CLAIM = "UPDATE paused_runs SET state = 'resumed', run = '' WHERE id = ? AND state = 'waiting'"
_DECIDE = """
UPDATE paused_calls SET verdict = ?, token = ?, decided_at = ?
WHERE id = ? AND verdict IS NULL
AND run_id IN (SELECT id FROM paused_runs WHERE state = 'waiting' AND expires_at > ?)
"""
_OVERDUE = """
SELECT DISTINCT work_item_id FROM paused_runs
JOIN paused_calls ON paused_calls.run_id = paused_runs.id
WHERE state = 'waiting' AND expires_at <= ? AND verdict IS NULL AND decided_at IS NULL
ORDER BY paused_at
"""
_EXPIRE = """
UPDATE paused_calls SET decided_at = ?
WHERE id = ? AND verdict IS NULL AND decided_at IS NULL
AND run_id IN (SELECT id FROM paused_runs WHERE state = 'waiting' AND expires_at <= ?)
"""
"""A time without a verdict: nobody decided, and that is known."""


class Scene(Data):
    """What the attempt knew when it was paused."""

    briefing: Briefing
    taint: TaintLevel
    taint_sources: list[str] = Field(default_factory=list)
    guidance: str | None = None
    before: list[VerificationResult] = Field(default_factory=list)
    """What the checks gave before the work."""
    begun_at: UtcDatetime | None = None
    """When its approval was in force: when it was begun, or what it goes on from."""
    summary: str = ""
    """What the worker said, if it had ended and only its changes are asked about."""


class KeptCall(Data):
    """One call that waits, or has waited."""

    id: str
    call_id: str
    call: PausedCall
    verdict: ApprovalVerdict | None = None
    token: ApprovalToken | None = None


@dataclass(frozen=True)
class DecidedCall:
    """A call that waited and that the owner approved, with the token for exactly it."""

    id: str
    call: PausedCall
    token: ApprovalToken


class KeptRun(Data):
    """A run that waits."""

    id: str
    work_item_id: str
    attempt: int
    run: PausedRun
    scene: Scene
    calls: tuple[KeptCall, ...]
    paused_at: UtcDatetime
    expires_at: UtcDatetime

    def undecided(self, now: datetime) -> tuple[KeptCall, ...]:
        """The calls that the owner can still decide about."""
        if now >= self.expires_at:
            return ()
        return tuple(call for call in self.calls if call.verdict is None)

    def overdue(self, now: datetime) -> tuple[KeptCall, ...]:
        """The calls that nobody decided in time."""
        if now < self.expires_at:
            return ()
        return tuple(call for call in self.calls if call.verdict is None)

    def verdicts(self) -> list[CallVerdict]:
        """What the worker is told; what nobody decided is declined."""
        return [
            CallVerdict(
                call_id=each.call_id,
                approved=each.verdict is ApprovalVerdict.APPROVED,
                reason=_told(each),
            )
            for each in self.calls
        ]

    def approved(self) -> list[DecidedCall]:
        """The calls that may be made now."""
        return [
            DecidedCall(each.id, each.call, each.token)
            for each in self.calls
            if each.verdict is ApprovalVerdict.APPROVED and each.token is not None
        ]


class PausedRuns:
    """The runs that wait for the owner; each for so many seconds."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        ids: IdFactory,
        keys: OwnerKey,
        audit: AuditTrail,
        seconds: int = _DAY_SECONDS,
    ) -> None:
        self._audit = audit
        self._seals = Seals(keys)
        self._database = database
        self._clock = clock
        self._ids = ids
        self._seconds = seconds

    async def keep(
        self, item: WorkItem, run: PausedRun, *, scene: Scene, runner: str, used: BudgetUsed
    ) -> WorkItem:
        """Rule 1; returns the item as it is now."""
        now = self._clock.now()
        stamp = format_timestamp(now)
        calls = [(self._ids.new("call"), each) for each in run.calls]
        run_id = self._ids.new("pause")
        expires = format_timestamp(now + timedelta(seconds=self._seconds))
        texts = run.model_dump_json(), scene.model_dump_json()
        shown = [each.call.model_dump_json() for _, each in calls]
        named = [(name, text) for (name, _), text in zip(calls, shown, strict=True)]
        row = _RunRow(run_id, item.id, item.attempts, *texts, stamp, expires)
        seal = await asyncio.to_thread(self._seals.sign, _SEALED, row.sealed_fields(named))

        def write(tx: Transaction) -> WorkItem:
            number = item.attempts
            current = load_item(tx, item.id)
            if current.status is WorkItemStatus.FAILED:
                close_attempt(tx, item.id, number, outcome=AttemptOutcome.STOPPED, now=stamp)
                return _charge(tx, current, used, stamp)
            reassign(tx, item.id, number, old=runner, new=WAITING)
            tx.execute(_INSERT_RUN, (run_id, item.id, number, *texts, stamp, expires))
            tx.execute(_INSERT_SEAL, (run_id, *seal))
            self._audit.append(tx, _PAUSED, {"run_id": run_id, "work_item_id": item.id})
            for position, (call_id, each) in enumerate(calls):
                text = shown[position]
                tx.execute(_INSERT_CALL, (call_id, run_id, position, each.call_id, text))
            if current.status is not WorkItemStatus.RUNNING:
                return _charge(tx, current, used, stamp)
            return move_item(
                tx, current, status=WorkItemStatus.BLOCKED, now=stamp, budget_used=used
            )

        return await self._database.transaction(write, durability=Durability.TRUST)

    async def of(self, work_item_id: str) -> KeptRun | None:
        """The run of this item that waits, if any."""
        row = await self._row(work_item_id)
        return await self._kept(row) if row else None

    async def is_forged(self, work_item_id: str) -> bool:
        """Whether rows say that a run of this item waits, and none was paused like that."""
        row = await self._row(work_item_id)
        return row is not None and await self._kept(row) is None

    async def waiting(self) -> list[KeptRun]:
        """All runs that wait, oldest first."""
        rows = await self._database.fetch_all(f"{_RUN} ORDER BY paused_at, id")
        found = [await self._kept(_RunRow(*row)) for row in rows]
        return [run for run in found if run is not None]

    async def overdue(self) -> list[KeptRun]:
        """The runs of which calls were not decided in time, and nobody has noted that yet."""
        now = format_timestamp(self._clock.now())
        rows = await self._database.fetch_all(_OVERDUE, (now,))
        found = [await self.of(name) for (name,) in rows]
        return [run for run in found if run is not None]

    def expire_in(self, tx: Transaction, kept: KeptRun) -> bool:
        """Note what nobody decided in time, once; False if there is nothing to note any more."""
        now = self._clock.now()
        stamp = format_timestamp(now)
        calls = kept.overdue(now)
        noted = [each for each in calls if tx.execute(_EXPIRE, (stamp, each.id, stamp))]
        for each in noted:
            self._audit.append(tx, "paused_call_expired", _named(each))
        return bool(noted)

    async def _row(self, work_item_id: str) -> "_RunRow | None":
        row = await self._database.fetch_one(f"{_RUN} AND work_item_id = ?", (work_item_id,))
        return _RunRow(*row) if row else None

    async def find_call(self, call_id: str) -> KeptCall:
        """A call that waits, by its id; raises `WorkItemConflict`."""
        for run in await self.waiting():
            for call in run.undecided(self._clock.now()):
                if call.id == call_id:
                    return call
        raise _not_waiting(call_id)

    def decide_in(
        self, tx: Transaction, kept: KeptCall, verdict: ApprovalVerdict, token: ApprovalToken | None
    ) -> None:
        """Rule 2; `decided_entry` belongs beside it. Raises `WorkItemConflict`."""
        now = format_timestamp(self._clock.now())
        signed = token.model_dump_json() if token else None
        if not tx.execute(_DECIDE, (verdict.value, signed, now, kept.id, now)):
            raise _not_waiting(kept.id)

    async def claim(self, kept: KeptRun, *, runner: str) -> WorkItem:
        """Rule 3: make the run this process's own; raises `WorkItemConflict` if it is not first."""
        now = format_timestamp(self._clock.now())

        def take(tx: Transaction) -> WorkItem:
            item = load_item(tx, kept.work_item_id)
            if item.status in STOPPED_BY_OWNER or not tx.execute(_CLAIM, (kept.id,)):
                raise WorkItemConflict(
                    f"Somebody else goes on with {item.id}, or it was stopped.", work_item=item.id
                )
            reassign(tx, item.id, kept.attempt, old=WAITING, new=runner)
            self._audit.append(tx, _CLAIMED, {"run_id": kept.id, "work_item_id": item.id})
            return move_item(tx, item, status=WorkItemStatus.RUNNING, now=now)

        return await self._database.transaction(take, durability=Durability.TRUST)

    async def went_on(self, kept: KeptRun) -> bool:
        """Rule 6; also if the log cannot be relied on, or does not know the run."""
        events = (_PAUSED, _CLAIMED)
        try:
            proven = await self._audit.proven_since(kept.paused_at, events, about=kept.id)
        except AuditError:
            return True
        about = [each.event for each in proven.entries if each.data.get("run_id") == kept.id]
        return _PAUSED not in about or _CLAIMED in about

    async def _kept(self, row: "_RunRow") -> KeptRun | None:
        """The run of a row; None if the row is not what was written (rule 5)."""
        rows = await self._database.fetch_all(_CALLS, (row.id,))
        calls = [_CallRow(*each) for each in rows]
        fields = row.sealed_fields([(each.id, each.call) for each in calls])
        seal = await self._database.fetch_one(_SEAL_OF, (row.id,))
        now = self._clock.now()
        if seal is None or not self._seals.holds(Seal(*seal), _SEALED, fields, at=now):
            return None
        return KeptRun(
            id=row.id,
            work_item_id=row.work_item_id,
            attempt=row.attempt,
            run=PausedRun.model_validate_json(row.run),
            scene=Scene.model_validate_json(row.scene),
            calls=tuple(each.kept() for each in calls),
            paused_at=parse_timestamp(row.paused_at),
            expires_at=parse_timestamp(row.expires_at),
        )


class _RunRow(NamedTuple):
    """What `_RUN` gives."""

    id: str
    work_item_id: str
    attempt: int
    run: str
    scene: str
    paused_at: str
    expires_at: str

    def sealed_fields(self, calls: Sequence[tuple[str, str]]) -> dict[str, object]:
        """Rule 5, with the id of each call, which its token will be for, and the call."""
        return {
            "id": self.id,
            "work_item_id": self.work_item_id,
            "attempt": self.attempt,
            "run": _digest(self.run),
            "scene": _digest(self.scene),
            "paused_at": self.paused_at,
            "expires_at": self.expires_at,
            "calls": [[name, _digest(call)] for name, call in calls],
        }


class _CallRow(NamedTuple):
    """What `_CALLS` gives."""

    id: str
    call_id: str
    call: str
    verdict: str | None
    token: str | None

    def kept(self) -> KeptCall:
        return KeptCall(
            id=self.id,
            call_id=self.call_id,
            call=PausedCall.model_validate_json(self.call),
            verdict=ApprovalVerdict(self.verdict) if self.verdict else None,
            token=ApprovalToken.model_validate_json(self.token) if self.token else None,
        )


def decided_entry(kept: KeptCall, verdict: ApprovalVerdict) -> tuple[str, Mapping[str, object]]:
    """What the audit log says about the decision on a call."""
    return "paused_call_decided", {**_named(kept), "verdict": verdict.value}


def _named(kept: KeptCall) -> dict[str, object]:
    return {
        "work_item_id": kept.call.work_item_id,
        "attempt": kept.call.attempt,
        "call": kept.id,
        "tool": kept.call.tool,
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _charge(tx: Transaction, item: WorkItem, used: BudgetUsed, now: str) -> WorkItem:
    return save_item(tx, item.model_copy(update={"budget_used": used}), now=now)


def _told(kept: KeptCall) -> str:
    if kept.verdict is ApprovalVerdict.APPROVED:
        return ""
    why = f"The owner's verdict was {kept.verdict.value}." if kept.verdict else _EXPIRED
    return f"{why} This call is not made. Go on without it, or say what is missing."


def _not_waiting(call_id: str) -> WorkItemConflict:
    return WorkItemConflict(
        f"The call {call_id} does not wait for a decision, or not any more. "
        "See `silas work waiting`."
    )
