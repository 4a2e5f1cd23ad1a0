"""`make firsthour`: a few of its tasks, and that a task which does not hold fails."""

import dataclasses
from importlib.resources import files

import pytest

from evals.firsthour.__main__ import chosen_tasks, line_of
from evals.firsthour.run import Outcome, run_tasks
from evals.firsthour.task import file_is, hears
from evals.firsthour.tasks import TASKS, sample


def test_there_are_forty_tasks_and_twelve_of_them_are_for_a_real_model() -> None:
    names = [task.name for task in TASKS]
    assert len(names) == len(set(names)) == 40
    assert len(chosen_tasks([], real=True)) == 12


@pytest.mark.timeout(900)
async def test_a_sample_of_the_first_hour_passes() -> None:
    outcomes = await run_tasks(sample())
    assert all(each.passed for each in outcomes), "\n".join(map(line_of, outcomes))


@pytest.mark.timeout(900)
async def test_a_task_whose_file_is_not_there_fails_and_says_why() -> None:
    [task] = [each for each in TASKS if each.name == "a question that words answer"]
    wrong = dataclasses.replace(task, judge=[file_is("a.txt", "one"), hears("Canberra")])
    [outcome] = await run_tasks([wrong])
    assert outcome.problems == ["a.txt is not there"]
    assert "FAIL" in line_of(outcome)
    assert "pass" in line_of(Outcome("x", [], 1.0))


def test_no_prompt_holds_the_words_of_a_task() -> None:
    """A model that passes because the answer stands in its prompt shows nothing."""
    folder = files("silas.agents") / "prompts"
    prompts = " ".join(each.read_text("utf-8") for each in folder.iterdir())
    for words in ("Mon-Fri", "hours.txt", "buy bread", "expr", "7349", "squats", "Albatross"):
        assert words.casefold() not in prompts.casefold()
