"""Counts the processes of a sandbox and the memory that they use together.

The kernel counts both exactly in a control group. Where there is none, this is the next best thing:
a look every so often. Pages that processes share would be counted several times, so a sum that is
too high is counted again in a way that divides shared pages, which takes longer.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

_PRIVATE_AND_SHARED_MEMORY = ("RssAnon:", "RssShmem:")
_ITS_SHARE = ("Pss_Anon:", "Pss_Shmem:")


def descendants(first: int, *, most: int) -> tuple[int, ...]:
    """Everything that descends from a sandbox's first process, without it; at most so many."""
    return tuple(islice(_descendants(first), most))


def memory_at_most(processes: tuple[int, ...]) -> int:
    """An upper bound of the memory of these processes."""
    return sum(_kilobytes(pid, "status", _PRIVATE_AND_SHARED_MEMORY) for pid in processes) * 1024


def memory_of(processes: tuple[int, ...]) -> int:
    """The memory of these processes with every shared page counted once; slow for large ones."""
    return sum(_kilobytes(pid, "smaps_rollup", _ITS_SHARE) for pid in processes) * 1024


def _descendants(first: int) -> Iterator[int]:
    waiting = [first]
    while waiting:
        children = list(_children(waiting.pop()))
        waiting += children
        yield from children


def _children(pid: int) -> Iterator[int]:
    # A process started by a thread is listed with that thread.
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    for thread in threads:
        yield from (int(child) for child in _text(thread / "children").split())


def _kilobytes(pid: int, file: str, names: tuple[str, ...]) -> int:
    lines = _text(Path(f"/proc/{pid}/{file}")).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(names))


def _text(path: Path) -> str:
    """A file of /proc; empty if its process has gone."""
    try:
        return path.read_text()
    except OSError:
        return ""
