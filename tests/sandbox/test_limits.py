"""Limits that no kernel counter holds: control groups, the census, the disk."""

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from silas.sandbox import Limit, SandboxLimits, SandboxRequest, python_executable
from silas.sandbox.limits import (
    ControlGroups,
    DiskUse,
    descendants,
    find_home,
    memory_at_most,
    memory_of,
)
from silas.storage.trees import remove_tree
from tests.storage.nasty_trees import as_nobody, nest

MEBIBYTE = 1024 * 1024


def make_home(root: Path, *, granted: str = "cpu memory pids") -> Path:
    """A delegated control group as the kernel shows it, in plain files."""
    home = root / "user.slice" / "app.slice"
    (home / "silas.scope").mkdir(parents=True)
    (home / "cgroup.subtree_control").write_text(granted)
    (home / "cgroup.procs").write_text("")
    (root / "membership").write_text("0::/user.slice/app.slice/silas.scope\n")
    return home


class KernelGroups(ControlGroups):
    """Removes the files that the kernel would remove with the directory."""

    def retire(self, group):
        for file in group._directory.iterdir():
            file.unlink()
        super().retire(group)


def test_a_group_is_made_beside_our_own(tmp_path):
    home = make_home(tmp_path)
    assert find_home(tmp_path, tmp_path / "membership") == home


@pytest.mark.parametrize("granted", ["", "cpu", "memory", "pids io"])
def test_without_both_controllers_there_is_no_group(tmp_path, granted):
    make_home(tmp_path, granted=granted)
    assert find_home(tmp_path, tmp_path / "membership") is None


def test_without_the_unified_hierarchy_there_is_no_group(tmp_path):
    make_home(tmp_path)
    (tmp_path / "membership").write_text("4:memory:/x\n3:pids:/x\n")
    assert find_home(tmp_path, tmp_path / "membership") is None


def test_a_group_gets_the_limits_and_is_removed(tmp_path):
    home = make_home(tmp_path)
    groups = KernelGroups(home)
    group = groups.make(SandboxLimits(memory_bytes=64 * MEBIBYTE, processes=10))
    made = next(home.glob("silas-*"))
    assert (made / "memory.max").read_text() == str(64 * MEBIBYTE)
    assert (made / "pids.max").read_text() == "12"
    assert group.join(4711)
    assert (made / "cgroup.procs").read_text() == "4711"
    groups.retire(group)
    assert not made.exists()


def test_a_group_that_cannot_be_made_is_no_error(tmp_path):
    assert ControlGroups(tmp_path / "absent").make(SandboxLimits()) is None
    assert ControlGroups(None).make(SandboxLimits()) is None


def test_running_out_of_memory_is_told(tmp_path):
    home = make_home(tmp_path)
    group = KernelGroups(home).make(SandboxLimits())
    events = next(home.glob("silas-*")) / "memory.events"
    assert not group.out_of_memory()
    events.write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 0\n")
    assert not group.out_of_memory()
    events.write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\n")
    assert group.out_of_memory()


def test_groups_of_a_killed_silas_are_swept(tmp_path):
    home = make_home(tmp_path)
    (home / "silas-999999999-dead").mkdir()
    (home / f"silas-{os.getpid()}-alive").mkdir()
    find_home(tmp_path, tmp_path / "membership")
    assert not (home / "silas-999999999-dead").exists()
    assert (home / f"silas-{os.getpid()}-alive").exists()


def test_the_census_counts_descendants_and_their_memory():
    program = (
        "import os, sys, threading\n"
        "def child():\n"
        "    if os.fork() == 0:\n"
        "        keep = bytearray(b'x') * (32 << 20); print('up', flush=True)\n"
        "        os.read(0, 1); os._exit(0)\n"
        "threads = [threading.Thread(target=child) for _ in range(3)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "os.wait()\n"
    )
    first = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        for _ in range(3):
            first.stdout.readline()
        processes = descendants(first.pid, most=100)
        assert len(processes) == 3
        assert len(descendants(first.pid, most=2)) == 2
        assert 3 * 32 * MEBIBYTE <= memory_of(processes) <= memory_at_most(processes)
    finally:
        first.stdin.close()
        first.kill()
        first.wait()
        first.stdout.close()
    assert descendants(first.pid, most=100) == ()


def use_of(directory: Path, *, since: datetime, **limits: int) -> DiskUse:
    return DiskUse([str(directory)], limits=SandboxLimits(**limits), since=since)


