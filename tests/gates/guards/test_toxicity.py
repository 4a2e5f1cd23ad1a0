"""The guard `toxicity`: short lists, seen through disguises; ordinary talk about hard things."""

import pytest

from silas.gates.guards import GuardDecision, GuardOptionsInvalid, built_in_guards

GUARDS = built_in_guards()
EVERYTHING = ["slur", "threat", "harassment", "sexual", "profanity"]


def found(text: str, **options: object) -> list[str]:
    verdict = GUARDS.check("toxicity", text, GUARDS.options("toxicity", options))
    return [each.rule for each in verdict.findings]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("kill yourself", "harassment"),
        ("K1LL Y0URSELF", "harassment"),
        ("k i l l yourself", "harassment"),
        ("ki\u200bll your\u200bself", "harassment"),
        ("I will kill you", "threat"),
        ("i am going to murder your family", "threat"),
        ("what the f*ck", "profanity"),
        ("fuuuuuck", "profanity"),
        ("shіt", "profanity"),
    ],
)
def test_found(text: str, rule: str) -> None:
    assert found(text, categories=EVERYTHING) == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "My grandmother is going to die soon, and I don't know what to do.",
        "How do I kill a process that hangs?",
        "The hero kills the dragon in chapter nine.",
        "She was shot at the border in 1962.",
        "Scunthorpe, Essex, Penistone, cocktail, assassin, Dickens",
        "a ** b * c and *emphasis* and **bold**",
        "I could have died laughing!",
    ],
)
def test_ordinary_talk_passes(text: str) -> None:
    assert found(text, categories=EVERYTHING) == []


def test_swearing_counts_only_if_asked_for() -> None:
    assert found("oh shit") == []
    assert found("oh shit", categories=["profanity"]) == ["profanity"]


def test_words_can_be_taken_out() -> None:
    options = GUARDS.options("toxicity", {"mode": "fix", "categories": ["profanity"]})
    verdict = GUARDS.check("toxicity", "what the f*ck is this shit", options)
    assert verdict.fixed_text == "what the [removed] is this [removed]"


def test_what_is_too_much_to_mend_is_stopped() -> None:
    options = GUARDS.options("toxicity", {"mode": "fix", "categories": ["profanity"]})
    assert GUARDS.check("toxicity", "shit " * 500, options).decision is GuardDecision.BLOCK


def test_an_unknown_category_is_an_error() -> None:
    with pytest.raises(GuardOptionsInvalid, match="harassment"):
        GUARDS.options("toxicity", {"categories": ["rudeness"]})
