"""Artifacts: kept in their namespace, given out unchanged, and never through a link."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from silas.storage import SqliteDatabase
from silas.testing import FakeClock
from silas.work import ArtifactNamespace, ArtifactRefused, ArtifactStore
from silas.work.artifacts import MAX_ARTIFACT_BYTES, read_file, split_name, write_file

FIRST = ArtifactNamespace(plan="ship", task="build", attempt=1)
SECOND = FIRST.model_copy(update={"attempt": 2})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def store(database: SqliteDatabase, root: Path, clock: FakeClock) -> ArtifactStore:
    return ArtifactStore(database, root, clock=clock)


async def test_a_file_comes_back_from_its_own_namespace(store: ArtifactStore, root: Path) -> None:
    kept = await store.keep(FIRST, "dist/app.bin", b"\x00\xff")
    await store.keep(SECOND, "dist/app.bin", b"other")
    assert await store.read(FIRST, "dist/app.bin") == b"\x00\xff"
    assert await store.list_in(FIRST) == [kept]
    path = root / "ship" / "build" / "1" / "dist" / "app.bin"
    assert path.read_bytes() == b"\x00\xff"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["app.bin"]


async def test_a_later_file_of_the_same_name_replaces_the_earlier(store: ArtifactStore) -> None:
    await store.keep(FIRST, "x", b"one")
    await store.keep(FIRST, "x", b"second")
    assert await store.read(FIRST, "x") == b"second"
    assert [each.size for each in await store.list_in(FIRST)] == [6]


async def test_what_is_not_recorded_does_not_exist(store: ArtifactStore, root: Path) -> None:
    await store.keep(FIRST, "x", b"one")
    (root / "ship" / "build" / "1" / "planted").write_bytes(b"no")
    assert [each.name for each in await store.list_in(FIRST)] == ["x"]
    with pytest.raises(ArtifactRefused, match="no artifact"):
        await store.read(FIRST, "planted")


@pytest.mark.parametrize("content", [b"two", b"longer", b""])
async def test_a_changed_file_is_refused(store: ArtifactStore, root: Path, content: bytes) -> None:
    await store.keep(FIRST, "x", b"one")
    (root / "ship" / "build" / "1" / "x").write_bytes(content)
    with pytest.raises(ArtifactRefused, match="not the file that was kept"):
        await store.read(FIRST, "x")


async def test_a_missing_file_is_refused(store: ArtifactStore, root: Path) -> None:
    await store.keep(FIRST, "x", b"one")
    (root / "ship" / "build" / "1" / "x").unlink()
    with pytest.raises(ArtifactRefused, match="No such file"):
        await store.read(FIRST, "x")


async def test_a_link_is_not_followed_when_reading(
    store: ArtifactStore, root: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"one")
    await store.keep(FIRST, "x", b"one")
    path = root / "ship" / "build" / "1" / "x"
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(ArtifactRefused):
        await store.read(FIRST, "x")


@pytest.mark.parametrize("place", ["ship", "ship/build", "ship/build/1", "ship/build/1/dist"])
async def test_a_link_on_the_way_is_not_followed_when_writing(
    store: ArtifactStore, root: Path, tmp_path: Path, place: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / place).parent.mkdir(parents=True)
    (root / place).symlink_to(outside)
    with pytest.raises(ArtifactRefused):
        await store.keep(FIRST, "dist/x", b"one")
    assert list(outside.iterdir()) == []
    assert await store.list_in(FIRST) == []


async def test_a_link_at_the_end_is_replaced_and_not_followed(
    store: ArtifactStore, root: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"before")
    (root / "ship" / "build" / "1").mkdir(parents=True)
    (root / "ship" / "build" / "1" / "x").symlink_to(outside)
    await store.keep(FIRST, "x", b"one")
    assert outside.read_bytes() == b"before"
    assert await store.read(FIRST, "x") == b"one"


def test_a_root_that_is_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArtifactRefused):
        write_file(root, ["x"], b"one")


def test_a_pipe_is_refused_and_nobody_waits_for_it(root: Path) -> None:
    root.mkdir()
    os.mkfifo(root / "x")
    with pytest.raises(ArtifactRefused):
        read_file(root, ["x"], size=0)


def test_a_file_in_the_place_of_a_directory_is_refused_and_leaves_nothing(root: Path) -> None:
    write_file(root, ["x"], b"one")
    with pytest.raises(ArtifactRefused):
        write_file(root, ["x", "y"], b"two")
    write_file(root, ["d", "y"], b"three")
    with pytest.raises(ArtifactRefused):
        write_file(root, ["d"], b"four")
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*")) == ["d", "d/y", "x"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "/etc/passwd",
        "../x",
        "a/../x",
        "a//b",
        "a/",
        "a/./b",
        "a\x00b",
        "a\nb",
        "\x1b[2J",
        "a\x9bb",
        "x" * 201,
        "ü" * 101,
        "/".join("a" * 33),
        "\ud800",
    ],
)
async def test_a_name_that_leads_elsewhere_is_refused(store: ArtifactStore, name: str) -> None:
    with pytest.raises(ArtifactRefused, match="cannot be the name"):
        await store.keep(FIRST, name, b"")


async def test_an_artifact_has_a_largest_size(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_ARTIFACT_BYTES == 64 * 1024 * 1024
    monkeypatch.setattr("silas.work.artifacts.MAX_ARTIFACT_BYTES", 3)
    await store.keep(FIRST, "x", b"123")
    with pytest.raises(ArtifactRefused, match="at most 3 bytes"):
        await store.keep(FIRST, "x", b"1234")


@pytest.mark.parametrize("fields", [{"plan": ".."}, {"task": "a/b"}, {"attempt": 0}])
def test_a_namespace_is_three_plain_parts(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ArtifactNamespace.model_validate({"plan": "p", "task": "t", "attempt": 1, **fields})


async def test_a_follow_up_chooses_what_it_imports(store: ArtifactStore) -> None:
    for name in ("a", "b", "c"):
        await store.keep(FIRST, name, name.encode())
    assert [each.name for each in await store.choose(FIRST, ["*"])] == ["a", "b", "c"]
    assert [each.name for each in await store.choose(FIRST, ["c", "a"])] == ["a", "c"]
    assert await store.choose(FIRST, []) == []
    with pytest.raises(ArtifactRefused, match="not in ship/build/1: d, e"):
        await store.choose(FIRST, ["e", "a", "d"])


@given(st.text(min_size=1, max_size=40))
def test_any_name_stays_below_its_directory_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    try:
        parts = split_name(name)
    except ArtifactRefused:
        return
    root = tmp_path_factory.mktemp("root")
    write_file(root, parts, b"x")
    (found,) = (path for path in root.rglob("*") if path.is_file())
    assert found == root.joinpath(*parts)
    assert read_file(root, parts, size=1) == b"x"
