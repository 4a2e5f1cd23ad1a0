"""`python -m evals.walk`: goes the four ways in a running server; prints them, and the counts.

--json     the same as JSON
--flow     compare docs/flow.md with what was walked; ends with 1 if it tells something else
--write    mend docs/flow.md where functions have moved, and say what a person has to mend
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

from evals.shape import Package
from evals.walk.flow import DOCUMENT, FIGURES, mended, problems, with_figures
from evals.walk.ways import GOALS, Walk, before_start, go, in_words


def walk_all() -> list[Walk]:
    """Walk in a server that is set up for it."""
    with tempfile.TemporaryDirectory(prefix="walk-") as folder:
        return asyncio.run(go(Path(folder)))


def main() -> int:
    """Walk, and print."""
    parser = argparse.ArgumentParser(prog="evals.walk")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--flow", action="store_true", help=f"only compare {DOCUMENT}")
    parser.add_argument("--write", action="store_true", help=f"mend {DOCUMENT}")
    chosen = parser.parse_args()
    walks = walk_all()
    if chosen.write:
        DOCUMENT.write_text(mended(DOCUMENT.read_text("utf-8"), walks), "utf-8")
        figures = with_figures(FIGURES.read_text("utf-8"), Package().figures, walks)
        FIGURES.write_text(figures, "utf-8")
    if chosen.write or chosen.flow:
        found = problems(DOCUMENT.read_text("utf-8"), walks)
        print(*found, sep="\n")
        return 1 if found else 0
    if chosen.json:
        report = {
            **{walk.name: {**walk.figures(), "visits": walk.visits} for walk in walks},
            "before an approved command starts": before_start(walks),
            "goals": GOALS,
        }
        print(json.dumps(report, indent=2))
    else:
        print(in_words(walks))
    return 0


if __name__ == "__main__":
    sys.exit(main())
