"""The blocks of a briefing that can be executed without a model: `run` and `file`.

    ```file path=src/hello.py
    print("hello")
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

_FENCE = re.compile(r"(?P<ticks>`{3,})(?P<kind>run|file)(?:[ \t]+(?P<rest>.*))?")
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


Step = RunStep | FileStep


def read_script(body: str) -> list[Step]:
    """All steps of a briefing, in order; raises `ScriptInvalid`."""
    steps: list[Step] = []
    for kind, rest, lines in _blocks(body):
        if kind == "file":
            steps.append(FileStep(_path_of(rest), "".join(f"{line}\n" for line in lines)))
        else:
            if rest:
                raise ScriptInvalid("a `run` block takes nothing on its first line")
            steps += [RunStep(_words(line)) for line in lines if line.strip()]
    return steps


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


def _path_of(rest: str) -> str:
    name, _, path = rest.strip().partition("=")
    if name != "path" or not path:
        raise ScriptInvalid("a `file` block starts with ```file path=NAME")
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
