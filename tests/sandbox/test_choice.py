"""Which backend is used, what it says about itself, and what callers of the room get."""

import ctypes
import sys
from pathlib import Path

import pytest

from silas.sandbox import (
    BackendReport,
    BackendUnavailable,
    Boundary,
    CannotContain,
    CommandRefused,
    PathRefused,
    SandboxNotStarted,
    SandboxRequest,
    SandboxResult,
)
from silas.sandbox import bubblewrap as bubblewrap_module
from silas.sandbox.bubblewrap import BubblewrapBackend, SubprocessBackend
from silas.sandbox.choice import (
    AUTO,
    BackendChoice,
    all_backends,
    containment,
    describe_backends,
)
from silas.sandbox.docker import DockerBackend
from silas.sandbox.models import checked_request
from tests.sandbox.test_backends import shell

STARTER = Path("silas/sandbox/starter.py").resolve()


class Recorded:
    """A backend that works or does not, and counts how often it was asked."""

    def __init__(self, name: str, *, works: bool) -> None:
        self.name = name
        self.works = works
        self.probes = 0

    async def probe(self) -> BackendReport:
        self.probes += 1
        return BackendReport(name=self.name, available=self.works, reason="because.")

    async def run(self, request, *, on_output=None) -> SandboxResult:
        return SandboxResult(
            backend=self.name, exit_code=0, stdout=b"", stderr=b"", duration_seconds=0
        )


def choice(*, name: str = AUTO, **works: bool) -> BackendChoice:
    backends = {each: Recorded(each, works=state) for each, state in works.items()}
    return BackendChoice(backends, name)


async def test_auto_prefers_bubblewrap():
    assert (await choice(bubblewrap=True, subprocess=True).choose()).name == "bubblewrap"


async def test_auto_falls_back_to_subprocess():
    assert (await choice(bubblewrap=False, subprocess=True).choose()).name == "subprocess"


async def test_auto_never_takes_docker():
    with pytest.raises(BackendUnavailable, match="because"):
        await choice(bubblewrap=False, subprocess=False, docker=True).choose()


async def test_a_backend_that_was_named_is_not_replaced():
    with pytest.raises(BackendUnavailable, match=r"bubblewrap: because.*apt install bubblewrap"):
        await choice(bubblewrap=False, subprocess=True, name="bubblewrap").choose()


async def test_an_unknown_backend_is_an_error():
    with pytest.raises(BackendUnavailable, match=r"'none'.*auto, bubblewrap"):
        await choice(bubblewrap=True, subprocess=True, name="none").choose()


async def test_a_backend_is_probed_once():
    backend = Recorded("bubblewrap", works=True)
    chooser = BackendChoice({"bubblewrap": backend, "subprocess": backend})
    for _ in range(3):
        await chooser.choose()
    assert backend.probes == 1


async def test_the_description_names_the_one_in_force():
    reports = await choice(bubblewrap=False, subprocess=True, docker=False).describe()
    assert [(report.name, report.in_force) for report in reports] == [
        ("bubblewrap", False),
        ("subprocess", True),
        ("docker", False),
    ]


async def test_this_machine_is_described_in_words():
    reports = await describe_backends(AUTO)
    assert [report.name for report in reports] == list(all_backends())
    for report in reports:
        assert report.reason
        assert bool(report.contains) == bool(report.does_not_contain) == report.available


async def test_a_missing_bubblewrap_says_so():
    backend = BubblewrapBackend(program="/nonexistent/bwrap")
    report = await backend.probe()
    assert not report.available
    assert "/nonexistent/bwrap" in report.reason


async def test_a_program_that_is_not_bubblewrap_runs_nothing():
    with pytest.raises(BackendUnavailable, match="too old"):
        await BubblewrapBackend(program="/bin/true").run(shell("echo ran"))


async def test_a_bubblewrap_that_cannot_build_the_sandbox_runs_nothing(tmp_path, bubblewrap):
    """As on a kernel without user namespaces."""
    broken = tmp_path / "bwrap"
    broken.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --help ]; then exec /usr/bin/bwrap --help; fi\n'
        "echo 'bwrap: No permissions to create new namespace' >&2; exit 1\n"
    )
    broken.chmod(0o755)
    with pytest.raises(SandboxNotStarted, match="No permissions to create new namespace"):
        await BubblewrapBackend(program=str(broken)).run(shell("echo ran"))


