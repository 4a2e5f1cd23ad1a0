"""The manner, wired: the settings' own words for it become the room's."""

from silas.app.ground import Ground
from silas.app.settings.personality import PersonalitySettings
from silas.personality import (
    AxisProfile,
    EventWeights,
    Manner,
    MoodState,
    PersonalityEngine,
    PersonaStore,
    VoiceConfig,
)


def manner_of(settings: PersonalitySettings) -> Manner:
    """The manner that is configured."""
    voice = settings.voice
    return Manner(
        baseline=AxisProfile(**settings.baseline.model_dump()),
        voice=VoiceConfig(
            tone=voice.tone,
            quirks=list(voice.quirks),
            speech_patterns=list(voice.speech_patterns),
            anti_patterns=list(voice.anti_patterns),
        ),
        contexts={name: dict(deltas) for name, deltas in settings.contexts.items()},
        neutral=MoodState(**settings.mood.neutral.model_dump()),
        events={
            name: EventWeights(mood=dict(event.mood), axes=dict(event.axes))
            for name, event in settings.mood.event_weights.items()
        },
        presets={name: dict(axes) for name, axes in settings.presets.items()},
        decay_rate_per_hour=settings.decay_rate_per_hour,
        constitution=list(settings.constitution),
    )


def open_personality(ground: Ground) -> PersonalityEngine | None:
    """The engine of this ground floor; None if the owner wants no manner."""
    settings = ground.settings.personality
    if not settings.enabled:
        return None
    store = PersonaStore(ground.database, clock=ground.clock)
    return PersonalityEngine(store, manner_of(settings), clock=ground.clock, ids=ground.ids)
