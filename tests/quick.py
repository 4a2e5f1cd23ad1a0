"""What a change needs, in about a minute: `make quick`, or `python -m tests.quick [--since main]`.

1. ruff, on the files that changed.
2. The tests, fast ones only, nearest first: the test files that changed; those that import a module
   that changed; the other tests of a package that changed; those that import a direct dependant.
   A minute (SECONDS=) after the first begins, the rest is skipped, and the last line says how many.

A change is what differs from the branch that `--since` names: commits, the working tree, new files.
`make check` and `make test` remain what decides.
"""

import argparse
import ast
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from evals.shape import imports_of

ROOT = Path(__file__).parents[1]
CODE = ("silas", "evals", "tests")
_SECONDS = 60


def changed_files(since: str) -> set[str]:
    """What differs from there, and still exists."""
    base = _git("merge-base", since, "HEAD")[0]
    named = {*_git("diff", "--name-only", base), *_git("ls-files", "-o", "--exclude-standard")}
    return {name for name in named if (ROOT / name).is_file()}


def _git(*arguments: str) -> list[str]:
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\n")[:-1]


class Graph:
    """Which file imports which, in `silas/`, `evals/` and `tests/`."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.modules = {_module(path): path for path in files}
        self.importers: dict[str, set[str]] = {name: set() for name in self.modules}
        for name, path in self.modules.items():
            for target, _ in imports_of(ast.parse((ROOT / path).read_bytes()), self.modules):
                self.importers[target].add(name)

    def nearest(self, changed: set[str]) -> list[str]:
        """Test files for changed files, nearest first."""
        begin = {name for name, path in self.modules.items() if str(path) in changed}
        near = self._importers(begin)
        # A package's `__init__` passes names on: whoever imports it is as near.
        near |= self._importers({each for each in near if self._is_package(each)})
        packages = {_package(name) for name in changed} - {""}
        mirrored = {
            name
            for name, path in self.modules.items()
            if path.parts[0] == "tests" and path.parts[1] in packages
        }
        far = self._importers({each for each in near if not each.startswith("tests.")})
        ordered = (begin, near, mirrored, far)
        return list(dict.fromkeys(test for group in ordered for test in self._tests(group)))

    def _importers(self, names: set[str]) -> set[str]:
        return set().union(*(self.importers[name] for name in names))

    def _is_package(self, name: str) -> bool:
        return self.modules[name].name == "__init__.py"

    def _tests(self, names: set[str]) -> Iterator[str]:
        for name in sorted(names):
            if self.modules[name].name.startswith("test_"):
                yield str(self.modules[name])


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _package(path: str) -> str:
    """`silas/audit/log.py` and `tests/audit/test_log.py` belong to `audit`."""
    parts = Path(path).parts
    if parts[0] == "evals":
        return "evals"
    return parts[1] if parts[0] in CODE and len(parts) > 2 else ""


class Limit:
    """Loaded into every worker of pytest: after the minute, nothing more begins."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = 0.0

    def pytest_collection_finish(self) -> None:
        self._deadline = time.monotonic() + self._seconds

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        if time.monotonic() > self._deadline:
            pytest.skip("the minute is over")


def pytest_configure(config: pytest.Config) -> None:
    """This module is a plugin too: `-p tests.quick`."""
    config.pluginmanager.register(Limit(float(os.environ.get("SECONDS") or _SECONDS)))


def main() -> int:
    """Look at what changed, and run what it needs."""
    parser = argparse.ArgumentParser(prog="tests.quick", description="What a change needs.")
    parser.add_argument("--since", default="main", help="what to compare with")
    parser.add_argument("--list", action="store_true", help="print the tests and run none")
    chosen = parser.parse_args()
    changed = changed_files(chosen.since)
    python = sorted(name for name in changed if name.endswith(".py"))
    if not python:
        print("No Python file has changed.")
        return 0
    files = [path.relative_to(ROOT) for top in CODE for path in (ROOT / top).rglob("*.py")]
    tests = Graph(files).nearest({*python})
    if chosen.list:
        print(*tests, sep="\n")
        return 0
    ruff = str(Path(sys.executable).with_name("ruff"))
    for command in ([ruff, "check", *python], [ruff, "format", "--check", *python]):
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            return 1
    if not tests:
        print("No test imports what has changed.")
        return 0
    options = ["-m", "not slow", "-n", "auto", "--dist", "load", "--maxschedchunk", "4", "-q"]
    command = [sys.executable, "-m", "pytest", "-p", "tests.quick", *options, *tests]
    ended = subprocess.run(command, cwd=ROOT, check=False).returncode
    return 0 if ended == pytest.ExitCode.NO_TESTS_COLLECTED else ended


if __name__ == "__main__":
    sys.exit(main())
