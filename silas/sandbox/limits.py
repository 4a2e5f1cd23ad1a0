"""Limits of a command: what the kernel enforces, and what Silas looks after.

1. Resource limits are set from outside on a process that waits; what it starts inherits them. They
   hold each process by itself.
2. Control groups (version 2) limit memory and processes in total. A group can be made where one was
   delegated to us with both controllers, as in a systemd session.
3. Where there is none, a patrol counts processes and memory twenty times a second. Pages that
   processes share would be counted several times, so a sum that is too high is counted again in a
   way that divides shared pages, which takes longer.
4. No quota exists for a directory that is shared with a sandbox. What is cheap to ask is how much
   room and how many inodes the file system has left; only when one has shrunk by more than its
   limit is counted what changed since the start, because somebody else may have used them. Some
   file systems do not say how many inodes are left. There it is counted again and again, for a
   small part of the time.
5. A tree that cannot be counted is over the limit: a command that hides what it wrote (a directory
   that nobody may list) is not better off than one that does not.
"""

import asyncio
import errno
import os
import resource
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from pathlib import Path

from silas.sandbox.models import Limit, SandboxLimits, SandboxRequest
from silas.storage.trees import Entry, walk

_PREFIX = "silas-"
_CONTROLLERS = {"memory", "pids"}
# The launcher and the sandbox's first process are counted, but are not the command's.
_LAUNCHER_PROCESSES = 2


