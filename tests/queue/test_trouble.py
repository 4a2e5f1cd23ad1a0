"""A full disk and a locked database: a clear sentence, nothing lost, and it goes on afterwards."""

import asyncio
from pathlib import Path

import apsw
import pytest

from silas.kernel import IdFactory
from silas.queue import QueueName, QueueStore
from silas.storage import DatabaseBusy, DiskFull, SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock
from tests.queue.messages import plan_request
from tests.tiny_disk import fill, leave, tiny_disk


async def test_on_a_full_disk_what_was_accepted_stays_and_the_rest_is_refused(
    tmp_path: Path, clock: FakeClock
) -> None:
    with tiny_disk(tmp_path / "disk", kilobytes=16_000) as disk:
        database = SqliteDatabase.open(disk / "silas.db")
        await migrate(database, load_migrations("runtime"), clock=clock)
        store = QueueStore(database, clock=clock, ids=IdFactory(clock))
        leave(disk, kilobytes=700)  # beside what the schema takes
        room = fill(disk, kilobytes=300)
        sent = [
            store.enqueue(plan_request(f"m{number}", content="x" * 4000)) for number in range(400)
        ]
        results = await asyncio.gather(*sent, return_exceptions=True)
        refused = [each for each in results if each is not True]
        assert refused
        assert {type(each) for each in refused} == {DiskFull}
        with pytest.raises(DiskFull, match="What was written before is kept"):
            await store.enqueue(plan_request("more", content="x" * 100_000))
        room.unlink()
        accepted = {f"m{number}" for number, each in enumerate(results) if each is True}
        leases = await store.lease_many(QueueName.PLANNER, consumer="c", limit=400)
        assert {lease.message.message_id for lease in leases} == accepted
        await database.close()


async def test_a_locked_database_is_named_and_nothing_is_half_done(
    store: QueueStore, database: SqliteDatabase, tmp_path: Path
) -> None:
    await store.enqueue(plan_request("before"))
    database._writer._busy_timeout_ms = 1
    database._writer._connection.set_busy_timeout(1)
    other = apsw.Connection(str(tmp_path / "silas.db"))
    other.execute("BEGIN IMMEDIATE")
    for attempt in (
        store.enqueue(plan_request("during")),
        store.lease(QueueName.PLANNER, consumer="c"),
    ):
        with pytest.raises(DatabaseBusy, match="Another process holds the database"):
            await attempt
    other.execute("ROLLBACK")
    other.close()
    assert await store.enqueue(plan_request("during"))
    leases = await store.lease_many(QueueName.PLANNER, consumer="c", limit=5)
    assert [(each.message.message_id, each.attempt) for each in leases] == [
        ("before", 1),
        ("during", 1),
    ]