def test_the_disk_is_counted_without_following_links(tmp_path):
    since = datetime.now(UTC)
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "big").write_bytes(b"x" * 4 * MEBIBYTE)
    (inside / "link").symlink_to(outside)
    (inside / "file-link").symlink_to(outside / "big")
    (inside / "deep").mkdir()
    (inside / "deep" / "file").write_bytes(b"x" * MEBIBYTE)
    assert use_of(inside, since=since, disk_bytes=MEBIBYTE - 1).exceeded() is Limit.DISK
    assert use_of(inside, since=since, disk_bytes=2 * MEBIBYTE).exceeded() is None
    later = since + timedelta(hours=1)
    assert use_of(inside, since=later, disk_bytes=0, inodes=0).exceeded() is None


def test_a_directory_that_was_taken_away_is_no_use_of_the_disk(tmp_path):
    (tmp_path / "gone").mkdir()
    use = use_of(tmp_path / "gone", since=datetime.now(UTC), disk_bytes=0, inodes=0)
    (tmp_path / "gone").rmdir()
    assert not use.may_exceed()
    assert use.exceeded() is None


def test_inodes_are_counted_with_directories_and_links(tmp_path):
    since = datetime.now(UTC)
    for number in range(4):
        (tmp_path / f"file-{number}").touch()
        (tmp_path / f"directory-{number}").mkdir()
        (tmp_path / f"link-{number}").symlink_to("nowhere")
    assert use_of(tmp_path, since=since, inodes=12).exceeded() is None
    assert use_of(tmp_path, since=since, inodes=11).exceeded() is Limit.INODES


def test_names_of_one_file_count_once(tmp_path):
    since = datetime.now(UTC)
    (tmp_path / "file").write_bytes(b"x" * MEBIBYTE)
    for number in range(10):
        os.link(tmp_path / "file", tmp_path / f"name-{number}")
    use = use_of(tmp_path, since=since, inodes=1, disk_bytes=2 * MEBIBYTE)
    assert use.exceeded() is None


def test_a_file_system_that_does_not_count_inodes_is_counted_for_a_part_of_the_time(
    tmp_path, monkeypatch
):
    answer = os.statvfs(tmp_path)
    silent = os.statvfs_result([0 if n in {5, 6, 7} else each for n, each in enumerate(answer)])
    monkeypatch.setattr(os, "statvfs", lambda _path: silent)
    now = [100.0]
    monkeypatch.setattr("silas.sandbox.limits.time.monotonic", lambda: now[0])
    use = use_of(tmp_path, since=datetime.now(UTC))
    assert use.may_exceed()
    monkeypatch.setattr("silas.sandbox.limits.walk", lambda _root: now.append(now.pop() + 1) or ())
    assert use.exceeded() is None
    assert not use.may_exceed()
    now[0] += 19
    assert use.may_exceed()


def test_a_deep_tree_is_counted_to_its_end(tmp_path):
    since = datetime.now(UTC)
    nest(tmp_path, ["d"] * 3000, content=b"x" * MEBIBYTE)
    assert use_of(tmp_path, since=since, disk_bytes=40 * MEBIBYTE).exceeded() is None
    assert use_of(tmp_path, since=since, disk_bytes=MEBIBYTE - 1).exceeded() is Limit.DISK
    assert remove_tree(tmp_path / "d") == []


