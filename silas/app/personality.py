"""The manner, wired: the settings' own words for it become the room's."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

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
from silas.storage import Transaction

_log = logging.getLogger(__name__)


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


@dataclass(frozen=True)
class Manners:
    """`silas.stream.ports.PersonalityRoom`: the engine, as a turn uses it."""

    engine: PersonalityEngine

    async def character(self, scope_id: str, text: str) -> tuple[str, float]:
        """The directives, in natural language, and the axis that makes Silas proceed by itself."""
        key = await self.engine.detect_context(text)
        directives, axes = await self.engine.character(scope_id, key)
        return directives, axes.initiative

    def after_turn(
        self, scope_id: str, event: str, *, trusted: bool, now: datetime, key: str
    ) -> Callable[[Transaction], object]:
        """What applies the event of a turn and lets the mood decay, in the turn's transaction."""

        def write(tx: Transaction) -> None:
            try:
                state = self.engine.apply_event_in(
                    tx, scope_id, event, trusted, "runtime", event_id=key
                )
                if state.updated_at < now:  # an event that is new has let it decay already
                    self.engine.decay_in(tx, scope_id, now)
            except ValueError:
                # A damaged row must not keep the answer, which is in this transaction, from going.
                _log.exception("The manner of %s cannot be read; it stays as it is.", scope_id)

        return write


def open_personality(ground: Ground) -> Manners | None:
    """The manner of this ground floor; None if the owner wants none."""
    settings = ground.settings.personality
    if not settings.enabled:
        return None
    store = PersonaStore(ground.database, clock=ground.clock)
    manner = manner_of(settings)
    return Manners(PersonalityEngine(store, manner, clock=ground.clock, ids=ground.ids))
