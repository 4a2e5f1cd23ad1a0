"""Says whether the calendars can be read, and how long that takes."""

import time
from collections.abc import Mapping
from typing import Any

from lifecycle import answer, look_inside

SLOW_MS = 10_000


def health(_request: Mapping[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    look_inside()
    took = round((time.monotonic() - started) * 1000)
    slow = [f"The calendar server took {took // 1000} seconds to answer."] if took > SLOW_MS else []
    return {"healthy": True, "latency_ms": took, "error": None, "warnings": slow}


if __name__ == "__main__":
    answer(health)
