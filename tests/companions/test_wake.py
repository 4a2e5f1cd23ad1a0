"""From a change to one run: matching, predicates, coalescing, single flight, ends, recovery."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from silas.companions.errors import AgentDestroyed
from silas.companions.ids import run_thread, subscription_run_key
from silas.companions.lifecycle import NewCompanion, SubscriptionDraft
from silas.companions.messages import (
    AgentMessage,
    AgentReport,
    Diagnostic,
    NotificationProvenance,
    RunTrace,
    WakeJob,
    WakeRun,
)
from silas.companions.models import (
    AgentInteractionMode,
    AgentLifecycle,
    AgentState,
    AgentSubscription,
    Companion,
    ReportScope,
    StopScope,
    StopSwitch,
    SubscriptionPredicate,
    TimerKind,
    WakeReason,
    WakeStatus,
)
from silas.companions.store import CompanionStore
from silas.companions.timers import TimerDraft
from silas.companions.wake.orchestrator import TokenIndex, WakeOrchestrator, entity_ids
from silas.journal.edit import Edit
from silas.journal.models import Category, Link, Note, Task, TaskStatus
from silas.journal.notifications import entity, semantic, subtype
from silas.journal.store import Journal
from silas.kernel import IdFactory, format_timestamp
from silas.queue import Bus, QueueMessage, QueueName, QueueStore
from silas.storage import DatabaseBusy, DiskFull, SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock
from silas.testing.fakes import with_schema
from tests.companions.making import House, let_sleep, set_dormant

TASK_CHANGED = SubscriptionDraft(
    (semantic("TASK"),), SubscriptionPredicate(entity_types=("task",), category_ids=("gym",))
)


@pytest.fixture
async def house(store: CompanionStore, journal: Journal, queue: QueueStore) -> House:
    house = House(store, journal, queue)
    await house.orchestrator.start()
    await house.change(
        lambda edit: [edit.create(Category, id=name, name=name) for name in ("gym", "work")]
    )
    return house


async def make(house: House, agent_id: str = "coach", **fields: Any) -> Companion:
    new = NewCompanion(
        **{
            "kind": "gym_coach",
            "display_name": "Coach",
            "allowed_category_ids": ("gym",),
            "subscriptions": (TASK_CHANGED,),
            "companion_id": agent_id,
            **fields,
        }
    )
    return await house.lifecycle.create(new)


def task(title: str = "Squats", category: str = "gym", **fields: Any) -> Any:
    return lambda edit: edit.create(Task, title=title, category_id=category, **fields)


async def test_a_change_wakes_once_with_a_deterministic_run_key_and_thread(house: House) -> None:
    companion = await make(house)
    made = await house.change(task())
    [run] = await house.work()
    assert run.status is WakeStatus.COMPLETED
    [subscription] = await house.store.find(AgentSubscription)
    [batch] = await house.journal.batches_after(1)
    key = subscription_run_key("coach", subscription.id, batch.logical_change_key)
    assert run.run_key == key
    assert run.job.thread_id == run_thread("coach", key)
    assert run.job.changed_entity_ids == (made.id,)
    assert [job.run_key for job in house.runs.jobs] == [key]
    provenance = await house.store.require(NotificationProvenance, batch.logical_change_key)
    assert provenance.change_unit_keys == batch.change_unit_keys
    state = await house.store.require(AgentState, companion.current_state_id)
    assert state.processed_counter_by_host == {"host-a": batch.source_cursor}
    assert state.recent_head is not None


@pytest.mark.parametrize(
    ("tokens", "predicate", "edit", "wakes"),
    [
        ([semantic("TASK")], {"category_ids": ("gym",)}, task(), True),
        ([semantic("TASK")], {"category_ids": ("work",)}, task(), False),
        ([semantic("NOTE")], {}, task(), False),
        ([subtype("task.status", "done")], {}, task(status=TaskStatus.DONE), True),
        ([subtype("task.status", "done")], {}, task(), False),
        ([subtype("change", "task.created")], {}, task(), True),
        # The value of a subtype is no kind of record, and no id.
        ([semantic("done")], {}, task(status=TaskStatus.DONE), False),
        ([entity("done")], {}, task(status=TaskStatus.DONE), False),
        ([entity("task-7")], {}, task(id="task-7"), True),
        ([entity("task-8")], {}, task(id="task-7"), False),
        ([semantic("TASK")], {"equals": {"priority": "P0"}}, task(priority="P0"), True),
        ([semantic("TASK")], {"equals": {"priority": "P0"}}, task(), False),
        ([semantic("TASK")], {"equals": {"no_such_field": None}}, task(), False),
        ([semantic("TASK")], {"entity_types": ("note",)}, task(), False),
    ],
)
async def test_token_classification_and_matching_across_semantic_key_subtype_token_and_entity_id(
    house: House, tokens: list[Any], predicate: dict[str, Any], edit: Any, wakes: bool
) -> None:
    draft = SubscriptionDraft(tuple(tokens), SubscriptionPredicate(**predicate))
    await make(house, subscriptions=(draft,))
    await house.change(edit)
    assert len(await house.work()) == wakes


async def test_subscription_predicate_matching_and_coalescing(house: House) -> None:
    """Only what meets the predicate counts; what comes while a wake waits goes along with it."""
    urgent = SubscriptionPredicate(category_ids=("gym",), equals={"priority": "P0"})
    await make(house, subscriptions=(SubscriptionDraft((semantic("TASK"),), urgent),))
    first = await house.change(task("a", priority="P0"))
    await house.change(task("b"))
    await house.change(task("c", category="work", priority="P0"))
    last = await house.change(task("d", priority="P0"))
    ended = await house.work()
    assert [run.status for run in ended] == [WakeStatus.COMPLETED]
    assert ended[0].job.changed_entity_ids == (first.id, last.id)
    assert len(ended[0].job.logical_change_keys) == 2


async def test_cross_device_subscription_replay_converges_on_the_shared_logical_change_key(
    tmp_path: Path, clock: FakeClock, journal: Journal
) -> None:
    """The same change is received by two devices of one owner: it is the same run."""
    made = await journal.change(task(), actor="owner")
    keys = []
    for host in ("host-b", "host-c"):
        async with other_device(tmp_path / host, clock, host_id=host) as there:
            await make(there, subscriptions=())
            now = clock.now()
            subscription = AgentSubscription(
                id="the-same-everywhere",
                agent_id="coach",
                tokens=(semantic("TASK"),),
                created_at=now,
                updated_at=now,
            )
            await there.store.put(subscription)
            there.index.add(subscription)
            await there.change(lambda edit: edit.merge(made), actor="sync")
            await there.change(lambda edit: edit.merge(made), actor="sync")
            keys += [run.run_key for run in await there.work()]
    assert len(keys) == 2
    assert len(set(keys)) == 1


@asynccontextmanager
async def other_device(path: Path, clock: FakeClock, *, host_id: str) -> AsyncIterator[House]:
    """A house with files of its own."""
    ids, bases = IdFactory(clock), {}
    async with AsyncExitStack() as stack:
        for name in ("agent", "journal", "runtime"):
            bases[name] = SqliteDatabase.open(with_schema(path / f"{name}.db", name))
            stack.push_async_callback(bases[name].close)
            await migrate(bases[name], load_migrations(name), clock=clock)
        journal = await Journal.open(bases["journal"], clock=clock, ids=ids)
        store = CompanionStore(bases["agent"], clock=clock, ids=ids, host_id=host_id)
        queue = QueueStore(bases["runtime"], clock=clock, ids=ids, bus=Bus(poll_seconds=0.01))
        house = House(store, journal, queue)
        await house.orchestrator.start()
        await house.change(lambda edit: edit.create(Category, id="gym", name="gym"))
        yield house
        house.orchestrator.stop()


async def test_a_record_linked_to_another_is_what_a_predicate_can_ask_for(house: House) -> None:
    linked = SubscriptionDraft((semantic("LINK"),), SubscriptionPredicate(linked_to="task-1"))
    await make(house, subscriptions=(linked,))

    def write(edit: Edit) -> None:
        edit.create(Task, id="task-1", title="Squats", category_id="gym")
        edit.create(Task, id="task-2", title="Rows", category_id="gym")
        edit.create(Note, id="note-1", text="A plan", category_id="gym")

    await house.change(write)
    await house.change(lambda edit: edit.create(Link, from_id="note-1", to_id="task-2"))
    assert await house.work() == []
    await house.change(lambda edit: edit.create(Link, from_id="note-1", to_id="task-1"))
    assert len(await house.work()) == 1


def test_only_real_ids_are_looked_up() -> None:
    tokens = [semantic("TASK"), subtype("task.status", "done"), entity("task-1")]
    assert entity_ids(tokens) == ["task-1"]


async def test_what_a_companion_may_not_see_does_not_wake_it(house: House) -> None:
    await make(house, subscriptions=(SubscriptionDraft((semantic("TASK"),)),))
    await house.change(task(category="work"))
    await house.change(lambda edit: edit.create(Task, title="Private"))
    assert await house.work() == []
    await house.change(task())
    assert len(await house.work()) == 1


async def test_nobody_is_woken_by_what_they_did_themselves(house: House) -> None:
    await make(house)
    await make(house, "other")
    await house.change(task(), actor="companion:coach")
    assert [run.agent_id for run in await house.work()] == ["other"]


async def test_several_subscriptions_of_one_companion_are_one_wake(house: House) -> None:
    both = SubscriptionDraft((semantic("TASK"), subtype("category", "gym")))
    await make(house, subscriptions=(TASK_CHANGED, both))
    await house.change(task())
    assert len(await house.work()) == 1


async def test_changes_while_a_wake_waits_go_along_with_it(house: House) -> None:
    await make(house)
    first, second, third = [await house.change(task(f"{n}")) for n in range(3)]
    [run] = await house.work()
    assert run.job.changed_entity_ids == (first.id, second.id, third.id)
    assert len(run.job.logical_change_keys) == 3
    runs = await house.store.find(WakeRun)
    assert {each.status for each in runs} == {WakeStatus.COMPLETED}
    assert [each.absorbed_into for each in runs].count(run.run_key) == 2
    assert len(house.runs.jobs) == 1
    await house.change(task("later"))
    assert len(await house.work()) == 1


async def test_a_flood_of_changes_costs_the_same_for_each(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(house)
    reads = 0
    read = WakeRun.model_validate_json

    def counted(body: str) -> WakeRun:
        nonlocal reads
        reads += 1
        return read(body)

    monkeypatch.setattr(WakeRun, "model_validate_json", counted)
    for number in range(300):
        house.store.clock.advance(seconds=1)  # type: ignore[attr-defined]
        job = WakeJob(
            run_key=f"run-{number}",
            thread_id="coach:run:flood",
            agent_id="coach",
            reason=WakeReason.SUBSCRIPTION,
            logical_change_keys=(f"change-{number}",),
            changed_entity_ids=(f"task-{number}",),
        )
        await house.dispatch.enqueue([job])
    assert reads < 3 * 300
    [run] = await house.work()
    assert len(run.job.logical_change_keys) == len(run.job.changed_entity_ids) == 200
    ended = await house.store.find(WakeRun, {"status": WakeStatus.COMPLETED})
    assert len(ended) == 300


async def test_a_wake_of_the_owner_is_never_taken_along(house: House) -> None:
    await make(house)
    await house.change(task())
    await house.lifecycle.wake("coach")
    assert {run.job.reason for run in await house.work()} == {
        WakeReason.SUBSCRIPTION,
        WakeReason.MANUAL,
    }


@pytest.mark.parametrize(
    ("prepare", "status", "reason"),
    [
        ("pause", WakeStatus.SKIPPED_PAUSED, "paused"),
        ("dormant", WakeStatus.SKIPPED_SLEEPING, "dormant"),
        ("sleep", WakeStatus.SKIPPED_SLEEPING, "sleeping"),
        ("stop", WakeStatus.SKIPPED_STOPPED, "stopped"),
        ("stop_one", WakeStatus.SKIPPED_STOPPED, "stopped"),
        ("interactive", WakeStatus.SKIPPED_SLEEPING, "interactive_only"),
    ],
)
async def test_wake_run_terminal_states_prevent_ambiguous_re_execution(
    house: House, clock: FakeClock, prepare: str, status: WakeStatus, reason: str
) -> None:
    mode = (
        AgentInteractionMode.INTERACTIVE
        if prepare == "interactive"
        else AgentInteractionMode.HYBRID
    )
    await make(house, mode=mode)
    if prepare == "pause":
        await house.lifecycle.pause("coach")
    elif prepare == "dormant":
        await set_dormant(house.store, "coach", dormant=True)
    elif prepare == "sleep":
        later = clock.now().replace(year=2027)
        await let_sleep(house.store, "coach", later)
    elif prepare.startswith("stop"):
        scope, target = StopScope.GLOBAL, None
        if prepare == "stop_one":
            scope, target = StopScope.COMPANION, "coach"
        switch_id = f"companion:{target}" if target else "global"
        await house.store.put(
            StopSwitch(
                id=switch_id, scope=scope, target=target, engaged=True, changed_at=clock.now()
            )
        )
    await house.change(task())
    [run] = await house.work()
    assert (run.status, run.skip_reason) == (status, reason)
    assert run.ended_at is not None
    assert house.runs.jobs == []
    assert await house.worker.wake(run.job) is None
    assert house.runs.jobs == []


async def test_who_sleeps_answers_the_owner(house: House, clock: FakeClock) -> None:
    await make(house, mode=AgentInteractionMode.INTERACTIVE)
    await let_sleep(house.store, "coach", clock.now().replace(year=2027))
    await house.lifecycle.wake("coach")
    await house.lifecycle.say("coach", "How am I doing?")
    assert [run.status for run in await house.work()] == [WakeStatus.COMPLETED] * 2


async def test_resumed_companions_go_on(house: House) -> None:
    await make(house)
    await house.lifecycle.pause("coach")
    await house.lifecycle.resume("coach")
    await set_dormant(house.store, "coach", dormant=True)
    await set_dormant(house.store, "coach", dormant=False)
    await house.change(task())
    assert [run.status for run in await house.work()] == [WakeStatus.COMPLETED]


async def test_a_run_that_fails_ends_its_wake_and_is_counted(house: House) -> None:
    companion = await make(house)

    async def fail(job: WakeJob) -> None:
        raise RuntimeError("the model is on holiday")

    house.runs.during = fail
    for failures in (1, 2):
        await house.change(task(f"{failures}"))
        [run] = await house.work()
        assert (run.status, run.error_code) == (WakeStatus.FAILED_TERMINAL, "internal_error")
        assert run.error_message == "RuntimeError: the model is on holiday"
        state = await house.store.require(AgentState, companion.current_state_id)
        assert state.consecutive_failure_count == failures
    house.runs.during = None
    await house.change(task("3"))
    [run] = await house.work()
    state = await house.store.require(AgentState, companion.current_state_id)
    assert (run.status, state.consecutive_failure_count) == (WakeStatus.COMPLETED, 0)


async def test_one_run_at_a_time_for_each_companion(house: House) -> None:
    await make(house)
    running = most = 0

    async def busy(job: WakeJob) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    house.runs.during = busy
    jobs = [await house.lifecycle.wake("coach", request_id=f"{n}") for n in range(5)]
    ended = await asyncio.gather(*(house.worker.wake(job) for job in jobs * 2))
    assert most == 1
    assert len(house.runs.jobs) == 5
    assert sum(each is not None for each in ended) == 5


async def test_the_bus_gives_out_one_wake_of_a_companion_at_a_time(house: House) -> None:
    await make(house)
    await make(house, "other")
    for agent in ("coach", "coach", "other"):
        await house.lifecycle.wake(agent)
    leases = await house.queue.lease_many(QueueName.COMPANION, consumer="companion", limit=5)
    assert sorted(lease.message.scope_id for lease in leases) == ["coach", "other"]


async def test_in_flight_runs_are_called_off_by_a_pause(house: House) -> None:
    await make(house)

    async def pause(job: WakeJob) -> None:
        assert house.worker.runtime("coach").active_run_id == job.run_key
        await house.lifecycle.pause("coach")

    house.runs.during = pause
    await house.change(task())
    [run] = await house.work()
    assert (house.runs.stopped, run.status) == ([True], WakeStatus.CANCELLED)
    assert house.worker.runtime("coach").active_run_id is None


async def test_crash_retry_replay_preserves_run_key_and_does_not_duplicate_side_effects(
    house: House, clock: FakeClock
) -> None:
    """The process dies in the middle of a run, and the house is opened again."""
    await make(house)

    async def die(job: WakeJob) -> None:
        raise asyncio.CancelledError

    house.runs.during = die
    await house.change(task())
    lease = await house.queue.lease(QueueName.COMPANION, consumer="companion")
    assert lease is not None
    with pytest.raises(asyncio.CancelledError):
        await house.worker(lease)
    [left] = await house.store.find(WakeRun)
    assert left.status is WakeStatus.RUNNING

    again = House(house.store, house.journal, house.queue)
    await again.orchestrator.start()
    assert await again.dispatch.recover() == 1
    await house.queue.release(lease)
    ended = await again.work()
    assert {run.run_key for run in ended} == {left.run_key}
    assert [job.run_key for job in again.runs.jobs] == [left.run_key]
    messages = await house.store.find(AgentMessage, {"agent_id": "coach"})
    assert len(messages) == 1


async def test_a_run_that_takes_the_process_down_is_not_begun_for_ever(house: House) -> None:
    await make(house)

    async def die(job: WakeJob) -> None:
        raise asyncio.CancelledError

    house.runs.during = die
    job = await house.lifecycle.wake("coach")
    for _ in range(3):
        with pytest.raises(asyncio.CancelledError):
            await house.worker.wake(job)
    ended = await house.worker.wake(job)
    assert ended is not None
    assert (ended.status, ended.error_code) == (WakeStatus.FAILED_TERMINAL, "crash_loop")


async def test_restart_recovery_for_queued_wakes(house: House, store: CompanionStore) -> None:
    """Written down but not sent; and committed while nobody listened."""
    await make(house)
    house.orchestrator.stop()
    await house.change(task("missed"))
    await house.change(task("also missed"))
    unsent = WakeJob(run_key="unsent", thread_id="t", agent_id="coach", reason=WakeReason.MANUAL)
    await store.transaction(lambda tx: house.dispatch.log.enqueue_in(tx, unsent))
    assert await house.work() == []

    again = House(store, house.journal, house.queue)
    assert await again.orchestrator.start() == 2
    await again.dispatch.recover()
    runs = {run.run_key: run for run in await again.work()}
    assert {run.status for run in runs.values()} == {WakeStatus.COMPLETED}
    assert len(again.runs.jobs) == 2
    assert "unsent" in runs
    # A third start finds nothing to do.
    third = House(store, house.journal, house.queue)
    assert await third.orchestrator.start() == 0
    assert await third.dispatch.recover() == 0


async def test_run_keys_are_stable_across_a_restart(
    house: House, store: CompanionStore, queue: QueueStore
) -> None:
    await make(house)
    await house.change(task())
    [first] = await house.store.find(WakeRun)
    # As if the log of wakes had been lost together with the place in the journal.
    await store.database.execute("DELETE FROM wake_run_log")
    await store.database.execute("UPDATE wake_cursor SET position = 1")
    again = House(store, house.journal, queue)
    await again.orchestrator.start()
    [second] = await store.find(WakeRun)
    assert second.run_key == first.run_key
    assert second.job.thread_id == first.job.thread_id


async def test_missing_change_provenance_fails_closed(
    house: House, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await make(house)
    house.orchestrator.stop()
    await house.change(task("good"))
    await house.change(task("bad"))
    await house.journal._database.execute(
        "UPDATE batches SET change_units = '[]' WHERE cursor = (SELECT max(cursor) FROM batches)"
    )
    await house.orchestrator.start()
    [run] = await house.work()
    assert len(run.job.logical_change_keys) == 1
    assert "does not say where it came from" in caplog.text


async def test_old_changes_do_not_wake_the_first_companion(
    store: CompanionStore, journal: Journal, queue: QueueStore
) -> None:
    house = House(store, journal, queue)
    await house.change(task(category="gym"))
    await make(house)
    await house.orchestrator.start()
    assert await house.work() == []


async def test_destroying_disables_new_wakes_immediately_and_stale_in_flight_writes_fail_closed(
    house: House,
) -> None:
    companion = await make(house)

    async def destroy(job: WakeJob) -> None:
        await house.lifecycle.destroy("coach")

    house.runs.during = destroy
    await house.change(task())
    [run] = await house.work()
    assert (run.status, run.error_code) == (WakeStatus.CANCELLED, "agent_destroyed")
    assert await house.store.find(AgentMessage) == []
    assert await house.store.find(RunTrace) == []
    [state] = await house.store.find(AgentState)
    assert state.recent_head is None
    with pytest.raises(AgentDestroyed):
        await house.store.put(
            AgentReport(
                id="r",
                agent_id=companion.id,
                scope=ReportScope.CURRENT,
                created_at=companion.created_at,
                content={},
            )
        )
    await house.change(task("2"))
    assert await house.work() == []


async def test_the_index_is_rebuilt_from_the_database(house: House) -> None:
    await make(house)
    await make(house, "other")
    await house.lifecycle.destroy("other")
    anew = TokenIndex()
    await anew.load(house.store.database)
    assert len(anew) == len(house.index) == 1
    [found] = anew.match([semantic("TASK")])
    assert anew.waiting(found) == house.index.waiting(found)
    await house.lifecycle.unsubscribe(found)
    assert house.index.match([semantic("TASK")]) == set()


async def test_a_bad_moment_of_the_database_misses_nothing(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(house)

    async def busy(_batch: object) -> list[WakeJob]:
        raise DatabaseBusy

    monkeypatch.setattr(house.orchestrator, "_jobs", busy)
    await house.change(task("1"))
    monkeypatch.undo()
    await house.change(task("2"))
    [run] = await house.work()
    assert len(run.job.logical_change_keys) == 2


async def again_and_again(house: House) -> asyncio.Task[None]:
    """What goes on beside everything else, without the pauses."""
    house.orchestrator.stop()
    house.orchestrator = WakeOrchestrator(
        house.store,
        house.journal,
        dispatch=house.dispatch,
        index=house.index,
        sleep=lambda _seconds: asyncio.sleep(0),
    )
    await house.orchestrator.start()
    return asyncio.create_task(house.orchestrator.run())


async def test_what_was_missed_is_caught_up_without_another_change(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await make(house)
    running = await again_and_again(house)
    tried, sent = asyncio.Semaphore(0), asyncio.Event()
    enqueue = house.queue.enqueue

    async def full(*_args: object, **_more: object) -> None:
        tried.release()
        raise DiskFull

    async def heard(message: QueueMessage) -> bool:
        fresh = await enqueue(message)
        sent.set()
        return fresh

    monkeypatch.setattr(house.queue, "enqueue", heard)
    async with asyncio.timeout(120):
        with monkeypatch.context() as bad:
            bad.setattr(house.store.database, "transaction", full)
            await house.change(task("1"))
            for _ in range(3):
                await tried.acquire()
        await sent.wait()
    assert len(await house.work()) == 1
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []
    running.cancel()


async def test_a_wake_that_could_not_be_sent_makes_nobody_deaf(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the log already, and what comes later only goes along with it."""
    await make(house)

    async def full(_message: object) -> bool:
        raise DiskFull

    monkeypatch.setattr(house.queue, "enqueue", full)
    await house.change(task("1"))
    assert house.dispatch.behind.is_set()
    monkeypatch.undo()
    await house.change(task("2"))
    [run] = await house.work()
    assert len(run.job.logical_change_keys) == 2
    assert not house.dispatch.behind.is_set()


