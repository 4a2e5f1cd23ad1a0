"""The bytes of a skill: what belongs to it, what is refused, and when it is another one."""

import contextlib
import os
import socket
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.skills import tree as trees
from silas.skills.tree import (
    SkillChanged,
    SkillFile,
    SkillTree,
    SkillTreeRefused,
    compare_trees,
    copy_tree,
    read_file,
    read_tree,
    write_tree,
)

FILES = {"SKILL.md": b"hello\n", "scripts/run.py": b"print(1)\n", "assets/a b.txt": b""}


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    write_tree(tmp_path / "demo", FILES, executable=["scripts/run.py"])
    return tmp_path / "demo"


def test_a_tree_is_its_files_with_their_digests(skill: Path) -> None:
    tree = read_tree(skill)
    assert [file.path for file in tree.files] == sorted(FILES)
    assert tree.by_path["scripts/run.py"].executable
    assert not tree.by_path["SKILL.md"].executable
    assert tree.size == sum(map(len, FILES.values()))
    (skill / "empty").mkdir()
    assert read_tree(skill).digest == tree.digest


@pytest.mark.parametrize("change", ["content", "name", "mode", "more", "less"])
def test_every_change_is_another_digest(skill: Path, change: str) -> None:
    before = read_tree(skill)
    script = skill / "scripts" / "run.py"
    match change:
        case "content":
            script.write_bytes(b"print(2)\n")
        case "name":
            script.rename(skill / "scripts" / "ran.py")
        case "mode":
            script.chmod(0o600)
        case "more":
            (skill / "x").write_bytes(b"")
        case "less":
            script.unlink()
    after = read_tree(skill)
    assert after.digest != before.digest
    assert not compare_trees(before, after).is_empty
    assert compare_trees(before, before).is_empty


def test_what_came_changed_and_went(skill: Path) -> None:
    before = read_tree(skill)
    (skill / "SKILL.md").write_bytes(b"other")
    (skill / "assets" / "a b.txt").unlink()
    (skill / "new").write_bytes(b"n")
    found = compare_trees(before, read_tree(skill))
    assert (found.added, found.changed, found.removed) == (
        ("new",),
        ("SKILL.md",),
        ("assets/a b.txt",),
    )


def test_links_and_devices_are_refused(skill: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("secret")
    for name, make in {
        "link": lambda path: path.symlink_to(outside),
        "directory": lambda path: path.symlink_to(tmp_path),
        "dangling": lambda path: path.symlink_to("nowhere"),
        "pipe": os.mkfifo,
        "socket": _socket,
    }.items():
        place = skill / "assets" / name
        make(place)
        with pytest.raises(SkillTreeRefused, match=name):
            read_tree(skill)
        place.unlink()
    read_tree(skill)


def _socket(path: Path) -> None:
    # The address of a socket is short; a path of a test may not be.
    with socket.socket(socket.AF_UNIX) as held, contextlib.chdir(path.parent):
        held.bind(path.name)


@pytest.mark.parametrize(
    "name",
    [b"not-\xff-utf8", unicodedata.normalize("NFD", "ä").encode(), b"a\nb", b"a\\b", "a\u202eb"],
)
def test_names_that_cannot_be_shown_are_refused(skill: Path, name: bytes | str) -> None:
    raw = name if isinstance(name, bytes) else name.encode()
    os.close(os.open(os.fsencode(skill) + b"/" + raw, os.O_CREAT))
    with pytest.raises(SkillTreeRefused, match="name"):
        read_tree(skill)


@pytest.mark.parametrize("twin", ["skill.md", "Scripts/other.py"])
def test_names_that_differ_in_case_alone_are_refused(skill: Path, twin: str) -> None:
    (skill / twin).parent.mkdir(exist_ok=True)
    (skill / twin).write_bytes(b"")
    with pytest.raises(SkillTreeRefused, match="case alone"):
        read_tree(skill)


def test_limits(skill: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value, words in [
        ("MAX_FILES", 2, "more than 2 files"),
        ("MAX_FILE_BYTES", 3, "MB"),
        ("MAX_TREE_BYTES", 10, "together"),
        ("MAX_DEPTH", 1, "deep"),
        ("MAX_PATH_BYTES", 8, "bytes"),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(trees, name, value)
            with pytest.raises(SkillTreeRefused, match=words):
                read_tree(skill)
    read_tree(skill)


def test_a_file_that_changed_since_is_not_given_out(skill: Path, tmp_path: Path) -> None:
    tree = read_tree(skill)
    script = skill / "scripts" / "run.py"
    assert read_file(skill, tree, "scripts/run.py") == FILES["scripts/run.py"]
    with pytest.raises(SkillTreeRefused):
        read_file(skill, tree, "../outside")
    script.write_bytes(b"print(3)\n")
    with pytest.raises(SkillChanged):
        read_file(skill, tree, "scripts/run.py")
    script.write_bytes(FILES["scripts/run.py"])
    script.chmod(0o600)
    with pytest.raises(SkillChanged):
        read_file(skill, tree, "scripts/run.py")
    script.unlink()
    script.symlink_to(skill / "SKILL.md")
    with pytest.raises(SkillChanged):
        read_file(skill, tree, "scripts/run.py")
    (skill / "scripts").rename(tmp_path / "elsewhere")
    (skill / "scripts").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SkillChanged):
        read_file(skill, tree, "scripts/run.py")


def test_a_copy_is_the_same_tree_and_nobody_writes_to_it(skill: Path, tmp_path: Path) -> None:
    tree = read_tree(skill)
    copy_tree(skill, tree, tmp_path / "copy")
    assert read_tree(tmp_path / "copy") == tree
    assert (tmp_path / "copy" / "SKILL.md").stat().st_mode & 0o222 == 0
    with pytest.raises(SkillTreeRefused, match="there already"):
        copy_tree(skill, tree, tmp_path / "copy")


def test_a_copy_of_what_changed_leaves_nothing(skill: Path, tmp_path: Path) -> None:
    tree = read_tree(skill)
    (skill / "scripts" / "run.py").write_bytes(b"evil")
    with pytest.raises(SkillChanged):
        copy_tree(skill, tree, tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["demo"]


_PATHS = st.lists(
    st.text(alphabet="abcxyz0-_.é", min_size=1, max_size=6).filter(lambda t: t not in (".", "..")),
    min_size=1,
    max_size=3,
).map("/".join)


@given(st.dictionaries(_PATHS, st.binary(max_size=20), max_size=6), st.randoms())
def test_the_digest_depends_on_nothing_but_the_files(files: dict[str, bytes], random) -> None:  # type: ignore[no-untyped-def]
    described = [trees._described(path, files[path], executable=False) for path in sorted(files)]
    tree = SkillTree(files=tuple(described))
    again = SkillTree.model_validate_json(tree.model_dump_json())
    assert again.digest == tree.digest
    if files:
        path = random.choice(sorted(files))
        other = [
            SkillFile(**{**each.model_dump(), "size": each.size + 1}) if each.path == path else each
            for each in described
        ]
        assert SkillTree(files=tuple(other)).digest != tree.digest
        with pytest.raises(ValueError):
            SkillTree(files=(*described, described[0]))
