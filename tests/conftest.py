"""Rules for all tests, and the clock and the database that most rooms are tested on."""

import gc
import importlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import pydantic_ai.models
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

if TYPE_CHECKING:
    from silas.storage import SqliteDatabase
    from silas.testing import FakeClock

# No test reaches a model by mistake; those that talk to a server on loopback opt in.
pydantic_ai.models.ALLOW_MODEL_REQUESTS = False

# Machines are noisy: a slow example is no failure, and CI draws the same examples every time.
settings.register_profile(
    "silas",
    deadline=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,  # mutation testing runs a test more than once
    ],
)
settings.load_profile("silas")

# Hypothesis also draws constants of the modules that happen to be loaded. Which ones are depends
# on what the same worker ran before: the same examples would not be drawn every time.
assert callable(providers._get_local_constants)
providers._get_local_constants = lambda: providers._local_constants


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Does what Python does with Ctrl-C."""
    signal.default_int_handler(number, frame)


# An asyncio runner leaves every handler but Python's own alone. In that one's place it puts its
# task, and asks for it afterwards: `signal` then writes out the task with all that it returned.
# Of a fixture that returns a whole Silas that is more than half of the time of a test.
signal.signal(signal.SIGINT, _interrupt)


def pytest_collection_finish() -> None:
    """What was loaded and collected stays until the end: garbage is looked for elsewhere, rarely.

    To look for it after every 700 objects takes a sixth of the processor time of the tests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Where everything is said to be installed, a skipped test is a failed one."""
    report = yield
    expected_failure = hasattr(report, "wasxfail")
    if report.skipped and not expected_failure and os.environ.get("SILAS_TESTS_SKIP_NOTHING"):
        report.outcome = "failed"
        report.longrepr = f"nothing may be skipped here: {item.nodeid}: {report.longrepr}"
    return report


# Loaded where they are asked for: the environment of `make test-guardrails` has no database.
@pytest.fixture
def clock() -> "FakeClock":
    clock: FakeClock = importlib.import_module("silas.testing").FakeClock()
    return clock


@pytest.fixture
async def database(tmp_path: Path, clock: "FakeClock") -> AsyncIterator["SqliteDatabase"]:
    """A real database with the real schema of `silas.db`."""
    storage = importlib.import_module("silas.storage")
    fakes = importlib.import_module("silas.testing.fakes")
    database: SqliteDatabase = storage.SqliteDatabase.open(
        fakes.with_schema(tmp_path / "silas.db", "runtime")
    )
    await storage.migrate(database, storage.load_migrations("runtime"), clock=clock)
    yield database
    await database.close()
