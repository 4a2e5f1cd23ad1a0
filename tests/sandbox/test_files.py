"""Files of a workspace from outside: confined, whatever links a command has put there."""

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.sandbox.collect import collect
from silas.sandbox.confined import ConfinedTree
from silas.sandbox.files import WorkspaceFiles


def test_output_is_copied_without_what_could_hurt(tmp_path):
    source, target, secret = tmp_path / "out", tmp_path / "copy", tmp_path / "secret"
    source.mkdir()
    secret.write_text("secret")
    (source / "dir").mkdir()
    (source / "dir" / "file").write_text("kept")
    (source / "dir" / "file").chmod(0o4777)
    (source / "link").symlink_to(secret)
    (source / "dir-link").symlink_to(tmp_path)
    os.mkfifo(source / "fifo")
    done = collect(str(source), str(target), max_bytes=1000)
    assert done.files == ["dir/file"]
    assert set(done.skipped) == {"link", "dir-link", "fifo"}
    assert (target / "dir" / "file").read_text() == "kept"
    assert (target / "dir" / "file").stat().st_mode & 0o7777 == 0o600
    assert sorted(path.name for path in target.rglob("*")) == ["dir", "file"]


def test_output_that_is_itself_a_link_is_not_copied(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(OSError):
        collect(str(tmp_path / "link"), str(tmp_path / "copy"), max_bytes=10)


def test_more_output_than_agreed_is_left_behind(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").write_bytes(b"x" * 10)
    (tmp_path / "out" / "b").write_bytes(b"x" * 1000)
    done = collect(str(tmp_path / "out"), str(tmp_path / "copy"), max_bytes=100)
    assert done.files == ["a"]
    assert done.skipped == {"b": "too large"}


def test_a_bottomless_directory_is_cut_off(tmp_path):
    deep = tmp_path / "out"
    for _ in range(100):
        deep = deep / "d"
    deep.mkdir(parents=True)
    done = collect(str(tmp_path / "out"), str(tmp_path / "copy"), max_bytes=100)
    assert len(done.skipped) == 1


_NAMES = st.sampled_from(["a", "b", "l1", "l2", "..", "file"])
_TARGETS = st.lists(_NAMES, min_size=1, max_size=4).map("/".join)


@given(
    links=st.dictionaries(st.sampled_from(["l1", "l2", "a/l1", "b/l2"]), _TARGETS, max_size=4),
    absolute=st.booleans(),
    path=st.lists(_NAMES, min_size=1, max_size=6),
)
def test_no_path_leads_out(tmp_path_factory, links, absolute, path):
    """Whatever links there are, a path ends below the root, or nowhere."""
    base = tmp_path_factory.mktemp("tree").resolve()
    root = base / "root"
    for name in ("a", "b"):
        (root / name).mkdir(parents=True)
    (base / "file").write_text("outside")
    (root / "file").write_text("inside")
    for link, target in links.items():
        (root / link).symlink_to(f"{base}/{target}" if absolute else target)
    where = f"{root}/{'/'.join(path)}"
    try:
        with ConfinedTree(str(root)).locate(where) as place:
            assert place.path == str(root) or place.path.startswith(f"{root}/")
            assert os.fstat(place.directory).st_ino in _inodes(root)
    except OSError as error:
        wall = error.errno
    else:
        wall = None
        assert os.path.realpath(where) == os.path.realpath(place.path)
    assert wall in {None, errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


def _inodes(root) -> set[int]:
    return {root.stat().st_ino, *(path.stat().st_ino for path in root.rglob("*") if path.is_dir())}


def test_a_file_is_swapped_for_a_link_in_the_last_moment(tmp_path):
    """What was looked at is what is opened: the last step does not follow a link."""
    root = tmp_path.resolve() / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("secret")
    tree = ConfinedTree(str(root))
    with tree.locate(f"{root}/file") as place:
        (root / "file").symlink_to(tmp_path / "secret")
        with pytest.raises(OSError):
            os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=place.directory)


def test_a_tree_is_removed_without_following_links(tmp_path):
    root = tmp_path.resolve() / "root"
    (root / "dir").mkdir(parents=True)
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep" / "file").write_text("kept")
    (root / "dir" / "link").symlink_to(tmp_path / "keep")
    files = WorkspaceFiles(str(root))
    files.remove(f"{root}/dir")
    assert (tmp_path / "keep" / "file").exists()
    for path in (str(root), str(root.parent), "/"):
        with pytest.raises(ValueError):
            files.remove(path)
