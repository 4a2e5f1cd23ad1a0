"""The `bubblewrap` backend: own namespaces, only the listed paths, a system call filter.

How a command is started:

1. Every path is opened without following links and handed over by descriptor (`environment.py`).
2. `bwrap` starts with an empty environment, because its first process inside shows its own in
   /proc/1/environ. It waits for its options, which come through a pipe: nobody on the host can read
   them in the list of processes.
3. While it waits, it gets the resource limits and joins the control group; everything that it
   starts inherits both.
4. With the options, it builds the namespaces and executes the command. Where the number of
   processes can only be limited from within the new user namespace, it waits there once more. It
   also waits there while the way out to its hosts is opened, if it has any (`silas.egress`).
5. When the command has ended, or is to be ended, the first process is killed; the kernel takes
   everything in its pid namespace with it. The same happens when Silas itself is killed
   (`command_run.py`).

Three pipes lead to each `bwrap`: options in, status out, and a gate to wait at. `isolation` and
`file_system` give the options, in the order in which bubblewrap follows them.

The `subprocess` backend does the same on machines on which bubblewrap is not installed. The same
request becomes the same options, pipes and limits; a program of Silas's own follows them instead of
`bwrap` (`starter.py`), run by the Python that runs Silas. It needs a kernel that lets its user make
namespaces (Linux 5.12 or later). Where the kernel refuses, nothing is run.
"""

import asyncio
import fcntl
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from silas.egress import EgressProxy, PublicNetwork, WayOut
from silas.kernel import CanonicalError, Clock, SystemClock, strict_loads
from silas.sandbox import environment, seccomp
from silas.sandbox.command_run import (
    HIGHEST_EXIT_CODE,
    KILLED,
    NO_SUCH_PROGRAM,
    NOT_EXECUTABLE,
    CommandRun,
    ProcessTree,
    memory_file,
    not_counted_by_the_kernel,
    probe_by_running,
    to_the_end,
)
from silas.sandbox.environment import Pin, pin_all
from silas.sandbox.errors import (
    BackendUnavailable,
    CannotContain,
    CommandRefused,
    SandboxNotStarted,
)
from silas.sandbox.limits import (
    ControlGroup,
    ControlGroups,
    find_home,
    limit_process,
    limit_processes,
)
from silas.sandbox.models import (
    TEMPORARY,
    BackendReport,
    Boundary,
    Limit,
    OutputListener,
    SandboxLimits,
    SandboxRequest,
    SandboxResult,
    is_within,
)

if TYPE_CHECKING:  # most commands of the command line use no account
    from silas.egress.broker import CredentialBroker

_MAX_OPTIONS_BYTES = 1024 * 1024
_USUAL_PIPE_BYTES = 64 * 1024
_EXECUTION_FAILED = (b"bwrap: execvp ", b"silas: execvp ")
_NEEDED_OPTIONS = {"--bind-fd", "--json-status-fd", "--size"}

CONTAINS = (
    "files: only the listed paths and a read-only system are visible",
    "network: none, or the listed hosts and one account alone, through Silas's proxy",
    "processes: those of the host are neither visible nor reachable, and none survives",
    "system calls: what nothing needs is refused",
    "privileges: none, and none to be gained",
    "limits: time, memory, processes, files, output",
)
DOES_NOT_CONTAIN = ("the kernel: a flaw in it is shared with the host",)


class OptionsPipe:
    """`bwrap --args`: it waits here, before it does anything, until all options are there."""

    def __init__(self, stack: ExitStack) -> None:
        self.reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self.reading, True)
        self._text = b""
        stack.callback(os.close, self.reading)
        stack.callback(self._close)

    def prepare(self, options: Sequence[str]) -> None:
        """Make room for all of them: half of the options would be half of a sandbox."""
        self._text = b"".join(os.fsencode(option) + b"\0" for option in options)
        if len(self._text) > _MAX_OPTIONS_BYTES:
            raise CommandRefused(f"The environment and paths exceed {_MAX_OPTIONS_BYTES} bytes.")
        if len(self._text) > _USUAL_PIPE_BYTES:
            fcntl.fcntl(self._writing, fcntl.F_SETPIPE_SZ, len(self._text))

    def send(self) -> None:
        os.write(self._writing, self._text)
        self._close()

    def _close(self) -> None:
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1


class StartGate:
    """`bwrap --block-fd`: the first process inside waits here before it executes the command."""

    def __init__(self, stack: ExitStack) -> None:
        self.waiting, self._opening = os.pipe2(os.O_CLOEXEC)
        stack.callback(os.close, self.waiting)
        stack.callback(os.close, self._opening)

    def open(self) -> None:
        os.write(self._opening, b"1")


