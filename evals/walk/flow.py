"""Keeps `docs/flow.md` true.

The document tells each way as a numbered list of steps, `file: function` with a sentence; a
heading that ends with the name of a walk in backquotes begins such a list:

    ## A message becomes an answer `message`

    1. `silas/web/socket.py: _receive`: A frame comes in.

It is true if every function that it names is called on that way, for the first time in this order.
Functions move between files more often than they change; `mended` follows them, and puts steps
into the order in which they happen. What has another name now, a person looks for.

`with_figures` writes the figures of today into the tables of `docs/architecture.md`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from evals.walk.ways import Step, Walk, before_start

DOCUMENT = Path("docs/flow.md")
FIGURES = Path("docs/architecture.md")
_ROWS = {
    "code lines (no blank lines, comments, docstrings)": "code lines",
    "of these under 120 lines": "thin modules",
    "public class names with two meanings": "reused names",
    "imports by string, but for commands": "imports by string",
    "comment lines, % of lines": "comment lines, %",
    "docstring lines, % of lines": "docstring lines, %",
    "questions whether a signature is right": "signature questions",
    "examinations of the audit log": "examinations of the log",
    "message to answer": "message",
    "decision to checked command": "decision",
    "change of the journal to report": "change",
    "memory stored": "stored",
    "memory recalled": "recalled",
}
"""What a row of the tables is called, where that is not the figure's name."""
_OF_A_WAY = ("calls", "files", "functions per visit")
_HEADING = re.compile(r"^#+ .*`(\w+)`$")
_STEP = re.compile(r"^(\d+)\. `([\w/]+\.py): ([\w.]+)`(.*)$", re.DOTALL)


def problems(text: str, walks: Sequence[Walk]) -> list[str]:
    """What the document says and the walks do not; every walk must be told."""
    known, told, found = _places(walks), set[str](), list[str]()
    for way, steps in _lists(text):
        if way not in known:
            found.append(f"`{way}` is no way that is walked.")
            continue
        told.add(way)
        last = -1
        for _, file, name, _ in steps:
            place = known[way].get((file, name))
            if place is None:
                found.append(f"{way}: {file}: {name} is not called on this way.")
            elif place < last:
                found.append(f"{way}: {file}: {name} is called before the step above it.")
            last = last if place is None else place
    return [*found, *(f"{way}: no list of steps." for way in known if way not in told)]


def mended(text: str, walks: Sequence[Walk]) -> str:
    """The document with functions where they are now, and steps in the order of the walk."""
    known = _places(walks)
    blocks = []
    for way, lines in _blocks(text):
        if way in known:
            lines = _mended(lines, known[way])  # noqa: PLW2901 - the same block, mended
        blocks.append("".join(lines))
    return "".join(blocks)


def with_figures(text: str, figures: Mapping[str, float], walks: Sequence[Walk]) -> str:
    """The document with the figures of today in its columns *now*."""
    ways = {walk.name: [f"{walk.figures()[name]:,}" for name in _OF_A_WAY] for walk in walks}
    alone = {name: [f"{value:,}"] for name, value in {**figures, **before_start(walks)}.items()}
    return "".join(_with_figure(line, {**alone, **ways}) for line in text.splitlines(True))


def _with_figure(line: str, values: Mapping[str, list[str]]) -> str:
    cells = line.split("|")
    label = cells[1].strip() if len(cells) > 4 else ""
    found = values.get(_ROWS.get(label, label), [])
    for number, value in enumerate(found, 5 if len(found) > 1 else 3):
        cells[number] = f" {value} "
    return "|".join(cells)


def _mended(lines: list[str], places: Mapping[Step, int]) -> list[str]:
    steps = [match for line in lines if (match := _STEP.match(line))]
    if not steps:
        return lines
    begin = next(n for n, line in enumerate(lines) if _STEP.match(line))
    end = max(n for n, line in enumerate(lines) if _STEP.match(line)) + 1
    placed: list[tuple[int, str]] = []
    for _, file, name, rest in (match.groups() for match in steps):
        here = (file, name) if (file, name) in places else _moved(file, name, places)
        before = placed[-1][0] if placed else -1
        # What is not called any more stays where it was told.
        place = places.get(here, before)
        placed.append((place, f"`{here[0]}: {here[1]}`{rest}"))
    placed.sort(key=lambda each: each[0])
    return [
        *lines[:begin],
        *(f"{number}. {told}" for number, (_, told) in enumerate(placed, 1)),
        *lines[end:],
    ]


def _moved(file: str, name: str, places: Mapping[Step, int]) -> Step:
    """Where the function is now, if exactly one has its name: the whole one anywhere, the last part
    of it in the same package; else where it was."""
    package, last = file.split("/")[1], name.rpartition(".")[2]
    same = [step for step in places if step[1] == name]
    similar = [
        (path, called)
        for path, called in places
        if called.rpartition(".")[2] == last and path.split("/")[1] == package
    ]
    for found in (same, similar):
        if len(found) == 1:
            return found[0]
    return (file, name)


def _places(walks: Sequence[Walk]) -> dict[str, dict[Step, int]]:
    return {walk.name: {step: n for n, step in enumerate(walk.steps)} for walk in walks}


def _lists(text: str) -> Iterator[tuple[str, list[tuple[str, str, str, str]]]]:
    for way, lines in _blocks(text):
        steps = [match.groups() for line in lines if (match := _STEP.match(line))]
        if way and steps:
            yield way, steps  # type: ignore[misc]  # four groups, all of which match


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """The document by headings, each with the way that it names, or nothing."""
    way, lines = "", list[str]()
    for line in text.splitlines(keepends=True):
        if line.startswith("#"):
            yield way, lines
            heading = _HEADING.match(line.strip())
            way, lines = heading[1] if heading else "", []
        lines.append(line)
    yield way, lines
