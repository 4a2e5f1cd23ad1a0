"""Operations of earlier versions, from the two tables that they were kept in."""

import json
from pathlib import Path
from typing import Any

import pytest

from silas.companions.messages import AgentOperation
from silas.companions.models import OperationPhase, OperationStatus
from silas.companions.store import CompanionStore
from silas.kernel import IdFactory
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.testing import FakeClock

NOW = "2026-01-01T12:00:00.000000Z"
CALL = {"tool_name": "create_task", "thread_id": "coach:run:1", "arguments": {"title": "x"}}
WAITING = (
    "INSERT INTO agent_waiting_actions (operation_id, run_key, agent_id, status, created_at, body)"
    " VALUES (?, 'run', 'coach', ?, ?, ?)"
)
SAGA = (
    "INSERT INTO agent_saga_log"
    " (operation_id, run_key, agent_id, phase, status, last_error, updated_at, body)"
    " VALUES (?, 'run', 'coach', ?, ?, ?, ?, ?)"
)


def waiting(name: str, status: str, **more: Any) -> tuple[str, tuple[str, ...]]:
    """What 003 kept of an action that waits."""
    body = {
        "operation_id": name,
        "agent_id": "coach",
        "run_key": "run",
        "thread_id": "coach:run:1",
        "status": status,
        "call": CALL,
        "approvable": {"title": "x"},
        "token": None,
        "prompt_item_ids": ["q"],
        "reason": "Because.",
        "last_error": None,
        "created_at": NOW,
        "updated_at": NOW,
        **more,
    }
    return WAITING, (name, status, NOW, json.dumps(body))


def saga(name: str, phase: str, status: str) -> tuple[str, tuple[str | None, ...]]:
    """What 002 kept of a write to both databases."""
    body = {
        "operation_id": name,
        "run_key": "run",
        "agent_id": "coach",
        "tool_name": "create_task",
        "call": CALL,
        "phase": phase,
        "status": status,
        "result": {"success": True} if phase != "planned" else None,
        "attempt_count": 2,
        "last_error": "no" if status == "failed" else None,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return SAGA, (name, phase, status, body["last_error"], NOW, json.dumps(body))


@pytest.fixture
async def migrated(tmp_path: Path, clock: FakeClock) -> CompanionStore:
    """A file of an earlier version with something in every state, opened by this one."""
    database = SqliteDatabase.open(tmp_path / "agent.db")
    steps = load_migrations("agent")
    await migrate(database, steps[:5], clock=clock)
    old = [waiting(each, each) for each in ("blocked", "waiting", "approved", "applied")]
    old += [waiting(each, each) for each in ("declined", "refused", "cancelled")]
    rows = [
        *old,
        saga("approved", "journal_committed", "pending"),
        saga("planned", "planned", "pending"),
        saga("committed", "journal_committed", "pending"),
        saga("finished", "agent_committed", "done"),
        saga("failed", "planned", "failed"),
    ]
    for sql, values in rows:
        await database.execute(sql, values)
    await migrate(database, steps, clock=clock)
    return CompanionStore(database, clock=clock, ids=IdFactory(clock), host_id="here")


@pytest.mark.parametrize(
    ("name", "phase", "status"),
    [
        ("blocked", "blocked", "pending"),
        ("waiting", "waiting", "pending"),
        ("approved", "approved", "pending"),
        ("applied", "agent_committed", "done"),
        ("declined", "waiting", "declined"),
        ("refused", "waiting", "refused"),
        ("cancelled", "waiting", "cancelled"),
        ("planned", "planned", "pending"),
        ("committed", "journal_committed", "pending"),
        ("finished", "agent_committed", "done"),
        ("failed", "planned", "failed"),
    ],
)
async def test_each_is_one_operation_in_the_state_that_it_was_in(
    migrated: CompanionStore, name: str, phase: str, status: str
) -> None:
    found = await migrated.require(AgentOperation, name)
    assert (found.phase, found.status) == (OperationPhase(phase), OperationStatus(status))
    assert (found.call, found.thread_id) == (CALL, "coach:run:1")
    by_column = await migrated.find(AgentOperation, {"phase": phase, "status": status})
    assert found in by_column
    await migrated.database.close()


async def test_there_is_one_row_for_each_and_no_other_table(migrated: CompanionStore) -> None:
    found = await migrated.find(AgentOperation)
    assert len(found) == 11
    assert {each.has_waited for each in found} == {True, False}
    committed = await migrated.require(AgentOperation, "committed")
    assert (committed.result, committed.attempt_count) == ({"success": True}, 2)
    tables = await migrated.database.fetch_all("SELECT name FROM sqlite_master")
    assert not {"agent_saga_log", "agent_waiting_actions"} & {row[0] for row in tables}
    await migrated.database.close()
