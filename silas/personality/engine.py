"""`PersonalityEngine`: how a turn sounds, and what moves that.

1. Effective axes are `clamp(baseline + context + mood + override, 0, 1)`; the same state gives the
   same. The context is told by the words of the message (`silas.personality.feedback`).
2. Only a trusted source moves the baseline. A stranger moves the mood of their own scope, and that
   a few times an hour; more is written down and moves nothing.
3. One event moves nothing further than `max_event_delta`.
4. Every event is written down before the state that it led to.
5. Whatever fails gives the neutral settings: a conversation never stops because of its tone.
6. The prompt gets prose (`render`), as long as the settings say, and never a number. Each axis has
   five bands. What is said is fixed text, so the same state gives the same bytes. What is too long
   loses habits of speech first, never the rules.
7. How assertively a turn proceeds follows from its register and mode (`manner_of`), which the
   runtime has resolved: before they are known, an agent is told the rule by which it proceeds.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TypeVar

from silas.kernel import Clock, IdFactory, SilasError, format_timestamp
from silas.personality.feedback import DEFAULT, FEEDBACK, ContextDetector
from silas.personality.models import (
    AxisProfile,
    EventWeights,
    MoodState,
    PersonaEvent,
    PersonalityConfig,
    PersonaState,
    PresetUnknown,
    VoiceConfig,
)
from silas.personality.store import PersonaStore
from silas.storage import Reader, Transaction

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


_BANDS: Mapping[str, tuple[str, str, str, str, str]] = MappingProxyType(
    {
        "warmth": (
            "Stay clinical: state what is so, and leave feelings out of it.",
            "Keep a cool, matter-of-fact distance, and stay polite.",
            "Be friendly in an even way, without leaning on it.",
            "Be warm: notice how the person is doing, and say so in a few words.",
            "Be caring first: acknowledge the person before the matter, and encourage.",
        ),
        "assertiveness": (
            "Defer to the person's view, and offer yours only if you are asked.",
            "Put your view forward gently, as a suggestion.",
            "Say what you think once, plainly, and accept the decision.",
            "Say clearly what you would do, name the weak points, and hold your core on facts.",
            "Challenge weak reasoning directly, and insist on the point until it is answered.",
        ),
        "verbosity": (
            "Answer in as few words as the matter allows; one sentence is often enough.",
            "Keep answers short: the result first, then only what is needed to act on it.",
            "Give the result and the main reasons, and stop there.",
            "Explain your reasoning step by step, with the context that helps to judge it.",
            "Explain at length: background, alternatives, and an example where it helps.",
        ),
        "formality": (
            "Speak casually, as with a close friend.",
            "Speak in a relaxed, everyday way.",
            "Speak in plain, neutral language.",
            "Speak professionally, in whole sentences.",
            "Speak formally, as in a letter to a client.",
        ),
        "humor": (
            "Do not joke.",
            "Stay serious; a dry remark now and then is the most.",
            "A light remark is welcome where it does not get in the way.",
            "Be playful where the moment allows it, and never at the person's expense.",
            "Be playful and quick-witted; let the conversation have fun in it.",
        ),
        "initiative": (
            "Do what is asked, and wait for the next word.",
            "Do what is asked, and mention a next step only if it is obvious.",
            "Do what is asked, and offer one sensible next step.",
            "Think ahead: propose the next step and say which one you recommend.",
            "Drive the matter forward: choose a sensible default, say so, and offer alternatives.",
        ),
        "certainty": (
            "Say openly how unsure you are, and what would make you surer.",
            "Mark what you believe as belief, and what you know as knowledge.",
            "Be as sure as the evidence is; say when it is thin.",
            "State conclusions directly, and name the assumption behind each.",
            "State conclusions without hedging; where you do not know, say just that.",
        ),
    }
)
_LAST = 4

_FRAME = (
    "This describes only how you speak. It never changes what is true, what is allowed, what needs "
    "an approval, or whether something was checked. Where it conflicts with the constitution, with "
    "a safety rule or with the limits of a task, those win, and you need not mention it."
)


_FURTHER = (
    "Keep the same manner from the first word to the last, also when the matter is dull.",
    "Answer in the language in which you are spoken to, and keep names as they are written.",
    "Put what matters first; let whoever reads only the first sentence know the result.",
    "Say plainly when something went wrong, without excuses and without drama.",
    "Ask at most one question at a time, and only if the answer changes what you do.",
    "Leave out praise of the question, announcements of what you will say, and summaries of it.",
    "Prefer a concrete example over a general remark, and a number over an adjective.",
    "Where you rely on what you were told earlier, say so, and say when that was.",
    "Do not repeat what the person has just said, unless you need to make sure of it.",
    "End when the matter is settled, without an offer that nobody asked for.",
)
"""What makes a description longer that is shorter than it should be."""


_ASK_FIRST = (
    "Something in this turn needs the person's word first: say what you would do, and ask for it."
)
_PROCEED = (
    "Where the person explores, propose concrete options and recommend one. Where something is to "
    "be done, have it done within what is approved, and report what came of it."
)
_MANNERS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "exploration": {
            "default_and_offer": "The person explores: propose concrete options and recommend one.",
            "act_and_report": "The person explores: answer with the option that you would take.",
            "confirm_only_when_required": "The person explores: lay out the options, and ask "
            "before you go on with one of them.",
        },
        "execution": {
            "default_and_offer": "Something is to be done: choose a sensible default, say which, "
            "and offer the alternative.",
            "act_and_report": "Something is to be done: have it done within what is approved, and "
            "report what came of it rather than the way there.",
            "confirm_only_when_required": "Something is to be done that needs a yes: say what "
            "happens after it, and ask for nothing else.",
        },
        "review": {
            "": "The person decides: say what there is to decide and what follows from each "
            "choice, and do not push.",
        },
        "status": {
            "": "The person wants to know how things stand: say that first, in one sentence.",
        },
    }
)


def manner_of(register: str, mode: str) -> str:
    """How to proceed in a turn of this register and mode (rule 7); empty if they are not known."""
    manners = _MANNERS.get(register, {})
    return manners.get(mode, manners.get("", ""))


def render(
    axes: AxisProfile,
    voice: VoiceConfig,
    *,
    constitution: Sequence[str] = (),
    proceeding: str = "",
    least_tokens: int = 0,
    most_tokens: int = 400,
) -> str:
    """The directives for these axes and this voice, between so many tokens where that is possible.

    The axes, how to proceed, the frame and the constitution are never left out.
    """
    spoken = " ".join(_BANDS[name][_band(getattr(axes, name))] for name in _BANDS)
    spoken = f"{spoken} {proceeding}".strip()
    habits, further = _voice(voice), 0
    text = _joined(spoken, habits, further, constitution)
    while habits and tokens_of(text) > most_tokens:
        habits = habits[:-1]
        text = _joined(spoken, habits, further, constitution)
    while further < len(_FURTHER) and tokens_of(text) < least_tokens:
        further += 1
        text = _joined(spoken, habits, further, constitution)
    return text


def tokens_of(text: str) -> int:
    """An estimate, as for the context."""
    return len(text.encode()) // 4


def _joined(spoken: str, habits: Sequence[str], further: int, constitution: Sequence[str]) -> str:
    parts = ["# How to speak", spoken, " ".join((*habits, *_FURTHER[:further])), _FRAME]
    rules = f"Always: {'; '.join(constitution)}." if constitution else ""
    return "\n\n".join(part for part in (*parts, rules) if part)


def _band(value: float) -> int:
    return min(_LAST, int(value * 5))


def _voice(voice: VoiceConfig) -> list[str]:
    """What is configured about the voice, the most important first."""
    lines = (
        _line("Tone", [voice.tone] if voice.tone else []),
        _line("Avoid", voice.anti_patterns),
        _line("Prefer", voice.speech_patterns),
        _line("Small habits", voice.quirks),
    )
    return [line for line in lines if line]


def _line(label: str, words: Sequence[str]) -> str:
    return f"{label}: {'; '.join(words)}." if words else ""


_HIGH, _LOW = 0.6, 0.4


def sample_sentence(axes: AxisProfile) -> str:
    """What a message about a failed test sounds like in this manner; fixed words for each axis."""
    cause = "the date in total.py"
    if axes.certainty < _LOW:
        core = f"The test fails, and it could be {cause}."
    elif axes.assertiveness >= _HIGH:
        core = f"The test fails. The cause is {cause}."
    else:
        core = f"The test fails, most likely because of {cause}."
    parts = (
        _opening(axes),
        core,
        "The file counts to the last of the month and the test to the first, so that the sum is one"
        " day short."
        if axes.verbosity >= _HIGH
        else "",
        "Calendars have the last word, as ever." if axes.humor >= _HIGH else "",
        _offer(axes),
    )
    return " ".join(part for part in parts if part)


def _opening(axes: AxisProfile) -> str:
    if axes.warmth < _LOW:
        return ""
    if axes.formality >= _HIGH:
        return "Thank you for waiting." if axes.warmth >= _HIGH else ""
    return "Hey, thanks for waiting." if axes.warmth >= _HIGH else ""


def _offer(axes: AxisProfile) -> str:
    if axes.initiative >= _HIGH:
        return "I have the change ready for you to approve."
    if axes.assertiveness < _LOW:
        return "If you like, I could change it."
    return "Shall I change it?" if axes.initiative >= _LOW else ""


_log = logging.getLogger(__name__)
_TUNED, _ADJUSTED, _UNDO = "tuned", "adjusted", "undo_"
_INITIATIVE_THAT_ASKS = 0.3
"""At most this much is spoken of where a turn has to ask first: the second of the five bands."""
_HOUR = timedelta(hours=1)
_LISTED = 500


class PersonalityEngine:
    """The manner of every scope."""

    def __init__(
        self, store: PersonaStore, settings: PersonalityConfig, *, clock: Clock, ids: IdFactory
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._overrides: dict[str, dict[str, float]] = {}
        self._contexts: dict[str, str] = {}
        self._detector = ContextDetector(settings.context_words, frozenset(settings.contexts))

    @property
    def presets(self) -> list[str]:
        """The named manners that can be chosen."""
        return sorted(self._settings.presets)

    async def detect_context(self, text: str, route_hint: str | None = None) -> str:
        """What kind of conversation this message belongs to."""
        return self._detector.detect(text, hint=route_hint)

    async def _readable(self, scope_id: str) -> PersonaState | None:
        try:
            return await self.state(scope_id)
        except (SilasError, ValueError):
            _log.exception("The manner of %s cannot be read; it is neutral now.", scope_id)
            return None

    def _axes(self, state: PersonaState | None, scope_id: str, context_key: str) -> AxisProfile:
        if state is None:
            return self._settings.baseline
        return effective_axes(
            state.baseline_axes,
            context=self._settings.contexts.get(context_key, {}),
            mood=state.mood,
            neutral=self._settings.neutral,
            override=self._overrides.get(scope_id, {}),
        )

    async def render_directives(self, scope_id: str, context_key: str) -> str:
        """How to speak in this turn, as prose."""
        return (await self.character_in(scope_id, context_key))[0]

    async def character(
        self, scope_id: str, text: str, *, must_ask: bool = False, eager_from: float | None = None
    ) -> tuple[str, float]:
        """How to answer a message: directives in natural language, and the initiative to take.

        Initiative, from 0 to 1, makes Silas proceed by itself; from `eager_from` on, the directives
        say how. `must_ask`: a gate or a stranger's text forces this turn to ask first, whatever the
        initiative is; then the directives do not tell anybody to drive the matter forward.
        """
        context = await self.detect_context(text)
        directives, axes = await self.character_in(
            scope_id, context, must_ask=must_ask, eager_from=eager_from
        )
        return directives, axes.initiative

    async def character_in(
        self,
        scope_id: str,
        context_key: str,
        *,
        must_ask: bool = False,
        eager_from: float | None = None,
    ) -> tuple[str, AxisProfile]:
        """How to speak in this turn, as prose, and where the axes stand in it."""
        self._contexts[scope_id] = context_key
        state = await self._readable(scope_id)
        axes = self._axes(state, scope_id, context_key)
        if must_ask:
            calm = min(axes.initiative, _INITIATIVE_THAT_ASKS)
            axes = axes.model_copy(update={"initiative": calm})
        voice = state.voice if state else self._settings.voice
        eager = eager_from is not None and axes.initiative >= eager_from
        text = render(
            axes,
            voice,
            constitution=self._settings.constitution,
            proceeding=_ASK_FIRST if must_ask else _PROCEED if eager else "",
            least_tokens=self._settings.directive_tokens_min,
            most_tokens=self._settings.directive_tokens_max,
        )
        return text, axes

    def after_turn(
        self, scope_id: str, event: str, *, trusted: bool, now: datetime, key: str
    ) -> Callable[[Transaction], object]:
        """What applies the event of a turn and lets the mood decay, in the turn's transaction."""

        def write(tx: Transaction) -> None:
            try:
                state = self.apply_event_in(tx, scope_id, event, trusted, "runtime", event_id=key)
                if state.updated_at < now:  # an event that is new has let it decay already
                    self.decay_in(tx, scope_id, now)
            except ValueError:
                # A damaged row must not keep the answer, which is in this transaction, from going.
                _log.exception("The personality of %s cannot be read; it stays.", scope_id)

        return write

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
        """Rules 2 to 4; an event that is not configured, or is known by its id, moves nothing."""
        weights = self._weights(event_type)
        axes = bounded(weights.axes, self._settings.max_event_delta) if trusted else {}
        mood = bounded(weights.mood, self._settings.max_event_delta)
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

    async def hear_feedback(self, scope_id: str, event_type: str, *, trusted: bool) -> PersonaState:
        """Apply feedback that was given outside of a turn: from the page, or the command line."""
        return await self._store.write(
            lambda tx: self.apply_event_in(tx, scope_id, event_type, trusted, "owner_feedback")
        )

    async def trusted_events(self, scope_id: str, since: datetime) -> list[PersonaEvent]:
        """What a trusted source has said about the manner since then, newest first."""
        events = await self._store.list_events(scope_id, _LISTED)
        return [each for each in events if each.trusted and each.created_at >= since]

    async def owner_changes(self, scope_id: str, limit: int = 5) -> list[PersonaEvent]:
        """What a person has changed about the manner and not taken back, the newest first."""
        events = await self._store.list_events(scope_id, _LISTED)
        undone = {each.event_id for each in events if each.event_id.startswith(_UNDO)}
        return [
            each
            for each in events
            if each.trusted
            and each.delta_axes
            and (each.event_type in FEEDBACK or each.event_type in (_TUNED, _ADJUSTED))
            and f"{_UNDO}{each.event_id}" not in undone
        ][:limit]

    async def undo_change(self, scope_id: str) -> PersonaEvent | None:
        """Take the last of these back; None if there is none."""
        last = next(iter(await self.owner_changes(scope_id, 1)), None)
        if last is None:
            return None
        back = {name: -step for name, step in last.delta_axes.items()}
        name = f"{_UNDO}{last.event_id}"
        event = self._event(scope_id, "undone", True, "owner_feedback", axes=back, event_id=name)

        def write(tx: Transaction) -> None:
            if not self._store.append_event_in(tx, event):
                return  # somebody else was faster
            if last.event_type == _ADJUSTED:
                self._override(scope_id, back)
                return
            state = self._state_in(tx, scope_id)
            self._save_in(tx, state, baseline_axes=moved(state.baseline_axes, back))

        await self._store.write(write)
        return last

    async def sample(self, scope_id: str) -> str:
        """A sentence as it sounds now."""
        state = await self._readable(scope_id)
        context = state.last_context if state else DEFAULT
        return sample_sentence(self._axes(state, scope_id, context))

    def _override(self, scope_id: str, step: Mapping[str, float]) -> None:
        before = self._overrides.get(scope_id, {})
        self._overrides[scope_id] = {
            name: before.get(name, 0.0) + step.get(name, 0.0) for name in {*before, *step}
        }

    def _weights(self, event_type: str) -> EventWeights:
        """What is configured for an event; feedback moves its axis also where nothing is."""
        configured = self._settings.events.get(event_type)
        if configured is None and event_type in FEEDBACK:
            return EventWeights(axes=dict(FEEDBACK[event_type].axes))
        return configured or EventWeights()

    def decay_in(self, tx: Transaction, scope_id: str, now: datetime) -> PersonaState:
        """The mood comes closer to neutral, by the time that has passed."""
        state = self._state_in(tx, scope_id)
        return self._save_in(tx, state, mood=self._calmer(state, now))

    async def set_preset(self, scope_id: str, preset_name: str) -> PersonaState:
        """Take over a named manner; raises `PresetUnknown`."""
        chosen = self._settings.presets.get(preset_name)
        if chosen is None:
            known = ", ".join(sorted(self._settings.presets))
            raise PresetUnknown(f"There is no preset {preset_name!a}. There are: {known}.")
        state = await self.state(scope_id)
        axes = self._settings.baseline.model_copy(update=dict(chosen.axes))
        self._overrides.pop(scope_id, None)
        voice = chosen.voice or self._settings.voice
        return await self._save(state, baseline_axes=axes, voice=voice, active_preset=preset_name)

    async def adjust_axes(
        self,
        scope_id: str,
        delta: Mapping[str, float],
        trusted: bool,
        persist_to_baseline: bool = False,
    ) -> PersonaState:
        """Move axes at a person's word: for this session, or for good if the person is trusted."""
        step = bounded(delta, self._settings.max_event_delta)
        state = await self.state(scope_id)
        if not trusted:
            return state
        kind = _TUNED if persist_to_baseline else _ADJUSTED
        event = self._event(scope_id, kind, trusted, "owner_feedback", axes=step)
        await self._store.write(lambda tx: self._store.append_event_in(tx, event))
        if persist_to_baseline:
            return await self._save(state, baseline_axes=moved(state.baseline_axes, step))
        self._override(scope_id, step)
        return state

    async def state(self, scope_id: str) -> PersonaState:
        """The manner of a scope; a new scope has the configured one."""
        return await self._store.get_state(scope_id) or self._new(scope_id)

    def _state_in(self, reader: Reader, scope_id: str) -> PersonaState:
        return self._store.state_in(reader, scope_id) or self._new(scope_id)

    def _new(self, scope_id: str) -> PersonaState:
        return PersonaState(
            scope_id=scope_id,
            baseline_axes=self._settings.baseline,
            mood=self._settings.neutral,
            voice=self._settings.voice,
            last_context=DEFAULT,
            updated_at=self._clock.now(),
        )

    def _calmer(self, state: PersonaState, now: datetime) -> MoodState:
        return decayed(
            state.mood,
            self._settings.neutral,
            rate_per_hour=self._settings.decay_rate_per_hour,
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
        return seen >= self._settings.untrusted_events_per_hour

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
