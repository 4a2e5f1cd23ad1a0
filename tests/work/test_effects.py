"""What a declaration covers, and what it never does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from silas.tools.tree import matches
from silas.work.effects import DeclaredChanges, FileChange, executed_by, split_changes

A, B = "a" * 64, "b" * 64


def added(path: str, *, executable: bool = False) -> FileChange:
    return FileChange(path=path, before=None, after=A, executable=executable)


def changed(path: str, *, executable: bool = False, was: bool = False) -> FileChange:
    return FileChange(path=path, before=A, after=B, executable=executable, was_executable=was)


def removed(path: str) -> FileChange:
    return FileChange(path=path, before=A, after=None)


DECLARED = DeclaredChanges(
    add=["docs/new.md", "out/**", "Makefile", "go", "run.sh"],
    change=["README.md", "src/*.py", "tool"],
    remove=["old.txt"],
    executable=["go"],
)


@pytest.mark.parametrize(
    "change",
    [
        added("docs/new.md"),
        changed("README.md"),
        added("README.md"),
        changed("src/a.py"),
        added("out/deep/x.txt"),
        removed("old.txt"),
        added("Makefile"),
        added("go", executable=True),
        added("run.sh", executable=True),
        changed("tool", executable=True, was=True),
    ],
)
def test_what_is_declared_is_covered(change: FileChange) -> None:
    assert DECLARED.covers(change)


@pytest.mark.parametrize(
    "change",
    [
        changed("docs/new.md"),  # it was to be added, and something is there
        added("src/new.py"),  # a pattern for changes adds nothing
        changed("src/deep/a.py"),
        removed("README.md"),
        removed("out/x.txt"),
        removed("src/a.py"),
        added("out/.envrc"),
        added("out/Makefile"),
        added("out/deep/conftest.py"),
        added("out/.github/workflows/x.yml"),
        added("out/HEAD"),
        added("out/x", executable=True),
        changed("README.md", executable=True),
        changed("tool", executable=True),
        added("anything"),
    ],
)
def test_what_is_beyond_is_not(change: FileChange) -> None:
    assert not DECLARED.covers(change)


@pytest.mark.parametrize(
    "pattern", ["*", "**", "**/*", "*/*", "*.*", "?*", "**/**", "*/**", "*.p*"]
)
def test_the_workspace_itself_cannot_be_declared(pattern: str) -> None:
    with pytest.raises(ValidationError, match="whole workspace"):
        DeclaredChanges(add=[pattern])


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a//b", "a/../b", ".", "", "a/", "x\0y"])
def test_a_declared_path_stays_below_the_workspace(path: str) -> None:
    for name in ("add", "change", "remove"):
        with pytest.raises(ValidationError):
            DeclaredChanges.model_validate({name: [path]})


def test_removals_and_executables_are_exact() -> None:
    for name in ("remove", "executable"):
        with pytest.raises(ValidationError, match="exact path"):
            DeclaredChanges.model_validate({name: ["src/*.py"], "add": ["src/*.py"]})
    with pytest.raises(ValidationError, match="also stand"):
        DeclaredChanges(executable=["x"])
    with pytest.raises(ValidationError, match="say one"):
        DeclaredChanges(change=["x"], remove=["x"])


@pytest.mark.parametrize(
    "path",
    [
        *(
            "conftest.py",
            "a/CONFTEST.py",
            ".envrc",
            "x/Makefile",
            "makefile",
            ".bashrc",
            "setup.py",
        ),
        *(".github/workflows/ci.yml", ".git/config", "a/.git/hooks/x", ".vscode/tasks.json"),
        *(".claude/settings.json", "AGENTS.md", "deploy.sh", "docs/HEAD", "package.json", "a.pth"),
        *("x/__pycache__/a.cpython-311.pyc", "node_modules/x/index.js", "vite.config.ts", ".git"),
    ],
)
def test_files_that_others_execute_are_known(path: str) -> None:
    assert executed_by(path)


@pytest.mark.parametrize("path", ["README.md", "src/app.py", "notes.txt", "a/b.json", "x.html"])
def test_ordinary_files_are_not_among_them(path: str) -> None:
    assert executed_by(path) is None


def test_brackets_mean_themselves() -> None:
    assert matches("a[1].txt", "a[1].txt")
    assert not matches("a[1].txt", "a1.txt")


_paths = st.lists(st.sampled_from("ab.*?"), min_size=1, max_size=4).map("".join)
_changes = st.builds(
    FileChange,
    path=st.lists(_paths, min_size=1, max_size=3).map("/".join),
    before=st.sampled_from([None, A]),
    after=st.sampled_from([None, B]),
    executable=st.booleans(),
    was_executable=st.booleans(),
)


@given(st.lists(_changes, max_size=8))
def test_nothing_declared_covers_nothing(changes: list[FileChange]) -> None:
    assert split_changes(DeclaredChanges(), changes) == ([], changes)


@given(st.lists(_changes, max_size=8))
def test_every_change_is_on_one_side(changes: list[FileChange]) -> None:
    covered, beyond = split_changes(DECLARED, changes)
    assert len(covered) + len(beyond) == len(changes)
    assert all(DECLARED.may_write(change.path) for change in covered)
