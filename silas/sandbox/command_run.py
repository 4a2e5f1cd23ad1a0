"""One command on its way through a local backend: started, watched, ended, reported.

Its output is read as it comes, without ever holding more than was asked for. Its process tree is
waited for and ended as a whole, whatever its members do:

1. Processes are held by pidfd, so a signal can never reach a stranger that got the same number.
2. The first process of a pid namespace takes all others with it: once it is gone, everything is.
3. A Silas that is killed leaves nothing behind, from the first moment of a sandbox's building on.
   Launchers can ask the kernel to be killed with their parent (`bwrap --die-with-parent`), but only
   once they run, and each of their children anew. So every process group of a launcher is entered
   in a list that a small shell holds. The shell waits for the end of its input, which comes when
   Silas ends in whatever way, and then kills what is still on the list. One shell serves a whole
   Silas process.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from subprocess import Popen
from typing import Any, Literal, TypeVar

from silas.egress import EgressProxy, listen_in_namespace_of
from silas.kernel import Clock, SandboxError
from silas.sandbox.errors import CannotContain, CommandRefused, SandboxNotStarted
from silas.sandbox.limits import Patrol
from silas.sandbox.models import (
    UNSAFE_NO_BOUNDARY,
    BackendReport,
    Limit,
    OutputListener,
    SandboxBackend,
    SandboxLimits,
    SandboxRequest,
    SandboxResult,
)

T = TypeVar("T")

_SCRIPT = """
list=" "
while read -r line; do
  group=${line#?}
  case $line in
    +*) list="$list$group " ;;
    -*) list="${list%%" $group "*} ${list#*" $group "}" ;;
  esac
done
for group in $list; do kill -KILL "-$group" 2>/dev/null; done
"""


class ProcessTree:
    """The launcher that we started and, once known, the first process inside the sandbox."""

    def __init__(self, launcher: Popen[bytes]) -> None:
        self._launcher = launcher
        self._outer = os.pidfd_open(launcher.pid)
        self._first: int | None = None
        self._first_pid: int | None = None

    @property
    def pid(self) -> int:
        """The launcher's process number."""
        return self._launcher.pid

    @property
    def exit_code(self) -> int:
        """How the launcher ended, in a shell's words; only once the tree is gone."""
        code = self._launcher.wait()
        return 128 - code if code < 0 else code

    def adopt(self, pid: int) -> None:
        """Name the first process of the pid namespace."""
        if self._first is None:
            with suppress(ProcessLookupError):
                self._first = os.pidfd_open(pid)
                self._first_pid = pid

    def first_process(self) -> int | None:
        """The number of the first process inside, as soon as it is known."""
        if self._first is None:
            self._adopt_child()
        return self._first_pid

    def has_ended(self) -> bool:
        """Whether the launcher has ended, in whatever way."""
        return self._ending() is not None

    def _ending(self) -> os.waitid_result | None:
        # Without taking its status: as long as we have not, nobody else can get its number.
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)

    async def ended(self) -> None:
        """Return when the command has ended; processes that it left behind may still live."""
        await _readable(self._outer)

    async def gone(self) -> None:
        """End whatever is left, and return when nothing of the command is."""
        if not self._nothing_left():
            self.kill()
            for descriptor in (self._first, self._outer):
                if descriptor is not None:
                    await _readable(descriptor)
        self._launcher.wait()

    def kill(self) -> None:
        """End everything at once."""
        if self._first is None:
            self._adopt_child()
        for descriptor in (self._first, self._outer):
            if descriptor is not None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        # A launcher that somebody killed half-way has left a child that we may not know.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        for descriptor in (self._first, self._outer):
            if descriptor is not None:
                os.close(descriptor)

    def _adopt_child(self) -> None:
        """A launcher has one child, the first process inside."""
        for child in _children(self._launcher.pid) or ():
            self.adopt(child)

    def _nothing_left(self) -> bool:
        """Whether the launcher ended by itself and the first process, if still there, is alone.

        Every process of the namespace descends from the first one. Without children it is only the
        sandbox's own, on its way out; taking the namespaces down keeps it for a millisecond more.
        """
        ending = self._ending()
        if ending is None or ending.si_code != os.CLD_EXITED:
            return False
        return self._first_pid is None or _children(self._first_pid) == []


