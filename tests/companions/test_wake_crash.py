"""Killed at any moment: every change wakes somebody, once, and every wake comes to its end.

`SILAS_CHAOS_ROUNDS=100` kills it as often as one likes.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from silas.companions.messages import AgentMessage, WakeRun
from silas.companions.models import WakeStatus
from silas.journal.notifications import semantic
from tests.companions.crashing import opened
from tests.documents import ROOT

ROUNDS = int(os.environ.get("SILAS_CHAOS_ROUNDS", "3"))
CHANGES = 40


def command(folder: Path, changes: int) -> list[str]:
    return [sys.executable, "-m", "tests.companions.crashing", str(folder), str(changes)]


def killed_after(folder: Path, *, lines: int) -> None:
    """Let a process change the journal and wake companions, and kill it in the middle."""
    with subprocess.Popen(
        command(folder, CHANGES), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        process.kill()


async def look(folder: Path) -> tuple[list[WakeRun], list[AgentMessage], set[str]]:
    async with opened(folder) as (waking, journal):
        batches = await journal.batches_after(0)
        tasks = (each for each in batches if semantic("TASK") in each.typed_tokens)
        changed = {each.logical_change_key for each in tasks}
        runs = await waking.store.find(WakeRun)
        return runs, await waking.store.find(AgentMessage, {"summary_depth": 0}), changed


@pytest.mark.slow
def test_crash_rounds_wake_everybody_once(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        killed_after(tmp_path, lines=1 + 13 * number % CHANGES)
    last = subprocess.run(
        command(tmp_path, 1), cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert (last.returncode, last.stdout) == (0, "0\ndone\n"), last.stderr
    runs, messages, changed = asyncio.run(look(tmp_path))
    assert {run.status for run in runs} == {WakeStatus.COMPLETED}
    assert {key for run in runs for key in run.job.logical_change_keys} == changed
    own = [run for run in runs if run.absorbed_into is None]
    assert len(messages) == len(own)
    assert len({message.thread_id for message in messages}) == len(own)
