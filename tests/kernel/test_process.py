"""The process guards its secrets: tried as a user without privileges, against that same user."""

import ast
import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from silas.kernel import ConfigError
from silas.kernel.process import (
    CREDENTIAL,
    DESCRIPTOR_VARIABLE,
    PASSPHRASE_VARIABLE,
    environment_to_pass_on,
    take_passphrase,
)

SECRET = "correct horse battery staple"
PACKAGE = Path(__file__).parents[2] / "silas"
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc and prctl")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
NOBODY = 65534
_PTRACE_ATTACH, _PTRACE_DETACH = 16, 17


def program(path: Path, then: str) -> list[str]:
    """A process that does first what `silas` does first."""
    path.write_text(
        "import os, sys\n"
        f"sys.path.insert(0, {str(PACKAGE.parent)!r})\n"
        "from silas.kernel.process import guard_process, take_passphrase\n"
        "passphrase = take_passphrase(os.environ)\n"
        "guard_process()\n" + then
    )
    return [sys.executable, str(path)]


WAIT = "print(os.getpid(), flush=True)\nsys.stdin.read()\n"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A guarded process that was started with the passphrase in its environment."""
    with subprocess.Popen(
        program(tmp_path / "guarded.py", WAIT),
        env={"PATH": os.environ["PATH"], PASSPHRASE_VARIABLE: SECRET},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid, "the process id stays"
        yield process
        process.kill()


@LINUX
def test_the_environment_of_the_process_does_not_hold_the_passphrase(
    guarded: subprocess.Popen[bytes],
) -> None:
    try:
        shown = Path(f"/proc/{guarded.pid}/environ").read_bytes()
    except PermissionError:
        return
    assert SECRET.encode() not in shown
    assert PASSPHRASE_VARIABLE.encode() + b"=" not in shown


def as_nobody(work: Callable[[], bool]) -> bool:
    """What a child process without privileges finds out."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            code = 0 if work() else 1
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 1), "it could not be tried"
    return code == 0


