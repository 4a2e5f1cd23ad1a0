"""Where attempts work: an empty directory, or a copy of the owner's; each private and of its own.

1. `open_attempt` compares what will be worked on with what was approved; a difference is an error.
   Of a repository, the files that git knows or does not ignore are copied, and the ignored ones
   that the plan declares.
2. `deliver` puts together the tree that will be published: the owner's files as they are now, with
   what is taken over and nothing else of the worker's. The checks run on this tree.
3. `prepare` writes down what is taken over; from then on a crash no longer means that the work is
   done again. It refuses if the owner's files are not those that were checked (`TargetMoved`).
4. `complete` takes it over. It can be repeated: the outcome is the same. As long as it has not
   been completed, what was prepared is kept, and the work is not done anew: it would be done twice.
5. `record` gives a repository one commit on a branch of its own (`repository.py`).

Preparing and completing hold the lock of the directory that is changed.
"""

import asyncio
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import Field, ValidationError

from silas.kernel.models import Data
from silas.sandbox.command_run import to_the_end
from silas.sandbox.models import SandboxRunner
from silas.storage.files import make_private_directory, write_private_file
from silas.storage.trees import SET_ASIDE, set_aside_in, shown
from silas.storage.trees import remove_tree as clear_tree
from silas.tools.tree import FileRefused, Listing, Tree
from silas.work.attempt_files import (
    MAX_BYTES,
    MAX_FILES,
    Base,
    apply_changes,
    changes_since,
    copy_files,
    has_happened,
    list_files,
    listing_of,
    put_change,
    remove_tree,
    require_no_conflict,
    take_base,
)
from silas.work.binding import named_in_steps, require_directory, require_files
from silas.work.effects import FileChange, Workspace
from silas.work.errors import BindingBroken, PublicationConflict
from silas.work.models import BudgetUsed, VerificationResult, WorkItem
from silas.work.off_limits import OffLimits
from silas.work.repository import Blob, Repository, merge_texts

_FILES, _BASE, _IMPORTED, _DELIVERY = "files", "base", "imported", "delivery"
_PUBLICATION, _PAUSED = "publication.json", "paused.json"
_WAIT_SECONDS = 0.02
_MERGED_BYTES = 1024 * 1024


class WorkspaceKind(StrEnum):
    """How an attempt got its files."""

    EMPTY = "empty"
    COPY = "copy"


class TargetMoved(Exception):
    """The owner's files are not those any more that the checks saw."""


@dataclass(frozen=True)
class AttemptWorkspace:
    """The private files of one attempt."""

    item: WorkItem
    attempt: int
    place: Path
    kind: WorkspaceKind
    base: Base
    left_out: tuple[str, ...] = ()
    """Files of the owner that are not in the copy: their names are not UTF-8."""

    @property
    def directory(self) -> Path:
        """Where the worker works."""
        return self.place / _FILES

    @property
    def workspace(self) -> Workspace:
        return self.item.workspace or Workspace()

    @property
    def imported(self) -> frozenset[str]:
        """The files among those at the beginning that earlier work has handed on."""
        place = self.place / _IMPORTED
        if not place.is_dir():
            return frozenset()
        with Tree.open(place) as tree:
            return frozenset(tree.listing(limit=MAX_FILES).files)

    async def require_unchanged(self) -> None:
        """Raise `BindingBroken` if a program that the plan's own blocks run is different now.

        What checks run is compared where they run: in the delivery.
        """
        if self.workspace.pinned:
            named = named_in_steps(self.item)
            run = {name: pin for name, pin in self.workspace.pinned.items() if name in named}
            await asyncio.to_thread(_compare_files, self.directory, run)

    @property
    def run_by_checks(self) -> dict[str, str]:
        """The files that must be as approved where the checks run.

        A program that only the plan's blocks run was compared in the copy: the owner may change it.
        """
        checks = " ".join(check.run for check in self.item.verify)
        only_run = {name for name in named_in_steps(self.item) if name not in checks}
        return {name: pin for name, pin in self.workspace.pinned.items() if name not in only_run}

    def changes(self) -> list[FileChange]:
        """Everything that the worker did to its copy; raises `FileRefused`."""
        with Tree.open(self.directory) as tree:
            return changes_since(tree, self.base)


class _Kept(Data):
    """How a paused attempt began."""

    kind: WorkspaceKind
    base: Base


@dataclass(frozen=True)
class CheckedTree:
    """The tree that will be published, and what of it differs from the owner's files."""

    directory: Path
    changes: list[FileChange]
    seen: Listing | None
    """The owner's files as they looked just before they were copied."""


