"""What is being answered right now: at which stage it is, what is shown of it, and its stop.

1. An answer is being made from the moment its message is taken from the queue until it is
   committed, over the planner and its research if it needs a plan. Its stages are facts of the
   runtime; no model words them.
2. What is shown of it while it is written has passed the gates that can judge a beginning
   (`GrowingGates`). It is a preview: the answer that is delivered replaces it.
3. Whoever watches is told of a text at most every `_SECONDS_BETWEEN_TEXTS`.
4. A stop ends what is being done for the answer at once (`stoppable`), and everything that begins
   for it later at its beginning. What an answer has become once it passed its gates is not stopped.
   A stop for an answer that is not being made any more does nothing.
5. A stop is on the disk before anything is ended (`AnswerStops`), until the transaction that writes
   down the answer. A process that dies in between does not make the answer anew.

The rest is in memory.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from silas.gates import Gate, GateProvider
from silas.gates.runner import GrowingGates
from silas.kernel import Clock, Provenance, format_timestamp
from silas.storage import Database, Durability, Transaction
from silas.stream.models import MAX_TEXT
from silas.stream.ports import AnswerProgress, Live, TextListener
from silas.stream.store import Origin

T = TypeVar("T")
_SECONDS_BETWEEN_TEXTS = 0.1
_GROWTH_SHARE = 32
STOPPED = "You stopped this answer."
NOTHING_BEGUN = f"{STOPPED} Nothing that you asked for here was begun."


class Stage(StrEnum):
    """What is going on for an answer."""

    READING = "reading"
    ASKING = "asking"
    LOOKING = "looking"
    PLANNING = "planning"
    CHECKING = "checking"
    DECIDING = "deciding"


_WORDS = {
    Stage.READING: "Reading your message",
    Stage.ASKING: "Asking {}",
    Stage.LOOKING: "Looking things up",
    Stage.PLANNING: "Making a plan",
    Stage.CHECKING: "Checking the answer",
    Stage.DECIDING: "Waiting for your decision",
}
_SLOW = frozenset({GateProvider.SCRIPT, GateProvider.LLM, GateProvider.CUSTOM})


class AnswerStopped(Exception):
    """The owner has stopped the answer. It never leaves the stream."""


@dataclass
class _Making:
    """One answer on its way."""

    origin: Origin
    since: datetime
    """When its stage began."""
    stage: Stage = Stage.READING
    words: str = ""
    note: str = ""
    text: str = ""
    told: str = ""
    """How much of the text whoever watches knows."""
    provenance: Callable[[], Provenance] | None = None
    is_stopping: bool = False
    """The owner has tapped; it is being written down."""
    is_stopped: bool = False
    is_settled: bool = False
    tasks: set["asyncio.Future[Any]"] = field(default_factory=set)
    timer: asyncio.TimerHandle | None = None


def _was_stopped(making: _Making) -> bool:
    """Asked anew: it may have been stopped since the last look."""
    return making.is_stopped


_KEEP = "INSERT INTO stopped_answers (trace_id, stopped_at) VALUES (?, ?) ON CONFLICT DO NOTHING"


@dataclass(frozen=True)
class AnswerStops:
    """The owner's stops whose answers are not written down yet (rule 5)."""

    database: Database
    clock: Clock

    async def keep(self, trace_id: str, *, unless: Callable[[], bool]) -> None:
        """Write a stop down, unless it comes too late by the time that it is written."""
        row = (trace_id, format_timestamp(self.clock.now()))

        def write(tx: Transaction) -> None:
            # An answer is settled before its own transaction is begun, and that one removes the
            # row: so none is left behind for an answer that is there.
            if not unless():
                tx.execute(_KEEP, row)

        await self.database.transaction(write, durability=Durability.TRUST)

    async def has(self, trace_id: str) -> bool:
        """Whether this answer was stopped, also before a restart."""
        sql = "SELECT 1 FROM stopped_answers WHERE trace_id = ?"
        return await self.database.fetch_one(sql, (trace_id,)) is not None

    def forget_in(self, tx: Transaction, trace_id: str) -> None:
        """The answer is there, with its stop or without it."""
        tx.execute("DELETE FROM stopped_answers WHERE trace_id = ?", (trace_id,))


