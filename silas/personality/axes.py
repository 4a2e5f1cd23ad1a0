"""Where the axes stand: `clamp(baseline + context + mood + override, 0, 1)`, and nothing else."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from silas.personality.models import AxisProfile, MoodState

Shares = TypeVar("Shares", AxisProfile, MoodState)

_MOOD_TO_AXES: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "energy": {"initiative": 0.2, "humor": 0.1},
        "patience": {"warmth": 0.2, "verbosity": 0.1},
        "curiosity": {"verbosity": 0.1, "certainty": -0.1},
        "frustration": {"humor": -0.3, "warmth": -0.1, "verbosity": -0.1},
    }
)
"""How far an axis moves when a mood goes from neutral to its end."""


def effective_axes(
    baseline: AxisProfile,
    *,
    context: Mapping[str, float],
    mood: MoodState,
    neutral: MoodState,
    override: Mapping[str, float],
) -> AxisProfile:
    """The axes of one turn."""
    return moved(baseline, _sum(context, mood_delta(mood, neutral), override))


def mood_delta(mood: MoodState, neutral: MoodState) -> dict[str, float]:
    """What a mood does to the axes."""
    deltas: dict[str, float] = {}
    for name, weights in _MOOD_TO_AXES.items():
        distance = 2 * (getattr(mood, name) - getattr(neutral, name))
        for axis, weight in weights.items():
            deltas[axis] = deltas.get(axis, 0.0) + weight * distance
    return deltas


def moved(shares: Shares, deltas: Mapping[str, float]) -> Shares:
    """The same, moved and kept between 0 and 1; names that do not exist are ignored."""
    known = type(shares).model_fields
    changes = {
        name: _clamped(getattr(shares, name) + delta)
        for name, delta in deltas.items()
        if name in known
    }
    return shares.model_copy(update=changes)


def decayed(
    mood: MoodState, neutral: MoodState, *, rate_per_hour: float, hours: float
) -> MoodState:
    """The mood some hours later: it comes closer to neutral and never passes it."""
    keeps = (1.0 - rate_per_hour) ** max(0.0, hours)
    changes = {
        name: _clamped(
            getattr(neutral, name) + (getattr(mood, name) - getattr(neutral, name)) * keeps
        )
        for name in MoodState.model_fields
    }
    return mood.model_copy(update=changes)


def bounded(deltas: Mapping[str, float], most: float) -> dict[str, float]:
    """No single step goes further than `most`."""
    return {name: max(-most, min(most, delta)) for name, delta in deltas.items()}


def _sum(*parts: Mapping[str, float]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for name, delta in part.items():
            total[name] = total.get(name, 0.0) + delta
    return total


def _clamped(value: float) -> float:
    return max(0.0, min(1.0, value))
