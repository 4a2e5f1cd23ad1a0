"""The terminal of a conversation: what is said scrolls by above the line that is being typed.

1. `LineEditor` knows nothing of any terminal: keys in, text and cursor out. The arrows, Home, End,
   Delete and the usual control keys work; up and down go through what was said before. What is half
   typed is kept while one looks.
2. `Screen` draws that line below what is shown. Where the terminal can do nothing (`TERM=dumb`),
   `Keyboard` reads lines as the terminal gives them.
3. Both read without a thread: one that waits for a key cannot be ended, and after Ctrl-C Silas
   would stay until somebody presses one.
"""

import asyncio
import codecs
import contextlib
import os
import shutil
import sys
import termios
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import click

from silas.kernel import visible


class Key(Enum):
    """What ends a line, or the conversation."""

    ENTER = "enter"
    END = "end"


_ESCAPES = {
    "[A": "up", "[B": "down", "[C": "right", "[D": "left", "[H": "home", "[F": "end",
    "OA": "up", "OB": "down", "OC": "right", "OD": "left", "OH": "home", "OF": "end",
    "[1~": "home", "[4~": "end", "[7~": "home", "[8~": "end", "[3~": "delete",
    "[1;5C": "word_right", "[1;5D": "word_left", "b": "word_left", "f": "word_right",
}  # fmt: skip
_CONTROLS = {
    "\x01": "home", "\x05": "end", "\x02": "left", "\x06": "right", "\x10": "up", "\x0e": "down",
    "\x08": "backspace", "\x7f": "backspace", "\x15": "kill_before", "\x0b": "kill_after",
    "\x17": "kill_word",
}  # fmt: skip
_MAX_LINE_CHARS = 32_000
_MAX_READ_BYTES = 65_536
_ANSWERS = {"y": True, "yes": True, "n": False, "no": False, "": False}
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_CLEAR = "\r\x1b[K"


def _word_start(text: str, at: int) -> int:
    return text[:at].rstrip().rfind(" ") + 1


def _word_end(text: str, at: int) -> int:
    rest = text[at:].lstrip()
    return len(text) - len(rest) + len(rest.split(" ", 1)[0])


_EDITS: Mapping[str, Callable[[str, int], tuple[str, int]]] = {
    "left": lambda text, at: (text, max(0, at - 1)),
    "right": lambda text, at: (text, min(len(text), at + 1)),
    "home": lambda text, _at: (text, 0),
    "end": lambda text, _at: (text, len(text)),
    "word_left": lambda text, at: (text, _word_start(text, at)),
    "word_right": lambda text, at: (text, _word_end(text, at)),
    "backspace": lambda text, at: (text[: max(0, at - 1)] + text[at:], max(0, at - 1)),
    "delete": lambda text, at: (text[:at] + text[at + 1 :], at),
    "kill_before": lambda text, at: (text[at:], 0),
    "kill_after": lambda text, at: (text[:at], at),
    "kill_word": lambda text, at: (
        text[: _word_start(text, at)] + text[at:],
        _word_start(text, at),
    ),
}
"""What a key does to the text and the cursor."""


@dataclass
class LineEditor:
    """One line, and what was said before it."""

    history: list[str] = field(default_factory=list)
    text: str = ""
    cursor: int = 0
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )
    _escape: str | None = None
    _at: int | None = None
    _draft: str = ""

    def feed(self, data: bytes) -> Iterator[Key]:
        """Take keys in; says each time that a line is complete, or that there is no more."""
        for char in self._decoder.decode(data):
            found = self._take(char)
            if found is not None:
                yield found

    def take_line(self) -> str:
        """The line that is complete; it becomes part of the history."""
        line, self.text, self.cursor, self._at = self.text, "", 0, None
        if line.strip() and self.history[-1:] != [line]:
            self.history.append(line)
        return line

    def _take(self, char: str) -> Key | None:
        if self._escape is not None:
            self._in_escape(char)
        elif char == "\x1b":
            self._escape = ""
        elif char in "\r\n":
            return Key.ENTER
        elif char == "\x04":  # Ctrl-D: the end on an empty line, as in a shell
            if not self.text:
                return Key.END
            self._do("delete")
        elif char in _CONTROLS:
            self._do(_CONTROLS[char])
        elif char == "\t":
            self._insert(" ")
        elif unicodedata.category(char) != "Cc":
            self._insert(char)
        return None

    def _in_escape(self, char: str) -> None:
        """Collect until the sequence is one that is known, or clearly over."""
        sequence = (self._escape or "") + char
        self._escape = None
        if sequence in _ESCAPES:
            self._do(_ESCAPES[sequence])
        elif sequence in {"[", "O"} or (sequence[0] == "[" and not "@" <= char <= "~"):
            self._escape = sequence

    def _insert(self, char: str) -> None:
        if len(self.text) < _MAX_LINE_CHARS:
            self.text = self.text[: self.cursor] + char + self.text[self.cursor :]
            self.cursor += 1

    def _do(self, what: str) -> None:
        if what in {"up", "down"}:
            self._browse(-1 if what == "up" else 1)
        else:
            self.text, self.cursor = _EDITS[what](self.text, self.cursor)

    def _browse(self, step: int) -> None:
        here = len(self.history) if self._at is None else self._at
        wanted = here + step
        if not 0 <= wanted <= len(self.history):
            return
        if self._at is None:
            self._draft = self.text
        self._at = None if wanted == len(self.history) else wanted
        self.text = self._draft if self._at is None else self.history[self._at]
        self.cursor = len(self.text)


def columns(text: str) -> int:
    """How wide a terminal draws it."""
    return sum(_width(char) for char in text)


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def window(text: str, cursor: int, width: int) -> tuple[str, int]:
    """As much of the text as fits, and in which column the cursor is; the cursor is always seen."""
    start = 0
    while columns(text[start:cursor]) >= width:
        start += 1
    end = len(text)
    while columns(text[start:end]) > width:
        end -= 1
    return text[start:end], columns(text[start:cursor])


def recent_lines(said: Sequence[str]) -> list[str]:
    """What was said before, as a history: one line each, nothing twice in a row."""
    kept: list[str] = []
    for text in said:
        line = " ".join(text.split())
        if line and kept[-1:] != [line]:
            kept.append(line)
    return kept


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
            piece = await _read_piece(self._descriptor)
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


class Keyboard:
    """What is typed; bytes that are not UTF-8 become a replacement character."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = sys.stdin.fileno() if descriptor is None else descriptor
        self._typed = b""

    async def line(self) -> str | None:
        """The next line; None when there is no more."""
        while b"\n" not in self._typed:
            piece = await _read_piece(self._descriptor)
            if not piece:
                rest, self._typed = self._typed, b""
                return rest.decode(errors="replace") or None
            self._typed += piece
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode(errors="replace")

    async def confirm(self, question: str) -> bool | None:
        """Whether the answer is a typed yes; an empty line is a no, and no line at all is None."""
        while True:
            click.echo(f"{question} [y/N]: ", nl=False, err=True)
            line = await self.line()
            if line is None:
                return None
            answer = _ANSWERS.get(line.strip().lower())
            if answer is not None:
                return answer
            question = "Please answer yes or no."


async def _read_piece(descriptor: int) -> bytes:
    """What is typed next; nothing when there is no more."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    try:
        return os.read(descriptor, _MAX_READ_BYTES)
    except OSError:
        return b""  # the terminal is gone
