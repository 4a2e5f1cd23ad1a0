"""What is typed: whole lines, whatever the bytes, and nothing that outlives a cancellation."""

import asyncio
import os
import pty
from collections.abc import Iterator

import pytest

from silas.cli.line_editor import Keyboard


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    yield ours, theirs
    for each in (ours, theirs):
        os.close(each)


async def test_lines(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    keyboard = Keyboard(theirs)
    os.write(ours, b"one\n\ncaf\xff\n")
    assert [await keyboard.line() for _ in range(3)] == ["one", "", "caf\N{REPLACEMENT CHARACTER}"]
    os.write(ours, b"\x04")
    assert await keyboard.line() is None


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        (b"y\n", True),
        (b"YES\n", True),
        (b"n\n", False),
        (b"\n", False),
        (b"perhaps\ny\n", True),
        (b"\x04", None),
    ],
)
async def test_a_question(terminal: tuple[int, int], typed: bytes, *, answer: bool | None) -> None:
    ours, theirs = terminal
    os.write(ours, typed)
    assert await Keyboard(theirs).confirm("Really?") is answer


async def test_waiting_for_a_key_can_be_ended(terminal: tuple[int, int]) -> None:
    waiting = asyncio.create_task(Keyboard(terminal[1]).line())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
