"""Looks for a file where one may look: inside permitted directories, behind all links."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from silas.gates.expectations import check_path

OUTSIDE = "Path outside permitted directories"
NOT_FOUND = "File not found"


class FileRefused(Exception):
    """There is no such file, or not where one may look."""


def permitted_file(path: str, directories: Sequence[Path], *, work_dir: Any = None) -> int:
    """The size of a regular file; raises `FileRefused`.

    A relative path is looked up in `work_dir`, if that lies inside a permitted directory, and
    otherwise in the directories themselves.
    """
    try:
        check_path(path)
        os.fsencode(path)
    except ValueError:
        raise FileRefused(OUTSIDE) from None
    places = [Path(os.path.realpath(each)) for each in directories]
    seen = False
    for place in _candidates(path, places, work_dir):
        if not _is_inside(place, places):
            continue
        seen = True
        size = _size(place)
        if size is not None:
            return size
    raise FileRefused(NOT_FOUND if seen else OUTSIDE)


def _candidates(path: str, places: Sequence[Path], work_dir: Any) -> Iterator[Path]:
    starts = list(places)
    if isinstance(work_dir, str) and work_dir.startswith("/"):
        start = Path(os.path.realpath(work_dir))
        if _is_inside(start, places):
            starts = [start]
    for start in [Path("/")] if path.startswith("/") else starts:
        yield Path(os.path.realpath(start / path))


def _is_inside(path: Path, places: Sequence[Path]) -> bool:
    return any(path == place or place in path.parents for place in places)


def _size(path: Path) -> int | None:
    try:
        found = path.lstat()
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None
