"""The running server: one for each data directory, reachable by its owner's commands.

In this order, and at the end in the reverse:

1. The instance lock.
2. The database, with its schema up to date.
3. The gates of the configuration: if one of them could not do its work, nothing is started.
4. The control socket: `ping`, `status`, `reload_keys`, `stop`.
5. Housekeeping.
6. The conversation: at the end it takes nothing more in, and finishes or gives back what it has.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import silas
from silas.app.allocator import keep_heaps_small
from silas.app.background import in_background
from silas.app.control import ControlServer, Handler
from silas.app.errors import NotInitialised
from silas.app.gates import load_system_gates
from silas.app.ground import Ground
from silas.app.housekeeping import Housekeeping, PeriodicJob
from silas.app.instance import InstanceLock
from silas.app.paths import Paths
from silas.kernel import Clock, format_timestamp

JobsOf = Callable[[Ground], Sequence[PeriodicJob]]
ConversationOf = Callable[[Ground], AbstractAsyncContextManager[object]]


@dataclass(frozen=True)
class RunningServer:
    """A server that is up."""

    paths: Paths
    ground: Ground
    housekeeping: Housekeeping
    started_at: str
    stopping: asyncio.Event

    @property
    def handlers(self) -> dict[str, Handler]:
        """The methods of the control socket."""
        return {
            "ping": self.ping,
            "status": self.status,
            "reload_keys": self.reload_keys,
            "stop": self.stop,
        }

    async def status(self, _params: dict[str, Any]) -> dict[str, Any]:
        """What `silas status` shows."""
        newest = await self.ground.database.fetch_one("SELECT max(id) FROM applied_migrations")
        return {
            "pid": os.getpid(),
            "started_at": self.started_at,
            "version": silas.__version__,
            "data_dir": str(self.paths.data_dir),
            "schema": newest[0] if newest else None,
            "housekeeping": self.housekeeping.report(),
        }

    async def ping(self, _params: dict[str, Any]) -> dict[str, Any]:
        return {"pid": os.getpid(), "version": silas.__version__}

    async def reload_keys(self, _params: dict[str, Any]) -> dict[str, Any]:
        """Another process has rotated the owner's key."""
        self.ground.keys.reload()
        return {"reloaded": True}

    async def stop(self, _params: dict[str, Any]) -> dict[str, Any]:
        self.stopping.set()
        return {"stopping": True}


@contextlib.asynccontextmanager
async def running_server(
    paths: Paths,
    *,
    clock: Clock,
    command: str,
    ground: AbstractAsyncContextManager[Ground],
    jobs_of: JobsOf,
    stopping: asyncio.Event,
    conversation_of: ConversationOf | None = None,
    more: Mapping[str, Handler] = MappingProxyType({}),
) -> AsyncIterator[RunningServer]:
    """Bring everything up, and take it down in an orderly way at the end of the `with` block.

    `more` are further methods of the control socket.
    """
    if not paths.database.exists():
        raise NotInitialised(f"{paths.data_dir}: {NotInitialised.sentence()}")
    keep_heaps_small()
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(InstanceLock(paths.lock, clock=clock, command=command))
        opened = await stack.enter_async_context(ground)
        if conversation_of is None:
            await load_system_gates(opened)  # a conversation does it itself, with its own model
        housekeeping = Housekeeping(jobs_of(opened), clock=clock)
        server = RunningServer(
            paths=paths,
            ground=opened,
            housekeeping=housekeeping,
            started_at=format_timestamp(clock.now()),
            stopping=stopping,
        )
        control = ControlServer({**server.handlers, **more})
        await stack.enter_async_context(control.listening(paths.socket))
        await stack.enter_async_context(in_background(housekeeping.run()))
        if conversation_of is not None:
            await stack.enter_async_context(conversation_of(opened))
        yield server
