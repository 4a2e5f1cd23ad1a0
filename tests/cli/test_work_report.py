"""`silas work show`: what was asked, done, printed, checked and changed, for people."""

import json
from pathlib import Path

import pytest

from tests.cli.machine import Machine, failure_of, output_of

PLAN = """---
id: tidy
type: task
title: Tidy the shop
workspace:
  path: {path}
  changes: {{add: [new.txt], change: [old.txt], remove: [gone.txt]}}
verify:
  - name: the new text is there
    run: cat old.txt
    expect: {{contains: {wanted}}}
budget: {{max_attempts: 1}}
---
```run
sh -c 'echo one line; echo fresh > new.txt; echo after > old.txt; rm gone.txt; echo warned >&2'
```
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop"
    path.mkdir()
    (path / "old.txt").write_text("before\n")
    (path / "gone.txt").write_text("bye\n")
    return path


def carried_out(owner: Machine, shop: Path, *, wanted: str = "after") -> Machine:
    plan = shop.parent / "tidy.md"
    plan.write_text(PLAN.format(path=shop, wanted=wanted))
    shown = output_of(owner.run("plan", "hash", str(plan)))
    hashed = next(word for word in shown.split() if len(word) == 64)
    owner.run("plan", "run", str(plan), "--approve", hashed)
    return owner


def test_what_was_done_is_told_in_sections(owner: Machine, shop: Path) -> None:
    shown = output_of(carried_out(owner, shop).run("work", "show", "tidy"))
    headings = [line for line in shown.splitlines() if line and not line.startswith(" ")]
    assert headings == ["Tidy the shop", "Asked for", "Done", "Checks", "Files", "Next"]
    assert "  | one line\n  | warned\n" in shown
    assert "check failed before, passes now: the new text is there" in shown
    assert "  1 added, 1 changed, 1 removed:\n" in shown
    assert "  removed gone.txt\n" in shown


def test_files_and_differences_are_shown(owner: Machine, shop: Path) -> None:
    carried_out(owner, shop)
    diff = output_of(owner.run("work", "show", "tidy", "--diff"))
    assert "  | changed old.txt\n" in diff
    assert "  | -before\n  | +after\n" in diff
    assert "  | -bye\n" in diff
    assert output_of(owner.run("work", "show", "tidy", "--file", "new.txt")) == "  | fresh\n  | \n"
    target = shop.parent / "out.txt"
    output_of(owner.run("work", "show", "tidy", "--output", "--to", str(target)))
    assert "one line\nwarned" in target.read_text()
    again = failure_of(owner.run("work", "show", "tidy", "--output", "--to", str(target)))
    assert "cannot be written" in again[1]


@pytest.mark.parametrize("name", ["../plan.md", "/etc/passwd", "untouched.txt", "", "new.txt/../x"])
def test_only_files_of_the_work_can_be_opened(owner: Machine, shop: Path, name: str) -> None:
    (shop / "untouched.txt").write_text("private\n")
    carried_out(owner, shop)
    code, said = failure_of(owner.run("work", "show", "tidy", "--file", name))
    assert code == 80
    assert "is no file that this work has changed" in said


def test_a_file_that_is_another_one_by_now_is_not_shown(owner: Machine, shop: Path) -> None:
    carried_out(owner, shop)
    (shop / "new.txt").unlink()
    (shop / "new.txt").symlink_to("/etc/passwd")
    (shop / "old.txt").write_text("something private\n")
    for name in ("new.txt", "old.txt"):
        shown = owner.run("work", "show", "tidy", "--file", name).stdout.decode()
        assert "root:" not in shown
        assert "private" not in shown


def test_of_a_check_that_fails_its_output_is_shown(owner: Machine, shop: Path) -> None:
    shown = output_of(carried_out(owner, shop, wanted="never").run("work", "show", "tidy"))
    checks = shown[shown.index("\nChecks\n") : shown.index("\nNext\n")]
    assert "  | after\n" in checks
    assert (shop / "old.txt").read_text() == "before\n"
    assert "Files" not in shown


def test_programs_get_the_same_as_json(owner: Machine, shop: Path) -> None:
    data = json.loads(output_of(carried_out(owner, shop).run("work", "show", "tidy", "--json")))
    assert {each["path"] for each in data["changes"]} == {"new.txt", "old.txt", "gone.txt"}
    assert data["attempts"][0]["calls"][0]["text"] == "one line\nwarned\n"
    assert (data["item"]["id"], data["left"], data["below"]) == ("tidy", [], [])
