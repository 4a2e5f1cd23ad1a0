"""The running server: one for each data directory, reachable by its owner's commands.

In this order, and at the end in the reverse:

1. The instance lock.
2. The database, with its schema up to date.
3. The gates of the configuration: if one of them could not do its work, nothing is started.
4. The owner's socket, with the API. Until the conversation is open, the API is the commands of
   this server: `ping`, `status`, `reload_keys`, `stop`.
5. The vault: a server that was started without its passphrase waits for it here (`unlocking`).
6. Housekeeping.
7. The conversation: at the end it takes nothing more in, and finishes or gives back what it has.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import silas
from silas.app.core import Core
from silas.app.gates import load_system_gates
from silas.app.instance import InstanceLock
from silas.app.jobs import Housekeeping, PeriodicJob, in_background, keep_heaps_small
from silas.kernel import Clock, format_timestamp
from silas.settings.paths import Paths
from silas.web.api import CommandGroup, ProcessApi
from silas.web.commands import ApiCommand
from silas.web.owner_socket import owner_socket

JobsOf = Callable[[Core], Sequence[PeriodicJob]]
ConversationOf = Callable[[Core], AbstractAsyncContextManager[object]]
Unlocking = Callable[[Core], Awaitable[None]]


@dataclass(frozen=True)
class RunningServer:
    """A server that is up."""

    paths: Paths
    core: Core
    housekeeping: Housekeeping
    started_at: str
    stopping: asyncio.Event
    unlocked: asyncio.Event
    """Set once the vault is open."""

    async def status(self) -> dict[str, Any]:
        """What `silas status` shows."""
        newest = await self.core.database.fetch_one("SELECT max(id) FROM applied_migrations")
        return {
            "pid": os.getpid(),
            "started_at": self.started_at,
            "version": silas.__version__,
            "data_dir": str(self.paths.data_dir),
            "schema": newest[0] if newest else None,
            "locked": not self.unlocked.is_set(),
            "housekeeping": self.housekeeping.report(),
        }

    async def ping(self) -> dict[str, Any]:
        """Who answers."""
        locked = not self.unlocked.is_set()
        return {"pid": os.getpid(), "version": silas.__version__, "locked": locked}

    async def reload_keys(self) -> dict[str, Any]:
        """Another process has rotated the owner's key."""
        self.core.keys.reload()
        return {"reloaded": True}

    async def stop(self) -> dict[str, Any]:
        """End the process in an orderly way."""
        self.stopping.set()
        return {"stopping": True}


_COMMANDS = tuple(
    ApiCommand(each)
    for each in (
        RunningServer.ping,
        RunningServer.status,
        RunningServer.reload_keys,
        RunningServer.stop,
    )
)


@contextlib.asynccontextmanager
async def running_server(
    paths: Paths,
    *,
    clock: Clock,
    command: str,
    core: AbstractAsyncContextManager[Core],
    jobs_of: JobsOf,
    stopping: asyncio.Event,
    conversation_of: ConversationOf | None = None,
    api: ProcessApi | None = None,
    unlocking: Unlocking | None = None,
) -> AsyncIterator[RunningServer]:
    """Bring everything up, and take it down in an orderly way at the end of the `with` block.

    `api` is what else can be asked over the owner's socket. `unlocking` comes back when the vault
    is open; if the server is told to stop before that, nothing more is brought up.
    """
    paths.require_initialised()
    keep_heaps_small()
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(InstanceLock(paths.lock, clock=clock, command=command))
        opened = await stack.enter_async_context(core)
        if conversation_of is None:
            await load_system_gates(opened)  # a conversation does it itself, with its own model
        housekeeping = Housekeeping(jobs_of(opened), clock=clock)
        server = RunningServer(
            paths=paths,
            core=opened,
            housekeeping=housekeeping,
            started_at=format_timestamp(clock.now()),
            stopping=stopping,
            unlocked=asyncio.Event(),
        )
        served = api or ProcessApi()
        served.add(CommandGroup("/api/server", _COMMANDS, server))
        await stack.enter_async_context(owner_socket(served, paths.socket))
        if unlocking is not None:
            await unlocking(opened)
        server.unlocked.set()
        if not stopping.is_set():
            await stack.enter_async_context(in_background(housekeeping.run()))
        if conversation_of is not None and not stopping.is_set():
            await stack.enter_async_context(conversation_of(opened))
        yield server
