"""Files for the owner's eyes, replaced as a whole or not at all."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from silas.storage.files import (
    ensure_private_file,
    make_private_directory,
    sync_directory,
    write_private_file,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def _careless_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_new_directory_is_private(tmp_path: Path) -> None:
    make_private_directory(tmp_path / "a" / "b")
    assert mode(tmp_path / "a" / "b") == 0o700
    assert mode(tmp_path / "a") == 0o700, "those above it as well"


def test_a_directory_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o755)
    make_private_directory(tmp_path / "shared")
    assert mode(tmp_path / "shared") == 0o755


def test_a_file_is_created_empty_and_private(tmp_path: Path) -> None:
    ensure_private_file(tmp_path / "x")
    assert mode(tmp_path / "x") == 0o600
    assert (tmp_path / "x").read_bytes() == b""


@pytest.mark.parametrize(("before", "after"), [(0o644, 0o600), (0o640, 0o600), (0o400, 0o400)])
def test_a_file_that_exists_keeps_its_content_and_loses_other_readers(
    tmp_path: Path, before: int, after: int
) -> None:
    (tmp_path / "x").write_bytes(b"content")
    (tmp_path / "x").chmod(before)
    ensure_private_file(tmp_path / "x")
    assert mode(tmp_path / "x") == after
    assert (tmp_path / "x").read_bytes() == b"content"


def test_links_pipes_and_directories_are_refused(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"content")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "dangling", "directory", "pipe"):
        with pytest.raises(OSError, match="is not a regular file"):
            ensure_private_file(tmp_path / name)
    assert not (tmp_path / "nowhere").exists()


def test_a_database_that_is_in_use_keeps_its_locks(tmp_path: Path) -> None:
    """POSIX drops a process's locks on a file when it closes any descriptor of that file."""
    path = tmp_path / "x.db"
    ours = apsw.Connection(str(path))
    ours.execute("CREATE TABLE t (id INTEGER)")
    ours.execute("BEGIN EXCLUSIVE")
    ensure_private_file(path)
    look = "import apsw, sys; print(apsw.Connection(sys.argv[1]).execute('SELECT * FROM t'))"
    other = subprocess.run(
        [sys.executable, "-c", look, str(path)], capture_output=True, check=False
    )
    assert b"BusyError" in other.stderr
    ours.close()


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_private_file(path, b"first")
    before = path.stat().st_ino
    write_private_file(path, b"second")
    assert path.read_bytes() == b"second"
    assert mode(path) == 0o600
    assert path.stat().st_ino != before
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_replaced_and_its_target_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"content")
    (tmp_path / "link").symlink_to("target")
    write_private_file(tmp_path / "link", b"new")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"content"


def test_a_failed_write_leaves_the_old_content_and_no_remains(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(OSError):
        write_private_file(tmp_path / "x", b"new")
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


def test_threads_that_write_the_same_file_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "x"
    contents = [bytes([n]) * 10_000 for n in range(16)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda content: write_private_file(path, content), contents))
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_syncing_what_is_no_directory_is_an_error(tmp_path: Path) -> None:
    sync_directory(tmp_path)
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        sync_directory(tmp_path / "x")
