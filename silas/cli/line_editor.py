"""A line that is being typed: keys in, text and cursor out. It knows nothing of any terminal.

The arrows, Home, End, Delete and the usual control keys work; up and down go through what was said
before. What is half typed is kept while one looks.
"""

import codecs
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


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
_MOST = 32_000


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
        if len(self.text) < _MOST:
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
