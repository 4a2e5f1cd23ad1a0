"""The line *gates*: all default gates on a text, beside one compiled expression over the same."""

import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from silas.app.gates import gate_providers, gate_runner
from silas.app.paths import Paths
from silas.app.settings import Settings
from silas.evals.bench.measure import Line, medians, milliseconds
from silas.gates import Gate, GateTrigger
from silas.gates.runner import GateRunner

_SENTENCE = "Could you look at the report on page 7, mail me the 3 open points and plan Friday? "
_KILOBYTE, _MEGABYTE = 1024, 1024 * 1024
_FLOOR = re.compile(r"(?i)\b(?:ignore|disregard|forget)\b.{0,40}\bprevious\b")
_TRIGGERS = {
    GateTrigger.EVERY_USER_MESSAGE: "message",
    GateTrigger.EVERY_AGENT_RESPONSE: "response",
}
_CALLS = 200


class _Nowhere:
    """`AuditTrail` without a disk; that one is a line of its own."""

    async def log(self, event: str, /, **data: Any) -> str:
        return ""


async def measure(folder: Path) -> list[Line]:
    """Ratios to one scan of a 2 KB message, and of 1 MB to what the size alone would explain."""
    settings = Settings()
    paths = Paths(data_dir=folder, config_file=folder / "silas.yaml")
    runner = gate_runner(settings, gate_providers(settings, paths), audit=_Nowhere())
    system: list[Gate] = list(settings.gates.system)
    small, half, large = (_text(size) for size in (2 * _KILOBYTE, _MEGABYTE // 2, _MEGABYTE))
    got = await medians(
        {
            "scan": lambda: _scans(small),
            "gates": lambda: _timed(lambda: _all_gates(runner, system, small), _CALLS),
            "half": lambda: _timed(lambda: _all_gates(runner, system, half), 1),
            "large": lambda: _timed(lambda: _all_gates(runner, system, large), 1),
        }
    )
    return [
        Line(
            "gates",
            f"all {len(system)} default gates, 2 KB, in and out",
            milliseconds(got["gates"]),
            f"one compiled expression {milliseconds(got['scan'])}",
            got["gates"] / got["scan"],
            20,
            at_least=False,
        ),
        Line(
            "gates",
            "the same on 1 MB",
            milliseconds(got["large"]),
            f"twice the time for half of it {milliseconds(2 * got['half'])}",
            got["large"] / (2 * got["half"]),
            1.5,
            at_least=False,
        ),
    ]


def _text(size: int) -> str:
    return (_SENTENCE * (size // len(_SENTENCE) + 1))[:size]


async def _all_gates(runner: GateRunner, system: list[Gate], text: str) -> None:
    for trigger, key in _TRIGGERS.items():
        policy, _, _ = await runner.check_gates(system, trigger, {key: text})
        if not all(result.action.value == "continue" for result in policy):
            raise RuntimeError(f"an ordinary text was stopped: {policy}")


async def _scans(text: str) -> float:
    begun = time.perf_counter()
    for _ in range(_CALLS):
        if _FLOOR.search(text):
            raise RuntimeError("the floor must read the whole text")
    return (time.perf_counter() - begun) / _CALLS


async def _timed(call: Callable[[], Awaitable[None]], times: int) -> float:
    begun = time.perf_counter()
    for _ in range(times):
        await call()
    return (time.perf_counter() - begun) / times
