"""The terminal of a conversation: what is said scrolls by above the line that is being typed.

Read without a thread: one that waits for a key cannot be ended, and after Ctrl-C Silas would stay
until somebody presses one. Where the terminal can do nothing (`TERM=dumb`), lines are read as the
terminal gives them.
"""

import contextlib
import os
import shutil
import sys
import termios
from collections.abc import Iterator
from typing import Any

import click

from silas.cli.keyboard import read_piece
from silas.cli.line_editor import Key, LineEditor, window
from silas.kernel import visible

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_CLEAR = "\r\x1b[K"


class Screen:
    """What is shown, and the line below it."""

    def __init__(self, history: list[str], descriptor: int | None = None) -> None:
        self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self._editor = LineEditor(history)
        self._drawn = False
        self._growing = False
        self._lines: list[str | None] = []
        self.prompt = "> "

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Take the keys one by one; at the end the terminal is as it was."""
        before = termios.tcgetattr(self._descriptor)
        now: list[Any] = [*before]
        now[3] &= ~(termios.ICANON | termios.ECHO)  # Ctrl-C stays a signal
        now[6] = [*before[6]]
        now[6][termios.VMIN], now[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, now)
        try:
            yield
        finally:
            self._erase()
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, before)

    def say(self, text: str, *, dim: bool = False) -> None:
        """Show this above the line."""
        self._end_growing()
        self._erase()
        click.echo(f"{_DIM}{text}{_PLAIN}" if dim and "NO_COLOR" not in os.environ else text)
        self._draw()

    def grow(self, piece: str) -> None:
        """Show this as the next piece of what grows; the line comes back when that is complete."""
        self._erase()
        self._growing = True
        click.echo(piece, nl=False)
        sys.stdout.flush()

    def end_growing(self) -> None:
        """What grew is complete."""
        self._end_growing()
        self._draw()

    async def line(self) -> str | None:
        """The next line; None when there is no more."""
        self._draw()
        while not self._lines:
            piece = await read_piece(self._descriptor)
            if not piece:
                return None
            self._take(piece)
        return self._lines.pop(0)

    def _take(self, piece: bytes) -> None:
        for key in self._editor.feed(piece):
            if key is Key.END:
                self._lines.append(None)
                continue
            line = self._editor.take_line()
            self._erase()
            if line.strip():
                click.echo(f"{self.prompt}{visible(line)}")
            self._lines.append(line)
        self._draw()

    def _end_growing(self) -> None:
        if self._growing:
            click.echo()
        self._growing = False

    def _erase(self) -> None:
        if self._drawn:
            click.echo(_CLEAR, nl=False)
        self._drawn = False

    def _draw(self) -> None:
        if self._growing:
            return  # it is drawn again below what grows
        width = max(10, shutil.get_terminal_size().columns - len(self.prompt) - 1)
        shown, column = window(self._editor.text, self._editor.cursor, width)
        back = f"\r\x1b[{column + len(self.prompt)}C"
        click.echo(f"{_CLEAR}{self.prompt}{shown}{back}", nl=False)
        sys.stdout.flush()
        self._drawn = True
