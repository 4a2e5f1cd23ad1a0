"""A vault's writer that is killed: `python -m tests.secrets.crashing_writer PATH MODE ROUNDS`.

For each round a child process is forked and killed with SIGKILL: in mode `steps` by itself, before
the n-th thing that it asks of the operating system, in mode `random` from outside, after a random
number of acknowledged writes. After each round the vault is checked against what was acknowledged.
"""

import os
import random
import signal
import sys
from pathlib import Path

from tests.secrets.files import reopen

MARK = b"the-secret-value-"


def main() -> None:
    path, mode, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    dice = random.Random(7)
    before: dict[str, bytes] = {}
    killed = 0
    for number in range(rounds):
        writes = {f"name/{index}": MARK + b"%d/%d" % (number, index) for index in range(8)}
        after = number if mode == "steps" else dice.randrange(1, len(writes))
        acknowledged, was_killed = run_writer(path, writes, mode, after)
        killed += was_killed
        before = check(path, before, writes, acknowledged)
    print(killed)


def run_writer(path: Path, writes: dict[str, bytes], mode: str, after: int) -> tuple[int, bool]:
    """Fork a writer and kill it; says how many writes it acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        write_all(path, writes, writing, kill_at=after if mode == "steps" else None)
        os._exit(0)
    os.close(writing)
    acknowledged = 0
    while os.read(reading, 1):
        acknowledged += 1
        if mode == "random" and acknowledged == after:
            os.kill(child, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    return acknowledged, os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def write_all(path: Path, writes: dict[str, bytes], report: int, *, kill_at: int | None) -> None:
    vault = reopen(path)
    vault.list()
    if kill_at is not None:
        kill_before_step(kill_at)
    for name, value in writes.items():
        vault.set(name, value)
        os.write(report, b".")
    signal.pause()  # on a busy machine the killer may be late


def kill_before_step(step: int) -> None:
    """Kill this process before the n-th file operation that Python reports."""
    left = step

    def hook(event: str, _arguments: object) -> None:
        nonlocal left
        if event in ("open", "os.rename", "os.remove", "fcntl.flock", "os.scandir"):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def check(
    path: Path, before: dict[str, bytes], writes: dict[str, bytes], acknowledged: int
) -> dict[str, bytes]:
    """The vault holds what was acknowledged and at most the one write after it; returns that."""
    vault = reopen(path)
    found = {name: vault.get(name) for name in vault.list()}
    steps = list(writes.items())
    allowed = [before | dict(steps[:acknowledged]), before | dict(steps[: acknowledged + 1])]
    if found not in allowed:
        sys.exit(f"after {acknowledged} acknowledged writes there is {found}")
    for file in path.parent.iterdir():
        if MARK in file.read_bytes():
            sys.exit(f"plain text in {file}")
    return found


main()
