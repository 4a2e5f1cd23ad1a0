"""One line for each suite of the trial, and the table of them: for a terminal, and as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass

_HEADS = ("suite", "tried", "withstood", "figure", "goal", "")


@dataclass(frozen=True)
class Line:
    """What came of one suite."""

    suite: str
    tried: int
    withstood: int
    figure: str
    goal: str
    reached: bool
    command: str
    """How to have it again, alone."""
    note: str = ""
    """Why the goal is not reached, as far as it is known."""

    @property
    def cells(self) -> tuple[str, ...]:
        verdict = "reached" if self.reached else "NOT REACHED"
        return self.suite, str(self.tried), str(self.withstood), self.figure, self.goal, verdict


def not_run(suite: str, why: str, *, goal: str, command: str) -> Line:
    """A suite that could not be run has withstood nothing."""
    return Line(suite, 0, 0, "not run", goal, False, command, why)


def as_text(lines: Sequence[Line]) -> str:
    """The table for a terminal, and why a goal was missed."""
    rows = [_HEADS, *(line.cells for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    shown = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    notes = [f"{line.suite}: {line.note}" for line in lines if line.note]
    reached = sum(line.reached for line in lines)
    return "\n".join([*shown, "", *notes, f"{reached} of {len(lines)} goals reached."])


def as_markdown(lines: Sequence[Line]) -> str:
    """The same for a document, with the command of each line."""
    heads = (*_HEADS[:-1], "reached", "command")
    rows = [
        (*line.cells[:-1], "yes" if line.reached else f"**no**: {line.note}", f"`{line.command}`")
        for line in lines
    ]
    table = [heads, tuple("---" for _ in heads), *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in table)
