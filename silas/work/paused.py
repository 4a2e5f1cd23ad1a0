"""Runs that wait for the owner, kept whole, so that another process can go on with them.

1. Pausing is one step: the run and its calls are written down, the attempt stays open but is
   nobody's, and the item is `blocked`. If the owner has stopped the item meanwhile, that stands.
2. A call is decided once, and only until it expires. One that nobody decided in time is declined.
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
import base64
import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from pydantic import Field

from silas.approval import ApprovalToken, ApprovalVerdict
from silas.kernel import (
    AuditError,
    Clock,
    IdFactory,
    TaintLevel,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
)
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Database, Durability, Row, Transaction
from silas.work.attempts import (
    STOPPED_BY_OWNER,
    WAITING,
    AttemptOutcome,
    close_attempt,
    hand_over,
)
from silas.work.budget import BudgetUsed
from silas.work.errors import WorkItemConflict
from silas.work.models import WorkItem, WorkItemStatus
from silas.work.ports import AuditTrail, Briefing, CallVerdict, PausedCall, PausedRun
from silas.work.store import load_item, move_item, save_item

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
_SEAL = "INSERT INTO paused_seals (run_id, key_id, signature) VALUES (?, ?, ?)"
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


class Signer(Protocol):
    """The owner's key."""

    def sign(self, payload: bytes) -> tuple[str, bytes]:
        """The id of the key, and its signature."""
        ...

    def verify(self, key_id: str, payload: bytes, signature: bytes, *, at: datetime) -> bool:
        """Whether this key of the owner's made this signature."""
        ...


