"""Runs a project's tests and prints what failed."""

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path

LAST_LINES = 80


def command(path: str, marker: str) -> list[str]:
    """How the tests are run: by pytest if it is there, else by the standard library."""
    if importlib.util.find_spec("pytest"):
        chosen = ["-k", marker] if marker else []
        return [sys.executable, "-m", "pytest", "-q", "-x", *chosen, path]
    chosen = ["-k", marker] if marker else []
    if Path(path).is_file():
        return [sys.executable, "-m", "unittest", *chosen, path]
    return [sys.executable, "-m", "unittest", "discover", "-s", path, *chosen]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", default=".")
    parser.add_argument("--marker", default="")
    given = parser.parse_args()
    if not Path(given.path).exists():
        print(f"There is no {given.path} here.")
        return 2
    ran = subprocess.run(
        command(given.path, given.marker), capture_output=True, text=True, check=False
    )
    lines = (ran.stdout + ran.stderr).splitlines()
    print("\n".join(lines[-LAST_LINES:]))
    print("The tests passed." if ran.returncode == 0 else f"The tests ended with {ran.returncode}.")
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main())
