"""Random walks through the store, against a model of a few lines."""

import asyncio
import tempfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from silas.kernel import IdFactory
from silas.queue import Lease, LeaseLost, QueueName, QueueStore, RetryPolicy, Urgency
from silas.queue.inspection import QueueInspector
from silas.queue.models import PRIORITY
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock
from silas.testing.fakes import with_schema
from tests.queue.messages import message, plan_request

QUEUES = (QueueName.PROXY, QueueName.PLANNER)
POLICY = RetryPolicy(max_failures=3, max_attempts=6)


@dataclass
class Entry:
    """What the model knows of a message that is in a queue."""

    name: str
    queue: QueueName
    scope: str
    priority: int
    due: datetime | None = None
    lease: Lease | None = None
    attempts: int = 0
    failures: int = 0


class Store(RuleBasedStateMachine):
    """The model: lists of what is queued (in order), what is done, and what is dead."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory(
            dir="/dev/shm" if Path("/dev/shm").is_dir() else None
        )
        self.clock = FakeClock()
        self.queued: list[Entry] = []
        self.done: set[str] = set()
        self.dead: list[Entry] = []
        self.lost: list[Lease] = []
        self.count = 0
        self.open()
        self.runner.run(migrate(self.database, load_migrations("runtime"), clock=self.clock))

    def open(self) -> None:
        path = with_schema(Path(self.folder.name) / "silas.db", "runtime")
        self.database = SqliteDatabase.open(path)
        self.store = QueueStore(
            self.database, clock=self.clock, ids=IdFactory(self.clock), holder="me", policy=POLICY
        )

    @rule(
        queue=st.sampled_from(QUEUES), scope=st.sampled_from("ab"), urgency=st.sampled_from(Urgency)
    )
    def enqueue(self, queue: QueueName, scope: str, urgency: Urgency) -> None:
        self.count += 1
        entry = Entry(f"m{self.count}", queue, scope, PRIORITY[urgency])
        assert self.send(entry, urgency)
        self.queued.append(entry)

    def send(self, entry: Entry, urgency: Urgency = Urgency.BACKGROUND) -> bool:
        make = message if entry.queue is QueueName.PROXY else plan_request
        sent = make(entry.name, scope_id=entry.scope, urgency=urgency)
        return self.runner.run(self.store.enqueue(sent))

    @rule(data=st.data())
    @precondition(lambda self: self.queued or self.done or self.dead)
    def enqueue_again(self, data: st.DataObject) -> None:
        name = data.draw(
            st.sampled_from([e.name for e in self.queued + self.dead] + sorted(self.done))
        )
        assert not self.send(Entry(name, QueueName.PLANNER, "a", 2))

    @rule(queue=st.sampled_from(QUEUES), limit=st.integers(1, 4))
    def lease(self, queue: QueueName, limit: int) -> None:
        self.recall()
        expected = self.next(queue)[:limit]
        leases = self.runner.run(self.store.lease_many(queue, consumer="c", limit=limit))
        assert [lease.message.message_id for lease in leases] == [each.name for each in expected]
        for entry, lease in zip(expected, leases, strict=True):
            entry.attempts += 1
            assert lease.attempt == entry.attempts
            entry.lease, entry.due = lease, lease.expires_at

    def next(self, queue: QueueName) -> list[Entry]:
        heads, seen = [], set()
        for entry in self.queued:
            ordered = entry.queue is QueueName.PROXY
            if entry.queue is queue and not (ordered and entry.scope in seen):
                heads.append(entry)
            if entry.queue is queue:
                seen.add(entry.scope)
        free = [entry for entry in heads if entry.due is None]
        return sorted(free, key=lambda entry: (entry.priority, self.queued.index(entry)))

    def recall(self) -> None:
        for entry in [e for e in self.queued if e.due and e.due <= self.clock.now()]:
            entry.due = None
            if entry.lease is not None:
                self.lost.append(entry.lease)
                self.fail(entry)

    def fail(self, entry: Entry) -> None:
        entry.lease = None
        entry.failures += 1
        if entry.failures >= POLICY.max_failures or entry.attempts >= POLICY.max_attempts:
            self.queued.remove(entry)
            self.dead.append(entry)

    def held(self) -> list[Entry]:
        return [entry for entry in self.queued if entry.lease is not None]

    @rule(data=st.data(), how=st.sampled_from(["finish", "nack", "release", "bury", "beat"]))
    @precondition(lambda self: self.held())
    def end(self, data: st.DataObject, how: str) -> None:
        entry = data.draw(st.sampled_from(self.held()))
        lease = entry.lease
        assert lease is not None
        if how == "beat":
            entry.lease = self.runner.run(self.store.heartbeat(lease, seconds=60))
            entry.due = entry.lease.expires_at
            return
        entry.lease = entry.due = None
        if how == "finish":
            self.runner.run(self.store.finish(lease, consumer="c"))
            self.queued.remove(entry)
            self.done.add(entry.name)
        elif how == "nack":
            self.runner.run(self.store.nack(lease, reason="x"))
            self.fail(entry)
            entry.due = self.clock.now() + timedelta(seconds=POLICY.delay_after(entry.failures))
        elif how == "release":
            self.runner.run(self.store.release(lease))
            entry.attempts -= 1
        else:
            self.runner.run(self.store.dead_letter(lease, reason="x"))
            self.queued.remove(entry)
            self.dead.append(entry)
        self.lost.append(lease)

    @rule(data=st.data())
    @precondition(lambda self: self.lost)
    def use_a_lease_that_is_over(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(self.lost))
        for use in (self.store.ack(lease), self.store.heartbeat(lease)):
            try:
                self.runner.run(use)
            except LeaseLost:
                continue
            raise AssertionError("a lease that was over could be used")

    @rule(seconds=st.sampled_from([1, 5, 61]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds=seconds)

    @rule(data=st.data())
    @precondition(lambda self: self.dead)
    def requeue(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.dead))
        inspector = QueueInspector(
            self.database, clock=self.clock, record=lambda _tx, _event, _data: None
        )
        self.runner.run(inspector.requeue(entry.name))
        self.dead.remove(entry)
        self.queued.append(Entry(entry.name, entry.queue, entry.scope, entry.priority))

    @rule()
    def crash_and_start_again(self) -> None:
        self.runner.run(self.database.close())
        self.open()
        held = self.held()
        assert self.runner.run(self.store.recover(alive=lambda _: False)) == len(held)
        for entry in held:
            assert entry.lease is not None
            self.lost.append(entry.lease)
            entry.lease = entry.due = None
            if entry.attempts >= POLICY.max_attempts:
                self.queued.remove(entry)
                self.dead.append(entry)

    @invariant()
    def nothing_is_lost_and_nothing_is_there_twice(self) -> None:
        def names(table: str) -> list[str]:
            sql = f"SELECT message_id FROM {table} ORDER BY message_id"
            return [row[0] for row in self.runner.run(self.database.fetch_all(sql))]

        # Leases that ran out are noticed at the next lease, so these two are compared as one.
        there = names("queue_messages") + names("dead_letters")
        assert sorted(there) == sorted(entry.name for entry in self.queued + self.dead)
        assert set(names("processed_messages")) == self.done

    def teardown(self) -> None:
        self.runner.run(self.database.close())
        self.runner.close()
        self.folder.cleanup()


Store.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestStore = Store.TestCase
