"""The files of one attempt: a private copy to work on, and the way back for what was checked.

A worker never touches the owner's directory. What it changed is taken over at the end, file by
file: a file is replaced only if it still is what the copy was made from (or what it is to become,
after a crash in the middle). If any file is neither, nothing is taken over and all such files are
named.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from silas.sandbox.environment import PROTECTED
from silas.storage.trees import Leftover, clear_name, shown
from silas.tools.tree import FileRefused, Listing, Tree, is_pattern, matches, require_readable
from silas.work.effects import FileChange
from silas.work.errors import PublicationConflict

MAX_FILES = 20_000
MAX_BYTES = 512 * 1024 * 1024
_MAX_FILES_LISTED = 200_000
_SKIPPED = frozenset(PROTECTED)


@dataclass(frozen=True)
class Base:
    """What a copy was made from: the hashes then, and how the copied files looked."""

    digests: dict[str, str]
    stamps: Listing


def copy_files(source: Tree, target: Tree, *, only: frozenset[str] | None) -> tuple[str, ...]:
    """Copy files and links, without the names through which other programs run code.

    With `only`, nothing but these. Returns what else was left out: names that are not UTF-8. They
    stay where they are.
    """
    listing = listing_of(source, only)
    size = sum(stamp.size for stamp in listing.files.values())
    if size > MAX_BYTES:
        raise FileRefused(
            f"{source.path} holds more than {MAX_BYTES} bytes, too much to copy for every attempt. "
            "Name a smaller directory, or let a .gitignore leave large files out."
        )
    for name, stamp in listing.files.items():
        target.write(name, source.read(name, limit=MAX_BYTES), executable=stamp.executable)
    for name, where in listing.links.items():
        target.link(name, where)
    return listing.unreadable


def listing_of(source: Tree, only: frozenset[str] | None) -> Listing:
    """How the files and links look that `copy_files` copies."""
    if only is None:
        return source.listing(skip=_SKIPPED, limit=MAX_FILES)
    wanted = {name for name in only if name.split("/")[0] not in _SKIPPED}
    if len(wanted) > MAX_FILES:
        raise FileRefused(f"{source.path} holds more than {MAX_FILES} files. Name a part of it.")
    return source.look(wanted)


def list_files(path: Path, patterns: Sequence[str]) -> frozenset[str]:
    """The files that are there under these paths and patterns."""
    with Tree.open(path) as tree:
        found = {*tree.look(each for each in patterns if not is_pattern(each)).files}
        wild = [each for each in patterns if is_pattern(each)]
        if wild:
            names = tree.listing(skip=_SKIPPED, limit=_MAX_FILES_LISTED).files
            found |= {name for name in names if any(matches(each, name) for each in wild)}
        return frozenset(found)


def take_base(tree: Tree) -> Base:
    """Remember what is there before the worker starts."""
    stamps = tree.listing(skip=_SKIPPED, limit=MAX_FILES)
    digests = {name: tree.digest(name) or "" for name in stamps.files}
    return Base(digests, stamps)


def changes_since(tree: Tree, base: Base) -> list[FileChange]:
    """What the worker changed.

    Links that are new, changed or gone are refused: somebody would follow the first two, and the
    last would be a removal that no report names.
    """
    now = tree.listing(skip=_SKIPPED, limit=MAX_FILES)
    require_readable(now, base.stamps)
    links = sorted({name for name, _ in {*now.links.items()} ^ {*base.stamps.links.items()}})
    if links:
        raise FileRefused(
            "Symbolic links cannot be taken over, nor that they are changed or gone: "
            f"{', '.join(map(shown, links[:10]))}."
        )
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
            changes.append(
                FileChange(
                    path=name,
                    before=before,
                    after=after,
                    executable=executable,
                    was_executable=old is not None and old.executable,
                )
            )
    return changes


def _require_harmless(name: str) -> None:
    """A file through which other programs run code is not taken over, however deep it lies."""
    held = sorted(_SKIPPED & set(name.split("/")))
    if held:
        raise FileRefused(
            f"{shown(name)} cannot be taken over: {held[0]} makes other programs act."
        )


def apply_changes(source: Tree, target: Tree, changes: list[FileChange]) -> None:
    """Take the changes over; raises `PublicationConflict` before anything was changed."""
    require_no_conflict(target, changes)
    for change in changes:
        put_change(source, target, change)


def put_change(source: Tree, target: Tree, change: FileChange) -> None:
    """Make one file what the change makes of it."""
    if change.after is None:
        target.remove(change.path)
    elif target.digest(change.path) != change.after or _mode_differs(target, change):
        content = source.read(change.path, limit=MAX_BYTES)
        if hashlib.sha256(content).hexdigest() != change.after:
            raise FileRefused(f"{shown(change.path)} is not what it was when it was looked at.")
        target.write(change.path, content, executable=change.executable)


def require_no_conflict(target: Tree, changes: list[FileChange]) -> None:
    """Raise unless every file is what it was, or already what it is to become."""
    conflicts = [change.path for change in changes if _conflicts(target, change)]
    if conflicts:
        raise PublicationConflict(
            f"These files were changed by somebody else: {', '.join(map(shown, conflicts))}.",
            files=conflicts,
        )


def remove_tree(path: Path) -> list[Leftover]:
    """Remove a private directory with everything in it, whatever a worker left; its name is free.

    What cannot be removed is returned, and waits beside it under another name.
    """
    return clear_name(path)


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
