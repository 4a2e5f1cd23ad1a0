"""The line *web*: our real protocol beside a bare echo of FastAPI, each in a process of its own."""

import asyncio
import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from silas.evals.bench.measure import Line, Round, medians, per_second
from silas.evals.bench.web_client import BenchDevice, RawSocket, masked

_CONNECTIONS, _EACH = 100, 100
_IDLE = 2000
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


@dataclass(frozen=True)
class Running:
    """A server in a process of its own."""

    port: int
    pid: int

    def memory(self) -> int:
        """What it holds, in bytes."""
        pages = Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE")

    def cpu_seconds(self) -> float:
        """What it has computed so far: a busy machine does not change that."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(folder: Path) -> list[Line]:
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
    with await asyncio.to_thread(subprocess.Popen, command) as process:
        try:
            await asyncio.to_thread(wait_for_200, port, process)
            yield Running(port, process.pid)
        finally:
            process.terminate()


@contextlib.asynccontextmanager
async def silas_server(folder: Path, **more: str) -> AsyncIterator[tuple[Running, BenchDevice]]:
    """A Silas that was set up just now, with one paired device; `more` is of its environment."""
    silas = str(Path(sys.executable).with_name("silas"))
    environment = {**environment_for(folder), **more}
    setup = [silas, "init", "--yes"]
    await asyncio.to_thread(subprocess.run, setup, env=environment, check=True, capture_output=True)
    port = free_port()
    command = [silas, "start", "--no-open", "--json", "--port", str(port)]
    start = partial(subprocess.Popen, command, env=environment, stdout=subprocess.PIPE, text=True)
    with await asyncio.to_thread(start) as process:
        try:
            device = BenchDevice(port)
            device.pair(await asyncio.to_thread(_code, process))
            yield Running(port, process.pid), device
        finally:
            process.terminate()


def environment_for(folder: Path) -> dict[str, str]:
    """A data directory of its own, and a vault that asks nobody."""
    return {
        **os.environ,
        "SILAS_DATA_DIR": str(folder / "web"),
        "SILAS_VAULT_PASSPHRASE": "for the benchmark only",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        "XDG_CONFIG_HOME": str(folder),
        "HOME": str(folder),
    }


def _code(process: subprocess.Popen[str]) -> str:
    """The pairing code in what `silas start --json` says first."""
    told = ""
    for line in process.stdout or ():
        told += line
        if line == "}\n":
            return str(json.loads(told)["link"]).partition("#pair=")[2]
    raise RuntimeError(f"Silas did not start: {told}")


def wait_for_200(port: int, process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> float:
    """Wait until a server answers; returns the moment."""
    until = time.perf_counter() + _SECONDS
    while process.poll() is None and time.perf_counter() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                return time.perf_counter()
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.002)
    raise RuntimeError("The server does not answer.")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _allow_many_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
