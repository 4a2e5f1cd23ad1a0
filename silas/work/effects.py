"""What a plan says that it will change, and whether what was changed is covered by that.

1. A plan declares what it adds, changes and removes: exact paths, or patterns in which `*` and `?`
   stay in one directory and `**` crosses directories. The owner is shown the declaration, and it is
   part of what is signed.
2. An exact path covers what it says. Whoever may change a file may also make it; whoever may add a
   file may not overwrite one that is there.
3. A pattern covers ordinary files alone: no removal, nothing that other programs execute or obey
   (`executed_by`), nothing that is executable.
4. A file that becomes executable is declared so (`executable`), unless its name says it already or
   it was executable before.
5. The workspace as a whole cannot be declared: a pattern needs a directory or part of a name.
6. What is not declared is not covered.

A plan also names the directory that it works on, and files in it. `binding.py` fills in what they
are at that moment, before anything is shown and signed. What was filled in is part of the plan
hash, so that a later change is either a different plan or a difference that is noticed before
anything is executed (`admission.py`).
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from silas.egress import Hosts
from silas.kernel.models import Data, FieldProblem, refuse, text_like
from silas.tools.tree import is_pattern, matches

_LITERAL = re.compile(r"[^*?\W]{2}")
_PART = r"(?!\.{1,2}(?:/|$))[^\x00-\x1f\x7f/]+"
_TOO_WIDE = "covers the whole workspace; name a directory, or more of the files' names"

RelativePath = Annotated[
    str,
    Field(max_length=1024),
    text_like(
        rf"{_PART}(?:/{_PART})*",
        "must be a path below the workspace, without `.`, `..` or empty parts",
    ),
]


def _narrow(pattern: str) -> str:
    """Rule 5: some directory is named, or some part of the file's name."""
    *above, last = pattern.split("/")
    if is_pattern(pattern) and not (
        any(not is_pattern(part) for part in above) or _LITERAL.search(last)
    ):
        raise ValueError(_TOO_WIDE)
    return pattern


def _exact(path: str) -> str:
    if is_pattern(path):
        raise ValueError("must be one exact path: no pattern covers removals or programs")
    return path


Pattern = Annotated[RelativePath, AfterValidator(_narrow)]
ExactPath = Annotated[RelativePath, AfterValidator(_exact)]
_MAX_PATHS = 500
Patterns = Annotated[list[Pattern], Field(max_length=_MAX_PATHS)]
ExactPaths = Annotated[list[ExactPath], Field(max_length=_MAX_PATHS)]


class DeclaredChanges(Data):
    """The files that a plan says it will add, change and remove."""

    add: Patterns = Field(default_factory=list)
    change: Patterns = Field(default_factory=list)
    remove: ExactPaths = Field(default_factory=list)
    executable: ExactPaths = Field(default_factory=list)
    """Which of the files that are added or changed become executable."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        refuse(list(self._problems()))
        return self

    def _problems(self) -> Iterator[FieldProblem]:
        written = {*self.add, *self.change}
        for index, path in enumerate(self.executable):
            if path not in written:
                yield FieldProblem(("executable", index), "must also stand in `add` or `change`")
        for index, path in enumerate(self.remove):
            if path in written:
                yield FieldProblem(("remove", index), "is also added or changed; say one of them")

    def __bool__(self) -> bool:
        return bool(self.add or self.change or self.remove)

    def covers(self, change: "FileChange") -> bool:
        """Rules 2 to 4."""
        path = change.path
        if change.kind is ChangeKind.REMOVED:
            return path in self.remove
        exact = path in self.change or (change.kind is ChangeKind.ADDED and path in self.add)
        if exact:
            declared = path in self.executable or executed_by(path) is not None
            return declared or not change.executable or change.was_executable
        if change.executable or executed_by(path) is not None:
            return False
        patterns = self.add if change.kind is ChangeKind.ADDED else self.change
        return any(matches(pattern, path) for pattern in patterns if is_pattern(pattern))

    def may_write(self, path: str) -> bool:
        """Whether the work may decide what this file holds or whether it is there."""
        if path in self.remove:
            return True
        return any(matches(pattern, path) for pattern in (*self.add, *self.change))


class ChangeKind(StrEnum):
    """What happened to a file."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


class FileChange(Data):
    """One file, before and after, by SHA-256; None means that it is not there."""

    path: str
    before: str | None
    after: str | None
    executable: bool = False
    was_executable: bool = False

    @property
    def kind(self) -> ChangeKind:
        if self.after is None:
            return ChangeKind.REMOVED
        return ChangeKind.ADDED if self.before is None else ChangeKind.CHANGED


def split_changes(
    declared: DeclaredChanges, changes: Sequence[FileChange]
) -> tuple[list[FileChange], list[FileChange]]:
    """What the declaration covers, and what goes beyond it."""
    covered = [change for change in changes if declared.covers(change)]
    return covered, [change for change in changes if not declared.covers(change)]


def executed_by(path: str) -> str | None:
    """Who executes or obeys a file of this name without being asked; None if nobody is known.

    Names are compared without regard to case, because some file systems do so.
    """
    *above, name = path.casefold().split("/")
    for part in above:
        if part in _DIRECTORIES:
            return _DIRECTORIES[part]
    if name in _DIRECTORIES:
        return _DIRECTORIES[name]
    return next((who for pattern, who in _NAMES if fnmatchcase(name, pattern)), None)


