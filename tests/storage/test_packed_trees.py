"""Directories in a backup: everything that is a plain file comes back, nothing gets out."""

import contextlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from silas.storage.archive import pack_tree, unpack_tree
from silas.storage.errors import BackupRefused


def test_files_come_back_as_they_were(tmp_path: Path) -> None:
    source = tmp_path / "source"
    deep = source / "plan" / "task" / "1" / ("long" * 40)
    deep.mkdir(parents=True)
    (deep / "ünïcode name").write_bytes(b"\0\xff")
    (source / "empty").mkdir()
    pack_tree(source, tmp_path / "packed.tar")
    unpack_tree(tmp_path / "packed.tar", tmp_path / "back")
    assert (tmp_path / "back" / deep.relative_to(source) / "ünïcode name").read_bytes() == b"\0\xff"
    assert (tmp_path / "back" / "empty").is_dir()
    for path in (tmp_path / "back").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0


def test_links_and_pipes_are_left_out(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "link").symlink_to("/etc/passwd")
    (source / "gone").symlink_to("nowhere")
    os.mkfifo(source / "pipe")
    (source / "file").write_text("x")
    pack_tree(source, tmp_path / "packed.tar")
    unpack_tree(tmp_path / "packed.tar", tmp_path / "back")
    assert [path.name for path in (tmp_path / "back").iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["../out", "/abs", "a/../../out"])
def test_nothing_gets_out(tmp_path: Path, name: str) -> None:
    packed = tmp_path / "packed.tar"
    with tarfile.open(packed, "w") as archive:
        member = tarfile.TarInfo(name)
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    with contextlib.suppress(BackupRefused):
        unpack_tree(packed, tmp_path / "inside")
    assert not (tmp_path / "out").exists()
    assert not Path("/abs").exists()


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_only_plain_members(tmp_path: Path, kind: bytes) -> None:
    packed = tmp_path / "packed.tar"
    with tarfile.open(packed, "w") as archive:
        member = tarfile.TarInfo("member")
        member.type = kind
        member.linkname = "target"
        archive.addfile(member)
    with pytest.raises(BackupRefused):
        unpack_tree(packed, tmp_path / "inside")


def test_not_an_archive(tmp_path: Path) -> None:
    (tmp_path / "packed.tar").write_bytes(b"x" * 2000)
    with pytest.raises(BackupRefused):
        unpack_tree(tmp_path / "packed.tar", tmp_path / "inside")