def test_what_vanishes_while_it_is_counted_is_no_error(tmp_path, monkeypatch):
    since = datetime.now(UTC)
    for number in range(20):
        (tmp_path / f"d{number}").mkdir()
    entered = os.open

    def vanish(path, flags, *arguments, dir_fd=None):
        if dir_fd is not None and path in {f"d{n}" for n in range(10)}:
            os.rmdir(path, dir_fd=dir_fd)
        return entered(path, flags, *arguments, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", vanish)
    assert use_of(tmp_path, since=since).exceeded() is None
    assert len(list(tmp_path.iterdir())) == 10


@pytest.mark.parametrize("mode", [0o300, 0o000, 0o400])
def test_what_cannot_be_counted_is_over_the_limit(mode):
    as_nobody(
        f"""
        import os, sys
        from datetime import UTC, datetime
        from silas.sandbox import SandboxLimits
        from silas.sandbox.limits import DiskUse
        since = datetime.now(UTC)
        os.mkdir("hidden")
        open("hidden/file", "w").close()
        os.chmod("hidden", {mode})
        print(DiskUse(["."], limits=SandboxLimits(), since=since).exceeded())
        """,
        says="disk",
    )


def forever(program: str, **fields) -> SandboxRequest:
    return SandboxRequest(argv=(python_executable(), "-I", "-S", "-c", program), **fields)


async def test_processes_in_total_are_limited(bubblewrap):
    limits = SandboxLimits(wall_seconds=120, processes=20)
    program = "import os, time\nfor _ in range(200):\n    if os.fork() == 0: time.sleep(60)\n"
    result = await bubblewrap.run(forever(program + "time.sleep(60)", limits=limits))
    assert result.limit is Limit.PROCESSES or b"Resource temporarily" in result.stderr


async def test_memory_of_many_processes_is_limited(bubblewrap):
    limits = SandboxLimits(wall_seconds=120, memory_bytes=96 * MEBIBYTE)
    program = (
        "import os, time\n"
        "for _ in range(6):\n"
        "    if os.fork() == 0:\n"
        "        keep = bytearray(b'x') * (40 << 20); time.sleep(60)\n"
        "time.sleep(60)\n"
    )
    result = await bubblewrap.run(forever(program, limits=limits))
    assert result.limit is Limit.MEMORY


async def test_pages_that_processes_share_count_once(bubblewrap):
    limits = SandboxLimits(wall_seconds=120, memory_bytes=128 * MEBIBYTE)
    program = (
        "import os, time\n"
        "keep = bytearray(b'x') * (60 << 20)\n"
        "for _ in range(6):\n"
        "    if os.fork() == 0: time.sleep(0.4); os._exit(0)\n"
        "for _ in range(6): os.wait()\n"
        "print('done')\n"
    )
    result = await bubblewrap.run(forever(program, limits=limits))
    assert (result.limit, result.stdout) == (None, b"done\n")


async def test_the_disk_is_limited_in_total(bubblewrap, workspace):
    limits = SandboxLimits(wall_seconds=120, disk_bytes=16 * MEBIBYTE)
    program = (
        "import os, time\n"
        "for n in range(60):\n"
        "    with open(f'f{n}', 'wb') as f: f.write(b'x' * (1 << 20)); f.flush(); os.fsync(f)\n"
        "time.sleep(60)\n"
    )
    request = forever(program, cwd=str(workspace), write=(str(workspace),), limits=limits)
    assert (await bubblewrap.run(request)).limit is Limit.DISK


async def test_inodes_are_limited_in_total(bubblewrap, workspace):
    limits = SandboxLimits(wall_seconds=120, inodes=500)
    program = "import time\nfor n in range(5000): open(f'f{n}', 'w').close()\ntime.sleep(60)\n"
    request = forever(program, cwd=str(workspace), write=(str(workspace),), limits=limits)
    assert (await bubblewrap.run(request)).limit is Limit.INODES


async def test_a_file_size_limit_is_named(bubblewrap, workspace):
    limits = SandboxLimits(wall_seconds=120, file_bytes=MEBIBYTE)
    request = SandboxRequest(
        argv=("dd", "if=/dev/zero", "of=big", "bs=65536", "count=64"),
        cwd=str(workspace),
        write=(str(workspace),),
        limits=limits,
    )
    assert (await bubblewrap.run(request)).limit is Limit.FILE_SIZE


async def test_a_processor_limit_is_named(bubblewrap):
    limits = SandboxLimits(wall_seconds=120, cpu_seconds=1)
    request = SandboxRequest(argv=("sh", "-c", "while :; do :; done"), limits=limits)
    assert (await bubblewrap.run(request)).limit is Limit.CPU


async def test_it_all_works_for_an_ordinary_user_too(bubblewrap, tmp_path):
    """The tests may run as root; the limit on processes is the kernel's own for everybody else."""
    if os.geteuid() != 0:
        return
    program = (
        "import asyncio, os\n"
        "from silas.sandbox import SandboxLimits, SandboxRequest, environment\n"
        "from silas.sandbox.bubblewrap import BubblewrapBackend\n"
        # Root's own Python may lie where nobody else can see it.
        "environment.python_prefix = lambda: ()\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "script = 'for i in 1 2 3 4 5 6 7 8 9; do sleep 600 & done; wait'\n"
        "limits = SandboxLimits(wall_seconds=60, processes=5)\n"
        "request = SandboxRequest(argv=('bash', '-c', script), limits=limits)\n"
        "async def main():\n"
        "    refused = asyncio.Event()\n"
        "    def hear(stream, data): b'Resource temporarily' in data and refused.set()\n"
        "    run = asyncio.create_task(BubblewrapBackend().run(request, on_output=hear))\n"
        "    heard = asyncio.create_task(refused.wait())\n"
        "    await asyncio.wait({run, heard}, return_when=asyncio.FIRST_COMPLETED)\n"
        "    print(refused.is_set(), run.done() and run.result())\n"
        "    run.cancel(), heard.cancel()\n"
        "    await asyncio.wait({run, heard})\n"
        "asyncio.run(main())\n"
    )
    silas = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, cwd="/"
    )
    output, _ = await silas.communicate()
    assert b"True" in output
