"""Control groups (version 2): limits on memory and processes that the kernel counts in total.

A group can be made where one was delegated to us with both controllers, as in a systemd session.
Elsewhere resource limits hold each process, and a census (`census`) watches the sum.
"""

import os
import secrets
from contextlib import suppress
from functools import cache
from pathlib import Path

from silas.sandbox.models import SandboxLimits

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
