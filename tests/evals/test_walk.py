"""The four ways are walked in a running server; `docs/flow.md` tells them as they are."""

import ast
from pathlib import Path

import pytest

from evals.walk.__main__ import walk_all
from evals.walk.flow import DOCUMENT, mended, problems, with_figures
from evals.walk.ways import EXAMINATION, SIGNATURE_QUESTION, Walk, before_start

WALK = Walk(
    "message",
    "A message",
    [
        ("silas/web/a.py", "one"),
        ("silas/web/a.py", "two"),
        ("transaction", ""),
        ("silas/kernel/k.py", "now"),
        ("silas/web/a.py", "one"),
        ("silas/work/b.py", "B.three"),
    ],
)
TOLD = """# Ways

## A message `message`

1. `silas/web/a.py: one`: First.
2. `silas/work/b.py: B.three`: Last.

## More
"""


def test_what_is_counted() -> None:
    assert WALK.visits == [("silas/web/a.py", ["one", "two"]), ("silas/work/b.py", ["B.three"])]
    assert WALK.figures() == {
        "calls": 5,
        "functions": 4,
        "files": 3,
        "functions per visit": 1.5,
        "changes of file": 1,
    }


def test_a_document_that_tells_the_walk_is_true() -> None:
    assert problems(TOLD, [WALK]) == []
    assert mended(TOLD, [WALK]) == TOLD


@pytest.mark.parametrize(
    ("was", "now", "problem"),
    [
        ("a.py: one", "a.py: four", "message: silas/web/a.py: four is not called on this way."),
        ("`message`", "`decision`", "`decision` is no way that is walked."),
        (
            "work/b.py: B.three",
            "web/a.py: two`: x.\n3. `silas/web/a.py: one",
            "message: silas/web/a.py: one is called before the step above it.",
        ),
    ],
)
def test_a_document_that_tells_something_else_is_found(was: str, now: str, problem: str) -> None:
    assert problem in problems(TOLD.replace(was, now), [WALK])


def test_functions_that_moved_are_followed_and_steps_are_put_in_order() -> None:
    old = TOLD.replace(
        "1. `silas/web/a.py: one`: First.\n2. `silas/work/b.py: B.three`: Last.",
        "1. `silas/work/old.py: three`: Last.\n2. `silas/web/old.py: one`: First.",
    )
    assert mended(old, [WALK]) == TOLD


def test_figures_are_written_where_their_rows_are() -> None:
    stored = Walk("stored", "", WALK.events)
    decision = Walk("decision", "", [("silas/a.py", "one"), ("process", "echo hello")])
    rows = "| files | 820 | - | <= 480 |\n| memory stored | 9 | 9 | 9 | - | - | - |\n| x | - |\n"
    assert with_figures(rows, {"files": 1234}, [stored, decision]) == (
        "| files | 820 | 1,234 | <= 480 |\n| memory stored | 9 | 9 | 9 | 5 | 3 | 1.5 |\n| x | - |\n"
    )


def test_what_is_counted_by_name_has_this_name() -> None:
    defined = set()
    for path in (*Path("silas/audit").rglob("*.py"), *Path("silas/approval").rglob("*.py")):
        for node in ast.parse(path.read_bytes()).body:
            body = node.body if isinstance(node, ast.ClassDef) else [node]
            prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
            defined |= {prefix + each.name for each in body if isinstance(each, ast.FunctionDef)}
    assert {SIGNATURE_QUESTION, EXAMINATION} <= defined


@pytest.mark.slow
def test_the_four_ways() -> None:
    walks = walk_all()
    assert [walk.name for walk in walks] == ["message", "decision", "change", "stored", "recalled"]
    assert problems(DOCUMENT.read_text("utf-8"), walks) == [], "see python -m evals.walk --write"
    counted = before_start(walks)
    assert counted["signatures made"] >= 1
    assert counted["examinations of the log"] >= 1
