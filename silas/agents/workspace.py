"""Our sandbox as a pydantic-ai workspace, so that the ecosystem's console tools work inside it.

Every command runs in a sandbox of its own: what it leaves running ends with it. Files are reached
from outside, confined to the workspace, with the same protected names.
"""

import asyncio
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    WorkspaceCommand,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

from silas.sandbox import Limit, SandboxBackend, SandboxLimits, SandboxRequest, SandboxResult
from silas.sandbox.files import FileStatus, WorkspaceFiles
from silas.sandbox.supervise import to_the_end

_PROVIDER = "silas-sandbox"
_PREFIX = "workspace-"
_DAY_SECONDS = 24 * 60 * 60
_LOOK_SECONDS = 0.2
_T = TypeVar("_T")


class SandboxWorkspace:
    """`WorkspaceBackend`, `SupportsCommands`, `SupportsFilesystem` and `SupportsRealpath`.

    With a `ref` it is the workspace of that name; without, a new directory below `parent`.
    """

    def __init__(
        self,
        backend: SandboxBackend,
        *,
        parent: Path,
        ref: WorkspaceRef | None = None,
        read: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        network: bool = False,
        limits: SandboxLimits | None = None,
    ) -> None:
        self._backend = backend
        self._parent = parent
        self._ref = ref
        self._read = tuple(read)
        self._env = dict(env or {})
        self._network = network
        self._limits = limits or SandboxLimits(output_bytes=10 * 1024 * 1024)
        self._making = asyncio.Lock()

    @property
    def ref(self) -> WorkspaceRef | None:
        """The workspace's name, from its first use on."""
        return self._ref

    async def working_dir(self) -> str:
        """The directory in which commands start, the same inside and outside."""
        async with self._making:
            if self._ref is None:
                # Made and named without a pause, so that no cancellation can come between.
                path = tempfile.mkdtemp(prefix=_PREFIX, dir=self._parent.resolve())
                self._ref = WorkspaceRef(provider=_PROVIDER, id=Path(path).name)
        return self._root()

    def _root(self) -> str:
        parent = self._parent.resolve()
        name = self._ref.id if self._ref else ""
        root = parent / name
        ours = name.startswith(_PREFIX) and "/" not in name
        if not ours or root.is_symlink() or not root.is_dir():
            raise WorkspaceUnavailableError(f"there is no workspace {name!r}")
        return str(root)

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the protocol's own parameter
    ) -> CommandResult:
        """Run one command contained; see the protocol for what is returned and raised."""
        argv = _argv(command, shell=shell)
        limits = self._limits.model_copy(update={"wall_seconds": _seconds(timeout)})
        root = await self.working_dir()
        request = SandboxRequest(
            argv=argv,
            env={**self._env, **(env or {})},
            cwd=root,
            read=self._read,
            write=(root,),
            network=self._network,
            limits=limits,
        )
        return _told(await self._run_while_there(request), limits)

    async def _run_while_there(self, request: SandboxRequest) -> SandboxResult:
        """Run it; end it when the workspace is taken away, which it would not notice itself."""
        task = asyncio.ensure_future(self._backend.run(request))
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_LOOK_SECONDS)
                self._root()
            return task.result()
        finally:
            task.cancel()
            await to_the_end(_settled(task))

    async def read_bytes(self, path: str) -> bytes:
        return await self._on_files(lambda files: files.read_bytes(path))

    async def write_bytes(self, path: str, data: bytes) -> None:
        await self._on_files(lambda files: files.write_bytes(path, data))

    async def stat(self, path: str) -> FileEntry:
        return _entry(await self._on_files(lambda files: files.stat(path)))

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        return [_entry(entry) for entry in await self._on_files(lambda files: files.list_dir(path))]

    async def make_dir(self, path: str) -> None:
        await self._on_files(lambda files: files.make_dir(path))

    async def remove(self, path: str) -> None:
        await self._on_files(lambda files: files.remove(path))

    async def exists(self, path: str) -> bool:
        return await self._on_files(lambda files: files.exists(path))

    async def realpath(self, path: str) -> str:
        return await self._on_files(lambda files: files.realpath(path))

    async def _on_files(self, operation: Callable[[WorkspaceFiles], _T]) -> _T:
        files = WorkspaceFiles(await self.working_dir())
        return await asyncio.to_thread(operation, files)


async def _settled(task: asyncio.Future[SandboxResult]) -> None:
    await asyncio.wait({task})


def _argv(command: WorkspaceCommand, *, shell: bool) -> tuple[str, ...]:
    if isinstance(command, str):
        if not shell:
            raise TypeError("a string needs shell=True; otherwise pass a list of arguments")
        return ("sh", "-c", command)
    if shell:
        raise TypeError("shell=True needs a single string")
    return tuple(command)


def _seconds(timeout: float | None) -> float:
    if timeout is None:
        return _DAY_SECONDS
    if not math.isfinite(timeout) or timeout <= 0:
        raise ValueError("timeout must be a positive finite number or None")
    return timeout


def _told(result: SandboxResult, limits: SandboxLimits) -> CommandResult:
    stdout, stderr = (
        output.decode("utf-8", errors="replace") for output in (result.stdout, result.stderr)
    )
    if result.timed_out:
        message = f"command timed out after {limits.wall_seconds:g}s"
        raise WorkspaceTimeoutError(message, stdout=stdout, stderr=stderr)
    if result.limit is Limit.OUTPUT or result.stdout_truncated or result.stderr_truncated:
        raise WorkspaceOutputLimitError(
            f"output exceeded {limits.output_bytes} bytes; write it to a file instead",
            limit=limits.output_bytes,
            stdout=stdout,
            stderr=stderr,
        )
    return CommandResult(exit_code=result.exit_code, stdout=stdout, stderr=stderr)


def _entry(status: FileStatus) -> FileEntry:
    return FileEntry(
        name=status.name, path=status.path, is_dir=status.is_directory, size=status.size
    )