async def test_a_timer_whose_wake_could_not_be_sent_is_not_forgotten(
    house: House, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(house)
    moment = format_timestamp(clock.now() + timedelta(hours=1))
    await house.lifecycle.timers.add("coach", TimerDraft(TimerKind.ONCE, moment))
    await house.alarms.tick()
    clock.advance(hours=1)

    async def full(_message: object) -> bool:
        raise DiskFull

    monkeypatch.setattr(house.queue, "enqueue", full)
    with pytest.raises(DiskFull):
        await house.alarms.tick()
    monkeypatch.undo()
    await house.alarms.tick()
    [run] = await house.work()
    assert run.job.reason is WakeReason.TIMER


async def test_a_change_that_nobody_understands_does_not_stop_the_others(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(house)

    async def puzzled(_batch: object) -> list[WakeJob]:
        raise ValueError("what is this?")

    monkeypatch.setattr(house.orchestrator, "_jobs", puzzled)
    await house.change(task("1"))
    monkeypatch.undo()
    await house.change(task("2"))
    [run] = await house.work()
    assert len(run.job.logical_change_keys) == 1
    [diagnostic] = await house.store.find(Diagnostic, {"kind": "batch_not_understood"})
    assert diagnostic.detail == {"error": "ValueError: what is this?"}


async def test_who_fails_again_and_again_rests_for_longer_and_longer(
    house: House, clock: FakeClock
) -> None:
    await make(house)

    async def fail(_job: WakeJob) -> None:
        raise RuntimeError("no")

    async def ending() -> tuple[WakeStatus, str | None]:
        await house.change(task())
        [run] = await house.work()
        return run.status, run.skip_reason

    house.runs.during = fail
    for _ in range(3):
        assert await ending() == (WakeStatus.FAILED_TERMINAL, None)
    assert await ending() == (WakeStatus.SKIPPED_SLEEPING, "backoff")
    clock.advance(minutes=1)
    assert await ending() == (WakeStatus.FAILED_TERMINAL, None)
    clock.advance(minutes=1)
    assert await ending() == (WakeStatus.SKIPPED_SLEEPING, "backoff")
    # The owner is heard all the same, and a success ends it.
    house.runs.during = None
    await house.lifecycle.wake("coach")
    [run] = await house.work()
    assert run.status is WakeStatus.COMPLETED
    assert await ending() == (WakeStatus.COMPLETED, None)


async def test_a_clock_that_was_ahead_lets_nobody_rest_until_it_is_reached(
    house: House, clock: FakeClock
) -> None:
    await make(house)

    async def fail(_job: WakeJob) -> None:
        raise RuntimeError("no")

    house.runs.during = fail
    right = clock.now()
    clock.advance(days=1000)
    for _ in range(3):
        await house.change(task())
        await house.work()
    clock.set(right)
    house.runs.during = None
    await house.change(task())
    [run] = await house.work()
    assert run.status is WakeStatus.COMPLETED


async def test_lifecycle_is_part_of_every_answer(house: House) -> None:
    companion = await make(house)
    assert companion.lifecycle is AgentLifecycle.ACTIVE
    destroyed = await house.lifecycle.destroy("coach")
    assert destroyed.lifecycle is AgentLifecycle.DESTROYED
    assert await house.lifecycle.destroy("coach") == destroyed
    with pytest.raises(AgentDestroyed):
        await house.lifecycle.wake("coach")
    with pytest.raises(AgentDestroyed):
        await house.lifecycle.say("coach", "hello")


async def test_that_a_run_has_begun_is_told_while_it_runs(house: House) -> None:
    await make(house)
    begun: list[WakeRun] = []
    seen: list[list[str]] = []

    async def during(_job: WakeJob) -> None:
        seen.append([run.run_key for run in begun])

    house.runs.during = during
    end = house.worker.listen(begun.append)
    await house.change(task())
    [run] = await house.work()
    assert seen == [[run.run_key]]
    end()
    await house.change(task())
    await house.work()
    assert len(begun) == 1
