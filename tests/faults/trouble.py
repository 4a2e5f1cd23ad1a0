"""One thing that is done, on a disk that fails at each point of it in turn.

`Trial.run` does it again and again, from the same beginning: the first time the first write fails,
then the second one, and so on, until there are not so many. Each time it is looked at what was
claimed, and what a fresh process finds on the disk.
"""

import contextlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from silas.app.core import Core, Machine, make_core
from silas.kernel import SilasError
from silas.sandbox.models import SandboxRunner
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.storage import SqliteDatabase
from silas.testing import FakeClock, MemoryVault
from silas.testing.disk import Fault, FaultyDisk, Touch

LOG = "silas.db-wal"
_MOST = 400


class Trouble(Enum):
    """Which touch of the disk goes wrong, and how."""

    WRITE_IO_ERROR = ("write", Fault.IO_ERROR, False)
    WRITE_FULL = ("write", Fault.FULL, False)
    FULL_FROM_THERE_ON = ("write", Fault.FULL, True)
    TORN_THEN_DEAD = ("write", Fault.TORN, False)
    POWER_GONE_AT_WRITE = ("write", Fault.LOST_POWER, False)
    KILLED_AT_WRITE = ("write", Fault.KILLED, False)
    SYNC_IO_ERROR = ("sync", Fault.IO_ERROR, False)
    POWER_GONE_AT_SYNC = ("sync", Fault.LOST_POWER, False)
    KILLED_AT_SYNC = ("sync", Fault.KILLED, False)

    @property
    def is_deadly(self) -> bool:
        return self.value[1] not in (Fault.IO_ERROR, Fault.FULL)

    @property
    def takes_power(self) -> bool:
        return self.value[1] in (Fault.TORN, Fault.LOST_POWER)


@dataclass
class Claims:
    """What somebody was told, and how often the log had been synced when he was."""

    told: dict[str, Any] = field(default_factory=dict)
    syncs: dict[str, int] = field(default_factory=dict)
    error: SilasError | None = None

    def has(self, name: str) -> bool:
        return name in self.told


@dataclass
class Scene:
    """A core on the disk that fails, and what is claimed on it."""

    core: Core
    disk: FaultyDisk
    claims: Claims

    def claim(self, name: str, value: Any = True) -> None:
        """Somebody was told this: nobody is, once the process is dead."""
        if not self.disk.dead:
            self.claims.told[name] = value
            self.claims.syncs[name] = self.disk.syncs.get(LOG, 0)


Act = Callable[[Scene], Awaitable[None]]
Examine = Callable[[Core, Claims, "Ending"], Awaitable[None]]


@dataclass(frozen=True)
class Ending:
    """How it ended."""

    trouble: Trouble
    number: int
    syncs: int
    """How often the log was synced altogether."""

    def may_be_lost(self, claims: Claims, name: str) -> bool:
        """Whether what was claimed was never synced before the power went."""
        return self.trouble.takes_power and claims.syncs[name] >= self.syncs


class Trial:
    """A beginning, and what is done from there."""

    def __init__(self, folder: Path, *, sandbox: SandboxRunner | None = None) -> None:
        self._folder = folder
        self._sandbox = sandbox
        self._clock = FakeClock()
        self._vault = MemoryVault()

    async def begin(self, prepare: Act | None = None) -> None:
        """Make the beginning that every try starts from."""
        disk = FaultyDisk(lambda _: Fault.NONE)
        (self._folder / "first" / "data").mkdir(parents=True)
        async with self._open("first", disk) as core:
            core.keys.generate_keypair()
            if prepare is not None:
                await prepare(Scene(core, disk, Claims()))
        disk.close()

    async def run(self, trouble: Trouble, act: Act, examine: Examine) -> int:
        """Fail at each point in turn; returns how many there were."""
        for number in range(1, _MOST):
            shutil.copytree(self._folder / "first", self._folder / "now")
            reached = await self._try(trouble, number, act, examine)
            shutil.rmtree(self._folder / "now")
            if not reached:
                return number - 1
        raise AssertionError("it never came to an end")

    async def _try(self, trouble: Trouble, number: int, act: Act, examine: Examine) -> bool:
        plan = _Plan(trouble, number)
        disk = FaultyDisk(plan)
        claims = Claims()
        try:
            with contextlib.suppress(SilasError):  # when it is closed, on a disk that is dead
                async with self._open("now", disk) as core:
                    plan.armed = True
                    claims.error = await _what_is_reported(act, Scene(core, disk, claims))
                    plan.armed = False
            assert claims.error is None or claims.error.message
            ending = Ending(trouble, number, disk.syncs.get(LOG, 0))
            disk.drop_connections()
            if disk.dead:
                disk.restart()
            async with self._open("now", disk) as core:
                report = await core.audit.examine()
                assert report.ok, report.first_problem
                assert await core.database.fetch_all("PRAGMA quick_check") == [("ok",)]
                await examine(core, claims, ending)
        finally:
            disk.drop_connections()
            disk.close()
        return plan.reached

    @contextlib.asynccontextmanager
    async def _open(self, name: str, disk: FaultyDisk) -> AsyncIterator[Core]:
        root = self._folder / name
        settings = load_settings(
            data_dir=str(root / "data"), config_file=None, environ={"HOME": str(root)}, cwd=root
        )
        machine = Machine(
            open_database=partial(SqliteDatabase.open, vfs=disk.name), sandbox=self._sandbox
        )
        vault = OnDemandVault(lambda: self._vault)  # type: ignore[arg-type,return-value]
        async with make_core(settings, vault, clock=self._clock, machine=machine) as core:
            yield core


async def _what_is_reported(act: Act, scene: Scene) -> SilasError | None:
    """One of our errors, or none. Whatever else comes is not ours, and fails the test."""
    try:
        await act(scene)
    except SilasError as error:
        return error
    return None


class _Plan:
    """Fails at one touch, counted from when it is armed."""

    def __init__(self, trouble: Trouble, number: int) -> None:
        self._kind, self._fault, self._stays = trouble.value
        self._number = number
        self._seen = 0
        self.armed = False

    @property
    def reached(self) -> bool:
        return self._seen >= self._number

    def __call__(self, touch: Touch) -> Fault:
        if not self.armed or touch.kind != self._kind:
            return Fault.NONE
        self._seen += 1
        wanted = self._seen >= self._number if self._stays else self._seen == self._number
        return self._fault if wanted else Fault.NONE
