"""Axes, moods and voices. The numbers stay in here: no model ever sees one."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

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
