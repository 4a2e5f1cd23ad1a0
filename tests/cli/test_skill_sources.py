"""`silas skills import` from a repository, and `silas skills new --from` work, at the terminal."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.machine import Machine, failure_of, output_of
from tests.cli.test_devices import serving
from tests.skills.git_server import GitServer, files_of, git_server, make_repository
from tests.skills.place import make_skill

PLAN = """---
id: weekly
type: task
title: Weekly sum
script: true
verify:
  - name: the sum is there
    run: cat sum.txt
    expect: { contains: total }
---

```file path=sum.txt
total 42
```

```run
cat sum.txt
```
"""


@contextmanager
def served(root: Path) -> Iterator[GitServer]:
    """The repositories below a directory, served by a thread of their own."""
    ready, over = threading.Event(), asyncio.Event()
    found: list[tuple[GitServer, asyncio.AbstractEventLoop]] = []

    async def serve() -> None:
        async with git_server(root) as server:
            found.append((server, asyncio.get_running_loop()))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(90)
    server, loop = found[0]
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(90)


def waiting(owner: Machine) -> dict[str, Any]:
    """The skill that waits for the owner, as soon as there is one."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        for each in json.loads(output_of(owner.run("skills", "list", "--json")))["waiting"]:
            return dict(each)
    raise AssertionError("no skill waits")


def test_a_skill_is_fetched_from_a_repository_at_the_terminal(
    owner: Machine, tmp_path: Path
) -> None:
    _, commit = make_repository(tmp_path / "srv", files=files_of(make_skill(tmp_path)))
    _, refused = failure_of(owner.run("skills", "import", "https://me:pass@example.org/x.git"))
    assert "Silas sends no credential" in refused
    assert "pass@" not in refused
    assert "https alone" in failure_of(owner.run("skills", "import", "ext::sh -c id"))[1]
    _, refused = failure_of(owner.run("skills", "import", "/x", "--commit", commit))
    assert "are for https" in refused
    with served(tmp_path / "srv") as server, serving(owner):
        words = ("--commit", commit, "--address", "127.0.0.1", "--json")
        asked = json.loads(output_of(owner.run("skills", "import", server.url(), *words)))
        shown = output_of(owner.run("review", "show", asked["card_id"]))
        assert "at 127.0.0.1 (this machine), and nothing else" in shown
        assert commit in shown
        assert server.requests == []
        hashed = shown.rpartition("hash ")[2].split()[0]
        output_of(owner.run("review", "answer", asked["card_id"], "approve", "--hash", hashed))
        card = waiting(owner)["card_id"]
        told = output_of(owner.run("review", "show", card))
        assert f"as of the commit {commit}" in told


def test_work_becomes_a_skill_at_the_terminal(owner: Machine, tmp_path: Path) -> None:
    plan = tmp_path / "weekly.md"
    plan.write_text(PLAN)
    assert "name work: --from" in failure_of(owner.run("skills", "new", "weekly-sum"))[1]
    _, refused = failure_of(owner.run("skills", "new", "weekly-sum", "--from", "nobody"))
    assert "There is no work" in refused
    code, told = owner.type("plan", "run", str(plan), answers=[("execute it?", "y")])
    assert code == 0, told
    told = output_of(owner.run("skills", "new", "weekly-sum", "--from", "weekly"))
    assert "Install the skill weekly-sum?" in told
    shown = output_of(owner.run("review", "show", waiting(owner)["card_id"]))
    assert "the work “Weekly sum” (weekly)" in shown
    assert "scripts/weekly_sum.py" in shown
