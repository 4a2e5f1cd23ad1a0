"""Reading in opened places: what the answering role has to look at the owner's files.

1. Three tools, which list a folder, read a part of a text file, and find words in files. They are
   there for the owner alone, and see what is open (`silas.stream.places`) and nothing else.
2. A path is read as it is on the disk, with every link followed, before it is held against the
   places. The file is then reached from the place by descriptors that follow no link: what is put
   in the way meanwhile is refused (`silas.tools.tree`).
3. Whose text it is, is judged by the very bytes that were read, whatever stands there a moment
   later. Only files that something is shown of count.
4. If the owner's own words name what is not open, that is noted (`wish`), and the runtime asks.
   For every other path there is only a refusal.
5. There is little of each: so many names, lines and characters, and a sentence where there is more.
"""

import asyncio
import contextlib
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, NamedTuple

from pydantic import Field

from silas.kernel import Provenance, TaintLevel, external
from silas.kernel.models import Data
from silas.kernel.taint import OWNERS
from silas.storage.trees import is_text, shown
from silas.stream.errors import PlaceRefused
from silas.stream.folders import whole_path
from silas.stream.places import OpenedPlace, OpenedPlaces, PlaceKind, PlaceWish, is_secret_name
from silas.stream.reading_tools import ReadingTool, answered_view, refused_view
from silas.tools.execution import ModelView
from silas.tools.files import MAX_FILES, NOT_ARTIFACTS, ReadText, find_lines, read_text
from silas.tools.tree import FileRefused, Tree, TreeEntry
from silas.work.origins import OriginStore

_MOST_NAMES, _MOST_IN_FOLDER = 200, 100_000
_MOST_LINES, _MOST_CHARS = 400, 16_000
_MOST_FOUND, _MOST_SEARCHED = 50, 5_000
_COUNTED_BYTES = 10_000
"""Up to here, people read the number itself."""
_KINDS = (
    (stat.S_ISLNK, "a link, which is not followed"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)
Named = Annotated[str, Field(min_length=1, max_length=1024)]


class FolderArguments(Data):
    """Which folder."""

    path: Named


class FileArguments(Data):
    """Which file, and which lines of it (counted from 1)."""

    path: Named
    first_line: int = Field(default=1, ge=1)
    max_lines: int = Field(default=200, ge=1, le=_MOST_LINES)


class WordsArguments(Data):
    """Which words, in capitals or not, and in which folder or file."""

    text: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\r\n]*$")]
    path: Named


class Spot(NamedTuple):
    """Something in a place: a folder, or a file in it; neither path has a link in it."""

    folder: Path
    name: str
    """Of the file; empty for the folder itself."""
    place: Path
    """The folder from which whose text it is, is judged."""
    shown: str
    """The path as people write it."""


class _Seen(NamedTuple):
    """What a look gave, and what was read for it, by name; None where only the name is shown."""

    text: str
    read: dict[str, ReadText | None]


