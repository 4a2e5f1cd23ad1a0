"""Processes that are killed while they migrate, and processes that migrate at once."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.documents import ROOT
from tests.storage.crash_migrations import STEPS

ROUNDS = 200


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Memory where there is some: what a killed process leaves behind does not need a disk."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.mark.slow
def test_killed_at_any_moment_a_migration_is_whole_or_not_there(scratch: Path) -> None:
    command = [sys.executable, "-m", "tests.storage.crash_migrations", str(scratch)]
    result = subprocess.run(
        [*command, str(ROUNDS), "2026"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    outcome = json.loads(result.stdout)
    assert len(outcome["survived"]) == ROUNDS
    # The kills came at different points, not all before the start or after the end.
    assert len(set(outcome["survived"])) > 2
    for each in outcome["races"]:
        assert sum(each) == STEPS, "each migration was applied by exactly one process"
