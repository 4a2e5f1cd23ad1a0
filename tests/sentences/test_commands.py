"""Every `silas …` that a document or the product names is a command that exists, with its options.

A sentence such as "`silas work show ID` shows everything" is false if there is no such command.
"""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from silas.cli.main import cli
from tests.sentences.collect import ROOT, texts

_FENCED = re.compile(r"^\s*(?:\$ )?(?:\.venv/bin/)?(silas(?: .*)?)$", re.MULTILINE)
_INLINE = re.compile(r"`(silas [^`]*)`")
_COMMENT = re.compile(r"\s{2,}#.*|\s#\s.*")
_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def _documents() -> Iterator[tuple[str, str]]:
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text("utf-8")
        for block in _BLOCK.findall(text):
            yield from ((path.name, line) for line in _FENCED.findall(block))
        yield from ((path.name, line) for line in _INLINE.findall(_BLOCK.sub("", text)))


def _product() -> Iterator[tuple[str, str]]:
    for name, text in texts("**/*.py", "web/static/*.js"):
        yield from ((name, line) for line in _INLINE.findall(text))


def _alternatives(line: str) -> list[str]:
    """`silas review list|show` stands for two commands."""
    found = re.search(r"\b[a-z]+(?:\|[a-z]+)+\b", line)
    return [line.replace(found[0], each) for each in found[0].split("|")] if found else [line]


def problem_with(line: str) -> str:
    """What is wrong with a command line, if anything is."""
    try:
        words = shlex.split(_COMMENT.sub("", line).replace("…", "..."))[1:]
    except ValueError as error:
        return str(error)
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        if name.isupper() or not name.isascii() or set(name) <= {"."}:
            return ""  # `silas COMMAND`, `silas …`: any of them
        found = command.get_command(click.Context(command), name)
        if found is None:
            return f"there is no `{name}`"
        command = found
    known = {option for each in command.params for option in each.opts + each.secondary_opts}
    known |= {"--json", "--help", "-h", "--data-dir", "--config", "--version"}
    if isinstance(command, click.Group) or "--" in words:
        return ""
    given = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    unknown = [word for word in given if word not in known]
    return f"it has no option {unknown[0]}" if unknown else ""


@pytest.mark.parametrize("where", [_documents, _product], ids=["documents", "product"])
def test_every_command_that_is_named_exists(where: "type[Iterator[tuple[str, str]]]") -> None:
    named = sorted(set(where()))
    assert len(named) > 50
    wrong = [
        (name, each, why)
        for name, line in named
        for each in _alternatives(line)
        if (why := problem_with(each))
    ]
    assert wrong == []


def test_a_command_that_does_not_exist_is_found() -> None:
    assert problem_with("silas work shwo ID") == "there is no `shwo`"
    assert problem_with("silas work list --colour") == "it has no option --colour"
    assert problem_with("silas plan run plans/hello.md   # asks") == ""
