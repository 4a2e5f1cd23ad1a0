"""Several processes, and processes that die: one chain, and nothing acknowledged is missing."""

import asyncio
import fcntl
import random
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from silas.approval import KeyManager
from silas.audit import examine_file
from silas.kernel import SystemClock, strict_loads
from silas.testing import MemoryVault
from tests.audit import worker
from tests.chaos import FORKED

KILLS = 200
KILLS_WHILE_ARCHIVING = 60


@pytest.fixture
def vault() -> MemoryVault:
    vault = MemoryVault()
    KeyManager(vault, clock=SystemClock()).generate_keypair()
    return vault


def start(target: Callable[..., None], *arguments: object) -> tuple[Any, Connection]:
    ours, theirs = FORKED.Pipe(duplex=False)
    # Who is not heard soon waits: one that wrote on and on would leave the others no turn.
    fcntl.fcntl(ours.fileno(), fcntl.F_SETPIPE_SZ, 4096)
    process = FORKED.Process(
        target=target, args=(*arguments[:2], theirs, *arguments[2:]), daemon=True
    )
    process.start()
    theirs.close()
    return process, ours


def heard_before_death(process: Any, pipe: Connection, count: int) -> list[Any]:
    """So many messages, then the kill, then what was said meanwhile."""
    heard = [pipe.recv() for _ in range(count)]
    process.kill()
    process.join()
    try:
        while pipe.poll():
            heard.append(pipe.recv())
    except (EOFError, OSError):
        pass  # a message that was cut short was not said
    pipe.close()
    return heard


def ids_in(folder: Path, vault: MemoryVault) -> set[str]:
    """What is in the log, which must hold; all of it, and from its last checkpoint on."""

    async def read() -> set[str]:
        log, database = await worker.open_log(folder, vault, every=16)
        for start_at in (None, "latest"):
            report = await log.examine(from_checkpoint=start_at)
            assert report.ok, report.problems
        entries = await log.tail(10**9)
        await database.close()
        return {entry.entry_id for entry in entries}

    return asyncio.run(read())


def test_several_at_once_write_one_chain(tmp_path: Path, vault: MemoryVault) -> None:
    started = [start(worker.write_some, tmp_path, vault, 120) for _ in range(3)]
    said = [pipe.recv() for _, pipe in started]
    for process, pipe in started:
        process.join()
        pipe.close()
    ids = ids_in(tmp_path, vault)
    assert {entry_id for each in said for entry_id in each} <= ids
    assert len(ids) == 360


@pytest.mark.slow
def test_killed_at_any_point_nothing_acknowledged_is_missing(
    tmp_path: Path, vault: MemoryVault
) -> None:
    chance = random.Random(2026)
    said: set[str] = set()
    for _ in range(KILLS):
        process, pipe = start(worker.write_without_end, tmp_path, vault)
        assert pipe.recv() == [], "the log holds after the kill before this one"
        said |= set(heard_before_death(process, pipe, chance.randint(0, 25)))
    assert len(said) > KILLS
    assert said <= ids_in(tmp_path, vault)


@pytest.mark.slow
def test_two_at_once_of_which_one_is_killed(tmp_path: Path, vault: MemoryVault) -> None:
    chance = random.Random(7)
    said: set[str] = set()
    survivor, survivor_pipe = start(worker.write_without_end, tmp_path, vault)
    assert survivor_pipe.recv() == []
    for _ in range(30):
        process, pipe = start(worker.write_without_end, tmp_path, vault)
        assert pipe.recv() == []
        said |= {survivor_pipe.recv() for _ in range(5)}
        said |= set(heard_before_death(process, pipe, chance.randint(0, 10)))
    said |= set(heard_before_death(survivor, survivor_pipe, 1))
    assert said <= ids_in(tmp_path, vault)


@pytest.mark.slow
def test_killed_while_archiving_nothing_is_lost(tmp_path: Path, vault: MemoryVault) -> None:
    chance = random.Random(11)
    said: set[str] = set()
    for number in range(KILLS_WHILE_ARCHIVING):
        process, pipe = start(worker.archive_without_end, tmp_path, vault, f"a{number}")
        assert pipe.recv() == []
        said |= set(heard_before_death(process, pipe, chance.randint(0, 12)))
    archived: set[str] = set()
    keys = KeyManager(vault, clock=SystemClock())
    files = list(tmp_path.glob("*.jsonl"))
    for file in files:
        assert examine_file(file, verifier=keys).ok
        lines = [strict_loads(line) for line in file.read_bytes().splitlines()[1:]]
        archived |= {line["entry"]["entry_id"] for line in lines if "entry" in line}
    assert len(files) > 10
    assert said <= ids_in(tmp_path, vault) | archived
