"""The few things that are asked of git, with nothing of the repository's acting on its own.

Hooks, the file system monitor, external programs, user and system configuration are switched off.
A repository whose own configuration defines filters or merge drivers is refused: they would run
outside of any sandbox.
"""

import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from silas.work.errors import FileRefused, PublicationConflict

_OFF = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0"),
    *(
        "-c",
        "maintenance.auto=false",
        "-c",
        "commit.gpgSign=false",
        "-c",
        "submodule.recurse=false",
    ),
    *("-c", "core.attributesFile=/dev/null", "-c", "core.excludesFile=/dev/null"),
    *("-c", "user.name=Silas", "-c", "user.email=silas@localhost", "-c", "core.pager=cat"),
    *("-c", "protocol.allow=never", "-c", "core.untrackedCache=false"),
)
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}
_ACTIVE = r"^(filter\..*\.(clean|smudge|process)|merge\..*\.driver|core\.(worktree|gitproxy))$"
_LOCKED = re.compile(rb"\.lock'?: File exists")
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 0.8)
_SECONDS = 120


@dataclass(frozen=True)
class BlobChange:
    """One path that differs between two commits."""

    path: str
    mode: str
    blob: str

    @property
    def removed(self) -> bool:
        return self.mode == "000000"


class GitRepository:
    """One working directory of a repository."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @staticmethod
    def is_at(path: Path) -> bool:
        """Whether this directory is the top of a repository of its own."""
        return (path / ".git").is_dir() and not (path / ".git").is_symlink()

    def require_passive(self) -> None:
        """Raise `FileRefused` if the repository's configuration names programs to run."""
        found = self._run("config", "--local", "--name-only", "--get-regexp", _ACTIVE, ok=(0, 1))
        if found.stdout:
            names = ", ".join(found.stdout.decode(errors="replace").split())
            raise FileRefused(f"{self.path}: its git configuration names programs to run: {names}.")

    def head(self) -> str:
        return self._word("rev-parse", "--verify", "HEAD^{commit}")

    def add_worktree(self, directory: Path, commit: str) -> None:
        """Make a working directory of its own, on no branch."""
        self._run("worktree", "add", "--quiet", "--force", "--detach", str(directory), commit)

    def forget_worktrees(self) -> None:
        """Drop the records of working directories that are gone."""
        self._run("worktree", "prune", "--expire=now")

    def commit_all(self, message: str) -> str:
        """Commit everything that is there, and return the commit."""
        self._run("add", "--all", "--", ".")
        self._run("commit", "--quiet", "--no-verify", "--allow-empty", "-m", message)
        return self.head()

    def merge(self, ours: str, theirs: str, message: str) -> str:
        """A commit with both sides, touching no working directory; names the files that clash."""
        if self._is_ancestor(ours, theirs):
            return theirs
        arguments = ("merge-tree", "--write-tree", "--name-only", "-z", "--no-messages")
        merged = self._run(*arguments, ours, theirs, ok=(0, 1))
        tree, *names = merged.stdout.decode(errors="replace").rstrip("\0").split("\0")
        if merged.returncode == 1:
            conflicts = sorted({name for name in names if name})
            raise PublicationConflict(
                f"The changes clash with others in: {', '.join(conflicts)}.", files=conflicts
            )
        return self._word("commit-tree", tree, "-p", ours, "-p", theirs, "-m", message)

    def changes(self, before: str, after: str) -> list[BlobChange]:
        """What differs between two commits."""
        raw = self._run("diff-tree", "-r", "-z", "--no-renames", before, after).stdout
        fields = raw.decode(errors="surrogateescape").split("\0")
        found = []
        for status, path in zip(fields[::2], fields[1::2], strict=False):
            _, mode, _, blob, _ = status.split(" ")
            found.append(BlobChange(path=path, mode=mode, blob=blob))
        return found

    def dirty(self) -> set[str]:
        """The paths that are not as they were committed, or are not known to git."""
        arguments = ("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames")
        raw = self._run(*arguments).stdout.decode(errors="surrogateescape")
        return {entry[3:] for entry in raw.split("\0") if entry}

    def check_out(self, commit: str) -> None:
        """Bring a private working directory to a commit."""
        self._run("checkout", "--quiet", "--force", "--detach", commit)

    def advance(self, before: str, after: str, *, message: str) -> None:
        """Move the current branch from one commit to the next, unless it has moved already."""
        if self.contains(after):
            return
        moved = self._run("update-ref", "-m", message, "HEAD", after, before, ok=(0, 1, 128))
        if moved.returncode:
            raise PublicationConflict(f"The branch of {self.path} has moved in the meantime.")

    def index(self, changes: Sequence[BlobChange]) -> None:
        """Tell git's index about changed files, and about nothing else."""
        lines = "".join(f"{each.mode} {each.blob}\t{each.path}\0" for each in changes)
        self._run(
            "update-index", "-z", "--index-info", stdin=lines.encode(errors="surrogateescape")
        )
        self._run("update-index", "-q", "--refresh", ok=(0, 1))

    def contains(self, commit: str) -> bool:
        """Whether the current branch has this commit."""
        return self._is_ancestor(commit, self.head())

    def _is_ancestor(self, older: str, newer: str) -> bool:
        return self._run("merge-base", "--is-ancestor", older, newer, ok=(0, 1)).returncode == 0

    def _word(self, *arguments: str) -> str:
        return self._run(*arguments).stdout.decode().strip()

    def _run(
        self, *arguments: str, ok: tuple[int, ...] = (0,), stdin: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        for pause in _PAUSES:
            ran = self._run_once(arguments, stdin)
            # Another git, perhaps that of a Silas which was just killed, is still at it.
            if ran.returncode in ok or not _LOCKED.search(ran.stderr):
                break
            time.sleep(pause)
        if ran.returncode not in ok:
            told = ran.stderr.decode(errors="replace").strip()
            raise FileRefused(f"git {arguments[0]} did not work in {self.path}: {told}")
        return ran

    def _run_once(
        self, arguments: Sequence[str], stdin: bytes
    ) -> subprocess.CompletedProcess[bytes]:
        command = ["git", "-C", str(self.path), *_OFF, *arguments]
        try:
            return subprocess.run(  # noqa: S603 - a list of arguments, and no shell
                command,
                input=stdin,
                capture_output=True,
                env=_ENVIRONMENT,
                timeout=_SECONDS,
                check=False,
                process_group=0,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FileRefused(f"git {arguments[0]} did not work: {error}.") from error
