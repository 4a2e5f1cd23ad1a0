"""What every backend promises, tested the same way on each."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from silas.sandbox import (
    Boundary,
    CommandRefused,
    Limit,
    PathRefused,
    SandboxLimits,
    SandboxRequest,
    python_executable,
)
from silas.sandbox.command_run import OrphanKiller
from silas.sandbox.models import UNSAFE_NO_BOUNDARY
from tests.sandbox.installed import require_backend

MEBIBYTE = 1024 * 1024


def shell(script: str, *arguments: str, **fields) -> SandboxRequest:
    fields.setdefault("limits", SandboxLimits(wall_seconds=120))
    fields.setdefault("require", UNSAFE_NO_BOUNDARY)
    return SandboxRequest(argv=("sh", "-c", script, "sh", *arguments), **fields)


def python(program: str, *arguments: str, **fields) -> SandboxRequest:
    fields.setdefault("limits", SandboxLimits(wall_seconds=120))
    fields.setdefault("require", UNSAFE_NO_BOUNDARY)
    argv = (python_executable(), "-I", "-S", "-c", program, *arguments)
    return SandboxRequest(argv=argv, **fields)


def processes_with(marker: str) -> list[int]:
    """Host processes that carry a marker in their arguments or environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            zombie = ") Z " in (entry / "stat").read_text()
        except OSError:
            continue
        if marker.encode() in text and not zombie and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def readers_of(descriptor: int) -> list[int]:
    """Processes whose standard input is this pipe."""
    pipe = Path(f"/proc/self/fd/{descriptor}").readlink()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "fd" / "0").readlink() == pipe:
                found.append(int(entry.name))
    return found


async def until(condition) -> None:
    """Wait for something that happens in another process."""
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.01)


async def test_output_and_exit_code_come_back(backend):
    result = await backend.run(shell("echo out; echo err >&2; exit 7"))
    assert (result.exit_code, result.stdout, result.stderr) == (7, b"out\n", b"err\n")
    assert result.limit is None
    assert result.backend == backend.name


async def test_errors_stand_where_a_terminal_would_show_them(backend):
    script = "for n in 1 2 3; do echo out$n; echo err$n >&2; done"
    wanted = b"out1\nerr1\nout2\nerr2\nout3\nerr3\n"
    for _ in range(5):
        result = await backend.run(shell(script, one_stream=True))
        if backend.name == "docker":  # its engine reads two pipes, and forwards them as they come
            assert sorted(result.stdout.split()) == sorted(wanted.split())
            continue
        assert (result.stdout, result.stderr, result.text.encode()) == (wanted, b"", wanted)
    request = SandboxRequest(argv=("no-such-program",), one_stream=True, require=UNSAFE_NO_BOUNDARY)
    missing = await backend.run(request)
    assert (missing.exit_code, b"no-such-program" in missing.stdout + missing.stderr) == (127, True)


async def test_binary_output_is_untouched(backend):
    every_byte = bytes(range(256)) * 8
    program = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 8)"
    assert (await backend.run(python(program))).stdout == every_byte


async def test_arguments_arrive_byte_for_byte(backend):
    odd = (
        "",
        " ",
        "a b",
        "$HOME `id` $(id); && |",
        "--",
        "-e",
        "'\"\\",
        "é\u202e\u200b",
        "\n\t\x1b",
    )
    result = await backend.run(shell('for a in "$@"; do printf "%s\\0" "$a"; done', *odd))
    assert result.stdout.decode().split("\0")[:-1] == list(odd)


async def test_a_program_named_like_a_shell_builtin_is_a_program(backend):
    result = await backend.run(
        SandboxRequest(argv=("eval", "echo parsed"), require=UNSAFE_NO_BOUNDARY)
    )
    assert (result.exit_code, result.stdout) == (127, b"")


async def test_standard_input_is_given_and_ends(backend):
    data = b"\x00\xff" + b"line\n" * 20_000
    result = await backend.run(shell("wc -c", stdin=data))
    assert result.stdout.split() == [str(len(data)).encode()]


async def test_without_input_a_reader_sees_the_end(backend):
    assert (await backend.run(shell("cat; echo done"))).stdout == b"done\n"


