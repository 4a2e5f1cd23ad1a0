"""Housekeeping of the ground floor: nonces are forgotten in time, old entries move to files."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from silas.app.ground import Ground, OnDemandVault, make_ground
from silas.app.jobs import archive_old_entries, ground_jobs
from silas.app.settings import LoadedSettings, load_settings
from silas.audit.export import examine_file
from silas.testing import FakeClock, MemoryVault

SETTINGS = {"SILAS_AUDIT__RETENTION_DAYS": "30"}


def loaded(folder: Path, environ: dict[str, str]) -> LoadedSettings:
    return load_settings(data_dir=str(folder), config_file=None, environ=environ, cwd=folder)


@pytest.fixture
async def ground(tmp_path: Path) -> AsyncIterator[Ground]:
    vault = OnDemandVault(MemoryVault)  # type: ignore[arg-type]
    async with make_ground(loaded(tmp_path, SETTINGS), vault, clock=FakeClock()) as ground:
        ground.keys.generate_keypair()
        yield ground


def clock_of(ground: Ground) -> FakeClock:
    assert isinstance(ground.clock, FakeClock)
    return ground.clock


async def run_all(ground: Ground) -> None:
    for job in ground_jobs(ground):
        await job.run()


async def test_nonces_are_kept_as_long_as_the_settings_say(ground: Ground) -> None:
    await ground.nonces.record("exec", "n")
    clock_of(ground).advance(minutes=40)
    await run_all(ground)
    assert await ground.nonces.is_used("exec", "n")
    clock_of(ground).advance(seconds=1)
    await run_all(ground)
    assert not await ground.nonces.is_used("exec", "n")


async def test_old_entries_move_to_a_file_that_proves_itself(ground: Ground) -> None:
    await ground.audit.log("long_ago")
    await ground.audit.write_checkpoint()
    clock_of(ground).advance(days=31)
    await ground.audit.log("today")
    await run_all(ground)
    files = list(ground.paths.archive.iterdir())
    assert len(files) == 1
    assert b"long_ago" in files[0].read_bytes()
    assert examine_file(files[0], verifier=ground.keys).ok
    assert (await ground.audit.verify_chain())[0]
    bodies = await ground.database.fetch_all("SELECT body FROM audit_log")
    assert not any("long_ago" in body for (body,) in bodies)


async def test_nothing_old_is_nothing_to_do(ground: Ground) -> None:
    await ground.audit.log("today")
    await archive_old_entries(ground, keep=timedelta(days=30))
    assert list(ground.paths.archive.iterdir()) == []


async def test_by_default_entries_are_kept_for_ever(tmp_path: Path) -> None:
    vault = OnDemandVault(MemoryVault)  # type: ignore[arg-type]
    async with make_ground(loaded(tmp_path, {}), vault, clock=FakeClock()) as ground:
        assert [job.name for job in ground_jobs(ground)] == [
            "prune nonces",
            "checkpoint the audit log",
            "give free memory back",
        ]