@dataclass
class AnswersInProgress:
    """The answers of the owner's that this process makes."""

    owner_id: str
    clock: Clock
    stops: AnswerStops
    live: Live | None = None
    _making: dict[str, _Making] = field(default_factory=dict)

    async def begin(self, origin: Origin, stage: Stage = Stage.READING) -> None:
        """Something is being done for an answer; a visitor's is nobody's to watch."""
        if origin.connection_id != self.owner_id:
            return
        making = self._making.setdefault(origin.trace_id, _Making(origin, self.clock.now()))
        making.is_settled = False
        if await self.stops.has(origin.trace_id):
            making.is_stopped = True
        self.enter(origin.trace_id, stage)

    def enter(self, trace_id: str, stage: Stage, *, what: str = "", note: str = "") -> None:
        """It is at this stage now: `what` is asked, `note` says more about it."""
        self._at(trace_id, stage, _WORDS[stage].format(what), note)

    def wait_for(self, trace_id: str, gate: Gate) -> None:
        """A gate looks; one that may take its time is called by its name."""
        if gate.provider in _SLOW:
            self._at(trace_id, Stage.CHECKING, f"Waiting for the check “{gate.name}”", "")

    def looking(self, trace_id: str) -> Callable[[], AbstractContextManager[None]]:
        """Around each look at something: the stage is another one until it is over."""

        @contextmanager
        def look() -> Iterator[None]:
            before = self._making.get(trace_id)
            stage = (before.stage, before.words, before.note) if before else None
            self.enter(trace_id, Stage.LOOKING)
            try:
                yield
            finally:
                if stage is not None:
                    self._at(trace_id, *stage)

        return look

    def _at(self, trace_id: str, stage: Stage, words: str, note: str) -> None:
        making = self._making.get(trace_id)
        if making is None or (making.stage, making.words, making.note) == (stage, words, note):
            return
        making.stage, making.words, making.note = stage, words, note
        making.since = self.clock.now()
        if self.live is not None:
            self.live.answering(self._progress(making))

    def derives_from(self, trace_id: str, provenance: Callable[[], Provenance]) -> None:
        """What the text that is shown is made from, asked when it is stopped."""
        if trace_id in self._making:
            self._making[trace_id].provenance = provenance

    def listener(self, trace_id: str, gates: GrowingGates) -> TextListener | None:
        """Shows an answer while it is written, as far as the gates have judged it."""
        if trace_id not in self._making or gates.holding:
            return None
        return _Shown(self, trace_id, gates).hear

    def show(self, trace_id: str, text: str) -> None:
        """This much of the answer may be seen; an empty text takes everything back."""
        making = self._making.get(trace_id)
        if making is None or making.text == text:
            return
        making.text = text
        if not text.startswith(making.told):
            self._tell_text(making)  # what must not stand any longer goes at once
        elif making.timer is None:
            self._tell_text(making)
            loop = asyncio.get_running_loop()
            making.timer = loop.call_later(_SECONDS_BETWEEN_TEXTS, self._tell_rest, making)

    def settle(self, trace_id: str) -> None:
        """The answer has passed its gates: from here on it is not stopped any more."""
        if trace_id in self._making:
            self._making[trace_id].is_settled = True

    def end(self, trace_id: str) -> None:
        """It is there, or will be made anew."""
        making = self._making.pop(trace_id, None)
        if making is None:
            return
        if making.timer is not None:
            making.timer.cancel()
        if self.live is not None:
            over = self._progress(making).model_copy(update={"over": True})
            self.live.answering(over)

    async def stop(self, trace_id: str) -> bool:
        """End it now, for good; False if it is not being made any more."""
        making = self._making.get(trace_id)
        if making is None or making.is_settled or making.is_stopping or making.is_stopped:
            return False
        making.is_stopping = True
        try:
            await self.stops.keep(trace_id, unless=lambda: self._is_too_late(making))
        finally:
            # A disk that takes nothing keeps nobody from stopping.
            making.is_stopping = False
            stopped = making.is_stopped = not self._is_too_late(making)
            for task in tuple(making.tasks) if stopped else ():
                task.cancel()
        return stopped

    def _is_too_late(self, making: _Making) -> bool:
        return making.is_settled or self._making.get(making.origin.trace_id) is not making

    async def stoppable(self, trace_id: str, work: Coroutine[Any, Any, T]) -> T:
        """Do this for an answer; raises `AnswerStopped` when the owner ends it, or has ended it."""
        making = self._making.get(trace_id)
        if making is None:
            return await work
        if making.is_stopped:
            work.close()
            raise AnswerStopped
        task = asyncio.ensure_future(work)
        making.tasks.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            mine = asyncio.current_task()
            if _was_stopped(making) and (mine is None or not mine.cancelling()):
                raise AnswerStopped from None
            raise
        finally:
            making.tasks.discard(task)

    def stopped(self, trace_id: str) -> tuple[str, Provenance | None, str]:
        """What was shown of a stopped answer, what that is made from, and where it was."""
        making = self._making.get(trace_id)
        if making is None:
            return "", None, ""
        found = making.provenance() if making.text and making.provenance else None
        return making.text, found, making.stage.value

    def current(self) -> list[tuple[AnswerProgress, str]]:
        """All of them and what is shown of each, for whoever comes to look."""
        return [(self._progress(each), each.text) for each in self._making.values()]

    def _tell_rest(self, making: _Making) -> None:
        making.timer = None
        if making.text != making.told:
            self._tell_text(making)

    def _tell_text(self, making: _Making) -> None:
        """Tell from where on the text is another one than was told."""
        told, text, origin = making.told, making.text, making.origin
        start = len(told) if text.startswith(told) else 0
        making.told = text
        if self.live is not None:
            self.live.text(origin.connection_id, origin.trace_id, text[start:], start=start)

    def _progress(self, making: _Making) -> AnswerProgress:
        elapsed = (self.clock.now() - making.since).total_seconds()
        return AnswerProgress(
            trace_id=making.origin.trace_id,
            connection_id=making.origin.connection_id,
            stage=making.stage.value,
            words=making.words,
            note=making.note,
            seconds=max(0.0, elapsed),
        )


@dataclass
class _Shown:
    """One answer while it is written."""

    answers: AnswersInProgress
    trace_id: str
    gates: GrowingGates
    _read: int = 0
    _passed: str = ""
    _is_blocked: bool = False

    def hear(self, text: str) -> None:
        """`TextListener`."""
        if not text:
            self._read, self._passed, self._is_blocked = 0, "", False
            self.answers.show(self.trace_id, "")
        elif not self._is_blocked and self._is_due(len(text)):
            self._read = len(text)
            passed = self.gates.passed(text)
            self._is_blocked = passed is None
            # What was judged for good stays, also if a guard would wait for more by now.
            if passed is None or len(passed) > len(self._passed):
                self._passed = passed or ""
                self.answers.show(self.trace_id, self._passed)

    def _is_due(self, size: int) -> bool:
        """To judge it anew for every word would take quadratic time; the longest are cut later."""
        return size <= MAX_TEXT and size - self._read >= size // _GROWTH_SHARE
