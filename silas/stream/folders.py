"""The folders that a request is about: where its work lands, and what research may read.

1. Only the owner's own words choose a folder. A visitor's request has none. Nor do words that the
   owner shows: lines that begin with `>`, text between fences, and what is in quotation marks,
   unless it is a path and nothing else.
2. `base` is the folder that was picked with the message; else the one in which it was said, if that
   is a repository or the words speak of it ("this repo", "here"); else the owner's workspace.
3. `named` are the folders that the words name: whole paths, `~`, or relative to where it was said.
   A file stands for the folder that holds it, and what is not there yet for the folder above it.
4. A folder inside a repository stands for the repository.
5. What is off limits is no folder of a request. If the owner has picked it, the reason is said
   (`note`); words that look like such a path may be about anything.

`look_at_named` looks at what a request names, for a planner that cannot ask for it:

1. Only what research could read, and in the same way: the folders of the owner's own request, the
   same tools, with their gates and their taint. Whoever has asked for no folder is shown none.
2. Of the folders that the words name, the names of their files, and which command runs the tests
   among them; of the files that the words name, what they hold. No other file is looked at, so that
   no other file taints the plan.
3. Little of each: a model that needs this reads slowly.
"""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from silas.kernel import Provenance
from silas.queue.models import RequestFolders
from silas.stream.ports import Finding
from silas.stream.reading_tools import ReadingTools
from silas.tools.tree import FileRefused
from silas.work.off_limits import OffLimits

_MOST_NAMED = 5
_MOST_WORDS = 400
_LONGEST_PATH = 1024
_SHOWN = re.compile(
    r"^[ \t]*(?P<fence>```+|~~~+).*?(?:^[ \t]*(?P=fence)|\Z)|^[ \t]*>[^\n]*",
    re.MULTILINE | re.DOTALL,
)
_QUOTED = re.compile(r"`(?P<code>[^`\n]+)`|[\"“](?P<said>[^\"“”]*)[\"”]")
_SPOKEN_OF = re.compile(
    r"\b(?:this|the current)\s+(?:git\s+)?(?:repo(?:sitory)?|project|folder|director(?:y|ies)|"
    r"code(?:base)?|package)\b|\bhere\b",
    re.IGNORECASE,
)
_PLACE_WORDS = frozenset(
    {"in", "into", "inside", "from", "below", "under", "folder", "directory", "repo", "repository"}
)
_WORD = re.compile(r"\S+")
_NO_PATH = frozenset("\x00\n")
_ENDS = ".,;:!?)]}'"
_MOST_FILES, _MOST_LINES, _MOST_CHARS, _MOST_NAMES = 3, 120, 3_000, 30
_SPOKEN = re.compile(r"[^\s`\"'“”<>|*?]+")
_AROUND = "([{}]),;:!?"


_PYTHON_TEST = re.compile(r"(test_\w+|\w+_test)\.py")


@dataclass(frozen=True)
class Surroundings:
    """What a path in a request is read against."""

    home: Path
    off_limits: OffLimits
    workspace: Path | None = None
    """Where requests without a folder of their own work."""


def folders_of(
    text: str, around: Surroundings, *, picked: str | None = None, said_in: str | None = None
) -> RequestFolders:
    """The folders of a request of the owner's; looks at the disk."""
    text = _SHOWN.sub(_blank, text)
    here = _usable(whole_path(said_in, around), around) if said_in else None
    base, note = _base(text, around, picked=picked, here=here)
    named: list[Path] = []
    for path in _paths_in(text, around, here):
        found = _usable(path, around)
        if found is not None and found not in named:
            named.append(found)
    known = [*named[:_MOST_NAMED], *([base] if base else []), *([here] if here else [])]
    return RequestFolders(
        base=str(base) if base else None,
        named=[str(path) for path in named[:_MOST_NAMED]],
        said_in=str(here) if here and here != base else None,
        repositories=[str(path) for path in dict.fromkeys(known) if (path / ".git").exists()],
        note=note,
    )


def paths_named(text: str, around: Surroundings, *, said_in: str | None = None) -> list[Path]:
    """The paths that the owner's own words name (rules 1 and 3), as they are on the disk."""
    here = whole_path(said_in, around) if said_in else None
    text = _SHOWN.sub(_blank, text)
    found = []
    for path in _paths_in(text, around, here):
        with contextlib.suppress(OSError, RuntimeError):
            found.append(path.resolve())
    return list(dict.fromkeys(found))[:_MOST_NAMED]


def folder_for_reading(name: str, around: Surroundings) -> Path:
    """The folder with this name, if work may happen there; raises `FileRefused`."""
    path = whole_path(name, around)
    if path is None or not path.is_dir():
        raise FileRefused(f"{name} is no folder here. Name one that is there, with its whole path.")
    around.off_limits.require_allowed(path)
    return path


def _base(
    text: str, around: Surroundings, *, picked: str | None, here: Path | None
) -> tuple[Path | None, str]:
    """Rule 2."""
    if picked is not None:
        try:
            return repository_of(folder_for_reading(picked, around), around), ""
        except FileRefused as error:
            return around.workspace, error.message
    if here is not None and ((here / ".git").exists() or _SPOKEN_OF.search(text)):
        return here, ""
    return around.workspace, ""