class Scene(Data):
    """What the attempt knew when it was paused."""

    briefing: Briefing
    taint: TaintLevel
    taint_sources: list[str] = Field(default_factory=list)
    guidance: str | None = None


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
        signer: Signer,
        audit: AuditTrail,
        seconds: int = _DAY_SECONDS,
    ) -> None:
        self._audit = audit
        self._signer = signer
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
        expires = format_timestamp(self._until(item, now))
        texts = run.model_dump_json(), scene.model_dump_json()
        shown = [each.call.model_dump_json() for _, each in calls]
        named = [(name, text) for (name, _), text in zip(calls, shown, strict=True)]
        rows = _Rows(run_id, item.id, item.attempts, *texts, stamp, expires, tuple(named))
        key_id, signature = await asyncio.to_thread(self._signer.sign, rows.seal_bytes())
        seal = base64.b64encode(signature).decode()

        def write(tx: Transaction) -> WorkItem:
            number = item.attempts
            current = load_item(tx, item.id)
            if current.status is WorkItemStatus.FAILED:
                close_attempt(tx, item.id, number, outcome=AttemptOutcome.STOPPED, now=stamp)
                return _charge(tx, current, used, stamp)
            hand_over(tx, item.id, number, giver=runner, taker=WAITING)
            tx.execute(_INSERT_RUN, (run_id, item.id, number, *texts, stamp, expires))
            tx.execute(_SEAL, (run_id, key_id, seal))
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

    def _until(self, item: WorkItem, now: datetime) -> datetime:
        """How long a decision is of any use: no longer than the approval of the work itself."""
        day = now + timedelta(seconds=self._seconds)
        token = item.approval_token
        return min(day, token.expires_at) if token is not None else day

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
        found = [await self._kept(row) for row in rows]
        return [run for run in found if run is not None]

    async def _row(self, work_item_id: str) -> Row | None:
        return await self._database.fetch_one(f"{_RUN} AND work_item_id = ?", (work_item_id,))

    async def find_call(self, call_id: str) -> KeptCall:
        """A call that waits, by its id; raises `WorkItemConflict`."""
        for run in await self.waiting():
            for call in run.undecided(self._clock.now()):
                if call.id == call_id:
                    return call
        raise _not_waiting(call_id)

    async def record(
        self, call_id: str, verdict: ApprovalVerdict, token: ApprovalToken | None
    ) -> None:
        """Rule 2; raises `WorkItemConflict`."""
        now = format_timestamp(self._clock.now())
        signed = token.model_dump_json() if token else None
        if not await self._database.execute(
            _DECIDE, (verdict.value, signed, now, call_id, now), durability=Durability.TRUST
        ):
            raise _not_waiting(call_id)

    async def claim(self, kept: KeptRun, *, runner: str) -> WorkItem:
        """Rule 3: make the run this process's own; raises `WorkItemConflict` if it is not first."""
        now = format_timestamp(self._clock.now())

        def take(tx: Transaction) -> WorkItem:
            item = load_item(tx, kept.work_item_id)
            if item.status in STOPPED_BY_OWNER or not tx.execute(_CLAIM, (kept.id,)):
                raise WorkItemConflict(
                    f"Somebody else goes on with {item.id}, or it was stopped.", work_item=item.id
                )
            hand_over(tx, item.id, kept.attempt, giver=WAITING, taker=runner)
            self._audit.append(tx, _CLAIMED, {"run_id": kept.id, "work_item_id": item.id})
            return move_item(tx, item, status=WorkItemStatus.RUNNING, now=now)

        return await self._database.transaction(take, durability=Durability.TRUST)

    async def went_on(self, kept: KeptRun) -> bool:
        """Rule 6; also if the log cannot be relied on, or does not know the run."""
        events = (_PAUSED, _CLAIMED)
        try:
            entries = await self._audit.proven_since(kept.paused_at, events, about=kept.id)
        except AuditError:
            return True
        about = [each.event for each in entries if each.data.get("run_id") == kept.id]
        return _PAUSED not in about or _CLAIMED in about

    async def _kept(self, row: Row) -> KeptRun | None:
        """The run of a row; None if the row is not what was written (rule 5)."""
        run_id, work_item_id, attempt, run, scene, paused_at, expires_at = row
        calls = await self._database.fetch_all(_CALLS, (run_id,))
        named = tuple((each[0], each[2]) for each in calls)
        rows = _Rows(run_id, work_item_id, attempt, run, scene, paused_at, expires_at, calls=named)
        if not await self._is_sealed(rows):
            return None
        return KeptRun(
            id=run_id,
            work_item_id=work_item_id,
            attempt=attempt,
            run=PausedRun.model_validate_json(run),
            scene=Scene.model_validate_json(scene),
            calls=tuple(_call(each) for each in calls),
            paused_at=parse_timestamp(paused_at),
            expires_at=parse_timestamp(expires_at),
        )

    async def _is_sealed(self, rows: "_Rows") -> bool:
        seal = await self._database.fetch_one(_SEAL_OF, (rows.run_id,))
        if seal is None:
            return False
        try:
            signature = base64.b64decode(seal[1], validate=True)
        except ValueError:
            return False
        now = self._clock.now()
        return self._signer.verify(seal[0], rows.seal_bytes(), signature, at=now)


@dataclass(frozen=True)
class _Rows:
    """What a run's rows say, as texts."""

    run_id: str
    work_item_id: str
    attempt: int
    run: str
    scene: str
    paused_at: str
    expires_at: str
    calls: tuple[tuple[str, str], ...]
    """The id of each call, which its token will be for, and the call."""

    def seal_bytes(self) -> bytes:
        return canonical_bytes(
            {
                "type": "paused_run",
                "id": self.run_id,
                "work_item_id": self.work_item_id,
                "attempt": self.attempt,
                "run": _digest(self.run),
                "scene": _digest(self.scene),
                "paused_at": self.paused_at,
                "expires_at": self.expires_at,
                "calls": [[name, _digest(call)] for name, call in self.calls],
            }
        )


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


def _call(row: Row) -> KeptCall:
    row_id, call_id, call, verdict, token = row
    return KeptCall(
        id=row_id,
        call_id=call_id,
        call=PausedCall.model_validate_json(call),
        verdict=ApprovalVerdict(verdict) if verdict else None,
        token=ApprovalToken.model_validate_json(token) if token else None,
    )
