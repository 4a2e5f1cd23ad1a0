"""Whoever executes work where no Silas runs: the model of the settings, if there is one."""

import contextlib
import importlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from silas.agents.models.roles import Role
from silas.app.ground import Ground
from silas.app.model_choices import model_name
from silas.work.ports import ExecutorAgent


@contextlib.asynccontextmanager
async def open_worker(
    ground: Ground, *, environ: Mapping[str, str], home: Path
) -> AsyncIterator[ExecutorAgent | None]:
    """The executor that a running Silas would have; None if plans must say what is to be run."""
    if model_name(ground.settings, Role.EXECUTOR) is None:
        yield None
        return
    # Loaded here: it brings the library of the models along, which most commands do not need.
    minds = importlib.import_module("silas.app.minds")
    async with minds.open_minds(ground, environ=environ, home=home) as opened:
        yield opened.executor
