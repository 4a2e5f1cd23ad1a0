"""The bytes of a skill: every file with its digest, and one digest over all of them.

1. A skill is its regular files: relative path, size, SHA-256, executable or not. Empty directories
   and everything else about a file are no part of it.
2. The directory is read by descriptors. A link, a device, a pipe or a socket in it is refused, not
   followed and not left out: what is left out here could be found by whoever runs the skill.
3. A name is UTF-8 in its composed form (NFC), printable, and without a backslash. Two names that
   differ in upper and lower case alone are refused: some file systems hold only one of them.
4. Size, number and depth are limited, with a sentence for each limit.
5. The digest of a tree is the SHA-256 of its canonical bytes. A file that is read later is held
   against the tree: what changed in between is not given out.
6. An archive is unpacked in memory: plain files alone, each name once, no way out, with limits.
"""

import hashlib
import io
import os
import secrets
import stat
import tarfile
import unicodedata
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from pydantic import field_validator

from silas.kernel import SkillError, canonical_bytes
from silas.kernel.models import Data
from silas.storage.trees import Entry, is_text, remove_tree, shown, walk
from silas.tools.tree import DIRECTORY, READ, FileRefused, descend, put_file, split_path

MAX_FILES = 2_000
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_TREE_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 12
MAX_PATH_BYTES = 512
_SKILL_FILE = "SKILL.md"
_PIECE_BYTES = 256 * 1024
_PRIVATE_DIRECTORY, _READ_ONLY, _READ_ONLY_PROGRAM = 0o700, 0o400, 0o500
_WRITABLE, _WRITABLE_PROGRAM = 0o600, 0o700


class SkillTreeRefused(SkillError):
    """The folder holds something that no skill may hold. Remove what is named, and try again."""

    code = "E_SKILL_FILES"


class SkillChanged(SkillError):
    """The skill is not the one that was looked at. Look at it again, and decide anew."""

    code = "E_SKILL_CHANGED"


class SkillFile(Data):
    """One file of a skill."""

    path: str
    """Relative to the skill's folder, with `/` between its parts."""
    size: int
    sha256: str
    executable: bool


class SkillTree(Data):
    """All files of a skill, in the order of their paths."""

    files: tuple[SkillFile, ...]

    @field_validator("files")
    @classmethod
    def _are_sorted(cls, files: tuple[SkillFile, ...]) -> tuple[SkillFile, ...]:
        paths = [file.path for file in files]
        if paths != sorted(set(paths)):
            raise ValueError("the files of a tree stand in the order of their paths, each once")
        return files

    @cached_property
    def by_path(self) -> Mapping[str, SkillFile]:
        """The files by their paths."""
        return {file.path: file for file in self.files}

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the tree's canonical bytes, in hexadecimal digits."""
        files = [
            {
                "path": file.path,
                "size": file.size,
                "sha256": file.sha256,
                "executable": file.executable,
            }
            for file in self.files
        ]
        content = canonical_bytes({"skill_tree": 1, "files": files})
        return hashlib.sha256(content).hexdigest()

    @property
    def size(self) -> int:
        """How many bytes all files have together."""
        return sum(file.size for file in self.files)


