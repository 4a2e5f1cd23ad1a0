"""How Silas sounds: axes, moods, presets, rendered as prose for a prompt.

It shapes wording, pace and tone, and nothing else: no decision about trust, approval or access is
made from anything in this room. Whatever goes wrong here ends in a neutral manner, never in a stop.
"""

from silas.personality.engine import PersonalityEngine
from silas.personality.manner import EventWeights, Manner
from silas.personality.models import (
    AxisProfile,
    MoodState,
    PersonaEvent,
    PersonalityAxis,
    PersonaState,
    VoiceConfig,
)
from silas.personality.store import PersonaStore

__all__ = [
    "AxisProfile",
    "EventWeights",
    "Manner",
    "MoodState",
    "PersonaEvent",
    "PersonaState",
    "PersonaStore",
    "PersonalityAxis",
    "PersonalityEngine",
    "VoiceConfig",
]
