"""The `subprocess` backend: namespaces through `unshare`, for machines without bubblewrap.

It contains the network, processes, shared memory, the environment and the limits. It does **not**
contain files: the command sees and writes what its user may. It does not filter system calls.

How a command is started: `setpriv` takes away the way to new privileges and makes the kernel end
everything when Silas dies; `unshare` makes the namespaces; a shell sets limits and environment and
is the first process of the pid namespace, so that all others end with it. The shell executes a
script that we wrote; the command is its arguments and is never parsed by it. The launchers get an
empty environment, because one that the caller chose could load code into them.
"""

import re
import shlex
import shutil
import tempfile
from contextlib import ExitStack
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
    KILLED,
    Run,
    not_counted_by_the_kernel,
    probe_by_running,
    to_the_end,
)

_TOOLS = ("setpriv", "unshare")
_NAMESPACES = ("--user", "--mount", "--pid", "--ipc", "--uts", "--cgroup")
_STARTED = "started"
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

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._tools = [shutil.which(tool, path=runtime.SYSTEM_PATH) for tool in _TOOLS]

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
            scratch = Path(stack.enter_context(_scratch_directory()))
            directory = pin(_place(request.cwd, scratch), stack)
            argv = self._command_line(request, scratch)
            tree = run.start(argv, [], directory=directory)
            limit: Limit | None = None
            try:
                limit = await run.watch(tree, grouped=False)
            finally:
                await to_the_end(run.end(tree))
            if not (scratch / _STARTED).exists() and limit is None:
                raise _not_contained(run.capture.kept("stderr"))
            code = KILLED if limit else tree.exit_code
            missing = (FILES_NOT_CONTAINED, *not_counted_by_the_kernel())
            return run.result(self.name, code, limit, not_enforced=missing)

    def _command_line(self, request: SandboxRequest, scratch: Path) -> list[str]:
        setpriv, unshare = self._tools
        if setpriv is None or unshare is None:
            raise BackendUnavailable("`setpriv` and `unshare` are not installed (util-linux).")
        script = scratch / "start"
        script.write_text(_script(request, scratch), encoding="utf-8")
        user = str(runtime.USER_ID)
        network = () if request.network else ("--net",)
        return [
            *(setpriv, "--no-new-privs", "--pdeathsig", "KILL", "--"),
            *(unshare, *_NAMESPACES, *network, "--fork", "--kill-child=KILL", "--mount-proc"),
            *(f"--map-user={user}", f"--map-group={user}", "--"),
            *("/bin/sh", str(script), *request.argv),
        ]


def _refuse_what_is_not_enforced(request: SandboxRequest) -> None:
    missing = request.require - {Boundary.NETWORK}
    if missing:
        walls = ", ".join(sorted(missing))
        raise CannotContain(f"The subprocess backend does not contain: {walls}. Use bubblewrap.")


def _script(request: SandboxRequest, scratch: Path) -> str:
    """Limits, environment, then the command; in braces, so that it is read whole at once."""
    if request.argv[0].startswith("-"):
        raise CommandRefused("A shell would take the program's name for an option.")
    limits = request.limits
    lines = [f": > {shlex.quote(str(scratch / _STARTED))}"]
    # Shells differ in the letter for processes, and none of them has to know it for root.
    lines += [f"ulimit -u {limits.processes + 1} 2>&- || ulimit -p {limits.processes + 1} 2>&-"]
    lines += [f"ulimit -c 0; ulimit -t {limits.cpu_seconds}; ulimit -n {limits.open_files}"]
    lines += [f"ulimit -f {limits.file_bytes // 512}; ulimit -d {limits.memory_bytes // 1024}"]
    environment = {"HOME": str(scratch), "TMPDIR": str(scratch)} | request.env
    for name, value in (runtime.environment(request) | environment).items():
        if not _VARIABLE.fullmatch(name):
            raise CommandRefused(f"A shell cannot set the environment variable {name!r}.")
        lines.append(f"export {name}={shlex.quote(value)}")
    # Replaced by the program, the subshell cannot take its name for that of a builtin.
    lines += ['(exec "$@")', "exit $?"]
    return "{\n" + "\n".join(lines) + "\n}\n"


def _place(cwd: str, scratch: Path) -> str:
    """The working directory; the sandbox's own /tmp is a directory of this run."""
    return str(scratch) if cwd == TEMPORARY else cwd


def _scratch_directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="silas-", ignore_cleanup_errors=True)


def _not_contained(stderr: bytes) -> CannotContain:
    reason = stderr.decode(errors="replace").strip() or "the launcher ended without a word"
    return CannotContain(
        f"The kernel does not let us make namespaces, so nothing was run: {reason}"
    )