class Publication(Data):
    """What is taken over, and what is then known about the attempt; complete before it begins."""

    work_item_id: str
    attempt: int
    kind: WorkspaceKind
    target: str | None = None
    identity: str | None = None
    changes: list[FileChange] = Field(default_factory=list)
    left: list[FileChange] = Field(default_factory=list)
    results: list[VerificationResult] = Field(default_factory=list)
    budget_used: BudgetUsed = Field(default_factory=BudgetUsed)


class Workspaces:
    """The workspaces of one data directory, below `root`; nothing `off_limits` is worked on."""

    def __init__(
        self,
        root: Path,
        *,
        sandbox: SandboxRunner,
        off_limits: OffLimits,
        author: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`author` says who commits are by; None: Silas."""
        self._author = author
        self._root = root.resolve()
        self._sandbox = sandbox
        self._off_limits = off_limits

    async def open_attempt(
        self, item: WorkItem, attempt: int, imported: Mapping[str, bytes]
    ) -> AttemptWorkspace:
        """Make the files of an attempt; what an earlier one left is removed."""
        place = self.files_of(item) / str(attempt)
        await to_the_end(asyncio.to_thread(remove_tree, place.parent))
        names = await self._names(item.workspace)
        # Whoever is cancelled here removes the files next, so nobody may still be making them.
        return await to_the_end(asyncio.to_thread(self._open, item, attempt, imported, names))

    def _open(
        self,
        item: WorkItem,
        attempt: int,
        imported: Mapping[str, bytes],
        names: frozenset[str] | None,
    ) -> AttemptWorkspace:
        place, workspace = self.files_of(item) / str(attempt), item.workspace or Workspace()
        make_private_directory(place / _FILES)
        kind, left_out = self._fill(workspace, place / _FILES, names)
        with Tree.open(place / _FILES) as tree:
            require_files(tree, workspace.pinned)
            _write_all(place / _IMPORTED, imported)
            for name, content in imported.items():
                tree.write(name, content)
            base = take_base(tree)
            _keep_for_merging(tree, base, workspace, place / _BASE)
        return AttemptWorkspace(item, attempt, place, kind, base, left_out)

    def keep(self, files: AttemptWorkspace) -> None:
        """Write down how the attempt began, so that another process can go on with it."""
        kept = _Kept(kind=files.kind, base=files.base)
        write_private_file(files.place / _PAUSED, kept.model_dump_json().encode())

    def reopen(self, item: WorkItem, attempt: int) -> AttemptWorkspace:
        """The files of an attempt that was paused; raises `BindingBroken` if they are gone."""
        place = self.files_of(item) / str(attempt)
        try:
            kept = _Kept.model_validate_json((place / _PAUSED).read_bytes())
            with Tree.open(place / _FILES) as tree:
                require_files(tree, (item.workspace or Workspace()).pinned)
        except (OSError, ValidationError, FileRefused) as error:
            raise BindingBroken("The files of the attempt that waited are gone.") from error
        return AttemptWorkspace(item, attempt, place, kept.kind, kept.base)

    @asynccontextmanager
    async def changing(self, item: WorkItem) -> AsyncIterator[None]:
        """Hold the lock of the directory that an item changes, across processes."""
        name = (item.workspace.identity if item.workspace else None) or item.id
        # Whoever waited for it in a thread could keep the one who has it from going on.
        while (descriptor := self._lock(name)) is None:  # noqa: ASYNC110 - or a process
            await asyncio.sleep(_WAIT_SECONDS)
        try:
            yield
        finally:
            os.close(descriptor)

    def _lock(self, name: str) -> int | None:
        make_private_directory(self._root / "locks")
        lock = self._root / "locks" / f"{name.replace(':', '-')}.lock"
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    async def deliver(self, files: AttemptWorkspace, taken: Sequence[FileChange]) -> CheckedTree:
        """The tree that will be published if these changes are taken over.

        A text that the owner has changed meanwhile is merged. Raises `PublicationConflict` where
        that cannot be done, `BindingBroken` if a file that the approval covers is different now,
        and `FileRefused`.
        """
        names = await self._names(files.item.workspace)
        merged = await self._merged(files, taken) if files.kind is WorkspaceKind.COPY else {}
        delivery = await to_the_end(asyncio.to_thread(_build, files, taken, merged, names))
        await asyncio.to_thread(_compare_files, delivery.directory, files.run_by_checks)
        return delivery

    async def _merged(
        self, files: AttemptWorkspace, taken: Sequence[FileChange]
    ) -> dict[str, tuple[str, bytes]]:
        """What the owner has changed too, merged: by path, the hash it has now and the new text."""
        merged, conflicts = {}, []
        for change in taken:
            texts = await asyncio.to_thread(_three_texts, files, change)
            if texts is None:
                continue
            now, base, ours, theirs = texts
            text = None
            if base is not None and ours is not None and theirs is not None:
                text = await merge_texts(
                    self._sandbox, self._root / "git", base=base, ours=ours, theirs=theirs
                )
            if text is None or now is None:
                conflicts.append(change.path)
            else:
                merged[change.path] = now, text
        if conflicts:
            raise PublicationConflict(
                f"These files were changed by somebody else: {', '.join(map(shown, conflicts))}.",
                files=conflicts,
            )
        return merged

    async def require_checked(self, files: AttemptWorkspace, delivery: CheckedTree) -> None:
        """Raise `TargetMoved` unless the owner's files still are those that the checks saw."""
        if files.kind is not WorkspaceKind.COPY:
            return
        names = await self._names(files.item.workspace)
        if await asyncio.to_thread(_look, files, names) != delivery.seen:
            raise TargetMoved

    def prepare(self, files: AttemptWorkspace, delivery: CheckedTree) -> Publication:
        """What is to be taken over; raises `PublicationConflict`."""
        publication = Publication(
            work_item_id=files.item.id,
            attempt=files.attempt,
            kind=files.kind,
            target=files.workspace.path,
            identity=files.workspace.identity,
        )
        if files.kind is WorkspaceKind.EMPTY:
            return publication
        with target_of(publication) as target:
            require_no_conflict(target, delivery.changes)
        return publication.model_copy(update={"changes": delivery.changes})

    def remember(self, files: AttemptWorkspace, publication: Publication) -> None:
        """From here on the attempt has succeeded, also if Silas is killed now."""
        write_private_file(files.place / _PUBLICATION, publication.model_dump_json().encode())

    def pending(self, item: WorkItem, attempt: int) -> Publication | None:
        """What an attempt was about to take over when Silas was killed, if it came that far."""
        path = self.files_of(item) / str(attempt) / _PUBLICATION
        try:
            return Publication.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def complete(self, publication: Publication, item: WorkItem) -> None:
        """Take over what was prepared."""
        if not publication.changes:
            return
        place = self.files_of(item) / str(publication.attempt)
        with Tree.open(place / _DELIVERY) as source, target_of(publication) as target:
            apply_changes(source, target, publication.changes)

    async def record(self, publication: Publication, item: WorkItem) -> str | None:
        """Give a repository a commit with what was taken over; returns why there is none."""
        target = Path(publication.target or "/")
        if not publication.changes or not Repository.is_at(target):
            return None
        source = self.files_of(item) / str(publication.attempt) / _DELIVERY
        blobs = await asyncio.to_thread(_blobs, source, publication.changes)
        author = await asyncio.to_thread(self._author)
        repository = Repository(
            target, sandbox=self._sandbox, scratch=self._root / "git", author=author
        )
        message = f"{item.title}\n\nSilas-Work-Item: {item.id}\n"
        try:
            await repository.record(blobs, ref=f"refs/heads/silas/{item.id}", message=message)
        except FileRefused as error:
            return f"The files are there, and no commit was made of them: {error.message}"
        return None

    def is_untouched(self, publication: Publication) -> bool:
        """Whether nothing of it has been taken over yet, so that it can be dropped safely."""
        with target_of(publication) as target:
            return not any(has_happened(target, change) for change in publication.changes)

    def discard(self, item: WorkItem) -> list[str]:
        """Remove the files of an item's attempts; returns what is left, and why."""
        return [str(each) for each in remove_tree(self.files_of(item))]

    def discard_set_aside(self) -> list[str]:
        """Try again to remove what could not be removed before; returns what is left, and why."""
        return [f"{place}: {each}" for place in self.set_aside() for each in clear_tree(place)]

    def set_aside(self) -> list[Path]:
        """What was to be removed, and was set aside because it could not."""
        plans = sorted((self._root / "attempts").glob("*"))
        return [place for plan in plans for place in set_aside_in(plan)]

    def tasks_with_files(self) -> set[str]:
        """The ids of the items whose attempts have files here."""
        places = (self._root / "attempts").glob("*/*")
        return {place.name for place in places if not place.name.startswith(SET_ASIDE)}

    def files_of(self, item: WorkItem) -> Path:
        """Where the files of an item's attempts are."""
        return self._root / "attempts" / (item.parent or item.id) / item.id

    async def _names(self, workspace: Workspace | None) -> frozenset[str] | None:
        """Which files of a repository there are to copy; None where all are."""
        if workspace is None or workspace.path is None:
            return None
        path = Path(workspace.path)
        try:
            self._off_limits.require_allowed(path)
            if not await asyncio.to_thread(Repository.is_at, path):
                return None
            scratch = self._root / "git"
            found = await Repository(path, sandbox=self._sandbox, scratch=scratch).files()
        except FileRefused as error:
            raise BindingBroken(f"The workspace cannot be used: {error.message}") from error
        changes = workspace.changes
        written = (*changes.add, *changes.change, *changes.remove, *workspace.files)
        return found.names | await asyncio.to_thread(list_files, path, written)

    def _fill(
        self, workspace: Workspace, directory: Path, names: frozenset[str] | None
    ) -> tuple[WorkspaceKind, tuple[str, ...]]:
        if workspace.path is None:
            return WorkspaceKind.EMPTY, ()
        try:
            with Tree.open(Path(workspace.path)) as source, Tree.open(directory) as copy:
                require_directory(source, workspace)
                return WorkspaceKind.COPY, copy_files(source, copy, only=names)
        except FileRefused as error:
            raise BindingBroken(f"The workspace cannot be used: {error.message}") from error


@contextmanager
def target_of(publication: Publication) -> Iterator[Tree]:
    """The owner's directory that is changed; raises if it is another one by now."""
    with Tree.open(Path(publication.target or "")) as target:
        if target.identity != publication.identity:
            raise PublicationConflict(f"{publication.target} was replaced by another directory.")
        yield target


def _compare_files(directory: Path, pinned: Mapping[str, str]) -> None:
    with Tree.open(directory) as tree:
        require_files(tree, pinned)


def _build(
    files: AttemptWorkspace,
    taken: Sequence[FileChange],
    merged: Mapping[str, tuple[str, bytes]],
    names: frozenset[str] | None,
) -> CheckedTree:
    directory = files.place / _DELIVERY
    remove_tree(directory)
    make_private_directory(directory)
    seen = _look(files, names)
    changes = []
    with Tree.open(directory) as delivery, Tree.open(files.directory) as work:
        # What earlier work has handed on can be used, and hides no file of the owner's.
        _copy_all(files.place / _IMPORTED, delivery)
        if files.kind is WorkspaceKind.COPY:
            with _owners(files) as source:
                copy_files(source, delivery, only=names)
        for change in taken:
            if change.path in merged:
                now, text = merged[change.path]
                delivery.write(change.path, text, executable=change.executable)
                after = hashlib.sha256(text).hexdigest()
                changes.append(change.model_copy(update={"before": now, "after": after}))
            else:
                put_change(work, delivery, change)
                changes.append(change)
    return CheckedTree(directory, changes, seen)


def _look(files: AttemptWorkspace, names: frozenset[str] | None) -> Listing | None:
    if files.kind is not WorkspaceKind.COPY:
        return None
    with _owners(files) as source:
        return listing_of(source, names)


@contextmanager
def _owners(files: AttemptWorkspace) -> Iterator[Tree]:
    with Tree.open(Path(files.workspace.path or "")) as source:
        if source.identity != files.workspace.identity:
            path = files.workspace.path
            raise PublicationConflict(f"{path} was replaced by another directory.")
        yield source


def _three_texts(
    files: AttemptWorkspace, change: FileChange
) -> tuple[str | None, bytes | None, bytes | None, bytes | None] | None:
    """What a file is now, and its three texts; None if the owner has not changed it."""
    with _owners(files) as owners:
        try:
            now = owners.digest(change.path)
        except FileRefused:
            return None, None, None, None
        if now in (change.before, change.after):
            return None
        theirs = _text(owners, change.path) if now else None
    with Tree.open(files.directory) as work:
        ours = _text(work, change.path) if change.after else None
    try:
        with Tree.open(files.place / _BASE) as base:
            return now, _text(base, change.path), ours, theirs
    except FileRefused:
        return now, None, ours, theirs


def _text(tree: Tree, name: str) -> bytes | None:
    try:
        return tree.read(name, limit=_MERGED_BYTES) if tree.exists(name) else None
    except FileRefused:
        return None


def _keep_for_merging(tree: Tree, base: Base, workspace: Workspace, place: Path) -> None:
    """Keep what declared files hold, so that the owner may go on changing them meanwhile."""
    wanted = {
        name: tree.read(name, limit=_MERGED_BYTES)
        for name, stamp in base.stamps.files.items()
        if stamp.size <= _MERGED_BYTES and workspace.changes.may_write(name)
    }
    _write_all(place, wanted)


def _write_all(place: Path, contents: Mapping[str, bytes]) -> None:
    if not contents:
        return
    make_private_directory(place)
    with Tree.open(place) as tree:
        for name, content in contents.items():
            tree.write(name, content)


def _copy_all(place: Path, target: Tree) -> None:
    if place.is_dir():
        with Tree.open(place) as source:
            copy_files(source, target, only=None)


def _blobs(directory: Path, changes: Sequence[FileChange]) -> dict[str, Blob | None]:
    with Tree.open(directory) as tree:
        return {
            change.path: Blob(tree.read(change.path, limit=MAX_BYTES), change.executable)
            if change.after is not None
            else None
            for change in changes
        }
