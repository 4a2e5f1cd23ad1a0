"""Rules prove themselves before they are used, or are not used."""

from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest

from silas.gates.guards import (
    GuardRuleBroken,
    jailbreak,
    pii,
    secrets,
    toxicity,
    unicode,
    urls,
)
from silas.gates.guards.registry import built_in_guards
from silas.gates.guards.rules import GuardRule, Proof, proven

ALL_RULES = [
    rule
    for module in (jailbreak, pii, secrets, toxicity, unicode, urls)
    for rule in (*module.RULES, *getattr(module, "OTHER_RULES", ()))
]


def rule(**fields: object) -> GuardRule:
    usual: dict[str, object] = {"name": "r", "why": "Why.", "match": ("x",), "not_match": ("y",)}
    return GuardRule(**{**usual, **fields})  # type: ignore[arg-type]


def contains_x(_: GuardRule, text: str) -> bool:
    return "x" in text


def test_a_rule_that_keeps_its_word_loads() -> None:
    assert [each.name for each in proven([rule()], contains_x)] == ["r"]


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (rule(match=("x", "z")), "misses its own example"),
        (rule(not_match=("y", "xx")), "finds what it must not"),
        (rule(match=()), "no examples"),
        (rule(not_match=()), "no examples"),
    ],
)
def test_a_rule_that_does_not_is_an_error(broken: GuardRule, words: str) -> None:
    with pytest.raises(GuardRuleBroken, match=words):
        proven([broken], contains_x)


def test_names_are_unique() -> None:
    with pytest.raises(GuardRuleBroken, match="same name"):
        proven([rule(), rule()], contains_x)


@pytest.mark.parametrize("each", ALL_RULES, ids=lambda each: each.name)
def test_every_rule_has_examples_and_a_sentence(each: GuardRule) -> None:
    assert each.match
    assert each.not_match
    assert each.why[0].isupper()
    assert each.why.endswith(".")


def test_a_proof_is_held_once_however_many_ask() -> None:
    tried: list[str] = []

    def prove() -> None:
        proof.hold()  # the examples ask the guard, and the guard its proof
        tried.append("tried")

    proof = Proof(prove)
    with ThreadPoolExecutor(4) as pool:
        for asked in [pool.submit(proof.hold) for _ in range(20)]:
            asked.result()
    assert tried == ["tried"]


def broken_proof() -> Proof:
    return Proof(lambda: proven([rule(match=("z",))], contains_x))


def test_a_broken_proof_never_becomes_a_good_one() -> None:
    proof = broken_proof()
    for _ in range(2):
        with pytest.raises(GuardRuleBroken):
            proof.hold()


@pytest.mark.parametrize("module", [jailbreak, pii, secrets, urls], ids=lambda each: each.NAME)
def test_a_guard_says_nothing_about_a_text_before_its_rules_are_proven(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    built_in_guards().prove(module.NAME)
    monkeypatch.setattr(module, "PROOF", broken_proof())
    with pytest.raises(GuardRuleBroken):
        built_in_guards().check(module.NAME, "an ordinary text")
