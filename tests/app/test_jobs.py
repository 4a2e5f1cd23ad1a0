"""Housekeeping of the data directory: nonces are forgotten in time, old entries move to files."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from silas.app.core import Core, make_core
from silas.app.jobs import archive_old_entries, core_jobs
from silas.audit.export import examine_file
from silas.secrets import OnDemandVault
from silas.settings.load import LoadedSettings, load_settings
from silas.testing import FakeClock, MemoryVault

SETTINGS = {"SILAS_AUDIT__RETENTION_DAYS": "30"}


def loaded(folder: Path, environ: dict[str, str]) -> LoadedSettings:
    return load_settings(data_dir=str(folder), config_file=None, environ=environ, cwd=folder)


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[Core]:
    vault = OnDemandVault(MemoryVault)  # type: ignore[arg-type]
    async with make_core(loaded(tmp_path, SETTINGS), vault, clock=FakeClock()) as core:
        core.keys.generate_keypair()
        yield core


def clock_of(core: Core) -> FakeClock:
    assert isinstance(core.clock, FakeClock)
    return core.clock


async def run_all(core: Core) -> None:
    for job in core_jobs(core):
        await job.run()


async def test_nonces_are_kept_as_long_as_the_settings_say(core: Core) -> None:
    await core.nonces.record("exec", "n")
    clock_of(core).advance(minutes=40)
    await run_all(core)
    assert await core.nonces.is_used("exec", "n")
    clock_of(core).advance(seconds=1)
    await run_all(core)
    assert not await core.nonces.is_used("exec", "n")


async def test_old_entries_move_to_a_file_that_proves_itself(core: Core) -> None:
    await core.audit.log("long_ago")
    await core.audit.write_checkpoint()
    clock_of(core).advance(days=31)
    await core.audit.log("today")
    await run_all(core)
    files = list(core.paths.archive.iterdir())
    assert len(files) == 1
    assert b"long_ago" in files[0].read_bytes()
    assert examine_file(files[0], verifier=core.keys).ok
    assert (await core.audit.verify_chain())[0]
    bodies = await core.database.fetch_all("SELECT body FROM audit_log")
    assert not any("long_ago" in body for (body,) in bodies)


async def test_nothing_old_is_nothing_to_do(core: Core) -> None:
    await core.audit.log("today")
    await archive_old_entries(core, keep=timedelta(days=30))
    assert list(core.paths.archive.iterdir()) == []


async def test_by_default_entries_are_kept_for_ever(tmp_path: Path) -> None:
    vault = OnDemandVault(MemoryVault)  # type: ignore[arg-type]
    async with make_core(loaded(tmp_path, {}), vault, clock=FakeClock()) as core:
        assert [job.name for job in core_jobs(core)] == [
            "prune nonces",
            "checkpoint the audit log",
            "give free memory back",
        ]
