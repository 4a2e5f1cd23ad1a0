"""What is said about a tampered log, word for word.

Each case does something to twelve entries that no checkpoint vouches for, so that only the chain
itself can tell what happened.
"""

from collections.abc import Callable, Iterator

import pytest

from silas.audit.models import GENESIS, link
from tests.audit.ledger import Copy, prepared_copy

ENTRIES = 12
Entry = tuple[int, str, str]
Change = Callable[[list[Entry]], list[Entry]]


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return prepared_copy(tmp_path_factory.mktemp("log"), lambda ledger: ledger.write(ENTRIES))


@pytest.fixture
def copy(untouched: Copy) -> Iterator[Copy]:
    with untouched.tampering():
        yield untouched


def told(copy: Copy, *changes: Change) -> list[str]:
    entries = copy.entries()
    for change in changes:
        entries = change(entries)
    copy.replace_entries(entries)
    report = copy.examine(witness=None)
    assert not report.ok
    assert report.entries == len(entries)
    return [f"{each.kind.value} {each.seq}: {each.sentence}" for each in report.problems]


def body(*numbers: int) -> Change:
    """Other contents."""
    return lambda entries: [
        (seq, text.replace("thing", "THING") if seq in numbers else text, digest)
        for seq, text, digest in entries
    ]


def digest(*numbers: int) -> Change:
    """Other hashes."""
    return lambda entries: [
        (seq, text, "0" * 64 if seq in numbers else digest) for seq, text, digest in entries
    ]


def both(*numbers: int) -> Change:
    return lambda entries: digest(*numbers)(body(*numbers)(entries))


def without(*numbers: int) -> Change:
    return lambda entries: [entry for entry in entries if entry[0] not in numbers]


def order(*numbers: int) -> Change:
    """These entries, laid one behind the other."""
    return lambda entries: _laid_out([entries[number - 1] for number in numbers])


def forged(place: int, *, linked: bool = True, calls_itself: int | None = None) -> Change:
    """One more entry at this place; the others move on."""

    def change(entries: list[Entry]) -> list[Entry]:
        before = entries[place - 2][2] if place > 1 else GENESIS
        text = f'{{"event":"forged","seq":{calls_itself or place}}}'
        row = (0, text, link(before, text) if linked else "0" * 64)
        return _laid_out([*entries[: place - 1], row, *entries[place - 1 :]])

    return change


def headless(number: int) -> Change:
    """An entry that has lost its end, and with it its number."""
    return lambda entries: [
        (seq, text[:-5] if seq == number else text, digest) for seq, text, digest in entries
    ]


def nameless(entries: list[Entry]) -> list[Entry]:
    """One more entry at the end, linked to the last one, without a number."""
    seq, _, before = entries[-1]
    text = '{"event":"forged"}'
    return [*entries, (seq + 1, text, link(before, text))]


def _laid_out(entries: list[Entry]) -> list[Entry]:
    return [(place, text, digest) for place, (_, text, digest) in enumerate(entries, start=1)]


def _only_hash(number: int) -> str:
    return (
        f"changed {number}: The hash stored with entry {number} was changed; "
        "its content is as it was."
    )


def _content(number: int) -> str:
    return f"changed {number}: The content of entry {number} was changed."


def _both(number: int) -> str:
    return f"changed {number}: Entry {number} was changed, its hash included."


def _unproven(number: int) -> str:
    return (
        f"unproven {number}: Entry {number} cannot be checked, because the hash before it is lost."
    )


def _moved(number: int, place: int) -> str:
    return f"reordered {number}: Entry {number} is out of order: it lies at place {place}."


_OTHER_END = "state_mismatch 12: The log's note of its end has another hash for entry 12."
_LAST_MISSING = "truncated 12: Entry 12 at the end of the log is missing."
_FIVE_INSERTED = "inserted 5: The entry at place 5 was inserted."

