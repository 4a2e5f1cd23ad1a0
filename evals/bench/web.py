"""The lines *web* and *cold start*.

*web* is our real protocol beside a bare echo of FastAPI, each in a process of its own; *cold start*
is how long a command takes until it says something.
"""

import asyncio
import contextlib
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from evals.bench.measure import Line, Round, medians, milliseconds, per_second
from evals.served import (
    BenchDevice,
    Page,
    RawSocket,
    Running,
    environment_for,
    free_port,
    masked,
    silas_server,
    wait_for_200,
)
from silas.kernel.process import environment_to_pass_on

_CONNECTIONS, _EACH = 100, 100
_IDLE = 2000
_ANSWERS = 25
_AT_ONCE = 50
_SECONDS = 60
_PING = b'{"type":"ping"}'
_ECHO = """
import sys, uvicorn
from fastapi import FastAPI, WebSocket
app = FastAPI()
@app.websocket("/ws")
async def echo(socket: WebSocket):
    await socket.accept()
    async for text in socket.iter_text():
        await socket.send_text(text)
@app.get("/health")
async def health():
    return {"status": "ok"}
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", ws="websockets-sansio")
"""


async def measure_web(folder: Path) -> list[Line]:
    """Pings a second, memory after the start, memory of a connection that is idle."""
    _allow_many_files()
    async with _echo() as echo, silas_server(folder) as (ours, device):
        floor_memory, our_memory = echo.memory(), ours.memory()
        plain = await _opened(echo.port, None)
        let_in = await _opened(ours.port, device)
        rounds: dict[str, Round] = {"echo": _pinging(echo, plain), "silas": _pinging(ours, let_in)}
        got = await medians(rounds, repeat=5)
        for each in (*plain, *let_in):
            each.close()
        answer, work = await _answers(ours, device)
        per_connection = await _idle(ours, device)
    return [
        Line(
            "web",
            f"ping, {_CONNECTIONS} connections, per CPU second",
            per_second(got["silas"]),
            f"FastAPI's echo {per_second(got['echo'])}",
            got["silas"] / got["echo"],
            0.8,
            at_least=True,
        ),
        Line(
            "web",
            "the answer to a signed message, p50",
            milliseconds(answer),
            f"CPU time of the server for it {milliseconds(work)}",
            answer / work,
            3,
            at_least=False,
        ),
        Line(
            "web",
            "memory after the start",
            f"{our_memory / 2**20:.0f} MB",
            f"idle FastAPI {floor_memory / 2**20:.0f} MB",
            our_memory / floor_memory,
            4,
            at_least=False,
        ),
        Line(
            "web",
            f"{_IDLE} idle connections, KB each",
            f"{per_connection / 1024:.0f} KB",
            "let in, welcomed, silent",
            per_connection / 1024,
            60,
            at_least=False,
        ),
    ]


def _pinging(server: Running, sockets: list[RawSocket]) -> Round:
    frame = masked(_PING)

    async def one(each: RawSocket) -> None:
        for _ in range(_EACH):
            each.send(frame)
            await each.receive()

    async def once() -> float:
        begun = server.cpu_seconds()
        await asyncio.gather(*map(one, sockets))
        return len(sockets) * _EACH / (server.cpu_seconds() - begun)

    return once


async def _answers(server: Running, device: BenchDevice) -> tuple[float, float]:
    """The time until the page has the answer, and what the server worked for it."""
    page, took = Page(device), []
    async with page.open():
        await page.hear("hello")
        work = server.cpu_seconds()
        for number in range(_ANSWERS):
            begun = time.perf_counter()
            await page.hear(f"hello {number}")
            took.append(time.perf_counter() - begun)
    return statistics.median(took), (server.cpu_seconds() - work) / _ANSWERS


async def _opened(port: int, device: BenchDevice | None) -> list[RawSocket]:
    opening = (device.enter() if device else RawSocket.open(port) for _ in range(_CONNECTIONS))
    return list(await asyncio.gather(*opening))


async def _idle(ours: Running, device: BenchDevice) -> float:
    before, staying = ours.memory(), []
    for _ in range(0, _IDLE, _AT_ONCE):
        opened = await asyncio.gather(*(device.enter() for _ in range(_AT_ONCE)))
        staying += [asyncio.create_task(each.stay()) for each in opened]
    each = (ours.memory() - before) / sum(not task.done() for task in staying)
    for task in staying:
        task.cancel()
    await asyncio.gather(*staying, return_exceptions=True)
    return each


@contextlib.asynccontextmanager
async def _echo() -> AsyncIterator[Running]:
    port = free_port()
    command = [sys.executable, "-c", _ECHO, str(port)]
    start = partial(subprocess.Popen, command, env=environment_to_pass_on())
    with await asyncio.to_thread(start) as process:
        try:
            await asyncio.to_thread(wait_for_200, port, process)
            yield Running(port, process.pid)
        finally:
            process.terminate()


def _allow_many_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


_CLICK = "import click\n@click.command()\ndef f(): pass\nf(['--help'])"


async def measure_cold_start(folder: Path) -> list[Line]:
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
