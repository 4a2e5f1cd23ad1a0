"""The offline brain comes after the page; a model that is configured comes before everything."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from silas.agents.models.errors import ModelNotUsable
from silas.agents.proxy import ProxyAgent
from silas.app.agents import Agents, LateBrain, open_agents
from silas.app.core import Core, make_core
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.testing import MemoryVault

_LOOK = """
import sys
import silas.cli.start
print(sorted({"pydantic_ai", "stdnum.ar", "numpy"} & set(sys.modules)))
"""


@asynccontextmanager
async def core_in(folder: Path, environ: dict[str, str] | None = None) -> AsyncIterator[Core]:
    (folder / "data").mkdir()
    loaded = load_settings(
        data_dir=str(folder / "data"), config_file=None, environ=environ or {}, cwd=folder
    )
    vault = MemoryVault()
    async with make_core(loaded, OnDemandVault(lambda: vault)) as core:  # type: ignore[arg-type,return-value]
        yield core


@dataclass
class Counting(LateBrain):
    """A brain that counts how often it is made, and may not come about."""

    made: int = 0
    fails: bool = False

    def _make(self) -> Agents:
        self.made += 1
        if self.fails:
            raise ModelNotUsable
        return super()._make()


def test_a_start_does_not_load_what_the_page_does_not_need() -> None:
    shown = subprocess.run([sys.executable, "-c", _LOOK], capture_output=True, check=True)
    assert shown.stdout.strip() == b"[]"


async def test_it_is_made_once_however_many_ask(tmp_path: Path) -> None:
    async with core_in(tmp_path) as core:
        brain = Counting(core, {}, tmp_path)
        impatient = asyncio.create_task(brain.ready())
        await asyncio.sleep(0)
        impatient.cancel()
        first, second = await asyncio.gather(brain.ready(), brain.ready())
        assert isinstance(first[0], ProxyAgent)
        assert (first, brain.made) == (second, 1)
        assert impatient.cancelled()


async def test_what_cannot_be_made_answers_nobody(tmp_path: Path) -> None:
    async with core_in(tmp_path) as core:
        brain = Counting(core, {}, tmp_path, fails=True)
        for _ in range(2):
            with pytest.raises(ModelNotUsable):
                await brain.ready()
        await brain.close()


async def test_without_a_model_the_brain_is_both(tmp_path: Path) -> None:
    async with (
        core_in(tmp_path) as core,
        open_agents(core, environ={}, home=tmp_path) as agents,
    ):
        assert isinstance(agents.proxy, LateBrain)
        assert agents.planner is agents.proxy
        assert agents.ready is not None
        await agents.ready()


async def test_a_model_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    environ = {"SILAS_MODELS__PROXY": "ollama:tiny", "SILAS_MODELS__API_KEYS__OLLAMA": "env:NO_KEY"}
    async with core_in(tmp_path, environ) as core:
        with pytest.raises(ModelNotUsable, match="NO_KEY"):
            async with open_agents(core, environ={}, home=tmp_path):
                pass
