"""Migrations: applied once, in order, checked against what was applied; or nothing at all."""

from collections.abc import Callable
from importlib import resources
from pathlib import Path

import apsw
import pytest

from silas.kernel import DatabaseError, format_timestamp
from silas.storage import (
    DatabaseFromTheFuture,
    Migration,
    MigrationDrift,
    MigrationMissing,
    SqliteDatabase,
    load_migrations,
    migrate,
)
from silas.storage.migrations import check_applied, read_migrations
from silas.testing import FakeClock

SHIPPED = sorted(
    folder.name
    for folder in resources.files("silas.storage").joinpath("migrations").iterdir()
    if folder.is_dir()
)
FIRST = Migration("001_first", "CREATE TABLE IF NOT EXISTS one (id INTEGER)")
SECOND = Migration(
    "002_second",
    """
    -- A comment; with a semicolon.
    CREATE TABLE IF NOT EXISTS two (id INTEGER PRIMARY KEY, note TEXT);
    INSERT INTO two VALUES (1, 'a;b') ON CONFLICT DO NOTHING;
    CREATE TRIGGER IF NOT EXISTS keep AFTER DELETE ON two BEGIN
        INSERT INTO two VALUES (old.id, old.note);
    END;
    """,
)
THIRD = Migration("003_third", "CREATE TABLE IF NOT EXISTS three (id INTEGER)")


async def schema_of(database: SqliteDatabase) -> list[str]:
    rows = await database.fetch_all("SELECT name FROM sqlite_schema WHERE sql IS NOT NULL")
    return sorted(name for (name,) in rows if name not in {"t", "applied_migrations"})


async def applied_in(database: SqliteDatabase) -> list[tuple[str, ...]]:
    return await database.fetch_all(
        "SELECT id, checksum, applied_at FROM applied_migrations ORDER BY id"
    )


async def test_migrations_are_applied_in_order_and_recorded(database: SqliteDatabase) -> None:
    clock = FakeClock()
    first_day = format_timestamp(clock.now())
    assert await migrate(database, [FIRST, SECOND], clock=clock) == ["001_first", "002_second"]
    clock.advance(days=1)
    assert await migrate(database, [FIRST, SECOND, THIRD], clock=clock) == ["003_third"]
    assert await migrate(database, [FIRST, SECOND, THIRD], clock=clock) == []
    assert await schema_of(database) == ["keep", "one", "three", "two"]
    assert await applied_in(database) == [
        ("001_first", FIRST.checksum, first_day),
        ("002_second", SECOND.checksum, first_day),
        ("003_third", THIRD.checksum, format_timestamp(clock.now())),
    ]


@pytest.mark.parametrize("name", SHIPPED)
async def test_each_shipped_file_can_run_twice(tmp_path: Path, name: str) -> None:
    connection = apsw.Connection(str(tmp_path / "x.db"))
    for migration in load_migrations(name):
        connection.execute(migration.sql)
        before = connection.execute("SELECT * FROM sqlite_schema").fetchall()
        connection.execute(migration.sql)
        assert connection.execute("SELECT * FROM sqlite_schema").fetchall() == before
    connection.close()


@pytest.mark.parametrize("name", SHIPPED)
async def test_the_shipped_migrations_apply_and_are_then_complete(
    database: SqliteDatabase, name: str
) -> None:
    migrations = load_migrations(name)
    ids = [migration.id for migration in migrations]
    assert await migrate(database, migrations, clock=FakeClock()) == ids
    assert await migrate(database, migrations, clock=FakeClock()) == []


def test_the_runtime_migrations_are_shipped() -> None:
    assert "runtime" in SHIPPED
    assert load_migrations("runtime")[0].id == "001_ground"


CHANGED = Migration("001_first", FIRST.sql + " ")
RENAMED = Migration("001_other", FIRST.sql)


