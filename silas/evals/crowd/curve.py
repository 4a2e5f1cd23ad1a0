"""The curve of a process: what it holds over time, a line through it, and a picture."""

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

_MEGABYTE = 2**20
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 760, 90, 60, 40, 40


@dataclass(frozen=True)
class Sample:
    """One look at the server."""

    minute: float
    memory: float
    """Resident, in MB."""
    files: int
    threads: int
    waiting: int
    """Messages on the bus."""
    disk: float
    """All databases, in MB."""


Value = Callable[[Sample], float]
CHARTS: tuple[tuple[str, Value], ...] = (
    ("memory of the server, MB", lambda each: each.memory),
    ("open files", lambda each: each.files),
    ("threads", lambda each: each.threads),
    ("messages on the bus", lambda each: each.waiting),
    ("databases, MB", lambda each: each.disk),
)


def look_at(pid: int, folder: Path, *, minute: float, waiting: int) -> Sample:
    """What the process holds now."""
    process = Path(f"/proc/{pid}")
    pages = int(process.joinpath("statm").read_text("ascii").split()[1])
    return Sample(
        minute=minute,
        memory=pages * os.sysconf("SC_PAGESIZE") / _MEGABYTE,
        files=len(list(process.joinpath("fd").iterdir())),
        threads=len(list(process.joinpath("task").iterdir())),
        waiting=waiting,
        disk=sum(each.stat().st_size for each in folder.glob("*.db*")) / _MEGABYTE,
    )


def slope(samples: Sequence[Sample], value: Value) -> float:
    """The line through the second half, in units an hour."""
    half = samples[len(samples) // 2 :]
    if len(half) < 2:
        return 0.0
    hours, values = [each.minute / 60 for each in half], [value(each) for each in half]
    return statistics.linear_regression(hours, values).slope


def growth(samples: Sequence[Sample], value: Value) -> float:
    """The mean of the last sixth of the time, as a multiple of that of the second sixth."""
    end = samples[-1].minute
    early = [value(each) for each in samples if end / 6 <= each.minute < end / 3]
    late = [value(each) for each in samples if each.minute >= end * 5 / 6]
    return statistics.fmean(late) / statistics.fmean(early) if any(early) else 1.0


def picture(samples: Sequence[Sample], title: str) -> str:
    """All curves, one below the other, as an SVG."""
    width, height = _WIDTH + 2 * _LEFT, _TOP + len(CHARTS) * (_HEIGHT + _GAP)
    charts = [
        _chart(samples, value, name, top=_TOP + number * (_HEIGHT + _GAP))
        for number, (name, value) in enumerate(CHARTS)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
            "<style>text { font: 12px sans-serif }</style>",
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="{_LEFT}" y="18">{title}</text>',
            *charts,
            "</svg>\n",
        ]
    )


def _chart(samples: Sequence[Sample], value: Value, name: str, *, top: int) -> str:
    end = max(samples[-1].minute, 1e-9)
    most = max(*(value(each) for each in samples), 1) * 1.1
    points = " ".join(
        f"{_LEFT + each.minute / end * _WIDTH:.1f},{top + _HEIGHT * (1 - value(each) / most):.1f}"
        for each in samples
    )
    bottom = top + _HEIGHT
    return "\n".join(
        [
            f'<text x="{_LEFT}" y="{top - 4}">{name}</text>',
            f'<path d="M{_LEFT},{top} V{bottom} H{_LEFT + _WIDTH}" fill="none" stroke="#888"/>',
            f'<text x="{_LEFT - 4}" y="{top + 10}" text-anchor="end">{most:.0f}</text>',
            f'<text x="{_LEFT - 4}" y="{bottom}" text-anchor="end">0</text>',
            f'<text x="{_LEFT + _WIDTH}" y="{bottom + 14}" text-anchor="end">{end:.0f} min</text>',
            f'<polyline points="{points}" fill="none" stroke="#1565c0" stroke-width="1.5"/>',
        ]
    )
