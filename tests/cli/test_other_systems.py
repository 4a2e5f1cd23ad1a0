"""On another system than Linux, as far as it can be tried here: what works, and what is refused.

A process that has lost what Linux alone has, and believes to run on macOS, loads every module and
runs the commands in itself. The owner's socket is not part of it: it asks the real kernel.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
SCRIPT = """
import asyncio, ctypes, importlib, json, multiprocessing, os, pkgutil, resource, select, signal
import socket, subprocess, sys, tempfile
import fastapi, httpx, pydantic_ai, uvicorn

LINUX = {
    os: ("O_PATH", "O_TMPFILE", "pidfd_open", "memfd_create", "MFD_CLOEXEC", "pipe2", "eventfd"),
    socket: ("SO_PEERCRED", "AF_NETLINK", "AF_VSOCK"),
    resource: ("prlimit",),
    signal: ("pidfd_send_signal",),
}
for module, names in LINUX.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
sys.platform = "darwin"

import silas
from click.testing import CliRunner
from silas.cli.main import cli

for module in pkgutil.walk_packages(silas.__path__, "silas."):
    if not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or "silas").startswith("silas"):
                raise
told = {}
for line in json.loads(sys.argv[1]):
    result = CliRunner().invoke(cli, line)
    error = result.exception
    words = result.output + (str(error) if error and not isinstance(error, SystemExit) else "")
    told[" ".join(line)] = [result.exit_code, type(error).__name__, words]
print(json.dumps(told))
"""


def test_everything_but_commands_works(tmp_path: Path) -> None:
    lines = [
        ["init", "--yes", "--vault", "passphrase"],
        ["doctor"],
        ["sandbox", "run", "true"],
        ["memory", "list"],
        ["ask", "remember that the key is blue"],
    ]
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "SILAS_DATA_DIR": str(tmp_path / "data"),
        "SILAS_VAULT_PASSPHRASE": "correct horse battery",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(lines)],
        capture_output=True,
        check=False,
        env=environ,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout.splitlines()[-1])
    init, doctor, run, memory, ask = (told[" ".join(line)] for line in lines)
    assert init[0] == 0
    assert "Commands can be contained on Linux alone" in init[2]
    assert doctor[0] == 0, doctor[2]
    assert "warning  sandbox" in doctor[2]
    assert (run[0], run[1]) == (1, "BackendUnavailable")
    assert "companions and approvals work" in run[2]
    assert memory[0] == 0
    assert ask[0] == 0
    assert "I will remember" in ask[2]
