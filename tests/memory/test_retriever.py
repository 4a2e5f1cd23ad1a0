from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.kernel import format_timestamp
from silas.kernel.when import spans_in
from silas.memory.fusion import (
    MOST_ROWS,
    QueryWord,
    RecallEvidence,
    Trait,
    promising,
    rarity,
    scores,
    without_names,
)
from silas.memory.models import MemoryQuery, MemoryQueryStrategy
from silas.memory.question import (
    MOST_WORDS,
    asked_for,
    content_words,
    fit,
    forms_of,
    match_expression,
)
from silas.memory.service import MemoryRetriever
from tests.memory.room import NOON, Room, a_memory

TALK = [
    ("s1", "Anna", "What did you do in the holidays?"),
    ("s1", "Ben", "I went to Norway and hiked along the fjords."),
    ("s1", "Anna", "Lovely! Did you take photos?"),
    ("s1", "Ben", "Yes, hundreds of them."),
    ("s2", "Anna", "I bought a new violin yesterday."),
    ("s2", "Ben", "Which colour is it?"),
    ("s2", "Anna", "Dark red, nearly black."),
    ("s3", "Ben", "My sister moved to Lisbon last month."),
]


@pytest.fixture
async def talk(room: Room) -> Room:
    await room.store.store_many(
        [
            a_memory(
                f"{speaker}: {text}",
                memory_id=f"t{number}",
                session_id=session,
                entity_refs=[speaker],
                created_at=NOON + timedelta(days=40 * int(session[1])),
            )
            for number, (session, speaker, text) in enumerate(TALK)
        ]
    )
    return room


async def ask(room: Room, question: str, strategy: str = "fused", **more) -> list[str]:
    query = MemoryQuery(query=question, strategy=MemoryQueryStrategy(strategy), **more)
    found = await MemoryRetriever(room.memories).retrieve(query, "owner")
    return [item.memory_id for item in found]


async def test_an_answer_is_found_by_the_words_of_its_question(talk: Room) -> None:
    assert "t6" in (await ask(talk, "Which colour has the violin?"))[:3]
    assert await ask(talk, "colour violin", "keyword") == ["t5", "t4"]


async def test_other_forms_of_a_word_are_found(talk: Room) -> None:
    assert (await ask(talk, "Where did Ben go hiking?"))[0] == "t1"
    assert (await ask(talk, "What did Anna buy?"))[0] == "t4"


async def test_times_that_the_question_names_count(talk: Room) -> None:
    # Session 2 was in March.
    assert await ask(talk, "What happened in March 2026?", "temporal") == ["t6", "t5", "t4"]
    assert await ask(talk, "What did Anna say in March 2026 about photos?")
    by_words = await ask(talk, "Tell me about Anna in March 2026")
    assert by_words[0] in {"t4", "t6"}


async def test_sessions_entities_and_causes(talk: Room) -> None:
    assert await ask(talk, "violin", "session") == ["t4", "t5", "t6"]
    assert set(await ask(talk, "Tell me about Anna", "entity")) == {"t0", "t2", "t4", "t6"}
    await talk.store.store(a_memory("the concert was cancelled", memory_id="c", causal_refs=["t4"]))
    assert await ask(talk, "violin", "causal") == ["t4", "c"]
    assert "c" in await ask(talk, "violin")


async def test_a_session_can_be_asked_for(talk: Room) -> None:
    query = MemoryQuery(query="all of it", strategy=MemoryQueryStrategy.SESSION)
    found = await MemoryRetriever(talk.memories).retrieve(query, "owner", "s3")
    assert [item.memory_id for item in found] == ["t7"]


async def test_results_are_cut_to_number_and_tokens_and_counted(talk: Room) -> None:
    assert len(await ask(talk, "Anna Ben", max_results=3)) == 3
    assert len(await ask(talk, "Anna Ben", max_tokens=1)) == 1
    await talk.memories.flush()
    counted = await talk.desk.database.fetch_one("SELECT sum(access_count) FROM memory_items")
    assert counted == (4,)


async def test_relevance_is_between_none_and_one_and_falls(talk: Room) -> None:
    query = MemoryQuery(query="Did Ben take photos in Norway?")
    found = await MemoryRetriever(talk.memories).recall(query, "owner")
    relevance = [each.relevance for each in found]
    assert relevance[0] == 1.0
    assert relevance == sorted(relevance, reverse=True)
    assert all(0 <= value <= 1 for value in relevance)


