"""Random orders of what workers, the owner and crashes do to one item: the state stays honest."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from silas.kernel import WorkError
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock, RecordingAudit
from silas.testing.fakes import with_schema
from silas.work import (
    AttemptOutcome,
    AttemptStore,
    BudgetUsed,
    WorkItem,
    WorkItemStatus,
    WorkItemStore,
    may_follow,
)

S = WorkItemStatus
START = st.tuples(st.just("start"), st.sampled_from(["w1", "w2"]))
FINISH = st.tuples(st.just("finish"), st.integers(1, 4), st.sampled_from(list(S)))
OWNER = st.tuples(st.just("owner"), st.sampled_from(list(S)))
CRASH = st.tuples(st.just("crash"))
REPLAN = st.tuples(st.just("replan"))


class Walk:
    """One item, and what must be true of it after every step."""

    def __init__(self, database: SqliteDatabase) -> None:
        clock = FakeClock()
        self.items = WorkItemStore(database, clock)
        self.attempts = AttemptStore(database, clock, RecordingAudit())

    async def begin(self) -> None:
        item = WorkItem.model_validate({"id": "a", "type": "task", "title": "T"})
        self.before = await self.items.save(item)

    async def step(self, kind: str, *details: object) -> None:
        was_open = bool(await self.attempts.list_open())
        try:
            await getattr(self, kind)(*details)
        except WorkError:
            after = await self.items.get("a")
            assert after == self.before
            assert bool(await self.attempts.list_open()) == was_open
        await self._check(kind)

    async def start(self, runner: str) -> None:
        await self.attempts.start("a", runner=runner)

    async def finish(self, number: int, status: S) -> None:
        used = BudgetUsed(attempts=number)
        await self.attempts.finish(
            "a", number, outcome=AttemptOutcome.FAILED, status=status, budget_used=used
        )

    async def owner(self, status: S) -> None:
        await self.items.update_status("a", status, self.before.budget_used)

    async def crash(self) -> None:
        await self.attempts.interrupt()

    async def replan(self) -> None:
        body = f"revised in version {self.before.version}"
        await self.items.save(self.before.model_copy(update={"body": body}))

    async def _check(self, kind: str) -> None:
        now = await self.items.get("a")
        assert now is not None
        past = self.before
        tries = await self.attempts.list_of("a")
        still_open = [each for each in tries if each.ended_at is None]
        assert len(still_open) <= 1
        assert [each.attempt for each in tries] == list(range(1, len(tries) + 1))
        assert now.attempts == len(tries)
        assert now.version >= past.version
        assert now.version > past.version or now == past
        if now.status is not past.status:
            assert may_follow(now.type, past.status, now.status)
        if now.plan_hash != past.plan_hash:
            assert past.status not in (S.RUNNING, S.DONE)
        if kind == "crash":
            assert not still_open
            assert now.status is not S.RUNNING
        self.before = now


@settings(max_examples=60)
@given(st.lists(st.one_of(START, FINISH, OWNER, CRASH, REPLAN), max_size=12))
def test_any_order_of_events_leaves_an_honest_state(steps: list[tuple[object, ...]]) -> None:
    async def walk(folder: str) -> None:
        database = SqliteDatabase.open(with_schema(Path(folder, "silas.db"), "runtime"))
        await migrate(database, load_migrations("runtime"), clock=FakeClock())
        walk = Walk(database)
        await walk.begin()
        for kind, *details in steps:
            await walk.step(str(kind), *details)
        await database.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(walk(folder))
