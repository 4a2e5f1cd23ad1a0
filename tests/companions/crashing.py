"""A house with one companion and an owner who changes tasks, until it is killed or has finished.

python -m tests.companions.crashing FOLDER CHANGES
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from silas.app.companions import CompanionServices
from silas.companions.lifecycle import NewCompanion, SubscriptionDraft
from silas.companions.messages import WakeRun
from silas.companions.models import Companion
from silas.companions.store import CompanionStore
from silas.journal.models import Category, Task
from silas.journal.notifications import semantic
from silas.journal.store import Journal
from silas.kernel import IdFactory, SystemClock
from silas.queue import Bus, QueueStore
from silas.storage import SqliteDatabase, load_migrations, migrate
from tests.companions.making import RecordingRuns, waking_only


@contextlib.asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[CompanionServices, Journal]]:
    """The parts of waking on the files of this folder."""
    clock = SystemClock()
    ids = IdFactory(clock)
    async with contextlib.AsyncExitStack() as stack:
        databases = {}
        for name, schema in (("agent", "agent"), ("journal", "journal"), ("silas", "runtime")):
            databases[name] = SqliteDatabase.open(folder / f"{name}.db")
            stack.push_async_callback(databases[name].close)
            await migrate(databases[name], load_migrations(schema), clock=clock)
        journal = await Journal.open(databases["journal"], clock=clock, ids=ids)
        store = CompanionStore(databases["agent"], clock=clock, ids=ids, host_id=journal.host_id)
        bus = Bus(poll_seconds=0.01)
        queue = QueueStore(databases["silas"], clock=clock, ids=ids, bus=bus, holder="here")
        # Whoever held a message before is gone.
        await queue.recover(alive=lambda _holder: False)
        yield waking_only(store, journal, queue, RecordingRuns(store).run), journal


async def main(folder: Path, changes: int) -> None:
    """Go on where the last process was killed."""
    async with opened(folder) as (waking, journal), waking.running():
        if await waking.store.get(Companion, "coach") is None:
            await waking.lifecycle.create(
                NewCompanion(
                    kind="gym_coach",
                    display_name="Coach",
                    allowed_category_ids=("gym",),
                    subscriptions=(SubscriptionDraft((semantic("TASK"),)),),
                    companion_id="coach",
                )
            )
            create = journal.change(
                lambda edit: edit.create(Category, id="gym", name="gym"), actor="owner"
            )
            await create
        for number in range(changes):
            await journal.change(
                lambda edit, number=number: edit.create(
                    Task, title=f"task {number}", category_id="gym"
                ),
                actor="owner",
            )
            print(number, flush=True)
        await settled(waking, journal)
    print("done", flush=True)


async def settled(waking: CompanionServices, journal: Journal) -> None:
    """Wait until nothing is left to do."""
    await journal.settled()
    while any(  # noqa: ASYNC110 - other tasks work on it
        not run.status.is_terminal for run in await waking.store.find(WakeRun)
    ):
        await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
