"""Rules prove themselves when they load, or do not load."""

import pytest

from silas.gates.guards import (
    GuardRuleBroken,
    jailbreak,
    other_scripts,
    pii,
    secrets,
    toxicity,
    unicode,
    urls,
)
from silas.gates.guards.rules import Rule, proven

ALL_RULES = [
    rule
    for module in (jailbreak, other_scripts, pii, secrets, toxicity, unicode, urls)
    for rule in (*module.RULES, *getattr(module, "OTHER_RULES", ()))
]


def rule(**fields: object) -> Rule:
    usual: dict[str, object] = {"name": "r", "why": "Why.", "match": ("x",), "not_match": ("y",)}
    return Rule(**{**usual, **fields})  # type: ignore[arg-type]


def contains_x(_: Rule, text: str) -> bool:
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
def test_a_rule_that_does_not_is_an_error(broken: Rule, words: str) -> None:
    with pytest.raises(GuardRuleBroken, match=words):
        proven([broken], contains_x)


def test_names_are_unique() -> None:
    with pytest.raises(GuardRuleBroken, match="same name"):
        proven([rule(), rule()], contains_x)


@pytest.mark.parametrize("each", ALL_RULES, ids=lambda each: each.name)
def test_every_rule_has_examples_and_a_sentence(each: Rule) -> None:
    assert each.match
    assert each.not_match
    assert each.why[0].isupper()
    assert each.why.endswith(".")
