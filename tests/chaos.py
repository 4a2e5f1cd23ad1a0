"""Processes that are killed on purpose, started from one that is not."""

import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parents[1]


class Runner:
    """The process that starts the processes that are killed."""

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_HERE,
        )

    def run(self, root: Path) -> int:
        return int(self._say(f"run {root}"))

    def wait(self) -> int:
        return int(self._say("wait"))

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _say(self, line: str) -> str:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()