async def test_the_environment_is_what_was_asked_for(backend, monkeypatch):
    monkeypatch.setenv("SILAS_TEST_SECRET", "hunter2")
    result = await backend.run(shell("env", env={"GREETING": "good day", "EMPTY": ""}))
    lines = result.stdout.decode().splitlines()
    assert "GREETING=good day" in lines
    assert "EMPTY=" in lines
    assert "hunter2" not in result.stdout.decode()
    ours = {"GREETING", "EMPTY", "PATH", "HOME", "TMPDIR", "LANG", "PYTHONNOUSERSITE"}
    ours |= {"PYTHONDONTWRITEBYTECODE", "PYTEST_ADDOPTS"}
    theirs = {"PWD", "container", "HOSTNAME", "TERM", "SHLVL", "_", "OLDPWD"}
    assert {line.partition("=")[0] for line in lines} <= ours | theirs


async def test_a_loader_variable_reaches_the_command_and_not_the_launcher(backend, workspace):
    """A preloaded library would otherwise run outside the sandbox."""
    result = await backend.run(shell("echo $LD_PRELOAD", env={"LD_PRELOAD": "/nonexistent.so"}))
    assert b"/nonexistent.so" in result.stdout


async def test_it_starts_in_the_working_directory(backend, workspace):
    inner = workspace / "a b"
    inner.mkdir()
    request = shell("pwd -P", cwd=str(inner), write=(str(workspace),))
    assert (await backend.run(request)).stdout.decode() == f"{inner}\n"


async def test_what_it_writes_is_there_afterwards(backend, workspace):
    request = shell("echo hello > made", cwd=str(workspace), write=(str(workspace),))
    assert (await backend.run(request)).exit_code == 0
    assert (workspace / "made").read_text() == "hello\n"


async def test_a_missing_program_is_127(backend):
    result = await backend.run(
        SandboxRequest(argv=("silas-no-such-program",), require=UNSAFE_NO_BOUNDARY)
    )
    assert result.exit_code == 127


async def test_a_program_that_cannot_be_executed_is_126(backend, workspace):
    (workspace / "data").write_text("not a program")
    request = SandboxRequest(
        argv=(str(workspace / "data"),), read=(str(workspace),), require=UNSAFE_NO_BOUNDARY
    )
    assert (await backend.run(request)).exit_code == 126


async def test_a_signal_is_128_and_its_number(backend):
    result = await backend.run(shell("sh -c 'kill -9 $$'; exit $?"))
    assert result.exit_code == 128 + signal.SIGKILL


async def test_a_timeout_keeps_what_was_written(backend):
    for seconds in (0.7, 7, 70):  # on a busy machine, the clock may end it before it began
        limits = SandboxLimits(wall_seconds=seconds)
        result = await backend.run(shell("echo before; exec sleep 1000", limits=limits))
        assert result.timed_out
        assert result.limit is Limit.WALL_CLOCK
        assert result.exit_code == 137
        if result.stdout:
            break
    assert result.stdout == b"before\n"


async def test_output_beyond_the_cap_is_dropped(backend):
    limits = SandboxLimits(wall_seconds=120, output_bytes=1000)
    program = "import sys; sys.stdout.write('x' * 100_000); sys.stderr.write('y' * 10)"
    result = await backend.run(python(program, limits=limits))
    assert result.stdout == b"x" * 1000
    assert (result.stdout_truncated, result.stderr_truncated) == (True, False)
    assert result.exit_code == 0


async def test_of_a_long_output_both_ends_are_kept(backend):
    limits = SandboxLimits(wall_seconds=120, output_bytes=1000)
    result = await backend.run(shell("seq 1 100000; echo it broke here", limits=limits))
    assert (result.stdout[:4], len(result.stdout)) == (b"1\n2\n", 1000)
    assert result.stdout.endswith(b"100000\nit broke here\n")
    assert "more was printed here than is kept" in result.text


async def test_a_flood_of_output_is_stopped(backend):
    limits = SandboxLimits(wall_seconds=60, output_bytes=1000, flood_bytes=MEBIBYTE)
    result = await backend.run(shell("exec yes", limits=limits))
    assert result.limit is Limit.OUTPUT
    assert len(result.stdout) == 1000


async def test_output_is_heard_as_it_comes(backend):
    heard = []
    await backend.run(
        shell("echo one; echo two >&2"), on_output=lambda name, data: heard.append((name, data))
    )
    assert sorted(heard) == [("stderr", b"two\n"), ("stdout", b"one\n")]


