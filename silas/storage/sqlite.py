"""`Database` on SQLite, through APSW: one writer thread, readers beside it.

A short read runs on the event loop itself, which is faster than any hop to a thread. It gets a
budget of virtual-machine steps; one that exceeds it is stopped and run again on a reader thread,
so that no query, however bad, blocks the loop.
"""

import asyncio
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self, TypeVar

import apsw

from silas.kernel import DatabaseError
from silas.storage.errors import DatabaseNotOpened, translate, translated
from silas.storage.files import ensure_private_file, make_private_directory
from silas.storage.ports import Durability, Reader, Row, SqlValue, Transaction
from silas.storage.writer import ConnectionReader, GroupCommitWriter, Job

T = TypeVar("T")

_BUSY_TIMEOUT_MS = 5000
_STEPS_BETWEEN_LOOKS = 10_000  # about half a millisecond
_READER_THREADS = 4
# APSW keeps prepared statements in a ring, and one that is run for a hundred rows takes a hundred
# places in turn: the usual hundred would be swept clean each time.
_PREPARED_STATEMENTS = 1024
_WORTH_A_THREAD = (apsw.InterruptError, apsw.BusyError, apsw.LockedError)


class SqliteDatabase:
    """One SQLite file in WAL mode. Create it with `open`, end it with `close`."""

    def __init__(
        self, path: Path, writer: GroupCommitWriter, near: apsw.Connection, *, vfs: str | None
    ) -> None:
        self._path = path
        self._vfs = vfs
        self._writer = writer
        self._near = near
        self._near_reader = ConnectionReader(near, str(path))
        self._looks = 0
        near.set_progress_handler(self._is_long, _STEPS_BETWEEN_LOOKS)
        self._far: queue.LifoQueue[apsw.Connection] = queue.LifoQueue()
        self._threads = ThreadPoolExecutor(_READER_THREADS, thread_name_prefix="reader")
        self._closed = False

    @classmethod
    def open(cls, path: Path, *, vfs: str | None = None, threaded: bool = True) -> Self:
        """Open the file, creating it (readable by its owner alone) if it is missing.

        A simulation names the disk it makes (`vfs`, as SQLite calls it) and allows no thread: its
        transactions run on the event loop, and so do all reads if that loop has no threads.
        """
        with translated(str(path)):
            make_private_directory(path.parent)
            ensure_private_file(path)
            writing = _connect(path, vfs=vfs)
            if writing.readonly("main"):
                raise apsw.ReadOnlyError("opened for reading only")
            _use_write_ahead_log(writing)
            # Without this, macOS leaves a synced commit in the cache of the drive.
            writing.execute("PRAGMA fullfsync=ON")
            # What a change leaves behind on a page that is written anyway is overwritten.
            writing.execute("PRAGMA secure_delete=FAST")
            # The copies of pages that a savepoint needs would else go to a file in the system's
            # directory for temporary files: slower, and outside of what we keep private.
            writing.execute("PRAGMA temp_store=MEMORY")
            near = _connect(path, vfs=vfs, read_only=True)
            near.set_busy_timeout(0)
        writer = GroupCommitWriter(
            writing, name=str(path), busy_timeout_ms=_BUSY_TIMEOUT_MS, threaded=threaded
        )
        return cls(path, writer, near, vfs=vfs)

    async def execute(
        self,
        sql: str,
        params: Sequence[SqlValue] = (),
        *,
        durability: Durability = Durability.ORDINARY,
    ) -> int:
        return await self.transaction(lambda tx: tx.execute(sql, params), durability=durability)

    async def fetch_one(self, sql: str, params: Sequence[SqlValue] = ()) -> Row | None:
        self._begin_near()
        try:
            return self._near_reader.fetch_one(sql, params)
        except DatabaseError as error:
            _raise_unless_worth_a_thread(error, error.__cause__)
        return await self.snapshot(lambda reader: reader.fetch_one(sql, params))

    async def fetch_all(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        self._begin_near()
        try:
            return self._near_reader.fetch_all(sql, params)
        except DatabaseError as error:
            _raise_unless_worth_a_thread(error, error.__cause__)
        return await self.snapshot(lambda reader: reader.fetch_all(sql, params))

    async def transaction(
        self,
        body: Callable[[Transaction], T],
        *,
        durability: Durability = Durability.ORDINARY,
        brief: bool = False,
    ) -> T:
        self._check_open()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        brief = brief and durability is Durability.ORDINARY
        self._writer.submit(Job(body, durability, loop, done, brief))
        return await done

    def snapshot_here(self, body: Callable[[Reader], T]) -> T | None:
        self._begin_near()
        try:
            return _read_once(self._near, body, str(self._path))
        except apsw.Error as error:
            _raise_unless_worth_a_thread(translate(error, path=str(self._path)), error)
        except DatabaseError as error:
            _raise_unless_worth_a_thread(error, error.__cause__)
        return None

    async def snapshot(self, body: Callable[[Reader], T]) -> T:
        self._check_open()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._read_far, body)

    async def write_anew(self) -> bool:
        """Leave nothing in the file or its log that was erased; False if it cannot be done now."""
        self._check_open()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._writer.write_anew)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._shut_down)

    def _shut_down(self) -> None:
        self._threads.shutdown(wait=True)
        with translated(str(self._path)):
            while not self._far.empty():
                self._far.get_nowait().close()
            self._near.close()
            # Last: only a connection that may write can fold the log into the file.
            self._writer.stop()

    def _begin_near(self) -> None:
        if self._closed:
            raise self._is_closed()
        self._looks = 0

    def _is_long(self) -> bool:
        """Called every so many steps. SQLite goes on counting from one read to the next, so the
        first call says nothing about this one."""
        self._looks += 1
        return self._looks > 1

    def _read_far(self, body: Callable[[Reader], T]) -> T:
        try:
            connection = self._far.get_nowait()
        except queue.Empty:
            with translated(str(self._path)):
                connection = _connect(self._path, vfs=self._vfs, read_only=True)
        try:
            return _read_once(connection, body, str(self._path))
        except apsw.Error as error:
            raise translate(error, path=str(self._path)) from error
        finally:
            self._far.put(connection)

    def _check_open(self) -> None:
        if self._closed:
            raise self._is_closed()

    def _is_closed(self) -> DatabaseNotOpened:
        return DatabaseNotOpened(f"{self._path} has been closed. Open it again first.")


def _raise_unless_worth_a_thread(error: Exception, cause: BaseException | None) -> None:
    if not isinstance(cause, _WORTH_A_THREAD):
        raise error from cause


def _read_once(connection: apsw.Connection, body: Callable[[Reader], T], path: str) -> T:
    reader = ConnectionReader(connection, path)
    connection.execute("BEGIN")
    try:
        return body(reader)
    finally:
        reader.end()
        connection.execute("ROLLBACK")


def _use_write_ahead_log(connection: apsw.Connection) -> None:
    """Switch the mode. Of two processes that do it at once, SQLite lets neither wait by itself."""
    deadline = time.monotonic() + _BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _connect(path: Path, *, vfs: str | None, read_only: bool = False) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    connection = apsw.Connection(
        str(path), flags=flags, vfs=vfs, statementcachesize=_PREPARED_STATEMENTS
    )
    connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
    # Else SQLite looks at the values while it plans, and plans anew whenever they change: a lease
    # from a queue would spend five times as long on its plan as on its work.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.execute("PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF")
    return connection
