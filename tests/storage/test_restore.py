"""Restoring: all of it, checked before anything is replaced, and what was there is kept."""

import io
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from silas.kernel import BackupError, canonical_bytes, strict_loads
from silas.storage import DiskFull
from silas.storage.errors import (
    BackupDamaged,
    BackupNotRead,
    BackupRefused,
    RestoreNotPossible,
    RestoreWouldReplace,
)
from silas.storage.restore import _exchange_in_steps, exchange, restore_backup
from tests.storage.data_directory import (
    STAMP,
    back_up,
    bring_back,
    make_data,
    quiet,
    rows_in,
    tree,
)
from tests.tiny_disk import make_read_only, tiny_disk

ASIDE = "data.before-restore-20260102T030405.000000Z"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    source = make_data(tmp_path / "origin")
    back_up(tmp_path / "b.tar", source)
    return tmp_path / "b.tar"


def test_into_a_directory_that_does_not_exist(tmp_path: Path, archive: Path) -> None:
    data_dir = tmp_path / "new" / "home" / "data"
    restored = bring_back(archive, data_dir)
    assert restored.set_aside is None
    assert rows_in(data_dir / "silas.db") == rows_in(tmp_path / "origin" / "silas.db")
    assert [path.name for path in data_dir.parent.iterdir()] == ["data"]


def test_everything_is_the_owner_s_alone(tmp_path: Path, archive: Path) -> None:
    before = os.umask(0)
    try:
        bring_back(archive, tmp_path / "data")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").iterdir()}
    assert modes == {0o600}


@pytest.mark.parametrize("names", [[], ["silas.lock"], ["silas.lock", "silas.sock"]])
def test_a_directory_without_data_is_simply_used(
    tmp_path: Path, archive: Path, names: list[str]
) -> None:
    (tmp_path / "data").mkdir()
    for name in names:
        (tmp_path / "data" / name).touch()
    assert bring_back(archive, tmp_path / "data").set_aside is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar", "data", "origin"]
    assert not (tmp_path / "data" / "silas.lock").exists()


@pytest.mark.parametrize("name", ["silas.db", "vault.json", "a key file", ".hidden"])
def test_data_is_not_replaced_unless_told_to(tmp_path: Path, archive: Path, name: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).write_text("precious")
    before = tree(tmp_path)
    with pytest.raises(RestoreWouldReplace, match="--force"):
        bring_back(archive, tmp_path / "data")
    assert tree(tmp_path) == before


def test_with_force_the_old_data_is_kept_aside(tmp_path: Path, archive: Path) -> None:
    make_data(tmp_path / "data", rows=7)
    old = tree(tmp_path / "data")
    restored = bring_back(archive, tmp_path / "data", replace=True)
    assert restored.set_aside == tmp_path / ASIDE
    assert tree(tmp_path / ASIDE) == old
    assert len(rows_in(tmp_path / "data" / "silas.db")) == 500
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar", "data", ASIDE, "origin"]


def test_through_a_link_the_directory_itself_is_replaced(tmp_path: Path, archive: Path) -> None:
    make_data(tmp_path / "elsewhere" / "data", rows=7)
    (tmp_path / "data").symlink_to("elsewhere/data")
    restored = bring_back(archive, tmp_path / "data", replace=True)
    assert (tmp_path / "data").is_symlink()
    assert len(rows_in(tmp_path / "data" / "silas.db")) == 500
    assert restored.set_aside == tmp_path / "elsewhere" / ASIDE


def test_a_preparation_that_objects_changes_nothing(tmp_path: Path, archive: Path) -> None:
    make_data(tmp_path / "data", rows=7)
    before = tree(tmp_path)

    def object_to(folder: Path) -> None:
        assert len(rows_in(folder / "silas.db")) == 500
        raise BackupError("No.")

    with pytest.raises(BackupError, match=r"No\."):
        restore_backup(
            archive,
            tmp_path / "data",
            moment=STAMP.moment,
            replace=True,
            prepare=object_to,
            progress=quiet,
        )
    assert tree(tmp_path) == before


def test_what_the_preparation_changes_is_what_comes_back(tmp_path: Path, archive: Path) -> None:
    def prepare(folder: Path) -> None:
        (folder / "vault.json").write_text("prepared")

    restore_backup(
        archive,
        tmp_path / "data",
        moment=STAMP.moment,
        replace=False,
        prepare=prepare,
        progress=quiet,
    )
    assert (tmp_path / "data" / "vault.json").read_text() == "prepared"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: None])
def test_a_backup_that_is_no_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "b.tar")
    with pytest.raises(BackupNotRead, match=r"b\.tar"):
        bring_back(tmp_path / "b.tar", tmp_path / "data")


