"""`PersonalityEngine`: which manner a turn has, and what moves it.

Rules:

1. Effective axes are `clamp(baseline + context + mood + override)`; the same state gives the same.
2. Only a trusted source moves the baseline. A stranger moves the mood of his own scope, and that a
   few times an hour; more is written down and moves nothing.
3. One event moves nothing further than `max_event_delta`.
4. Every event is written down before the state that it led to.
5. Whatever fails gives the neutral manner: a conversation never stops because of its tone.
"""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta

from silas.kernel import Clock, IdFactory, SilasError, format_timestamp
from silas.personality.axes import bounded, decayed, effective_axes, moved
from silas.personality.detection import DEFAULT, detect
from silas.personality.directives import render
from silas.personality.errors import PresetUnknown
from silas.personality.manner import EventWeights, Manner
from silas.personality.models import AxisProfile, MoodState, PersonaEvent, PersonaState
from silas.personality.store import PersonaStore
from silas.storage import Reader, Transaction

_log = logging.getLogger(__name__)
_HOUR = timedelta(hours=1)


class PersonalityEngine:
    """The manner of every scope."""

    def __init__(
        self, store: PersonaStore, manner: Manner, *, clock: Clock, ids: IdFactory
    ) -> None:
        self._store = store
        self._manner = manner
        self._clock = clock
        self._ids = ids
        self._overrides: dict[str, dict[str, float]] = {}
        self._contexts: dict[str, str] = {}

    async def detect_context(self, text: str, route_hint: str | None = None) -> str:
        """What kind of conversation this message belongs to."""
        return detect(text, frozenset(self._manner.contexts), hint=route_hint)

    async def get_effective_axes(self, scope_id: str, context_key: str) -> AxisProfile:
        """Rule 1, and rule 5."""
        return self._axes(await self._readable(scope_id), scope_id, context_key)

    async def _readable(self, scope_id: str) -> PersonaState | None:
        try:
            return await self.state(scope_id)
        except (SilasError, ValueError):
            _log.exception("The manner of %s cannot be read; it is neutral now.", scope_id)
            return None

    def _axes(self, state: PersonaState | None, scope_id: str, context_key: str) -> AxisProfile:
        if state is None:
            return self._manner.baseline
        return effective_axes(
            state.baseline_axes,
            context=self._manner.contexts.get(context_key, {}),
            mood=state.mood,
            neutral=self._manner.neutral,
            override=self._overrides.get(scope_id, {}),
        )

    async def render_directives(self, scope_id: str, context_key: str) -> str:
        """How to speak in this turn, as prose."""
        return (await self.character(scope_id, context_key))[0]

    async def character(self, scope_id: str, context_key: str) -> tuple[str, AxisProfile]:
        """How to speak in this turn, as prose, and where the axes stand in it."""
        self._contexts[scope_id] = context_key
        state = await self._readable(scope_id)
        axes = self._axes(state, scope_id, context_key)
        voice = state.voice if state else self._manner.voice
        return render(axes, voice, constitution=self._manner.constitution), axes

    async def apply_event(
        self,
        scope_id: str,
        event_type: str,
        trusted: bool,
        source: str,
        *,
        event_id: str | None = None,
    ) -> PersonaState:
        """Rules 2 to 4; an event that is not configured, or is known by its id, moves nothing."""
        return await self._store.write(
            lambda tx: self.apply_event_in(
                tx, scope_id, event_type, trusted, source, event_id=event_id
            )
        )

    def apply_event_in(
        self,
        tx: Transaction,
        scope_id: str,
        event_type: str,
        trusted: bool,
        source: str,
        *,
        event_id: str | None = None,
    ) -> PersonaState:
        """The same in the caller's transaction."""
        weights = self._manner.events.get(event_type, EventWeights())
        axes = bounded(weights.axes, self._manner.max_event_delta) if trusted else {}
        mood = bounded(weights.mood, self._manner.max_event_delta)
        if not trusted and self._too_many(tx, scope_id):
            mood = {}
        event = self._event(
            scope_id, event_type, trusted, source, event_id=event_id, axes=axes, mood=mood
        )
        new = self._store.append_event_in(tx, event)
        state = self._state_in(tx, scope_id)
        if not new:
            return state
        return self._save_in(
            tx,
            state,
            baseline_axes=moved(state.baseline_axes, axes),
            mood=moved(self._calmer(state, self._clock.now()), mood),
        )

    async def decay(self, scope_id: str, now: datetime) -> PersonaState:
        """The mood comes closer to neutral, by the time that has passed."""
        return await self._store.write(lambda tx: self.decay_in(tx, scope_id, now))

    def decay_in(self, tx: Transaction, scope_id: str, now: datetime) -> PersonaState:
        """The same in the caller's transaction."""
        state = self._state_in(tx, scope_id)
        return self._save_in(tx, state, mood=self._calmer(state, now))

    async def set_preset(self, scope_id: str, preset_name: str) -> PersonaState:
        """Take over a named manner; raises `PresetUnknown`."""
        chosen = self._manner.presets.get(preset_name)
        if chosen is None:
            known = ", ".join(sorted(self._manner.presets))
            raise PresetUnknown(f"There is no preset {preset_name!a}. There are: {known}.")
        state = await self.state(scope_id)
        axes = self._manner.baseline.model_copy(update=dict(chosen))
        self._overrides.pop(scope_id, None)
        return await self._save(
            state, baseline_axes=axes, voice=self._manner.voice, active_preset=preset_name
        )

    async def adjust_axes(
        self,
        scope_id: str,
        delta: Mapping[str, float],
        trusted: bool,
        persist_to_baseline: bool = False,
    ) -> PersonaState:
        """Move axes at a person's word: for this session, or for good if the person is trusted."""
        step = bounded(delta, self._manner.max_event_delta)
        state = await self.state(scope_id)
        if not trusted:
            return state
        event = self._event(scope_id, "adjusted", trusted, "owner_feedback", axes=step)
        await self._store.write(lambda tx: self._store.append_event_in(tx, event))
        if persist_to_baseline:
            return await self._save(state, baseline_axes=moved(state.baseline_axes, step))
        before = self._overrides.get(scope_id, {})
        self._overrides[scope_id] = {
            name: before.get(name, 0.0) + step.get(name, 0.0) for name in {*before, *step}
        }
        return state

    async def state(self, scope_id: str) -> PersonaState:
        """The manner of a scope; a new scope has the configured one."""
        return await self._store.get_state(scope_id) or self._new(scope_id)

    def _state_in(self, reader: Reader, scope_id: str) -> PersonaState:
        return self._store.state_in(reader, scope_id) or self._new(scope_id)

    def _new(self, scope_id: str) -> PersonaState:
        return PersonaState(
            scope_id=scope_id,
            baseline_axes=self._manner.baseline,
            mood=self._manner.neutral,
            voice=self._manner.voice,
            last_context=DEFAULT,
            updated_at=self._clock.now(),
        )

    def _calmer(self, state: PersonaState, now: datetime) -> MoodState:
        return decayed(
            state.mood,
            self._manner.neutral,
            rate_per_hour=self._manner.decay_rate_per_hour,
            hours=(now - state.updated_at) / _HOUR,
        )

    async def _save(self, state: PersonaState, **changes: object) -> PersonaState:
        return await self._store.write(lambda tx: self._save_in(tx, state, **changes))

    def _save_in(self, tx: Transaction, state: PersonaState, **changes: object) -> PersonaState:
        context = self._contexts.get(state.scope_id, state.last_context)
        now = self._clock.now()
        changed = state.model_copy(update={"last_context": context, "updated_at": now, **changes})
        self._store.save_state_in(tx, changed)
        return changed

    def _too_many(self, reader: Reader, scope_id: str) -> bool:
        since = format_timestamp(self._clock.now() - _HOUR)
        seen = self._store.untrusted_since(reader, scope_id, since)
        return seen >= self._manner.untrusted_events_per_hour

    def _event(
        self,
        scope_id: str,
        event_type: str,
        trusted: bool,
        source: str,
        *,
        axes: dict[str, float],
        mood: dict[str, float] | None = None,
        event_id: str | None = None,
    ) -> PersonaEvent:
        return PersonaEvent(
            event_id=event_id or self._ids.new("pev"),
            scope_id=scope_id,
            event_type=event_type,
            trusted=trusted,
            delta_axes=axes,
            delta_mood=mood or {},
            source=source,
            created_at=self._clock.now(),
        )
