"""SIGKILL of the worker, of the sandbox and of Silas itself, at random points of a project.

Every item ends in an honest state, no task's effects happen twice, and no process is left.
`SILAS_CHAOS_ROUNDS=200` runs as many rounds as one likes.
"""

import asyncio
import contextlib
import hashlib
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from silas.work import Plan, WorkItem, WorkItemStatus
from tests.chaos import Runner
from tests.work.chaos_runner import open_shop
from tests.work.shop import check
from tests.work.test_project import git, project, step

ROUNDS = int(os.environ.get("SILAS_CHAOS_ROUNDS", "10"))
SCRIPT = 'sleep 0.05\necho "$1" >> "log-$1"\nsleep 0.05\n'


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    runner = Runner("tests.work.chaos_runner")
    yield runner
    runner.close()


def script_of(root: Path) -> str:
    """A name that no other round uses, by which its processes are known."""
    return f"work-{hashlib.sha256(bytes(root)).hexdigest()[:12]}.sh"


def plan(root: Path) -> Plan:
    more = {"budget": {"max_attempts": 1000}}

    def logging(name: str, **fields: object) -> WorkItem:
        wanted = check(f"cat log-{name}", equals=f"{name}\n")
        body = f"```run\nsh {script_of(root)} {name}\n```"
        return step(name, body, verify=[wanted], **more, **fields)

    tasks = [logging("a"), logging("b"), logging("c", depends_on=["a", "b"])]
    whole = check("cat log-a log-b log-c", equals="a\nb\nc\n")
    site = {"path": "site", "changes": {"add": ["log-a", "log-b", "log-c"]}}
    return project(*tasks, workspace=site, verify=[whole], **more)


async def prepare(root: Path, number: int) -> None:
    site = root / "site"
    site.mkdir(parents=True)
    (site / script_of(root)).write_text(SCRIPT)
    if number % 2:
        git(site, "init", "-q")
        git(site, "add", ".")
        git(site, "commit", "-q", "-m", "start")
    database, shop = await open_shop(root)
    await shop.approve_plan(plan(root))
    await database.close()


def descendants(pid: int) -> list[int]:
    """All processes below this one, the deepest last."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            found.append((int(path.parent.name), parent))
    below, wave = [], {pid}
    while wave:
        wave = {child for child, parent in found if parent in wave}
        below += sorted(wave)
    return below


def kill_somebody(pid: int, chance: random.Random) -> None:
    """Silas itself, the sandbox around a command, or the command in it."""
    below = [each for each in descendants(pid) if not describe(str(each)).startswith("git")]
    target = chance.choice([pid, below[0], below[-1]]) if below else pid
    with contextlib.suppress(ProcessLookupError):
        os.kill(target, signal.SIGKILL)


def left_over(root: Path) -> list[str]:
    """Processes that have anything to do with this directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        words = b""
        with contextlib.suppress(OSError):
            words += (path / "cmdline").read_bytes()
            words += bytes((path / "cwd").readlink())
        if str(root).encode() in words or script_of(root).encode() in words:
            found.append(path.name)
    return found


def require_nothing_left(root: Path) -> None:
    deadline = time.monotonic() + 120
    while left := left_over(root):
        assert time.monotonic() < deadline, [describe(pid) for pid in left]
        time.sleep(0.01)


def describe(pid: str) -> str:
    """What a process is and what it waits for, for whoever has to find out why it is there."""
    told = []
    for name in ("cmdline", "wchan", f"task/{pid}/children", "stat"):
        with contextlib.suppress(OSError):
            text = (Path("/proc") / pid / name).read_bytes().decode(errors="replace")
            told.append(text.replace("\0", " ")[:120])
    return " | ".join(told)


async def require_honest(root: Path, *, ended: bool) -> None:
    """What the store says is what is there."""
    database, shop = await open_shop(root)
    items = {item.id: item for item in await shop.bench.items.list_by_parent("p")}
    for name, item in items.items():
        log = root / "site" / f"log-{name}"
        lines = log.read_text() if log.exists() else ""
        assert lines in ("", f"{name}\n"), "an effect happened twice, or in half"
        if item.status is WorkItemStatus.DONE:
            assert lines == f"{name}\n"
    if ended:
        ended_as = [(item.id, item.status, item.budget_used) for item in items.values()]
        assert {item.status for item in items.values()} == {WorkItemStatus.DONE}, ended_as
        assert await shop.bench.attempts.list_open() == []
        passed = [
            attempt.outcome
            for name in items
            for attempt in await shop.bench.attempts.list_of(name)
            if attempt.outcome == "passed"
        ]
        assert len(passed) == 3
        leftovers = list((root / "work" / "attempts").rglob("files"))
        assert leftovers == []
    await database.close()


@pytest.mark.slow
@pytest.mark.parametrize("number", range(ROUNDS))
async def test_killed_at_random(runner: Runner, tmp_path: Path, number: int) -> None:
    chance = random.Random(number)
    root = tmp_path.resolve()
    await prepare(root, number)
    for _ in range(chance.randint(1, 3)):
        pid = runner.run(root)
        await asyncio.sleep(chance.uniform(0.0, 0.7))
        kill_somebody(pid, chance)
        runner.wait()
        require_nothing_left(root)
        await require_honest(root, ended=False)
    for _ in range(5):  # a task whose sandbox was killed is tried again
        runner.run(root)
        if runner.wait() == 0:
            break
    runner.run(root)  # and what a kill after the end left behind is cleared away
    runner.wait()
    await require_honest(root, ended=True)
    require_nothing_left(root)
