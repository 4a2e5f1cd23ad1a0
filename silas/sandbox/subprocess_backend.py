"""The `subprocess` backend: namespaces through `unshare`, for machines without bubblewrap.

It contains the network, processes, shared memory, the environment and the limits. It does **not**
contain files: the command sees and writes what its user may. It does not filter system calls.

How a command is started: `setpriv` takes away the way to new privileges; `unshare` makes the
namespaces; a shell sets limits and environment and is the first process of the pid namespace, so
that all others end with it. The shell executes a script that we wrote; the command is its arguments
and is never parsed by it. The launchers get an empty environment, because one that the caller chose
could load code into them. Their input is a pipe: the shell waits for a word, and ends without it.
"""

import os
import re
import shlex
import shutil
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from silas.kernel import Clock, SystemClock
from silas.sandbox import runtime
from silas.sandbox.errors import BackendUnavailable, CannotContain, CommandRefused
from silas.sandbox.models import (
    TEMPORARY,
    BackendReport,
    Boundary,
    Limit,
    SandboxRequest,
    SandboxResult,
)
from silas.sandbox.pins import pin
from silas.sandbox.ports import OutputListener
from silas.sandbox.supervise import (
    HIGHEST_EXIT_CODE,
    KILLED,
    Run,
    not_counted_by_the_kernel,
    probe_by_running,
    to_the_end,
)

_NAMESPACES = ("--user", "--mount", "--pid", "--ipc", "--uts", "--cgroup")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

CONTAINS = (
    "network: none, unless it was asked for",
    "processes: those of the host are neither visible nor reachable, and none survives",
    "privileges: none, and none to be gained",
    "limits: time, memory, processes, files, output",
)
DOES_NOT_CONTAIN = (
    "files: the command reads and writes whatever you may, also outside the listed paths",
    "system calls: none is refused beyond what the kernel refuses to any user",
    "the kernel: a flaw in it is shared with the host",
)
FILES_NOT_CONTAINED = "files: the listed paths are not enforced"


class SubprocessBackend:
    """Runs commands through `unshare`."""

    name = "subprocess"

    def __init__(self, *, clock: Clock | None = None, unshare: str | None = None) -> None:
        self._clock = clock or SystemClock()
        self._unshare = unshare or shutil.which("unshare", path=runtime.SYSTEM_PATH)
        self._setpriv = shutil.which("setpriv", path=runtime.SYSTEM_PATH)

    async def probe(self) -> BackendReport:
        return await probe_by_running(self, contains=CONTAINS, does_not_contain=DOES_NOT_CONTAIN)

    async def run(
        self, request: SandboxRequest, *, on_output: OutputListener | None = None
    ) -> SandboxResult:
        _refuse_what_is_not_enforced(request)
        run = Run(request, self._clock, on_output)
        with ExitStack() as stack:
            for path in (*request.read, *request.write):
                pin(path, stack)
            scratch = _Scratch(request, stack)
            directory = pin(scratch.place(request.cwd), stack)
            waiting, word = os.pipe2(os.O_CLOEXEC)
            stack.callback(os.close, waiting)
            stack.callback(os.close, word)
            argv = self._command_line(request, scratch)
            tree = run.start(argv, [], directory=directory, stdin=waiting)
            limit: Limit | None = None
            try:
                os.write(word, b"go\n")
                limit = await run.watch(tree, grouped=False)
            finally:
                await to_the_end(run.end(tree))
            code = KILLED if limit else tree.exit_code
            if code <= HIGHEST_EXIT_CODE and not scratch.started():
                raise _not_contained(run.capture.kept("stderr"))
            missing = (FILES_NOT_CONTAINED, *not_counted_by_the_kernel())
            return run.result(self.name, code, limit, not_enforced=missing)

    def _command_line(self, request: SandboxRequest, scratch: "_Scratch") -> list[str]:
        if self._unshare is None or self._setpriv is None:
            raise BackendUnavailable("`unshare` and `setpriv` are not installed (util-linux).")
        user = str(runtime.USER_ID)
        network = () if request.network else ("--net",)
        return [
            *(self._setpriv, "--no-new-privs", "--"),
            *(self._unshare, *_NAMESPACES, *network, "--fork", "--kill-child=KILL"),
            *("--mount-proc", f"--map-user={user}", f"--map-group={user}", "--"),
            *("/bin/sh", scratch.script, *request.argv),
        ]


class _Scratch:
    """A private directory for one run: the script, the input, and the command's /tmp."""

    def __init__(self, request: SandboxRequest, stack: ExitStack) -> None:
        self._path = tempfile.mkdtemp(prefix="silas-")
        stack.callback(self._remove)
        self.script = f"{self._path}/start"
        self._input = f"{self._path}/input" if request.stdin else "/dev/null"
        if request.stdin:
            Path(self._input).write_bytes(request.stdin)
        self._written = self._text(request).encode()
        Path(self.script).write_bytes(self._written)

    def place(self, cwd: str) -> str:
        """The working directory; the sandbox's own /tmp is this one."""
        return self._path if cwd == TEMPORARY else cwd

    def started(self) -> bool:
        """Whether the script was executed: the first thing that it changes is itself."""
        try:
            return Path(self.script).read_bytes() != self._written
        except OSError:
            return True

    def _text(self, request: SandboxRequest) -> str:
        """Limits, environment, then the command; in braces, so that it is read whole at once."""
        if request.argv[0].startswith("-"):
            raise CommandRefused("A shell would take the program's name for an option.")
        limits = request.limits
        lines = ["read -r word || exit", f": > {shlex.quote(self.script)}"]
        # Shells differ in the letter for processes, and for root the kernel does not count them.
        most = limits.processes + 1
        lines += [f"ulimit -u {most} 2>&- || ulimit -p {most} 2>&-"]
        lines += [f"ulimit -c 0; ulimit -t {limits.cpu_seconds}; ulimit -n {limits.open_files}"]
        lines += [f"ulimit -f {limits.file_bytes // 512}; ulimit -d {limits.memory_bytes // 1024}"]
        own = {"HOME": self._path, "TMPDIR": self._path}
        for name, value in (runtime.environment(request) | own | request.env).items():
            if not _VARIABLE.fullmatch(name):
                raise CommandRefused(f"A shell cannot set the environment variable {name!r}.")
            lines.append(f"export {name}={shlex.quote(value)}")
        # Replaced by the program, the subshell cannot take its name for that of a builtin.
        lines += [f'(exec "$@" <{shlex.quote(self._input)})', "exit $?"]
        return "{\n" + "\n".join(lines) + "\n}\n"

    def _remove(self) -> None:
        with suppress(OSError):
            for name in os.listdir(self._path):  # noqa: PTH208 - this runs for every command
                os.unlink(f"{self._path}/{name}")  # noqa: PTH108
            os.rmdir(self._path)  # noqa: PTH106
            return
        shutil.rmtree(self._path, ignore_errors=True)


def _refuse_what_is_not_enforced(request: SandboxRequest) -> None:
    missing = request.require - {Boundary.NETWORK}
    if missing:
        walls = ", ".join(sorted(missing))
        raise CannotContain(f"The subprocess backend does not contain: {walls}. Use bubblewrap.")


def _not_contained(stderr: bytes) -> CannotContain:
    reason = stderr.decode(errors="replace").strip() or "the launcher ended without a word"
    return CannotContain(
        f"The kernel does not let us make namespaces, so nothing was run: {reason}"
    )
