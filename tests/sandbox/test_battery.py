"""Every attempt of the battery against every backend; the table in the docs is what comes out.

After a change of what is contained, write the table anew and look at the difference:

    SILAS_WRITE_TABLE=1 python -m pytest tests/sandbox/test_battery.py -p no:xdist
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from silas.sandbox import SandboxLimits, SandboxRequest, python_executable
from silas.sandbox.models import UNSAFE_NO_BOUNDARY
from tests.sandbox.battery import (
    ATTEMPTS,
    CONTAINED,
    FAMILIES,
    NOT_CONTAINED,
    Attempt,
    as_argument,
    documented,
    furnish,
    host,
    program,
    verdicts,
    write_table,
)
from tests.sandbox.installed import BACKENDS, require_backend

MEBIBYTE = 1024 * 1024
WRITING = bool(os.environ.get("SILAS_WRITE_TABLE"))
TIGHT = SandboxLimits(
    wall_seconds=120,
    cpu_seconds=2,
    memory_bytes=256 * MEBIBYTE,
    processes=64,
    open_files=256,
    file_bytes=64 * MEBIBYTE,
    temporary_bytes=64 * MEBIBYTE,
    disk_bytes=100 * MEBIBYTE,
    flood_bytes=8 * MEBIBYTE,
)


@pytest.fixture(scope="module")
def world(tmp_path_factory, request):
    with host(tmp_path_factory.mktemp("host").resolve()) as found:
        yield found


@pytest.fixture(scope="module")
def findings():
    """Verdicts by family, attempt and backend; they become the table if that was asked for."""
    results: dict[tuple[str, str, str], str] = {}
    yield results
    if WRITING:
        write_table(results, BACKENDS)


@pytest.fixture
def tempting(world, monkeypatch):
    """The caller's own environment and descriptors hold secrets while a sandbox starts."""
    for name in ("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "API_TOKEN"):
        monkeypatch.setenv(name, world["secret"])
    descriptor = os.open(f"{world['home']}/.ssh/id_ed25519", os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    yield
    os.close(descriptor)


def attack(family: str, names: list[str], world) -> SandboxRequest:
    workspaces = (world["workspace"], world["bare_workspace"])
    return SandboxRequest(
        argv=(python_executable(), "-I", "-S", "-c", program(family), as_argument(world), *names),
        cwd=world["workspace"],
        write=workspaces,
        read=(world["socket_directory"],),
        limits=TIGHT,
        require=UNSAFE_NO_BOUNDARY,
    )


_ran: dict[tuple[str, str], dict[str, str]] = {}


async def verdict_of(attempt: Attempt, backend, world) -> str:
    """Make the attempt; those that do not use up the sandbox are made together, once."""
    if attempt.family == "resource":
        names = [attempt.name]
    else:
        names = [other.name for other in ATTEMPTS if other.family == attempt.family]
    key = (backend.name, attempt.family if len(names) > 1 else str(attempt))
    if key not in _ran:
        furnish(world)
        result = await backend.run(attack(attempt.family, names, world))
        assert b"Traceback" not in result.stderr, result.stderr.decode()
        found = verdicts(result.stdout.decode(errors="replace"))
        await settle(attempt.family, found, world)
        _ran[key] = found
        for place in (Path("/tmp"), Path("/dev/shm")):
            for leftover in place.glob(f"fill-{world['secret']}*"):
                leftover.unlink()
    return _ran[key].get(attempt.name, "never alive")


def planted_on_the_host(world) -> dict[str, Path]:
    """Where each attempt would leave something that is not the sandbox's own."""
    home, secret = Path(world["home"]), world["secret"]
    return {
        "shell_start_files": home / ".bashrc",
        "python_start_files": home / ".local/lib/python3/site-packages/evil.pth",
        "through_a_symlink": home / "planted-through-link",
        "temporary_files_of_the_host": Path(f"/tmp/planted-{secret}"),
        "shared_memory_of_the_host": Path(f"/dev/shm/planted-{secret}"),
    }


async def settle(family: str, found: dict[str, str], world) -> None:
    """What only the host can see: files that were planted, a process that lives on."""
    if family == "write":
        for name, path in planted_on_the_host(world).items():
            if name in found and path.exists():
                found[name] = "ESCAPED"
                path.unlink()
    if "orphan" in found:
        for _ in range(3000):
            if not lives(world["orphan_marker"]):
                return
            await asyncio.sleep(0.02)
        found["orphan"] = "ESCAPED"


def lives(marker: str) -> bool:
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in entry.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=str)
@pytest.mark.parametrize("name", BACKENDS)
async def test_attempt(name, attempt, world, tempting, findings, request):
    backend = await require_backend(name, request)
    verdict = await verdict_of(attempt, backend, world)
    assert verdict != "never alive", "a sandbox that never started proves nothing"
    # Stopped half-way by a limit is what containment looks like for the use of resources.
    if verdict == "ALIVE" and attempt.family == "resource":
        verdict = "CONTAINED"
    assert verdict in {"ESCAPED", "CONTAINED"}, "the attempt itself is broken"
    cell = CONTAINED if verdict == "CONTAINED" else NOT_CONTAINED
    findings[attempt.family, attempt.label, name] = cell
    if name in ("bubblewrap", "subprocess"):
        assert cell == CONTAINED
    if not WRITING:
        claimed = documented().get((attempt.family, attempt.label), {}).get(name)
        # A machine may lack what another lets through; more contained than claimed is no failure
        # there. Where the table is written, in CI, it has to be exact.
        if claimed != NOT_CONTAINED or os.environ.get("CI"):
            assert cell == claimed, f"docs/sandbox.md says {claimed!r}; write it anew, see above"


def test_the_table_has_every_attempt_and_no_other():
    if not WRITING:
        assert set(documented()) == {(attempt.family, attempt.label) for attempt in ATTEMPTS}


SAFE_WITHOUT_A_SANDBOX = {
    "network": ("tcp_to_loopback", "udp_to_loopback", "sockets_in_proc"),
    "unix": (
        *("pathname_socket", "visible_socket", "abstract_socket"),
        *("agents_in_the_environment", "inherited_descriptor"),
    ),
    "read": (
        *("ssh_keys", "data_directory", "passwords_of_the_host", "other_files_in_tmp"),
        *("through_a_symlink", "through_a_hard_link", "through_dot_dot"),
    ),
    "write": (
        *("shell_start_files", "python_start_files", "through_a_symlink", "git_hooks"),
        *("git_configuration", "silas_settings", "mcp_settings", "editor_settings"),
        *("fifo_in_the_output", "set_user_id_in_the_output"),
    ),
    "process": (
        *("host_processes_visible", "host_process_signalled", "host_process_environment"),
        *("trace_me", "read_memory", "shared_memory_segment"),
    ),
    "environment": ("own_environment", "own_environ_file"),
    "privilege": ("new_privileges", "nested_user_namespace", "fileless_execution"),
}


@pytest.mark.parametrize("family", SAFE_WITHOUT_A_SANDBOX)
def test_without_a_sandbox_the_attempts_succeed(family, tmp_path, monkeypatch):
    """A battery that fails everywhere would prove nothing."""
    names = SAFE_WITHOUT_A_SANDBOX[family]
    with host(tmp_path.resolve()) as world:
        for name in ("SSH_AUTH_SOCK", "API_TOKEN"):
            monkeypatch.setenv(name, str(world["secret"]))
        descriptor = os.open(f"{world['home']}/.ssh/id_ed25519", os.O_RDONLY)
        os.set_inheritable(descriptor, True)
        argv = [sys.executable, "-I", "-S", "-c", program(family), as_argument(world), *names]
        done = subprocess.run(argv, capture_output=True, close_fds=False, check=False)
        os.close(descriptor)
        found = verdicts(done.stdout.decode(errors="replace"))
        asyncio.run(settle(family, found, world))
    assert found == dict.fromkeys(names, "ESCAPED"), done.stdout.decode(errors="replace")


def test_every_family_has_attempts():
    assert {attempt.family for attempt in ATTEMPTS} == set(FAMILIES)
