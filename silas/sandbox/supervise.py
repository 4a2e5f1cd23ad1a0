"""Starts a launcher, watches the command until it ends or has to be ended, and reports."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from typing import Any

from silas.kernel import Clock, SandboxError
from silas.sandbox.capture import Capture
from silas.sandbox.errors import CommandRefused, SandboxNotStarted
from silas.sandbox.models import BackendReport, Limit, SandboxLimits, SandboxRequest, SandboxResult
from silas.sandbox.patrol import Patrol
from silas.sandbox.ports import OutputListener, SandboxBackend
from silas.sandbox.tree import ProcessTree
from silas.sandbox.undertaker import the_undertaker

_BY_EXIT_CODE = {128 + signal.SIGXCPU: Limit.CPU, 128 + signal.SIGXFSZ: Limit.FILE_SIZE}
# Above it, a signal ended the process.
HIGHEST_EXIT_CODE = 128
KILLED = HIGHEST_EXIT_CODE + signal.SIGKILL
NO_SUCH_PROGRAM, NOT_EXECUTABLE = 127, 126


def memory_file(content: bytes, stack: ExitStack) -> int:
    """A descriptor to read these bytes from; the stack closes it."""
    descriptor = os.memfd_create("silas", os.MFD_CLOEXEC)
    stack.callback(os.close, descriptor)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class Run:
    """One command on its way through a local backend."""

    def __init__(
        self, request: SandboxRequest, clock: Clock, listener: OutputListener | None
    ) -> None:
        self._request = request
        self._clock = clock
        self._started = clock.monotonic()
        self._since = clock.now()
        self._undertaker = the_undertaker()
        self.capture = Capture(request.limits, listener)

    def start(
        self,
        argv: Sequence[str],
        descriptors: Sequence[int],
        *,
        directory: int | None = None,
        stdin: int | None = None,
    ) -> ProcessTree:
        """Start the launcher with an empty environment, inheriting nothing but `descriptors`.

        Its input is what the request says, unless another one is given. It has to wait for
        something from us before it starts the command, so that it never runs unwatched.
        """
        with ExitStack() as ours:
            source = self._input(ours) if stdin is None else stdin
            stdout, stderr = self.capture.pipe("stdout"), self.capture.pipe("stderr")
            ours.callback(os.close, stdout)
            ours.callback(os.close, stderr)
            try:
                launcher = subprocess.Popen(  # noqa: S603 - a list of arguments, and no shell
                    argv,
                    stdin=source,
                    stdout=stdout,
                    stderr=stderr,
                    env={},
                    cwd="/" if directory is None else f"/proc/self/fd/{directory}",
                    pass_fds=descriptors,
                    start_new_session=True,
                )
            except OSError as error:
                self.capture.finish()
                raise _not_started(argv[0], error) from error
            # The launcher leads a new session, and so a process group with its own number.
            self._undertaker.enter(launcher.pid)
            return ProcessTree(launcher)

    def _input(self, stack: ExitStack) -> int:
        data = self._request.stdin
        return memory_file(data, stack) if data else subprocess.DEVNULL

    async def watch(self, tree: ProcessTree, *, grouped: bool) -> Limit | None:
        """Wait for the end of a process tree, and say which limit brought it about, if one did."""
        counted = None if grouped else tree
        return await self.watch_task(asyncio.ensure_future(tree.ended()), counted=counted)

    async def watch_task(
        self, ended: asyncio.Future[None], *, counted: ProcessTree | None = None
    ) -> Limit | None:
        """The same for anything that ends with a future; `counted` is looked after in total."""
        patrol = Patrol(self._request, since=self._since, counted=counted)
        exceeded = asyncio.ensure_future(patrol.go())
        flooded = self.capture.flooded
        waiting: set[asyncio.Future[Any]] = {ended, exceeded, flooded}
        try:
            await asyncio.wait(
                waiting,
                timeout=self._request.limits.wall_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if ended.done():
                return None
            if exceeded.done():
                return exceeded.result()
            return Limit.OUTPUT if flooded.done() else Limit.WALL_CLOCK
        finally:
            for future in waiting:
                future.cancel()

    async def end(self, tree: ProcessTree) -> None:
        """Leave no process, and take the last of the output. Has to come `to_the_end`."""
        await tree.gone()
        self._undertaker.strike(tree.pid)
        self.capture.finish()
        tree.close()

    def result(
        self, backend: str, exit_code: int, limit: Limit | None, *, not_enforced: tuple[str, ...]
    ) -> SandboxResult:
        """What came of it."""
        return SandboxResult(
            backend=backend,
            exit_code=exit_code,
            stdout=self.capture.kept("stdout"),
            stderr=self.capture.kept("stderr"),
            stdout_truncated=self.capture.truncated("stdout"),
            stderr_truncated=self.capture.truncated("stderr"),
            limit=limit or _BY_EXIT_CODE.get(exit_code),
            duration_seconds=self._clock.monotonic() - self._started,
            not_enforced=not_enforced,
        )


async def to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Await what has to be finished, however often we are cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        raise cancellation
    task.result()


def _not_started(program: str, error: OSError) -> CommandRefused | SandboxNotStarted:
    if isinstance(error, FileNotFoundError | PermissionError):
        return SandboxNotStarted(f"{program} cannot be started: {error.strerror}.")
    return CommandRefused(f"The command cannot be started: {error.strerror}.")


def not_counted_by_the_kernel() -> tuple[str, ...]:
    """What is only looked after, not limited, where no control group can be made."""
    who = "memory and processes" if os.geteuid() == 0 else "memory"
    return (f"{who} in total: looked after twenty times a second, for want of a control group",)


async def probe_by_running(
    backend: SandboxBackend, *, contains: tuple[str, ...], does_not_contain: tuple[str, ...]
) -> BackendReport:
    """Run `true` in it: only that shows whether it works here."""
    request = SandboxRequest(argv=("true",), limits=SandboxLimits(wall_seconds=60))
    try:
        result = await backend.run(request)
    except SandboxError as error:
        return BackendReport(name=backend.name, available=False, reason=error.message)
    if result.exit_code != 0:
        reason = f"`true` ended with {result.exit_code} in it"
        return BackendReport(name=backend.name, available=False, reason=reason)
    return BackendReport(
        name=backend.name,
        available=True,
        reason="it ran a command here",
        contains=contains,
        does_not_contain=(*does_not_contain, *result.not_enforced),
    )
