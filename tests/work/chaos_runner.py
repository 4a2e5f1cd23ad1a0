"""A process that runs projects in children which can be killed."""

import asyncio
from pathlib import Path

from silas.kernel import SystemClock
from silas.storage import SqliteDatabase, load_migrations, migrate
from silas.work import WorkItemStatus
from silas.work.executor import WorkItemExecutor
from tests.chaos import serve_runner
from tests.work.shop import Shop


class FolderVault:
    """`Vault` that another process can read too."""

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


def run(root: Path) -> int:
    return 0 if asyncio.run(go_on(root)) == "done" else 1


if __name__ == "__main__":
    serve_runner(run)
