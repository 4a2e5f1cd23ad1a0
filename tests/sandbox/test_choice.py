"""Which backend is used, what it says about itself, and what callers of the room get."""

import asyncio

import pytest

from silas.kernel import IdFactory, SystemClock
from silas.sandbox import (
    AUTO,
    BackendChoice,
    BackendReport,
    BackendUnavailable,
    Boundary,
    CannotContain,
    CommandRefused,
    PathRefused,
    SandboxConfig,
    SandboxManager,
    SandboxNotStarted,
    SandboxResult,
    UnknownSandbox,
    all_backends,
    describe_backends,
)
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.sandbox.docker import DockerBackend
from silas.sandbox.requests import checked_request
from silas.sandbox.subprocess_backend import SubprocessBackend
from tests.sandbox.test_backends import processes_with, shell, until


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
        raise NotImplementedError


def choice(**works: bool) -> BackendChoice:
    return BackendChoice({name: Recorded(name, works=state) for name, state in works.items()})


async def test_auto_prefers_bubblewrap():
    assert (await choice(bubblewrap=True, subprocess=True).choose()).name == "bubblewrap"


async def test_auto_falls_back_to_subprocess():
    assert (await choice(bubblewrap=False, subprocess=True).choose()).name == "subprocess"


async def test_auto_never_takes_docker():
    with pytest.raises(BackendUnavailable, match="because"):
        await choice(bubblewrap=False, subprocess=False, docker=True).choose()


async def test_a_backend_that_was_named_is_not_replaced():
    with pytest.raises(BackendUnavailable, match=r"bubblewrap: because.*apt install bubblewrap"):
        await choice(bubblewrap=False, subprocess=True).choose("bubblewrap")


async def test_an_unknown_backend_is_an_error():
    with pytest.raises(BackendUnavailable, match=r"'none'.*auto, bubblewrap"):
        await choice(bubblewrap=True, subprocess=True).choose("none")


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


async def test_a_machine_without_a_filter_says_so_or_refuses(bubblewrap, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    result = await bubblewrap.run(shell("true"))
    assert "no filter for riscv64" in result.not_enforced[0]
    with pytest.raises(CannotContain, match="riscv64"):
        await bubblewrap.run(shell("true", require=frozenset({Boundary.SYSTEM_CALLS})))


async def test_without_namespaces_the_subprocess_backend_fails_closed(tmp_path):
    """A request without network is never run with it."""
    broken = tmp_path / "unshare"
    broken.write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2; exit 1\n")
    broken.chmod(0o755)
    backend = SubprocessBackend(unshare=str(broken))
    with pytest.raises(CannotContain, match="Operation not permitted"):
        await backend.run(shell("echo ran > /tmp/silas-must-not-exist"))
    report = await backend.probe()
    assert not report.available


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


@pytest.fixture
def manager() -> SandboxManager:
    return SandboxManager(BackendChoice(all_backends()), IdFactory(SystemClock()))


async def test_a_sandbox_is_created_used_and_destroyed(manager, tmp_path, bubblewrap):
    config = SandboxConfig(work_dir=str(tmp_path / "work"), env={"A": "b"})
    sandbox = await manager.create(config)
    assert sandbox.sandbox_id.startswith("sbx_")
    assert sandbox.backend == "bubblewrap"
    result = await sandbox.exec(["sh", "-c", "echo $A; pwd; echo x > made"])
    assert result.stdout.decode().split() == ["b", str(tmp_path / "work")]
    await manager.destroy(sandbox.sandbox_id)
    assert (tmp_path / "work" / "made").exists()
    with pytest.raises(UnknownSandbox):
        await sandbox.exec(["true"])
    with pytest.raises(UnknownSandbox):
        await manager.destroy(sandbox.sandbox_id)


async def test_destroying_ends_what_runs(manager, tmp_path, bubblewrap):
    sandbox = await manager.create(SandboxConfig(work_dir=str(tmp_path / "work")))
    script = 'touch started; sh -c "sleep 600; :" "$1"'
    running = asyncio.create_task(sandbox.exec(["sh", "-c", script, "sh", sandbox.sandbox_id]))
    await until((tmp_path / "work" / "started").exists)
    await manager.destroy(sandbox.sandbox_id)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not processes_with(sandbox.sandbox_id)


async def test_a_work_directory_replaced_by_a_link_is_refused(manager, tmp_path, bubblewrap):
    """The working directory is rebound after it was approved (CVE-2026-27545)."""
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    elsewhere.mkdir()
    sandbox = await manager.create(SandboxConfig(work_dir=str(work)))
    work.rmdir()
    work.symlink_to(elsewhere)
    with pytest.raises(PathRefused, match="symbolic link"):
        await sandbox.exec(["touch", "made"])
    assert not list(elsewhere.iterdir())


async def test_listed_paths_are_the_only_ones(manager, tmp_path, bubblewrap):
    for name in ("read", "write", "hidden"):
        (tmp_path / name).mkdir()
    config = SandboxConfig(
        work_dir=str(tmp_path / "work"),
        filesystem_read=[str(tmp_path / "read")],
        filesystem_write=[str(tmp_path / "write")],
    )
    sandbox = await manager.create(config)
    script = 'ls "$1"; touch "$1/read/x" || touch "$1/write/x"'
    result = await sandbox.exec(["sh", "-c", script, "sh", str(tmp_path)])
    assert result.stdout.split() == [b"read", b"work", b"write"]
    assert (tmp_path / "write" / "x").exists()


async def test_a_manager_can_insist_on_boundaries(tmp_path):
    manager = SandboxManager(
        BackendChoice(all_backends()),
        IdFactory(SystemClock()),
        backend="subprocess",
        require=frozenset({Boundary.FILESYSTEM}),
    )
    sandbox = await manager.create(SandboxConfig(work_dir=str(tmp_path / "work")))
    with pytest.raises(CannotContain, match="filesystem"):
        await sandbox.exec(["true"])
