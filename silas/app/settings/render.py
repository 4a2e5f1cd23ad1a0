"""The configuration file that `silas init` writes: every setting, explained, at its default.

What has its default is commented out, so that the file says what its owner decided and nothing
else, and better defaults of later versions come into force.
"""

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from silas.app.settings.completion import INSIDE_DATA_DIR, WELL_KNOWN_VARIABLES
from silas.app.settings.expansion import escape
from silas.app.settings.keys import ROOT, Kind, children, description_of, field_at

_Chosen = Mapping[tuple[str, ...], Any]


class _Verbatim(str):
    """Text whose dollar signs name a variable."""

    __slots__ = ()


_WIDTH = 96
_HEADER = """\
# The settings of Silas.
#
# Every setting is here, commented out, with its default. To change one, remove the `# ` before it
# and write another value. A map or a list that is set replaces the default as a whole.
#
# `${NAME}` is replaced by the environment variable NAME; `$$` is a dollar sign. A variable such as
# SILAS_CHANNELS__WEB__PORT=9000 goes before this file. Relative paths start from the directory
# around `config/` if this file lies there, else from the directory of this file.
#
# silas config check    says whether everything is right
# silas config show     shows what is in force, and where it comes from
# silas config schema   gives a JSON Schema, with which an editor can help

silas:
"""
_EXAMPLES: Mapping[tuple[str, ...], str] = {
    ("models", "proxy"): "openrouter:anthropic/claude-haiku-4-5",
    ("models", "planner"): "openrouter:anthropic/claude-sonnet-4-5",
    ("models", "executor"): "openrouter:anthropic/claude-haiku-4-5",
    ("models", "scorer"): "openrouter:anthropic/claude-haiku-4-5",
    ("models", "base_url"): "http://localhost:11434/v1",
    ("gates", "llm_defaults", "model"): "openrouter:anthropic/claude-haiku-4-5",
}
"""What a setting that is null by default could look like."""


def render_default_config(values: Mapping[str, Any] | None = None) -> str:
    """The commented file; `values` are set, by their dotted names, and the rest is left at default.

    Raises `ValueError` if a name is not a setting.
    """
    chosen = {tuple(name.split(".")): value for name, value in (values or {}).items()}
    for key in chosen:
        if field_at(key) is None:
            raise ValueError(f"there is no setting {'.'.join(key)}")
    return _HEADER + "\n".join(_section(ROOT, (), chosen)) + "\n"


def _section(kind: Kind, around: tuple[str, ...], chosen: _Chosen) -> Iterator[str]:
    previous = ""
    for name, inner in children(kind).items():
        key = (*around, name)
        if not around or "section" in (inner.shape, previous):
            yield ""
        previous = inner.shape
        yield from _comment(key)
        if inner.shape == "section":
            yield f"{_indent(key)}{name}:"
            yield from _section(inner, key, chosen)
        else:
            yield from _setting(key, chosen)


def _comment(key: tuple[str, ...]) -> Iterator[str]:
    start = f"{_indent(key)}# "
    yield from textwrap.wrap(
        description_of(key), width=_WIDTH, initial_indent=start, subsequent_indent=start
    )


def _setting(key: tuple[str, ...], chosen: _Chosen) -> Iterator[str]:
    value = chosen[key] if key in chosen else _suggested(key, chosen)
    mark = "" if key in chosen else "# "
    note = "  # an example; the default is null" if key in _EXAMPLES and key not in chosen else ""
    first, *further = _block(key[-1], value)
    yield f"{_indent(key)}{mark}{first}{note}"
    yield from (f"{_indent(key)}{mark}{line}" for line in further)


def _suggested(key: tuple[str, ...], chosen: _Chosen) -> Any:
    """What stands behind the comment sign: the default, or what one would write instead of null."""
    if key in WELL_KNOWN_VARIABLES:
        return _Verbatim(f"${{{WELL_KNOWN_VARIABLES[key]}}}")
    if key in _EXAMPLES:
        return _EXAMPLES[key]
    if key in INSIDE_DATA_DIR:
        data_dir = chosen.get(("data_dir",), "./data")
        return f"{data_dir}/{INSIDE_DATA_DIR[key]}"
    field = field_at(key)
    return _plain(field.get_default(call_default_factory=True)) if field else None


def _plain(value: Any) -> Any:
    """The value in YAML's own types, without what goes without saying."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return f"./{value}" if isinstance(value, Path) else value


def _block(name: str, value: Any) -> Iterator[str]:
    """One line if it fits; else a map or list with a line for each entry."""
    line = f"{name}: {_flow(value)}"
    nested = isinstance(value, dict) and any(isinstance(item, dict) for item in value.values())
    if not nested and (len(line) <= _WIDTH or not isinstance(value, dict | list)):
        yield line
        return
    yield f"{name}:"
    if isinstance(value, dict):
        yield from (f"  {inner}: {_flow(item)}" for inner, item in value.items())
    for item in value if isinstance(value, list) else ():
        first, *further = _item(item)
        yield f"  - {first}"
        yield from (f"    {line}" for line in further)


def _item(value: Any) -> list[str]:
    if isinstance(value, dict) and value:
        return [f"{name}: {_flow(item)}" for name, item in value.items()]
    return [_flow(value)]


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{name}: {_flow(item)}" for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_flow(item) for item in value)}]"
    if isinstance(value, str) and not isinstance(value, _Verbatim):
        value = escape(value)
    return json.dumps(value, ensure_ascii=False)


def rendered_value(value: Any) -> str:
    """A value on one line, as it is written in the file."""
    return _flow(value)


def _indent(key: tuple[str, ...]) -> str:
    return "  " * len(key)
