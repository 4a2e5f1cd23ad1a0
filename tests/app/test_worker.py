"""Work that is resumed where no Silas runs has the worker that a running one would give it."""

from pathlib import Path

import pytest

from silas.agents.executor import ExecutorAgent
from silas.app.agents import open_worker
from silas.app.core import make_core
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.testing import MemoryVault

MODEL = {"SILAS_MODELS__EXECUTOR": "ollama:tiny"}


@pytest.mark.parametrize(("environ", "kind"), [({}, type(None)), (MODEL, ExecutorAgent)])
async def test_the_model_of_the_settings_or_nobody(
    tmp_path: Path, environ: dict[str, str], kind: type[object]
) -> None:
    (tmp_path / "data").mkdir()
    loaded = load_settings(
        data_dir=str(tmp_path / "data"), config_file=None, environ=environ, cwd=tmp_path
    )
    vault = MemoryVault()
    async with (
        make_core(loaded, OnDemandVault(lambda: vault)) as core,  # type: ignore[arg-type,return-value]
        open_worker(core, environ={}, home=tmp_path) as agent,
    ):
        assert type(agent) is kind