async def test_processor_time_is_limited(backend):
    limits = SandboxLimits(wall_seconds=300, cpu_seconds=1)
    result = await backend.run(python("while True: pass", limits=limits))
    assert result.exit_code != 0
    assert not result.timed_out


async def test_the_size_of_a_file_is_limited(backend, workspace):
    limits = SandboxLimits(wall_seconds=120, file_bytes=MEBIBYTE)
    request = shell(
        "dd if=/dev/zero of=big bs=65536 count=64 2>/dev/null",
        cwd=str(workspace),
        write=(str(workspace),),
        limits=limits,
    )
    assert (await backend.run(request)).exit_code != 0
    assert (workspace / "big").stat().st_size == MEBIBYTE


async def test_open_files_are_limited(backend):
    limits = SandboxLimits(wall_seconds=120, open_files=64)
    program = "import os\nfor _ in range(200): os.open('/dev/null', 0)"
    result = await backend.run(python(program, limits=limits))
    assert b"Too many open files" in result.stderr


async def test_nothing_survives_the_command(backend):
    marker = f"marker-{uuid.uuid4().hex}"
    script = "(setsid sh -c 'sleep 1000; :' $1 >/dev/null 2>&1 &); echo started"
    result = await backend.run(shell(script, marker))
    assert result.stdout == b"started\n"
    await until(lambda: not processes_with(marker))


async def test_cancelling_ends_the_tree(backend, workspace):
    marker = f"marker-{uuid.uuid4().hex}"
    script = "touch started; (setsid sleep 1000 &); exec sleep 1000"
    request = shell(script, marker, cwd=str(workspace), write=(str(workspace),))
    task = asyncio.create_task(backend.run(request))
    await until((workspace / "started").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not processes_with(marker))


async def test_cancelling_at_any_moment_leaves_nothing(backend):
    marker = f"marker-{uuid.uuid4().hex}"
    for step in range(12):
        task = asyncio.create_task(backend.run(shell("exec sleep 1000", marker)))
        await asyncio.sleep(step * 0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await until(lambda: not processes_with(marker))


async def test_many_at_once_do_not_disturb_each_other(backend):
    # An engine takes half a second for each container when it is asked for many.
    count = 5 if backend.name == "docker" else 20
    requests = [shell("echo $1; sleep 0.1; echo $1 >&2", str(number)) for number in range(count)]
    results = await asyncio.gather(*(backend.run(request) for request in requests))
    expected = [(0, f"{number}\n".encode(), f"{number}\n".encode()) for number in range(count)]
    assert [(r.exit_code, r.stdout, r.stderr) for r in results] == expected


async def test_the_loop_stays_responsive_while_a_command_runs(backend, workspace):
    async def tick() -> None:
        await until((workspace / "started").exists)
        for _ in range(5):
            await asyncio.sleep(0.01)
        (workspace / "ticked").touch()

    ticker = asyncio.create_task(tick())
    waiting = "touch started; for _ in $(seq 600); do test -e ticked && exit; sleep 0.1; done"
    request = shell(f"{waiting}; exit 1", cwd=str(workspace), write=(str(workspace),))
    assert (await backend.run(request)).exit_code == 0
    await ticker


async def test_a_command_line_that_is_too_long_is_refused(backend):
    with pytest.raises(CommandRefused):
        await backend.run(shell("true", *("x" * 100_000 for _ in range(100))))


async def test_a_link_swapped_in_after_the_request_is_refused(backend, workspace, tmp_path):
    target = tmp_path.resolve() / "target"
    target.mkdir()
    request = shell("echo x > made", cwd=str(workspace), write=(str(workspace),))
    workspace.rmdir()
    workspace.symlink_to(target)
    with pytest.raises(PathRefused, match="symbolic link"):
        await backend.run(request)
    assert not list(target.iterdir())


async def test_a_link_on_the_way_is_refused(backend, workspace, tmp_path):
    (workspace / "inner").mkdir()
    link = tmp_path.resolve() / "link"
    link.symlink_to(workspace)
    path = str(link / "inner")
    with pytest.raises(PathRefused, match="symbolic link"):
        await backend.run(shell("true", read=(path,)))


async def test_a_path_that_is_not_there_is_refused(backend, workspace):
    with pytest.raises(PathRefused):
        await backend.run(shell("true", read=(str(workspace / "absent"),)))


async def test_it_has_no_network_unless_asked(backend):
    program = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=5)"
    result = await backend.run(python(program))
    assert b"unreachable" in result.stderr


