"""A Silas with a call that waits; as a process it kills itself at a given point: `ROOT POINT`."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from silas.storage import SqliteDatabase
from silas.testing.work import SENDS, LaterApprover, PausingWorker, decide_with_vault
from silas.tools.declaration import Tool, ToolRegistry
from silas.tools.execution import ExecutionEnvelope, ExecutionResult, succeeded
from silas.work.paused import PausedRuns
from tests.work.chaos_runner import open_shop
from tests.work.shop import YES, Shop, check, task
from tests.work.test_toolcalls import SendArguments

FILE = ("write_file", {"path": "made", "content": "first\n"})
SEND = ("send", {"to": "a"})


class Sender:
    """A tool that acts outside: what it sent cannot be taken back."""

    def __init__(self, log: Path | None = None) -> None:
        self._log = log
        self._sent: list[str] = []

    @property
    def sent(self) -> list[str]:
        return self._log.read_text().split() if self._log and self._log.exists() else self._sent

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        to = envelope.args["to"]
        self._sent.append(to)
        if self._log:
            with self._log.open("a") as log:
                log.write(f"{to}\n")
        return succeeded(envelope, "sent")


class KilledRuns(PausedRuns):
    """`PausedRuns` during which the process is killed."""

    point = ""

    async def keep(self, *args: Any, **more: Any) -> Any:
        _die("before-keeping", self.point)
        kept = await super().keep(*args, **more)
        _die("after-keeping", self.point)
        return kept

    async def claim(self, *args: Any, **more: Any) -> Any:
        claimed = await super().claim(*args, **more)
        _die("claimed", self.point)
        return claimed


def _die(here: str, there: str) -> None:
    if here == there:
        os.kill(os.getpid(), signal.SIGKILL)


async def open_paused(root: Path) -> tuple[SqliteDatabase, Shop, Sender]:
    database, shop = await open_shop(root)
    sender = Sender(root / "sent")
    send = Tool("send", SendArguments, sender, contained=False, effect=SENDS)
    registry = ToolRegistry([*shop.bench.registry.tools.values(), send])
    shop.having(registry=registry, approver=LaterApprover(), agent=PausingWorker(FILE, SEND))
    return database, shop, sender


async def run(root: Path, point: str) -> None:
    database, shop, _ = await open_paused(root)
    bench = shop.bench
    assert bench.paused is not None
    signer = bench.paused._seals.keys
    runs = KilledRuns(database, clock=bench.clock, ids=bench.ids, keys=signer, audit=shop.audit)
    runs.point = point
    shop.having(paused=runs)
    item = task(verify=[check("cat made", equals="first\n")], budget={"max_attempts": 3})
    await shop.run(item)
    kept = await runs.of("t1")
    if kept is None:
        raise RuntimeError("nothing waits")
    await decide_with_vault(shop.bench, [kept.calls[0]], YES)
    _die("after-deciding", point)
    await shop.execute(await shop.bench.items.get("t1") or item)


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), sys.argv[2]))
