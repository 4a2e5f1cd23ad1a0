"""One server for each data directory, whatever happened to the one before."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from silas.app.instance import InstanceLock, InstanceLocked, holder_of
from silas.kernel import DatabaseError
from silas.storage import DatabaseNotOpened
from silas.testing import FakeClock

HOLDER = """
import sys, subprocess
from pathlib import Path
from silas.app.instance import InstanceLock
from silas.kernel import SystemClock

with InstanceLock(Path(sys.argv[1]), clock=SystemClock(), command="silas start"):
    if "--child" in sys.argv:
        child = subprocess.Popen(["sleep", "1000"], close_fds=False, stdout=subprocess.DEVNULL)
        print(child.pid, flush=True)
    else:
        print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def process_that_holds(path: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-W", "error", "-c", HOLDER, str(path), *options]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        try:
            yield holder, holder.stdout.readline().strip()
        finally:
            holder.kill()


def lock(path: Path) -> InstanceLock:
    return InstanceLock(path, clock=FakeClock(), command="silas start")


def test_the_file_says_who_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "silas.lock"
    with lock(path):
        assert json.loads(path.read_bytes()) == {
            "pid": os.getpid(),
            "started_at": "2026-01-01T12:00:00.000000Z",
            "command": "silas start",
        }
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert holder_of(path) == json.loads(path.read_bytes())
    assert path.read_bytes() == b""
    assert holder_of(path) is None


def test_it_can_be_taken_again_and_again(tmp_path: Path) -> None:
    again = lock(tmp_path / "silas.lock")
    for _ in range(3):
        with again:
            assert holder_of(tmp_path / "silas.lock")
    again.__exit__(None, None, None)


def test_the_second_process_is_told_who_the_first_one_is(tmp_path: Path) -> None:
    path = tmp_path / "silas.lock"
    with process_that_holds(path) as (holder, _):
        with pytest.raises(InstanceLocked) as caught, lock(path):
            pass
        said = holder_of(path)
        assert said is not None
        for word in (str(tmp_path), str(holder.pid), "silas start", said["started_at"]):
            assert word in caught.value.message
        assert (caught.value.code, caught.value.exit_code) == ("E_DB_LOCKED", 20)
        assert said["pid"] == holder.pid


def test_in_one_process_too_there_is_only_one(tmp_path: Path) -> None:
    path = tmp_path / "silas.lock"
    with lock(path):
        with pytest.raises(InstanceLocked), lock(path):
            pass
        assert holder_of(path) is not None


def test_what_a_killed_process_left_behind_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "silas.lock"
    with process_that_holds(path) as (holder, _):
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    assert json.loads(path.read_bytes())["pid"] == holder.pid
    assert holder_of(path) is None
    with lock(path):
        assert json.loads(path.read_bytes())["pid"] == os.getpid()


def test_a_child_process_does_not_inherit_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "silas.lock"
    with process_that_holds(path, "--child") as (holder, child):
        holder.kill()
        holder.wait()
        try:
            with lock(path):
                assert holder_of(path) is not None
        finally:
            os.kill(int(child), signal.SIGKILL)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"[1]", b'{"pid":12', b"\xff"])
def test_a_holder_that_says_nothing_useful(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "silas.lock"
    with lock(path):
        path.write_bytes(content)
        assert holder_of(path) == {}
        with pytest.raises(InstanceLocked, match="process unknown"), lock(path):
            pass


def test_a_glance_at_the_lock_does_not_stop_a_server_from_starting(tmp_path: Path) -> None:
    """`holder_of` itself holds the lock for a moment; a server that starts just then waits."""
    path = tmp_path / "silas.lock"
    glance = (
        "import sys, pathlib\nfrom silas.app.instance import holder_of\nprint('go', flush=True)\n"
        "for _ in range(20000): holder_of(pathlib.Path(sys.argv[1]))"
    )
    path.touch()
    with subprocess.Popen(
        [sys.executable, "-c", glance, str(path)], stdout=subprocess.PIPE, text=True
    ) as looking:
        assert looking.stdout is not None
        looking.stdout.readline()
        for _ in range(200):
            with lock(path):
                pass
        looking.kill()


def test_a_directory_that_was_moved_away_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with lock(tmp_path / "data" / "silas.lock"):
        (tmp_path / "data").rename(tmp_path / "aside")
        (tmp_path / "data").mkdir()
        with lock(tmp_path / "data" / "silas.lock"):
            assert holder_of(tmp_path / "data" / "silas.lock")
        assert holder_of(tmp_path / "aside" / "silas.lock")


def test_bad_places(tmp_path: Path) -> None:
    with pytest.raises(DatabaseNotOpened), lock(tmp_path / "nowhere" / "silas.lock"):
        pass
    (tmp_path / "silas.lock").mkdir()
    with pytest.raises(DatabaseError), lock(tmp_path / "silas.lock"):
        pass
    (tmp_path / "link").symlink_to("target")
    with pytest.raises(DatabaseError), lock(tmp_path / "link"):
        pass
    with pytest.raises(DatabaseError):
        holder_of(tmp_path / "link")
    assert holder_of(tmp_path / "nowhere" / "silas.lock") is None
