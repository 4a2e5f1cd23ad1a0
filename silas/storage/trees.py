"""Directory trees that others filled, read and removed whatever is in them.

1. The kernel is handed names alone, relative to an open directory. So no path is too long.
2. Nothing here is recursive, and a walk holds three descriptors at most. So no tree is too deep.
3. No link is followed. A walk goes back up through `..`, and stops if that is not the directory
   that it came from.
4. A removal gives itself the rights that it needs, and never raises for what it finds: it returns
   what is left.
"""

import errno
import itertools
import os
import secrets
import stat
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from silas.storage.files import PRIVATE_DIRECTORY

SET_ASIDE = ".removed-"
"""How the names begin under which trees wait for their removal."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNREAD = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_A_DIRECTORY_NOW = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
_NOT_EMPTY = {errno.ENOTEMPTY, errno.EEXIST}
_BATCH = 10_000
_MOST_TOLD = 100
_MOST_SHOWN = 200


def shown(name: str, *, most: int = 2000) -> str:
    """A file's name as text for people: what is not printable, or not UTF-8, is escaped.

    Of one with more than `most` characters the middle is left out.
    """
    if not name.isprintable():
        name = "".join(each if each.isprintable() else _escaped(each) for each in name)
    half = most // 2
    if len(name) <= most:
        return name
    return f"{name[:half]}[...]{name[-half:]}"


def _escaped(character: str) -> str:
    number = ord(character)
    # Python puts a byte that is not UTF-8 there.
    byte = 0xDC80 <= number <= 0xDCFF
    return f"\\x{number - 0xDC00:02x}" if byte else ascii(character)[1:-1]


def is_text(name: str) -> bool:
    """Whether a name that the kernel gave is valid UTF-8."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True)
class Entry:
    """A name in a directory that is being walked; good for use until the next one."""

    name: str
    status: os.stat_result
    directory: int
    """The directory, open."""
    above: Sequence[str]

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def depth(self) -> int:
        """How many directories of the tree it lies in."""
        return len(self.above)

    @property
    def path(self) -> str:
        """Where it is, from the top of the tree."""
        return "/".join((*self.above, self.name))


def walk(root: int, *, enter: Callable[[Entry], bool] = lambda _entry: True) -> Iterator[Entry]:
    """Everything below an open directory, each directory before what is in it.

    Leaves out what vanishes meanwhile. Raises `OSError`, with the path inside the tree, for a
    directory that cannot be listed or that somebody moves meanwhile: nobody knows what is there.
    """
    with _Position.at(root) as position:
        waiting = [(yield from _entries(position, enter))]
        while True:
            if waiting[-1]:
                name = waiting[-1].pop()
                try:
                    position.enter(name, os.open(name, _DIRECTORY, dir_fd=position.here))
                except OSError as error:
                    if error.errno in _NOT_A_DIRECTORY_NOW:
                        continue
                    raise _about(error, position.path(name)) from error
                waiting.append((yield from _entries(position, enter)))
            else:
                waiting.pop()
                if not waiting:
                    return
                position.leave()


def _entries(
    position: "_Position", enter: Callable[[Entry], bool]
) -> Generator[Entry, None, list[str]]:
    """Gives the entries of one directory, and returns the names of those to be entered."""
    directories: list[str] = []
    try:
        with os.scandir(position.here) as found:
            for each in found:
                try:
                    status = each.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                entry = Entry(each.name, status, position.here, position.names)
                yield entry
                if entry.is_directory and enter(entry):
                    directories.append(each.name)
    except OSError as error:
        raise _about(error, position.path()) from error
    return directories


@dataclass(frozen=True)
class Leftover:
    """Something that could not be removed."""

    path: str
    """Where it is, from what was to be removed; as text for people."""
    reason: str
    number: int
    """The number of the operating system's error."""

    def __str__(self) -> str:
        return f"{self.path} ({self.reason})"


def remove_tree(path: Path) -> list[Leftover]:
    """Remove whatever has this name, with all that is in it; returns what is left, if anything.

    The directories above it have to be trustworthy. At most a hundred leftovers are told.
    """
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        gone = error.errno in {errno.ENOENT, errno.ENOTDIR}
        return [] if gone else [_leftover(shown(path.name), error)]
    try:
        return remove_entry(path.name, directory=directory)
    finally:
        os.close(directory)


def remove_entry(name: str, *, directory: int) -> list[Leftover]:
    """The same for a name in an open directory."""
    with _Position.at(directory) as position:
        removal = _Removal(position)
        try:
            removal.run(name)
        except OSError as error:
            removal.tell(position.path(), error)
    # Somebody else may have removed it meanwhile, and the way back was gone.
    return removal.left if _exists(name, directory) else []


def clear_name(path: Path) -> list[Leftover]:
    """Make a name free at once, and remove what had it; returns what is left.

    The tree gets another name beside its own first, so that nothing in it is in the way of what
    comes next. What cannot be removed keeps that name, and is found by it.
    """
    aside = path.with_name(f"{SET_ASIDE}{secrets.token_hex(8)}")
    try:
        path.rename(aside)
    except OSError:
        return remove_tree(path)
    return remove_tree(aside)


def set_aside_in(directory: Path) -> list[Path]:
    """What `clear_name` could not remove from a directory."""
    return sorted(directory.glob(f"{SET_ASIDE}*"))


