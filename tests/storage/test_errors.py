"""Whatever is wrong with a file, the answer is one of our errors, and a sentence."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from silas.kernel import DatabaseError
from silas.storage import (
    DatabaseBusy,
    DatabaseConstraint,
    DatabaseCorrupt,
    DatabaseNotOpened,
    DatabaseReadOnly,
    DiskFull,
    Durability,
    SqliteDatabase,
)
from silas.storage.errors import translate, translated

ROWS = "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 2000)"


def make_database(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    connection.execute(f"INSERT INTO t (name) {ROWS} SELECT 'name ' || n FROM c")
    connection.close()


def not_a_database(path: Path) -> None:
    path.write_bytes(b"This is not a database. " * 500)


def a_directory(path: Path) -> None:
    path.mkdir()


def a_link(path: Path) -> None:
    make_database(path.with_name("elsewhere.db"))
    path.symlink_to("elsewhere.db")


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def below_a_file(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("in the way")


def damaged(path: Path) -> None:
    """The header is intact, everything behind it is not."""
    make_database(path)
    content = bytearray(path.read_bytes())
    content[100:] = b"\xa5" * (len(content) - 100)
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (not_a_database, DatabaseCorrupt),
        (damaged, DatabaseCorrupt),
        (a_directory, DatabaseNotOpened),
        (a_link, DatabaseNotOpened),
        (a_pipe, DatabaseNotOpened),
        (below_a_file, DatabaseNotOpened),
    ],
)
def test_a_bad_file(
    tmp_path: Path, damage: Callable[[Path], None], kind: type[DatabaseError]
) -> None:
    path = tmp_path / "data" / "silas.db"
    path.parent.mkdir()
    damage(path)
    with pytest.raises(kind) as caught:
        SqliteDatabase.open(path)
    assert str(path) in caught.value.message
    assert caught.value.details == {"path": str(path)}
    assert isinstance(caught.value.__cause__, apsw.Error | OSError)


async def test_damage_that_shows_later(tmp_path: Path) -> None:
    path = tmp_path / "silas.db"
    make_database(path)
    content = bytearray(path.read_bytes())
    content[4096 * 2 :] = b"\xa5" * (len(content) - 4096 * 2)
    path.write_bytes(content)
    database = SqliteDatabase.open(path)
    scan = "SELECT sum(length(name)) FROM t"
    for use in (
        database.fetch_all(scan),
        database.fetch_one(scan),
        database.execute("UPDATE t SET name = 'x'"),
        database.snapshot(lambda reader: list(reader.rows(scan))),
    ):
        with pytest.raises(DatabaseCorrupt):
            await use
    await database.close()


@contextmanager
def a_directory_for_nobody() -> Iterator[Path]:
    """A place that an unprivileged user could enter; as root, become one for a while."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    was_root = os.geteuid() == 0
    try:
        yield place
    finally:
        if was_root:
            os.seteuid(0)
        shutil.rmtree(place)


def test_a_file_that_may_not_be_read() -> None:
    with a_directory_for_nobody() as place:
        path = place / "silas.db"
        make_database(path)
        path.chmod(0)
        if os.geteuid() == 0:
            os.seteuid(65534)
        with pytest.raises(DatabaseNotOpened, match="may read and write"):
            SqliteDatabase.open(path)


def test_a_file_that_may_not_be_written() -> None:
    with a_directory_for_nobody() as place:
        path = place / "silas.db"
        make_database(path)
        path.chmod(0o444)
        if os.geteuid() == 0:
            os.seteuid(65534)
        with pytest.raises(DatabaseReadOnly):
            SqliteDatabase.open(path)


def test_a_directory_that_may_not_be_written() -> None:
    with a_directory_for_nobody() as place:
        place.chmod(0o555)
        if os.geteuid() == 0:
            os.seteuid(65534)
        with pytest.raises(DatabaseReadOnly):
            SqliteDatabase.open(place / "data" / "silas.db")
        assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("sql", "params", "kind"),
    [
        ("SELEC 1", (), DatabaseError),
        ("SELECT * FROM nowhere", (), DatabaseError),
        ("SELECT ?", (), DatabaseError),
        ("SELECT ?", (1, 2), DatabaseError),
        ("SELECT abs(-9223372036854775808)", (), DatabaseError),
    ],
)
async def test_broken_sql(
    database: SqliteDatabase, sql: str, params: tuple[int, ...], kind: type[DatabaseError]
) -> None:
    for use in (
        database.execute(sql, params),
        database.fetch_one(sql, params),
        database.fetch_all(sql, params),
        database.transaction(lambda tx: list(tx.rows(sql, params))),
        database.snapshot(lambda reader: list(reader.rows(sql, params))),
    ):
        with pytest.raises(kind) as caught:
            await use
        assert type(caught.value) is kind


async def test_a_broken_rule(database: SqliteDatabase) -> None:
    await database.execute("INSERT INTO t VALUES (1, 'a')")
    for sql in ("INSERT INTO t VALUES (1, 'b')", "INSERT INTO t VALUES (2, NULL)"):
        with pytest.raises(DatabaseConstraint, match="constraint failed"):
            await database.execute(sql, durability=Durability.TRUST)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (apsw.FullError("x"), DiskFull),
        (apsw.IOError("disk I/O error"), DatabaseError),
        (apsw.ReadOnlyError("x"), DatabaseReadOnly),
        (apsw.PermissionsError("x"), DatabaseReadOnly),
        (apsw.BusyError("x"), DatabaseBusy),
        (apsw.LockedError("x"), DatabaseBusy),
        (apsw.CorruptError("x"), DatabaseCorrupt),
        (apsw.NotADBError("x"), DatabaseCorrupt),
        (apsw.CantOpenError("x"), DatabaseNotOpened),
        (apsw.ConstraintError("x"), DatabaseConstraint),
        (apsw.SQLError("x"), DatabaseError),
        (OSError(errno.ENOSPC, "x"), DiskFull),
        (OSError(errno.EDQUOT, "x"), DiskFull),
        (OSError(errno.EROFS, "x"), DatabaseReadOnly),
        (OSError(errno.EACCES, "x"), DatabaseReadOnly),
        (OSError(errno.EPERM, "x"), DatabaseReadOnly),
        (OSError(errno.ENOENT, "x"), DatabaseNotOpened),
        (OSError("without a number"), DatabaseNotOpened),
    ],
)
def test_the_translation(error: apsw.Error | OSError, kind: type[DatabaseError]) -> None:
    ours = translate(error, path="/somewhere/silas.db")
    assert type(ours) is kind
    assert ours.message == f"/somewhere/silas.db: {kind.sentence()} ({error})"
    assert translate(error).message == f"{kind.sentence()} ({error})"
    with pytest.raises(kind), translated("/somewhere"):
        raise error


def test_other_exceptions_pass_through() -> None:
    with pytest.raises(LookupError), translated():
        raise LookupError