CASES: dict[str, tuple[list[Change], list[str]]] = {
    "one hash": ([digest(3)], [_only_hash(3)]),
    "two hashes": ([digest(3, 5)], [_only_hash(3), _only_hash(5)]),
    "two hashes side by side": ([digest(3, 4)], [_only_hash(3), _only_hash(4)]),
    "the last hashes": ([digest(11, 12)], [_only_hash(11), _only_hash(12)]),
    "all hashes": ([digest(*range(1, 13))], [_only_hash(n) for n in range(1, 13)]),
    "a hash, then a body": ([digest(3), body(5)], [_only_hash(3), _content(5)]),
    "a body, then a hash": ([body(3), digest(5)], [_content(3), _only_hash(5)]),
    "a hash, two rows on a body": ([digest(3), body(6)], [_only_hash(3), _content(6)]),
    "every other body": (
        [body(2, 4, 6, 8, 10, 12)],
        [_content(n) for n in (2, 4, 6, 8, 10, 12)],
    ),
    "the last body": ([body(12)], [_content(12)]),
    "the first, whole": ([both(1)], [_both(1), _unproven(2)]),
    "one, whole": ([both(6)], [_both(6), _unproven(7)]),
    "the last, whole": ([both(12)], [_both(12), _OTHER_END]),
    "two, whole": ([both(3, 4)], [_both(3), _both(4), _unproven(5)]),
    "one, whole, and the next body": ([both(3), body(4)], [_both(3), _unproven(4)]),
    "all, whole": ([both(*range(1, 13))], [*(_both(n) for n in range(1, 13)), _OTHER_END]),
    "no number": ([headless(5)], [_content(5)]),
    "no number and no hash": ([headless(5), digest(5)], [_both(5), _unproven(6)]),
    "one removed": ([without(5)], ["removed 5: Entry 5 is missing."]),
    "one removed, the next changed": (
        [body(6), without(5)],
        ["removed 5: Entry 5 is missing."],
    ),
    "the first removed, the next changed": (
        [body(2), without(1)],
        ["removed 1: Entry 1 is missing."],
    ),
    "the last but one removed, the last changed": (
        [body(12), without(11)],
        ["removed 11: Entry 11 is missing."],
    ),
    "the last removed, the one before changed": (
        [body(11), without(12)],
        [_both(11), _LAST_MISSING],
    ),
    "several removed, others moved": (
        [order(1, 2, 8, 9, 5, 6, 10, 11, 12)],
        [
            "removed 3: Entries 3 to 4 are missing.",
            _content(5),
            _moved(5, 5),
            _moved(6, 6),
            "removed 7: Entry 7 is missing.",
        ],
    ),
    "moved to the front": ([order(3, 1, 2, *range(4, 13))], [_moved(1, 2), _moved(2, 3)]),
    "moved to the back": ([order(2, 3, 1, *range(4, 13))], [_moved(1, 3)]),
    "some turned round": (
        [order(1, 2, 3, 8, 7, 6, 5, 4, 9, 10, 11, 12)],
        [_moved(4, 8), _moved(5, 7), _moved(6, 6), _moved(7, 5)],
    ),
    "all turned round": ([order(*range(12, 0, -1))], [_moved(n, 13 - n) for n in range(1, 12)]),
    "two far apart exchanged": (
        [order(1, 9, 3, 4, 5, 6, 7, 8, 2, 10, 11, 12)],
        [
            "reordered 2: The place of entry 2 holds one that calls itself 9.",
            _unproven(3),
            "reordered 9: The place of entry 9 holds one that calls itself 2.",
            _unproven(10),
        ],
    ),
    "a second copy": ([order(1, 2, 3, 4, 5, 5, *range(6, 13))], [_FIVE_INSERTED]),
    "a second copy, far off": (
        [order(*range(1, 10), 5, 10, 11, 12)],
        ["inserted 10: The entry at place 10 was inserted."],
    ),
    "moved, and a second copy": (
        [order(1, 2, 4, 3, 3, *range(5, 13))],
        [
            _moved(3, 4),
            "inserted 5: The entry at place 5 was inserted: entry 3 is there already.",
        ],
    ),
    "a copy in another's place": (
        [order(1, 2, 5, 4, 5, *range(6, 13))],
        ["inserted 3: The entry at place 3 was inserted.", "removed 3: Entry 3 is missing."],
    ),
    "a copy further in front": (
        [order(1, 2, 5, 3, *range(4, 13))],
        ["inserted 3: The entry at place 3 was inserted."],
    ),
    "a change, and only something without a number behind it": (
        [body(3), without(*range(4, 13)), nameless],
        [_content(3), "truncated 5: Entries 5 to 12 at the end of the log are missing."],
    ),
    "one made up": ([forged(5)], [_FIVE_INSERTED]),
    "one made up, without a link": ([forged(5, linked=False)], [_FIVE_INSERTED]),
    "one made up, with an odd number": (
        [forged(5, linked=False, calls_itself=99)],
        [_FIVE_INSERTED],
    ),
    "one made up, and a hash": (
        [forged(5, linked=False), digest(7)],
        [_FIVE_INSERTED, _only_hash(6)],
    ),
    "one behind the end": (
        [forged(13)],
        ["inserted 13: Entry 13 lies behind the end of the log."],
    ),
    "two behind the end": (
        [forged(13), forged(14)],
        ["inserted 13: Entries 13 to 14 lie behind the end of the log."],
    ),
    "one behind the end, without a link": (
        [forged(13, linked=False)],
        ["inserted 13: The entry at place 13 was added behind the end of the log."],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_word_for_word(copy: Copy, name: str) -> None:
    changes, expected = CASES[name]
    assert told(copy, *changes) == expected


@pytest.mark.parametrize("distance", [1, 5])
def test_all_places_shifted(copy: Copy, distance: int) -> None:
    def shifted(entries: list[Entry]) -> list[Entry]:
        return [(seq + distance * (seq > 6), text, digest) for seq, text, digest in entries]

    place = 7 + distance
    assert told(copy, shifted) == [
        f"reordered {place}: From place {place} on, entries lie under other numbers than their own."
    ]


@pytest.mark.parametrize("column", ["body", "hash"])
def test_what_is_no_text_any_more(copy: Copy, column: str) -> None:
    """The driver cannot read such a row; what is left of it still counts."""
    copy.run(f"UPDATE audit_log SET {column} = CAST(x'ff' AS TEXT) WHERE seq = 3")
    (problem,) = copy.examine(witness=None).problems
    expected = _content(3) if column == "body" else _only_hash(3)
    assert f"{problem.kind.value} {problem.seq}: {problem.sentence}" == expected


@pytest.mark.parametrize("place", [12, 11])
def test_one_made_up_where_the_end_is_not_known(copy: Copy, place: int) -> None:
    copy.run("DELETE FROM audit_state")
    assert told(copy, forged(place)) == [
        "state_mismatch 0: The log's note of its start and end was destroyed.",
        f"inserted {place}: The entry at place {place} was inserted.",
    ]


def test_one_removed_and_the_next_beyond_recognition(copy: Copy) -> None:
    assert _both(5) in told(copy, headless(5), digest(5), without(4))