async def test_among_many_memories_the_same_is_found(talk: Room) -> None:
    few = await ask(talk, "violin")
    await talk.store.store_many([a_memory("the weather was grey") for _ in range(250)])
    assert await ask(talk, "violin") == few


async def test_the_raw_lane_and_what_is_not_valid_stay_away(talk: Room) -> None:
    await talk.store.store_raw(a_memory("violin violin violin", memory_id="raw"))
    past = talk.desk.clock.now() - timedelta(days=1)
    await talk.store.store(a_memory("an old violin", memory_id="old", valid_until=past))
    for strategy in MemoryQueryStrategy:
        assert not {"raw", "old"} & set(await ask(talk, "violin", strategy.value)), strategy


async def test_nothing_fits_nothing(talk: Room) -> None:
    for strategy in MemoryQueryStrategy:
        assert await ask(talk, "!!! ???", strategy.value) == []
        assert await ask(talk, "xylophone", strategy.value) == []


WHEN_TEXT = format_timestamp(NOON)
WHEN = datetime(2026, 7, 15, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("question", "inside", "outside"),
    [
        ("What happened in May 2023?", "2023-05-20", "2023-06-01"),
        ("on 5 May 2023", "2023-05-06", "2023-06-06"),
        ("on May 5th, 2023", "2023-05-04", "2022-05-04"),
        ("in 2024", "2024-02-02", "2025-02-02"),
        ("on 2024-03-09", "2024-03-10", "2024-04-10"),
        ("yesterday", "2026-07-14", "2026-07-10"),
        ("last week", "2026-07-05", "2026-05-05"),
        ("in march", "2025-03-03", "2025-04-03"),
    ],
)
def test_times_in_questions(question: str, inside: str, outside: str) -> None:
    found = spans_in(question, now=WHEN, zone=ZoneInfo("UTC"))
    assert fit(found, datetime.fromisoformat(f"{inside}T12:00+00:00")) > 0
    assert fit(found, datetime.fromisoformat(f"{outside}T12:00+00:00")) == 0


@pytest.mark.parametrize("question", ["May I come in?", "You may go", "Who is Ben?", "on 31 Feb"])
def test_no_time_is_read_into_other_questions(question: str) -> None:
    exact = [each for each in spans_in(question, now=WHEN, zone=ZoneInfo("UTC")) if each.fit == 1.0]
    assert exact == []


def test_words_of_a_question() -> None:
    assert content_words("What is Anna's favourite book?") == ["anna", "favourite", "book"]
    assert content_words("Who are you?") == ["who", "are", "you"]
    assert len(content_words(" ".join(f"word{n}" for n in range(99)))) == MOST_WORDS
    assert match_expression(["state-of-the-art"]) == '"state-of-the-art" OR "state" OR "art"'
    assert forms_of("goes") == ["goes", "go", "went", "gone"]
    assert forms_of("tea") == ["tea"]


def traits(rows, session="s") -> dict[int, Trait]:
    return {row: Trait(session, WHEN_TEXT, 50, False) for row in rows}


def test_a_neighbour_counts_only_in_the_same_session() -> None:
    words = [QueryWord(frozenset({10}), 1.0)]
    alone = {**traits([10]), **traits([11], "other")}
    got = scores(RecallEvidence(words, alone, [10, 11]))
    assert got[11] < got[10] / 3
    together = scores(RecallEvidence(words, traits([10, 11]), [10, 11]))
    assert together[11] > got[11]


def test_the_memory_before_says_more_about_one_than_the_memory_after() -> None:
    got = scores(
        RecallEvidence([QueryWord(frozenset({10}), 1.0)], traits([9, 10, 11]), [9, 10, 11])
    )
    assert got[10] > got[11] > got[9]


def test_an_answer_need_not_repeat_its_question() -> None:
    asked = {**traits([8, 9, 10, 11], "s"), 10: Trait("s", WHEN_TEXT, 50, True)}
    got = scores(RecallEvidence([QueryWord(frozenset({8, 10}), 1.0)], asked, [8, 9, 10, 11]))
    assert got[11] == got[8] > got[9]


@pytest.mark.parametrize(
    ("question", "named", "rest"),
    [
        ("Which cities has Anna seen?", ["Anna"], "Which cities has seen?"),
        ("What is Anna Lee's job?", ["Anna", "Anna Lee"], "What is job?"),
        ("Who is Anna?", ["Anna"], ""),
        ("Which cities has Annabel seen?", [], ""),
        ("Where did ben go?", ["Ben"], "Where did go?"),
    ],
)
def test_a_question_without_names(question: str, named: list[str], rest: str) -> None:
    assert without_names(question, named) == rest


