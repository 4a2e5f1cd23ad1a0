"""A machine to try commands on: real processes, a pipe or a terminal."""

import contextlib
import itertools
import os
import pty
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

from tests.cli.forked import Forked, can_be_forked

SILAS = [sys.executable, "-m", "silas"]


@dataclass
class Machine:
    """A data directory with a vault, and the environment of whoever uses it."""

    data_dir: Path
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def vault(self) -> Path:
        return self.data_dir / "vault.json"

    def run(
        self, *arguments: str, stdin: str | bytes = b"", cwd: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        where = cwd or self.data_dir
        if can_be_forked(self.environ):
            return self._run_forked(arguments, given, where)
        command = [*SILAS, *arguments]
        return subprocess.run(
            command, env=self.environ, cwd=where, input=given, capture_output=True, check=False
        )

    def _run_forked(
        self, arguments: tuple[str, ...], given: bytes, cwd: Path
    ) -> subprocess.CompletedProcess[bytes]:
        theirs, ours = os.pipe()
        with TemporaryFile() as said, TemporaryFile() as complaint:
            streams = (theirs, said.fileno(), complaint.fileno())
            with Forked(*arguments, environ=self.environ, cwd=cwd, streams=streams) as process:
                os.close(theirs)
                with contextlib.suppress(BrokenPipeError), os.fdopen(ours, "wb") as stdin:
                    stdin.write(given)
            said.seek(0)
            complaint.seek(0)
            return subprocess.CompletedProcess(
                ["silas", *arguments], process.wait(), said.read(), complaint.read()
            )

    def start(self, *arguments: str) -> "Running":
        """A command that goes on, to be used with `with`."""
        return Running(*arguments, environ=self.environ, cwd=self.data_dir)

    def moved_to(self, data_dir: Path) -> "Machine":
        """The same data in another place."""
        shutil.copytree(self.data_dir, data_dir)
        data_dir.chmod(0o700)
        return Machine(data_dir, {**self.environ, "SILAS_DATA_DIR": str(data_dir)})

    def type(self, *arguments: str, answers: list[tuple[str, str]]) -> tuple[int, str]:
        """Run on a terminal: wait for each question, then type the answer."""
        ours, theirs = pty.openpty()
        with Forked(
            *arguments, environ=self.environ, cwd=self.data_dir, streams=(theirs, theirs, theirs)
        ) as process:
            os.close(theirs)
            shown = ""
            for question, answer in answers:
                shown += _read_until(ours, question)
                os.write(ours, answer.encode() + b"\n")
            shown += _read_until(ours, None)
            os.close(ours)
        return process.wait(), shown


class Running(Forked):
    """A command that goes on until it ends or is no longer needed, and what it says."""

    def __init__(self, *arguments: str, environ: Mapping[str, str], cwd: Path) -> None:
        (said, stdout), (complaint, stderr) = os.pipe(), os.pipe()
        self.stdout = os.fdopen(said)
        self.stderr = os.fdopen(complaint)
        with Path(os.devnull).open() as nothing:
            streams = (nothing.fileno(), stdout, stderr)
            super().__init__(*arguments, environ=environ, cwd=cwd, streams=streams)
        os.close(stdout)
        os.close(stderr)

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.stdout.close()
        self.stderr.close()
        super().__exit__()


def free_port() -> int:
    """A port of this machine that nobody uses, nor will before a server listens there.

    The kernel gives ports above 32767 to whoever asks for any, and tests run side by side: so every
    worker has some lower ones of its own.
    """
    for port in _PORTS:
        with socket.socket() as probe, contextlib.suppress(OSError):
            # As servers do: else a port is refused for a minute after its last connection.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("a cycle has no end")


def _ports_of_this_worker() -> range:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 11_000 + (os.getppid() * 16 + worker) % 400 * 50
    return range(first, first + 50)


_PORTS = itertools.cycle(_ports_of_this_worker())


def _read_until(terminal: int, text: str | None) -> str:
    """What appears on the terminal up to this text, or until the other side has gone."""
    shown = b""
    while text is None or text.encode() not in shown:
        try:
            piece = os.read(terminal, 1024)
        except OSError:  # how Linux says that a terminal was closed
            piece = b""
        if not piece:
            assert text is None, f"waited for {text!r}, saw {shown!r}"
            break
        shown += piece
    return shown.decode()


def output_of(run: subprocess.CompletedProcess[bytes]) -> str:
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout.decode()


def failure_of(run: subprocess.CompletedProcess[bytes]) -> tuple[int, str]:
    assert run.stdout == b""
    return run.returncode, run.stderr.decode()
