"""Trees that a worker makes to be in the way, and somebody who is not root to look at them."""

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path

from silas.storage.trees import remove_tree

NOBODY = 65534


def nest(root: Path, names: Sequence[str], *, content: bytes | None = None) -> None:
    """Make directories in each other, by descriptor, and perhaps a file in the last one."""
    here = os.open(root, os.O_RDONLY)
    for name in names:
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    if content is not None:
        file = os.open("file", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=here)
        os.write(file, content)
        os.close(file)
    os.close(here)


def as_nobody(program: str, *, says: str) -> None:
    """Run a program in an own directory as somebody whom modes bind; compare what it prints."""
    place = Path(tempfile.mkdtemp(prefix="silas-nobody-", dir="/tmp"))
    become = ""
    if os.geteuid() == 0:
        os.chown(place, NOBODY, NOBODY)
        # Imported before: root's own Python may lie where nobody else can see it.
        become = f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})"
    start = "import os, silas.sandbox.limits, silas.storage.trees, silas.tools.tree"
    text = "\n".join([start, become, f"os.chdir({str(place)!r})", textwrap.dedent(program)])
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert remove_tree(place) == []
    assert (ran.stdout.strip(), ran.stderr, ran.returncode) == (says, "", 0)