class ControlGroup:
    """One sandbox's group. Join it before the command runs; remove it when all are gone."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def join(self, pid: int) -> bool:
        """Move a process in; false if the kernel does not let us."""
        try:
            (self._directory / "cgroup.procs").write_text(str(pid))
        except OSError:
            return False
        return True

    def out_of_memory(self) -> bool:
        """Whether the kernel ended a process because the group had no memory left."""
        with suppress(OSError):
            words = (self._directory / "memory.events").read_text().split()
            events = dict(zip(words[::2], words[1::2], strict=True))
            return events.get("oom_kill", "0") != "0"
        return False

    def remove(self) -> bool:
        """Remove it; false while a process is still on its way out of it."""
        try:
            self._directory.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True


class ControlGroups:
    """Makes groups and removes them, the stubborn ones a little later."""

    def __init__(self, home: Path | None) -> None:
        self._home = home
        self._spent: list[ControlGroup] = []

    def make(self, limits: SandboxLimits) -> ControlGroup | None:
        """A group with these limits, or nothing where none can be made."""
        self._spent = [group for group in self._spent if not group.remove()]
        if self._home is None:
            return None
        directory = self._home / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(6)}"
        try:
            directory.mkdir()
            (directory / "memory.max").write_text(str(limits.memory_bytes))
            (directory / "pids.max").write_text(str(limits.processes + _LAUNCHER_PROCESSES))
            if (directory / "memory.swap.max").exists():
                (directory / "memory.swap.max").write_text("0")
        except OSError:
            ControlGroup(directory).remove()
            return None
        return ControlGroup(directory)

    def retire(self, group: ControlGroup) -> None:
        """Let go of a group whose processes have ended."""
        if not group.remove():
            self._spent.append(group)


@cache
def find_home(
    root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> Path | None:
    """The directory in which this process may make groups, if there is one."""
    try:
        lines = membership.read_text().splitlines()
        own = next(line.removeprefix("0::/") for line in lines if line.startswith("0::/"))
    except (OSError, StopIteration):
        return None
    # A group with processes of its own cannot give controllers to its children: look beside it.
    here = root / own
    for directory in (here.parent, here):
        if _may_make_groups(directory):
            _sweep(directory)
            return directory
    return None


def _may_make_groups(directory: Path) -> bool:
    try:
        granted = (directory / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False
    writable = all(os.access(path, os.W_OK) for path in (directory, directory / "cgroup.procs"))
    return writable and set(granted) >= _CONTROLLERS


def _sweep(directory: Path) -> None:
    """Remove groups that a killed Silas left; the kernel keeps those that have processes."""
    for leftover in directory.glob(f"{_PREFIX}*"):
        owner = leftover.name.removeprefix(_PREFIX).split("-")[0]
        if not Path("/proc", owner).exists():
            ControlGroup(leftover).remove()


# Address space is not memory: runtimes reserve far more than they use.
_ADDRESS_SPACE_FACTOR = 8


def limit_process(pid: int, limits: SandboxLimits, *, memory: bool) -> None:
    """Limit CPU time, files and, if it is not counted in a control group, memory."""
    _lower(pid, resource.RLIMIT_CORE, 0)
    # The soft limit ends the command with a signal that says why; the hard one cannot be caught.
    _lower(pid, resource.RLIMIT_CPU, limits.cpu_seconds, grace=1)
    _lower(pid, resource.RLIMIT_FSIZE, limits.file_bytes)
    _lower(pid, resource.RLIMIT_NOFILE, limits.open_files)
    if memory:
        _lower(pid, resource.RLIMIT_DATA, limits.memory_bytes)
        _lower(pid, resource.RLIMIT_AS, limits.memory_bytes * _ADDRESS_SPACE_FACTOR)


def limit_processes(pid: int, limits: SandboxLimits) -> None:
    """Limit the number of processes in the user namespace of the sandbox's first process.

    Set on the launcher, outside that namespace, it would count all processes of the user.
    """
    _lower(pid, resource.RLIMIT_NPROC, limits.processes + 1)


def _lower(pid: int, kind: int, value: int, *, grace: int = 0) -> None:
    _, most = resource.prlimit(pid, kind)
    hard = value + grace if most == resource.RLIM_INFINITY else min(value + grace, most)
    resource.prlimit(pid, kind, (min(value, hard), hard))


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


_UNKNOWN_SPACE = 2**63
# The kernel stamps files with a clock that lags behind the one we read by up to a tick.
_CLOCK_LAG = timedelta(milliseconds=20)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_REST_FACTOR = 19
"""For how many times as long as a count took nothing is counted again unasked."""


@dataclass(frozen=True)
class _FreeSpace:
    """What a file system has left."""

    size: int
    inodes: int | None
    """None if the file system does not say."""


class DiskUse:
    """What was written below some directories since the beginning."""

    def __init__(
        self, directories: Sequence[str], *, limits: SandboxLimits, since: datetime
    ) -> None:
        self._directories = directories
        self._limits = limits
        self._since = int((since - _CLOCK_LAG).timestamp() * 1e9)
        self._before = [_free_space(directory) for directory in directories]
        self._counts_again = 0.0

    def may_exceed(self) -> bool:
        """Whether so much has gone that it is worth counting."""
        pairs = zip(self._before, map(_free_space, self._directories), strict=True)
        return any(self._may_exceed(before, now) for before, now in pairs)

    def exceeded(self) -> Limit | None:
        """The limit that is exceeded, without following any link. Slow in large trees."""
        started = time.monotonic()
        count = _Count(self._limits, self._since)
        try:
            for directory in self._directories:
                limit = count.add_below(directory)
                if limit is not None:
                    return limit
        except OSError:
            return Limit.DISK
        finally:
            ended = time.monotonic()
            self._counts_again = ended + _REST_FACTOR * (ended - started)
        return None

    def _may_exceed(self, before: _FreeSpace, now: _FreeSpace) -> bool:
        if before.size - now.size > self._limits.disk_bytes:
            return True
        if before.inodes is None or now.inodes is None:
            return time.monotonic() >= self._counts_again
        return before.inodes - now.inodes > self._limits.inodes


class _Count:
    """What has changed, as far as it was looked at."""

    def __init__(self, limits: SandboxLimits, since: int) -> None:
        self._limits = limits
        self._since = since
        self._size = self._inodes = 0
        self._linked: set[tuple[int, int]] = set()

    def add_below(self, directory: str) -> Limit | None:
        """Go through a directory, until a limit is exceeded; raises `OSError`."""
        try:
            root = os.open(directory, _DIRECTORY)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return None  # It was taken away: nothing more is written there.
            raise
        try:
            for entry in walk(root):
                if entry.status.st_ctime_ns >= self._since and self._is_new(entry):
                    self._size += entry.status.st_blocks * 512
                    self._inodes += 1
                if self._size > self._limits.disk_bytes:
                    return Limit.DISK
                if self._inodes > self._limits.inodes:
                    return Limit.INODES
        finally:
            os.close(root)
        return None

    def _is_new(self, entry: Entry) -> bool:
        """Whether it is not another name of a file that was counted."""
        if entry.is_directory or entry.status.st_nlink == 1:
            return True
        identity = entry.status.st_dev, entry.status.st_ino
        known = identity in self._linked
        self._linked.add(identity)
        return not known


def _free_space(directory: str) -> _FreeSpace:
    try:
        status = os.statvfs(directory)
    except OSError:
        return _FreeSpace(
            _UNKNOWN_SPACE, _UNKNOWN_SPACE
        )  # It was taken away: nothing more is written there.
    inodes = status.f_ffree if status.f_files else None
    return _FreeSpace(status.f_bavail * status.f_frsize, inodes)


_PATROL_SECONDS = 0.05


class Patrol:
    """Goes round twenty times a second, until a limit is exceeded."""

    def __init__(
        self,
        request: SandboxRequest,
        *,
        since: datetime,
        first_process: Callable[[], int | None] | None,
    ) -> None:
        """`first_process` gives the first process inside, as soon as it is known.

        It is None where the kernel counts processes and memory in total.
        """
        self._limits = request.limits
        self._first_process = first_process
        self._disk = DiskUse(request.write, limits=request.limits, since=since)

    async def go(self) -> Limit:
        """Return the limit that is exceeded; never, as long as none is."""
        while True:
            await asyncio.sleep(_PATROL_SECONDS)
            limit = None
            if self._disk.may_exceed():
                limit = await asyncio.to_thread(self._disk.exceeded)
            if limit is None and self._first_process is not None:
                limit = await self._process_limit(self._first_process())
            if limit is not None:
                return limit

    async def _process_limit(self, first: int | None) -> Limit | None:
        if first is None:
            return None
        # One more than allowed is enough to know; a flood of processes is not counted to its end.
        processes = descendants(first, most=self._limits.processes + 1)
        if len(processes) > self._limits.processes:
            return Limit.PROCESSES
        most = self._limits.memory_bytes
        if memory_at_most(processes) <= most:
            return None
        used = await asyncio.to_thread(memory_of, processes)
        return Limit.MEMORY if used > most else None