def _paths_in(text: str, around: Surroundings, here: Path | None) -> Iterator[Path]:
    """What the words name, in their order; each is there, or the folder above it is."""
    quoted = [
        (found.start(), (found["code"] or found["said"] or "").strip(), "")
        for found in _QUOTED.finditer(text)
    ]
    plain = list(_WORD.finditer(_QUOTED.sub(_blank, text)))[:_MOST_WORDS]
    before = ["", *(found[0].casefold() for found in plain)]
    words = [each for each in quoted if " " not in each[1] or _is_whole(each[1])]
    words += [
        (found.start(), found[0].strip("([{").rstrip(_ENDS), last)
        for found, last in zip(plain, before, strict=False)
    ]
    for _, word, last in sorted(words):
        path = whole_path(word, around, here=here) if _looks_like_path(word, last) else None
        if path is not None and (_is_whole(word) or path.exists()):
            yield path


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _looks_like_path(word: str, last: str) -> bool:
    if not word or len(word) > _LONGEST_PATH or "://" in word or _NO_PATH & set(word):
        return False
    return _is_whole(word) or "/" in word or "." in word[1:-1] or last in _PLACE_WORDS


def _is_whole(word: str) -> bool:
    """Whether it says where it is by itself."""
    return len(word) > 1 and (word.startswith(("/", "~/")))


def whole_path(name: str | None, around: Surroundings, *, here: Path | None = None) -> Path | None:
    """The path that a name means; None for a relative one that nothing says the place of."""
    if not name or len(name) > _LONGEST_PATH or "\x00" in name:
        return None
    if name == "~" or name.startswith("~/"):
        return around.home / name[2:]
    path = Path(name)
    if path.is_absolute():
        return path
    return here / path if here is not None else None


def _usable(path: Path | None, around: Surroundings) -> Path | None:
    """The folder that a path stands for (rules 3 to 5); None if it stands for none."""
    if path is None:
        return None
    try:
        folder = path.resolve()
        while not folder.is_dir():
            folder = folder.parent
        around.off_limits.require_allowed(folder)
        return repository_of(folder, around)
    except (OSError, RuntimeError, FileRefused):
        return None


def repository_of(folder: Path, around: Surroundings) -> Path:
    """Rule 4; the folder itself if it is in no repository where work may happen."""
    for each in (folder, *folder.parents):
        if (each / ".git").exists():
            try:
                around.off_limits.require_allowed(each)
            except FileRefused:
                return folder
            return each
    return folder


@dataclass(frozen=True)
class Look:
    """What was seen, and whose words it was."""

    findings: tuple[Finding, ...]
    provenance: Provenance


async def look_at_named(text: str, folders: RequestFolders, tools: ReadingTools) -> Look:
    """What the folders and files that a request names hold."""
    findings = []
    for folder in folders.named[:1] if "glob" in tools.names else ():
        seen = await tools.call("glob", {"pattern": f"{folder}/**"})
        names = seen.return_value.splitlines()
        told = "\n".join(names[:_MOST_NAMES])
        findings.append(_finding(f"Which files are in {folder}?", told, folder, seen.success))
        if command := _test_command(names):
            findings.append(_finding("Which command runs its tests?", command, folder, ok=True))
    named = await asyncio.to_thread(lambda: list(_files_named(text, folders)))
    for path in named[:_MOST_FILES] if "read_file" in tools.names else ():
        seen = await tools.call("read_file", {"path": str(path), "max_lines": _MOST_LINES})
        held = seen.return_value[:_MOST_CHARS] if seen.success else seen.error or ""
        findings.append(_finding(f"What does {path.name} hold?", held, str(path), seen.success))
    return Look(tuple(findings), Provenance(tools.taint, tools.sources))


def _test_command(names: list[str]) -> str:
    """What runs the tests of a folder, if that can be told from the names of its files."""
    tests = [match[1] for name in names if (match := _PYTHON_TEST.fullmatch(name))]
    return f"python3 -m unittest {' '.join(tests[:_MOST_FILES])}" if tests else ""


def _finding(question: str, answer: str, source: str, ok: bool) -> Finding:
    return Finding(question=question, answer=answer, ok=ok, sources=[source])


def _files_named(text: str, folders: RequestFolders) -> Iterator[Path]:
    """The files below the folders that the words name; looks at the disk."""
    found: set[Path] = set()
    for word in _SPOKEN.findall(text):
        name = word.strip(_AROUND).removesuffix(".").removesuffix("'s")
        path = _file_at(name, folders.readable) if 0 < len(name) <= _LONGEST_PATH else None
        if path is not None and path not in found:
            found.add(path)
            yield path


def _file_at(name: str, readable: list[str]) -> Path | None:
    for folder in map(Path, readable):
        try:
            path = Path(name).expanduser() if name.startswith("~/") else folder / name
            below = path.is_relative_to(folder) and ".." not in path.parts
            if below and path.is_file() and not path.is_symlink():
                return path
        except (OSError, RuntimeError, ValueError):
            continue
    return None
