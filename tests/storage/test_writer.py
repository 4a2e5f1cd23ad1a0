"""The writer: groups that share a commit, and neighbours that do not hurt each other."""

import asyncio
import threading
from pathlib import Path

import apsw
import pytest

from silas.kernel import DatabaseError
from silas.storage import (
    DatabaseBusy,
    DatabaseConstraint,
    Durability,
    SqliteDatabase,
    Transaction,
)
from silas.storage.writer import Job
from tests.storage.held_writer import Body, held, insert, names, run_as_group, submit

TABLE_WITH_REFERENCE = """
    CREATE TABLE child (t_id INTEGER REFERENCES t (id) DEFERRABLE INITIALLY DEFERRED)
"""


def writing_connection(database: SqliteDatabase) -> apsw.Connection:
    return database._writer._connection


def count_commits(database: SqliteDatabase) -> list[bool]:
    """Grows by one with each commit from now on; `held` adds one of its own."""
    commits: list[bool] = []

    def hook() -> bool:
        commits.append(True)
        return False

    writing_connection(database).set_commit_hook(hook)
    return commits


async def test_a_group_shares_one_commit_and_keeps_its_order(database: SqliteDatabase) -> None:
    commits = count_commits(database)
    results = await run_as_group(database, [insert(f"row {n}") for n in range(100)])
    assert results == list(range(1, 101))
    assert await names(database) == [f"row {n}" for n in range(100)]
    assert len(commits) == 1 + 1


async def test_more_than_a_full_group_is_split_without_loss(database: SqliteDatabase) -> None:
    commits = count_commits(database)
    results = await run_as_group(database, [insert("row")] * 600)
    assert results == list(range(1, 601))
    assert len(commits) == 1 + 3


async def test_callers_that_come_back_together_stay_together(database: SqliteDatabase) -> None:
    commits = count_commits(database)

    async def caller() -> None:
        for _ in range(10):
            await database.transaction(insert("row"))

    await asyncio.gather(*(caller() for _ in range(20)))
    assert len(commits) == 10


async def test_a_result_is_given_only_after_the_commit(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    outside = apsw.Connection(str(tmp_path / "data" / "silas.db"))

    async def caller(name: str) -> bool:
        await database.transaction(insert(name))
        return bool(outside.execute("SELECT 1 FROM t WHERE name = ?", (name,)).fetchall())

    assert all(await asyncio.gather(*(caller(f"row {n}") for n in range(50))))
    outside.close()


async def test_nothing_of_a_group_is_visible_before_its_commit(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    seen: list[int] = []

    def look(_tx: Transaction) -> None:
        outside = apsw.Connection(str(tmp_path / "data" / "silas.db"))
        seen.append(outside.execute("SELECT count(*) FROM t").fetchall()[0][0])
        outside.close()

    await run_as_group(database, [insert("first"), look, insert("last")])
    assert seen == [0]


def broken_sql(tx: Transaction) -> None:
    insert("lost")(tx)
    tx.execute("INSERT INTO nowhere VALUES (1)")


def constraint(tx: Transaction) -> None:
    insert("lost")(tx)
    tx.execute("INSERT INTO t (name) VALUES (NULL)")


def own_exception(tx: Transaction) -> None:
    insert("lost")(tx)
    raise LookupError("mine")


def takes_everything_back(tx: Transaction) -> None:
    """SQLite itself rolls back the whole transaction, as it does when the disk is full."""
    insert("lost")(tx)
    tx.execute("INSERT INTO t (id, name) VALUES (1000, 'lost')")
    tx.execute("INSERT OR ROLLBACK INTO t (id, name) VALUES (1000, 'lost')")


def takes_everything_back_and_raises(tx: Transaction) -> None:
    try:
        takes_everything_back(tx)
    except DatabaseConstraint:
        raise LookupError("mine") from None


def takes_everything_back_and_hides_it(tx: Transaction) -> str:
    try:
        takes_everything_back(tx)
    except DatabaseConstraint:
        return "all is well"
    return "unreachable"


def takes_everything_back_and_goes_on(tx: Transaction) -> None:
    takes_everything_back_and_hides_it(tx)
    insert("outside of any transaction")(tx)


def fails_at_the_commit(tx: Transaction) -> None:
    insert("lost")(tx)
    tx.execute("INSERT INTO child VALUES (4711)")


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (broken_sql, DatabaseError),
        (constraint, DatabaseConstraint),
        (own_exception, LookupError),
        (takes_everything_back, DatabaseConstraint),
        (takes_everything_back_and_raises, LookupError),
        (takes_everything_back_and_hides_it, DatabaseError),
        (takes_everything_back_and_goes_on, DatabaseError),
        (fails_at_the_commit, DatabaseConstraint),
    ],
)
async def test_one_bad_transaction_does_not_hurt_its_neighbours(
    database: SqliteDatabase, bad: Body, kind: type[Exception]
) -> None:
    await database.execute(TABLE_WITH_REFERENCE)
    group = [insert("before"), bad, insert("between"), bad, insert("after")]
    first, second, third, fourth, fifth = await run_as_group(database, group)
    assert (first, third, fifth) == (1, 2, 3)
    assert type(second) is type(fourth) is kind
    assert await names(database) == ["before", "between", "after"]
    # The same alone, and then the writer still works.
    with pytest.raises(kind):
        await database.transaction(bad)
    assert await database.transaction(insert("later")) == 4