@pytest.mark.parametrize("name", ["bubblewrap", "subprocess"])
async def test_a_killed_silas_leaves_no_process(name, workspace, request):
    """Docker's containers are the exception: see `test_docker`."""
    backend = await require_backend(name, request)
    marker = f"marker-{uuid.uuid4().hex}"
    silas = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
        [
            *(sys.executable, "-c", _SILAS_TO_KILL),
            *(type(backend).__module__, type(backend).__name__, str(workspace), marker),
        ]
    )
    try:
        await until((workspace / "started").exists)
        assert len(processes_with(marker)) > 1
    finally:
        silas.kill()
        silas.wait()
    await until(lambda: not processes_with(marker))


@pytest.mark.parametrize("name", ["bubblewrap", "subprocess"])
async def test_a_silas_killed_while_it_builds_a_sandbox_leaves_no_process(name, request):
    """Launchers are tied to their parent only once they run; the orphan killer is earlier."""
    backend = await require_backend(name, request)
    where = type(backend).__module__, type(backend).__name__
    marker = f"marker-{uuid.uuid4().hex}"
    for moment in range(6):
        silas = subprocess.Popen(  # noqa: ASYNC220 - it returns at once
            [sys.executable, "-c", _SILAS_TO_KILL_EARLY, *where, marker], stdout=subprocess.PIPE
        )
        silas.stdout.readline()
        await asyncio.sleep(moment * 0.0015)
        silas.kill()
        silas.wait()
        silas.stdout.close()
    await until(lambda: not processes_with(marker))


@pytest.mark.parametrize("name", ["bubblewrap", "subprocess"])
async def test_a_launcher_killed_while_it_builds_leaves_no_process(name, request):
    backend = await require_backend(name, request)
    marker = f"marker-{uuid.uuid4().hex}"
    for _ in range(12):
        task = asyncio.create_task(backend.run(shell("sleep 1000; :", marker)))
        await until(lambda: processes_with(marker))
        for pid in processes_with(marker)[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # Never "nothing was run": by then, nobody knows.
        assert (await task).exit_code == 137
        await until(lambda: not processes_with(marker))


def test_orphan_killer_is_replaced_when_it_is_killed():
    killer = OrphanKiller()
    victim = subprocess.Popen(["sleep", "600"], start_new_session=True)
    killer.add(victim.pid)
    (shell_pid,) = readers_of(killer._writing)
    os.kill(shell_pid, signal.SIGKILL)
    os.waitpid(shell_pid, 0)
    killer.remove(1)
    os.close(killer._writing)
    assert victim.wait(timeout=120) == -signal.SIGKILL


_SILAS_TO_KILL_EARLY = """
import asyncio, importlib, sys
from silas.sandbox import SandboxRequest
module, name, marker = sys.argv[1:]
backend = getattr(importlib.import_module(module), name)()

async def main():
    await backend.run(SandboxRequest(argv=("true",), require=frozenset()))
    print("now", flush=True)
    script = "(setsid sleep 1000 &); sleep 1000; :"
    argv = ("sh", "-c", script, "sh", marker)
    await backend.run(SandboxRequest(argv=argv, require=frozenset()))

asyncio.run(main())
"""

_SILAS_TO_KILL = """
import asyncio, importlib, sys
from silas.sandbox import SandboxRequest
module, name, workspace, marker = sys.argv[1:]
backend = getattr(importlib.import_module(module), name)()
script = "(setsid sh -c 'sleep 1000; :' $1 &); touch started; sleep 1000"
request = SandboxRequest(
    argv=("sh", "-c", script, "sh", marker),
    cwd=workspace,
    write=(workspace,),
    require=frozenset(),
)
asyncio.run(backend.run(request))
"""


async def test_a_request_that_says_nothing_insists_on_files_and_network(backend):
    request = SandboxRequest(argv=("true",), limits=SandboxLimits(wall_seconds=120))
    assert request.require == {Boundary.FILESYSTEM, Boundary.NETWORK}
    assert (await backend.run(request)).exit_code == 0


async def test_a_boundary_that_is_missing_refuses_the_request(backend):
    request = shell("true", require=frozenset(Boundary))
    assert (await backend.run(request)).exit_code == 0