class StatusPipe:
    """`bwrap --json-status-fd`: the first process inside, and how the command ended.

    `first_process` is its number, or nothing if the sandbox could not be built.
    The command cannot write to it: bubblewrap closes it before it executes anything.
    """

    def __init__(self, stack: ExitStack) -> None:
        self._loop = asyncio.get_running_loop()
        self._reading, self.writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._reading, False)
        self._text = b""
        self.first_process: asyncio.Future[int | None] = self._loop.create_future()
        self._on_first: Callable[[int], None] | None = None
        stack.callback(self._close)

    def listen(self, on_first: Callable[[int], None]) -> None:
        """Start to read, once the launcher has its own copy of the writing end."""
        os.close(self.writing)
        self.writing = -1
        self._on_first = on_first
        self._loop.add_reader(self._reading, self._read)

    def exit_code(self) -> int | None:
        """The command's exit code; nothing if it was never executed. Only after the end."""
        while self._reading >= 0 and self._read():
            pass
        return self._value("exit-code")

    def _read(self) -> bool:
        try:
            chunk = os.read(self._reading, 4096)
        except BlockingIOError:
            return False
        self._text += chunk
        pid = self._value("child-pid")
        if not self.first_process.done() and (pid is not None or not chunk):
            self.first_process.set_result(pid)
            if pid is not None and self._on_first is not None:
                self._on_first(pid)
        if not chunk:
            self._close()
        return bool(chunk)

    def _value(self, name: str) -> int | None:
        for line in self._text.splitlines():
            try:
                document = strict_loads(line)
            except CanonicalError:
                continue
            if isinstance(document, dict) and isinstance(document.get(name), int):
                value: int = document[name]
                return value
        return None

    def _close(self) -> None:
        if self._reading >= 0:
            self._loop.remove_reader(self._reading)
            os.close(self._reading)
            self._reading = -1
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1


