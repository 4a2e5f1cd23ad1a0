"""The scorecards of the kinds hold, and a scorecard that should fail does."""

from pathlib import Path
from typing import Any

import pytest

from evals.companions import KINDS, Scenario, ScenarioBook, Suite, play, scenarios_of, scorecard

SIMPLE: dict[str, Any] = {
    "name": "simple",
    "suite": "golden",
    "tasks": [{"ref": "squats", "title": "Squats", "steps": ["Stretch"]}],
    "steps": [{"finish": "squats"}],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_golden_benchmark_suite_validates_tool_action_sequences_and_report_outputs(
    tmp_path: Path, kind: str
) -> None:
    card = await scorecard(kind, tmp_path)
    assert card.passed, card.failures
    assert card.failures == {}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_golden_adversarial_and_drift_scenarios(kind: str) -> None:
    book = scenarios_of(kind)
    assert {each.suite for each in book.scenarios} == set(Suite)
    assert book.thresholds[Suite.ADVERSARIAL] == 1.0
    names = [each.name for each in book.scenarios]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "wrong",
    [
        {"tools": []},
        {"codes": [None]},
        {"tasks": ["Squats", "More"]},
        {"waiting": 0},
        {"questions": 1},
        {"report_mentions": ["Bench"]},
        {"report_omits": ["Squats"]},
        {"logged_minutes": 5},
        {"run_code": "stopped"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
async def test_what_is_not_as_expected_is_found(tmp_path: Path, wrong: dict[str, Any]) -> None:
    scenario = Scenario.model_validate({**SIMPLE, "expect": wrong})
    assert len(await play("planner", scenario, tmp_path)) == 1


async def test_a_suite_below_its_threshold_fails_the_card(tmp_path: Path) -> None:
    good = {**SIMPLE, "expect": {"waiting": 1}}
    bad = {**SIMPLE, "name": "bad", "expect": {"waiting": 0}}
    book = ScenarioBook.model_validate(
        {"thresholds": {"golden": 0.6, "adversarial": 0, "drift": 0}, "scenarios": [good, bad]}
    )
    card = await scorecard("planner", tmp_path, book=book)
    assert card.scores == {Suite.GOLDEN: 0.5}
    assert not card.passed
    assert list(card.failures) == ["bad"]
