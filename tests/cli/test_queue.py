"""`silas queue`, as a person and as a script use it."""

import asyncio
import json
from typing import Any

from silas.kernel import IdFactory, SystemClock
from silas.queue import QueueName, QueueStore
from silas.storage import SqliteDatabase
from tests.cli.machine import Machine
from tests.queue.messages import plan_request


def prepare(machine: Machine) -> None:
    """One message that waits, and a dead letter with something nasty in it."""

    async def send() -> None:
        database, clock = SqliteDatabase.open(machine.data_dir / "silas.db"), SystemClock()
        store = QueueStore(database, clock=clock, ids=IdFactory(clock))
        await store.enqueue(plan_request("dead", content="\x1b[31mred"))
        lease = await store.lease(QueueName.PLANNER, consumer="planner")
        assert lease is not None
        await store.dead_letter(lease, reason="There is no \x1b[2Jsuch goal.")
        await store.enqueue(plan_request("waits"))
        await database.close()

    asyncio.run(send())


def asked(machine: Machine, *arguments: str) -> Any:
    result = machine.run("queue", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_look_requeue_and_drop(owner: Machine) -> None:
    prepare(owner)
    [waiting] = asked(owner, "list")["messages"]
    assert (waiting["message_id"], waiting["state"], waiting["kind"]) == (
        "waits",
        "ready",
        "plan_request",
    )
    shown = owner.run("queue", "dead").stdout
    assert b"such goal." in shown
    assert b"\x1b" not in shown + owner.run("queue", "show", "dead").stdout
    assert asked(owner, "show", "dead")["body"]["content"] == "\x1b[31mred"
    assert asked(owner, "requeue", "--all") == {"requeued": ["dead"]}
    assert asked(owner, "drop", "waits") == {"dropped": "waits"}
    assert [each["message_id"] for each in asked(owner, "list")["messages"]] == ["dead"]
    stats = {each["queue"]: each for each in asked(owner, "stats")["queues"]}
    assert stats["planner_queue"]["depth"] == {"ready": 1}
    assert b"planner_queue: 1 ready" in owner.run("queue", "stats").stdout
    audit = owner.run("audit", "tail", "--json").stdout
    assert b"queue_message_requeued" in audit
    assert b"queue_message_dropped" in audit


def test_an_empty_bus_and_wrong_ids(owner: Machine) -> None:
    assert owner.run("queue", "list").stdout == b"Nothing waits.\n"
    assert owner.run("queue", "dead").stdout == b"There are no dead letters.\n"
    for command in ("show", "requeue", "drop"):
        result = owner.run("queue", command, "nothing")
        assert result.returncode == 100
        assert b"There is no message nothing" in result.stderr
    assert owner.run("queue", "requeue").returncode == 2
