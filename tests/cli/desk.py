"""The commands of one machine, in this process."""

import json
import os
from typing import Any

import pytest

from silas.cli.main import main
from tests.cli.machine import Machine


class Desk:
    """The commands of one machine, in this process: starting one for each would take too long."""

    def __init__(self, machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
        self.machine = machine
        self._capsys = capsys

    def run(self, *words: str) -> tuple[int, str, str]:
        """The exit code, what was said, and what was complained about."""
        self._capsys.readouterr()
        os.environ.update(self.machine.environ)  # a command takes the passphrase out of it
        with pytest.raises(SystemExit) as ended:
            main(["--data-dir", str(self.machine.data_dir), *words])
        said = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, said.out, said.err

    def say(self, *words: str) -> str:
        code, said, complaint = self.run("journal", *words)
        assert code == 0, complaint or said
        return said

    def data(self, *words: str) -> Any:
        return json.loads(self.say(*words, "--json"))
