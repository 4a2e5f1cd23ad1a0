"""The files of one attempt: a private copy to work on, and the way back for what was checked.

A worker never touches the owner's directory. What it changed is taken over at the end, file by
file: a file is replaced only if it still is what the copy was made from (or what it is to become,
after a crash in the middle). If any file is neither, nothing is taken over and all such files are
named.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from silas.kernel.models import Data
from silas.sandbox.placeholders import PROTECTED
from silas.work.errors import FileRefused, PublicationConflict
from silas.work.tree import Listing, Tree

MAX_FILES = 20_000
MAX_BYTES = 512 * 1024 * 1024
_SKIPPED = frozenset(PROTECTED)


class FileChange(Data):
    """One file, before and after; None means that it is not there."""

    path: str
    before: str | None
    after: str | None
    executable: bool = False


@dataclass(frozen=True)
class Base:
    """What a copy was made from: the hashes then, and how the copied files looked."""

    digests: dict[str, str]
    stamps: Listing


def copy_tree(source: Tree, target: Tree) -> None:
    """Copy files and links, without the names through which other programs run code."""
    listing = source.listing(skip=_SKIPPED, limit=MAX_FILES)
    size = sum(stamp.size for stamp in listing.files.values())
    if size > MAX_BYTES:
        raise FileRefused(
            f"{source.path} holds more than {MAX_BYTES} bytes, too much to copy for every attempt. "
            "Make it a git repository, or name a smaller directory."
        )
    for name, stamp in listing.files.items():
        target.write(name, source.read(name, limit=MAX_BYTES), executable=stamp.executable)
    for name, where in listing.links.items():
        target.link(name, where)


def take_base(tree: Tree) -> Base:
    """Remember what is there before the worker starts."""
    stamps = tree.listing(skip=_SKIPPED, limit=MAX_FILES)
    digests = {name: tree.digest(name) or "" for name in stamps.files}
    return Base(digests, stamps)


def changes_since(tree: Tree, base: Base) -> list[FileChange]:
    """What the worker changed. New or changed links are refused: somebody would follow them."""
    now = tree.listing(skip=_SKIPPED, limit=MAX_FILES)
    planted = sorted(name for name, to in now.links.items() if base.stamps.links.get(name) != to)
    if planted:
        raise FileRefused(f"Symbolic links cannot be taken over: {', '.join(planted[:10])}.")
    changes = []
    for name in sorted({*now.files, *base.digests}):
        stamp, old = now.files.get(name), base.stamps.files.get(name)
        if stamp is not None and stamp == old:
            continue
        before, after = base.digests.get(name), tree.digest(name) if stamp else None
        executable = stamp.executable if stamp else False
        same_mode = old is not None and old.executable == executable
        if before != after or not same_mode:
            _require_harmless(name)
            changes.append(FileChange(path=name, before=before, after=after, executable=executable))
    return changes


def _require_harmless(name: str) -> None:
    """A file through which other programs run code is not taken over, however deep it lies."""
    held = sorted(_SKIPPED & set(name.split("/")))
    if held:
        raise FileRefused(f"{name} cannot be taken over: {held[0]} makes other programs act.")


def apply_changes(source: Tree, target: Tree, changes: list[FileChange]) -> None:
    """Take the changes over; raises `PublicationConflict` before anything was changed."""
    require_no_conflict(target, changes)
    for change in changes:
        if change.after is None:
            target.remove(change.path)
        elif target.digest(change.path) != change.after or _mode_differs(target, change):
            content = source.read(change.path, limit=MAX_BYTES)
            target.write(change.path, content, executable=change.executable)


def require_no_conflict(target: Tree, changes: list[FileChange]) -> None:
    """Raise unless every file is what it was, or already what it is to become."""
    conflicts = [change.path for change in changes if _conflicts(target, change)]
    if conflicts:
        raise PublicationConflict(
            f"These files were changed by somebody else: {', '.join(conflicts)}.",
            files=conflicts,
        )


def remove_tree(path: Path) -> None:
    """Remove a private directory with everything in it, whatever modes a worker left."""
    for place, directories, _ in os.walk(path, followlinks=False):
        for name in directories:
            below = Path(place, name)
            if not below.is_symlink():
                below.chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)


def _mode_differs(target: Tree, change: FileChange) -> bool:
    return target.is_executable(change.path) != change.executable


def has_happened(target: Tree, change: FileChange) -> bool:
    """Whether the file is what this change makes of it, and was not so before."""
    try:
        return change.before != change.after and target.digest(change.path) == change.after
    except FileRefused:
        return False


def _conflicts(target: Tree, change: FileChange) -> bool:
    try:
        return target.digest(change.path) not in (change.before, change.after)
    except FileRefused:
        return True
