"""A directory tree reached by descriptors: no link is followed, and no path leaves it.

Whoever works in the tree may have put anything there. Every part of a name is opened relative to
the directory before it; links, devices, pipes and sockets in the way are refused.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from silas.work.descent import DIRECTORY, READ, descend, put_file
from silas.work.errors import FileRefused

_MAX_PARTS = 64


@dataclass(frozen=True)
class FileStamp:
    """How a file looks from outside. A changed content cannot keep it: nobody can set ctime."""

    inode: int
    size: int
    changed: int
    executable: bool


@dataclass(frozen=True)
class Listing:
    """What a tree holds: regular files with their stamps, and the links in it."""

    files: dict[str, FileStamp]
    links: dict[str, str]


class Tree:
    """One directory, held open: it stays the same one, whatever is put in its place."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._root = descriptor

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator["Tree"]:
        """Open a directory by its real path; one that leads through a link is refused."""
        with refusing(str(path)):
            descriptor = os.open(path, DIRECTORY)
        try:
            real = str(Path(f"/proc/self/fd/{descriptor}").readlink())
            if real != str(path):
                raise FileRefused(f"{path} leads through a symbolic link to {real}.")
            yield cls(path, descriptor)
        finally:
            os.close(descriptor)

    @property
    def identity(self) -> str:
        """Which directory this is: its device and inode."""
        status = os.fstat(self._root)
        return f"{status.st_dev}:{status.st_ino}"

    def read(self, name: str, *, limit: int) -> bytes:
        """The content of a regular file of at most this size."""
        with self._opened(name) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
            if os.fstat(descriptor).st_size > limit:
                raise FileRefused(f"{name} has more than {limit} bytes.")
            return file.read(limit)

    def digest(self, name: str) -> str | None:
        """SHA-256 of a regular file; None if there is nothing under this name."""
        if not self.exists(name):
            return None
        with self._opened(name) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def exists(self, name: str) -> bool:
        """Whether there is a regular file under this name; anything else there is refused."""
        try:
            with self._opened(name):
                return True
        except FileRefused as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return False
            raise

    def starts_with(self, name: str, length: int) -> bytes:
        """The first bytes of a regular file."""
        with self._opened(name) as descriptor:
            return os.pread(descriptor, length, 0)

    def is_executable(self, name: str) -> bool:
        with self._opened(name) as descriptor:
            return bool(os.fstat(descriptor).st_mode & stat.S_IXUSR)

    def write(self, name: str, content: bytes, *, executable: bool | None = None) -> None:
        """Write the file as a whole, creating the directories above it.

        A file that is replaced keeps its mode, unless `executable` says otherwise.
        """
        parts = split_path(name)
        with refusing(name), self._directory(parts[:-1], create=True) as directory:
            mode = _mode_for(directory, parts[-1], executable)
            put_file(directory, parts[-1], content, mode=mode)

    def link(self, name: str, target: str) -> None:
        """Make a symbolic link; nothing here will ever follow it."""
        parts = split_path(name)
        with refusing(name), self._directory(parts[:-1], create=True) as directory:
            os.symlink(target, parts[-1], dir_fd=directory)

    def remove(self, name: str) -> None:
        """Remove a file; one that is gone is fine."""
        parts = split_path(name)
        try:
            with refusing(name), self._directory(parts[:-1]) as directory:
                os.unlink(parts[-1], dir_fd=directory)
        except FileRefused as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise

    def listing(self, *, skip: frozenset[str] = frozenset(), limit: int) -> Listing:
        """Everything in the tree, without the top-level names to skip."""
        files: dict[str, FileStamp] = {}
        links: dict[str, str] = {}
        with refusing(str(self.path)):
            for name, status, directory, base in self._entries(skip):
                if len(files) + len(links) >= limit:
                    raise FileRefused(f"{self.path} holds more than {limit} files.")
                if stat.S_ISREG(status.st_mode):
                    files[name] = _stamp(status)
                elif stat.S_ISLNK(status.st_mode):
                    links[name] = os.readlink(base, dir_fd=directory)
        return Listing(files, links)

    def _entries(self, skip: frozenset[str]) -> Iterator[tuple[str, os.stat_result, int, str]]:
        walk = os.fwalk(".", dir_fd=self._root, follow_symlinks=False, onerror=_raise)
        for place, directories, names, descriptor in walk:
            prefix = "" if place == "." else place.removeprefix("./") + "/"
            if not prefix:
                directories[:] = [each for each in directories if each not in skip]
                names = [each for each in names if each not in skip]  # noqa: PLW2901
            for base in sorted({*names, *_links_among(directories, descriptor)}):
                status = os.stat(base, dir_fd=descriptor, follow_symlinks=False)
                yield prefix + base, status, descriptor, base

    @contextmanager
    def _opened(self, name: str) -> Iterator[int]:
        parts = split_path(name)
        with refusing(name), self._directory(parts[:-1]) as directory:
            descriptor = os.open(parts[-1], READ, dir_fd=directory)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise FileRefused(f"{name} is not a regular file.")
                yield descriptor
            finally:
                os.close(descriptor)

    def _directory(
        self, parts: Sequence[str], *, create: bool = False
    ) -> AbstractContextManager[int]:
        return descend(self._root, parts, make=_make if create else None)


def split_path(name: str) -> list[str]:
    """The parts of a relative path; raises `FileRefused` unless each is a plain one."""
    parts = name.split("/")
    plain = all(part not in ("", ".", "..") and "\0" not in part for part in parts)
    if not plain or len(parts) > _MAX_PARTS:
        raise FileRefused(
            f"{name[:200]!a} is not a path inside the workspace: write it relative, without `.`, "
            "`..` and empty parts."
        )
    return parts


@contextmanager
def refusing(name: str) -> Iterator[None]:
    """Turn what the operating system says into our error."""
    try:
        yield
    except (OSError, UnicodeEncodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its name is not text"
        raise FileRefused(f"{name[:200]!a}: {reason}.") from error


def _stamp(status: os.stat_result) -> FileStamp:
    executable = bool(status.st_mode & stat.S_IXUSR)
    return FileStamp(status.st_ino, status.st_size, status.st_ctime_ns, executable)


def _mode_for(directory: int, name: str, executable: bool | None) -> int:
    try:
        before = stat.S_IMODE(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        before = 0o644
    if executable is None:
        return before & 0o777
    return (before | 0o111 if executable else before & ~0o111) & 0o777


def _make(part: str, directory: int) -> None:
    try:
        os.mkdir(part, 0o755, dir_fd=directory)
    except FileExistsError:
        return


def _links_among(names: Sequence[str], directory: int) -> list[str]:
    """Links to directories are listed among the directories, and are links all the same."""
    return [
        name
        for name in names
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    ]


def _raise(error: OSError) -> None:
    raise error