@dataclass
class PlaceReader:
    """What one answer may read. It is the owner's words that were `named`."""

    places: OpenedPlaces
    opened: Sequence[OpenedPlace]
    named: Sequence[Path]
    here: Path | None
    """Where the words were said, or the folder that was picked: what relative names mean first."""
    origins: OriginStore | None
    wish: PlaceWish | None = None
    """What the owner is to be asked about."""
    read: list[str] = field(default_factory=list)
    """The files that something was shown of."""

    @property
    def tools(self) -> list[ReadingTool]:
        """The tools (rule 1)."""
        where = ", ".join(each.path for each in self.opened) or "nothing yet"
        known = (
            f"Open to you: {where}. Other paths only if the request names them: the owner is then "
            "asked. Write whole paths, or ~."
        )
        listing = f"List what is in a folder of the owner's. {known}"
        reading = f"Read a part of a text file of the owner's. {known}"
        finding = f"Find words in the text files of a folder of the owner's. {known}"
        return [
            _tool("list_folder", listing, FolderArguments, self.list_folder),
            _tool("read_file", reading, FileArguments, self.read_file),
            _tool("find_text", finding, WordsArguments, self.find_text),
        ]

    async def list_folder(self, args: FolderArguments) -> ModelView:
        """The names in a folder."""
        return await self._look(args.path, _list, kind=PlaceKind.FOLDER)

    async def read_file(self, args: FileArguments) -> ModelView:
        """Some lines of a file."""

        def read(tree: Tree, spot: Spot) -> _Seen:
            return _read(tree, spot, first=args.first_line, most=args.max_lines)

        return await self._look(args.path, read, kind=PlaceKind.FILE)

    async def find_text(self, args: WordsArguments) -> ModelView:
        """The lines with these words."""

        def find(tree: Tree, spot: Spot) -> _Seen:
            return _find(tree, spot, args.text)

        return await self._look(args.path, find, kind=None)

    async def _look(
        self, said: str, look: Callable[[Tree, Spot], _Seen], *, kind: PlaceKind | None
    ) -> ModelView:
        def inside() -> tuple[Spot, _Seen]:
            spot = self.spot_of(said)
            _require_kind(spot, kind)
            with Tree.open(spot.folder) as tree:
                return spot, look(tree, spot)

        try:
            spot, seen = await asyncio.to_thread(inside)
        except (FileRefused, PlaceRefused) as error:
            return refused_view(error.message, taint=TaintLevel.OWNER)
        found = await self._whose(spot, seen.read)
        self.read += [str(spot.folder / name) for name, read in seen.read.items() if read]
        return answered_view(seen.text, taint=found.taint, sources=found.sources)

    async def _whose(self, spot: Spot, seen: Mapping[str, ReadText | None]) -> Provenance:
        """Rule 3; without a record of origins, everything is a stranger's."""
        if self.origins is None:
            return external(*(f"the file {name}" for name in seen))
        inside = spot.folder.relative_to(spot.place)
        read = {str(inside / name): each for name, each in seen.items()}
        foreign = await self.origins.foreign_files(
            str(spot.place),
            {name: each.sha256 if each else "" for name, each in read.items()},
            sizes={name: each.size for name, each in read.items() if each},
        )
        return external(*foreign.values()) if foreign else OWNERS

    async def first_closed(self) -> PlaceWish | None:
        """What the owner is to be asked about, of what the words name; None if all of it is open.

        For whoever has no tools, and is shown what the words name.
        """

        def look() -> None:
            for path in self.named:
                with contextlib.suppress(PlaceRefused):
                    self.spot_of(str(path))

        await asyncio.to_thread(look)
        return self.wish

    def spot_of(self, said: str) -> Spot:
        """What a name means, if it is in a place; raises `PlaceRefused`. Looks at the disk."""
        if ".." in PurePosixPath(said).parts or "\x00" in said:
            raise PlaceRefused(f"{shown(said)}: write the path without `..`.")
        real = self._on_disk(said)
        place = next((each for each in self.opened if each.holds(real)), None)
        if place is None:
            raise self._refusal(said, real)
        self.places.require_readable(real)
        if not real.exists():
            raise PlaceRefused(f"There is no {self.places.shown(real)}.")
        root = Path(place.path) if place.kind is PlaceKind.FOLDER else real.parent
        if real.is_dir() and place.kind is PlaceKind.FOLDER:
            return Spot(real, "", root, self.places.shown(real))
        return Spot(real.parent, real.name, root, self.places.shown(real))

    def _on_disk(self, said: str) -> Path:
        """The path with every link followed (rule 2); of a relative one, the first that exists."""
        around = self.places.around
        folders = [Path(each.path) for each in self.opened if each.kind is PlaceKind.FOLDER]
        starts: list[Path | None] = [*([self.here] if self.here else []), *folders]
        paths = [whole_path(said, around, here=start) for start in starts or [None]]
        try:
            found = [each.resolve() for each in dict.fromkeys(paths) if each is not None]
            real = next((each for each in found if each.exists()), found[0] if found else None)
        except (OSError, RuntimeError) as error:
            raise PlaceRefused(f"{shown(said)} cannot be looked at.") from error
        if real is None:
            raise PlaceRefused(f"{shown(said)}: say where it is, with its whole path.")
        return real

    def _refusal(self, said: str, real: Path) -> PlaceRefused:
        """Rule 4; what is never read is said to be so to everybody."""
        try:
            wish = self.places.wish_for(real)
        except PlaceRefused as error:
            return error
        if not any(real == each or real.is_relative_to(each) for each in self.named):
            known = ", ".join(self.places.shown(Path(each.path)) for each in self.opened)
            told = f" What it may read: {known}." if known else ""
            return PlaceRefused(
                f"Silas may not read {shown(said)}, and the request does not name it.{told}"
            )
        if not real.exists():
            return PlaceRefused(f"There is no {self.places.shown(real)}.")
        self.wish = self.wish or wish
        return PlaceRefused(f"{self.places.shown(real)} is not open to Silas yet: you are asked.")


