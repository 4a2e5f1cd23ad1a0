"""One world from one seed: its time, its disk, its chance, and the Silas that lives in it."""

import asyncio
import base64
import contextlib
import hashlib
import shutil
import socket
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from silas.app.ground import Ground, OnDemandVault, make_ground
from silas.app.house import House, open_house
from silas.app.housekeeping import Housekeeping
from silas.app.jobs import ground_jobs
from silas.app.machine import Machine
from silas.app.settings import LoadedSettings, load_settings
from silas.approval.keys import OWNER_KEYS_REF
from silas.evals.simulation.loop import SimulatedClock, SimulatedLoop
from silas.evals.simulation.minds import lying_minds
from silas.evals.simulation.records import Records
from silas.evals.simulation.sandbox import SimulatedSandbox
from silas.evals.simulation.trace import Trace
from silas.kernel import canonical_bytes, format_timestamp
from silas.storage import SqliteDatabase
from silas.testing import MemoryVault
from silas.testing.disk import Fault, FaultyDisk, Touch

_BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
_STARTS = (
    datetime(2026, 3, 28, 23, 30, tzinfo=UTC),  # summer time begins in Berlin at 1:00 UTC
    datetime(2026, 10, 24, 23, 30, tzinfo=UTC),  # and ends
    datetime(2026, 6, 15, 9, 0, tzinfo=UTC),
    datetime(2026, 12, 31, 22, 30, tzinfo=UTC),
)
_CONFIG = """
silas:
  scheduler: {timezone: Europe/Berlin}
  memory: {embedding_model: none}
  limits: {ws_messages_per_minute_per_scope: 1000, messages_per_minute_per_sender: 1000}
  gates:
    system:
      - {name: no_hash, on: every_user_message, type: regex, config: {pattern: '[^#]*'}}
      - name: no_python
        on: on_tool_call
        type: string_match
        allowed_values: [
          write_file, edit_file, append_file, read_file, glob, grep, shell_exec, web_search,
          journal_op, memory_op, memory_search, request_research]
"""
BLOCKED_MESSAGE = "#"


class World:
    """Everything that outlives a process."""

    def __init__(self, seed: int, root: Path, *, template: Path) -> None:
        self.seed = seed
        self.root = root
        shutil.copytree(template, root, dirs_exist_ok=True)
        self.home = root / "home"
        self.trace = Trace()
        self.records = Records()
        self.clock = SimulatedClock(self.chance("start").choice(_STARTS))
        self.disk = FaultyDisk(self._fault, chance=self.chance("disk"))
        self.problems: list[str] = []
        self.lies = seed % 3 == 2
        self.lives = 0
        self.rate = 0.0
        """How likely a write or a sync goes wrong."""
        self._troubles = self.chance("troubles")
        self._entropy = self.chance("entropy")
        self.sandbox = SimulatedSandbox(
            self.chance("sandbox"), off_limits=root / "data", alive=lambda: not self.disk.dead
        )

    def chance(self, what: str) -> Random:
        """A stream of chance of its own, so that one thing more of it changes nothing else."""
        return Random(f"{self.seed}/{what}")

    def new_loop(self) -> SimulatedLoop:
        """The loop of the next process."""
        self.lives += 1
        loop = SimulatedLoop(self.clock, self.chance(f"loop {self.lives}"))
        self.disk.on_death = loop.die
        return loop

    @contextlib.asynccontextmanager
    async def ground(self) -> AsyncIterator[Ground]:
        """The ground floor, as the app opens it."""
        machine = Machine(
            entropy=self._entropy.randbytes,
            open_database=self._open,
            sandbox=self.sandbox,
            # A process that is dead for all others, as soon as it is; the same in every run.
            runner=f"{socket.gethostname()}/simulated/{self.lives}/0",
        )
        async with make_ground(
            self.settings(), _vault(), clock=self.clock, machine=machine
        ) as ground:
            yield ground

    @contextlib.asynccontextmanager
    async def house(self) -> AsyncIterator[House]:
        """The whole house, as the app opens it."""
        workspace = str(self.home / "silas")
        minds = lying_minds(self.chance(f"lies {self.lives}"), workspace) if self.lies else None
        async with (
            self.ground() as ground,
            open_house(ground, environ={}, home=self.home, minds=minds) as house,
        ):
            keeping = Housekeeping(ground_jobs(ground), clock=self.clock)
            task = asyncio.create_task(keeping.run())
            try:
                yield house
            finally:
                task.cancel()

    def settings(self) -> LoadedSettings:
        """What the configuration of this world says."""
        return load_settings(
            data_dir=str(self.root / "data"),
            config_file=str(self.root / "silas.yaml"),
            environ=environment(self.home),
            cwd=self.root,
        )

    def end(self) -> None:
        """The world is not needed any more."""
        self.disk.drop_connections()
        self.disk.close()

    def _open(self, path: Path) -> SqliteDatabase:
        return SqliteDatabase.open(path, vfs=self.disk.name, threaded=False)

    def _fault(self, touch: Touch) -> Fault:
        if self.rate == 0.0 or self._troubles.random() >= self.rate:
            return Fault.NONE
        fault = self._troubles.choice(_FAULTS[touch.kind])
        if fault is Fault.NONE:
            self.clock.wait(self._troubles.uniform(0.1, 20.0))  # a slow one
        self.trace.note("fault", fault.name, touch.kind, touch.file, touch.number)
        return fault


