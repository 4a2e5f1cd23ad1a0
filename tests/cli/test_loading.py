"""Most commands are tested in processes that have loaded all of Silas; each one loads alone too."""

import subprocess
import sys

import pytest

LOAD_EACH_AFRESH = """
import sys
from silas.cli.main import COMMANDS

modules = {command.target.partition(":")[0]: command for command in COMMANDS.values()}
for command in modules.values():
    for name in [name for name in sys.modules if name.partition(".")[0] == "silas"]:
        del sys.modules[name]
    command.load()
"""


@pytest.mark.slow
def test_no_command_leans_on_what_another_has_loaded() -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOAD_EACH_AFRESH], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