@pytest.mark.parametrize(
    ("applied", "here", "kind", "named"),
    [
        ([FIRST], [CHANGED], MigrationDrift, "001_first"),
        ([FIRST, SECOND], [CHANGED, SECOND, THIRD], MigrationDrift, "001_first"),
        ([FIRST, SECOND], [FIRST], DatabaseFromTheFuture, "002_second"),
        ([FIRST], [], DatabaseFromTheFuture, "001_first"),
        ([FIRST, SECOND], [SECOND], MigrationMissing, "001_first"),
        ([FIRST], [RENAMED], MigrationMissing, "001_first"),
        ([RENAMED], [FIRST], MigrationMissing, "001_other"),
        ([FIRST, SECOND, THIRD], [FIRST, THIRD], MigrationMissing, "002_second"),
        ([FIRST, SECOND], [CHANGED], MigrationDrift, "001_first"),
    ],
)
async def test_a_difference_stops_everything_unchanged(
    database: SqliteDatabase,
    applied: list[Migration],
    here: list[Migration],
    kind: type[DatabaseError],
    named: str,
) -> None:
    await migrate(database, applied, clock=FakeClock())
    before = (await schema_of(database), await applied_in(database))
    with pytest.raises(kind, match=named) as caught:
        await migrate(database, here, clock=FakeClock())
    assert type(caught.value) is kind
    assert caught.value.details == {"migration": named}
    assert (await schema_of(database), await applied_in(database)) == before


@pytest.mark.parametrize("number", range(1, 13))
def test_numbers_are_compared_as_numbers(number: int) -> None:
    known = [Migration(f"{n:03}_x", "") for n in range(1, 11)]
    applied = {f"{number:03}_x": known[0].checksum}
    if number <= 10:
        check_applied(applied, known)
    else:
        with pytest.raises(DatabaseFromTheFuture):
            check_applied(applied, known)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE two (id INTEGER); INSERT INTO nowhere VALUES (1)",
        "CREATE TABLE two (id INTEGER); SELEC",
        "CREATE TABLE two (id INTEGER); COMMIT; CREATE TABLE three (id INTEGER)",
        "INSERT INTO one VALUES (7); DROP TABLE one; CREATE TABLE t (id INTEGER)",
    ],
)
async def test_a_migration_that_fails_leaves_nothing(database: SqliteDatabase, sql: str) -> None:
    failing = Migration("002_failing", sql)
    with pytest.raises(DatabaseError):
        await migrate(database, [FIRST, failing, THIRD], clock=FakeClock())
    assert await schema_of(database) == ["one"]
    assert await database.fetch_all("SELECT * FROM one") == []
    assert [row[0] for row in await applied_in(database)] == ["001_first"]
    assert await migrate(database, [FIRST, SECOND], clock=FakeClock()) == ["002_second"]


async def test_a_schema_that_is_up_to_date_needs_no_lock_beyond_a_glance(
    database: SqliteDatabase,
) -> None:
    await migrate(database, [FIRST, SECOND], clock=FakeClock())
    changes = database._writer._connection.total_changes()
    await migrate(database, [FIRST, SECOND], clock=FakeClock())
    assert database._writer._connection.total_changes() == changes


def write_files(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_text(f"-- {name}", newline="")
    return folder


def test_files_are_read_in_order(tmp_path: Path) -> None:
    folder = write_files(tmp_path, "002_b.sql", "001_a.sql", "003_c_2.sql", "README.md")
    assert read_migrations(folder) == [
        Migration("001_a", "-- 001_a.sql"),
        Migration("002_b", "-- 002_b.sql"),
        Migration("003_c_2", "-- 003_c_2.sql"),
    ]


@pytest.mark.parametrize(
    "names",
    [
        ["001_a.sql", "003_c.sql"],
        ["002_b.sql"],
        ["000_a.sql", "001_b.sql"],
        ["001_a.sql", "001_b.sql"],
        ["001_a.sql", "two.sql"],
        ["1_a.sql"],
        ["001-a.sql"],
        ["001_A.sql"],
        ["001_a.sql.sql"],
        ["README.md"],
        [],
    ],
)
def test_a_gap_or_a_stray_name_is_refused(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(MigrationMissing, match="not numbered 1, 2, 3"):
        read_migrations(write_files(tmp_path, *names))


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MigrationMissing):
        load_migrations("no such database")
    with pytest.raises(MigrationMissing):
        read_migrations(tmp_path / "nowhere")


@pytest.mark.parametrize("change", [str.upper, lambda sql: sql + "\n", lambda sql: sql[:-1]])
def test_any_change_of_a_file_changes_its_checksum(change: Callable[[str], str]) -> None:
    assert Migration("001_first", change(FIRST.sql)).checksum != FIRST.checksum
    assert len(FIRST.checksum) == 64
