"""Phrases of the offline brain: one thing that can be said each, and what phrases are made of."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from silas.agents.brain.intents import Intent

# Building blocks. A name of a file has no blanks, unless it is quoted.
_FENCE = r"```[\w-]*\n(?P<{name}_fence>.*?)\n?```"
_TICKS = r"`(?P<{name}_ticks>[^`\n]+)`"
_QUOTES = r"[\"“](?P<{name}_quoted>[^\"”]*)[\"”]|'(?P<{name}_single>[^']*)'"
_PATH = (
    r"(?:`(?P<{name}_ticks>[^`\n]+)`|\"(?P<{name}_quoted>[^\"\n]+)\"|"
    r"(?P<{name}_bare>[^\s,:\"'`]*[^\s,:\"'`.?!]))"
)
LINE = r"[^\n]+?"
_END = r"\s*[.!?]?"


def code(name: str, bare: str = r"[^`\n]+?") -> str:
    """A command or a text: in a block, in backticks, or as it stands."""
    options = "|".join([_FENCE, _TICKS, rf"(?P<{{name}}_bare>{bare})"])
    return f"(?:{options})".replace("{name}", name)


def text_of(name: str, bare: str = r".+?") -> str:
    options = "|".join([_FENCE, _TICKS, _QUOTES, rf"(?P<{{name}}_bare>{bare})"])
    return f"(?:{options})".replace("{name}", name)


def path_of(name: str = "path") -> str:
    return _PATH.replace("{name}", name)


def pattern(text: str) -> re.Pattern[str]:
    return re.compile(text + _END, re.IGNORECASE | re.DOTALL)


def got(found: re.Match[str], name: str) -> str | None:
    """What a building block found, in whichever way it was written."""
    for form in ("fence", "ticks", "quoted", "single", "bare"):
        value = found.groupdict().get(f"{name}_{form}")
        if value is not None:
            return value
    return None


def need(found: re.Match[str], name: str) -> str:
    return got(found, name) or ""


@dataclass(frozen=True)
class Phrase:
    """One thing that can be said."""

    name: str
    pattern: re.Pattern[str]
    meaning: Callable[[re.Match[str]], Intent | None]
    match: tuple[str, ...]
    not_match: tuple[str, ...] = ()
    near: re.Pattern[str] | None = None
    """What sounds like this phrase without being it."""
