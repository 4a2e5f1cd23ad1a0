"""The one writer of a database file: a thread that commits transactions in groups.

Callers hand over whole transactions. The writer takes all that wait, runs them in one SQLite
transaction, and commits once; so a hundred callers pay for one disk sync. If one of them fails, all
are run again, each inside a savepoint. A caller is told only after the commit. If any of the group
needs `TRUST`, the group's commit is synced. The writer is woken at the end of a turn of the event
loop: callers that were told together come back in one turn, and would else be split between the
disk sync of the first and that of the others.

A group of brief transactions, each shorter than a hop to this thread, is run on the event loop
while the thread has nothing to do. It never waits there: not for a lock, not for the disk to sync,
and not for statements that go on and on. Whatever would take longer is left to the thread.

A writer without a thread does the same on the event loop. A simulation needs that: there, nothing
but its seed may decide what comes first.

What a body gets is a `Reader` or `Transaction` on the connection: it raises our errors, and leaves
no cursor open.
"""

import asyncio
import contextlib
import math
import queue
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

import apsw

from silas.kernel import DatabaseError
from silas.storage.errors import translate
from silas.storage.ports import Durability, Row, SqlValue, Transaction

_ENDED = "This view of the database has ended. Ask for a new one."


class ConnectionReader:
    """`Reader` on a connection, until `end`."""

    __slots__ = ("_connection", "_ended", "_open_rows", "_path")

    def __init__(self, connection: apsw.Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._open_rows: set[apsw.Cursor] = set()
        self._ended = False

    def fetch_one(self, sql: str, params: Sequence[SqlValue] = ()) -> Row | None:
        try:
            cursor = self._run(sql, params)
            row = cursor.fetchone()
            cursor.close(True)
        except apsw.Error as error:
            raise translate(error, path=self._path) from error
        return row

    def fetch_all(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        try:
            return self._run(sql, params).fetchall()
        except apsw.Error as error:
            raise translate(error, path=self._path) from error

    def rows(self, sql: str, params: Sequence[SqlValue] = ()) -> Iterator[Row]:
        cursor: apsw.Cursor | None = None
        try:
            cursor = self._run(sql, params)
            self._open_rows.add(cursor)
            yield from cursor
        except apsw.Error as error:
            raise translate(error, path=self._path) from error
        finally:
            if cursor is not None:
                self._open_rows.discard(cursor)
                cursor.close(True)

    def end(self) -> None:
        """Close what was left open. An open cursor would hold on to its view of the data."""
        self._ended = True
        while self._open_rows:
            self._open_rows.pop().close(True)

    def _run(self, sql: str, params: Sequence[SqlValue]) -> apsw.Cursor:
        if self._ended:
            raise DatabaseError(_ENDED)
        return self._connection.execute(sql, params or None)


class ConnectionTransaction(ConnectionReader):
    """`Transaction` on a connection, inside a transaction that someone else begins and ends."""

    __slots__ = ()

    def execute(self, sql: str, params: Sequence[SqlValue] = ()) -> int:
        before = self._connection.total_changes()
        try:
            for _ in self._run(sql, params):
                pass
        except apsw.Error as error:
            raise translate(error, path=self._path) from error
        return self._connection.total_changes() - before

    def execute_many(self, sql: str, params: Iterable[Sequence[SqlValue]]) -> list[Row]:
        self._require_transaction()
        try:
            return self._connection.executemany(sql, params).fetchall()
        except apsw.Error as error:
            raise translate(error, path=self._path) from error

    def _run(self, sql: str, params: Sequence[SqlValue]) -> apsw.Cursor:
        self._require_transaction()
        return self._connection.execute(sql, params or None)

    def _require_transaction(self) -> None:
        if self._ended:
            raise DatabaseError(_ENDED)
        if not self._connection.in_transaction:
            # SQLite takes everything back by itself when, say, the disk is full. A body that went
            # on regardless would write outside of any transaction.
            raise DatabaseError("The transaction was taken back. Nothing of it remains.")


T = TypeVar("T")

_MAX_GROUP = 256
_MAX_BRIEF = 128
_SECONDS_HERE = 0.005
_STEPS_BETWEEN_LOOKS = 1000
_LONG_LOG_PAGES = 4000  # SQLite says 1000; each time costs two syncs, whatever the number
_TRANSACTION_CONTROL = {apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT}


@dataclass(slots=True)
class Job:
    """A transaction that someone waits for."""

    body: Callable[[Transaction], Any]
    durability: Durability
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[Any]"
    brief: bool = False
    """It may be run on the event loop."""
    result: Any = None
    error: BaseException | None = None


class _Signal(Enum):
    LOOK = auto()
    """Transactions wait, or the log has become long."""
    STOP = auto()


class GroupCommitWriter:
    """Runs transactions one after the other on its own thread and connection."""

    def __init__(
        self,
        connection: apsw.Connection,
        *,
        name: str,
        busy_timeout_ms: int,
        threaded: bool = True,
    ) -> None:
        self._connection = connection
        self._busy_timeout_ms = busy_timeout_ms
        self._jobs: deque[Job] = deque()
        self._signals: queue.SimpleQueue[_Signal] = queue.SimpleQueue()
        self._gathering: set[asyncio.AbstractEventLoop] = set()
        """The loops in whose present turn something was submitted."""
        self._turn = threading.Lock()
        """Whoever has it may use the connection."""
        self._log_pages = 0
        self._synchronous: Durability | None = None
        self._in_body = False
        self._path = name
        self._mark = secrets.token_hex(8)
        connection.authorizer = self._authorize
        # Instead of SQLite's own hook, which syncs in the commit that makes the log too long.
        connection.set_wal_hook(self._note_log)
        self._seconds_here = _SECONDS_HERE if threaded else math.inf
        self._thread: threading.Thread | None = None
        if threaded:
            self._thread = threading.Thread(target=self._serve, name=f"writer {name}", daemon=True)
            self._thread.start()

    def submit(self, job: Job) -> None:
        """Put a transaction in line; for the thread of its event loop."""
        self._jobs.append(job)
        if job.loop not in self._gathering:
            self._gathering.add(job.loop)
            job.loop.call_soon(self._wake, job.loop)

    def stop(self) -> None:
        """Finish what was submitted, then end the thread and close the connection."""
        if self._thread is None:
            self._serve_rest()
        else:
            self._signals.put(_Signal.STOP)
            self._thread.join()
        self._connection.close()

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        self._gathering.discard(loop)
        if self._thread is None:
            self._serve_rest()
        elif not self._serve_here(loop):
            self._signals.put(_Signal.LOOK)

    def _serve_here(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Run what waits on this event loop, if it is brief; False if the thread has to do it."""
        # A caller that never pauses would take each turn before the thread can fold the log.
        if self._log_pages >= _LONG_LOG_PAGES or not self._all_brief():
            return False
        if not self._turn.acquire(blocking=False):
            return False
        # Taken out first: the thread may be looking for its next group at the same time.
        jobs = self._next_jobs(_MAX_BRIEF)
        waiting = [job for job in jobs if not job.done.cancelled()]
        try:
            done = all(job.brief and job.loop is loop for job in jobs) and (
                not waiting or self._run_here(waiting)
            )
        except BaseException:
            self._jobs.extendleft(reversed(jobs))
            raise
        finally:
            self._turn.release()
        if not done:
            self._jobs.extendleft(reversed(jobs))
            return False
        _settle(waiting)
        if self._jobs:
            loop.call_soon(self._wake, loop)
        return True

    def _all_brief(self) -> bool:
        try:
            return all(job.brief for job in self._jobs)
        except RuntimeError:  # the thread has just taken some of them
            return False

    def _serve(self) -> None:
        while self._signals.get() is not _Signal.STOP:
            self._serve_group()
        self._serve_rest()

    def _serve_rest(self) -> None:
        while self._jobs:
            self._serve_group()

    def _serve_group(self) -> None:
        group = self._next_jobs(_MAX_GROUP)
        if self._jobs:
            self._signals.put(_Signal.LOOK)
        with self._turn:
            self._run_group(group)
        _announce(group)
        if self._log_pages >= _LONG_LOG_PAGES:
            with self._turn:
                self._fold()

    def _next_jobs(self, most: int) -> list[Job]:
        """Those that wait, up to a limit."""
        jobs: list[Job] = []
        with contextlib.suppress(IndexError):
            while len(jobs) < most:
                jobs.append(self._jobs.popleft())
        return jobs

    def _run_here(self, jobs: list[Job]) -> bool:
        """Commit these on the thread of the event loop; False if nothing was done, for any reason.

        The thread meets the reason again, and tells the caller.
        """
        connection = self._connection
        connection.set_busy_timeout(0)
        # The time of this thread: what others take from it on a busy machine is not its fault.
        deadline = time.thread_time() + self._seconds_here
        connection.set_progress_handler(lambda: time.thread_time() > deadline, _STEPS_BETWEEN_LOOKS)
        try:
            self._begin(Durability.ORDINARY)
            for job in jobs:
                job.result = self._run_body(job.body)
            self._run("COMMIT")
        except Exception:  # noqa: BLE001 - see above
            self._take_back()
            return False
        except BaseException:
            # An interrupt of the person: nobody may find the database locked after it.
            self._take_back()
            raise
        finally:
            connection.set_progress_handler(None)
            connection.set_busy_timeout(self._busy_timeout_ms)
        if self._log_pages >= _LONG_LOG_PAGES:
            self._signals.put(_Signal.LOOK)
        return True

    def _note_log(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _fold(self) -> None:
        """Copy the log into the file. If it cannot be done now, the next commit asks again."""
        self._log_pages = 0
        with contextlib.suppress(apsw.Error):
            self._connection.wal_checkpoint()

    def write_anew(self) -> bool:
        """Write the file without the pages that nothing is on any more, and cut the log off: what
        was deleted is not there. False if another process is in the way."""
        with self._turn:
            try:
                self._connection.execute("VACUUM")
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except (apsw.BusyError, apsw.LockedError):
                return False
        return True

    def _run_group(self, group: list[Job]) -> None:
        # A caller that gave up before its turn came gets nothing done.
        waiting = [job for job in group if not job.done.cancelled()]
        try:
            if not waiting or self._commit(waiting) or len(waiting) == 1:
                return
            # One bad transaction (a full disk, say) must not take its neighbours with it.
            while waiting:
                self._commit(waiting[:1])
                del waiting[0]
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
            # No transaction could be begun. The others would wait just as long in vain.
            for job in waiting:
                job.error = self._ours(error)

    def _commit(self, jobs: list[Job]) -> bool:
        """Run these in one transaction; raises if it cannot be begun, False if it was lost."""
        trust = any(job.durability is Durability.TRUST for job in jobs)
        durability = Durability.TRUST if trust else Durability.ORDINARY
        self._begin(durability)
        together = len(jobs) == 1 or self._run_together(jobs)
        if not together:
            self._begin(durability)
        try:
            if len(jobs) == 1:
                return self._run_alone(jobs[0])
            for job in () if together else jobs:
                self._run_apart(job)
            self._run("COMMIT")
        except Exception as error:  # noqa: BLE001 - whatever it is, its callers must hear of it
            self._take_back()
            for job in jobs:
                job.error = job.error or self._ours(error)
            return False
        return True

    def _begin(self, wanted: Durability) -> None:
        self._take_back()
        if wanted is not self._synchronous:
            self._run(f"PRAGMA synchronous={wanted.value}")
            self._synchronous = wanted
        self._run("BEGIN IMMEDIATE")

    def _run_alone(self, job: Job) -> bool:
        """The only one of its transaction. A savepoint would keep a copy of every page for it."""
        job.error = None
        try:
            job.result = self._run_body(job.body)
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller, not to this thread
            job.error = error
            self._take_back()
        else:
            self._run("COMMIT")
        return True

    def _run_together(self, jobs: list[Job]) -> bool:
        """One after the other; False if one has failed, and what the others did must be undone."""
        try:
            for job in jobs:
                job.error = None
                job.result = self._run_body(job.body)
        except BaseException:  # noqa: BLE001 - it is met again in the savepoint of its own job
            return False
        return True

    def _run_apart(self, job: Job) -> None:
        """In a savepoint, so that only what this one did is undone if it fails."""
        job.error = None
        self._run("SAVEPOINT job")
        try:
            job.result = self._run_body(job.body)
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller, not to this thread
            job.error = error
        # Both fail if SQLite has taken the whole group back, which must then be run again.
        if job.error is not None:
            self._run("ROLLBACK TO job")
        self._run("RELEASE job")

    def _run_body(self, body: Callable[[Transaction], T]) -> T:
        transaction = ConnectionTransaction(self._connection, self._path)
        self._in_body = True
        try:
            return body(transaction)
        finally:
            self._in_body = False
            transaction.end()

    def _take_back(self) -> None:
        """Roll back what is open. If even that fails, the next `BEGIN` fails, and says so."""
        if self._connection.in_transaction:
            with contextlib.suppress(apsw.Error):
                self._run("ROLLBACK")

    def _run(self, sql: str) -> None:
        # The mark keeps these apart from a body's in the cache of prepared statements: a statement
        # from the cache does not meet the authorizer again.
        self._connection.execute(f"{sql} -- {self._mark}")

    def _authorize(self, operation: int, *_details: str | None) -> int:
        """Beginning and ending is the writer's: a body that commits would split its group."""
        refused = self._in_body and operation in _TRANSACTION_CONTROL
        return apsw.SQLITE_DENY if refused else apsw.SQLITE_OK

    def _ours(self, error: Exception) -> Exception:
        return translate(error, path=self._path) if isinstance(error, apsw.Error) else error


def _announce(group: list[Job]) -> None:
    """Tell the waiting callers, one wake-up for each event loop."""
    for loop in {job.loop for job in group}:
        mine = [job for job in group if job.loop is loop]
        # A loop that has closed has nobody waiting any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, mine)


def _settle(jobs: list[Job]) -> None:
    for job in jobs:
        if job.done.done():
            continue
        if job.error is None:
            job.done.set_result(job.result)
        elif isinstance(job.error, StopIteration):
            # A future cannot carry it, and it would mean something else to the caller.
            job.done.set_exception(RuntimeError("the transaction's body raised StopIteration"))
        else:
            job.done.set_exception(job.error)
