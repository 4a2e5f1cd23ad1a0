"""The soak in small: everybody does something, nothing goes wrong, and the curve is what it is."""

import os
import random
from pathlib import Path

import pytest

from evals.crowd import ACTS, UNLIMITED, Owner, Tally
from evals.served import Page
from evals.soak import Manner, Report, Sample, growth, look_at, picture, slope, soak
from silas.web.front import Front
from tests.evals.served import server_in
from tests.web.place import environ_for, open_place


@pytest.mark.slow
async def test_everybody_does_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = environ_for(tmp_path, **UNLIMITED)
    monkeypatch.setenv("HOME", environ["HOME"])
    async with open_place(tmp_path, environ) as place:
        server = server_in(place)
        manner = Manner(minutes=0.05, scopes=4, devices=2, pause=0.1, every=0.3)
        report = await soak(server, manner)
        assert report.tally.wrong == 0, report.lines()
        assert report.tally.acts["visit"] > 0
        # Each act once: the chance of a second or two may leave one out.
        owner = Owner(Page(await server.pair()), random.Random(1), await _a_companion(place.front))
        async with owner.page.open():
            for act in ACTS:
                await act(owner)


async def _a_companion(front: Front) -> str:
    [first, *_] = await front.companions.list()
    return first.id


def _curve(*memory: float) -> list[Sample]:
    return [Sample(float(minute), each, 1, 1, 0, 1.0) for minute, each in enumerate(memory)]


def test_growth_is_seen() -> None:
    steady, growing = _curve(*[100.0] * 61), _curve(*(100.0 + 2 * each for each in range(61)))
    assert growth(steady, lambda each: each.memory) == 1
    assert growth(growing, lambda each: each.memory) > 1.5
    assert slope(growing, lambda each: each.memory) == pytest.approx(120)
    assert Report(Tally(), steady, Manner()).flat
    assert not Report(Tally(), growing, Manner()).flat
    assert Report(Tally(), growing, Manner()).lines()[-1] == "memory is NOT FLAT"


def test_what_went_wrong_is_counted() -> None:
    tally = Tally()
    tally.watch({"type": "error", "code": "E_CHANNEL_CARD_DECIDED"})
    assert tally.wrong == 0, "another device was faster"
    tally.watch({"type": "error", "code": "E_INTERNAL"})
    tally.failures["plan: TimeoutError"] += 1
    assert tally.wrong == 2
    assert "failed: plan: TimeoutError (1)" in tally.lines()


def test_the_picture_has_every_curve(tmp_path: Path) -> None:
    (tmp_path / "silas.db").write_bytes(b"x" * 2**20)
    now = look_at(os.getpid(), tmp_path, minute=1, waiting=0)
    assert (now.disk, now.files > 0, now.threads > 0, now.memory > 1) == (1, True, True, True)
    assert picture([now, now], "title").count("<polyline") == 5
