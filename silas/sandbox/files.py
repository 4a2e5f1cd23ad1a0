"""File operations on a workspace from outside, as a command inside it would see them.

They raise Python's own file errors, like `open` does. Paths are absolute. What a command may not
write, these may not either: see `placeholders`.
"""

import errno
import os
import shutil
import stat
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePosixPath

from silas.sandbox.confined import ConfinedTree, Place
from silas.sandbox.models import is_within
from silas.sandbox.placeholders import PROTECTED

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class FileStatus:
    """A file or directory; a link stands for what it leads to."""

    name: str
    path: str
    is_directory: bool
    size: int | None


class WorkspaceFiles:
    """The files of one workspace."""

    def __init__(self, root: str) -> None:
        self._tree = ConfinedTree(root)
        self._root = root

    def read_bytes(self, path: str) -> bytes:
        """The whole content of a regular file."""
        with self._tree.locate(path) as place, open(_regular(place, _READ, path), "rb") as file:
            return file.read()

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file, through a link if there is one, and make missing directories."""
        with (
            self._to_change(path, make=True) as place,
            open(_regular(place, _WRITE, path), "wb") as file,
        ):
            file.write(data)

    def stat(self, path: str) -> FileStatus:
        """What is at a path."""
        with self._tree.locate(path) as place:
            status = place.status()
        is_directory = stat.S_ISDIR(status.st_mode)
        size = status.st_size if stat.S_ISREG(status.st_mode) else None
        return FileStatus(PurePosixPath(path).name, path, is_directory, size)

    def exists(self, path: str) -> bool:
        """Whether there is anything; a link that leads nowhere is nothing."""
        try:
            self.stat(path)
        except OSError:
            return False
        return True

    def list_dir(self, path: str) -> list[FileStatus]:
        """The entries of a directory by name; what a broken link leads to is unknown."""
        with self._tree.locate(path) as place:
            descriptor = os.open(place.name, _LIST, dir_fd=place.directory)
            try:
                names = sorted(os.listdir(descriptor))  # noqa: PTH208 - a Path has no descriptor
            finally:
                os.close(descriptor)
        return [self._entry(name, f"{path.rstrip('/')}/{name}") for name in names]

    def _entry(self, name: str, path: str) -> FileStatus:
        try:
            return self.stat(path)
        except OSError:
            return FileStatus(name, path, is_directory=False, size=None)

    def make_dir(self, path: str) -> None:
        """Make a directory and those above it; one that exists is fine."""
        with self._to_change(path, make=True) as place:
            try:
                if place.name != ".":
                    os.mkdir(place.name, dir_fd=place.directory)
            except FileExistsError:
                if not stat.S_ISDIR(place.status().st_mode):
                    raise

    def remove(self, path: str) -> None:
        """Remove a file, a link itself, or a directory with all that is in it."""
        if is_within(self._root, path):
            raise ValueError("the workspace itself cannot be removed")
        with self._to_change(path, follow=False) as place:
            if is_within(self._root, place.path):
                raise ValueError("the workspace itself cannot be removed")
            if stat.S_ISDIR(place.status().st_mode):
                # Relative to an open directory it follows no link, whatever happens meanwhile.
                shutil.rmtree(place.name, dir_fd=place.directory)
            else:
                os.unlink(place.name, dir_fd=place.directory)

    def realpath(self, path: str) -> str:
        """Where a path leads, with all links followed; missing names stay as they are."""
        parts = PurePosixPath(path)
        rest: list[str] = []
        while True:
            try:
                with self._tree.locate(str(parts)) as place:
                    return os.path.normpath("/".join([place.path, *rest]))
            except FileNotFoundError:
                if not is_within(str(parts.parent), self._root):
                    return os.path.normpath(path)
                rest.insert(0, parts.name)
                parts = parts.parent

    def _to_change(
        self, path: str, *, follow: bool = True, make: bool = False
    ) -> AbstractContextManager[Place]:
        return self._tree.locate(path, follow=follow, make=make, forbidden=PROTECTED)


def _regular(place: Place, flags: int, path: str) -> int:
    """Open a regular file; never wait for a FIFO, never touch a device."""
    try:
        descriptor = os.open(place.name, flags, 0o666, dir_fd=place.directory)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, path) from error
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "not a regular file", path)
