"""The table of the trial says what the reports say, and hides nothing."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from evals.trial import suites as measured
from evals.trial.__main__ import SUITES
from evals.trial.malicious_worker import Totals
from evals.trial.suites import Counts, Line, Tests, as_markdown, as_text, not_run, read_report

ROOT = Path(__file__).parents[2]
REPORT = """<?xml version="1.0"?><testsuites>
<testsuite name="pytest" errors="1" failures="2" skipped="3" tests="20"/></testsuites>"""


def test_a_report_is_counted() -> None:
    counts = read_report(REPORT)
    assert (counts, counts.tried) == (Counts(tests=20, failed=3, skipped=3), 17)


def test_what_fails_or_is_skipped_does_not_reach_its_goal() -> None:
    suite = Tests("x", ["tests/x"], environ={"A": "1"})
    assert suite.command == "A=1 pytest tests/x"
    lines = [suite._line(each, "") for each in (Counts(5, 0, 0), Counts(5, 1, 0), Counts(5, 0, 1))]
    assert [line.reached for line in lines] == [True, False, False]
    assert [line.withstood for line in lines] == [5, 4, 4]
    assert not suite._line(Counts(0, 0, 0), "").reached, "nothing tried is nothing withstood"


def test_a_missed_goal_stands_in_the_table() -> None:
    good = Line("good", 3, 3, "tests", "all", True, "pytest good")
    bad = Line("bad", 3, 2, "tests", "all", False, "pytest bad", "1 failed")
    never = not_run("never", "no time was left", goal="all", command="pytest never")
    shown = as_text([good, bad, never])
    assert "1 of 3 goals reached." in shown
    assert shown.count("NOT REACHED") == 2
    assert "bad: 1 failed" in shown
    written = as_markdown([good, bad, never])
    assert "| **no**: no time was left | `pytest never` |" in written
    assert len({line.count("|") for line in written.splitlines()}) == 1


def test_every_suite_is_there() -> None:
    for suite in SUITES:
        for path in suite.paths:
            assert (ROOT / path).exists(), path


def test_what_is_not_installed_is_not_run(tmp_path: Path) -> None:
    line = measured.agentdojo(tmp_path / "python", every=10, seconds=1)
    assert (line.reached, line.figure, line.command) == (
        False,
        "not run",
        "make trial-agentdojo EVERY=10",
    )
    assert not any(each.reached for each in measured.guards(tmp_path / "none", seconds=1))


def test_figures_of_the_malicious_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    good = Totals(30, 20, 20, 20, 0, 0, 0, 0, 0, [])
    problems = ["deletes on a: x differs", "deletes on a: y differs", "hides on b: z differs"]
    bad = replace(good, beyond=2, problems=problems)
    asked = replace(good, cards=21)
    lines = []
    for totals in (good, bad, asked):
        found = {**asdict(totals), "reached": totals.reached}
        monkeypatch.setattr(measured, "_json_of", lambda _command, _seconds, told=found: told)
        lines.append(measured.malicious_worker(every=1, seconds=1))
    assert [line.reached for line in lines] == [True, False, False]
    assert [line.withstood for line in lines] == [30, 28, 30]
    assert "outside the declaration 2" in lines[1].figure
    assert "20 of 20 done with 21 cards" in lines[2].figure


def test_figures_of_the_guards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = {
        "attacks": {
            "found in the wild (x)": {"texts": 10, "stopped": 9},
            "elsewhere": {"texts": 10, "stopped": 8},
        },
        "injection": {"b": {"texts": 10, "stopped": 3}},
        "benign": {"c": {"texts": 1000, "stopped": 3}},
    }
    monkeypatch.setattr(measured, "_json_of", lambda _command, _seconds: found)
    lines = measured.guards(tmp_path, seconds=1)
    assert [line.reached for line in lines] == [True, False, False, True]
    assert [line.withstood for line in lines] == [9, 8, 3, 997]
