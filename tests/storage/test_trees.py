"""Trees that a worker left: read and removed whatever is in them, and never further."""

import errno
import os
import resource
import socket
import stat
from pathlib import Path

import pytest

from silas.storage import trees
from silas.storage.trees import clear_name, remove_tree, set_aside_in, shown, walk
from tests.storage.nasty_trees import as_nobody, nest


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "tree"
    path.mkdir()
    return path


NESTS = {"deep": ["d"] * 3000, "long names": ["n" * 200] * 30}


@pytest.mark.parametrize("names", NESTS.values(), ids=NESTS)
def test_no_tree_is_too_deep(tree: Path, names: list[str]) -> None:
    nest(tree, names, content=b"x")
    root = os.open(tree, os.O_RDONLY)
    assert sum(1 for _ in walk(root)) == len(names) + 1
    os.close(root)
    assert remove_tree(tree) == []
    assert not tree.exists()


@pytest.mark.slow
def test_ten_thousand_levels_are_removed(tree: Path) -> None:
    nest(tree, ["d"] * 10_000)
    assert remove_tree(tree) == []
    assert not tree.exists()


def test_few_descriptors_suffice(tree: Path) -> None:
    nest(tree, ["d"] * 200)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(tree, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 5, before[1]))
    try:
        left = remove_tree(tree)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert left == []
    assert not tree.exists()


def test_more_names_than_are_read_at_once_are_removed(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "_BATCH", 10)
    for number in range(35):
        (tree / f"d{number}").mkdir()
        (tree / f"d{number}" / "file").touch()
        (tree / f"f{number}").touch()
    assert remove_tree(tree) == []
    assert not tree.exists()


@pytest.mark.parametrize("mode", [0o000, 0o300, 0o400, 0o500, 0o100])
def test_modes_are_not_in_the_way(mode: int) -> None:
    as_nobody(
        f"""
        from pathlib import Path
        from silas.storage.trees import remove_tree
        os.makedirs("tree/a/b")
        open("tree/a/b/file", "w").close()
        os.chmod("tree/a/b/file", 0)
        for each in ("tree/a/b", "tree/a", "tree"):
            os.chmod(each, {mode})
        print(remove_tree(Path("tree")), os.listdir("."))
        """,
        says="[] []",
    )


def test_no_link_is_followed_and_special_files_go(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "precious").write_text("x")
    (tree / "link").symlink_to(outside)
    (tree / "dangling").symlink_to("nowhere")
    os.mkfifo(tree / "pipe")
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tree / "socket"))
    if os.geteuid() == 0:
        os.mknod(tree / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    (tree / os.fsdecode(b"\xff\xfe")).touch()
    (tree / "new\nline").touch()
    assert remove_tree(tree) == []
    assert not tree.exists()
    assert (outside / "precious").read_text() == "x"
    assert stat.S_IMODE(outside.stat().st_mode) == 0o755


def test_a_link_in_the_place_of_the_tree_is_removed_itself(tree: Path, tmp_path: Path) -> None:
    (tree / "precious").touch()
    (tmp_path / "link").symlink_to(tree)
    assert remove_tree(tmp_path / "link") == []
    assert remove_tree(tmp_path / "absent" / "deeper") == []
    assert [each.name for each in tmp_path.iterdir()] == ["tree"]
    assert (tree / "precious").exists()


def test_a_directory_that_is_swapped_for_a_link_is_not_followed(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    (tree / "a" / "b").mkdir(parents=True)
    opened = os.open

    def swap(path: str, flags: int, *more: int, dir_fd: int | None = None) -> int:
        if path == "a":
            (tree / "a").rename(tmp_path / "moved")
            (tree / "a").symlink_to(outside)
        return opened(path, flags, *more, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", swap)
    left = remove_tree(tree)
    assert next(each.path for each in left) == "tree/a"
    assert (outside / "precious").exists()


def test_a_directory_that_is_moved_meanwhile_leads_nowhere_else(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way back up would be another directory: what has the same names there stays."""
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "file").touch()
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "a").mkdir(parents=True)
    unlink = os.unlink

    def move(path: str, *, dir_fd: int | None = None) -> None:
        if path == "file":
            (tree / "a" / "b").rename(elsewhere / "b")
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", move)
    left = remove_tree(tree)
    assert [each.number for each in left] == [errno.ESTALE]
    assert (elsewhere / "a").exists()
    monkeypatch.undo()
    assert remove_tree(tree) == []


def held(monkeypatch: pytest.MonkeyPatch, name: str, number: int) -> None:
    """Let the kernel refuse to remove a name, as it does for what is immutable or busy."""
    for function in (os.unlink, os.rmdir):

        def refuse(path: str, *, dir_fd: int, really: object = function) -> None:
            if path == name:
                raise OSError(number, os.strerror(number), path)
            really(path, dir_fd=dir_fd)  # type: ignore[operator]

        monkeypatch.setattr(os, function.__name__, refuse)


@pytest.mark.parametrize("number", [errno.EPERM, errno.EBUSY])
def test_what_cannot_be_removed_is_told_and_the_rest_goes(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "held").touch()
    (tree / "a" / "b" / "other").touch()
    (tree / "z").mkdir()
    held(monkeypatch, "held", number)
    left = clear_name(tree)
    [aside] = set_aside_in(tmp_path)
    assert [(each.path, each.number) for each in left] == [(f"{aside.name}/a/b/held", number)]
    assert not tree.exists()
    assert [str(each.relative_to(aside)) for each in aside.rglob("*")] == ["a", "a/b", "a/b/held"]
    monkeypatch.undo()
    assert remove_tree(aside) == []
    assert set_aside_in(tmp_path) == []


def test_what_is_left_for_ever_ends(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "_BATCH", 2)
    monkeypatch.setattr(trees, "_MOST_TOLD", 3)
    for number in range(9):
        (tree / f"f{number}").touch()

    def refuse(path: str, *, dir_fd: int) -> None:
        raise PermissionError(errno.EPERM, "no", path)

    monkeypatch.setattr(os, "unlink", refuse)
    assert 1 <= len(remove_tree(tree)) <= 3


def test_a_directory_that_cannot_be_listed_is_an_error_with_its_place() -> None:
    as_nobody(
        """
        from silas.storage.trees import walk
        os.makedirs("tree/a")
        os.chmod("tree/a", 0o300)
        root = os.open("tree", os.O_RDONLY)
        try:
            list(walk(root))
        except OSError as error:
            print(error.filename, error.strerror)
        """,
        says="a Permission denied",
    )


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("plain \u00e4", "plain \u00e4"),
        ("new\nline\x1b[31m", "new\\nline\\x1b[31m"),
        (os.fsdecode(b"\xff.txt"), "\\xff.txt"),
        ("\ud800", "\\ud800"),
        ("x" * 3000, f"{'x' * 1000}[...]{'x' * 1000}"),
    ],
)
def test_names_are_shown_escaped(name: str, told: str) -> None:
    assert shown(name) == told
