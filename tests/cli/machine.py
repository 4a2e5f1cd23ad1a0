"""A machine to try commands on: real processes, a pipe or a terminal."""

import os
import pty
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

SILAS = [sys.executable, "-m", "silas"]
# Becomes the leader of the terminal that it was started on, as a shell would, and then Silas.
ON_TERMINAL = """
import os, sys
os.close(os.open(os.ttyname(0), os.O_RDWR))
os.execv(sys.executable, [sys.executable, "-m", "silas", *sys.argv[1:]])
"""


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
        command = [*SILAS, *arguments]
        return subprocess.run(
            command,
            env=self.environ,
            cwd=cwd or self.data_dir,
            input=given,
            capture_output=True,
            check=False,
        )

    def moved_to(self, data_dir: Path) -> "Machine":
        """The same data in another place."""
        shutil.copytree(self.data_dir, data_dir)
        data_dir.chmod(0o700)
        return Machine(data_dir, {**self.environ, "SILAS_DATA_DIR": str(data_dir)})

    def type(self, *arguments: str, answers: list[tuple[str, str]]) -> tuple[int, str]:
        """Run on a terminal: wait for each question, then type the answer."""
        ours, theirs = pty.openpty()
        command = [sys.executable, "-c", ON_TERMINAL, *arguments]
        with subprocess.Popen(
            command,
            env=self.environ,
            cwd=self.data_dir,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        ) as process:
            os.close(theirs)
            shown = ""
            for question, answer in answers:
                shown += _read_until(ours, question)
                os.write(ours, answer.encode() + b"\n")
            shown += _read_until(ours, None)
            os.close(ours)
        return process.returncode, shown


def free_port() -> int:
    """A port of this machine that nobody uses right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
