"""The one writer of a database file: a thread that commits transactions in groups.

Callers hand over whole transactions. The writer takes all that wait, runs each inside a savepoint
of one SQLite transaction, and commits once; so a hundred callers pay for one disk sync. A caller
is told only after that commit. If any of the group needs `TRUST`, the group's commit is synced.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apsw

from silas.storage.errors import translate
from silas.storage.ports import Durability, Row, SqlValue, Transaction

_MAX_GROUP = 256


@dataclass(slots=True)
class Job:
    """A transaction that someone waits for."""

    body: Callable[[Transaction], Any]
    durability: Durability
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[Any]"
    result: Any = None
    error: BaseException | None = None


class ConnectionTransaction:
    """`Transaction` on an APSW connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._run = connection.execute

    def execute(self, sql: str, params: Sequence[SqlValue] = ()) -> int:
        before = self._connection.total_changes()
        for _ in self._run(sql, params or None):
            pass
        return self._connection.total_changes() - before

    def fetch_one(self, sql: str, params: Sequence[SqlValue] = ()) -> Row | None:
        cursor = self._run(sql, params or None)
        row = cursor.fetchone()
        cursor.close(True)
        return row

    def fetch_all(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        return self._run(sql, params or None).fetchall()

    def rows(self, sql: str, params: Sequence[SqlValue] = ()) -> Iterator[Row]:
        yield from self._run(sql, params or None)


class GroupCommitWriter:
    """Runs transactions one after the other on its own thread and connection."""

    def __init__(self, connection: apsw.Connection, *, name: str) -> None:
        self._connection = connection
        self._run = connection.execute
        self._transaction = ConnectionTransaction(connection)
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._synchronous: Durability | None = None
        self._path = name
        self._thread = threading.Thread(target=self._serve, name=f"writer {name}", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Put a transaction in line."""
        self._jobs.put(job)

    def stop(self) -> None:
        """Finish what was submitted, then end the thread and close the connection."""
        self._jobs.put(None)
        self._thread.join()
        self._connection.close()

    def _serve(self) -> None:
        stopping = False
        while not stopping:
            group: list[Job] = []
            job = self._jobs.get()
            while job is not None:
                group.append(job)
                if len(group) == _MAX_GROUP:
                    break
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            stopping = job is None
            if group:
                self._run_group(group)
                _announce(group)

    def _run_group(self, group: list[Job]) -> None:
        # A caller that gave up before its turn came gets nothing done.
        wanted = [job for job in group if not job.done.cancelled()]
        if self._commit_together(wanted) or len(wanted) <= 1:
            return
        # One bad transaction (a full disk, say) must not take its neighbours with it.
        for job in wanted:
            job.error = None
            self._commit_together([job])

    def _commit_together(self, jobs: list[Job]) -> bool:
        try:
            self._set_synchronous(jobs)
            self._run("BEGIN IMMEDIATE")
            for job in jobs:
                self._run_one(job)
            self._run("COMMIT")
        except (apsw.Error, OSError) as error:
            self._give_up(jobs, error)
            return False
        return True

    def _run_one(self, job: Job) -> None:
        self._run("SAVEPOINT job")
        try:
            job.result = job.body(self._transaction)
        except BaseException as error:
            if not self._connection.in_transaction:
                # SQLite has rolled everything back by itself: the whole group must start again.
                raise apsw.AbortError("the transaction was rolled back") from error
            job.error = error
            self._run("ROLLBACK TO job")
        self._run("RELEASE job")

    def _set_synchronous(self, jobs: list[Job]) -> None:
        trust = any(job.durability is Durability.TRUST for job in jobs)
        wanted = Durability.TRUST if trust else Durability.ORDINARY
        if wanted is not self._synchronous:
            self._run(f"PRAGMA synchronous={wanted.value}")
            self._synchronous = wanted

    def _give_up(self, jobs: list[Job], error: apsw.Error | OSError) -> None:
        if self._connection.in_transaction:
            self._run("ROLLBACK")
        cause = error.__cause__ if isinstance(error.__cause__, apsw.Error) else error
        for job in jobs:
            job.error = translate(cause, path=self._path)


def _announce(group: list[Job]) -> None:
    """Tell the waiting callers, one wake-up for each event loop."""
    for loop in {job.loop for job in group}:
        mine = [job for job in group if job.loop is loop]
        try:
            loop.call_soon_threadsafe(_settle, mine)
        except RuntimeError:
            continue  # that loop has closed: nobody waits any more


def _settle(jobs: list[Job]) -> None:
    for job in jobs:
        if job.done.done():
            continue
        if job.error is None:
            job.done.set_result(job.result)
        elif isinstance(job.error, apsw.Error):
            job.done.set_exception(translate(job.error))
        else:
            job.done.set_exception(job.error)