class BubblewrapBackend:
    """Runs commands through `bwrap`."""

    name = "bubblewrap"

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        program: str | None = None,
        way_out: WayOut | None = None,
        broker: "CredentialBroker | None" = None,
        hidden: Sequence[str] = (),
    ) -> None:
        """Without a `broker`, commands that use an account are refused.

        `hidden` are paths that are not visible either where the system's directories hold them.

        The home directory and Silas's own code always are.
        """
        self._clock = clock or SystemClock()
        self._way_out = way_out or PublicNetwork()
        self._broker = broker
        self._hidden = (*environment.always_hidden(), *hidden)
        self._program = program or self.find_program()
        self._groups = ControlGroups(find_home())

    def find_program(self) -> str | None:
        """Where the launcher is, on the system's own path alone."""
        return shutil.which("bwrap", path=environment.SYSTEM_PATH)

    async def probe(self) -> BackendReport:
        return await probe_by_running(self, contains=CONTAINS, does_not_contain=DOES_NOT_CONTAIN)

    async def run(
        self, request: SandboxRequest, *, on_output: OutputListener | None = None
    ) -> SandboxResult:
        """A sandbox that the kernel did not build at the first try is built anew.

        Nothing was executed in it: bubblewrap makes the network first, and would else have
        reported how the command ended.
        """
        for _ in range(_TRIES - 1):
            try:
                return await self._run(request, on_output)
            except SandboxNotStarted as error:
                if _FOR_A_MOMENT not in error.message:
                    raise
        return await self._run(request, on_output)

    async def _run(
        self, request: SandboxRequest, on_output: OutputListener | None
    ) -> SandboxResult:
        if Boundary.SYSTEM_CALLS in request.require and _not_filtered():
            raise CannotContain(f"Nothing was run. {_not_filtered()[0]}.")
        run = CommandRun(request, self._clock, on_output)
        proxy = self._proxy(request)
        with ExitStack() as stack:
            status, options, gate = StatusPipe(stack), OptionsPipe(stack), StartGate(stack)
            descriptors = self._prepare(request, status, options, gate, stack=stack)
            launcher = [*self.launcher, "--args", str(options.reading), "--"]
            tree = run.start([*launcher, *request.argv], descriptors)
            status.listen(tree.adopt)
            try:
                group = self._limit(tree.pid, request.limits, stack)
                grouped = group is not None
                options.send()
                await self._let_in(run, status, request, proxy, grouped=grouped)
                gate.open()
                limit = await run.watch(tree, grouped=grouped)
            finally:
                await to_the_end(_end(run, tree, status))
            if limit is None and group is not None and group.out_of_memory():
                limit = Limit.MEMORY
            code = KILLED if limit else status.exit_code()
            if code is None:
                said = run.capture.kept("stdout" if request.one_stream else "stderr")
                code = _code_without_report(tree.exit_code, said)
            missing = (*_not_filtered(), *(() if grouped else not_counted_by_the_kernel()))
            return run.result(self.name, code, limit, not_enforced=missing)

    def _prepare(
        self,
        request: SandboxRequest,
        status: StatusPipe,
        options: OptionsPipe,
        gate: StartGate,
        *,
        stack: ExitStack,
    ) -> list[int]:
        """Put the options together, and return the descriptors that `bwrap` needs for them."""
        pins = pin_all(request, stack)
        files = environment.ETC_FILES.items()
        etc = [(memory_file(text.encode(), stack), path) for path, text in files]
        words = [
            *isolation(request, disable_userns=self.can_disable_userns),
            *file_system(request, pins, etc, hidden=self._hidden),
            *("--json-status-fd", str(status.writing), "--block-fd", str(gate.waiting)),
        ]
        descriptors = [status.writing, options.reading, gate.waiting]
        descriptors += [entry.descriptor for entry in pins]
        descriptors += [descriptor for descriptor, _ in etc]
        if seccomp.supported():
            descriptors.append(memory_file(seccomp.filter_program(), stack))
            words += ["--seccomp", str(descriptors[-1])]
        options.prepare(words)
        return descriptors

    def _limit(self, pid: int, limits: SandboxLimits, stack: ExitStack) -> ControlGroup | None:
        """Limit the launcher, which does nothing yet, and so everything that comes from it."""
        group = self._groups.make(limits)
        if group is not None:
            stack.callback(self._groups.retire, group)
            group = group if group.join(pid) else None
        try:
            limit_process(pid, limits, memory=group is None)
        except OSError as error:
            raise SandboxNotStarted(f"The limits could not be set: {error.strerror}.") from error
        return group

    async def _let_in(
        self,
        run: CommandRun,
        status: StatusPipe,
        request: SandboxRequest,
        proxy: EgressProxy | None,
        *,
        grouped: bool,
    ) -> None:
        """Do what needs the new namespaces, while the command waits at the gate."""
        # For the host's root the kernel does not count processes; the patrol does.
        counted = grouped or os.geteuid() == 0
        if counted and proxy is None:
            return
        first = await status.first_process
        if first is None:
            return
        if not counted:
            limit_processes(first, request.limits)
        if proxy is not None:
            await run.open_way_out(first, proxy)

    def _proxy(self, request: SandboxRequest) -> EgressProxy | None:
        """The way out that the request asks for; raises `CannotContain`."""
        if not request.accounts:
            return EgressProxy(request.network, self._way_out) if request.network else None
        if self._broker is None:
            raise CannotContain(
                "Nothing was run: it uses an account, and here nobody keeps its credential."
            )
        (account,) = request.accounts
        return self._broker.session(account, hosts=request.network)

    @cached_property
    def launcher(self) -> list[str]:
        """The program that builds the sandbox; raises `BackendUnavailable`."""
        if self._program is None:
            raise BackendUnavailable("bubblewrap is not installed.")
        if not self._known_options >= _NEEDED_OPTIONS:
            raise BackendUnavailable(f"{self._program} is too old: it lacks `--bind-fd`.")
        return [self._program]

    @property
    def can_disable_userns(self) -> bool:
        """Whether it can forbid further user namespaces, besides the filter of system calls."""
        return "--disable-userns" in self._known_options

    @cached_property
    def _known_options(self) -> frozenset[str]:
        if self._program is None:
            raise BackendUnavailable("bubblewrap is not installed.")
        try:
            answer = subprocess.run(  # noqa: S603 - a fixed path and a fixed option
                [self._program, "--help"], capture_output=True, check=False, env={}, cwd="/"
            )
        except OSError as error:
            raise BackendUnavailable(f"{self._program}: {error.strerror}.") from error
        return frozenset(word for word in answer.stdout.decode().split() if word.startswith("--"))


def _not_filtered() -> tuple[str, ...]:
    if seccomp.supported():
        return ()
    return (f"system calls: there is no filter for {platform.machine()}",)


async def _end(run: CommandRun, tree: ProcessTree, status: StatusPipe) -> None:
    # A launcher that is killed between making its child and saying so would leave it behind.
    if not tree.has_ended():
        await asyncio.wait({status.first_process}, timeout=1)
    await run.end(tree)


def _code_without_report(launcher: int, stderr: bytes) -> int:
    """bubblewrap reports an exit code only of a command that it executed and saw the end of."""
    if launcher > HIGHEST_EXIT_CODE:
        # Somebody killed it; whether the command was executed by then, nobody knows.
        return launcher
    if stderr.startswith(_EXECUTION_FAILED):
        missing = b"No such file or directory" in stderr
        return NO_SUCH_PROGRAM if missing else NOT_EXECUTABLE
    reason = stderr.decode(errors="replace").strip() or "bubblewrap ended without a word"
    raise SandboxNotStarted(f"The sandbox could not be built: {reason}")


