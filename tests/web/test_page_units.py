"""The page's modules by themselves, under Node: `tests/web/static/*.test.mjs`."""

import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parent / "static"


@pytest.mark.parametrize("file", sorted(each.name for each in UNITS.glob("*.test.mjs")))
def test_a_module_of_the_page(file: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node 18.19 or newer: apt install nodejs")
    run = subprocess.run(
        [node, "--import", "./page.mjs", "--test", file],
        cwd=UNITS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
