"""Reading without a model: what can be said about files, and how the brain tells what is in them.

The brain lists, shows and finds. Of a program it says what stands in it: what the file says of
itself, and what it defines. It judges nothing, and says so.
"""

import ast
import re
from collections.abc import Mapping
from typing import Any, Literal

from silas.agents.brain.intents import LookAtFiles
from silas.agents.brain.phrases import (
    LINE,
    Phrase,
    always,
    got,
    is_marked,
    need,
    never,
    path_of,
    pattern,
    text_of,
)

HOME, HERE = "~", "."
_MOST_SHOWN, _MOST_BEGINNING, _MOST_DEFINED = 200, 15, 12
_FOLDER = (
    r"(?:(?P<home>(?:my\s+|the\s+)?home(?:\s+(?:folder|directory))?)|"
    r"(?P<here>(?:my|the|your)\s+(?:workspace|files)|here|"
    r"this\s+(?:folder|directory|repo(?:sitory)?|project))|"
    rf"(?:(?:the|my)\s+)?(?:(?:folder|directory)\s+)?{path_of()}(?:\s+(?:folder|directory))?)"
)
_KIND_OF_FILE = r"(?:the\s+)?(?:(?:file|script|program|module)\s+)?"
_TICKS = re.compile(r"`{3,}")
_DEFINES = re.compile(
    r"^\s*(?:export\s+)?(?:default\s+)?(?:pub\s+)?(?:async\s+)?"
    r"(?:def|class|function|func|fn|interface|struct|sub)\s+[\w.]+[^{:\n]{0,80}",
    re.MULTILINE,
)
_COMMENT = re.compile(r"\s*(?:#(?!!)|//|--|;|\*|/\*)\s?(?P<text>.*)")
_NOT_JUDGED = "Without a model I do not judge what it does; this is what stands in it."
_SCRUBBED = "What looks like an order to a model is left out of it."


How = Literal["list", "show", "explain", "find"]


def _looks(how: How, found: re.Match[str], *, text: str = "") -> LookAtFiles | None:
    groups = found.groupdict()
    if groups.get("home"):
        return LookAtFiles(how, HOME, text)
    if groups.get("here"):
        return LookAtFiles(how, HERE, text)
    path = need(found, "path")
    return LookAtFiles(how, path, text) if path else None


def _named(how: How, found: re.Match[str], *, text: str = "") -> LookAtFiles | None:
    """The same for what must look like a path: `soup` in "what is in the soup" does not."""
    wish = _looks(how, found, text=text)
    return wish if wish and (wish.path in (HOME, HERE) or _is_a_path(wish.path)) else None


def _is_a_path(path: str) -> bool:
    return path.startswith("~") or "/" in path or "." in path[1:]


def _shown(found: re.Match[str]) -> LookAtFiles | None:
    """What is in a file, or in a folder if the name has no ending."""
    wish = _named("show", found)
    if wish is None:
        return None
    is_file = "." in wish.path.rpartition("/")[2][1:]
    return wish if is_file else LookAtFiles("list", wish.path)


def _explained(found: re.Match[str]) -> LookAtFiles | None:
    path = got(found, "path") or got(found, "other") or ""
    return LookAtFiles("explain", path) if _is_a_path(path) else None


