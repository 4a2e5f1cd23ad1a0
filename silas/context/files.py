"""Reading files that are watched: only below directories that are allowed, and never out of them.

1. Without allowed directories there is nothing to read.
2. A path is resolved, and has to lie below an allowed directory with all its links followed.
3. Then it is opened step by step from that directory, following no link at all: whoever swaps a
   directory for a link in between finds the door closed.
4. Only regular files are read, and no more of them than can be shown.
"""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from silas.context.errors import SubscriptionRefused
from silas.kernel import TaintLevel

_STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class AllowedDirectory:
    """A directory whose files may be watched, and how far what stands in them is trusted."""

    path: Path
    taint: TaintLevel = TaintLevel.EXTERNAL


@dataclass(frozen=True)
class Located:
    """A file that may be read: its place below the directory that allows it."""

    directory: AllowedDirectory
    root: Path
    inside: tuple[str, ...]

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.inside)


class WatchedFiles:
    """The files that may be read."""

    def __init__(self, allowed: Iterable[AllowedDirectory] = ()) -> None:
        self._allowed = tuple(allowed)

    def locate(self, target: str) -> Located:
        """Where a file is, or `SubscriptionRefused`."""
        for directory in self._allowed:
            found = _below(directory, target)
            if found is not None:
                return found
        raise SubscriptionRefused(
            f"{target!r} is not a file below a directory that is allowed.", target=target
        )

    def read(self, located: Located) -> str:
        """What stands in the file now; raises `SubscriptionRefused` if it cannot be shown."""
        try:
            data = _read(located)
        except OSError as error:
            raise SubscriptionRefused(
                f"{located.path}: cannot be read ({error.strerror}).", target=str(located.path)
            ) from error
        return data.decode("utf-8", "replace")


def _below(directory: AllowedDirectory, target: str) -> Located | None:
    try:
        root = directory.path.resolve(strict=True)
        path = (root / target).resolve(strict=True)
    except (OSError, ValueError, RuntimeError):
        return None
    if path == root or not path.is_relative_to(root):
        return None
    return Located(directory, root, path.relative_to(root).parts)


def _read(located: Located) -> bytes:
    here = os.open(located.root, _STEP)
    try:
        for name in located.inside[:-1]:
            there = os.open(name, _STEP, dir_fd=here)
            os.close(here)
            here = there
        file = os.open(located.inside[-1], _FILE, dir_fd=here)
    finally:
        os.close(here)
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(0, "is not a regular file")
        data = opened.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OSError(0, "is too large")
    return data
