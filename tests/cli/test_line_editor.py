"""Typing a line: the keys that people know, and nothing that they do not see."""

from hypothesis import given
from hypothesis import strategies as st

from silas.cli.line_editor import Key, LineEditor, columns, recent_lines, window

UP, DOWN, LEFT, RIGHT, HOME, END, DELETE = (
    b"\x1b[A", b"\x1b[B", b"\x1b[D", b"\x1b[C", b"\x1b[H", b"\x1b[F", b"\x1b[3~",
)  # fmt: skip


def typed(*keys: bytes, history: list[str] | None = None) -> LineEditor:
    editor = LineEditor(list(history or []))
    for key in keys:
        assert list(editor.feed(key)) == []
    return editor


def test_moving_and_removing() -> None:
    assert typed(b"helo", LEFT, b"l").text == "hello"
    assert typed(b"bc", HOME, b"a", END, b"d").text == "abcd"
    assert typed(b"abc", LEFT, b"\x7f").text == "ac"
    assert typed(b"abc", HOME, DELETE).text == "bc"
    assert typed(b"one two", b"\x17").text == "one "
    assert typed(b"one two", b"\x15").text == ""
    assert typed(b"one two", HOME, b"\x0b").text == ""
    assert typed(b"one two", b"\x1bb", b"X").text == "one Xtwo"
    assert typed(b"one two", HOME, b"\x1bf", b"X").text == "oneX two"
    assert typed(LEFT, b"\x7f", DELETE, RIGHT).text == ""


def test_what_was_said_before_comes_back_and_the_draft_too() -> None:
    editor = typed(b"half", UP, UP, history=["first", "second"])
    assert editor.text == "first"
    list(editor.feed(UP))
    assert editor.text == "first"
    list(editor.feed(DOWN + DOWN))
    assert (editor.text, editor.cursor) == ("half", 4)
    assert list(editor.feed(b"\r")) == [Key.ENTER]
    assert editor.take_line() == "half"
    list(editor.feed(UP))
    assert editor.text == "half"


def test_the_end_is_on_an_empty_line_only() -> None:
    assert list(LineEditor().feed(b"\x04")) == [Key.END]
    editor = typed(b"ab", HOME, b"\x04")
    assert editor.text == "b"


def test_characters_of_several_bytes_may_come_in_pieces() -> None:
    raw = "né 日本".encode()
    editor = typed(*(raw[at : at + 1] for at in range(len(raw))))
    assert editor.text == "né 日本"
    assert columns(editor.text) == 7


def test_several_lines_at_once() -> None:
    editor = LineEditor()
    lines = [editor.take_line() for key in editor.feed(b"one\ntwo\n") if key is Key.ENTER]
    assert lines == ["one", "two"]


@given(st.binary(max_size=200))
def test_no_bytes_break_it_and_no_control_character_gets_in(data: bytes) -> None:
    editor = LineEditor(["before"])
    for _ in editor.feed(data):
        editor.take_line()
    assert 0 <= editor.cursor <= len(editor.text)
    assert all(char.isprintable() or ord(char) > 0x9F for char in editor.text)


@given(st.text(max_size=60), st.integers(0, 60), st.integers(1, 40))
def test_the_cursor_is_always_seen(text: str, at: int, width: int) -> None:
    cursor = min(at, len(text))
    shown, column = window(text, cursor, width)
    assert columns(shown) <= width
    assert 0 <= column < width or not text[:cursor]


def test_a_history_has_one_line_each() -> None:
    assert recent_lines(["a", "a", "b\nc", " "]) == ["a", "b c"]
