"""Measures how much a command writes to the host's disk.

No quota exists for a directory that is shared with a sandbox. What is cheap to ask is how much room
the file system has left; only when that has shrunk by more than the limit are the files counted
that changed since the start, because somebody else may have used the room.
"""

import os
from collections.abc import Sequence
from datetime import datetime, timedelta

_UNCOUNTABLE = 2**63
# The kernel stamps files with a clock that lags behind the one we read by up to a tick.
_CLOCK_LAG = timedelta(milliseconds=20)


class DiskUse:
    """What was written below some directories since the beginning."""

    def __init__(self, directories: Sequence[str], *, since: datetime) -> None:
        self._directories = directories
        self._since = int((since - _CLOCK_LAG).timestamp() * 1e9)
        self._before = [_free(directory) for directory in directories]

    def may_exceed(self, limit: int) -> bool:
        """Whether so much room has gone that it is worth counting."""
        pairs = zip(self._before, self._directories, strict=True)
        return any(before - _free(directory) > limit for before, directory in pairs)

    def count(self) -> int:
        """The size of all files that changed, without following any link. Slow in large trees."""
        try:
            return sum(self._count_below(directory) for directory in self._directories)
        except RecursionError:
            # Nobody nests a thousand directories but to hide something.
            return _UNCOUNTABLE
        except OSError:
            return 0

    def _count_below(self, directory: str) -> int:
        total = 0
        for _, _, names, descriptor in os.fwalk(directory, follow_symlinks=False):
            total += sum(_size_if_changed(name, descriptor, self._since) for name in names)
        return total


def _free(directory: str) -> int:
    try:
        status = os.statvfs(directory)
    except OSError:
        return _UNCOUNTABLE  # It was taken away: nothing more is written there.
    return status.f_bavail * status.f_frsize


def _size_if_changed(name: str, directory: int, since: int) -> int:
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return 0
    return status.st_blocks * 512 if status.st_ctime_ns >= since else 0