async def test_a_group_that_is_run_again_gives_the_results_of_the_last_run(
    database: SqliteDatabase,
) -> None:
    runs: list[str] = []

    def changing(_tx: Transaction) -> int:
        runs.append("changing")
        return len(runs)

    def fails_once(_tx: Transaction) -> str:
        runs.append("fails once")
        if runs.count("fails once") == 1:
            raise LookupError("only the first time")
        return "fine"

    results = await run_as_group(database, [changing, fails_once, takes_everything_back])
    # Together, then each in its savepoint, then each in a transaction of its own.
    assert runs == ["changing", "fails once"] * 3
    assert results[:2] == [5, "fine"]
    assert isinstance(results[2], DatabaseConstraint)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
async def test_even_a_base_exception_belongs_to_the_caller(
    database: SqliteDatabase, kind: type[BaseException]
) -> None:
    def body(tx: Transaction) -> None:
        insert("lost")(tx)
        raise kind

    with pytest.raises(kind):
        await database.transaction(body)
    assert await database.transaction(insert("kept")) == 1


async def test_stop_iteration_reaches_the_caller_as_an_error(database: SqliteDatabase) -> None:
    def body(tx: Transaction) -> None:
        insert("lost")(tx)
        next(tx.rows("SELECT 1 WHERE 0"))

    results = await run_as_group(database, [body, insert("kept")])
    assert isinstance(results[0], RuntimeError)
    assert "StopIteration" in str(results[0])
    assert results[1] == 1


async def test_each_caller_gets_its_own_exception(database: SqliteDatabase) -> None:
    async def caller(n: int) -> str:
        def body(_tx: Transaction) -> None:
            raise LookupError(f"of {n}")

        with pytest.raises(LookupError) as caught:
            await database.transaction(body)
        return str(caught.value)

    assert await asyncio.gather(*(caller(n) for n in range(20))) == [f"of {n}" for n in range(20)]


@pytest.mark.parametrize(
    "sql",
    [
        "COMMIT",
        "END",
        "ROLLBACK",
        "BEGIN",
        "SAVEPOINT job",
        "RELEASE job",
        "ROLLBACK TO job",
        "-- quietly\n commit transaction",
        "INSERT INTO t (name) VALUES ('x'); COMMIT; INSERT INTO t (name) VALUES ('y')",
    ],
)
async def test_a_body_cannot_begin_or_end_a_transaction(database: SqliteDatabase, sql: str) -> None:
    def body(tx: Transaction) -> None:
        insert("lost")(tx)
        tx.execute(sql)

    for _ in range(2):
        results = await run_as_group(database, [insert("kept"), body])
        assert isinstance(results[1], DatabaseError)
        assert "not authorized" in results[1].message
    assert await names(database) == ["kept", "kept"]


async def test_a_refused_statement_leaves_the_rest_of_the_body_intact(
    database: SqliteDatabase,
) -> None:
    def body(tx: Transaction) -> None:
        insert("one")(tx)
        with pytest.raises(DatabaseError):
            tx.execute("COMMIT")
        insert("two")(tx)
        raise LookupError

    with pytest.raises(LookupError):
        await database.transaction(body)
    assert await names(database) == []


async def test_a_transaction_cannot_be_used_after_its_end(database: SqliteDatabase) -> None:
    kept: list[Transaction] = []
    await database.transaction(kept.append)
    for use in (
        lambda tx: tx.execute("INSERT INTO t (name) VALUES ('late')"),
        lambda tx: tx.fetch_one("SELECT 1"),
        lambda tx: tx.fetch_all("SELECT 1"),
        lambda tx: next(tx.rows("SELECT 1")),
    ):
        with pytest.raises(DatabaseError, match="has ended"):
            use(kept[0])
    assert await names(database) == []


