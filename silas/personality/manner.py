"""The manner that the owner has configured: where it starts, what moves it, how far."""

from collections.abc import Mapping

from pydantic import Field

from silas.kernel.models import Data
from silas.personality.models import AxisProfile, MoodState, VoiceConfig

Deltas = Mapping[str, float]


class EventWeights(Data):
    """What one kind of event does."""

    mood: dict[str, float] = Field(default_factory=dict)
    axes: dict[str, float] = Field(default_factory=dict)


class Manner(Data):
    """All that is configured about how Silas sounds."""

    baseline: AxisProfile = AxisProfile()
    voice: VoiceConfig = VoiceConfig()
    contexts: dict[str, dict[str, float]] = Field(default_factory=dict)
    neutral: MoodState = MoodState()
    events: dict[str, EventWeights] = Field(default_factory=dict)
    presets: dict[str, dict[str, float]] = Field(default_factory=dict)
    decay_rate_per_hour: float = Field(default=0.1, ge=0, le=1)
    constitution: list[str] = Field(default_factory=list)
    max_event_delta: float = Field(default=0.2, gt=0, le=1)
    """One event moves nothing further than this."""
    untrusted_events_per_hour: int = Field(default=6, ge=0)
    """What strangers may do to the mood of their own scope."""