class _Removal:
    """Removes one tree, from its leaves to its root."""

    def __init__(self, position: "_Position") -> None:
        self._position = position
        self.left: list[Leftover] = []

    def tell(self, path: str, error: OSError) -> None:
        """Note what is left, once."""
        leftover = _leftover(path, error)
        if len(self.left) < _MOST_TOLD and leftover not in self.left:
            self.left.append(leftover)

    def run(self, name: str) -> None:
        """Remove the name that the position is at; raises `OSError` if it loses its way."""
        levels = [_Level([name], more=False)]
        while True:
            level = levels[-1]
            if level.names:
                name = level.names.pop()
                below = self._remove(name, level)
                if below is not None:
                    self._position.enter(name, below)
                    levels.append(self._read())
            elif level.more and level.removed:
                levels[-1] = self._read()
            else:
                levels.pop()
                if not levels:
                    return
                levels[-1].removed += self._take_away(self._position.leave())

    def _remove(self, name: str, level: "_Level") -> int | None:
        """Remove a name, or return the directory that has to be emptied before, open."""
        refused = _attempt(os.unlink, name, self._position.here)
        if refused is None:
            level.removed += 1
            return None
        # A place where something is mounted is refused here, and so is not emptied.
        not_empty = _attempt(os.rmdir, name, self._position.here)
        if not_empty is None:
            level.removed += 1
        elif not_empty.errno in _NOT_EMPTY:
            return self._opened(name)
        else:
            is_file = not_empty.errno == errno.ENOTDIR
            self.tell(self._position.path(name), refused if is_file else not_empty)
        return None

    def _opened(self, name: str) -> int | None:
        """The directory with all rights in it, open; None if that is not to be had."""
        try:
            return _open_with_rights(name, self._position.here)
        except OSError as error:
            self.tell(self._position.path(name), error)
            return None

    def _read(self) -> "_Level":
        try:
            with os.scandir(self._position.here) as found:
                names = [each.name for each in itertools.islice(found, _BATCH)]
        except OSError as error:
            self.tell(self._position.path(), error)
            return _Level([], more=False)
        return _Level(names, more=len(names) == _BATCH)

    def _take_away(self, name: str) -> bool:
        error = _attempt(os.rmdir, name, self._position.here)
        # What lies in it has been told with its own reason.
        if error is not None and not (error.errno in _NOT_EMPTY and self.left):
            self.tell(self._position.path(name), error)
        return error is None


@dataclass
class _Level:
    """What is still to be removed from one directory."""

    names: list[str]
    more: bool
    """Whether there may be more names than these."""
    removed: int = 0


class _Position:
    """Where a walk is: one open directory, and the names that led to it."""

    def __init__(self, directory: int) -> None:
        self.here = directory
        self.names: list[str] = []
        self._above: list[tuple[int, int]] = []

    @classmethod
    @contextmanager
    def at(cls, directory: int) -> Iterator["_Position"]:
        position = cls(os.dup(directory))
        try:
            yield position
        finally:
            os.close(position.here)

    def enter(self, name: str, directory: int) -> None:
        """Go down into a directory that was opened by this name."""
        self._above.append(_identity(self.here))
        self.names.append(name)
        os.close(self.here)
        self.here = directory

    def leave(self) -> str:
        """Go back up; returns the name of the directory that was left."""
        try:
            above = os.open("..", _DIRECTORY, dir_fd=self.here)
        except OSError as error:
            raise _about(error, self.path()) from error
        with ExitStack() as stack:
            stack.callback(os.close, above)
            if _identity(above) != self._above[-1]:
                raise OSError(errno.ESTALE, "it was moved meanwhile", self.path())
            stack.pop_all()
        os.close(self.here)
        self.here = above
        self._above.pop()
        return self.names.pop()

    def path(self, *more: str) -> str:
        """Where something is, as text for people; the middle of a deep one is left out."""
        names = [*self.names, *more]
        if len(names) > _MOST_SHOWN:
            names = [*names[: _MOST_SHOWN // 2], *names[-_MOST_SHOWN // 2 :]]
        return shown("/".join(names), most=_MOST_SHOWN)


def _attempt(remove: Callable[..., None], name: str, directory: int) -> OSError | None:
    """Why a name is not removed; None if it is gone."""
    try:
        remove(name, dir_fd=directory)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error
    return None


def _open_with_rights(name: str, directory: int) -> int:
    try:
        descriptor = os.open(name, _DIRECTORY, dir_fd=directory)
    except PermissionError:
        _give_rights(name, directory)
        return os.open(name, _DIRECTORY, dir_fd=directory)
    with ExitStack() as stack:
        stack.callback(os.close, descriptor)
        if os.fstat(descriptor).st_mode & PRIVATE_DIRECTORY != PRIVATE_DIRECTORY:
            os.fchmod(descriptor, PRIVATE_DIRECTORY)
        stack.pop_all()
    return descriptor


def _give_rights(name: str, directory: int) -> None:
    """Let the owner into a directory that nobody may read."""
    if sys.platform != "linux":  # no descriptor can be had of what cannot be read
        os.chmod(name, PRIVATE_DIRECTORY, dir_fd=directory, follow_symlinks=False)
        return
    unread = os.open(name, os.O_PATH | _UNREAD, dir_fd=directory)
    try:
        # The descriptor leads to this directory and to no other, whatever has its name now.
        os.chmod(f"/proc/self/fd/{unread}", PRIVATE_DIRECTORY)  # noqa: PTH101
    finally:
        os.close(unread)


def _identity(directory: int) -> tuple[int, int]:
    status = os.fstat(directory)
    return status.st_dev, status.st_ino


def _exists(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _about(error: OSError, path: str) -> OSError:
    """The same error, saying where in the tree it is."""
    return OSError(error.errno, error.strerror, path)


def _leftover(path: str, error: OSError) -> Leftover:
    return Leftover(path, error.strerror or str(error), error.errno or errno.EIO)
