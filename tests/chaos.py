"""Processes that are killed on purpose, started from one that is not."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_HERE = Path(__file__).parents[1]
# A process that has everything loaded: a child of it costs milliseconds, not a second. There is one
# for a whole run, and the last who says what it loads is the one who is heard: so it is said here.
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    ["tests.approval.worker", "tests.audit.worker", "tests.queue.worker", "tests.stream.reminding"]
)


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


def serve_runner(run: Callable[[Path], int]) -> None:
    """Be the process of a `Runner`: each `run` goes on in a child, which ends with this status.

    Children are forked from a process that has imported everything and has no threads: so that a
    round takes a fraction of a second, and every child still is a whole Silas of its own.
    """
    child = 0
    for line in sys.stdin:
        word, _, root = line.strip().partition(" ")
        if word == "run":
            child = os.fork()
            if child == 0:
                os._exit(run(Path(root)))
            print(child, flush=True)
        else:
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
