"""Where attempts work: an empty directory, a copy, or a git worktree; each private and of its own.

1. `open_attempt` compares what will be worked on with what was approved; a difference is an error.
2. `prepare` puts together what is to be taken over; after it is written down, a crash no longer
   means that the work is done again.
3. `complete` takes it over. It can be repeated: the outcome is the same. As long as it has not
   been completed, what was prepared is kept, and the work is not done anew: it would be done twice.

Preparing and completing hold the lock of the directory that is changed.
"""

import asyncio
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import Field, ValidationError

from silas.kernel.models import Data
from silas.storage.files import make_private_directory, write_private_file
from silas.work.attempt_files import (
    Base,
    FileChange,
    apply_changes,
    changes_since,
    copy_tree,
    has_happened,
    remove_tree,
    require_no_conflict,
    take_base,
)
from silas.work.before_images import BeforeImage, take_images
from silas.work.binding import require_directory, require_files
from silas.work.budget import BudgetUsed
from silas.work.checks import VerificationResult
from silas.work.errors import BindingBroken, FileRefused, PublicationConflict
from silas.work.git import GitRepository
from silas.work.models import WorkItem
from silas.work.tree import Tree
from silas.work.workspace import Workspace

_FILES, _PUBLICATION, _PAUSED = "files", "publication.json", "paused.json"


class WorkspaceKind(StrEnum):
    """How an attempt got its files."""

    EMPTY = "empty"
    COPY = "copy"
    WORKTREE = "worktree"


@dataclass(frozen=True)
class AttemptWorkspace:
    """The private files of one attempt."""

    item: WorkItem
    attempt: int
    place: Path
    kind: WorkspaceKind
    base: Base
    commit: str | None = None

    @property
    def directory(self) -> Path:
        """Where the worker works."""
        return self.place / _FILES

    @property
    def workspace(self) -> Workspace:
        return self.item.workspace or Workspace()

    @property
    def holds_foreign_content(self) -> bool:
        """Whether anything was there before the worker started; nobody knows where it came from."""
        return bool(self.base.digests)

    async def require_unchanged(self) -> None:
        """Raise `BindingBroken` if a file that the approval covers is different now."""
        if self.workspace.pinned:
            await asyncio.to_thread(self._compare_files)

    def _compare_files(self) -> None:
        with Tree.open(self.directory) as tree:
            require_files(tree, self.workspace.pinned)


class _Kept(Data):
    """How a paused attempt began."""

    kind: WorkspaceKind
    base: Base
    commit: str | None = None


class Publication(Data):
    """What is taken over, and what is then known about the attempt; complete before it begins."""

    work_item_id: str
    attempt: int
    kind: WorkspaceKind
    target: str | None = None
    identity: str | None = None
    changes: list[FileChange] = Field(default_factory=list)
    before: str | None = None
    after: str | None = None
    results: list[VerificationResult] = Field(default_factory=list)
    budget_used: BudgetUsed = Field(default_factory=BudgetUsed)