class TreeDifference(Data):
    """What became of the files of one tree in another."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.changed or self.removed)


def compare_trees(before: SkillTree, after: SkillTree) -> TreeDifference:
    """Which files came, changed and went; a changed executable bit is a change."""
    old, new = before.by_path, after.by_path
    return TreeDifference(
        added=tuple(path for path in new if path not in old),
        changed=tuple(path for path, file in new.items() if path in old and old[path] != file),
        removed=tuple(path for path in old if path not in new),
    )


def read_tree(directory: Path, *, without: Collection[str] = ()) -> SkillTree:
    """All files below the directory, with their digests; raises `SkillTreeRefused` (rules 2 to 4).

    The directory itself may be reached through a link; nothing in it may be one. `without` names
    folders that are no part of it: an installer puts `__pycache__` beside what a package ships.
    Whoever passes over anything has to work on a copy (`copy_tree`).
    """
    files: list[SkillFile] = []
    total = 0
    with opened_root(directory) as root:
        for entry in _entries(root, directory, without):
            file = _read_entry(entry)
            total += file.size
            files.append(file)
            _require(len(files) <= MAX_FILES, f"It holds more than {MAX_FILES} files.")
            _require(
                total <= MAX_TREE_BYTES,
                f"Its files have more than {MAX_TREE_BYTES // 1024**2} MB together.",
            )
    _refuse_twins(file.path for file in files)
    return SkillTree(files=tuple(sorted(files, key=lambda file: file.path)))


def read_file(directory: Path, tree: SkillTree, path: str) -> bytes:
    """The content of one file of the tree; raises `SkillChanged` if it is another one by now."""
    expected = tree.by_path.get(path)
    if expected is None:
        raise SkillTreeRefused(f"The skill holds no file {shown(path, most=200)!r}.")
    try:
        parts = split_path(path)
        with (
            opened_root(directory) as root,
            descend(root, parts[:-1]) as parent,
            _regular(parts[-1], parent) as (descriptor, executable),
        ):
            content = _read(descriptor, limit=expected.size + 1)
    except (OSError, FileRefused) as error:
        raise SkillChanged(f"{path} cannot be read any more. {SkillChanged.sentence()}") from error
    if _described(path, content, executable=executable) != expected:
        raise SkillChanged(f"{path} has changed. {SkillChanged.sentence()}")
    return content


def copy_tree(source: Path, tree: SkillTree, target: Path) -> None:
    """Copy exactly this tree into a new directory, where nobody can write to its files.

    Raises `SkillChanged` if the source is another one by now; then there is no `target`.
    """
    _write_new(
        target,
        ((file, read_file(source, tree, file.path)) for file in tree.files),
        modes=(_READ_ONLY, _READ_ONLY_PROGRAM),
    )


def write_tree(
    target: Path, files: Mapping[str, bytes], *, executable: Iterable[str] = ()
) -> SkillTree:
    """Write files by their paths into a new directory; returns their tree."""
    programs = set(executable)
    described = [
        _described(path, files[path], executable=path in programs) for path in sorted(files)
    ]
    for file in described:
        _check_path(file.path)
    _refuse_twins(file.path for file in described)
    _write_new(
        target,
        ((file, files[file.path]) for file in described),
        modes=(_WRITABLE, _WRITABLE_PROGRAM),
    )
    return SkillTree(files=tuple(described))


def _write_new(
    target: Path, files: Iterable[tuple[SkillFile, bytes]], *, modes: tuple[int, int]
) -> None:
    partial = target.with_name(f".{target.name}.{secrets.token_hex(6)}.partial")
    partial.mkdir(mode=_PRIVATE_DIRECTORY)
    try:
        for file, content in files:
            parts = split_path(file.path)
            with descend(partial, parts[:-1], make=_make_directory) as parent:
                put_file(parent, parts[-1], content, mode=modes[file.executable])
        _move_in(partial, target)
    except BaseException:
        remove_tree(partial)
        raise


def _move_in(partial: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise SkillTreeRefused(f"{target} is there already. Choose another name.")
    partial.rename(target)


def _make_directory(part: str, directory: int) -> None:
    try:
        os.mkdir(part, _PRIVATE_DIRECTORY, dir_fd=directory)
    except FileExistsError:
        return


@contextmanager
def opened_root(directory: Path) -> Iterator[int]:
    """The folder, open for reading; raises `SkillTreeRefused`."""
    try:
        # Only the last step may be a link: what the owner named is what is read.
        root = os.open(directory, DIRECTORY & ~os.O_NOFOLLOW)
    except OSError as error:
        raise SkillTreeRefused(
            f"{directory} cannot be read ({error.strerror}). Name the folder of a skill."
        ) from error
    try:
        yield root
    finally:
        os.close(root)


def _entries(root: int, directory: Path, without: Collection[str]) -> Iterator[Entry]:
    """The regular files; raises for whatever else is there."""
    try:
        for entry in walk(root, enter=lambda each: each.name not in without):
            if entry.name in without:
                continue
            _require(entry.depth < MAX_DEPTH, f"Its folders are more than {MAX_DEPTH} deep.")
            _check_path(entry.path)
            if entry.is_directory:
                continue
            if not stat.S_ISREG(entry.status.st_mode):
                kind = "a link" if stat.S_ISLNK(entry.status.st_mode) else "no regular file"
                raise SkillTreeRefused(
                    f"{shown(entry.path, most=200)} is {kind}. A skill consists of plain files."
                )
            yield entry
    except OSError as error:
        raise SkillTreeRefused(
            f"{directory} cannot be read to its end ({error.filename}: {error.strerror})."
        ) from error


def _read_entry(entry: Entry) -> SkillFile:
    path = entry.path
    try:
        with _regular(entry.name, entry.directory) as (descriptor, executable):
            content = _read(descriptor, limit=MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SkillTreeRefused(
            f"{shown(path, most=200)} cannot be read ({error.strerror})."
        ) from error
    megabytes = MAX_FILE_BYTES // 1024**2
    _require(len(content) <= MAX_FILE_BYTES, f"{path} has more than {megabytes} MB.")
    return _described(path, content, executable=executable)


@contextmanager
def _regular(name: str, directory: int) -> Iterator[tuple[int, bool]]:
    """The file, open, and whether it can be executed."""
    descriptor = os.open(name, READ, dir_fd=directory)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise SkillTreeRefused(f"{shown(name, most=200)} is no regular file.")
        yield descriptor, bool(mode & stat.S_IXUSR)
    finally:
        os.close(descriptor)


def _read(descriptor: int, *, limit: int) -> bytes:
    pieces = []
    while limit > 0 and (piece := os.read(descriptor, min(limit, _PIECE_BYTES))):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


def _described(path: str, content: bytes, *, executable: bool) -> SkillFile:
    digest = hashlib.sha256(content).hexdigest()
    return SkillFile(path=path, size=len(content), sha256=digest, executable=executable)


def path_problem(path: str) -> str | None:
    """What is wrong with the name of a file (rule 3), or None."""
    if not path.isascii():
        if not is_text(path):
            return "its name is not UTF-8"
        if unicodedata.normalize("NFC", path) != path:
            return "its name is not in the composed form of Unicode (NFC)"
    if not path.isprintable() or "\\" in path:
        return "its name holds a character that is not printable, or a backslash"
    if len(path.encode()) > MAX_PATH_BYTES:
        return f"its path has more than {MAX_PATH_BYTES} bytes"
    return None


def _check_path(path: str) -> None:
    problem = path_problem(path)
    if problem is not None:
        raise SkillTreeRefused(f"{shown(path, most=200)}: {problem}. Rename it, and try again.")


def _refuse_twins(paths: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for path in paths:
        # Directories count as well: `Scripts/a` and `scripts/b` are one directory elsewhere.
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            spelled = "/".join(parts[:end])
            before = seen.setdefault(spelled.casefold(), spelled)
            if before != spelled:
                raise SkillTreeRefused(
                    f"{before} and {spelled} differ in upper and lower case alone. Rename one."
                )


def _require(fits: bool, sentence: str) -> None:
    if not fits:
        raise SkillTreeRefused(f"{sentence} A skill is smaller than that: leave data out of it.")


# Folders of strangers


def find_skill(directory: Path) -> Path:
    """The folder with the `SKILL.md`: this one, or the only one below it."""
    found = sorted(
        path.parent
        for depth in range(4)
        for path in directory.glob("*/" * depth + "*.md")
        if path.name.lower() == _SKILL_FILE.lower() and not path.is_symlink()
    )
    if directory in found or len(found) == 1:
        return directory if directory in found else found[0]
    if not found:
        raise SkillTreeRefused(f"{directory} holds no {_SKILL_FILE}. Name the folder of a skill.")
    names = ", ".join(shown(str(each.relative_to(directory)), most=80) for each in found[:10])
    raise SkillTreeRefused(f"{directory} holds several skills: {names}. Name one of them.")


def plain_files(
    directory: Path, *, without: Collection[str] = ()
) -> Iterator[tuple[str, bytes | str, bool]]:
    """Every file below a folder that nobody has checked: its path, its content, is it executable.

    What is no plain file, or too large, has no content but the reason. Folders and files with names
    in `without` are passed over.
    """
    with opened_root(directory) as root:
        entered = walk(root, enter=lambda each: each.depth < MAX_DEPTH and each.name not in without)
        for entry in entered:
            if entry.is_directory or entry.name in without:
                continue
            if not stat.S_ISREG(entry.status.st_mode):
                yield entry.path, "a skill consists of plain files", False
                continue
            with _regular(entry.name, entry.directory) as (descriptor, _executable):
                raw = _read(descriptor, limit=MAX_FILE_BYTES + 1)
            large = len(raw) > MAX_FILE_BYTES
            content = "it is too large for a skill" if large else raw
            yield entry.path, content, bool(entry.status.st_mode & stat.S_IXUSR)


# Archives (rule 6)


def unpack_archive(archive: Path, into: Path) -> Path:
    """Unpack a zip or tar archive into a new folder; raises `SkillTreeRefused` for anything odd."""
    try:
        members = dict(_members(archive))
    except (zipfile.BadZipFile, tarfile.TarError, OSError, EOFError, NotImplementedError) as error:
        raise SkillTreeRefused(
            f"{archive} is no archive that can be read ({error}). Give a zip or tar file."
        ) from error
    files = {path: content for path, (content, _executable) in members.items()}
    programs = [path for path, (_content, executable) in members.items() if executable]
    write_tree(into, files, executable=programs)
    read_tree(into)
    return into


def _members(archive: Path) -> Iterator[tuple[str, tuple[bytes, bool]]]:
    if archive.stat().st_size > MAX_TREE_BYTES:
        raise SkillTreeRefused(f"{archive} is too large for a skill.")
    raw = io.BytesIO(archive.read_bytes())
    found = _zip_members(raw) if zipfile.is_zipfile(raw) else _tar_members(raw)
    seen: set[str] = set()
    total = 0
    for name, content, executable in found:
        path = _member_path(name)
        if path in seen:
            raise SkillTreeRefused(f"{shown(name, most=100)} stands twice in the archive.")
        seen.add(path)
        total += len(content)
        if len(seen) > MAX_FILES or total > MAX_TREE_BYTES:
            raise SkillTreeRefused("The archive holds too much for a skill.")
        yield path, (content, executable)


def _member_path(name: str) -> str:
    path = name.removeprefix("./")
    parts = path.split("/")
    if (
        path_problem(path)
        or path.startswith("/")
        or ":" in parts[0]
        or {"", ".", ".."} & set(parts)
    ):
        raise SkillTreeRefused(f"The archive holds the name {shown(name, most=100)!r}.")
    return path


def _zip_members(raw: io.BytesIO) -> Iterator[tuple[str, bytes, bool]]:
    with zipfile.ZipFile(raw) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            if member.is_dir():
                continue
            if member.flag_bits & 1:
                raise SkillTreeRefused("The archive has a password: nobody could look into it.")
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise SkillTreeRefused(f"{shown(member.filename, most=100)} is no plain file.")
            if member.file_size > MAX_FILE_BYTES:
                raise SkillTreeRefused(f"{shown(member.filename, most=100)} is too large.")
            with archive.open(member) as file:
                content = file.read(MAX_FILE_BYTES + 1)
            yield member.filename, content[: MAX_FILE_BYTES + 1], bool(mode & stat.S_IXUSR)


def _tar_members(raw: io.BytesIO) -> Iterator[tuple[str, bytes, bool]]:
    raw.seek(0)
    with tarfile.open(fileobj=raw, mode="r:*") as archive:
        for member in archive:
            if member.isdir():
                continue
            file = archive.extractfile(member) if member.isreg() else None
            if file is None:
                raise SkillTreeRefused(f"{shown(member.name, most=100)} is no plain file.")
            if member.size > MAX_FILE_BYTES:
                raise SkillTreeRefused(f"{shown(member.name, most=100)} is too large.")
            yield member.name, file.read(), bool(member.mode & stat.S_IXUSR)
