"""Kill a migrating process again and again; run as `python -m tests.storage.crash_migrations`.

Children are forked from one process that has everything imported, so that a round takes
milliseconds. Prints, as JSON, how many migrations each killed child had got through.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import apsw

from silas.kernel import SystemClock
from silas.storage import Migration, SqliteDatabase, migrate

STEPS = 5
MIGRATIONS = [
    Migration(
        f"{number:03}_step",
        f"CREATE TABLE IF NOT EXISTS step_{number} (id INTEGER PRIMARY KEY, filler TEXT);"
        f"CREATE INDEX IF NOT EXISTS step_{number}_filler ON step_{number} (filler);"
        f"WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 40)"
        f"INSERT INTO step_{number} SELECT n, hex(randomblob(100)) FROM c WHERE true"
        f" ON CONFLICT DO NOTHING;",
    )
    for number in range(1, STEPS + 1)
]


async def bring_up_to_date(path: Path) -> list[str]:
    database = SqliteDatabase.open(path)
    try:
        return await migrate(database, MIGRATIONS, clock=SystemClock())
    finally:
        await database.close()


def fork(path: Path, gate: int | None = None) -> int:
    """A child that migrates the file, once the gate opens; its exit code says how many it did."""
    child = os.fork()
    if child == 0:
        if gate is not None:
            os.read(gate, 1)
        os._exit(len(asyncio.run(bring_up_to_date(path))))
    return child


def check(path: Path) -> int:
    """Every recorded migration is there whole, and nothing else is; returns how many."""
    connection = apsw.Connection(str(path))
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    applied: list[str] = []
    if "applied_migrations" in tables:
        rows = connection.execute("SELECT id FROM applied_migrations ORDER BY id")
        applied = [migration_id for (migration_id,) in rows]
    expected = [migration.id for migration in MIGRATIONS[: len(applied)]]
    found = {name for name in tables if name.startswith("step_")}
    whole = {f"step_{n}" for n in range(1, len(applied) + 1)}
    whole |= {f"{name}_filler" for name in whole}
    counts = [
        connection.execute(f"SELECT count(*) FROM step_{n}").fetchall()[0][0]
        for n in range(1, len(applied) + 1)
    ]
    intact = connection.execute("PRAGMA integrity_check").fetchall()
    connection.close()
    if (applied, found, counts, intact) != (expected, whole, [40] * len(applied), [("ok",)]):
        raise SystemExit(f"{path}: {applied} recorded, {found} found, {counts}, {intact}")
    return len(applied)


def crash_round(path: Path, delay: float) -> int:
    child = fork(path)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    survived = check(path) if path.exists() else 0
    done = len(asyncio.run(bring_up_to_date(path)))
    if (survived + done, check(path)) != (STEPS, STEPS):
        raise SystemExit(f"{path}: {survived} before, {done} after")
    return survived


def race(path: Path, *, children: int) -> list[int]:
    """Let several processes migrate one file at once; returns how many steps each of them did."""
    gate, opener = os.pipe()
    pids = [fork(path, gate) for _ in range(children)]
    os.write(opener, b"x" * children)
    done = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    check(path)
    return done


def main(folder: Path, *, rounds: int, seed: int) -> None:
    chance = random.Random(seed)
    started = time.monotonic()
    os.waitpid(fork(folder / "whole.db"), 0)
    usual = time.monotonic() - started
    survived = []
    for number in range(rounds):
        survived.append(crash_round(folder / f"{number}.db", chance.uniform(0, usual)))
        # The machine may be faster or slower now than when the time was taken.
        usual *= {0: 1.1, STEPS: 0.9}.get(survived[-1], 1.0)
    races = [race(folder / f"race {number}.db", children=3) for number in range(10)]
    print(json.dumps({"survived": survived, "races": races}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), rounds=int(sys.argv[2]), seed=int(sys.argv[3]))