class Workspaces:
    """The workspaces of one data directory, below `root`; nothing `off_limits` is worked on."""

    def __init__(self, root: Path, *, off_limits: Sequence[Path] = ()) -> None:
        self._root = root.resolve()
        self._off_limits = [path.resolve() for path in off_limits]

    def open_attempt(
        self, item: WorkItem, attempt: int, imported: Mapping[str, bytes]
    ) -> AttemptWorkspace:
        """Make the files of an attempt; what an earlier one left is removed."""
        place = self._place(item.parent or item.id, item.id) / str(attempt)
        remove_tree(place.parent)
        make_private_directory(place)
        kind, commit = self._fill(item, place / _FILES)
        with Tree.open(place / _FILES) as tree:
            require_files(tree, (item.workspace or Workspace()).pinned)
            for name, content in imported.items():
                tree.write(name, content)
            base = take_base(tree)
        return AttemptWorkspace(item, attempt, place, kind, base, commit)

    def keep(self, files: AttemptWorkspace) -> None:
        """Write down how the attempt began, so that another process can go on with it."""
        kept = _Kept(kind=files.kind, base=files.base, commit=files.commit)
        write_private_file(files.place / _PAUSED, kept.model_dump_json().encode())

    def reopen(self, item: WorkItem, attempt: int) -> AttemptWorkspace:
        """The files of an attempt that was paused; raises `BindingBroken` if they are gone."""
        place = self._place(item.parent or item.id, item.id) / str(attempt)
        try:
            kept = _Kept.model_validate_json((place / _PAUSED).read_bytes())
            with Tree.open(place / _FILES) as tree:
                require_files(tree, (item.workspace or Workspace()).pinned)
        except (OSError, ValidationError, FileRefused) as error:
            raise BindingBroken("The files of the attempt that waited are gone.") from error
        return AttemptWorkspace(item, attempt, place, kept.kind, kept.base, kept.commit)

    @contextmanager
    def changing(self, item: WorkItem) -> Iterator[None]:
        """Hold the lock of the directory that an item changes, across processes."""
        name = (item.workspace.identity if item.workspace else None) or item.id
        make_private_directory(self._root / "locks")
        lock = self._root / "locks" / f"{name.replace(':', '-')}.lock"
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def prepare(self, files: AttemptWorkspace) -> Publication:
        """What is to be taken over, written down; raises `PublicationConflict`."""
        workspace = files.workspace
        plan = Publication(
            work_item_id=files.item.id,
            attempt=files.attempt,
            kind=files.kind,
            target=workspace.path,
            identity=workspace.identity,
        )
        with Tree.open(files.directory) as tree:
            changes = changes_since(tree, files.base)
        if files.kind is WorkspaceKind.COPY:
            with _target(plan) as target:
                require_no_conflict(target, changes)
            return plan.model_copy(update={"changes": changes})
        if files.kind is WorkspaceKind.WORKTREE and changes:
            return plan.model_copy(update=_merge(files, plan))
        return plan

    def remember(self, files: AttemptWorkspace, publication: Publication) -> None:
        """From here on the attempt has succeeded, also if Silas is killed now."""
        write_private_file(files.place / _PUBLICATION, publication.model_dump_json().encode())

    def pending(self, item: WorkItem, attempt: int) -> Publication | None:
        """What an attempt was about to take over when Silas was killed, if it came that far."""
        path = self._place(item.parent or item.id, item.id) / str(attempt) / _PUBLICATION
        try:
            return Publication.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def images_of(self, publication: Publication) -> list[BeforeImage]:
        """What the files are that will be changed; empty if that cannot be kept."""
        if publication.kind is not WorkspaceKind.COPY or not publication.changes:
            return []
        with _target(publication) as target:
            return take_images(target, publication.changes)

    def complete(self, publication: Publication, item: WorkItem) -> str | None:
        """Take over what was prepared; returns what else the owner should know."""
        if not publication.changes:
            return None
        place = self._place(item.parent or item.id, item.id) / str(publication.attempt)
        with Tree.open(place / _FILES) as source, _target(publication) as target:
            if publication.before and publication.after:
                return _advance(publication, source, target)
            apply_changes(source, target, publication.changes)
            return None

    def is_untouched(self, publication: Publication) -> bool:
        """Whether nothing of it has been taken over yet, so that it can be dropped safely."""
        with _target(publication) as target:
            if publication.after and GitRepository(target.path).contains(publication.after):
                return False
            return not any(has_happened(target, change) for change in publication.changes)

    def discard(self, item: WorkItem) -> None:
        """Remove the files of an item's attempts."""
        remove_tree(self._place(item.parent or item.id, item.id))
        path = item.workspace.path if item.workspace else None
        if path and GitRepository.is_at(Path(path)):
            GitRepository(Path(path)).forget_worktrees()

    def tasks_with_files(self) -> set[str]:
        """The ids of the items whose attempts have files here."""
        return {place.name for place in (self._root / "attempts").glob("*/*")}

    def _place(self, plan: str, task: str) -> Path:
        return self._root / "attempts" / plan / task

    def _fill(self, item: WorkItem, directory: Path) -> tuple[WorkspaceKind, str | None]:
        workspace = item.workspace
        if workspace is None or workspace.path is None:
            make_private_directory(directory)
            return WorkspaceKind.EMPTY, None
        try:
            self._require_allowed(Path(workspace.path))
            with Tree.open(Path(workspace.path)) as source:
                require_directory(source, workspace)
                if GitRepository.is_at(source.path):
                    return WorkspaceKind.WORKTREE, _check_out(source.path, directory)
                make_private_directory(directory)
                with Tree.open(directory) as copy:
                    copy_tree(source, copy)
                return WorkspaceKind.COPY, None
        except FileRefused as error:
            raise BindingBroken(f"The workspace cannot be used: {error.message}") from error

    def _require_allowed(self, path: Path) -> None:
        """Silas's own files, with its keys and its records, are never given to a worker."""
        for own in self._off_limits:
            if own.is_relative_to(path) or path.is_relative_to(own):
                raise FileRefused(f"{path} holds files of Silas itself, or lies among them.")


def _check_out(source: Path, directory: Path) -> str:
    repository = GitRepository(source)
    repository.require_passive()
    repository.forget_worktrees()
    commit = repository.head()
    repository.add_worktree(directory, commit)
    directory.chmod(0o700)
    return commit


def _merge(files: AttemptWorkspace, plan: Publication) -> dict[str, object]:
    """Merge the worktree into what the branch has become, and say which files that changes."""
    worktree, repository = GitRepository(files.directory), GitRepository(Path(plan.target or ""))
    item = files.item
    message = f"{item.title}\n\nSilas-Work-Item: {item.id}\nSilas-Attempt: {files.attempt}\n"
    commit = worktree.commit_all(message)
    head = repository.head()
    merged = worktree.merge(head, commit, message)
    paths = [change.path for change in worktree.changes(head, merged)]
    unsaved = sorted(repository.dirty() & set(paths))
    if unsaved:
        raise PublicationConflict(
            f"These files have changes that are not committed: {', '.join(unsaved)}.", files=unsaved
        )
    worktree.check_out(merged)
    with Tree.open(files.directory) as after, _target(plan) as before:
        changes = [
            FileChange(
                path=path,
                before=before.digest(path),
                after=after.digest(path),
                executable=after.exists(path) and after.is_executable(path),
            )
            for path in paths
        ]
    return {"changes": changes, "before": head, "after": merged}


def _advance(publication: Publication, source: Tree, target: Tree) -> str | None:
    repository = GitRepository(target.path)
    before, after = publication.before or "", publication.after or ""
    require_no_conflict(target, publication.changes)
    repository.advance(before, after, message=f"silas: {publication.work_item_id}")
    apply_changes(source, target, publication.changes)
    try:
        repository.index(repository.changes(before, after))
    except FileRefused as error:
        # The commit and the files are there. The index is git's own note of them.
        return f"{error.message} Run `git reset` there once nothing else uses the repository."
    return None


@contextmanager
def _target(publication: Publication) -> Iterator[Tree]:
    with Tree.open(Path(publication.target or "")) as target:
        if target.identity != publication.identity:
            raise PublicationConflict(f"{publication.target} was replaced by another directory.")
        yield target