async def test_words_that_all_are_common_are_looked_for_together(room: Room) -> None:
    kinds = ("red", "blue", "red", "blue")
    texts = [f"{kinds[n % 4]} things {n}" for n in range(2 * MOST_ROWS + 10)]
    texts[0] = "blue sky, red sun"
    await room.store.store_many(
        [a_memory(text, memory_id=f"m{number}") for number, text in enumerate(texts)]
    )
    assert (await ask(room, "red or blue"))[0] == "m0"


def test_a_window_that_holds_more_words_wins() -> None:
    words = [
        QueryWord(frozenset({1, 20}), 1.0),
        QueryWord(frozenset({2}), 1.0),
        QueryWord(frozenset({3}), 1.0),
    ]
    assert promising(words, 1) == [2]


def test_a_question_scores_less_than_a_statement() -> None:
    words = [QueryWord(frozenset({1, 9}), 1.0)]
    both = {1: Trait("a", WHEN_TEXT, 50, True), 9: Trait("b", NOON, 50, False)}
    got = scores(RecallEvidence(words, both, [1, 9]))
    assert got[9] > got[1]


def test_a_memory_that_tells_what_is_asked_for_scores_more() -> None:
    words = [QueryWord(frozenset({1, 9}), 1.0)]
    known = {**traits([1], "a"), **traits([9], "b")}
    got = scores(RecallEvidence(words, known, [1, 9], telling=frozenset({9})))
    assert got[9] > got[1]


def test_for_several_things_the_entity_counts_more_and_the_session_less() -> None:
    words = [QueryWord(frozenset({1, 2, 3, 9}), 1.0)]
    known = {**traits([1, 2, 3], "together"), **traits([9], "alone")}
    one = scores(RecallEvidence(words, known, list(known), of_entity=frozenset({9})))
    several = scores(
        RecallEvidence(words, known, list(known), of_entity=frozenset({9}), several=True)
    )
    assert one[9] < one[1]
    assert several[9] > several[1]


@pytest.mark.parametrize(
    ("question", "several", "told", "not_told"),
    [
        ("When did Anna move?", False, "We moved last Friday.", "We moved!"),
        ("In which year was it?", False, "That was 2019.", "That was nice."),
        ("How long did it take?", False, "It took three hours.", "It took ages."),
        ("How many cats has Anna?", True, "I have 2 cats", "I have cats"),
    ],
)
def test_what_a_question_asks_for(question, several, told, not_told) -> None:
    asked = asked_for(question)
    assert asked.several is several
    assert asked.marked_by is not None
    assert asked.is_answered_in(told)
    assert not asked.is_answered_in(not_told)


@pytest.mark.parametrize("question", ["Which cities has Anna seen?", "What kind of tea is it?"])
def test_several_things_are_asked_for(question: str) -> None:
    assert asked_for(question) == (True, None)


@pytest.mark.parametrize("question", ["What is this?", "Who has cats?", "What was his dress?", ""])
def test_any_memory_may_answer(question: str) -> None:
    assert asked_for(question) == (False, None)


words_of = st.lists(st.tuples(st.frozensets(st.integers(0, 900), max_size=400), st.floats(0.1, 9)))


@given(words_of)
def test_what_is_promising_is_known_and_comes_once(words) -> None:
    found = promising([QueryWord(*word) for word in words], 7)
    held = {row for word, _ in words for row in word}
    assert len(found) == len(set(found)) <= 7
    assert all(any(abs(row - other) <= 2 for other in held) for row in found)
    assert bool(found) == bool(held)


rows = st.integers(0, 30)


@given(
    st.lists(st.tuples(st.frozensets(rows, max_size=8), st.floats(0.01, 9)), max_size=5),
    st.dictionaries(rows, st.floats(-1, 1), max_size=10),
    st.sets(rows, max_size=20),
)
def test_scores_are_finite_and_only_for_what_is_known(words, cosines, known) -> None:
    evidence = RecallEvidence(
        [QueryWord(*word) for word in words], traits(known), range(31), cosines=cosines
    )
    got = scores(evidence)
    assert set(got) == known
    assert all(value == value and abs(value) < 100 for value in got.values())


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_a_rarer_word_says_more(few: int, more: int) -> None:
    low, high = sorted((few, more))
    assert rarity(low, 1000) >= rarity(high, 1000) > 0
