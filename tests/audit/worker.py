"""What other processes do to the same log; `test_processes.py` starts and kills them."""

import asyncio
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

from silas.approval import KeyManager
from silas.audit import AuditLog
from silas.kernel import IdFactory, SystemClock
from silas.storage import Durability, SqliteDatabase, load_migrations, migrate
from silas.testing import MemoryVault

CALLERS = 6


async def open_log(
    folder: Path, vault: MemoryVault, *, every: int
) -> tuple[AuditLog, SqliteDatabase]:
    clock = SystemClock()
    database = SqliteDatabase.open(folder / "silas.db")
    await migrate(database, load_migrations("runtime"), clock=clock)
    keys = KeyManager(vault, clock=clock)
    log = AuditLog(
        database,
        clock=clock,
        ids=IdFactory(clock),
        signer=keys,
        verifier=keys,
        witness=folder / "audit.checkpoint",
        checkpoint_every=every,
    )
    return log, database


def write_without_end(folder: Path, vault: MemoryVault, said: Connection) -> None:
    """Say whether the log holds; then write to it in every way, and say each entry's id."""

    async def work() -> None:
        log, database = await open_log(folder, vault, every=16)
        report = await log.examine(from_checkpoint="latest")
        said.send([problem.sentence for problem in report.problems])

        async def caller(number: int) -> None:
            while True:
                if number:
                    said.send(await log.log("written", caller=number))
                else:
                    said.send(
                        await database.transaction(
                            lambda tx: log.append(tx, "appended", {}), durability=Durability.TRUST
                        )
                    )

        await asyncio.gather(*(caller(number) for number in range(CALLERS)))

    asyncio.run(work())


def write_some(folder: Path, vault: MemoryVault, said: Connection, count: int) -> None:
    """Write so many entries, several at a time, and say their ids."""

    async def work() -> None:
        log, database = await open_log(folder, vault, every=32)
        ids = await asyncio.gather(*(log.log("written", number=n) for n in range(count // 2)))
        ids += [await log.log("written", number=n) for n in range(count - count // 2)]
        await database.close()
        said.send(ids)

    asyncio.run(work())


def archive_without_end(folder: Path, vault: MemoryVault, said: Connection, name: str) -> None:
    """Write and archive in turn; say each entry's id."""

    async def work() -> None:
        log, _ = await open_log(folder, vault, every=4)
        report = await log.examine()
        said.send([problem.sentence for problem in report.problems])
        for number in range(1_000_000):
            for _ in range(5):
                said.send(await log.log("written"))
            tomorrow = SystemClock().now() + timedelta(days=1)
            await log.archive(folder / f"{name}-{number}.jsonl", before=tomorrow)

    asyncio.run(work())
