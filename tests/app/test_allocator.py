"""A process that stays does not hold what it no longer needs."""

from pathlib import Path

from silas.app.jobs import give_back, keep_heaps_small


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096


async def test_holes_are_given_back() -> None:
    keep_heaps_small()
    large, small = [], []
    for _ in range(1000):
        large.append(bytearray(b"x" * 100_000))
        small.append(bytearray(1000))  # keeps the heap from shrinking at its end
    held = _resident()
    large.clear()
    await give_back()
    assert held - _resident() > 50_000_000
    assert len(small) == 1000
