"""The server that a crowd talks to: `silas start` in a process of its own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from silas.app.ground import Ground, open_ground
from silas.app.instance import call_server
from silas.app.settings import load_settings
from silas.evals.bench.web import Running, environment_for, silas_server
from silas.evals.bench.web_client import BenchDevice

UNLIMITED = {
    "SILAS_LIMITS__WS_MESSAGES_PER_MINUTE_PER_SCOPE": "1000000",
    "SILAS_LIMITS__WS_MESSAGES_PER_MINUTE_PER_IP": "1000000",
    "SILAS_LIMITS__MESSAGES_PER_MINUTE_PER_SENDER": "1000000",
    "SILAS_BACKPRESSURE__MAX_PENDING_TURNS_PER_SCOPE": "1000",
    "SILAS_BACKPRESSURE__MAX_PENDING_TURNS_TOTAL": "100000",
}


@dataclass(frozen=True)
class Server:
    """Where it is."""

    running: Running
    ground: Ground
    """Its data directory, opened by us as well."""
    pair: Callable[[], Awaitable[BenchDevice]]
    """One more device of the owner's."""


@contextlib.asynccontextmanager
async def started(folder: Path) -> AsyncIterator[Server]:
    """One that was set up just now in this folder, and never says that it is too busy."""
    async with silas_server(folder, **UNLIMITED) as (running, first):
        environ = {**environment_for(folder), **UNLIMITED}
        loaded = load_settings(data_dir=None, config_file=None, environ=environ, cwd=folder)

        async def pair() -> BenchDevice:
            answer = await asyncio.to_thread(call_server, loaded.paths, "pair")
            device = BenchDevice(first.port)
            code = str(answer["link"]).partition("#pair=")[2]
            await asyncio.to_thread(device.pair, code)
            return device

        async with open_ground(loaded, environ=environ) as ground:
            yield Server(running, ground, pair)
