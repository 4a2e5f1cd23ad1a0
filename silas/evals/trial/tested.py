"""Suites of the trial that are tests: run by pytest, counted from its report in XML."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from silas.evals.trial.table import Line, not_run

_GOAL = "all"


@dataclass(frozen=True)
class Counts:
    """What the report says."""

    tests: int
    failed: int
    skipped: int

    @property
    def tried(self) -> int:
        return self.tests - self.skipped


@dataclass(frozen=True)
class Tests:
    """One suite."""

    __test__ = False

    suite: str
    paths: Sequence[str]
    figure: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> str:
        given = "".join(f"{name}={value} " for name, value in self.environ.items())
        return f"{given}pytest {' '.join(self.paths)}"

    def run(self, seconds: float, *, workers: int = 2, shown: str = "") -> Line:
        """Run them; `shown` is the command to tell people, where the whole one is too long."""
        with tempfile.TemporaryDirectory(prefix="silas-trial-") as folder:
            report = Path(folder) / "report.xml"
            command = [sys.executable, "-m", "pytest", *self.paths]
            command += ["-q", "-n", str(workers), f"--junit-xml={report}"]
            try:
                subprocess.run(
                    command,
                    env={**os.environ, **self.environ},
                    timeout=seconds,
                    check=False,
                    stdout=sys.stderr,
                )
            except subprocess.TimeoutExpired:
                return self._not_run(f"not done within {seconds:.0f} s", shown)
            if not report.exists():
                return self._not_run("pytest wrote no report", shown)
            return self._line(read_report(report.read_text("utf-8")), shown)

    def _not_run(self, why: str, shown: str) -> Line:
        return not_run(self.suite, why, goal=_GOAL, command=shown or self.command)

    def _line(self, counts: Counts, shown: str) -> Line:
        notes = [f"{counts.failed} failed"] if counts.failed else []
        notes += [f"{counts.skipped} skipped here"] if counts.skipped else []
        return Line(
            suite=self.suite,
            tried=counts.tried,
            withstood=counts.tried - counts.failed,
            figure=self.figure or "tests",
            goal=_GOAL,
            reached=counts.tried > 0 and not counts.failed and not counts.skipped,
            command=shown or self.command,
            note=", ".join(notes),
        )


def read_report(text: str) -> Counts:
    """The counts of a JUnit report."""
    suites = list(ET.fromstring(text).iter("testsuite"))

    def total(name: str) -> int:
        return sum(int(suite.get(name, 0)) for suite in suites)

    return Counts(total("tests"), total("failures") + total("errors"), total("skipped"))
