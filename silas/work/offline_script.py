"""The blocks of a briefing that can be executed without a model.

    ```file path=src/hello.py
    print("hello")
    ```

    ```edit path=src/hello.py
    <<<<<<<
    print("hello")
    =======
    print("good morning")
    >>>>>>>
    ```

    ```append path=todo.txt
    buy milk
    ```

    ```run
    python3 src/hello.py
    ```

Each line of a `run` block is one command: words with a shell's quotes, but without a shell. What
only a shell could understand (pipes, redirections, `$`, `;`) is refused before anything runs.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

_OLD, _MIDDLE, _NEW = "<<<<<<<", "=======", ">>>>>>>"
_FIRST_MIDDLE = 2  # after the first mark and at least one line
_FENCE = re.compile(r"(?P<ticks>`{3,})(?P<kind>run|file|edit|append)(?:[ \t]+(?P<rest>.*))?")
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.")
_QUOTED_WHOLLY = re.compile(r"'[^']*'|\\.")
_ACTIVE = re.compile(r"[|&;<>()$`*?\[\]{}~]")
_EXPANDING = re.compile(r"[$`]")


class ScriptInvalid(ValueError):
    """A block cannot be executed; the text says why."""


@dataclass(frozen=True)
class RunStep:
    """One command."""

    argv: tuple[str, ...]


@dataclass(frozen=True)
class FileStep:
    """One file to write."""

    path: str
    content: str


@dataclass(frozen=True)
class EditStep:
    """One passage of a file to replace; it must be there exactly once."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class AppendStep:
    """Lines to add at the end of a file."""

    path: str
    content: str


Step = RunStep | FileStep | EditStep | AppendStep


def call_of(step: Step) -> tuple[str, dict[str, object]]:
    """The tool call that a step is."""
    match step:
        case FileStep(path, content):
            return "write_file", {"path": path, "content": content}
        case EditStep(path, old, new):
            return "edit_file", {"path": path, "old": old, "new": new}
        case AppendStep(path, content):
            return "shell_exec", {"argv": ["tee", "-a", "--", path], "stdin": content}
        case RunStep(argv):
            return "shell_exec", {"argv": list(argv)}


def read_script(body: str) -> list[Step]:
    """All steps of a briefing, in order; raises `ScriptInvalid`."""
    steps: list[Step] = []
    for kind, rest, lines in _blocks(body):
        steps += _steps(kind, rest, lines)
    return steps


def would_execute(template: str, placeholder: str) -> bool:
    """Whether what is put in place of the placeholder would become part of a block."""
    ticks: str | None = None
    for line in template.splitlines():
        start = _FENCE.fullmatch(line.rstrip().replace(placeholder, " "))
        if placeholder in line and (ticks is not None or "```" in line):
            return True
        if ticks is None:
            ticks = start["ticks"] if start else None
        elif line.rstrip() == ticks:
            ticks = None
    return False


def _steps(kind: str, rest: str, lines: list[str]) -> list[Step]:
    match kind:
        case "file":
            return [FileStep(_path_of(kind, rest), _joined(lines))]
        case "append":
            return [AppendStep(_path_of(kind, rest), _joined(lines))]
        case "edit":
            return [EditStep(_path_of(kind, rest), *_passages(lines))]
    if rest:
        raise ScriptInvalid("a `run` block takes nothing on its first line")
    return [RunStep(_words(line)) for line in lines if line.strip()]


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _passages(lines: list[str]) -> tuple[str, str]:
    """What stands there, and what shall: between the three marks, each alone on its line."""
    middle = lines.index(_MIDDLE) if _MIDDLE in lines else 0
    if middle < _FIRST_MIDDLE or (lines[0], lines[-1]) != (_OLD, _NEW):
        shape = f"{_OLD}, what stands there, {_MIDDLE}, what shall stand there, {_NEW}"
        raise ScriptInvalid(f"an `edit` block is: {shape}")
    return "\n".join(lines[1:middle]), "\n".join(lines[middle + 1 : -1])


def _blocks(body: str) -> Iterator[tuple[str, str, list[str]]]:
    lines = iter(body.splitlines())
    for line in lines:
        start = _FENCE.fullmatch(line.rstrip())
        if start is None:
            continue
        inside: list[str] = []
        for following in lines:
            if following.rstrip() == start["ticks"]:
                break
            inside.append(following)
        else:
            raise ScriptInvalid(f"the block `{start['kind']}` is not closed")
        yield start["kind"], start["rest"] or "", inside


def _path_of(kind: str, rest: str) -> str:
    name, _, path = rest.strip().partition("=")
    if name != "path" or not path:
        raise ScriptInvalid(f"a `{kind}` block starts with ```{kind} path=NAME")
    return path


def _words(line: str) -> tuple[str, ...]:
    """The words of a command line. An operator that is not quoted is refused, not passed on."""
    try:
        words = shlex.split(line, comments=False)
    except ValueError as error:
        raise ScriptInvalid(f"{line.strip()!a} cannot be read: {error}") from error
    if _has_shell_syntax(line):
        raise ScriptInvalid(
            f"{line.strip()!a} needs a shell, and there is none. Quote the character, or write a "
            "script in a `file` block and run that."
        )
    return tuple(words)


def _has_shell_syntax(line: str) -> bool:
    """Whether something stands outside of quotes that a shell would act on."""
    outside = _QUOTED.sub("", line)
    # Between double quotes a shell still expands these two.
    return bool(_ACTIVE.search(outside) or _EXPANDING.search(_QUOTED_WHOLLY.sub("", line)))
