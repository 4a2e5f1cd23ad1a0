"""Companions in their file: opened, backed up, brought back under another name of the device."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from silas.app import companion_line
from silas.app.backup import back_up, bring_back
from silas.app.companion_destinations import Destinations
from silas.app.companions import CompanionRoom, open_companions
from silas.app.control import ControlServer
from silas.app.doctor.installation import companions as examined
from silas.app.ground import Ground, OnDemandVault, make_ground
from silas.app.journal import open_journal
from silas.app.settings import load_settings
from silas.app.stream import open_queue
from silas.companions.lifecycle import NewCompanion
from silas.companions.models import AgentTimer, Companion, TimerKind
from silas.companions.retention import FOR_EVER, KEEP_DAYS, ArtifactClass
from silas.companions.timer_book import TimerDraft
from silas.kernel import SystemClock
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
) -> AsyncIterator[tuple[Ground, CompanionRoom]]:
    folder.mkdir(exist_ok=True)
    loaded = load_settings(data_dir=str(folder), config_file=None, environ=environ, cwd=folder)
    async with (
        make_ground(loaded, OnDemandVault(lambda: vault)) as ground,
        open_journal(ground) as journal,
        open_companions(ground, journal, queue=open_queue(ground)) as room,
    ):
        yield ground, room


def quietly(_what: str, _done: int, _all: int) -> None:
    """Nobody looks at the progress."""


def test_companions_come_back_from_a_backup(tmp_path: Path) -> None:
    vault, file = MemoryVault(), tmp_path / "b.tar"

    async def make() -> Ground:
        async with opened(tmp_path / "here", vault) as (ground, room):
            await room.waking.lifecycle.create(COACH)
            return ground

    ground = asyncio.run(make())
    clock = SystemClock()
    back_up(ground.paths, file, clock=clock, replace=False, progress=quietly)

    async def elsewhere() -> Ground:
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
            after = await room.waking.lifecycle.pause("coach")
            assert room.store.host_id not in before.vector_clock
            assert before.vector_clock.items() <= after.vector_clock.items()
            assert after.vector_clock[room.store.host_id] > 0
            assert (await examined(found)).status == "ok"

    asyncio.run(look())


async def test_a_house_without_companions_has_no_file_until_it_is_opened(tmp_path: Path) -> None:
    vault = MemoryVault()
    loaded = load_settings(data_dir=str(tmp_path), config_file=None, environ={}, cwd=tmp_path)
    async with make_ground(loaded, OnDemandVault(lambda: vault)) as ground:
        finding = await examined(ground)
        assert finding.sentence == "There are none yet."
        assert not ground.paths.companions.exists()


async def test_how_long_what_they_leave_behind_is_kept_is_a_setting(tmp_path: Path) -> None:
    chosen = {
        "SILAS_COMPANIONS__KEEP_DAYS__TRACE": "7",
        "SILAS_COMPANIONS__KEEP_DAYS__REPORT": "null",
    }
    async with opened(tmp_path, MemoryVault(), **chosen) as (_ground, room):
        kept = room.retention.keep_days
    assert kept == {**KEEP_DAYS, ArtifactClass.TRACE: 7, ArtifactClass.REPORT: FOR_EVER}


async def test_a_model_is_at_a_host_and_a_port(tmp_path: Path) -> None:
    at = {}
    for number, address in enumerate(("http://127.0.0.1:11434/v1", "https://[::1]/v1", None)):
        environ = {"SILAS_MODELS__PROXY": "openai:one"}
        environ |= {"SILAS_MODELS__BASE_URL": address} if address else {}
        async with opened(tmp_path / str(number), MemoryVault(), **environ) as (ground, _):
            found = Destinations(ground).destination("openai:one")
            assert found is not None
            at[address] = (found.host, found.port)
    assert list(at.values()) == [
        ("127.0.0.1", 11434),
        ("::1", 443),
        ("openai's own servers", None),
    ]


async def test_a_long_list_goes_through_the_socket_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(companion_line, "_AT_ONCE", 2)
    line, asked = companion_line.CompanionLine(), []

    async def answer(params: dict[str, Any]) -> Any:
        asked.append(params["arguments"].get("skip"))
        return await line.answer(params)

    server = ControlServer({companion_line.METHOD: answer})
    async with opened(tmp_path / "data", MemoryVault()) as (ground, room):
        for number in range(4):
            named = replace(COACH, companion_id=f"coach-{number}")
            await room.waking.lifecycle.create(named)
        whole = await companion_line.list_companions(ground, with_destroyed=False)
        assert (len(whole), asked) == (4, [])
        with line.connected(room.desk):
            async with server.listening(ground.paths.socket):
                pieces = await companion_line.list_companions(ground, with_destroyed=False)
    assert (pieces, asked) == (whole, [0, 2, 4])
