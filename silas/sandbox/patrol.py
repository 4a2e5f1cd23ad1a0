"""Looks after a running sandbox for what the kernel does not limit in total."""

import asyncio
from datetime import datetime

from silas.sandbox.census import descendants, memory_at_most, memory_of
from silas.sandbox.disk import DiskUse
from silas.sandbox.models import Limit, SandboxRequest
from silas.sandbox.tree import ProcessTree

_INTERVAL = 0.05


class Patrol:
    """Goes round twenty times a second, until a limit is exceeded."""

    def __init__(
        self, request: SandboxRequest, *, since: datetime, counted: ProcessTree | None
    ) -> None:
        """`counted` is a tree whose processes and memory the kernel does not count in total."""
        self._limits = request.limits
        self._counted = counted
        self._disk = DiskUse(request.write, since=since)

    async def go(self) -> Limit:
        """Return the limit that is exceeded; never, as long as none is."""
        while True:
            await asyncio.sleep(_INTERVAL)
            limit = await self._disk_limit()
            if limit is None and self._counted is not None:
                limit = await self._process_limit(self._counted)
            if limit is not None:
                return limit

    async def _disk_limit(self) -> Limit | None:
        most = self._limits.disk_bytes
        if self._disk.may_exceed(most) and await asyncio.to_thread(self._disk.count) > most:
            return Limit.DISK
        return None

    async def _process_limit(self, tree: ProcessTree) -> Limit | None:
        first = tree.first_process()
        if first is None:
            return None
        # One more than allowed is enough to know; a flood of processes is not counted to its end.
        processes = descendants(first, most=self._limits.processes + 1)
        if len(processes) > self._limits.processes:
            return Limit.PROCESSES
        most = self._limits.memory_bytes
        if memory_at_most(processes) <= most:
            return None
        used = await asyncio.to_thread(memory_of, processes)
        return Limit.MEMORY if used > most else None