_FAULTS: Mapping[str, tuple[Fault, ...]] = {
    "write": (Fault.IO_ERROR, Fault.FULL, Fault.TORN, Fault.LOST_POWER, Fault.KILLED, Fault.NONE),
    "sync": (Fault.IO_ERROR, Fault.LOST_POWER, Fault.KILLED, Fault.NONE),
    "truncate": (Fault.IO_ERROR, Fault.KILLED),
    "delete": (Fault.IO_ERROR, Fault.KILLED),
}


def environment(home: Path) -> dict[str, str]:
    """The variables of a process in this world."""
    return {"HOME": str(home)}


def make_template(root: Path) -> None:
    """A data directory on its first day: made once, copied for every seed."""
    (root / "home").mkdir()
    (root / "data").mkdir()
    (root / "silas.yaml").write_text(_CONFIG)
    clock, chance = SimulatedClock(_BEGIN), Random(0)
    loop = SimulatedLoop(clock, chance)
    try:
        loop.run_until_complete(_first_day(root, clock, chance))
    finally:
        loop.close()


async def _first_day(root: Path, clock: SimulatedClock, chance: Random) -> None:
    settings = load_settings(
        data_dir=str(root / "data"),
        config_file=str(root / "silas.yaml"),
        environ=environment(root / "home"),
        cwd=root,
    )
    machine = Machine(
        entropy=chance.randbytes,
        open_database=partial(SqliteDatabase.open, threaded=False),
    )
    async with (
        make_ground(settings, _vault(), clock=clock, machine=machine) as ground,
        open_house(ground, environ={}, home=root / "home"),
    ):
        pass


def _vault() -> OnDemandVault:
    kept = MemoryVault()
    kept.set(OWNER_KEYS_REF, _owner_key())
    return OnDemandVault(lambda: kept)  # type: ignore[arg-type,return-value]


def _owner_key() -> bytes:
    """The owner's key: the same in all worlds, because its first day is."""
    private = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"the owner").digest())
    record = {
        "public_key": private.public_key().public_bytes_raw().hex(),
        "seed": base64.b64encode(private.private_bytes_raw()).decode(),
        "created_at": format_timestamp(_BEGIN),
        "retired_at": None,
    }
    return canonical_bytes({"format": "silas-owner-keys-v1", "keys": [record]})
