"""`PersonaStore`: the manner of each scope, and the events that moved it."""

import json
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from silas.kernel import Clock, format_timestamp, parse_timestamp
from silas.personality.models import (
    AxisProfile,
    MoodState,
    PersonaEvent,
    PersonaState,
    VoiceConfig,
)
from silas.storage import Database, Reader, Row, Transaction

T = TypeVar("T")

_REMEMBERED = 256

_STATE = """
SELECT scope_id, baseline_axes_json, mood_json, voice_json, active_preset, last_context, updated_at
FROM persona_state WHERE scope_id = ?
"""
_SAVE = """
INSERT INTO persona_state (scope_id, baseline_axes_json, mood_json, voice_json, active_preset,
    last_context, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (scope_id) DO UPDATE SET baseline_axes_json = excluded.baseline_axes_json,
    mood_json = excluded.mood_json, voice_json = excluded.voice_json,
    active_preset = excluded.active_preset, last_context = excluded.last_context,
    updated_at = excluded.updated_at
"""
_APPEND = """
INSERT INTO persona_events (event_id, scope_id, event_type, trusted, delta_axes_json,
    delta_mood_json, source, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (event_id) DO NOTHING
"""
_EVENTS = """
SELECT event_id, scope_id, event_type, trusted, delta_axes_json, delta_mood_json, source, created_at
FROM persona_events WHERE scope_id = ? ORDER BY created_at DESC, event_id DESC LIMIT ?
"""
_UNTRUSTED_SINCE = """
SELECT count(*) FROM persona_events WHERE scope_id = ? AND trusted = 0 AND created_at > ?
"""


class PersonaStore:
    """Where the manner is kept."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def get_state(self, scope_id: str) -> PersonaState | None:
        """The manner of a scope, None if it never had one of its own."""
        row = await self._database.fetch_one(_STATE, (scope_id,))
        return _state(row) if row else None

    def state_in(self, reader: Reader, scope_id: str) -> PersonaState | None:
        """The same as part of a transaction."""
        row = reader.fetch_one(_STATE, (scope_id,))
        return _state(row) if row else None

    async def write(self, body: Callable[[Transaction], T]) -> T:
        """Run a few changes as one transaction."""
        return await self._database.transaction(body, brief=True)

    def save_state_in(self, tx: Transaction, state: PersonaState) -> None:
        """Keep the manner of a scope."""
        values = (
            state.scope_id,
            state.baseline_axes.model_dump_json(),
            state.mood.model_dump_json(),
            state.voice.model_dump_json(),
            state.active_preset,
            state.last_context,
            format_timestamp(state.updated_at),
        )
        tx.execute(_SAVE, values)

    def append_event_in(self, tx: Transaction, event: PersonaEvent) -> bool:
        """Write down what moved the manner; False if an event with this id is there already."""
        values = (
            event.event_id,
            event.scope_id,
            event.event_type,
            int(event.trusted),
            json.dumps(event.delta_axes, sort_keys=True),
            json.dumps(event.delta_mood, sort_keys=True),
            event.source,
            format_timestamp(event.created_at),
        )
        return tx.execute(_APPEND, values) == 1

    async def list_events(self, scope_id: str, limit: int = 100) -> list[PersonaEvent]:
        """The newest events of a scope, newest first."""
        rows = await self._database.fetch_all(_EVENTS, (scope_id, limit))
        return [_event(row) for row in rows]

    def untrusted_since(self, reader: Reader, scope_id: str, moment: str) -> int:
        """How many events of strangers moved this scope after a moment."""
        row = reader.fetch_one(_UNTRUSTED_SINCE, (scope_id, moment))
        return int(row[0]) if row else 0


# A turn reads the same row twice, and the rows of most scopes hold what is configured.
_axes = lru_cache(_REMEMBERED)(AxisProfile.model_validate_json)
_mood = lru_cache(_REMEMBERED)(MoodState.model_validate_json)
_voice = lru_cache(_REMEMBERED)(VoiceConfig.model_validate_json)


def _state(row: Row) -> PersonaState:
    scope_id, axes, mood, voice, preset, context, updated_at = row
    return PersonaState(
        scope_id=scope_id,
        baseline_axes=_axes(axes),
        mood=_mood(mood),
        voice=_voice(voice),
        active_preset=preset,
        last_context=context,
        updated_at=parse_timestamp(updated_at),
    )


def _event(row: Row) -> PersonaEvent:
    event_id, scope_id, event_type, trusted, axes, mood, source, created_at = row
    return PersonaEvent(
        event_id=event_id,
        scope_id=scope_id,
        event_type=event_type,
        trusted=bool(trusted),
        delta_axes=json.loads(axes),
        delta_mood=json.loads(mood),
        source=source,
        created_at=parse_timestamp(created_at),
    )