def _children(pid: int) -> list[int] | None:
    """A process's children; nothing if it is gone or the kernel does not tell."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return None
    return [int(child) for child in text.split()]


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not future.done():
            future.set_result(None)

    loop.add_reader(descriptor, settle)
    try:
        await future
    finally:
        loop.remove_reader(descriptor)


class OrphanKiller:
    """Knows which process groups must not outlive this process."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._writing = _start_shell()

    def add(self, group: int) -> None:
        """From now on this process group dies with us."""
        self._groups.add(group)
        self._tell(f"+{group}\n")

    def remove(self, group: int) -> None:
        """The group is gone; the kernel may give its number to another group."""
        self._groups.discard(group)
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        try:
            os.write(self._writing, line.encode())
        except BrokenPipeError:
            # Somebody killed the shell: a new one gets the whole list.
            os.close(self._writing)
            self._writing = _start_shell()
            os.write(self._writing, "".join(f"+{group}\n" for group in self._groups).encode())


def _start_shell() -> int:
    """Start it, and return the end of the pipe that only we hold."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    silent = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        # In a session of its own, a Ctrl-C at the terminal does not reach it.
        os.posix_spawn(
            "/bin/sh",
            ["/bin/sh", "-c", _SCRIPT],
            {},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, reading, 0),
                (os.POSIX_SPAWN_DUP2, silent, 1),
                (os.POSIX_SPAWN_DUP2, silent, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(reading)
        os.close(silent)
    return writing


@cache
def orphan_killer() -> OrphanKiller:
    """The one of this process, which is what it watches."""
    return OrphanKiller()


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
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
    return task.result()


_BY_EXIT_CODE = {128 + signal.SIGXCPU: Limit.CPU, 128 + signal.SIGXFSZ: Limit.FILE_SIZE}
# Above it, a signal ended the process.
HIGHEST_EXIT_CODE = 128
KILLED = HIGHEST_EXIT_CODE + signal.SIGKILL
NO_SUCH_PROGRAM, NOT_EXECUTABLE = 127, 126
_NAMESPACE_SECONDS = 30


def memory_file(content: bytes, stack: ExitStack) -> int:
    """A descriptor to read these bytes from; the stack closes it."""
    descriptor = os.memfd_create("silas", os.MFD_CLOEXEC)
    stack.callback(os.close, descriptor)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


class CommandRun:
    """One command on its way through a local backend."""

    def __init__(
        self, request: SandboxRequest, clock: Clock, listener: OutputListener | None
    ) -> None:
        self._request = request
        self._clock = clock
        self._started = clock.monotonic()
        self._since = clock.now()
        self._orphans = orphan_killer()
        self.capture = Capture(request.limits, listener)
        self._proxy: EgressProxy | None = None

    async def open_way_out(self, pid: int, proxy: EgressProxy) -> None:
        """Let the network namespace of a process that waits reach what the request lists."""
        try:
            async with asyncio.timeout(_NAMESPACE_SECONDS):
                listeners = await listen_in_namespace_of(pid, *proxy.ports)
        except OSError as error:
            if _has_ended(pid):  # nothing runs any more, and the launcher says why
                return
            raise CannotContain(
                f"The command would reach more than its hosts, so nothing was run: {error}."
            ) from error
        self._proxy = proxy
        await proxy.serve(listeners)

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
            stdout = self.capture.pipe("stdout")
            ours.callback(os.close, stdout)
            stderr = subprocess.STDOUT
            if not self._request.one_stream:
                stderr = self.capture.pipe("stderr")
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
            self._orphans.add(launcher.pid)
            return ProcessTree(launcher)

    def _input(self, stack: ExitStack) -> int:
        data, pipe = self._request.stdin, self._request.stdin_pipe
        if pipe is not None:
            return pipe
        return memory_file(data, stack) if data else subprocess.DEVNULL

    async def watch(self, tree: ProcessTree, *, grouped: bool) -> Limit | None:
        """Wait for the end of a process tree, and say which limit brought it about, if one did."""
        counted = None if grouped else tree
        return await self.watch_task(asyncio.ensure_future(tree.ended()), counted=counted)

    async def watch_task(
        self, ended: asyncio.Future[None], *, counted: ProcessTree | None = None
    ) -> Limit | None:
        """The same for anything that ends with a future; `counted` is looked after in total."""
        first = None if counted is None else counted.first_process
        patrol = Patrol(self._request, since=self._since, first_process=first)
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
        if self._proxy is not None:
            await self._proxy.close()
        self._orphans.remove(tree.pid)
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
            network=self._proxy.uses() if self._proxy else (),
        )


def _has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


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
    limits = SandboxLimits(wall_seconds=60)
    request = SandboxRequest(argv=("true",), limits=limits, require=UNSAFE_NO_BOUNDARY)
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


_CHUNK_BYTES = 64 * 1024
StreamName = Literal["stdout", "stderr"]


@dataclass
class _Stream:
    name: StreamName
    descriptor: int
    first: bytearray = field(default_factory=bytearray)
    last: bytearray = field(default_factory=bytearray)
    truncated: bool = False


class Capture:
    """The two output streams of one command.

    The beginning and the end of each are kept, half of the limit each: an error stands at the end.
    What comes between is read and dropped, so that the command does not block. `flooded` is done
    when it has written more than anyone should have to read.
    """

    def __init__(self, limits: SandboxLimits, listener: OutputListener | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._listener = listener
        self._total = 0
        self._streams: dict[StreamName, _Stream] = {}
        self.flooded: asyncio.Future[None] = self._loop.create_future()

    def pipe(self, name: StreamName) -> int:
        """The end for the command to write to; whoever starts the command closes it then."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reading, False)
        stream = self._streams[name] = _Stream(name, reading)
        self._loop.add_reader(reading, self._read, stream)
        return writing

    def take(self, name: StreamName, chunk: bytes) -> None:
        """Keep what still fits, and tell whoever listens."""
        self._keep(self._streams.setdefault(name, _Stream(name, -1)), chunk)

    def kept(self, name: StreamName) -> bytes:
        stream = self._streams.get(name)
        return bytes(stream.first + stream.last) if stream else b""

    def truncated(self, name: StreamName) -> bool:
        stream = self._streams.get(name)
        return stream is not None and stream.truncated

    def finish(self) -> None:
        """Take what is still in the pipes and close them. Call it when no writer is left."""
        for stream in self._streams.values():
            while stream.descriptor >= 0 and self._read(stream):
                pass
            self._close(stream)

    def _read(self, stream: _Stream) -> bool:
        try:
            chunk = os.read(stream.descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self._close(stream)
            return False
        self._keep(stream, chunk)
        return True

    def _keep(self, stream: _Stream, chunk: bytes) -> None:
        most = self._limits.output_bytes
        free_bytes = most // 2 - len(stream.first)
        stream.first += chunk[:free_bytes]
        stream.last += chunk[free_bytes:]
        beyond = len(stream.last) - (most - most // 2)
        if beyond > 0:
            stream.truncated = True
            del stream.last[:beyond]
        self._total += len(chunk)
        if self._total > self._limits.flood_bytes:
            if not self.flooded.done():
                self.flooded.set_result(None)
        elif self._listener is not None:
            self._listener(stream.name, chunk)

    def _close(self, stream: _Stream) -> None:
        if stream.descriptor >= 0:
            self._loop.remove_reader(stream.descriptor)
            os.close(stream.descriptor)
            stream.descriptor = -1
