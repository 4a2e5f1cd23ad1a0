"""A process that runs projects in children which can be killed: `run ROOT`, then `wait`.

Children are forked from a process that has imported everything and has no threads: so that a round
takes a fraction of a second, and every child still is a whole Silas of its own.
"""

import asyncio
import os
import sys
from pathlib import Path

from silas.kernel import SystemClock
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.work import WorkItemStatus
from silas.work.executor import WorkItemExecutor
from tests.work.shop import Shop


class FolderVault:
    """`KeyVault` that another process can read too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def get(self, ref_id: str) -> bytes | None:
        path = self._folder / ref_id.replace("/", "_")
        return path.read_bytes() if path.exists() else None

    def set(self, ref_id: str, value: bytes) -> None:
        (self._folder / ref_id.replace("/", "_")).write_bytes(value)


async def open_shop(root: Path) -> tuple[SqliteDatabase, Shop]:
    clock = SystemClock()
    database = SqliteDatabase.open(root / "silas.db")
    await migrate(database, load_migrations("runtime"), clock=clock)
    return database, Shop(database, clock, root, FolderVault(root / "vault"))


async def go_on(root: Path) -> str:
    """As `silas work resume` does: recover, then execute what is left."""
    database, shop = await open_shop(root)
    try:
        executor = WorkItemExecutor(shop.bench)
        await executor.recover()
        item = await shop.bench.items.get("p")
        if item is None:
            return "nothing"
        if item.status is WorkItemStatus.FAILED:
            item = await shop.bench.control.resume("p")
        return (await executor.execute(item)).status.value
    finally:
        await database.close()


def main() -> None:
    child = 0
    for line in sys.stdin:
        word, _, root = line.strip().partition(" ")
        if word == "run":
            child = os.fork()
            if child == 0:
                status = asyncio.run(go_on(Path(root)))
                os._exit(0 if status == "done" else 1)
            print(child, flush=True)
        else:
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