def _tool(name: str, told: str, arguments: type[Data], run: Callable[..., object]) -> ReadingTool:
    return ReadingTool(name, told, arguments, run, contained=True, private=True)  # type: ignore[arg-type]


def _require_kind(spot: Spot, kind: PlaceKind | None) -> None:
    if kind is PlaceKind.FOLDER and spot.name:
        raise PlaceRefused(f"{spot.shown} is no folder.")
    if kind is PlaceKind.FILE and not spot.name:
        raise PlaceRefused(f"{spot.shown} is a folder, and no file.")


def _list(tree: Tree, spot: Spot) -> _Seen:
    entries = tree.entries(limit=_MOST_IN_FOLDER)
    folders = sum(stat.S_ISDIR(each.mode) for each in entries)
    counts = {"file": len(entries) - folders, "folder": folders}
    told = [_counted(count, what) for what, count in counts.items() if count]
    lines = [f"{spot.shown} has {' and '.join(told)}" if told else f"{spot.shown} is empty"]
    lines += [_entry_line(each) for each in entries[:_MOST_NAMES]]
    if len(entries) > _MOST_NAMES:
        lines.append(f"[{len(entries) - _MOST_NAMES} more are left out]")
    names = [each.name for each in entries[:_MOST_NAMES] if is_text(each.name)]
    return _Seen("\n".join(lines), dict.fromkeys(names))


def _entry_line(entry: TreeEntry) -> str:
    name = shown(entry.name)
    if stat.S_ISDIR(entry.mode):
        return f"{name}/"
    other = next((words for test, words in _KINDS if test(entry.mode)), None)
    return f"{name} ({other or _size(entry.size)})"


def _read(tree: Tree, spot: Spot, *, first: int, most: int) -> _Seen:
    read = read_text(tree, spot.name)
    lines = read.text.splitlines()
    name = spot.shown
    if not lines:
        return _Seen(f"{name} is empty.", {spot.name: read})
    if first > len(lines):
        raise PlaceRefused(f"{name} has {_counted(len(lines), 'line')}.")
    part: list[str] = []
    services = _MOST_CHARS
    for line in lines[first - 1 : first - 1 + most]:
        if part and len(line) > services:
            break
        part.append(line if len(line) <= services else f"{line[:services]}[the line goes on]")
        services -= len(part[-1]) + 1
    last = first - 1 + len(part)
    head = f"{name}, lines {first} to {last} of {len(lines)}:"
    return _Seen("\n".join([head, *part]), {spot.name: read})


def _find(tree: Tree, spot: Spot, text: str) -> _Seen:
    names, left_out = _searched(tree, spot)
    lines: list[str] = []
    read: dict[str, ReadText | None] = {}
    notes = [f"[{_counted(left_out, 'file')} more were not looked at]"] if left_out else []
    for each in find_lines(tree, names, f"(?i){re.escape(text)}"):
        if len(lines) == _MOST_FOUND:
            notes.insert(0, f"[there are more than {_MOST_FOUND} lines]")
            break
        lines.append(f"{shown(each.name)}:{each.number}: {each.line}")
        read[each.name] = each.read
    head = f"{_counted(len(lines), 'line')} in {_counted(len(read), 'file')} of {spot.shown}:"
    if not lines:
        head = f"“{shown(text)}” is in no text file of {spot.shown}."
    return _Seen("\n".join([head, *lines, *notes]), read)


def _searched(tree: Tree, spot: Spot) -> tuple[list[str], int]:
    """The files to look into, without what holds keys, and how many are left out."""
    if spot.name:
        return [spot.name], 0
    found = [
        name
        for name in tree.listing(skip=NOT_ARTIFACTS, limit=MAX_FILES).files
        if not any(map(is_secret_name, name.split("/")))
    ]
    return found[:_MOST_SEARCHED], max(0, len(found) - _MOST_SEARCHED)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _size(count: int) -> str:
    if count < _COUNTED_BYTES:
        return _counted(count, "byte")
    thousands = count // 1000
    return f"{thousands} kB" if thousands < _COUNTED_BYTES else f"{thousands // 1000} MB"
