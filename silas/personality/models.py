"""Axes, moods and voices, and what the owner has configured about them.

The numbers stay in this package: no model ever sees one.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from silas.kernel import ConfigError
from silas.kernel.models import Data, UtcDatetime

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class PersonalityAxis(StrEnum):
    """The directions in which a manner can move."""

    WARMTH = "warmth"
    ASSERTIVENESS = "assertiveness"
    VERBOSITY = "verbosity"
    FORMALITY = "formality"
    HUMOR = "humor"
    INITIATIVE = "initiative"
    CERTAINTY = "certainty"


class AxisProfile(Data):
    """A position on every axis, from 0 to 1."""

    warmth: Share = 0.5
    assertiveness: Share = 0.5
    verbosity: Share = 0.5
    formality: Share = 0.5
    humor: Share = 0.5
    initiative: Share = 0.5
    certainty: Share = 0.5


class MoodState(Data):
    """How the session feels; it returns to neutral by itself."""

    energy: Share = 0.5
    patience: Share = 0.5
    curiosity: Share = 0.5
    frustration: Share = 0.5


class VoiceConfig(Data):
    """Tone and habits of speech."""

    tone: str = ""
    quirks: list[str] = Field(default_factory=list)
    speech_patterns: list[str] = Field(default_factory=list)
    anti_patterns: list[str] = Field(default_factory=list)


class PersonaState(Data):
    """The manner of one scope, as it is kept."""

    scope_id: str
    baseline_axes: AxisProfile
    mood: MoodState
    active_preset: str = "default"
    voice: VoiceConfig
    last_context: str = "default"
    updated_at: UtcDatetime


class PersonaEvent(Data):
    """Something that moved the manner; never changed afterwards."""

    event_id: str
    scope_id: str
    event_type: str
    trusted: bool
    delta_axes: dict[str, float] = Field(default_factory=dict)
    delta_mood: dict[str, float] = Field(default_factory=dict)
    source: str
    created_at: UtcDatetime


Deltas = Mapping[str, float]


class EventWeights(Data):
    """What one kind of event does."""

    mood: dict[str, float] = Field(default_factory=dict)
    axes: dict[str, float] = Field(default_factory=dict)


class PersonaPreset(Data):
    """A named manner: where it stands on some axes, and the voice that goes with it."""

    axes: dict[str, float] = Field(default_factory=dict)
    voice: VoiceConfig | None = None
    """None: the configured voice."""


class PersonalityConfig(Data):
    """All that is configured about how Silas sounds."""

    baseline: AxisProfile = AxisProfile()
    voice: VoiceConfig = VoiceConfig()
    contexts: dict[str, dict[str, float]] = Field(default_factory=dict)
    context_words: dict[str, list[str]] = Field(default_factory=dict)
    """The words by which a message is told to belong to a context, in this order."""
    neutral: MoodState = MoodState()
    events: dict[str, EventWeights] = Field(default_factory=dict)
    presets: dict[str, PersonaPreset] = Field(default_factory=dict)
    decay_rate_per_hour: float = Field(default=0.1, ge=0, le=1)
    constitution: list[str] = Field(default_factory=list)
    directive_tokens_min: int = Field(default=200, ge=0)
    directive_tokens_max: int = Field(default=400, ge=0)
    max_event_delta: float = Field(default=0.2, gt=0, le=1)
    """One event moves nothing further than this."""
    untrusted_events_per_hour: int = Field(default=6, ge=0)
    """What strangers may do to the mood of their own scope."""


class PresetUnknown(ConfigError):
    """There is no such preset. Choose one of `personality.presets` in the configuration."""

    code = "E_CFG_PRESET_UNKNOWN"
