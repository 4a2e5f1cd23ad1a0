"""Killed at any moment: nothing acknowledged is missing, and every write has its provenance."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from silas.journal.models import Task
from silas.journal.notifications import ChangeUnit
from tests.documents import ROOT
from tests.journal.place import opened

ROUNDS = int(os.environ.get("SILAS_CHAOS_ROUNDS", "4"))


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Memory where there is some: what a killed process leaves behind does not need a disk."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.mark.slow
async def test_killed_during_changes_nothing_acknowledged_is_missing(scratch: Path) -> None:
    path = scratch / "journal.db"
    acknowledged: list[tuple[str, str]] = []
    for number in range(ROUNDS):
        acknowledged += _killed_after(path, lines=10 + 17 * number)
    async with opened(path) as place:
        batches = {each.logical_change_key: each for each in await place.journal.batches_after(0)}
        for task_id, key in acknowledged:
            task = await place.journal.get(Task, task_id)
            ((_, items),) = await place.journal.checklists_of(task.id)
            assert len(items) == 2
            assert key in batches, "the change can be recognised again"
        history = await place.database.fetch_all(
            "SELECT h.origin, h.host_id, h.counter, h.record_id, r.kind, b.change_units "
            "FROM history AS h JOIN records AS r ON r.id = h.record_id "
            "LEFT JOIN batches AS b ON b.cursor = h.batch"
        )
        rows = await place.database.fetch_all("SELECT count(*) FROM batches")
        known = {key for each in batches.values() for key in each.change_unit_keys}
    assert len(acknowledged) >= 10 * ROUNDS
    assert rows == [(len(batches),)], "every batch has its provenance"
    counters = [row[2] for row in history]
    assert len(counters) == len(set(counters)) == max(counters), "no number twice, none left out"
    for origin, host, counter, record, kind, units in history:
        unit = ChangeUnit(
            origin=origin, host_id=host, counter=counter, payload_type=kind, payload_id=record
        )
        assert unit.change_unit_key in known
        assert unit.model_dump() in json.loads(units)


def _killed_after(path: Path, *, lines: int) -> list[tuple[str, str]]:
    """Let a process change the journal, kill it, and return what it had acknowledged."""
    command = [sys.executable, "-m", "tests.journal.crash_changes", str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        seen += process.stdout.readlines()
    whole = [line.split() for line in seen if line.endswith("\n")]
    return [(task_id, key) for task_id, key in whole]
