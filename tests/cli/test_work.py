"""`silas work`, as people and scripts use it: also while another process does the work."""

import json
import os
import time
from pathlib import Path

import pytest

from tests.cli.machine import Machine, output_of
from tests.cli.test_plan_run import approved

# Known by how long it sleeps, also where tests run side by side.
NAP = str(1_000_000 + os.getpid())
SLOW = f"""---
id: slow
type: task
title: Takes its time
verify: [{{ name: ended, run: test -f ended, expect: {{ exit_code: 0 }} }}]
---
```run
sleep {NAP}
```
```file path=ended
yes
```
"""
QUICK = SLOW.replace(f"sleep {NAP}", "true").replace("id: slow", "id: quick")

TIDY = """---
id: tidy
type: task
title: Tidy up
workspace:
  path: {site}
  changes: {{remove: [a.jpg]}}
verify:
  - name: gone
    run: test ! -e a.jpg
    expect: {{exit_code: 0}}
---
```run
rm a.jpg
```
"""


@pytest.fixture
def quick(owner: Machine, tmp_path: Path) -> Machine:
    path = tmp_path / "quick.md"
    path.write_text(QUICK)
    output_of(owner.run(*approved(owner, path)))
    return owner


def test_list_show_and_log(quick: Machine) -> None:
    assert "quick (task): done, 1 attempt" in output_of(quick.run("work", "list"))
    assert output_of(quick.run("work", "list", "--status", "stuck")) == "There is no work yet.\n"
    shown = output_of(quick.run("work", "show", "quick"))
    assert shown == output_of(quick.run("work", "show", "takes its"))
    unknown = quick.run("work", "show", "nothing of that name")
    assert b"There is no work item nothing of that name. `silas work list`" in unknown.stderr
    assert "attempt 1" in shown
    assert "check failed before, passes now: ended" in shown
    assert "Done, and checked." in shown
    log = output_of(quick.run("work", "log", "quick"))
    assert "1. shell_exec" in log
    assert "2. write_file" in log
    assert "worked" in log
    data = json.loads(output_of(quick.run("work", "log", "quick", "--json")))
    assert [call["tool"] for call in data["attempts"][0]["calls"]] == ["shell_exec", "write_file"]


def test_work_that_did_nothing_in_accounts_has_nothing_to_take_back(
    quick: Machine, tmp_path: Path
) -> None:
    said = output_of(quick.run("work", "undo", "quick"))
    assert said == "This work did nothing in your accounts that could be taken back.\n"
    assert json.loads(output_of(quick.run("work", "undo", "quick", "--json"))) == {"calls": []}
    plan = tmp_path / "undo.md"
    refused = quick.run("work", "undo", "quick", "--plan", str(plan))
    assert refused.returncode != 0
    assert b"nothing that a plan could take back" in refused.stderr
    assert not plan.exists()
    assert quick.run("work", "undo", "quick", "--call", "1", "--plan", str(plan)).returncode == 2


def test_what_was_removed_is_written_to_a_new_directory(owner: Machine, tmp_path: Path) -> None:
    site, photo = tmp_path / "site", bytes(range(256))
    site.mkdir()
    (site / "a.jpg").write_bytes(photo)
    path = tmp_path / "tidy.md"
    path.write_text(TIDY.format(site=site))
    output_of(owner.run(*approved(owner, path)))
    assert not (site / "a.jpg").exists()
    target = tmp_path / "back"
    assert output_of(owner.run("work", "recover", "tidy", "--to", str(target))) == "a.jpg\n"
    assert (target / "a.jpg").read_bytes() == photo
    again = owner.run("work", "recover", "tidy", "--to", str(target))
    assert (again.returncode, b"cannot be made: File exists" in again.stderr) == (80, True)


def test_unknown_items_are_named(owner: Machine) -> None:
    for command in ("show", "log", "cancel", "pause", "resume"):
        run = owner.run("work", command, "nothing")
        assert (run.returncode, b"There is no work item nothing" in run.stderr) == (80, True)


def test_what_is_done_cannot_be_cancelled(quick: Machine) -> None:
    shown = output_of(quick.run("work", "cancel", "quick"))
    assert "was stopped or done already" in shown


def sleeping() -> list[str]:
    """The processes that sleep for us."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", NAP.encode()]:
            found.append(path.parent.name)
    return found


def wait_for(condition, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def test_another_process_pauses_resumes_and_cancels(owner: Machine, tmp_path: Path) -> None:
    path = tmp_path / "slow.md"
    path.write_text(SLOW)
    arguments = approved(owner, path)
    for command, status in (("pause", "paused"), ("cancel", "cancelled")):
        with owner.start(*arguments) as runner:
            wait_for(sleeping)
            shown = output_of(owner.run("work", command, "slow"))
            assert shown == f"slow is {status}.\nNothing of it is running.\n"
            assert sleeping() == []
            assert runner.wait() == 80
        assert f"slow (task): {status}" in output_of(owner.run("work", "list"))
        arguments = ("work", "resume", "slow")
    data = json.loads(output_of(owner.run("work", "show", "slow", "--json")))
    assert [each["outcome"] for each in data["attempts"]] == ["stopped", "stopped"]


def test_killed_silas_leaves_no_process_and_the_next_one_starts_afresh(
    owner: Machine, tmp_path: Path
) -> None:
    path = tmp_path / "slow.md"
    path.write_text(SLOW)
    with owner.start(*approved(owner, path)):
        wait_for(sleeping)
    wait_for(lambda: not sleeping())
    output_of(owner.run("work", "cancel", "slow"))
    data = json.loads(output_of(owner.run("work", "show", "slow", "--json")))
    assert [each["outcome"] for each in data["attempts"]] == ["interrupted"]
    assert data["item"]["status"] == "failed"
