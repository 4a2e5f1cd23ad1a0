"""Whoever follows the README gets what it says: its commands are run, in its order, and work."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from time import sleep

import pytest

from evals.firsthour.owner import Machine
from tests.sentences.collect import ROOT

README = (ROOT / "README.md").read_text("utf-8")
_BLOCK = re.compile(r"^```\n(.*?)^```", re.DOTALL | re.MULTILINE)
_ELSEWHERE = {
    "chat": "needs a terminal: tests/cli/test_chat.py",
    "sandbox": "shows that it cannot get out: tests/sandbox",
}


def _lines() -> list[list[str]]:
    found = [
        shlex.split(line.removeprefix(".venv/bin/"), comments=True)[1:]
        for block in _BLOCK.findall(README)
        for line in block.splitlines()
        if line.removeprefix(".venv/bin/").startswith("silas ")
    ]
    return [words for words in found if words[0] not in _ELSEWHERE]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path, {})
    machine.set_up()
    machine.start()
    try:
        yield machine
    finally:
        machine.stop()


def _run(machine: Machine, words: list[str]) -> str:
    done = machine.silas(*words)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_the_commands_of_the_readme_work_in_its_order(machine: Machine) -> None:
    (machine.home / "plans").symlink_to(ROOT / "plans")
    (machine.home / "shop").mkdir()  # the project that the README's reader has
    lines = _lines()
    assert [words[:2] for words in lines].count(["plan", "run"]) == 1
    printed: dict[str, str] = {}
    for written in lines:
        line = shlex.join(written)
        # As the shell of its reader does.
        words = [re.sub(r"^~(?=/)", str(machine.home), each) for each in written]
        if words[:2] == ["plan", "run"]:
            shown = _run(machine, ["plan", "hash", words[2]])
            words += ["--approve", shown.split()[0]]
        if words[0] == "approvals" and len(words) > 2:
            words[2] = re.findall(r"tok_\w+", printed["approvals list"])[0]
        if words[0] == "verify":
            words[-1] = str(machine.folder / "data" / "owner.pub")
        if words[:2] == ["companions", "report"]:
            _wait_for(machine, words[:3], words[-1])
        printed[line] = _run(machine, words)
    assert "Done, and checked" in printed["plan run plans/hello.md"]
    assert "Squats" in printed["companions report planner --why changed.0"]


def _wait_for(machine: Machine, words: list[str], text: str) -> None:
    """The planner wakes by itself, a moment after the change."""
    for _ in range(120):
        if text in machine.silas(*words).stdout:
            return
        sleep(0.5)
    pytest.fail(f"silas {shlex.join(words)} never shows {text}")


def test_files_that_the_readme_names_are_there() -> None:
    linked = re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", README)
    assert [each for each in linked if not (ROOT / each).exists()] == []
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)", README)) | set(re.findall(r"^make (\w+)", README, 8))
    assert named - targets == set()
