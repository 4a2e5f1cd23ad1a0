"""What a Silas takes from the machine that it runs on, besides the time.

Everything has the machine's own as its default. A simulation (`silas.evals.simulation`) gives all
of it, so that one seed decides what happens. Nothing here can switch off a check.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from silas.storage import SqliteDatabase
from silas.work.ports import SandboxRunner
from silas.work.runners import this_runner

OpenDatabase = Callable[[Path], SqliteDatabase]


@dataclass(frozen=True)
class Machine:
    """Randomness, disk, containment, and the name of the process."""

    entropy: Callable[[int], bytes] = os.urandom
    open_database: OpenDatabase = SqliteDatabase.open
    sandbox: SandboxRunner | None = None
    """None: the backend that the settings name."""
    runner: str = field(default_factory=this_runner)
    """As other processes know this one: see `silas.work.runners`."""
