"""How Silas sounds: axes, moods, presets, rendered as prose for a prompt.

It shapes wording, pace and tone, and nothing else: no decision about trust, approval or access is
made from anything in this package. Whatever goes wrong here ends in a neutral manner, never in a
stop.
"""

from silas.personality.engine import PersonalityEngine, manner_of
from silas.personality.models import (
    AxisProfile,
    EventWeights,
    MoodState,
    PersonaEvent,
    PersonalityAxis,
    PersonalityConfig,
    PersonaPreset,
    PersonaState,
    VoiceConfig,
)
from silas.personality.store import PersonaStore

__all__ = [
    "AxisProfile",
    "EventWeights",
    "MoodState",
    "PersonaEvent",
    "PersonaPreset",
    "PersonaState",
    "PersonaStore",
    "PersonalityAxis",
    "PersonalityConfig",
    "PersonalityEngine",
    "VoiceConfig",
    "manner_of",
]
