"""The scripts of a stranger's skill as tools: what they take, and how they are started.

1. The arguments of a Python script are read out of its own `argparse`; nothing is run for that.
2. A shell or JavaScript script with a fixed number of words gets a Python entry point with as many
   explicit arguments. Every other one runs as it is, in the sandbox, with a list of words.
3. Nobody has said what an imported script does to the world. It counts as changing things in a way
   that is hard to undo, inside of its sandbox: no host is granted with it.
"""

import ast
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pydantic import ValidationError

from silas.gates.risk import ActionKind, Reversibility
from silas.skills.sidecar import ArgumentType, ScriptArgument, ScriptDeclaration

EFFECT_OF_IMPORTED: dict[str, Any] = {
    "action": "change",
    "reversibility": "hard",
    "contained": True,
}
INTERPRETERS = {".sh": "sh", ".bash": "bash", ".js": "node", ".mjs": "node", ".cjs": "node"}
_WORDS = ScriptArgument(
    type=ArgumentType.ARRAY,
    description="The words behind the script's name, in order.",
    default=(),
    max_length=50,
    position=1,
)


@dataclass(frozen=True)
class EntryPoint:
    """How a script that is no Python is started."""

    entry: str
    declaration: ScriptDeclaration
    how: str
    """For people."""
    source: bytes | None = None
    """The Python file that has to be written for it; None: it runs as it is."""


def other_declaration(path: str, raw: bytes, body: str, *, taken: Collection[str]) -> EntryPoint:
    """A shell or JavaScript script as a tool (rule 2)."""
    text = raw.decode("utf-8", "replace")
    ending = PurePosixPath(path).suffix
    interpreter = "bash" if "bash" in text[:40] else INTERPRETERS[ending]
    count = _word_count(text, ending)
    entry = str(PurePosixPath(path).with_suffix(".py"))
    if count is None or entry in taken:
        how = f"runs as it is, with {interpreter}, in the sandbox: its words are not fixed"
        return EntryPoint(path, _declared(path, body, {"words": _WORDS}), how)
    arguments = {
        f"word_{number}": ScriptArgument(type=ArgumentType.STRING, position=number, max_length=2000)
        for number in range(1, count + 1)
    }
    how = f"runs by {entry}, which takes {count} explicit argument(s)"
    source = _entry_point(path, interpreter, count).encode()
    return EntryPoint(entry, _declared(path, body, arguments), how, source)


def _declared(path: str, body: str, arguments: dict[str, ScriptArgument]) -> ScriptDeclaration:
    return ScriptDeclaration(
        description=_purpose(path, body),
        arguments=arguments,
        action=ActionKind.CHANGE,
        reversibility=Reversibility.HARD,
        contained=True,
    )


def _purpose(path: str, body: str, document: str | None = None) -> str:
    """What a script is for, in the words of its author."""
    if document and document.strip():
        return document.strip().split("\n\n")[0].replace("\n", " ")[:500]
    name = re.escape(PurePosixPath(path).name)
    found = re.search(
        rf"`[^`\n]*{name}[^`\n]*`\s*(?:[-:\u2013\u2014]+)\s*([^\n]{{8,300}})", body
    )  # dashes that authors write
    return found[1].strip() if found else f"Runs {path}."


def _word_count(text: str, ending: str) -> int | None:
    """How many words a script takes; None if that is not fixed."""
    if ending in (".sh", ".bash"):
        if re.search(r"\$[@*]|\$\{[@*]|\bshift\b|\bgetopts\b|\$#", text):
            return None
        found = [int(number) for number in re.findall(r"\$\{?([1-9])\b(?!\d)", text)]
        optional = re.search(r"\$\{[1-9](?::?[-=+?])", text)
        return None if optional else max(found, default=0)
    if re.search(r"process\.argv\.slice|parseArgs|commander|yargs|minimist", text):
        return None
    return max((int(n) - 1 for n in re.findall(r"process\.argv\[(\d)\]", text)), default=0)


