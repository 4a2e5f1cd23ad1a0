"""A directory tree reached by descriptors: no link is followed, and no path leaves it.

Whoever works in the tree may have put anything there. Every part of a name is opened relative to
the directory before it; links, devices, pipes and sockets in the way are refused.
"""

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO, TypeVar

from silas.kernel import WorkError
from silas.storage.trees import Entry, is_text, shown, walk

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def descend(
    start: int | Path, parts: Sequence[str], *, make: Callable[[str, int], None] | None = None
) -> Iterator[int]:
    """The directory at the end of the way, open. It starts in an open directory, or at a path.

    `make` makes a part in the directory before it, if it is not there.
    """
    current = os.open(start, DIRECTORY) if isinstance(start, Path) else os.dup(start)
    try:
        for part in parts:
            if make is not None:
                make(part, current)
            below = os.open(part, DIRECTORY, dir_fd=current)
            os.close(current)
            current = below
        yield current
    finally:
        os.close(current)


def put_file(directory: int, name: str, content: bytes, *, mode: int) -> None:
    """Write a file as a whole, in the place of one that is there."""

    def write(file: BinaryIO) -> None:
        file.write(content)

    put_stream(directory, name, write, mode=mode)


def put_stream(directory: int, name: str, write: Callable[[BinaryIO], None], *, mode: int) -> None:
    """The same for a content that is written piece by piece; if that fails, nothing is replaced."""
    partial = f".{secrets.token_hex(8)}.partial"
    descriptor = os.open(partial, _CREATE, 0o600, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(partial, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        os.unlink(partial, dir_fd=directory)
        raise


T = TypeVar("T")

_ANY_DIRECTORIES = "**"
_WILD = re.compile(r"[*?]")
_MAX_PARTS = 64
_MAX_NAME_BYTES = 255
_MAX_PATH_BYTES = 1024
_CHUNK_BYTES = 1024 * 1024


class FileRefused(WorkError):
    """This file cannot be used safely. Name a plain file inside the workspace."""

    code = "E_WORK_FILE"


@dataclass(frozen=True)
class TreeLimits:
    """How large a tree may be that is read as a whole."""

    files: int = 20_000
    directories: int = 20_000
    size: int = 4 * 1024**3
    """The sizes of all files together; holes in them count, because whoever reads them has to."""
    depth: int = _MAX_PARTS
    name_bytes: int = _MAX_NAME_BYTES
    path_bytes: int = _MAX_PATH_BYTES


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
    unreadable: tuple[str, ...] = ()
    """Names and links that are not UTF-8, escaped. Nothing here can name them, so they are neither
    files nor links above: whoever compares listings must not take them for removed."""


@dataclass(frozen=True)
class TreeEntry:
    """One name in a directory, as it looks from outside; the name may not be UTF-8."""

    name: str
    mode: int
    size: int


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

    def size(self, name: str) -> int:
        """How many bytes a regular file has."""
        with self._opened(name) as descriptor:
            return os.fstat(descriptor).st_size

    def copy_to(self, name: str, target: BinaryIO) -> str:
        """Copy what a regular file holds to an open file; returns the SHA-256 of what it copied."""
        digest = hashlib.sha256()
        with self._opened(name) as descriptor, os.fdopen(os.dup(descriptor), "rb") as file:
            while piece := file.read(_CHUNK_BYTES):
                digest.update(piece)
                target.write(piece)
        return digest.hexdigest()

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

    def add(self, name: str, content: bytes, *, mode: int) -> None:
        """Write a file as a whole, with this mode, creating the directories above it."""
        parts = split_path(name)
        with refusing(name), self._directory(parts[:-1], create=True) as directory:
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

    def present(self, names: Iterable[str]) -> set[str]:
        """Those of the names that are regular files or links, reached through directories alone."""
        found = self.look(names)
        return {*found.files, *found.links}

    def look(self, names: Iterable[str]) -> Listing:
        """The same, as a listing of just these names."""
        below: dict[str, list[str]] = {}
        unreadable = []
        for name in names:
            if is_text(name):
                below.setdefault(name.rpartition("/")[0], []).append(name)
            else:
                unreadable.append(shown(name))
        files: dict[str, FileStamp] = {}
        links: dict[str, str] = {}
        for place, inside in below.items():
            try:
                with self._directory(split_path(place) if place else []) as directory:
                    for name in inside:
                        _look_at(name, directory, files, links)
            except OSError:
                continue  # The directory is gone, or is a link by now: its names are not there.
        return Listing(files, links, tuple(sorted(unreadable)))

    def entries(self, name: str = "", *, limit: int) -> list[TreeEntry]:
        """What lies in one directory of the tree, in order; raises `FileRefused` for too much.

        Without a name it is the tree's own directory. Nothing is opened, so nothing can wait.
        """
        parts = split_path(name) if name else []
        found: list[TreeEntry] = []
        with refusing(name or "."), self._directory(parts) as directory:
            for each in os.listdir(directory):  # noqa: PTH208 - the directory is open
                if len(found) == limit:
                    raise FileRefused(f"{name or self.path} holds more than {limit} names.")
                with suppress(FileNotFoundError):  # it went away meanwhile
                    status = os.stat(each, dir_fd=directory, follow_symlinks=False)
                    found.append(TreeEntry(each, status.st_mode, status.st_size))
        return sorted(found, key=lambda each: os.fsencode(each.name))

    def listing(
        self,
        *,
        skip: frozenset[str] = frozenset(),
        limit: int,
        limits: TreeLimits = TreeLimits(),  # noqa: B008 - it is frozen
    ) -> Listing:
        """Everything in the tree, without the top-level names to skip; `limit` counts the files.

        A tree beyond the limits is refused, and so is one that cannot be read as a whole.
        """
        found = _Found(replace(limits, files=limit), self.path)
        try:
            for entry in walk(
                self._root, enter=lambda each: each.depth > 0 or each.name not in skip
            ):
                if entry.depth > 0 or entry.name not in skip:
                    found.add(entry)
        except OSError as error:
            raise FileRefused(
                f"{shown(error.filename or '.')} in {self.path} cannot be read "
                f"({error.strerror}), so nobody knows what is in it. Make it readable or remove it."
            ) from error
        return found.listing()

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
    if not is_text(name):
        raise FileRefused(f"{name[:200]!a}: its name is not UTF-8.")
    if len(name.encode()) > _MAX_PATH_BYTES:
        raise FileRefused(f"{name[:200]!a}: its path has more than {_MAX_PATH_BYTES} bytes.")
    return parts


def require_readable(now: Listing, before: Listing) -> None:
    """Raise `FileRefused` if names that are not UTF-8 came or went: nobody can be shown it."""
    changed = sorted({*now.unreadable} ^ {*before.unreadable})
    if changed:
        raise FileRefused(
            "Files whose names or links are not UTF-8 cannot be taken over, nor their removal: "
            f"{', '.join(changed[:10])}. Use other names."
        )


class _Found:
    """What a listing has found so far, held against the limits."""

    def __init__(self, limits: TreeLimits, path: Path) -> None:
        self._limits = limits
        self._path = path
        self._files: dict[str, FileStamp] = {}
        self._links: dict[str, str] = {}
        self._unreadable: list[str] = []
        self._directories = self._size = 0

    def add(self, entry: Entry) -> None:
        """Note an entry; raises `FileRefused` if it is one too many."""
        self._require(entry.depth < self._limits.depth, f"{self._limits.depth} levels")
        path = entry.path
        self._require_short(entry.name, path)
        if entry.is_directory:
            self._directories += 1
            self._require(
                self._directories <= self._limits.directories,
                f"{self._limits.directories} directories",
            )
        elif stat.S_ISREG(entry.status.st_mode):
            self._size += entry.status.st_size
            self._require(self._size <= self._limits.size, f"{self._limits.size} bytes")
            self._note(path, _stamp(entry.status), self._files)
        elif stat.S_ISLNK(entry.status.st_mode):
            with suppress(FileNotFoundError):
                target = os.readlink(entry.name, dir_fd=entry.directory)
                self._note(path, target, self._links)

    def listing(self) -> Listing:
        files, links = dict(sorted(self._files.items())), dict(sorted(self._links.items()))
        return Listing(files, links, tuple(sorted(self._unreadable)))

    def _note(self, path: str, value: T, into: dict[str, T]) -> None:
        if is_text(path) and (not isinstance(value, str) or is_text(value)):
            into[path] = value
        else:
            # As bytes are written: no two names look the same.
            self._unreadable.append(repr(os.fsencode(path))[2:-1])
        count = len(self._files) + len(self._links) + len(self._unreadable)
        self._require(count <= self._limits.files, f"{self._limits.files} files")

    def _require(self, fits: bool, most: str) -> None:
        if not fits:
            raise FileRefused(f"{self._path} holds more than {most}.")

    def _require_short(self, name: str, path: str) -> None:
        if len(os.fsencode(name)) > self._limits.name_bytes:
            most = self._limits.name_bytes
            raise FileRefused(f"{shown(path, most=200)}: its name has more than {most} bytes.")
        if len(os.fsencode(path)) > self._limits.path_bytes:
            most = self._limits.path_bytes
            raise FileRefused(f"{shown(path, most=200)}: its path has more than {most} bytes.")


@contextmanager
def refusing(name: str) -> Iterator[None]:
    """Turn what the operating system says into our error."""
    try:
        yield
    except (OSError, UnicodeEncodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its name is not text"
        raise FileRefused(f"{name[:200]!a}: {reason}.") from error


def _look_at(name: str, directory: int, files: dict[str, FileStamp], links: dict[str, str]) -> None:
    base = split_path(name)[-1]
    try:
        status = os.stat(base, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            files[name] = _stamp(status)
        elif stat.S_ISLNK(status.st_mode):
            links[name] = os.readlink(base, dir_fd=directory)
    except FileNotFoundError:
        return


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


def is_pattern(path: str) -> bool:
    """Whether this stands for more than one path."""
    return _WILD.search(path) is not None


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that match, in order."""
    return sorted(name for name in names if matches(pattern, name))


def matches(pattern: str, name: str) -> bool:
    """Whether a path matches, part by part: linear in each, so that no pattern takes for ever."""
    wanted, reached = pattern.split("/"), {0}
    for part in name.split("/"):
        following = set()
        for at in _past_empty(wanted, reached):
            if at < len(wanted) and wanted[at] == _ANY_DIRECTORIES:
                following.add(at)
            elif at < len(wanted) and fnmatchcase(part, wanted[at].replace("[", "[[]")):
                following.add(at + 1)
        reached = following
    return len(wanted) in _past_empty(wanted, reached)


def _past_empty(wanted: Sequence[str], reached: Iterable[int]) -> set[int]:
    """`**` also stands for no directory at all."""
    found = set()
    for start in reached:
        at = start
        found.add(at)
        while at < len(wanted) and wanted[at] == _ANY_DIRECTORIES:
            at += 1
            found.add(at)
    return found
