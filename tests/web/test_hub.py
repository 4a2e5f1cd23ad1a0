"""The hub when the disk fails: it says so in the log, and pages hear the rest later."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from silas.kernel import DatabaseError
from silas.web.hub import Hub


class _Page:
    device_id = "device"

    def put(self, frame: object) -> None:
        """Nobody reads."""

    def leave(self) -> None:
        """Nobody goes."""

    def call_again(self) -> None:
        """Nobody comes back."""


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda hub: hub.look_again(), "what is asked"),
        (lambda hub: hub.progress("trc_1", "step"), "how far the work is"),
    ],
    ids=["cards", "work"],
)
async def test_a_disk_error_in_the_background_is_told(
    ask: Callable[[Hub], None],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hub = Hub()
    hub.pages.add(_Page())
    hub._front = object()  # type: ignore[assignment]  # nothing of it is reached
    asked = asyncio.Event()

    async def fail(*_arguments: Any) -> None:
        asked.set()
        raise DatabaseError("The disk is full.")

    monkeypatch.setattr(hub, "tell_cards", fail)
    monkeypatch.setattr(hub, "tell_work", fail)
    monkeypatch.setattr("silas.web.hub._WORK_SECONDS", 0)
    with caplog.at_level(logging.WARNING):
        ask(hub)
        await asked.wait()
        for task in (*hub._telling._tasks, *filter(None, [hub._looking])):
            await task
    assert f"Pages were not told {told}: The disk is full." in caplog.text