async def test_a_sandbox_that_fails_for_a_moment_is_built_anew_and_runs_once(tmp_path, bubblewrap):
    """As on a busy machine, where the kernel's answer about the loopback is lost."""
    again, fails = tmp_path / "again", tmp_path / "bwrap"
    fails.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = --help ] || [ -e {again} ]; then exec /usr/bin/bwrap "$@"; fi\n'
        f"touch {again}\n"
        "echo 'bwrap: loopback: Failed RTM_NEWADDR: No child processes' >&2; exit 1\n"
    )
    fails.chmod(0o755)
    result = await BubblewrapBackend(program=str(fails)).run(shell("echo ran"))
    assert (result.exit_code, result.stdout) == (0, b"ran\n")
    fails.write_text(fails.read_text().replace(f"[ -e {again} ]", "false"))
    with pytest.raises(SandboxNotStarted, match="loopback"):
        await BubblewrapBackend(program=str(fails)).run(shell("echo ran"))


async def test_a_machine_without_a_filter_says_so_or_refuses(bubblewrap, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    result = await bubblewrap.run(shell("true"))
    assert "no filter for riscv64" in result.not_enforced[0]
    with pytest.raises(CannotContain, match="riscv64"):
        await bubblewrap.run(shell("true", require=frozenset({Boundary.SYSTEM_CALLS})))


async def test_without_namespaces_the_subprocess_backend_fails_closed(tmp_path):
    """The kernel refuses the namespaces for real: in one whose limit of user namespaces is none."""
    broken = tmp_path / "python"
    forbid = "echo 0 > /proc/sys/user/max_user_namespaces"
    start = f"exec unshare --user --map-root-user sh -c '{forbid}; exec \"$@\"' sh"
    broken.write_text(f'#!/bin/sh\n{start} {sys.executable} "$@"\n')
    broken.chmod(0o755)
    backend = SubprocessBackend(program=str(broken))
    with pytest.raises(SandboxNotStarted, match="making namespaces: "):
        await backend.run(shell("echo ran > /tmp/silas-must-not-exist"))
    assert not Path("/tmp/silas-must-not-exist").exists()
    report = await backend.probe()
    assert not report.available


async def test_landlock_holds_where_a_mount_would_not(tmp_path, monkeypatch):
    """A root that is left writable is closed all the same, and what is to be written is."""
    has_landlock = ctypes.CDLL(None).syscall(444, None, 0, 1) >= 2
    options = bubblewrap_module.file_system

    def without_its_last_lock(*args, **named):
        words = list(options(*args, **named))
        at = len(words) - 1 - words[::-1].index("--remount-ro")
        return iter([*words[:at], *words[at + 2 :]])

    monkeypatch.setattr(bubblewrap_module, "file_system", without_its_last_lock)
    command = "mkdir a /tmp/b; echo 1 2> /dev/null > one; mv one a/one; ln -s a c; cp a/one /tmp/b"
    request = shell(
        f"{command}; cat /tmp/b/one; echo 2 > /two; cat /two",
        cwd=str(tmp_path),
        write=(str(tmp_path),),
    )
    result = await SubprocessBackend().run(request)
    assert result.stdout.startswith(b"1\n")
    assert (tmp_path / "c" / "one").read_text() == "1\n"
    assert (b"Permission denied" in result.stderr) == has_landlock
    assert result.stdout.endswith(b"2\n") != has_landlock


async def test_without_an_engine_docker_says_so(tmp_path):
    report = await DockerBackend(socket=str(tmp_path / "absent.sock")).probe()
    assert not report.available
    assert "No container engine" in report.reason


@pytest.mark.parametrize(
    "fields",
    [
        {"argv": ()},
        {"argv": ("",)},
        {"argv": ("a\0b",)},
        {"argv": ("true",), "env": {"A=B": "c"}},
        {"argv": ("true",), "env": {"": "c"}},
        {"argv": ("true",), "env": {"A": "b\0c"}},
        {"argv": ("true",), "read": ("relative",)},
        {"argv": ("true",), "read": ("/a/../b",)},
        {"argv": ("true",), "read": ("/a//b",)},
        {"argv": ("true",), "read": ("/a/",)},
        {"argv": ("true",), "write": ("/",)},
        {"argv": ("true",), "write": ("/tmp",)},
        {"argv": ("true",), "write": ("/etc",)},
        {"argv": ("true",), "write": ("/proc/sys",)},
        {"argv": ("true",), "read": ("/dev/kvm",)},
        {"argv": ("true",), "read": ("/sys/fs/cgroup",)},
        {"argv": ("true",), "cwd": "/home"},
        {"argv": ("true",), "cwd": "/tmp/../etc"},
        {"argv": ("true",), "limits": {"wall_seconds": 0}},
        {"argv": ("true",), "limits": {"memory_bytes": 1}},
        {"argv": "true"},
        {"argv": ("true",), "shell": True},
    ],
)
def test_what_cannot_be_asked_is_refused_with_our_error(fields):
    with pytest.raises(CommandRefused):
        checked_request(**fields)


def work_request(work, *argv: str, **more) -> SandboxRequest:
    return SandboxRequest(
        argv=argv, cwd=str(work), write=(str(work), *more.pop("write", ())), **more
    )


async def test_a_work_directory_replaced_by_a_link_is_refused(tmp_path, bubblewrap):
    """The working directory is rebound after it was approved (CVE-2026-27545)."""
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    elsewhere.mkdir()
    work.symlink_to(elsewhere)
    with pytest.raises(PathRefused, match="symbolic link"):
        await bubblewrap.run(work_request(work, "touch", "made"))
    assert not list(elsewhere.iterdir())


async def test_listed_paths_are_the_only_ones(tmp_path, bubblewrap):
    for name in ("read", "write", "hidden", "work"):
        (tmp_path / name).mkdir()
    script = 'ls "$1"; touch "$1/read/x" || touch "$1/write/x"'
    request = work_request(
        tmp_path / "work",
        *("sh", "-c", script, "sh", str(tmp_path)),
        read=(str(tmp_path / "read"),),
        write=(str(tmp_path / "write"),),
    )
    result = await bubblewrap.run(request)
    assert result.stdout.split() == [b"read", b"work", b"write"]
    assert (tmp_path / "write" / "x").exists()


async def test_the_chosen_backend_runs_what_is_asked_and_refuses_what_it_cannot_enforce(tmp_path):
    chosen = BackendChoice(all_backends(), "subprocess")
    request = work_request(tmp_path, "true", require=frozenset({Boundary.FILESYSTEM}))
    result = await chosen.run(request)
    assert (result.backend, result.exit_code) == ("subprocess", 0)


async def test_on_another_system_nothing_is_run_and_the_reason_says_what_works(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    chosen = BackendChoice(all_backends())
    with pytest.raises(BackendUnavailable, match=r"on Linux alone.*approvals work"):
        await chosen.run(SandboxRequest(argv=("true",)))
    assert not any(report.available for report in await chosen.describe())


async def test_the_choice_is_made_once_and_runs_there():
    backend = Recorded("bubblewrap", works=True)
    chosen = BackendChoice(
        {"bubblewrap": backend, "subprocess": Recorded("subprocess", works=True)}
    )
    assert (await chosen.run(SandboxRequest(argv=("true",)))).backend == "bubblewrap"


@pytest.mark.parametrize(
    ("works", "backend", "words"),
    [
        ({"bubblewrap": True, "subprocess": True}, "bubblewrap", "contains commands here"),
        ({"bubblewrap": False, "subprocess": True}, "subprocess", "contains the same"),
        ({"bubblewrap": False, "subprocess": False}, None, "no plan and no check can run"),
    ],
)
async def test_set_up_is_told_before_the_first_task_what_contains_commands(
    monkeypatch, works, backend, words
):
    backends = {each: Recorded(each, works=state) for each, state in works.items()}
    monkeypatch.setattr("silas.sandbox.choice.all_backends", lambda: backends)
    found = await containment()
    assert found.backend == backend
    assert words in found.sentence
    assert (found.fix is None) == (backend == "bubblewrap")
    assert found.fix is None or "bubblewrap" in found.fix


async def test_set_up_on_another_system_says_what_works(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    found = await containment()
    assert found.backend is None
    assert "memory, journal, companions and approvals work" in found.sentence


async def test_a_path_that_was_replaced_while_the_sandbox_was_built_is_refused(tmp_path):
    """The starter compares what it has bound with the descriptor that it was given."""
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    slow = tmp_path / "python"
    swap = f"mv {work} {tmp_path}/gone; mv {other} {work}"
    script = f"exec(open({str(STARTER)!r}).read())"
    # Between reading the paths and binding them, somebody puts another directory in the place.
    late = script.replace(
        "exec(", f"import os; os.readlink = swapped(os.readlink, {swap!r}); exec("
    )
    helper = "def swapped(read, swap):\n  def inner(path):\n    found = read(path)\n"
    helper += "    if found.endswith('/work'): os.system(swap)\n    return found\n  return inner\n"
    (tmp_path / "late.py").write_text(f"{helper}{late}\n")
    slow.write_text(f'#!/bin/sh\nshift 3\nexec {sys.executable} {tmp_path}/late.py "$@"\n')
    slow.chmod(0o755)
    request = SandboxRequest(argv=("touch", "x"), cwd=str(work), write=(str(work),))
    with pytest.raises(SandboxNotStarted, match="was replaced meanwhile"):
        await SubprocessBackend(program=str(slow)).run(request)
    assert list(work.iterdir()) == []