def _entry_point(path: str, interpreter: str, count: int) -> str:
    name = PurePosixPath(path).name
    lines = [f'    parser.add_argument("word_{number}")' for number in range(1, count + 1)]
    words = "".join(f", given.word_{number}" for number in range(1, count + 1))
    return "\n".join(
        [
            f'"""Runs {name} with explicit arguments."""',
            "",
            "import argparse",
            "import subprocess",
            "import sys",
            "from pathlib import Path",
            "",
            "",
            "def main() -> int:",
            f'    parser = argparse.ArgumentParser(description="Runs {name}.")',
            *lines,
            f"    {'given = ' if count else ''}parser.parse_args()",
            f'    script = Path(__file__).with_name("{name}")',
            f'    command = ["{interpreter}", str(script){words}]',
            "    return subprocess.run(command, check=False).returncode",
            "",
            "",
            'if __name__ == "__main__":',
            "    sys.exit(main())",
            "",
        ]
    )


def python_declaration(path: str, raw: bytes, body: str) -> ScriptDeclaration:
    """A Python script as a tool, with the arguments of its own `argparse`."""
    source = raw.decode("utf-8", "replace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return _declared(path, body, {"words": _WORDS})
    arguments = dict(_argparse_arguments(tree))
    if not arguments and "sys.argv" in source:
        arguments = {"words": _WORDS}
    try:
        declared = _declared(path, body, arguments)
    except ValidationError:
        declared = _declared(path, body, {"words": _WORDS})
    purpose = _purpose(path, body, ast.get_docstring(tree))
    return declared.model_copy(update={"description": purpose})


_ARGPARSE_TYPES = {"int": ArgumentType.INTEGER, "float": ArgumentType.NUMBER}


def _argparse_arguments(tree: ast.AST) -> Iterator[tuple[str, ScriptArgument]]:
    position = 0
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if any(isinstance(c.func, ast.Attribute) and c.func.attr == "add_subparsers" for c in calls):
        yield "words", _WORDS
        return
    for call in sorted(calls, key=lambda each: (each.lineno, each.col_offset)):
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"):
            continue
        flags = [each.value for each in call.args if isinstance(each, ast.Constant)]
        options = {each.arg: each.value for each in call.keywords}
        flag = next((str(each) for each in flags if str(each).startswith("--")), None)
        flag = flag or next((str(each) for each in flags if str(each).startswith("-")), None)
        name = re.sub(r"[^a-z0-9]+", "_", str(flag or (flags[0] if flags else "")).lower()).strip(
            "_"
        )
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name):
            continue
        position += flag is None
        yield name, _argparse_argument(flag, options, position if flag is None else None)


def _argparse_argument(
    flag: str | None, options: Mapping[str | None, ast.expr], position: int | None
) -> ScriptArgument:
    def constant(key: str) -> Any:
        node = options.get(key)
        return node.value if isinstance(node, ast.Constant) else None

    kind = options.get("type")
    named = kind.id if isinstance(kind, ast.Name) else ""
    many = constant("nargs") in ("*", "+", "...") or constant("action") == "append"
    switch = str(constant("action") or "").startswith("store_")
    choices = options.get("choices")
    listed = (
        [e.value for e in choices.elts if isinstance(e, ast.Constant)]
        if isinstance(choices, ast.List | ast.Tuple)
        else []
    )
    enum = tuple(each for each in listed if isinstance(each, str)) or None
    kinds = ArgumentType.ARRAY if many else _ARGPARSE_TYPES.get(named, ArgumentType.STRING)
    kinds = ArgumentType.BOOLEAN if switch else kinds
    optional = (position is None and constant("required") is not True) or constant("nargs") in (
        "?",
        "*",
    )
    return ScriptArgument(
        type=kinds,
        description=str(constant("help") or "")[:500],
        optional=optional,
        enum=enum if kinds is ArgumentType.STRING else None,
        position=position,
        option=flag if flag and flag != f"--{flag[2:].lower().replace('_', '-')}" else None,
    )