def test_a_file_in_place_of_the_data_directory(tmp_path: Path, archive: Path) -> None:
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(RestoreNotPossible, match="data"):
        bring_back(archive, tmp_path / "data", replace=True)
    with pytest.raises(RestoreNotPossible):
        bring_back(archive, tmp_path / "data" / "below" / "data", replace=True)
    assert (tmp_path / "data").read_text() == "in the way"


def test_a_full_disk_changes_nothing(tmp_path: Path, archive: Path) -> None:
    with tiny_disk(tmp_path / "disk", kilobytes=40) as disk:
        (disk / "data").mkdir()
        (disk / "data" / "silas.db").write_text("precious")
        with pytest.raises(DiskFull, match="bytes needed"):
            bring_back(archive, disk / "data", replace=True)
        assert (disk / "data" / "silas.db").read_text() == "precious"
        assert [path.name for path in disk.iterdir()] == ["data"]


def test_a_disk_that_fills_up_at_the_end_changes_nothing(tmp_path: Path, archive: Path) -> None:
    with tiny_disk(tmp_path / "disk", kilobytes=200) as disk:
        (disk / "data").mkdir()
        (disk / "data" / "silas.db").write_text("precious")
        with pytest.raises(DiskFull):
            restore_backup(
                archive,
                disk / "data",
                moment=STAMP.moment,
                replace=True,
                prepare=lambda folder: (folder / "silas.db").write_bytes(b"x" * 200_000) and None,
                progress=quiet,
            )
        assert (disk / "data" / "silas.db").read_text() == "precious"
        assert [path.name for path in disk.iterdir()] == ["data"]


def test_a_read_only_disk(tmp_path: Path, archive: Path) -> None:
    with tiny_disk(tmp_path / "disk", kilobytes=80) as disk:
        make_read_only(disk)
        with pytest.raises(RestoreNotPossible, match="Read-only"):
            bring_back(archive, disk / "data")


def test_a_disk_of_its_own_cannot_be_swapped(tmp_path: Path, archive: Path) -> None:
    with tiny_disk(tmp_path / "data", kilobytes=400) as disk:
        (disk / "silas.db").write_text("precious")
        with pytest.raises(RestoreNotPossible, match="choose another"):
            bring_back(archive, disk, replace=True)
        assert (disk / "silas.db").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar", "data", "origin"]


# What is wrong with an archive.


def rebuilt(archive: Path, change: Callable[[tarfile.TarInfo], object]) -> None:
    """Write the archive anew with an ordinary tar library, with each header changed."""
    with tarfile.open(archive) as old:
        members = [
            (info, file.read()) for info in old if (file := old.extractfile(info)) is not None
        ]
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as new:
        for info, content in members:
            change(info)
            new.addfile(info, io.BytesIO(content) if info.isreg() else None)


def with_manifest(archive: Path, change: Callable[[dict[str, object]], object]) -> None:
    """Write the archive anew with another manifest, and headers that fit."""
    with tarfile.open(archive) as old:
        members = [
            (info, file.read()) for info in old if (file := old.extractfile(info)) is not None
        ]
    manifest = strict_loads(members[0][1])
    change(manifest)
    encoded = canonical_bytes(manifest)
    members[0][0].size = len(encoded)
    with archive.open("wb") as new:
        for info, content in [(members[0][0], encoded), *members[1:]]:
            new.write(info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512))
        new.write(bytes(1024))


def renamed(name: str) -> Callable[[tarfile.TarInfo], object]:
    def change(info: tarfile.TarInfo) -> None:
        if info.name == "vault.json":
            info.name = name

    return change


def typed(kind: bytes, link: str = "") -> Callable[[tarfile.TarInfo], object]:
    def change(info: tarfile.TarInfo) -> None:
        if info.name == "vault.json":
            info.type, info.linkname = kind, link
            info.size = info.size if info.isreg() else 0

    return change


TRICKS = {
    "an absolute path": renamed("/etc/passwd"),
    "a way up": renamed("../vault.json"),
    "a name that is not listed": renamed("silas.lock"),
    "a duplicate": renamed("owner.pub"),
    "a directory": typed(tarfile.DIRTYPE),
    "a symbolic link": typed(tarfile.SYMTYPE, "/etc/passwd"),
    "a hard link": typed(tarfile.LNKTYPE, "owner.pub"),
    "a device": typed(tarfile.CHRTYPE),
    "a pipe": typed(tarfile.FIFOTYPE),
    "a sparse file": typed(tarfile.GNUTYPE_SPARSE),
    "another owner": lambda info: setattr(info, "uname", "root"),
    "a set-uid bit": lambda info: setattr(info, "mode", 0o4755),
}


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS)
def test_tricks_in_the_headers(
    tmp_path: Path, archive: Path, trick: Callable[[tarfile.TarInfo], object]
) -> None:
    rebuilt(archive, trick)
    refuse(archive, tmp_path, BackupRefused, BackupDamaged)


