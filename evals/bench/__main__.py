"""Run all benchmarks, or those whose names are given."""

import asyncio
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from evals.bench import companions, conversation, mcp, memory, skills, storage, trust, web, work
from evals.bench.measure import Line, table

_TOPICS: Mapping[str, Callable[[Path], Awaitable[list[Line]]]] = {
    "storage": storage.measure_storage,
    "vault": trust.measure_vault,
    "tokens": trust.measure_tokens,
    "audit": trust.measure_audit,
    "queue": storage.measure_queue,
    "memory": memory.measure_memory,
    "context": memory.measure_context,
    "gates": trust.measure_gates,
    "cold_start": web.measure_cold_start,
    "web": web.measure_web,
    "sandbox_start": work.measure_sandbox_start,
    "work_loop": work.measure_work_loop,
    "turn_floor": conversation.measure_turn_floor,
    "turn": conversation.measure_turn,
    "decision": conversation.measure_decision,
    "agent_overhead": work.measure_agent_overhead,
    "skills": skills.measure_skills,
    "mcp": mcp.measure_mcp,
    "wake": companions.measure_wake,
    "companion_log": companions.measure_companion_log,
}


async def _measure(topics: list[str]) -> list[Line]:
    lines: list[Line] = []
    for topic in topics:
        print(f"measuring {topic} …", file=sys.stderr, flush=True)
        # Beside the sources, not in /tmp: that is often in memory, where a disk sync costs nothing.
        with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
            lines += await _TOPICS[topic](Path(folder))
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


if __name__ == "__main__":
    main()
