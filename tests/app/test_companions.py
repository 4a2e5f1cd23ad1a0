"""Companions in their file: opened, backed up, brought back under another name of the device."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from silas.agents.companion_gateway import Destinations
from silas.app.agents import companion_choices, without_reading
from silas.app.backup import back_up, bring_back
from silas.app.companions import CompanionServices, companion_retention, open_companions
from silas.app.core import Core, make_core
from silas.app.doctor import _companions as examined
from silas.app.journal import open_journal
from silas.companions.lifecycle import NewCompanion
from silas.companions.models import AgentTimer, Companion, TimerKind
from silas.companions.retention import FOR_EVER, KEEP_DAYS, ArtifactClass
from silas.companions.timers import TimerDraft
from silas.kernel import SystemClock
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.testing import MemoryVault

COACH = NewCompanion(
    kind="gym_coach",
    display_name="Coach",
    allowed_category_ids=("gym",),
    timers=(TimerDraft(TimerKind.DAILY, "07:00"),),
    companion_id="coach",
)


@asynccontextmanager
async def opened(
    folder: Path, vault: MemoryVault, **environ: str
) -> AsyncIterator[tuple[Core, CompanionServices]]:
    folder.mkdir(exist_ok=True)
    loaded = load_settings(data_dir=str(folder), config_file=None, environ=environ, cwd=folder)
    async with (
        make_core(loaded, OnDemandVault(lambda: vault)) as core,
        open_journal(core) as journal,
        open_companions(core, journal, queue=core.queue) as room,
    ):
        yield core, room


def quietly(_what: str, _done: int, _all: int) -> None:
    """Nobody looks at the progress."""


def test_companions_come_back_from_a_backup(tmp_path: Path) -> None:
    vault, file = MemoryVault(), tmp_path / "b.tar"

    async def make() -> Core:
        async with opened(tmp_path / "here", vault) as (core, room):
            await room.lifecycle.create(COACH)
            return core

    core = asyncio.run(make())
    clock = SystemClock()
    back_up(core.paths, file, clock=clock, replace=False, progress=quietly)

    async def elsewhere() -> Core:
        async with opened(tmp_path / "there", vault) as (there, _room):
            return there

    there = asyncio.run(elsewhere())
    bring_back(there.paths, file, clock=clock, replace=True, progress=quietly)

    async def look() -> None:
        async with opened(tmp_path / "there", vault) as (found, room):
            before = await room.store.require(Companion, "coach")
            [timer] = await room.store.find(AgentTimer)
            assert timer.next_run_at is not None
            assert timer.next_run_at > found.clock.now()
            # The device has another name in vector clocks: the old one may go on elsewhere.
            after = await room.lifecycle.pause("coach")
            assert room.store.host_id not in before.vector_clock
            assert before.vector_clock.items() <= after.vector_clock.items()
            assert after.vector_clock[room.store.host_id] > 0
            assert (await examined(found)).status == "ok"

    asyncio.run(look())


async def test_a_house_without_companions_has_no_file_until_it_is_opened(tmp_path: Path) -> None:
    vault = MemoryVault()
    loaded = load_settings(data_dir=str(tmp_path), config_file=None, environ={}, cwd=tmp_path)
    async with make_core(loaded, OnDemandVault(lambda: vault)) as core:
        finding = await examined(core)
        assert finding.sentence == "There are none yet."
        assert not core.paths.companions.exists()


async def test_how_long_what_they_leave_behind_is_kept_is_a_setting(tmp_path: Path) -> None:
    chosen = {
        "SILAS_COMPANIONS__KEEP_DAYS__TRACE": "7",
        "SILAS_COMPANIONS__KEEP_DAYS__REPORT": "null",
    }
    async with opened(tmp_path, MemoryVault(), **chosen) as (core, room):
        kept = companion_retention(room.store, core.settings.companions).keep_days
    assert kept == {**KEEP_DAYS, ArtifactClass.TRACE: 7, ArtifactClass.REPORT: FOR_EVER}


async def test_a_model_is_at_a_host_and_a_port(tmp_path: Path) -> None:
    at = {}
    for number, address in enumerate(("http://127.0.0.1:11434/v1", "https://[::1]/v1", None)):
        environ = {"SILAS_MODELS__PROXY": "openai:one"}
        environ |= {"SILAS_MODELS__BASE_URL": address} if address else {}
        async with opened(tmp_path / str(number), MemoryVault(), **environ) as (core, _):
            found = Destinations(companion_choices(core.settings, without_reading)).destination(
                "openai:one"
            )
            assert found is not None
            at[address] = (found.host, found.port)
    assert list(at.values()) == [
        ("127.0.0.1", 11434),
        ("::1", 443),
        ("openai's own servers", None),
    ]
