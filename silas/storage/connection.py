"""`Reader` and `Transaction` on an APSW connection: our errors, and no cursor left open."""

from collections.abc import Iterable, Iterator, Sequence

import apsw

from silas.kernel import DatabaseError
from silas.storage.errors import translate
from silas.storage.ports import Row, SqlValue


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
        self._check()
        return self._connection.execute(sql, params or None)

    def _check(self) -> None:
        if self._ended:
            raise DatabaseError("This view of the database has ended. Ask for a new one.")


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
        self._check()
        try:
            return self._connection.executemany(sql, params).fetchall()
        except apsw.Error as error:
            raise translate(error, path=self._path) from error

    def _check(self) -> None:
        super()._check()
        if not self._connection.in_transaction:
            # SQLite takes everything back by itself when, say, the disk is full. A body that went
            # on regardless would write outside of any transaction.
            raise DatabaseError("The transaction was taken back. Nothing of it remains.")