_TRIES = 3
# On a machine that is busy, some kernels lose the answer to this request now and then.
_FOR_A_MOMENT = "bwrap: loopback: Failed"
# The rest of what is in memory is for /tmp; semaphores and small buffers need little.
_SHARED_MEMORY_PART = 4
# The names of the keys that the owner's session holds.
_HIDDEN = ("keys",)
# The kernel opens these to the host's root by its user id alone, without any privilege.
_HIDDEN_FROM_ROOT = ("kcore", "sysrq-trigger", "timer_list")


def isolation(request: SandboxRequest, *, disable_userns: bool) -> Iterator[str]:
    """Namespaces, identity and lifetime.

    No `--new-session`: the launcher itself leads a new one, without a terminal, and its process
    group is what the orphan killer ends.
    """
    yield from ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts")
    yield "--unshare-net"
    yield from ("--unshare-cgroup-try", "--die-with-parent", "--cap-drop", "ALL")
    yield from ("--uid", str(environment.USER_ID), "--gid", str(environment.USER_ID))
    yield from ("--hostname", environment.HOSTNAME)
    if disable_userns:
        yield "--disable-userns"
    for name, value in environment.variables(request).items():
        yield from ("--setenv", name, value)


def file_system(
    request: SandboxRequest,
    pins: Sequence[Pin],
    etc: Sequence[tuple[int, str]],
    *,
    hidden: Sequence[str],
) -> Iterator[str]:
    """What can be seen: the system read-only, small private file systems, the listed paths."""
    yield from _system(request)
    yield from _covered(hidden)
    yield from _kernel(request)
    for descriptor, path in etc:
        yield from ("--file", str(descriptor), path)
    yield from _private("1777", request.limits.temporary_bytes, TEMPORARY)
    for entry in pins:
        option = "--bind-fd" if entry.writable else "--ro-bind-fd"
        yield from (option, str(entry.descriptor), entry.path)
    yield from ("--remount-ro", "/", "--chdir", request.cwd)


def _system(request: SandboxRequest) -> Iterator[str]:
    directories = environment.system_directories()
    for path in (*directories, *environment.configuration_files(network=request.reaches_out)):
        yield from ("--ro-bind", path, path)
    for path, target in environment.system_links().items():
        yield from ("--symlink", target, path)


def _covered(hidden: Sequence[str]) -> Iterator[str]:
    """Cover what lies among the system's directories and is nobody's business in a sandbox."""
    directories = environment.system_directories()
    for path in hidden:
        if any(is_within(path, directory) for directory in directories):
            if Path(path).is_dir():
                yield from ("--tmpfs", path, "--remount-ro", path)
            elif Path(path).exists():
                yield from ("--ro-bind", "/dev/null", path)


def _kernel(request: SandboxRequest) -> Iterator[str]:
    yield from ("--proc", "/proc")
    # Writable by the host's root in the same way: a sandbox of a Silas that runs as root could
    # change which program the host starts after a crash.
    yield from ("--ro-bind", "/proc/sys", "/proc/sys")
    for path in _hidden_files(root=os.geteuid() == 0):
        yield from ("--ro-bind", "/dev/null", path)
    yield from ("--dev", "/dev")
    shared = request.limits.temporary_bytes // _SHARED_MEMORY_PART
    yield from _private("1777", shared, "/dev/shm")  # noqa: S108 - the sandbox's own
    yield from ("--remount-ro", "/dev")


@cache
def _hidden_files(*, root: bool) -> tuple[str, ...]:
    names = (*_HIDDEN, *_HIDDEN_FROM_ROOT) if root else _HIDDEN
    return tuple(str(path) for name in names if (path := Path("/proc", name)).exists())


def _private(mode: str, size: int, path: str) -> Iterator[str]:
    yield from ("--perms", mode, "--size", str(size), "--tmpfs", path)


_STARTER = Path(__file__).with_name("starter.py")


class SubprocessBackend(BubblewrapBackend):
    """Runs commands through `starter.py`."""

    name = "subprocess"

    def find_program(self) -> str | None:
        """The Python that runs Silas."""
        return sys.executable

    @cached_property
    def launcher(self) -> list[str]:
        """Python without site packages or anything from the environment, and the starter."""
        return [str(self._program), "-I", "-S", str(_STARTER)]

    @property
    def can_disable_userns(self) -> bool:
        """It always does."""
        return True
