"""A writer that is killed with SIGKILL leaves the old vault or the new one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.secrets.files import make_vault


@pytest.mark.parametrize(("mode", "rounds"), [("steps", 40), ("random", 100)])
def test_a_killed_writer_loses_nothing_that_it_acknowledged(
    vault_path: Path, mode: str, rounds: int
) -> None:
    make_vault(vault_path)
    command = [sys.executable, "-m", "tests.secrets.crashing_writer", vault_path, mode, str(rounds)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) == rounds
