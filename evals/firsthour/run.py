"""Runs tasks and tells what came of each.

Tasks share a server as long as they leave nothing behind: that is the owner's first hour, one
conversation. A task that fails, leaves a card or work behind, or has settings of its own, is
followed by a fresh machine, so that no task fails because of another.
"""

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.firsthour.model import ScriptedModel
from evals.firsthour.owner import Machine, NotShown, Owner
from evals.firsthour.task import Judge, Task, prepare
from silas.testing.model_server import ModelServer, model_server

_ROLES = ("PROXY", "PLANNER", "EXECUTOR", "SCORER")
_PATIENCE, _PATIENCE_WITH_A_MODEL = 180.0, 900.0


@dataclass(frozen=True)
class Outcome:
    """What came of a task."""

    name: str
    problems: Sequence[str]
    seconds: float
    heard: Sequence[str] = ()
    """What Silas said, for whoever looks why."""

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong."""
        return not self.problems


@dataclass(frozen=True)
class RealModel:
    """A model that is served somewhere."""

    address: str
    name: str = "local"
    patience: float = _PATIENCE_WITH_A_MODEL


@dataclass
class _Hour:
    """One owner before one machine, until it has to be replaced."""

    folder: Path
    template: Path
    address: str
    real: RealModel | None
    owner: Owner | None = None
    machines: int = 0

    async def fresh(self, settings: Mapping[str, str]) -> Owner:
        """A machine on which nothing has happened yet."""
        await self.close()
        self.machines += 1
        machine = Machine(self.folder / str(self.machines), {**self._model(), **settings})
        await asyncio.to_thread(shutil.copytree, self.template, machine.folder)
        patience = self.real.patience if self.real else _PATIENCE
        self.owner = Owner(machine, patience)
        await self.owner.sit_down()
        return self.owner

    async def close(self) -> None:
        """End the server, if one runs."""
        if self.owner is not None:
            await self.owner.leave()
            self.owner = None

    def _model(self) -> dict[str, str]:
        name = self.real.name if self.real else "scripted"
        return {
            **{f"SILAS_MODELS__{role}": f"openai:{name}" for role in _ROLES},
            "SILAS_MODELS__BASE_URL": self.address,
            "SILAS_MODELS__TIMEOUT_SECONDS": "600" if self.real else "30",
            "OPENAI_API_KEY": "none",
        }


async def run_tasks(
    tasks: Iterable[Task],
    *,
    real: RealModel | None = None,
    tell: Callable[[Outcome], None] = lambda _outcome: None,
) -> list[Outcome]:
    """Run them one after the other; `tell` hears each outcome at once."""
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="first-hour-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        template = Machine(folder / "template", {})
        await asyncio.to_thread(template.set_up)
        async with model_server() as server, _hour(folder, server, real) as hour:
            for task in tasks:
                outcomes.append(await _run(hour, task, server))
                tell(outcomes[-1])
    return outcomes


@contextlib.asynccontextmanager
async def _hour(folder: Path, server: ModelServer, real: RealModel | None) -> AsyncIterator[_Hour]:
    address = real.address if real else server.url
    hour = _Hour(folder, folder / "template", address, real)
    try:
        yield hour
    finally:
        await hour.close()


async def _run(hour: _Hour, task: Task, server: ModelServer) -> Outcome:
    begun, problems = time.monotonic(), []
    owner = hour.owner
    if owner is None or task.settings:
        owner = await hour.fresh(task.settings)
    owner.begin()
    server.script(ScriptedModel(task.model, owner.machine.home))
    await prepare(owner, task)
    try:
        for step in task.owner:
            await step(owner)
    except (NotShown, ConnectionError) as error:
        problems.append(str(error))
    problems += [problem for judge in task.judge if (problem := _judged(judge, owner))]
    heard = tuple(owner.heard)
    if problems or task.settings or owner.unfinished:
        await hour.close()
    else:
        owner.tidy_up()
    return Outcome(task.name, problems, time.monotonic() - begun, heard)


def _judged(judge: Judge, owner: Owner) -> str:
    try:
        return judge(owner)
    except (OSError, UnicodeDecodeError) as error:
        return str(error)
