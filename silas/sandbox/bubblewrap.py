"""The `bubblewrap` backend: own namespaces, only the listed paths, a system call filter.

How a command is started:

1. Every path is opened without following links and handed over by descriptor (`pins`).
2. `bwrap` starts with an empty environment, because its first process inside shows its own in
   /proc/1/environ. It waits for its options, which come through a pipe: nobody on the host can read
   them in the list of processes.
3. While it waits, it gets the resource limits and joins the control group; everything that it
   starts inherits both.
4. With the options, it builds the namespaces and executes the command. Where the number of
   processes can only be limited from within the new user namespace, it waits there once more.
5. When the command has ended, or is to be ended, the first process is killed; the kernel takes
   everything in its pid namespace with it. The same happens when Silas itself is killed
   (`undertaker`).
"""

import asyncio
import os
import platform
import shutil
import subprocess
from contextlib import ExitStack
from functools import cached_property

from silas.kernel import Clock, SystemClock
from silas.sandbox import profile, runtime, seccomp
from silas.sandbox.cgroups import ControlGroup, ControlGroups, find_home
from silas.sandbox.channels import Gate, OptionsPipe, StatusPipe
from silas.sandbox.errors import BackendUnavailable, CannotContain, SandboxNotStarted
from silas.sandbox.models import (
    BackendReport,
    Boundary,
    Limit,
    SandboxLimits,
    SandboxRequest,
    SandboxResult,
)
from silas.sandbox.pins import pin_all
from silas.sandbox.ports import OutputListener
from silas.sandbox.rlimits import limit_process, limit_processes
from silas.sandbox.supervise import (
    HIGHEST_EXIT_CODE,
    KILLED,
    NO_SUCH_PROGRAM,
    NOT_EXECUTABLE,
    Run,
    memory_file,
    not_counted_by_the_kernel,
    probe_by_running,
    to_the_end,
)
from silas.sandbox.tree import ProcessTree

_EXECUTION_FAILED = b"bwrap: execvp "
_NEEDED_OPTIONS = {"--bind-fd", "--json-status-fd", "--size"}

CONTAINS = (
    "files: only the listed paths and a read-only system are visible",
    "network: none, unless it was asked for",
    "processes: those of the host are neither visible nor reachable, and none survives",
    "system calls: what nothing needs is refused",
    "privileges: none, and none to be gained",
    "limits: time, memory, processes, files, output",
)
DOES_NOT_CONTAIN = (
    "the kernel: a flaw in it is shared with the host",
    "the network, once it was asked for: whatever the host reaches, its own services included",
)


class BubblewrapBackend:
    """Runs commands through `bwrap`."""

    name = "bubblewrap"

    def __init__(self, *, clock: Clock | None = None, program: str | None = None) -> None:
        self._clock = clock or SystemClock()
        self._program = program or shutil.which("bwrap", path=runtime.SYSTEM_PATH)
        self._groups = ControlGroups(find_home())

    async def probe(self) -> BackendReport:
        return await probe_by_running(self, contains=CONTAINS, does_not_contain=DOES_NOT_CONTAIN)

    async def run(
        self, request: SandboxRequest, *, on_output: OutputListener | None = None
    ) -> SandboxResult:
        if Boundary.SYSTEM_CALLS in request.require and _not_filtered():
            raise CannotContain(f"Nothing was run. {_not_filtered()[0]}.")
        run = Run(request, self._clock, on_output)
        with ExitStack() as stack:
            status, options, gate = StatusPipe(stack), OptionsPipe(stack), Gate(stack)
            descriptors = self._prepare(request, status, options, gate, stack=stack)
            launcher = [self._checked_program, "--args", str(options.reading), "--"]
            tree = run.start([*launcher, *request.argv], descriptors)
            status.listen(tree.adopt)
            try:
                group = self._limit(tree.pid, request.limits, stack)
                grouped = group is not None
                options.send()
                await _let_in(status, gate, request.limits, grouped=grouped)
                limit = await run.watch(tree, grouped=grouped)
            finally:
                await to_the_end(_end(run, tree, status))
            if limit is None and group is not None and group.out_of_memory():
                limit = Limit.MEMORY
            code = KILLED if limit else status.exit_code()
            if code is None:
                code = _code_without_report(tree.exit_code, run.capture.kept("stderr"))
            missing = (*_not_filtered(), *(() if grouped else not_counted_by_the_kernel()))
            return run.result(self.name, code, limit, not_enforced=missing)

    def _prepare(
        self,
        request: SandboxRequest,
        status: StatusPipe,
        options: OptionsPipe,
        gate: Gate,
        *,
        stack: ExitStack,
    ) -> list[int]:
        """Put the options together, and return the descriptors that `bwrap` needs for them."""
        pins = pin_all(request, stack)
        files = runtime.ETC_FILES.items()
        etc = [(memory_file(text.encode(), stack), path) for path, text in files]
        words = [
            *profile.isolation(request, disable_userns="--disable-userns" in self._known_options),
            *profile.file_system(request, pins, etc),
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

    @cached_property
    def _checked_program(self) -> str:
        if self._program is None:
            raise BackendUnavailable("bubblewrap is not installed.")
        if not self._known_options >= _NEEDED_OPTIONS:
            raise BackendUnavailable(f"{self._program} is too old: it lacks `--bind-fd`.")
        return self._program

    @cached_property
    def _known_options(self) -> frozenset[str]:
        if self._program is None:
            raise BackendUnavailable("bubblewrap is not installed.")
        try:
            told = subprocess.run(  # noqa: S603 - a fixed path and a fixed option
                [self._program, "--help"], capture_output=True, check=False, env={}
            )
        except OSError as error:
            raise BackendUnavailable(f"{self._program}: {error.strerror}.") from error
        return frozenset(word for word in told.stdout.decode().split() if word.startswith("--"))


def _not_filtered() -> tuple[str, ...]:
    if seccomp.supported():
        return ()
    return (f"system calls: there is no filter for {platform.machine()}",)


async def _let_in(status: StatusPipe, gate: Gate, limits: SandboxLimits, *, grouped: bool) -> None:
    """Open the gate, after limiting processes from within if no control group counts them."""
    # For the host's root the kernel does not count processes; the patrol does.
    if not grouped and os.geteuid() != 0:
        first = await status.first_process
        if first is not None:
            limit_processes(first, limits)
    gate.open()


async def _end(run: Run, tree: ProcessTree, status: StatusPipe) -> None:
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
