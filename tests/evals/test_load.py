"""Conversations at once, in small: nothing is lost, doubled or out of order."""

from pathlib import Path

import pytest

from evals.crowd import UNLIMITED
from evals.load import Manner, Report, Talk, chat
from tests.evals.served import server_in
from tests.web.place import environ_for, open_place


async def test_a_few_conversations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = environ_for(tmp_path, **UNLIMITED)
    monkeypatch.setenv("HOME", environ["HOME"])
    async with open_place(tmp_path, environ) as place:
        manner = Manner(scopes=4, devices=3, pause=0, turns=6)
        report = await chat(server_in(place), manner)
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
