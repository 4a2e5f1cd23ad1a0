"""Files below one directory, reached without ever leaving it.

A command may put links anywhere in its workspace, also while we look. So no path is ever handed to
the kernel whole: each step is opened relative to the one before, without following links, and a
link is followed by hand, only as far as it stays below the root. Whatever lies outside is treated
as the sandbox itself would see it: it is not there.
"""

import errno
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

from silas.sandbox.models import is_within

_MOST_LINKS = 40
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Place:
    """Where a path ends: a name in an open directory, all links followed but perhaps the last."""

    directory: int
    name: str
    path: str

    def status(self) -> os.stat_result:
        """What is there; a link at the end is not followed any more."""
        return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)


class ConfinedTree:
    """A directory of the host that a sandbox writes to, seen from outside."""

    def __init__(self, root: str) -> None:
        self.root = root

    @contextmanager
    def open_root(self) -> Iterator[int]:
        """The root itself; it has to be a directory, and no link."""
        descriptor = os.open(self.root, _READ_DIRECTORY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def locate(
        self,
        path: str,
        *,
        follow: bool = True,
        make: bool = False,
        forbidden: Collection[str] = (),
    ) -> Iterator[Place]:
        """Follow a path to its end; with `make`, missing directories on the way are made.

        Names directly below the root that are `forbidden` are not entered.
        """
        with self.open_root() as root, ExitStack() as stack:
            walk = _Walk(self.root, root, stack, make=make, forbidden=forbidden)
            yield walk.to(self._below(path), follow=follow)

    def _below(self, path: str) -> list[str]:
        if not is_within(path, self.root):
            raise FileNotFoundError(errno.ENOENT, "outside of the workspace", path)
        return list(PurePosixPath(path).relative_to(self.root).parts)


class _Walk:
    def __init__(
        self,
        root_path: str,
        root: int,
        stack: ExitStack,
        *,
        make: bool,
        forbidden: Collection[str],
    ) -> None:
        self._root_path = root_path
        self._stack = stack
        self._make = make
        self._forbidden = forbidden
        # Every directory from the root to here, so that `..` leads back the way we came.
        self._trail: list[tuple[int, str]] = [(root, "")]
        self._links = 0

    def to(self, parts: list[str], *, follow: bool) -> Place:
        waiting = list(reversed(parts))
        while waiting:
            part = waiting.pop()
            if part == "..":
                self._up()
            elif not waiting:
                target = self._link(part) if follow else None
                if target is None:
                    self._check(part)
                    return Place(self._here, part, self._path(part))
                waiting += self._turn(target)
            else:
                target = self._link(part)
                if target is None:
                    self._enter(part)
                else:
                    waiting += self._turn(target)
        return Place(self._here, ".", self._path())

    @property
    def _here(self) -> int:
        return self._trail[-1][0]

    def _path(self, *last: str) -> str:
        names = [name for _, name in self._trail[1:]]
        return "/".join([self._root_path, *names, *last])

    def _up(self) -> None:
        if len(self._trail) == 1:
            raise FileNotFoundError(errno.ENOENT, "outside of the workspace", self._root_path)
        self._trail.pop()

    def _link(self, name: str) -> str | None:
        try:
            return os.readlink(name, dir_fd=self._here)
        except OSError as error:
            if error.errno in {errno.EINVAL, errno.ENOENT}:
                return None
            raise

    def _turn(self, target: str) -> list[str]:
        """The steps that a link stands for, last one first."""
        self._links += 1
        if self._links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), target)
        steps = PurePosixPath(target)
        if steps.is_absolute():
            if not is_within(os.path.normpath(target), self._root_path):
                raise FileNotFoundError(errno.ENOENT, "outside of the workspace", target)
            del self._trail[1:]
            steps = PurePosixPath(os.path.normpath(target)).relative_to(self._root_path)
        return list(reversed(steps.parts))

    def _check(self, name: str) -> None:
        if len(self._trail) == 1 and name in self._forbidden:
            raise PermissionError(errno.EROFS, "protected and read-only", self._path(name))

    def _enter(self, name: str) -> None:
        self._check(name)
        if self._make:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._here)
        descriptor = os.open(name, _STEP, dir_fd=self._here)
        self._stack.callback(os.close, descriptor)
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self._path(name))
        self._trail.append((descriptor, name))