async def test_rows_left_open_do_not_hold_the_writer_in_the_past(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    await run_as_group(database, [insert("a"), insert("b")])

    def leave_open(tx: Transaction) -> object:
        rows = tx.rows("SELECT name FROM t ORDER BY id")
        assert next(rows) == ("a",)
        return rows

    rows = await database.transaction(leave_open)
    outside = apsw.Connection(str(tmp_path / "data" / "silas.db"))
    outside.execute("INSERT INTO t (name) VALUES ('from outside')")
    outside.close()
    # With a cursor still open, this would fail: the writer would look at the past.
    assert await database.transaction(insert("c")) == 4
    with pytest.raises(DatabaseError):
        next(rows)  # type: ignore[call-overload]


async def test_rows_are_given_one_by_one(database: SqliteDatabase) -> None:
    await run_as_group(database, [insert("a"), insert("b"), insert("c")])
    sql = "SELECT name FROM t WHERE id > ? ORDER BY id"
    assert await database.transaction(lambda tx: [*tx.rows(sql, (1,))]) == [("b",), ("c",)]


async def test_errors_inside_a_body_are_ours_and_can_be_handled(database: SqliteDatabase) -> None:
    def body(tx: Transaction) -> str:
        insert("first")(tx)
        for use in (tx.execute, tx.fetch_one, tx.fetch_all, lambda sql: next(tx.rows(sql))):
            with pytest.raises(DatabaseError):
                use("SELECT * FROM nowhere")
        try:
            tx.execute("INSERT INTO t (id, name) VALUES (1, 'again')")
        except DatabaseConstraint:
            insert("instead")(tx)
        return "done"

    assert await database.transaction(body) == "done"
    assert await names(database) == ["first", "instead"]


async def test_execute_returns_the_number_of_changed_rows(database: SqliteDatabase) -> None:
    assert await database.execute("INSERT INTO t (name) VALUES ('a'), ('b')") == 2
    assert await database.execute("UPDATE t SET name = ? WHERE id = ?", ("c", 1)) == 1
    assert await database.execute("UPDATE t SET name = 'x' WHERE id = 99") == 0
    assert await database.execute("INSERT INTO t VALUES (1, 'd') ON CONFLICT DO NOTHING") == 0
    assert await database.execute("DELETE FROM t") == 2


async def test_a_busy_database_fails_the_whole_group_after_one_wait(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    outside = apsw.Connection(str(tmp_path / "data" / "silas.db"))
    outside.execute("BEGIN IMMEDIATE")
    waits: list[int] = []
    waiting, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def wait_in_vain(attempts: int) -> bool:
        waits.append(attempts)
        loop.call_soon_threadsafe(waiting.set)
        release.wait()
        return False

    writing_connection(database).set_busy_handler(wait_in_vain)
    alone = await submit(database, insert("alone"))
    await waiting.wait()
    group = [await submit(database, insert("in a group")) for _ in range(10)]
    release.set()
    outcome = await asyncio.gather(alone, *group, return_exceptions=True)
    assert {type(each) for each in outcome} == {DatabaseBusy}
    assert len(waits) == 2
    outside.close()
    assert await database.transaction(insert("now")) == 1


async def test_a_lock_taken_between_two_runs_of_a_group_fails_the_rest(
    database: SqliteDatabase, tmp_path: Path
) -> None:
    """The group is lost, and before it is run one by one another process takes the lock."""
    outside = apsw.Connection(str(tmp_path / "data" / "silas.db"))
    waits: list[int] = []

    def wait_in_vain(attempts: int) -> bool:
        waits.append(attempts)
        return False

    def lose_the_lock(tx: Transaction) -> None:
        try:
            takes_everything_back(tx)
        finally:
            outside.execute("BEGIN IMMEDIATE")

    writing_connection(database).set_busy_handler(wait_in_vain)
    results = await run_as_group(database, [insert("a"), lose_the_lock, insert("b")])
    assert {type(each) for each in results} == {DatabaseBusy}
    assert len(waits) == 1
    outside.close()
    assert await database.transaction(insert("now")) == 1


async def test_a_rollback_that_fails_is_made_up_for(database: SqliteDatabase) -> None:
    """Even then nobody waits for ever, nothing half is kept, and the writer recovers."""
    await database.execute(TABLE_WITH_REFERENCE)
    connection = writing_connection(database)
    usual = connection.authorizer
    refusals: list[str] = []

    def refuse_one_rollback(operation: int, *details: str | None) -> int:
        if operation == apsw.SQLITE_TRANSACTION and details[0] == "ROLLBACK" and not refusals:
            refusals.append("once")
            return apsw.SQLITE_DENY
        return usual(operation, *details) if usual else apsw.SQLITE_OK

    connection.authorizer = refuse_one_rollback
    with pytest.raises(DatabaseConstraint):
        await database.transaction(fails_at_the_commit)
    assert refusals == ["once"]
    assert connection.in_transaction
    assert await database.transaction(insert("kept")) == 1
    assert await names(database) == ["kept"]


async def test_a_rollback_that_keeps_failing_fails_every_caller(database: SqliteDatabase) -> None:
    await database.execute(TABLE_WITH_REFERENCE)
    connection = writing_connection(database)

    def refuse_rollbacks(operation: int, *details: str | None) -> int:
        refused = operation == apsw.SQLITE_TRANSACTION and details[0] == "ROLLBACK"
        return apsw.SQLITE_DENY if refused else apsw.SQLITE_OK

    connection.authorizer = refuse_rollbacks
    results = await run_as_group(database, [insert("a"), fails_at_the_commit, insert("b")])
    assert all(isinstance(result, DatabaseError) for result in results)
    with pytest.raises(DatabaseError, match="transaction"):
        await database.transaction(insert("c"))
    assert await names(database) == []


@pytest.mark.parametrize("durability", Durability)
async def test_a_commit_is_synced_as_asked(
    database: SqliteDatabase, durability: Durability
) -> None:
    def level(tx: Transaction) -> object:
        return tx.fetch_one("PRAGMA synchronous")

    ordinary, trust = (1,), (2,)
    assert await database.transaction(level) == ordinary
    assert await database.transaction(level, durability=Durability.TRUST) == trust
    assert await database.transaction(level, durability=durability) == (
        trust if durability is Durability.TRUST else ordinary
    )
    assert await database.transaction(level) == ordinary


async def test_one_trust_write_makes_its_whole_group_durable(database: SqliteDatabase) -> None:
    def level(tx: Transaction) -> object:
        return tx.fetch_one("PRAGMA synchronous")

    async with held(database):
        tasks = [
            await submit(database, level, durability=durability)
            for durability in (Durability.ORDINARY, Durability.TRUST, Durability.ORDINARY)
        ]
    assert await asyncio.gather(*tasks) == [(2,)] * 3
    assert await database.transaction(level) == (1,)


async def test_execute_passes_the_durability_on(database: SqliteDatabase) -> None:
    sql = "INSERT INTO t (name) SELECT synchronous FROM pragma_synchronous"
    await database.execute(sql)
    await database.execute(sql, durability=Durability.TRUST)
    assert await names(database) == ["1", "2"]


async def test_cancelled_before_it_starts_nothing_happens(database: SqliteDatabase) -> None:
    runs: list[str] = []

    def body(tx: Transaction) -> None:
        runs.append("run")
        insert("never")(tx)

    async with held(database):
        cancelled = await submit(database, body)
        kept = await submit(database, insert("kept"))
        cancelled.cancel()
        await asyncio.wait([cancelled])
    assert cancelled.cancelled()
    assert await kept == 1
    assert runs == []


async def test_a_group_of_which_nothing_is_left_costs_nothing(database: SqliteDatabase) -> None:
    commits = count_commits(database)
    async with held(database):
        cancelled = await submit(database, insert("never"))
        cancelled.cancel()
        await asyncio.wait([cancelled])
    assert await names(database) == []
    await database.close()
    assert len(commits) == 1


async def test_cancelled_while_it_runs_it_finishes_whole(database: SqliteDatabase) -> None:
    started, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def body(tx: Transaction) -> None:
        insert("first half")(tx)
        loop.call_soon_threadsafe(started.set)
        release.wait()
        insert("second half")(tx)

    task = asyncio.create_task(database.transaction(body))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    assert await database.transaction(insert("next")) == 3
    assert await names(database) == ["first half", "second half", "next"]


async def test_a_loop_that_closed_early_is_nobody_s_problem(database: SqliteDatabase) -> None:
    gone = asyncio.new_event_loop()
    async with held(database):
        job = Job(insert("from the closed loop"), Durability.ORDINARY, gone, gone.create_future())
        database._writer.submit(job)
        here = await submit(database, insert("from this loop"))
        gone.close()
    assert await here == 2
    assert await names(database) == ["from the closed loop", "from this loop"]


async def test_two_loops_share_a_database(database: SqliteDatabase) -> None:
    def other_loop() -> int:
        return asyncio.run(database.transaction(insert("elsewhere")))

    async with held(database):
        here = await submit(database, insert("here"))
        elsewhere = asyncio.create_task(asyncio.to_thread(other_loop))
    assert sorted([await here, await elsewhere]) == [1, 2]
