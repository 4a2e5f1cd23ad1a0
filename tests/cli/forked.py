"""Silas as a process of its own, forked from one that has loaded it: loading takes seconds.

Arguments, environment, directory, terminal, signals and exit code are those of any process; only
the modules are there already. Loading itself is seen by the tests that start `SILAS`.
"""

import contextlib
import fcntl
import functools
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from silas.cli.main import COMMANDS, main

_ROOT = Path(__file__).parents[2]
_KEYRING = "PYTHON_KEYRING_BACKEND"
# Python and the keyring read these while they are loaded, and never again.
_READ_ON_LOADING = ("LANG", "LC_", "PYTHON")
# What commands load only when they get there: agents with the libraries of models, and vectors.
_LOADED_LATE = ("silas.app.model_agents", "silas.memory.vectors")


class Forked:
    """A `silas` that runs, with these three as its standard streams."""

    def __init__(
        self, *arguments: str, environ: Mapping[str, str], cwd: Path, streams: tuple[int, int, int]
    ) -> None:
        wanted = {"arguments": arguments, "environ": dict(environ), "cwd": str(cwd)}
        self.returncode: int | None = None
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(_nursery(environ[_KEYRING])[0])
        socket.send_fds(self._line, [b"."], streams)
        self._said = self._line.makefile("rw")
        self._said.write(json.dumps(wanted) + "\n")
        self._said.flush()
        self.pid = int(self._said.readline())

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(int(self._said.readline()))
        return self.returncode

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self._said.close()
        self._line.close()


def can_be_forked(environ: Mapping[str, str]) -> bool:
    """Whether nothing in this environment but the keyring is read while Silas is loaded."""
    return [name for name in environ if name.startswith(_READ_ON_LOADING)] == [_KEYRING]


@functools.cache
def _nursery(keyring: str) -> tuple[str, subprocess.Popen[bytes]]:
    """Where a Silas with this keyring can be had; it ends when this process does."""
    address = tempfile.mkdtemp(prefix="silas-nursery-") + "/socket"
    nursery = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.forked", address],
        cwd=_ROOT,
        # A process that is forked has one thread; numpy would start one for every core.
        env={"PATH": os.environ["PATH"], _KEYRING: keyring, "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert nursery.stdout is not None
    assert nursery.stdout.readline() == b"ready\n"
    return address, nursery


def _serve(address: str) -> socket.socket:
    """Be the process that is forked, until nobody can ask any more; return in the one that was."""
    for command in COMMANDS.values():
        command.load()
    for module in _LOADED_LATE:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # or collecting would copy what all of them share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            line, _ = listener.accept()
            if os.fork() == 0:
                return line
            line.close()
    shutil.rmtree(Path(address).parent)
    sys.exit()


def _wait_for_child(line: socket.socket) -> list[str]:
    """Say the child's number and later how it ended; return in the child, with its arguments."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with line, line.makefile("rw") as said:
        _, streams, _, _ = socket.recv_fds(line, 1, 3)
        wanted = json.loads(said.readline())
        if (pid := os.fork()) == 0:
            _become(wanted, streams)
            return list(wanted["arguments"])
        for stream in streams:
            os.close(stream)
        said.write(f"{pid}\n")
        said.flush()
        said.write(f"{os.waitpid(pid, 0)[1]}\n")
        said.flush()
        os._exit(0)


def _become(wanted: dict[str, Any], streams: list[int]) -> None:
    """Have what a process is started with."""
    os.environ.clear()
    os.environ.update(wanted["environ"])
    os.chdir(wanted["cwd"])
    sys.argv = ["silas", *wanted["arguments"]]
    time.tzset()
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        old = getattr(sys, name)
        new = open(  # noqa: SIM115 - open until the process ends
            old.fileno(), mode, encoding=old.encoding, errors=old.errors, closefd=False
        )
        new.reconfigure(line_buffering=name == "stderr" or new.isatty())
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    if sys.stdin.isatty():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY)


if __name__ == "__main__":
    main(_wait_for_child(_serve(sys.argv[1])))
