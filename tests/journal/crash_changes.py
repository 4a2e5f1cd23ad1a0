"""Changes a journal until it is killed, and says what was acknowledged (run as a process)."""

import asyncio
import sys
from pathlib import Path

from silas.journal import OWNER, Journal, dispatch
from silas.kernel import IdFactory, SystemClock
from silas.storage import SqliteDatabase, load_migrations, migrate


async def main(path: Path) -> None:
    clock = SystemClock()
    database = SqliteDatabase.open(path)
    await migrate(database, load_migrations("journal"), clock=clock)
    journal = await Journal.open(database, clock=clock, ids=IdFactory(clock))

    async def work(worker: int) -> None:
        number = 0
        while True:
            number += 1
            name = f"{worker}-{number}"
            made = await dispatch.call(
                journal,
                "create_task",
                {"title": name, "checklist_items": ["one", "two"]},
                scope=OWNER,
                actor="owner",
                operation_id=f"op-{path.name}-{name}-{clock.now()}",
            )
            sys.stdout.write(f"{made.payload['task_id']} {made.logical_change_key}\n")
            sys.stdout.flush()

    async with asyncio.TaskGroup() as group:
        for worker in range(3):
            group.create_task(work(worker))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