_EDITOR, _AGENT, _SHELL, _GIT = "an editor", "a coding agent", "a shell", "git"
_BUILD, _TESTS, _CI, _PYTHON = "a build", "a test run", "CI", "Python"
_SYSTEM, _NODE = "the system", "Node.js"
_DIRECTORIES = {
    ".git": _GIT,
    ".githooks": _GIT,
    ".husky": _GIT,
    ".github": _CI,
    ".gitlab": _CI,
    ".circleci": _CI,
    ".buildkite": _CI,
    ".woodpecker": _CI,
    ".devcontainer": _EDITOR,
    ".vscode": _EDITOR,
    ".idea": _EDITOR,
    ".fleet": _EDITOR,
    ".zed": _EDITOR,
    ".claude": _AGENT,
    ".codex": _AGENT,
    ".cursor": _AGENT,
    ".gemini": _AGENT,
    ".windsurf": _AGENT,
    ".continue": _AGENT,
    ".silas": "Silas",
    ".ssh": _SYSTEM,
    ".gnupg": _SYSTEM,
    ".config": _SYSTEM,
    ".local": _SYSTEM,
    ".direnv": _SHELL,
    ".cargo": _BUILD,
    ".mvn": _BUILD,
    ".yarn": _NODE,
    "node_modules": _NODE,
    "__pycache__": _PYTHON,
    "site-packages": _PYTHON,
    ".venv": _PYTHON,
    "venv": _PYTHON,
    ".tox": _PYTHON,
}
_NAMES: tuple[tuple[str, str], ...] = tuple(
    (pattern, who)
    for who, patterns in (
        (_BUILD, "makefile gnumakefile bsdmakefile *.mk cmakelists.txt *.cmake justfile .justfile"),
        (_BUILD, "taskfile.y*ml rakefile gemfile vagrantfile dockerfile* *.dockerfile procfile"),
        (_BUILD, "containerfile docker-compose*.y*ml compose*.y*ml *.gradle *.gradle.kts pom.xml"),
        (_BUILD, "build.rs cargo.toml build.xml meson.build build.bazel workspace.bazel"),
        (_BUILD, "setup.py setup.cfg pyproject.toml noxfile.py fabfile.py snakefile"),
        (_BUILD, "package.json gulpfile.* gruntfile.* *.config.js *.config.ts *.config.?js *.nix"),
        (_BUILD, "*.config.?ts .babelrc* .eslintrc* .prettierrc* .swcrc .pnp.* .npmrc .yarnrc*"),
        (_TESTS, "conftest.py pytest.ini .pytest.ini tox.ini .coveragerc karma.conf.* .mocharc*"),
        (_PYTHON, "sitecustomize.py usercustomize.py *.pth *.pyc *.pyo"),
        (_CI, "jenkinsfile .travis.yml .gitlab-ci.y*ml azure-pipelines.y*ml appveyor.y*ml"),
        (_CI, "bitbucket-pipelines.y*ml .drone.y*ml cloudbuild.y*ml .woodpecker.y*ml"),
        (_GIT, ".gitattributes .gitmodules .gitconfig .pre-commit-config.yaml lefthook.y*ml"),
        # A directory with these is a repository for git, whatever it is called.
        (_GIT, "head commondir packed-refs"),
        (_SHELL, ".envrc .env .bash* .profile .zsh* .zprofile .zlogin .login .cshrc .inputrc"),
        (_SHELL, "*.sh *.bash *.zsh *.fish *.ps1 *.bat *.cmd *.command .tool-versions *mise.toml"),
        (_EDITOR, ".vimrc .exrc .nvimrc .nvim.lua .emacs .dir-locals.el *.code-workspace"),
        (_AGENT, "agents.md claude.md gemini.md .cursorrules .windsurfrules .mcp.json"),
        (_AGENT, "copilot-instructions.md skill.md silas.yaml .aider.conf.y*ml"),
        (_SYSTEM, "*.desktop *.service *.timer *.plist crontab .netrc .pgpass .tmux.conf"),
        (_SYSTEM, "authorized_keys known_hosts *.so *.so.* *.dylib *.dll *.exe *.jar *.node"),
    )
    for pattern in patterns.split()
)


EDITABLE = "editable"
"""Says of a file that the plan may change it although the plan names it as a program."""


def _names_to_pins(value: Any) -> Any:
    """A list of names is the short form: their hashes are filled in before approval."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return dict.fromkeys(value)
    return value


Pin = Annotated[str, text_like(rf"[0-9a-f]{{64}}|{EDITABLE}", f"must be a SHA-256 or `{EDITABLE}`")]
EnvironmentName = Annotated[
    str, text_like(r"[A-Za-z_][A-Za-z0-9_]{0,127}", "must be the name of an environment variable")
]
EnvironmentValue = Annotated[str, Field(max_length=8192), text_like(r"[^\x00]*", "must be text")]
Identity = Annotated[
    str, text_like(r"\d{1,20}:\d{1,20}", "is filled in by Silas: device and inode of the directory")
]


class Workspace(Data):
    """Where the commands of a plan run, and with what around them.

    Without a path, every attempt gets an empty directory of its own.
    """

    path: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    identity: Identity | None = None
    files: Annotated[dict[RelativePath, Pin | None], BeforeValidator(_names_to_pins)] = Field(
        default_factory=dict
    )
    env: dict[EnvironmentName, EnvironmentValue] = Field(default_factory=dict)
    network: Hosts = ()
    changes: DeclaredChanges = Field(default_factory=DeclaredChanges)
    """What of the directory the work may change. What is beyond it waits for the owner."""

    @property
    def pinned(self) -> dict[str, str]:
        """The files that must be what they were, and their hashes."""
        return {
            name: pin for name, pin in self.files.items() if pin is not None and pin != EDITABLE
        }
