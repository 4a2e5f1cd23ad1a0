"""`SandboxManager`: makes sandboxes from a configuration, and destroys them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from silas.kernel import IdFactory
from silas.sandbox.choose import AUTO, BackendChoice
from silas.sandbox.errors import UnknownSandbox
from silas.sandbox.models import (
    MEBIBYTE,
    Boundary,
    SandboxConfig,
    SandboxLimits,
    SandboxRequest,
    SandboxResult,
)
from silas.sandbox.ports import OutputListener, SandboxBackend
from silas.sandbox.requests import checked_request
from silas.storage.files import make_private_directory


class Sandbox:
    """One sandbox: a work directory and its constraints.

    Every command runs in fresh namespaces of its own; what they share is the work directory.
    """

    def __init__(
        self,
        sandbox_id: str,
        config: SandboxConfig,
        backend: SandboxBackend,
        *,
        require: frozenset[Boundary],
    ) -> None:
        self.sandbox_id = sandbox_id
        self.config = config
        self._backend = backend
        self._require = require
        self._running: set[asyncio.Task[SandboxResult]] = set()
        self._destroyed = False

    @property
    def backend(self) -> str:
        """The backend's name."""
        return self._backend.name

    @property
    def work_dir(self) -> str:
        """The canonical path of the work directory, the same inside and outside."""
        return self.config.work_dir

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float = 300.0,
        max_output_bytes: int = 100_000,
        stdin: bytes = b"",
        on_output: OutputListener | None = None,
    ) -> SandboxResult:
        """Run one command, a list of arguments, in the work directory."""
        if self._destroyed:
            raise UnknownSandbox(f"The sandbox {self.sandbox_id} has been destroyed.")
        request = self._request(
            argv, timeout_seconds=timeout_seconds, max_output_bytes=max_output_bytes, stdin=stdin
        )
        task = asyncio.ensure_future(self._backend.run(request, on_output=on_output))
        self._running.add(task)
        try:
            return await task
        finally:
            task.cancel()
            self._running.discard(task)

    async def close(self) -> None:
        """End every command that still runs; from now on nothing runs in it."""
        self._destroyed = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _request(
        self, argv: Sequence[str], *, timeout_seconds: float, max_output_bytes: int, stdin: bytes
    ) -> SandboxRequest:
        config = self.config
        return checked_request(
            argv=tuple(argv),
            env=config.env,
            cwd=self.work_dir,
            read=tuple(config.filesystem_read),
            write=(self.work_dir, *config.filesystem_write),
            network=config.network_access,
            limits=SandboxLimits(
                wall_seconds=timeout_seconds,
                cpu_seconds=config.max_cpu_seconds,
                memory_bytes=config.max_memory_mb * MEBIBYTE,
                output_bytes=max_output_bytes,
            ),
            stdin=stdin,
            require=self._require,
        )


class SandboxManager:
    """Makes sandboxes and keeps track of them."""

    def __init__(
        self,
        choice: BackendChoice,
        ids: IdFactory,
        *,
        backend: str = AUTO,
        require: frozenset[Boundary] = frozenset(),
    ) -> None:
        self._choice = choice
        self._ids = ids
        self._backend = backend
        self._require = require
        self._sandboxes: dict[str, Sandbox] = {}

    async def create(self, config: SandboxConfig) -> Sandbox:
        """A new sandbox; fails if no backend can enforce its constraints."""
        backend = await self._choice.choose(config.backend or self._backend)
        make_private_directory(Path(config.work_dir))
        # From here on the paths are real ones: a link that is put there later is not followed.
        config = config.model_copy(
            update={
                "work_dir": _real(config.work_dir),
                "filesystem_read": [_real(path) for path in config.filesystem_read],
                "filesystem_write": [_real(path) for path in config.filesystem_write],
            }
        )
        sandbox = Sandbox(self._ids.new("sbx"), config, backend, require=self._require)
        self._sandboxes[sandbox.sandbox_id] = sandbox
        return sandbox

    async def destroy(self, sandbox_id: str) -> None:
        """End everything in it. Its work directory stays: it belongs to whoever named it."""
        sandbox = self._sandboxes.pop(sandbox_id, None)
        if sandbox is None:
            raise UnknownSandbox(f"There is no sandbox {sandbox_id}.")
        await sandbox.close()


def _real(path: str) -> str:
    return str(Path(path).resolve())