def refused(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            file.read(1)
    except PermissionError:
        return True
    return False


def cannot_attach(pid: int) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(_PTRACE_ATTACH, pid, None, None) == 0:
        os.waitpid(pid, 0)
        libc.ptrace(_PTRACE_DETACH, pid, None, None)
        return False
    return True


@pytest.fixture
def nobodys(request: pytest.FixtureRequest) -> Iterator[int]:
    """The number of a process of nobody's, with the guard or without it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # who changes his user is not dumpable at first
            if request.param:
                from silas.kernel.process import guard_process

                os.write(writing, b"g" if guard_process() else b"!")
            else:
                os.write(writing, b"-")
            signal.pause()
        finally:
            os._exit(0)
    try:
        assert os.read(reading, 1) == (b"g" if request.param else b"-")
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


@LINUX
@AS_ROOT
@pytest.mark.parametrize("file", ["environ", "mem", "maps", "fd/0", "auxv"])
@pytest.mark.parametrize("nobodys", [True], indirect=True)
def test_the_same_user_reads_nothing_of_it(nobodys: int, file: str) -> None:
    assert as_nobody(lambda: refused(f"/proc/{nobodys}/{file}"))


@LINUX
@AS_ROOT
@pytest.mark.parametrize("nobodys", [True], indirect=True)
def test_the_same_user_cannot_trace_it(nobodys: int) -> None:
    assert as_nobody(lambda: cannot_attach(nobodys))


@LINUX
@AS_ROOT
@pytest.mark.parametrize("nobodys", [False], indirect=True)
def test_without_the_guard_the_same_user_reads_it(nobodys: int) -> None:
    assert not as_nobody(lambda: refused(f"/proc/{nobodys}/environ")), "or nothing is shown above"


@LINUX
def test_there_are_no_core_dumps_and_what_is_started_is_dumpable_and_knows_nothing(
    tmp_path: Path,
) -> None:
    child = (
        "import ctypes, os, resource; print(resource.getrlimit(resource.RLIMIT_CORE), "
        "ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), "
        f"any({SECRET!r} in value for value in os.environ.values()))"
    )
    then = (
        "import subprocess\n"
        f"assert passphrase == {SECRET!r}\n"
        f"subprocess.run([sys.executable, '-c', {child!r}], check=True)\n"
    )
    ran = subprocess.run(
        program(tmp_path / "p.py", then),
        env={"PATH": os.environ["PATH"], PASSPHRASE_VARIABLE: SECRET},
        capture_output=True,
        check=True,
    )
    assert ran.stdout == b"(0, 0) 1 False\n"


@LINUX
@AS_ROOT
def test_what_silas_does_through_its_own_descriptors_works_under_the_guard() -> None:
    def work() -> bool:
        from silas.kernel.process import guard_process

        assert guard_process()
        directory = os.open("/usr", os.O_RDONLY | os.O_DIRECTORY)
        link = f"/proc/self/fd/{directory}"
        assert str(Path(link).readlink()) == "/usr"
        os.close(os.open(link, os.O_RDONLY | os.O_DIRECTORY))
        inside = subprocess.run(
            ["/bin/sh", "-c", "pwd -P"], cwd=link, env={}, capture_output=True, check=True
        )
        return inside.stdout == b"/usr\n"

    assert as_nobody(work)


@LINUX
@AS_ROOT
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")
def test_a_sandbox_starts_under_the_guard() -> None:
    def works(*, guard: bool) -> Callable[[], bool]:
        def work() -> bool:
            from silas.kernel.process import guard_process

            if guard:
                guard_process()
            command = ["bwrap", "--unshare-user", "--ro-bind", "/", "/", "/bin/true"]
            return subprocess.run(command, env={}, capture_output=True, check=False).returncode == 0

        return work

    if not as_nobody(works(guard=False)):
        pytest.skip("nobody has no user namespaces here")
    assert as_nobody(works(guard=True))


class TestWhereItComesFrom:
    def test_it_is_taken_out_of_the_environment(self) -> None:
        environ = {PASSPHRASE_VARIABLE: SECRET, "OTHER": "stays"}
        assert take_passphrase(environ) == SECRET
        assert environ == {"OTHER": "stays"}

    def test_without_one_there_is_none(self) -> None:
        assert take_passphrase({}) is None
        assert take_passphrase({PASSPHRASE_VARIABLE: ""}) is None

    @pytest.mark.parametrize("ending", ["", "\n"])
    def test_a_descriptor(self, ending: str) -> None:
        reading, writing = os.pipe()
        os.write(writing, (SECRET + ending).encode())
        os.close(writing)
        environ = {DESCRIPTOR_VARIABLE: str(reading)}
        assert take_passphrase(environ) == SECRET
        assert environ == {}
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(reading)

    @pytest.mark.parametrize("number", ["x", "-1", "987654", "9" * 30])
    def test_what_is_no_descriptor_is_refused(self, number: str) -> None:
        with pytest.raises(ConfigError, match="open for reading"):
            take_passphrase({DESCRIPTOR_VARIABLE: number})

    def test_a_credential_of_systemd(self, tmp_path: Path) -> None:
        environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
        assert take_passphrase(environ) is None
        (tmp_path / CREDENTIAL).write_text(f"{SECRET}\n")
        assert take_passphrase(environ) == SECRET

    @pytest.mark.parametrize("content", [b"", b"\n", b"x" * 5000])
    def test_nothing_and_too_much_are_refused(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / CREDENTIAL).write_bytes(content)
        with pytest.raises(ConfigError, match="holds no passphrase"):
            take_passphrase({"CREDENTIALS_DIRECTORY": str(tmp_path)})

    def test_what_is_passed_on_has_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(PASSPHRASE_VARIABLE, SECRET)
        monkeypatch.setenv(DESCRIPTOR_VARIABLE, "3")
        assert not {PASSPHRASE_VARIABLE, DESCRIPTOR_VARIABLE} & environment_to_pass_on().keys()


PROGRAMS = {
    *(("subprocess", each) for each in ("run", "Popen", "call", "check_call", "check_output")),
    *(("asyncio", f"create_subprocess_{each}") for each in ("exec", "shell")),
}
BARE = {"system", "popen", "execv", "execl", "execlp", "execvp", "spawnv", "spawnl", "startfile"}


def starts(tree: ast.Module) -> Iterator[tuple[int, bool]]:
    """Where a program is started, and whether its environment is given."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        named = {keyword.arg for keyword in node.keywords}
        for called in (node.func, *node.args[:1]):
            if not isinstance(called, ast.Attribute):
                continue
            owner, name = ast.unparse(called.value), called.attr
            if (owner, name) in PROGRAMS:
                yield node.lineno, "env" in named
            elif owner == "os" and name in BARE:
                yield node.lineno, False
            elif owner == "os" and name in {"posix_spawn", "posix_spawnp", "execve"}:
                yield node.lineno, len(node.args) >= 3


def test_every_program_is_started_with_an_environment_of_its_own() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}:{line}": given
        for path in sorted(PACKAGE.rglob("*.py"))
        # The sandbox has made the environment of what a skill starts: tests/skills.
        if not path.is_relative_to(PACKAGE / "skills" / "bundled")
        for line, given in starts(ast.parse(path.read_text("utf-8")))
    }
    assert len(found) >= 5, "the walk finds nothing any more"
    assert [place for place, given in found.items() if not given] == []


def test_the_walk_finds_what_has_none() -> None:
    for text in ("subprocess.run(x)", "os.system(x)", "asyncio.to_thread(subprocess.Popen, x)"):
        assert [given for _, given in starts(ast.parse(text))] == [False], text
