"""The line *cold start*: how long a command takes to say something."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

from silas.evals.bench.measure import Line, Round, medians, milliseconds
from silas.evals.bench.web import environment_for, free_port, wait_for_200

_CLICK = "import click\n@click.command()\ndef f(): pass\nf(['--help'])"


async def measure(folder: Path) -> list[Line]:
    """Ratios of our start-up to that of the libraries that are needed for it."""
    silas = str(Path(sys.executable).with_name("silas"))
    data_dir = folder / "start"
    environment = {
        **os.environ,
        "SILAS_DATA_DIR": str(data_dir),
        "SILAS_VAULT_PASSPHRASE": "for the benchmark only",
        "XDG_CONFIG_HOME": str(folder),
    }
    await asyncio.to_thread(_run, [silas, "init", "--yes"], environment)
    commands = {
        "python": [sys.executable, "-I", "-c", "pass"],
        "click": [sys.executable, "-I", "-c", _CLICK],
        "pydantic": [sys.executable, "-I", "-c", "import pydantic; pydantic.BaseModel"],
        "silas --help": [silas, "--help"],
        "silas status": [silas, "status"],
        "silas audit tail": [silas, "audit", "tail"],
    }
    rounds: dict[str, Round] = {
        name: _timer(command, environment) for name, command in commands.items()
    }
    got = await medians(rounds, repeat=9)
    floors = {"silas --help": "click"}
    lines = [
        Line(
            "cold start",
            name,
            milliseconds(got[name]),
            f"{floors.get(name, 'pydantic')} {milliseconds(got[floors.get(name, 'pydantic')])} "
            f"(bare interpreter {milliseconds(got['python'])})",
            got[name] / got[floors.get(name, "pydantic")],
            1.5,
            at_least=False,
        )
        for name in commands
        if name.startswith("silas")
    ]
    return [*lines, *await _server(folder)]


def _timer(command: list[str], environment: dict[str, str]) -> Round:
    async def once() -> float:
        begun = time.perf_counter()
        await asyncio.to_thread(_run, command, environment)
        return time.perf_counter() - begun

    return once


def _run(command: list[str], environment: dict[str, str]) -> None:
    subprocess.run(command, env=environment, check=True, capture_output=True)


async def _server(folder: Path) -> list[Line]:
    """`silas start` to its first answer, beside the import of what it is built on."""
    environment = environment_for(folder)
    silas = str(Path(sys.executable).with_name("silas"))
    await asyncio.to_thread(_run, [silas, "init", "--yes"], environment)
    rounds: dict[str, Round] = {
        name: _timer([sys.executable, "-I", "-c", f"import {name}"], environment)
        for name in ("fastapi", "pydantic_ai")
    }
    got = await medians({**rounds, "start": _starter(silas, environment)}, repeat=5)
    floor = got["fastapi"] + got["pydantic_ai"]
    return [
        Line(
            "cold start",
            "silas start, to the first 200",
            milliseconds(got["start"]),
            f"fastapi {milliseconds(got['fastapi'])} "
            f"and pydantic_ai {milliseconds(got['pydantic_ai'])}",
            got["start"] / floor,
            1.3,
            at_least=False,
        )
    ]


def _starter(silas: str, environment: dict[str, str]) -> Round:
    def once() -> float:
        port = free_port()
        command = [silas, "start", "--no-open", "--no-link", "--port", str(port)]
        begun = time.perf_counter()
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
            try:
                return wait_for_200(port, process) - begun
            finally:
                process.terminate()

    return lambda: asyncio.to_thread(once)
