"""The manner: its arithmetic, its prose, who may move it, and that it stops nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.app.context import config_of
from silas.kernel import IdFactory
from silas.personality import (
    AxisProfile,
    MoodState,
    PersonalityConfig,
    PersonalityEngine,
    PersonaStore,
    VoiceConfig,
    manner_of,
)
from silas.personality.engine import decayed, effective_axes, moved, render
from silas.personality.feedback import FEEDBACK, spoken_event
from silas.personality.models import PresetUnknown
from silas.settings.models import Settings
from silas.storage import SqliteDatabase
from silas.storage.errors import DatabaseError
from silas.stream.models import InteractionRegister
from silas.testing import FakeClock
from silas.work.models import InteractionMode

SHARES = st.floats(0, 1)
AXES = st.builds(AxisProfile, **dict.fromkeys(AxisProfile.model_fields, SHARES))
MOODS = st.builds(MoodState, **dict.fromkeys(MoodState.model_fields, SHARES))
DELTAS = st.dictionaries(
    st.sampled_from([*AxisProfile.model_fields, "loyalty"]), st.floats(-2, 2), max_size=8
)
DEFAULTS: PersonalityConfig = config_of(Settings().personality)


@pytest.fixture
def engine(database: SqliteDatabase, clock: FakeClock) -> PersonalityEngine:
    store = PersonaStore(database, clock=clock)
    return PersonalityEngine(store, DEFAULTS, clock=clock, ids=IdFactory(clock))


class TestArithmetic:
    @given(baseline=AXES, context=DELTAS, mood=MOODS, override=DELTAS)
    def test_axes_stay_between_nought_and_one(
        self,
        baseline: AxisProfile,
        context: dict[str, float],
        mood: MoodState,
        override: dict[str, float],
    ) -> None:
        axes = effective_axes(
            baseline, context=context, mood=mood, neutral=MoodState(), override=override
        )
        assert AxisProfile.model_validate(axes.model_dump()) == axes

    @given(baseline=AXES)
    def test_a_neutral_moment_changes_nothing(self, baseline: AxisProfile) -> None:
        mood = MoodState()
        assert (
            effective_axes(baseline, context={}, mood=mood, neutral=mood, override={}) == baseline
        )

    @given(mood=MOODS, hours=st.floats(0, 1000), rate=SHARES)
    def test_a_mood_only_comes_closer_to_neutral(
        self, mood: MoodState, hours: float, rate: float
    ) -> None:
        later = decayed(mood, MoodState(), rate_per_hour=rate, hours=hours)
        for name in MoodState.model_fields:
            before, after = getattr(mood, name) - 0.5, getattr(later, name) - 0.5
            assert abs(after) <= abs(before) + 1e-9
            assert before * after >= -1e-9

    def test_unknown_names_move_nothing(self) -> None:
        assert moved(AxisProfile(), {"loyalty": 1.0}) == AxisProfile()


class TestDirectives:
    @given(axes=AXES)
    def test_length_and_no_numbers(self, axes: AxisProfile) -> None:
        text = render(axes, DEFAULTS.voice, constitution=DEFAULTS.constitution)
        assert not any(letter.isdigit() for letter in text)
        assert 200 <= len(text.encode()) / 4 <= 400

    @given(axes=AXES)
    def test_the_length_is_the_one_of_the_settings(self, axes: AxisProfile) -> None:
        rules = DEFAULTS.constitution
        long = render(axes, VoiceConfig(), constitution=rules, least_tokens=350, most_tokens=800)
        short = render(axes, DEFAULTS.voice, constitution=rules, most_tokens=260)
        assert len(long.encode()) / 4 >= 350
        assert len(short.encode()) / 4 <= 270
        assert all(rule in text for rule in rules for text in (long, short))

    def test_the_ends_of_an_axis_differ(self) -> None:
        texts = {
            render(AxisProfile(warmth=warmth), DEFAULTS.voice) for warmth in (0, 0.25, 0.5, 0.7, 1)
        }
        assert len(texts) == 5


class TestEngine:
    @pytest.mark.parametrize(
        ("text", "context"),
        [
            ("the site is down, this is urgent", "crisis"),
            ("please review this diff", "code_review"),
            ("compare the three offers in depth", "deep_research"),
            ("good morning!", "casual_chat"),
            ("what is the weather", "default"),
            ("a reviewer", "default"),
        ],
    )
    async def test_contexts(self, engine: PersonalityEngine, text: str, context: str) -> None:
        assert await engine.detect_context(text) == context

    async def test_a_hint_counts_only_if_it_is_known(self, engine: PersonalityEngine) -> None:
        assert await engine.detect_context("hello", "crisis") == "crisis"
        assert await engine.detect_context("hello", "root") == "casual_chat"

    async def test_the_same_event_moves_nothing_twice(self, engine: PersonalityEngine) -> None:
        room = engine
        for _ in range(2):
            write = room.after_turn(
                "owner", "compliment", trusted=True, now=engine._clock.now(), key="turn-1"
            )
            await engine._store.write(write)
        assert (await engine.state("owner")).mood.energy == pytest.approx(0.6)
        directives, initiative = await room.character("owner", "go on")
        assert initiative > 0.7
        assert directives == await engine.render_directives("owner", "default")

    async def test_initiative_says_how_to_proceed_before_the_register_is_known(
        self, engine: PersonalityEngine
    ) -> None:
        shy, _ = await engine.character("owner", "go on", eager_from=0.99)
        assert "recommend one" not in shy
        eager, _ = await engine.character("owner", "go on", eager_from=0.1)
        assert "propose concrete options and recommend one" in eager
        assert "within what is approved, and report" in eager
        asked, _ = await engine.character("owner", "go on", eager_from=0.1, must_ask=True)
        assert "recommend one" not in asked
        assert "needs the person's word first" in asked

    @pytest.mark.parametrize("register", InteractionRegister)
    @pytest.mark.parametrize("mode", InteractionMode)
    def test_every_register_and_mode_has_a_manner(
        self, register: InteractionRegister, mode: InteractionMode
    ) -> None:
        told = manner_of(register.value, mode.value)
        assert told.endswith(".")
        forced = mode is InteractionMode.CONFIRM_ONLY_WHEN_REQUIRED
        assert not (forced and ("have it done" in told or "recommend" in told))
        assert manner_of("", mode.value) == ""

    async def test_who_must_ask_first_is_not_told_to_drive_forward(
        self, engine: PersonalityEngine
    ) -> None:
        for _ in range(10):
            await engine.adjust_axes("owner", {"initiative": 0.5}, True)
        eager, _ = await engine.character("owner", "go on")
        calm, initiative = await engine.character("owner", "go on", must_ask=True)
        assert "Drive the matter forward" in eager
        assert "Drive the matter forward" not in calm
        assert "mention a next step only if it is obvious" in calm
        assert initiative == pytest.approx(0.3)

    async def test_the_owners_feedback_stays(
        self, engine: PersonalityEngine, database: SqliteDatabase, clock: FakeClock
    ) -> None:
        state = await engine._store.write(
            lambda tx: engine.apply_event_in(
                tx, "owner", "feedback_too_harsh", True, "owner_feedback"
            )
        )
        assert state.baseline_axes.assertiveness == pytest.approx(0.70)
        again = PersonalityEngine(
            PersonaStore(database, clock=clock), DEFAULTS, clock=clock, ids=IdFactory(clock)
        )
        assert (await again.state("owner")).baseline_axes.assertiveness == pytest.approx(0.70)

    async def test_a_stranger_moves_the_mood_of_his_scope_and_that_rarely(
        self, engine: PersonalityEngine
    ) -> None:
        for _ in range(20):
            state = await engine._store.write(
                lambda tx: engine.apply_event_in(tx, "guest", "compliment", False, "channel")
            )
        assert state.baseline_axes == DEFAULTS.baseline
        assert state.mood.energy == pytest.approx(1.0)
        assert (await engine.state("owner")).mood == DEFAULTS.neutral
        events = await engine._store.list_events("guest")
        assert len(events) == 20
        assert sum(bool(event.delta_mood) for event in events) == 6

    async def test_a_stranger_cannot_tune_the_axes(self, engine: PersonalityEngine) -> None:
        await engine.adjust_axes("guest", {"warmth": 1.0}, trusted=False, persist_to_baseline=True)
        assert (await engine.character_in("guest", "default"))[1] == DEFAULTS.baseline

    async def test_the_owner_tunes_for_now_or_for_good(self, engine: PersonalityEngine) -> None:
        await engine.adjust_axes("owner", {"warmth": 0.1}, trusted=True)
        axes = (await engine.character_in("owner", "default"))[1]
        assert axes.warmth == pytest.approx(0.6)
        assert (await engine.state("owner")).baseline_axes.warmth == pytest.approx(0.5)
        await engine.adjust_axes("owner", {"warmth": 5.0}, trusted=True, persist_to_baseline=True)
        assert (await engine.state("owner")).baseline_axes.warmth == pytest.approx(0.7)

    async def test_moods_calm_down(self, engine: PersonalityEngine, clock: FakeClock) -> None:
        await engine._store.write(
            lambda tx: engine.apply_event_in(tx, "owner", "ci_failure", True, "runtime")
        )
        clock.advance(hours=100)
        state = await engine._store.write(lambda tx: engine.decay_in(tx, "owner", clock.now()))
        assert state.mood.frustration == pytest.approx(0.5, abs=0.001)

    async def test_presets(self, engine: PersonalityEngine) -> None:
        state = await engine.set_preset("owner", "work")
        assert (state.active_preset, state.baseline_axes.formality) == ("work", 0.70)
        with pytest.raises(PresetUnknown, match="chill"):
            await engine.set_preset("owner", "pirate")

    async def test_events_are_never_changed(
        self, engine: PersonalityEngine, database: SqliteDatabase
    ) -> None:
        await engine._store.write(
            lambda tx: engine.apply_event_in(tx, "owner", "compliment", True, "runtime")
        )
        with pytest.raises(DatabaseError):
            await database.execute("UPDATE persona_events SET trusted = 1")

    @pytest.mark.parametrize(
        "broken",
        ["baseline_axes_json = '{\"warmth\": 7}'", "mood_json = 'no'", "updated_at = 'then'"],
    )
    async def test_a_broken_state_gives_a_neutral_manner_and_stops_no_turn(
        self, engine: PersonalityEngine, database: SqliteDatabase, broken: str
    ) -> None:
        await engine.set_preset("owner", "chill")
        await database.execute(f"UPDATE persona_state SET {broken}")
        assert (await engine.character_in("owner", "default"))[1] == DEFAULTS.baseline
        assert "How to speak" in await engine.render_directives("owner", "crisis")
        write = engine.after_turn(
            "owner", "compliment", trusted=True, now=engine._clock.now(), key="turn-1"
        )
        await engine._store.write(write)
        assert await database.fetch_one(f"SELECT 1 FROM persona_state WHERE {broken}")

    async def test_the_same_state_gives_the_same_bytes(self, engine: PersonalityEngine) -> None:
        first = await engine.render_directives("owner", "code_review")
        assert first == await engine.render_directives("owner", "code_review")
        assert first != await engine.render_directives("owner", "casual_chat")


class TestFeedback:
    @pytest.mark.parametrize(
        ("text", "event"),
        [
            ("That was too harsh.", "feedback_too_harsh"),
            ("your answers are too long", "feedback_too_wordy"),
            ("You're a bit too formal for me!", "feedback_too_formal"),
            ("that's far too short", "feedback_too_brief"),
            ("Be more formal", "feedback_too_casual"),
            ("Please keep it short.", "feedback_too_wordy"),
            ("Shorter answers, please", "feedback_too_wordy"),
            ("be a bit less formal with me", "feedback_too_formal"),
            ("Great job!", "compliment"),
            ("Thank you, that was perfect", "compliment"),
            ("the report is too long, shorten it", None),
            ("Rename it: that is too long a name", None),
            ("Write to Bob that his mail was too harsh", None),
            ("make a perfect plan", None),
            ("write a longer text about bees", None),
            ("answer shorter mails first", None),
            ("make it shorter", None),
            ("", None),
        ],
    )
    def test_only_what_is_said_about_the_manner_counts(self, text: str, event: str | None) -> None:
        assert spoken_event(text) == event

    async def test_every_kind_moves_its_axis_for_the_owner(self, engine: PersonalityEngine) -> None:
        for event, feedback in FEEDBACK.items():
            before = (await engine.state("owner")).baseline_axes
            after = (await engine.hear_feedback("owner", event, trusted=True)).baseline_axes
            for axis, step in feedback.axes.items():
                assert getattr(after, axis) - getattr(before, axis) == pytest.approx(step)

    async def test_a_context_of_the_owners_is_detected_by_its_words(
        self, database: SqliteDatabase, clock: FakeClock
    ) -> None:
        settings = DEFAULTS.model_copy(
            update={"contexts": {"garden": {"warmth": 0.3}}, "context_words": {"garden": ["roses"]}}
        )
        engine = PersonalityEngine(
            PersonaStore(database, clock=clock), settings, clock=clock, ids=IdFactory(clock)
        )
        assert await engine.detect_context("How are the roses?") == "garden"
        assert await engine.detect_context("this is urgent") == "default"

    async def test_a_preset_brings_its_voice(self, engine: PersonalityEngine) -> None:
        await engine.set_preset("owner", "chill")
        assert "a little playful" in await engine.render_directives("owner", "default")
        await engine.set_preset("owner", "default")
        assert DEFAULTS.voice.tone in await engine.render_directives("owner", "default")
