"""Run all benchmarks, or those whose names are given."""

import asyncio
import importlib
import platform
import sys
import tempfile
from pathlib import Path

from silas.evals.bench.measure import Line, table

_TOPICS = (
    "storage",
    "tokens",
    "audit",
    "queue",
    "memory",
    "context",
    "gates",
    "cold_start",
    "web",
    "sandbox_start",
    "work_loop",
    "turn_floor",
    "turn",
    "agent_overhead",
    "wake",
    "companion_log",
)


async def _measure(topics: list[str]) -> list[Line]:
    lines: list[Line] = []
    for topic in topics:
        print(f"measuring {topic} …", file=sys.stderr, flush=True)
        module = importlib.import_module(f"silas.evals.bench.{topic}")
        # Beside the sources, not in /tmp: that is often in memory, where a disk sync costs nothing.
        with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
            lines += await module.measure(Path(folder))
    return lines


def main() -> None:
    """Print the table."""
    unknown = [topic for topic in sys.argv[1:] if topic not in _TOPICS]
    if unknown:
        sys.exit(f"There is no benchmark {unknown[0]}. Choose from: {', '.join(_TOPICS)}.")
    lines = asyncio.run(_measure(sys.argv[1:] or list(_TOPICS)))
    print(f"Python {platform.python_version()}, {platform.machine()}, medians of one run\n")
    print(table(lines))
    missed = sum(not line.met for line in lines)
    print(f"\n{len(lines) - missed} of {len(lines)} goals met.")


main()
