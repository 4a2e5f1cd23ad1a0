"""Most commands are tested in processes that have loaded all of Silas; each one loads alone too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOAD_EACH_AFRESH = """
import sys
from pathlib import Path
from silas.cli.main import COMMANDS

modules = {command.target.partition(":")[0]: command for command in COMMANDS.values()}
for command in modules.values():
    for name in [name for name in sys.modules if name.partition(".")[0] == "silas"]:
        del sys.modules[name]
    command.load()
"""


# As in a terminal: whoever is started in the background of a script inherits that it is ignored.
PRESSED = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.slow
def test_no_command_leans_on_what_another_has_loaded() -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOAD_EACH_AFRESH], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("command", [["silas"], ["-m", "silas"]], ids=["program", "module"])
def test_an_interrupt_while_silas_loads_ends_it_without_a_traceback(
    tmp_path: Path, command: list[str]
) -> None:
    """Whoever loads `click` here presses Ctrl-C at that moment."""
    (tmp_path / "click.py").write_text(PRESSED)
    program = Path(sys.executable).parent / "silas"
    typed = [str(program)] if command == ["silas"] else [sys.executable, *command]
    run = subprocess.run(
        [*typed, "chat"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (run.returncode, run.stderr) == (130, "Stopped.\n")
