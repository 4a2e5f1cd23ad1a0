# ruff: noqa: INP001 - a script beside the lock files, and no package
"""Installs the packages of lock files with pip, and says how far it is.

`python requirements/install.py LOCKFILE…`: the output of pip itself is shown only if pip fails. A
lock file also names packages for other systems, so the figure at the end may be lower than the one
that is counted up to.
"""

import re
import subprocess
import sys
from pathlib import Path

_PINNED = re.compile(r"^[A-Za-z0-9][\w.\[\],-]*==", re.MULTILINE)
_LAST_LINES = 25


def install(lock_file: Path) -> int:
    """Run pip on one lock file; returns its exit code."""
    most, seen, said = len(_PINNED.findall(lock_file.read_text())), 0, []
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    command = [*pip, "--progress-bar", "off", "--require-hashes", "-r", str(lock_file)]
    with subprocess.Popen(  # noqa: S603 - pip of this very environment
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        for line in running.stdout or ():
            said.append(line.rstrip())
            if line.startswith(("Collecting ", "Requirement already satisfied: ")):
                seen += 1
                _tell(f"  looking at package {seen} of at most {most}")
            elif line.startswith("Installing collected packages"):
                _tell("  unpacking them")
    _tell("")
    if running.returncode:
        last = "\n".join(said[-_LAST_LINES:])
        sys.stderr.write(f"{last}\nThe packages could not be installed.\n")
    return running.returncode


def _tell(text: str) -> None:
    """Show how far it is, on one line that is written over; only people are shown it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text.ljust(60)}\r{text}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(next((code for code in map(install, map(Path, sys.argv[1:])) if code), 0))