FILE_PHRASES: tuple[Phrase, ...] = (
    Phrase(
        name="list files",
        pattern=pattern(
            r"(?:(?:what|which)\s+(?:files|folders)\s+(?:are(?:\s+there)?|do\s+i\s+have)|"
            r"(?:list|show)\s+(?:me\s+)?(?:all\s+)?(?:(?:the|my)\s+)?(?:files|folders|contents?))"
            rf"\s+(?:in|inside|of|under)\s+{_FOLDER}"
        ),
        meaning=lambda found: _looks("list", found),
        match=(
            "What files are in ~/silas-files?",
            "list the files in ~/silas-files",
            "what files are in my home folder?",
            "show me the files in the folder notes",
        ),
        not_match=("list the files", "what files are important?", "show my tasks in gym"),
        exact=always,
        near=re.compile(r"\b(?:list|which|what)\b.*\bfiles\b", re.IGNORECASE),
    ),
    Phrase(
        name="explain a file",
        pattern=pattern(
            rf"(?:what\s+does\s+{_KIND_OF_FILE}{path_of()}\s+do|"
            rf"(?:explain|summari[sz]e|describe)\s+(?:me\s+)?{_KIND_OF_FILE}{path_of('other')})"
        ),
        meaning=_explained,
        match=("What does total.py do?", "explain ~/shop/total.py"),
        not_match=("what does Anna do?", "explain gravity"),
        exact=never,
    ),
    Phrase(
        name="show a file",
        pattern=pattern(
            r"(?:(?:show|read|print|display|cat)\s+(?:me\s+)?"
            r"(?:(?:the\s+)?contents?\s+of\s+)?(?:what\s+is\s+in\s+)?|what(?:'s|\s+is)\s+in\s+)"
            rf"(?:the\s+)?(?:(?:file|folder|directory)\s+)?{path_of()}"
        ),
        meaning=_shown,
        match=("Show me notes/today.txt", "what is in ~/silas-files?", "read the file list.md"),
        not_match=("show me the way", "what is in the soup?", "read my mail"),
        exact=always,
    ),
    Phrase(
        name="say what a file says",
        pattern=pattern(rf"what\s+does\s+{_KIND_OF_FILE}{path_of()}\s+(?:say|contain|hold)"),
        meaning=lambda found: _named("show", found),
        match=("what does notes/today.txt say?",),
        not_match=("what does the fox say?",),
        exact=always,
    ),
    Phrase(
        name="find words in files",
        pattern=pattern(
            r"(?:find|search(?:\s+for)?|look\s+for|grep)\s+(?:the\s+(?:words?|text)\s+)?"
            rf"{text_of('words', LINE)}\s+in\s+"
            rf"(?:(?:the\s+)?files\s+(?:in|of)\s+)?(?:the\s+file\s+)?{_FOLDER}"
        ),
        meaning=lambda found: _named("find", found, text=need(found, "words")),
        match=('Find "milk" in ~/silas-files', "search for milk in notes/today.txt"),
        not_match=("find a flat in Berlin", "find the words"),
        exact=lambda found: is_marked(found, "words"),
    ),
)


def call_for(wish: LookAtFiles) -> tuple[str, Mapping[str, Any]]:
    """The tool that looks, and what it is asked."""
    if wish.how == "list":
        return "list_folder", {"path": wish.path}
    if wish.how == "find":
        return "find_text", {"path": wish.path, "text": wish.text}
    return "read_file", {"path": wish.path, "max_lines": _MOST_SHOWN}


def told_files(wish: LookAtFiles, seen: str) -> str:
    """What the tool gave, in words for people: its first line says what it is."""
    head, _, inside = seen.partition("\n")
    notes = [_SCRUBBED] if "[removed: " in inside else []
    if not inside:
        return f"{head}." if wish.how == "list" else head
    if wish.how == "explain":
        return "\n\n".join([_NOT_JUDGED, *_outline(head, inside), *notes])
    return "\n\n".join([head if head.endswith(":") else f"{head}:", _block(inside), *notes])


def _outline(head: str, text: str) -> list[str]:
    """What a file says of itself, what it defines, and how it begins."""
    parts = [f"{head.rstrip(':')}."]
    if said := _says_of_itself(text):
        parts.append(f"It says of itself: “{said}”")
    defined = [" ".join(found[0].split()) for found in _DEFINES.finditer(text)]
    if defined:
        more = len(defined) - _MOST_DEFINED
        lines = defined[:_MOST_DEFINED] + ([f"… and {more} more"] if more > 0 else [])
        parts.append("\n".join(["It defines:", *(f"- `{line}`" for line in lines)]))
    beginning = "\n".join(text.split("\n")[:_MOST_BEGINNING])
    return [*parts, "It begins:", _block(beginning)]


def _says_of_itself(text: str) -> str:
    """The text at its beginning that is for people."""
    try:
        said = ast.get_docstring(ast.parse(text)) or ""
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        said = ""
    if said:
        return " ".join(said.split("\n\n")[0].split())
    lines: list[str] = []
    for line in text.split("\n")[:_MOST_BEGINNING]:
        found = _COMMENT.fullmatch(line)
        if found is None and (lines or not line.startswith("#!")):
            break
        if found is not None:
            lines.append(found["text"].strip(" */"))
    return " ".join(" ".join(lines).split())


def _block(text: str) -> str:
    """A block that nothing in the text can end."""
    longest = max((len(found[0]) for found in _TICKS.finditer(text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
