"""The manner: its arithmetic, its prose, who may move it, and that it stops nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.app.personality import Manners, manner_of
from silas.app.settings import Settings
from silas.kernel import IdFactory
from silas.personality import AxisProfile, Manner, MoodState, PersonalityEngine, PersonaStore
from silas.personality.axes import decayed, effective_axes, moved
from silas.personality.directives import render
from silas.personality.errors import PresetUnknown
from silas.storage import SqliteDatabase
from silas.storage.errors import DatabaseError
from silas.testing import FakeClock

SHARES = st.floats(0, 1)
AXES = st.builds(AxisProfile, **dict.fromkeys(AxisProfile.model_fields, SHARES))
MOODS = st.builds(MoodState, **dict.fromkeys(MoodState.model_fields, SHARES))
DELTAS = st.dictionaries(
    st.sampled_from([*AxisProfile.model_fields, "loyalty"]), st.floats(-2, 2), max_size=8
)
DEFAULTS: Manner = manner_of(Settings().personality)


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
        room = Manners(engine)
        for _ in range(2):
            write = room.after_turn(
                "owner", "compliment", trusted=True, now=engine._clock.now(), key="turn-1"
            )
            await engine._store.write(write)
        assert (await engine.state("owner")).mood.energy == pytest.approx(0.6)
        directives, initiative = await room.character("owner", "go on")
        assert initiative > 0.7
        assert directives == await engine.render_directives("owner", "default")

    async def test_the_owners_feedback_stays(
        self, engine: PersonalityEngine, database: SqliteDatabase, clock: FakeClock
    ) -> None:
        state = await engine.apply_event("owner", "feedback_too_harsh", True, "owner_feedback")
        assert state.baseline_axes.assertiveness == pytest.approx(0.70)
        again = PersonalityEngine(
            PersonaStore(database, clock=clock), DEFAULTS, clock=clock, ids=IdFactory(clock)
        )
        assert (await again.state("owner")).baseline_axes.assertiveness == pytest.approx(0.70)

    async def test_a_stranger_moves_the_mood_of_his_scope_and_that_rarely(
        self, engine: PersonalityEngine
    ) -> None:
        for _ in range(20):
            state = await engine.apply_event("guest", "compliment", False, "channel")
        assert state.baseline_axes == DEFAULTS.baseline
        assert state.mood.energy == pytest.approx(1.0)
        assert (await engine.state("owner")).mood == DEFAULTS.neutral
        events = await engine._store.list_events("guest")
        assert len(events) == 20
        assert sum(bool(event.delta_mood) for event in events) == 6

    async def test_a_stranger_cannot_tune_the_axes(self, engine: PersonalityEngine) -> None:
        await engine.adjust_axes("guest", {"warmth": 1.0}, trusted=False, persist_to_baseline=True)
        assert await engine.get_effective_axes("guest", "default") == DEFAULTS.baseline

    async def test_the_owner_tunes_for_now_or_for_good(self, engine: PersonalityEngine) -> None:
        await engine.adjust_axes("owner", {"warmth": 0.1}, trusted=True)
        axes = await engine.get_effective_axes("owner", "default")
        assert axes.warmth == pytest.approx(0.6)
        assert (await engine.state("owner")).baseline_axes.warmth == pytest.approx(0.5)
        await engine.adjust_axes("owner", {"warmth": 5.0}, trusted=True, persist_to_baseline=True)
        assert (await engine.state("owner")).baseline_axes.warmth == pytest.approx(0.7)

    async def test_moods_calm_down(self, engine: PersonalityEngine, clock: FakeClock) -> None:
        await engine.apply_event("owner", "ci_failure", True, "runtime")
        clock.advance(hours=100)
        state = await engine.decay("owner", clock.now())
        assert state.mood.frustration == pytest.approx(0.5, abs=0.001)

    async def test_presets(self, engine: PersonalityEngine) -> None:
        state = await engine.set_preset("owner", "work")
        assert (state.active_preset, state.baseline_axes.formality) == ("work", 0.70)
        with pytest.raises(PresetUnknown, match="chill"):
            await engine.set_preset("owner", "pirate")

    async def test_events_are_never_changed(
        self, engine: PersonalityEngine, database: SqliteDatabase
    ) -> None:
        await engine.apply_event("owner", "compliment", True, "runtime")
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
        assert await engine.get_effective_axes("owner", "default") == DEFAULTS.baseline
        assert "How to speak" in await engine.render_directives("owner", "crisis")
        write = Manners(engine).after_turn(
            "owner", "compliment", trusted=True, now=engine._clock.now(), key="turn-1"
        )
        await engine._store.write(write)
        assert await database.fetch_one(f"SELECT 1 FROM persona_state WHERE {broken}")

    async def test_the_same_state_gives_the_same_bytes(self, engine: PersonalityEngine) -> None:
        first = await engine.render_directives("owner", "code_review")
        assert first == await engine.render_directives("owner", "code_review")
        assert first != await engine.render_directives("owner", "casual_chat")
