"""A unified diff as edits: each hunk is a passage that must be there, and what replaces it."""

import re
from collections.abc import Iterator
from itertools import pairwise

from silas.work.offline_script import EditStep, FileStep

_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@.*")
_NOTHING = "/dev/null"


class PatchInvalid(ValueError):
    """The patch cannot be turned into edits; the text says why."""


def read_patch(text: str) -> list[EditStep | FileStep]:
    """The steps of a patch, in order; raises `PatchInvalid`."""
    steps = [step for old, new, hunks in _files(text) for step in _steps(old, new, hunks)]
    if not steps:
        raise PatchInvalid("it has no hunk: lines `--- a/NAME`, `+++ b/NAME`, `@@ … @@`")
    return steps


def _files(text: str) -> Iterator[tuple[str, str, list[list[str]]]]:
    """Old name, new name and hunks of each file."""
    lines = text.splitlines()
    starts = [
        number
        for number, line in enumerate(lines[:-1])
        if line.startswith("--- ") and lines[number + 1].startswith("+++ ")
    ]
    for start, end in pairwise([*starts, len(lines)]):
        hunks: list[list[str]] = []
        for line in lines[start + 2 : end]:
            if _HUNK.fullmatch(line):
                hunks.append([])
            elif hunks and (line[:1] in " +-" or not line):
                hunks[-1].append(line or " ")
        yield _name(lines[start]), _name(lines[start + 1]), hunks


def _name(line: str) -> str:
    name = line[4:].split("\t", maxsplit=1)[0].strip()
    return name[2:] if name[:2] in ("a/", "b/") else name


def _steps(old: str, new: str, hunks: list[list[str]]) -> Iterator[EditStep | FileStep]:
    if new == _NOTHING:
        raise PatchInvalid(f"it removes {old}; only changes and new files are understood")
    if old == _NOTHING:
        yield FileStep(new, "".join(f"{line[1:]}\n" for hunk in hunks for line in hunk))
        return
    if old != new:
        raise PatchInvalid(f"it renames {old}; only changes and new files are understood")
    for hunk in hunks:
        before = "\n".join(line[1:] for line in hunk if line[0] in " -")
        after = "\n".join(line[1:] for line in hunk if line[0] in " +")
        if not before:
            raise PatchInvalid(f"a hunk of {new} has no line that is there already")
        yield EditStep(new, before, after)
