"""The blocks of a briefing that are executed without a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silas.work.script import (
    AppendStep,
    AttachmentStep,
    EditStep,
    FileStep,
    RestoreStep,
    RunStep,
    ScriptInvalid,
    call_of,
    read_script,
    would_execute,
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


HIDDEN = {
    "longer fence": "````\n```run\nrm x\n```\n````",
    "longer fence with a language": "````markdown\n```run\nrm x\n```\n````",
    "tilde fence": "~~~\n```run\nrm x\n```\n~~~",
    "other block that is never closed": "```text\n````run\nrm x\n````",
    "indented as code": "Text.\n\n    ```run\n    rm x\n    ```",
    "tab": "Text.\n\n\t```run\n\trm x\n\t```",
    "other block": "```python\n````run\nrm x\n````\n```",
    "in a file": "````text\n~~~\n```run\nrm x\n```\n````",
}
DOUBTFUL = {
    "comment": ("<!--\n```run\nrm x\n```\n-->", 1),
    "comment with blank lines": ("Hello.\n\n<!--\n\n```run\nrm x\n```\n\n-->", 3),
    "comment in a line": ("See <!-- here\n```run\nrm x\n```\n-->", 1),
    "details": ("<details>\n\n```run\nrm x\n```\n\n</details>", 1),
    "html block": ("<div hidden>\n```run\nrm x\n```\n</div>", 1),
    "processing": ("<?php\n```run\nrm x\n```\n?>", 1),
    "declaration": ("<!X\n```run\nrm x\n```\n>", 1),
    "cdata": ("  <![CDATA[\n```run\nrm x\n```\n]]>", 1),
    "tilde block": ("~~~run\nrm x\n~~~", 1),
    "with a space": ("``` run\nrm x\n```", 1),
    "indented a little": ("Text.\n  ```run\n  rm x\n  ```", 2),
    "quoted": ("> ```run\n> rm x\n> ```", 1),
    "quoted twice": (">> ```run\n>> rm x", 1),
    "list item": ("- ```run\n  rm x\n  ```", 1),
    "numbered item": ("1. ```file path=a\n   x\n   ```", 1),
    "below a list item": ("- Do:\n\n  ```run\n  rm x\n  ```", 3),
    "below a wide list item": ("10. Do:\n\n    ```run\n    rm x\n    ```", 3),
    "indented fence before a block": ("- a\n  ```\n  b\n  ```\n```run\nls\n```", 2),
}


@pytest.mark.parametrize("body", HIDDEN.values(), ids=HIDDEN)
def test_what_is_shown_as_text_is_not_executed(body: str) -> None:
    assert read_script(body) == []


@pytest.mark.parametrize("name", ["longer fence", "tilde fence", "indented as code", "in a file"])
def test_a_block_behind_what_is_shown_as_text_is_executed(name: str) -> None:
    assert read_script(f"{HIDDEN[name]}\n\n```run\nls\n```") == [RunStep(("ls",))]


@pytest.mark.parametrize(("body", "line"), DOUBTFUL.values(), ids=DOUBTFUL)
def test_what_readers_could_see_differently_is_refused_with_its_line(body: str, line: int) -> None:
    with pytest.raises(ScriptInvalid, match=f"line {line}:"):
        read_script(body)
    assert would_execute(f"$x\n{body}", "$x")


@pytest.mark.parametrize(
    "body",
    [
        "A <b>word</b> and a `<!-` sign.\n```run\nls\n```",
        "<https://example.org> is the page.\n```run\nls\n```",
        "```run\nls\n```\n<!-- a remark behind it -->",
        "- one\n- two\n\n```run\nls\n```",
        "```run\nls\n`````",
        "```run\r\nls\r\n```\r\n",
    ],
)
def test_ordinary_text_is_no_doubt(body: str) -> None:
    assert read_script(body) == [RunStep(("ls",))]


def test_only_the_line_ends_of_markdown_end_a_line() -> None:
    for odd in ("\u2028", "\u2029", "\x0b", "\x0c", "\x85", "\x1c"):
        assert read_script(f"Text.{odd}```run{odd}rm x{odd}```") == []
        body = f"````file path=a\nx{odd}```run\n````"
        assert read_script(body) == [FileStep("a", f"x{odd}```run\n")]


_NOISE = st.text(st.sampled_from("ab`~<>!- \t\n#*1."), max_size=40)


@given(_NOISE, st.integers(4, 8), st.sampled_from("`~"))
def test_no_step_comes_out_of_another_fence(noise: str, length: int, mark: str) -> None:
    marks = mark * length
    inside = "\n".join(line for line in noise.split("\n") if marks not in line)
    assert read_script(f"{marks}\n{inside}\n```run\nrm x\n```\n{marks}") == []


@given(_NOISE, _NOISE)
def test_no_step_comes_out_of_a_comment(before: str, noise: str) -> None:
    inside = noise.replace("--", "")
    if "```" in before or "~~~" in before:
        # A fence that the text in front has opened shows the comment. Closed in there, it would
        # leave the block behind it in plain view.
        inside = inside.replace("`", "").replace("~", "")
    try:
        steps = read_script(f"{before}\n\n<!--\n{inside}\n```run\nrm x\n```\n-->")
    except ScriptInvalid:
        return
    # Only text in front can have opened a fence, in which all of it is shown.
    assert steps == []


@given(_NOISE, _NOISE)
def test_a_placeholder_outside_of_blocks_stays_outside(before: str, after: str) -> None:
    template = f"{before}\n$x\n{after}"
    if not would_execute(template, "$x"):
        body = template.replace("$x", "- name:\n      ```run\n      rm x\n      ```")
        try:
            steps = read_script(body)
        except ScriptInvalid:
            return
        assert RunStep(("rm", "x")) not in steps


def test_a_lone_carriage_return_beside_a_block_is_refused() -> None:
    with pytest.raises(ScriptInvalid, match="line 2"):
        read_script("Text.\r````\n```run\nrm x\n```\n````")


def test_a_restore_block_names_a_file_and_what_it_held() -> None:
    digest = "0123456789abcdef" * 4
    body = f"```restore path=my photos/a b.jpg sha256={digest} executable=yes\n```"
    (step,) = read_script(body)
    assert step == RestoreStep("my photos/a b.jpg", digest, executable=True)
    wanted = {"path": "my photos/a b.jpg", "sha256": digest, "executable": True}
    assert call_of(step) == ("restore_file", wanted)


def test_an_attachment_block_names_a_file_and_its_bytes() -> None:
    digest = "0123456789abcdef" * 4
    (step,) = read_script(f"```attachment path=my papers/a.pdf sha256={digest}\n```")
    assert step == AttachmentStep("my papers/a.pdf", digest)
    wanted = {"path": "my papers/a.pdf", "sha256": digest}
    assert call_of(step) == ("write_attachment", wanted)


@pytest.mark.parametrize(
    "block",
    [
        "```attachment path=a\n```",
        f"```attachment sha256={'0' * 64}\n```",
        f"```attachment path=a sha256={'0' * 64}\ncontent\n```",
        "```restore path=a\n```",
        f"```restore path=a sha256={'g' * 64} executable=no\n```",
        f"```restore path=a sha256={'0' * 64}\n```",
        f"```restore path=a sha256={'0' * 64} executable=maybe\n```",
        f"```restore path=a sha256={'0' * 64} executable=no\ncontent\n```",
        f"```restore sha256={'0' * 64} executable=no\n```",
    ],
)
def test_a_restore_block_that_is_not_exact_is_refused(block: str) -> None:
    with pytest.raises(ScriptInvalid):
        read_script(block)
