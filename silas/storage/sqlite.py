"""`Database` on SQLite, through APSW: one writer thread, readers beside it.

A short read runs on the event loop itself, which is faster than any hop to a thread. It gets a
budget of virtual-machine steps; one that exceeds it is stopped and run again on a reader thread,
so that no query, however bad, blocks the loop.
"""

import asyncio
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self, TypeVar

import apsw

from silas.storage.errors import DatabaseNotOpened, translated
from silas.storage.files import ensure_private_file, make_private_directory
from silas.storage.ports import Durability, Reader, Row, SqlValue, Transaction
from silas.storage.writer import ConnectionTransaction, GroupCommitWriter, Job

T = TypeVar("T")

_BUSY_TIMEOUT_MS = 5000
_STEPS_ON_THE_LOOP = 20_000  # about a millisecond
_READER_THREADS = 4


class SqliteDatabase:
    """One SQLite file in WAL mode. Create it with `open`, end it with `close`."""

    def __init__(self, path: Path, writer: GroupCommitWriter, near: apsw.Connection) -> None:
        self._path = path
        self._writer = writer
        self._near = near
        self._near_reader = ConnectionTransaction(near)
        self._far: queue.LifoQueue[apsw.Connection] = queue.LifoQueue()
        self._threads = ThreadPoolExecutor(_READER_THREADS, thread_name_prefix="reader")
        self._closed = False

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the file, creating it (readable by its owner alone) if it is missing."""
        with translated(str(path)):
            make_private_directory(path.parent)
            ensure_private_file(path)
            writing = _connect(path)
            writing.execute("PRAGMA journal_mode=WAL")
            near = _connect(path, read_only=True)
            near.set_busy_timeout(0)
            near.set_progress_handler(lambda: True, _STEPS_ON_THE_LOOP)
        return cls(path, GroupCommitWriter(writing, name=str(path)), near)

    async def execute(
        self,
        sql: str,
        params: Sequence[SqlValue] = (),
        *,
        durability: Durability = Durability.ORDINARY,
    ) -> int:
        return await self.transaction(lambda tx: tx.execute(sql, params), durability=durability)

    async def fetch_one(self, sql: str, params: Sequence[SqlValue] = ()) -> Row | None:
        return await self._read(lambda reader: reader.fetch_one(sql, params))

    async def fetch_all(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        return await self._read(lambda reader: reader.fetch_all(sql, params))

    async def transaction(
        self, body: Callable[[Transaction], T], *, durability: Durability = Durability.ORDINARY
    ) -> T:
        self._check_open()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._writer.submit(Job(body, durability, loop, done))
        return await done

    async def snapshot(self, body: Callable[[Reader], T]) -> T:
        self._check_open()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._read_far, body)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._shut_down)
        self._near.close()

    def _shut_down(self) -> None:
        self._threads.shutdown(wait=True)
        self._writer.stop()
        while not self._far.empty():
            self._far.get_nowait().close()

    async def _read(self, body: Callable[[Reader], T]) -> T:
        self._check_open()
        try:
            return body(self._near_reader)
        except (apsw.InterruptError, apsw.BusyError, apsw.LockedError):
            return await self.snapshot(body)
        except apsw.Error:
            with translated(str(self._path)):
                raise

    def _read_far(self, body: Callable[[Reader], T]) -> T:
        with translated(str(self._path)):
            try:
                connection = self._far.get_nowait()
            except queue.Empty:
                connection = _connect(self._path, read_only=True)
            try:
                connection.execute("BEGIN")
                try:
                    return body(ConnectionTransaction(connection))
                finally:
                    connection.execute("ROLLBACK")
            finally:
                self._far.put(connection)

    def _check_open(self) -> None:
        if self._closed:
            raise DatabaseNotOpened(f"{self._path} has been closed. Open it again first.")


def _connect(path: Path, *, read_only: bool = False) -> apsw.Connection:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
    connection.execute("PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF")
    if read_only:
        connection.execute("PRAGMA query_only=ON")
    return connection
