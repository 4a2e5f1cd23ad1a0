"""The blocks of a briefing that are executed without a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.work.offline_script import (
    AppendStep,
    EditStep,
    FileStep,
    RunStep,
    ScriptInvalid,
    call_of,
    read_script,
)


def test_blocks_are_read_in_order_and_prose_is_left_alone() -> None:
    body = """# Hello
```python
ignored()
```
````file path=a/b.md
```run
inside a file
```
````
```run
echo 'a b' "c|d"

ls -l
```
"""
    assert read_script(body) == [
        FileStep("a/b.md", "```run\ninside a file\n```\n"),
        RunStep(("echo", "a b", "c|d")),
        RunStep(("ls", "-l")),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "a | b",
        "a > b",
        "a && b",
        "a; b",
        "a &",
        "echo $HOME",
        'echo "$HOME"',
        "echo `id`",
        "echo $(id)",
        "ls *",
        "ls ~",
        "(a)",
        "a 'unclosed",
        "a {b,c}",
    ],
)
def test_what_needs_a_shell_is_refused(line: str) -> None:
    with pytest.raises(ScriptInvalid):
        read_script(f"```run\n{line}\n```")


@pytest.mark.parametrize(
    "body",
    ["```run\nls", "```file\nx\n```", "```file path=\nx\n```", "```run now\nls\n```"],
)
def test_broken_blocks_are_refused(body: str) -> None:
    with pytest.raises(ScriptInvalid):
        read_script(body)


@given(st.text())
def test_any_text_is_read_or_refused(body: str) -> None:
    try:
        steps = read_script(body)
    except ScriptInvalid:
        return
    assert all(isinstance(step, RunStep | FileStep) for step in steps)


EDIT = """```edit path=a.txt
<<<<<<<
one
two
=======
three
>>>>>>>
```
```append path=todo.txt
buy milk
```
"""


def test_files_can_be_edited_and_grow() -> None:
    edit, append = read_script(EDIT)
    assert edit == EditStep("a.txt", "one\ntwo", "three")
    assert append == AppendStep("todo.txt", "buy milk\n")
    assert call_of(edit) == ("edit_file", {"path": "a.txt", "old": "one\ntwo", "new": "three"})
    assert call_of(append) == (
        "shell_exec",
        {"argv": ["tee", "-a", "--", "todo.txt"], "stdin": "buy milk\n"},
    )


@pytest.mark.parametrize(
    "inside",
    [
        "",
        "<<<<<<<\n=======\nnew\n>>>>>>>\n",
        "<<<<<<<\nold\nnew\n>>>>>>>\n",
        "<<<<<<<\nold\n=======\nnew\n",
        "old\n=======\nnew\n>>>>>>>\n",
    ],
    ids=["empty", "nothing to replace", "no middle", "no end", "no start"],
)
def test_an_edit_without_its_marks_is_refused(inside: str) -> None:
    with pytest.raises(ScriptInvalid, match="an `edit` block is"):
        read_script(f"```edit path=a.txt\n{inside}```\n")
