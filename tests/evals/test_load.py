"""Conversations at once, in small: nothing is lost, doubled or out of order."""

from pathlib import Path

from silas.evals.load import Manner, Report, Talk, chat


async def test_a_few_conversations(tmp_path: Path) -> None:
    report = await chat(tmp_path, scopes=6, manner=Manner(pause=0, turns=6))
    assert (report.turns, report.lost, report.reordered) == (36, 0, 0)
    assert len(report.lines()) == 4


def test_what_is_wrong_is_counted() -> None:
    talks = [
        Talk("fine", ["a", "b"], ["a", "b"], [0.1, 0.1]),
        Talk("lost", ["a", "b"], ["a"], [0.1]),
        Talk("twice", ["a"], ["a", "a"], [0.1]),
        Talk("mixed up", ["a", "b"], ["b", "a"], [0.1, 0.1]),
    ]
    report = Report(talks, 1.0, 0, 0)
    assert (report.lost, report.reordered) == (2, 2)