def rename_entry(name: str) -> Callable[[dict[str, object]], object]:
    return lambda manifest: manifest["files"][2].update(name=name)  # type: ignore[index]


LIES = {
    "a newer format": lambda m: m.update(format="silas-backup-v2"),
    "no format": lambda m: m.pop("format"),
    "something more": lambda m: m.update(extra=1),
    "no time": lambda m: m.update(created_at="yesterday"),
    "no files": lambda m: m.update(files=[]),
    "a missing file": lambda m: m["files"].pop(),
    "a duplicate": lambda m: m["files"].append(m["files"][0]),
    "another order": lambda m: m["files"].reverse(),
    "an absolute path": rename_entry("/etc/passwd.db"),
    "a way up": rename_entry("../x.db"),
    "a hidden file": rename_entry(".x.db"),
    "a path": rename_entry("a/x.db"),
    "a way up from a directory": rename_entry("archive/../x.jsonl"),
    "a hidden file in a directory": rename_entry("archive/.x.jsonl"),
    "a database in a directory": rename_entry("archive/x.db"),
    "the lock": rename_entry("silas.lock"),
    "the manifest": rename_entry("manifest.json"),
    "a newline": rename_entry("x.db\n"),
    "a long name": rename_entry("x" * 200 + ".db"),
    "a huge size": lambda m: m["files"][0].update(size=10**15),
    "a size below zero": lambda m: m["files"][0].update(size=-1),
    "a size that is no number": lambda m: m["files"][0].update(size="5"),
    "another checksum": lambda m: m["files"][0].update(sha256="0" * 64),
    "no checksum": lambda m: m["files"][0].update(sha256=""),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_lies_in_the_manifest(
    tmp_path: Path, archive: Path, lie: Callable[[dict[str, object]], object]
) -> None:
    with_manifest(archive, lie)
    refuse(archive, tmp_path, BackupRefused, BackupDamaged)


def test_the_way_the_lies_are_told_is_itself_sound(tmp_path: Path, archive: Path) -> None:
    with_manifest(archive, lambda manifest: None)
    bring_back(archive, tmp_path / "data")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: b"",
        lambda content: b"not a tar file",
        lambda content: b"\0" * 10240,
        lambda content: content[:-1],
        lambda content: content[:-1024],
        lambda content: content[: len(content) // 2],
        lambda content: content + b"\0",
        lambda content: content + content,
        lambda content: b"\x1f\x8b" + content,
    ],
)
def test_what_is_cut_or_added(
    tmp_path: Path, archive: Path, spoil: Callable[[bytes], bytes]
) -> None:
    archive.write_bytes(spoil(archive.read_bytes()))
    refuse(archive, tmp_path, BackupRefused, BackupDamaged)


@settings(
    max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.data())
def test_any_flipped_bit_is_found(tmp_path: Path, archive: Path, data: st.DataObject) -> None:
    whole = archive.read_bytes()
    spoilt = bytearray(whole)
    spoilt[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    archive.write_bytes(spoilt)
    try:
        with pytest.raises((BackupRefused, BackupDamaged)):
            bring_back(archive, tmp_path / "data")
        assert not (tmp_path / "data").exists()
    finally:
        archive.write_bytes(whole)


def refuse(archive: Path, tmp_path: Path, *kinds: type[BackupError]) -> None:
    """It is refused, also with force, and nothing is changed."""
    make_data(tmp_path / "data", rows=7)
    before = tree(tmp_path)
    with pytest.raises(kinds, match="Nothing was changed"):
        bring_back(archive, tmp_path / "data", replace=True)
    assert tree(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.tar", "data", "origin"]


@pytest.mark.parametrize("swap", [exchange, _exchange_in_steps])
def test_two_directories_trade_places(tmp_path: Path, swap: Callable[[Path, Path], None]) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "who").write_text(name)
    swap(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "one" / "who").read_text() == "other"
    assert (tmp_path / "other" / "who").read_text() == "one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other"]


@pytest.mark.parametrize("swap", [exchange, _exchange_in_steps])
def test_a_swap_that_fails_leaves_both_names(
    tmp_path: Path, swap: Callable[[Path, Path], None]
) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(OSError):
        swap(tmp_path / "missing", tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
