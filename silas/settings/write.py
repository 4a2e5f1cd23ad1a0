"""The configuration file as Silas writes it: anew for `silas init`, and changed in single places.

`render_default_config` writes every setting, explained, at its default. What has its default is
commented out, so that the file says what its owner decided and nothing else, and better defaults of
later versions come into force.

`change_section` changes single settings; everything else stays as it was written.

1. A value is replaced where it stands, and a new one gets a line of its own, so that comments,
   order and indentation survive. Where the file suggests the setting in a comment, as the file of
   `silas init` does, the new line takes the comment's place. (Libraries that write the whole file
   anew indent the owner's lines their own way, and lose or move comments.)
2. The changed file is read as a whole before it counts: it must say what was wanted and nothing
   else must have changed. If not, the old file is put back and nothing has happened.
"""

import contextlib
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from silas.kernel.errors import ConfigError
from silas.settings.keys import ROOT, ValueKind, children, description_of, field_at
from silas.settings.load import LoadedSettings
from silas.settings.problems import SettingsNotChanged
from silas.settings.sources import INSIDE_DATA_DIR, WELL_KNOWN_VARIABLES, escape
from silas.storage.errors import translated
from silas.storage.files import write_private_file

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
    return _HEADER + "\n".join(_rendered_section(ROOT, (), chosen)) + "\n"


def _rendered_section(kind: ValueKind, around: tuple[str, ...], chosen: _Chosen) -> Iterator[str]:
    previous = ""
    for name, inner in children(kind).items():
        key = (*around, name)
        if not around or "section" in (inner.shape, previous):
            yield ""
        previous = inner.shape
        yield from _comment(key)
        if inner.shape == "section":
            yield f"{_indent(key)}{name}:"
            yield from _rendered_section(inner, key, chosen)
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
    if isinstance(value, Path):
        return str(value) if value.is_absolute() or value.parts[:1] == ("~",) else f"./{value}"
    return value


def _block(name: str, value: Any) -> Iterator[str]:
    """One line if it fits; else a map or list with a line for each entry."""
    line = f"{name}: {_flow(value)}"
    nested = isinstance(value, dict) and any(isinstance(item, dict) for item in value.values())
    if not nested and (len(line) <= _WIDTH or not isinstance(value, dict | list)):
        yield line
        return
    yield f"{name}:"
    if isinstance(value, dict):
        for inner, item in value.items():
            line = f"  {inner}: {_flow(item)}"
            nested = isinstance(item, list) and len(line) > _WIDTH
            yield from _block(f"  {inner}", item) if nested else (line,)
    inside = " " * (len(name) - len(name.lstrip()))
    for item in value if isinstance(value, list) else ():
        first, *further = _item(item)
        yield f"{inside}  - {first}"
        yield from (f"{inside}    {line}" for line in further)


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


_TOP_KEY = "silas"
_COMMENTS = re.compile(r"(?:[ \t\r]*(?:#.*)?\n)*")


def change_section(
    loaded: LoadedSettings,
    section: str,
    values: Mapping[str, Any],
    *,
    reload: Callable[[], LoadedSettings],
) -> LoadedSettings:
    """Set these values of a section and return the settings that are then in force (rule 2).

    Raises `SettingsNotChanged` with what the owner can write themselves.
    """
    path = loaded.paths.config_file

    def rewrite(text: str) -> str:
        return with_values(text, section, values)

    with contextlib.suppress(ConfigError, ValueError):
        return _rewritten(
            loaded, rewrite, reload, lambda changed: _says(changed, loaded, section, values)
        )
    lines = "; ".join(f"{section}.{name}: {rendered_value(each)}" for name, each in values.items())
    raise SettingsNotChanged(f"{path}: {SettingsNotChanged.sentence()} It would say {lines}")


def change_setting(
    loaded: LoadedSettings,
    key: tuple[str, ...],
    value: Any,
    *,
    reload: Callable[[], LoadedSettings],
) -> LoadedSettings:
    """Set one setting, at any depth, and return the settings that are then in force (rule 2).

    Raises `ConfigError` if the value is not right, and `SettingsNotChanged` if something else than
    the file decides.
    """

    def rewrite(text: str) -> str:
        try:
            return _with_value(text, (_TOP_KEY, *key), rendered_value(value))
        except yaml.YAMLError as error:
            raise ValueError("the file is not YAML") from error

    def is_right(changed: LoadedSettings) -> bool:
        is_from_file = changed.origin_of(key).source == "file"
        return is_from_file and _without(changed, key) == _without(loaded, key)

    try:
        return _rewritten(loaded, rewrite, reload, is_right)
    except ValueError as error:
        raise SettingsNotChanged(
            f"{loaded.paths.config_file}: There is no place for {'.'.join(key)} in it, or an "
            "environment variable or an option decides. `silas config show` says where it comes "
            "from."
        ) from error


def _rewritten(
    loaded: LoadedSettings,
    rewrite: Callable[[str], str],
    reload: Callable[[], LoadedSettings],
    is_right: Callable[[LoadedSettings], bool],
) -> LoadedSettings:
    """The settings after the change; whatever is wrong with it, the old file is put back."""
    path = loaded.paths.config_file
    before = path.read_bytes() if path.exists() else None
    text = rewrite((before or b"").decode())
    with translated(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private_file(path, (text if text.endswith("\n") else f"{text}\n").encode())
    kept = False
    try:
        changed = reload()
        kept = is_right(changed)
    finally:
        if not kept:
            with translated(str(path)):
                if before is None:
                    path.unlink(missing_ok=True)
                else:
                    write_private_file(path, before)
    if not kept:
        raise ValueError("the file says something else then")
    return changed


def _without(loaded: LoadedSettings, key: tuple[str, ...]) -> dict[str, Any]:
    """All settings but this one."""
    whole = loaded.settings.model_dump(mode="json", by_alias=True)
    around = whole
    for part in key[:-1]:
        around = around.get(part) or {}
    around.pop(key[-1], None)
    return whole


def _says(
    changed: LoadedSettings, before: LoadedSettings, section: str, values: Mapping[str, Any]
) -> bool:
    wanted = before.settings.model_dump(mode="json")
    wanted[section] |= values
    return changed.settings.model_dump(mode="json") == wanted


def with_values(text: str, section: str, values: Mapping[str, Any]) -> str:
    """The text with these settings of a section (rule 1); `ValueError` if there is no place."""
    for name, value in values.items():
        try:
            text = _with_value(text, (_TOP_KEY, section, name), rendered_value(value))
        except yaml.YAMLError as error:
            raise ValueError("the file is not YAML") from error
    return text if text.endswith("\n") else f"{text}\n"


def _with_value(text: str, path: tuple[str, ...], value: str) -> str:
    """The text with one setting, and with the sections around it that are missing."""
    node, heading, indent = yaml.compose(text, Loader=yaml.SafeLoader), 0, 0
    for depth, name in enumerate(path):
        if node is None or _is_null(node):
            return _with_first(text, node, heading, _entry(path[depth:], value, indent))
        if not isinstance(node, yaml.MappingNode):
            raise ValueError(f"{'.'.join(path[:depth])} is not a section")  # noqa: TRY004 the file's
        found = next((pair for pair in node.value if pair[0].value == name), None)
        if found is None:
            return _with_further(text, node, heading, path[depth:], value)
        key, node = found
        heading, indent = _next_line(text, key.start_mark.index), key.start_mark.column + 2
    start = node.start_mark.index
    space = " " if text[start - 1] == ":" else ""
    return f"{text[:start]}{space}{value}{text[_end_of(node, text) :]}"


def _with_further(
    text: str, section: yaml.MappingNode, heading: int, path: tuple[str, ...], value: str
) -> str:
    """The text with a new setting in a section that has others, or braces for them."""
    if section.flow_style:
        after = section.start_mark.index + 1
        entry = ": {".join(path) + f": {value}" + "}" * (len(path) - 1)
        return f"{text[:after]}{entry}{', ' if section.value else ''}{text[after:]}"
    entry = _entry(path, value, section.value[0][0].start_mark.column)
    return _with_entry(text, heading, entry, end=section.end_mark.index)


def _with_first(text: str, null: yaml.Node | None, heading: int, entry: str) -> str:
    """The text with the first setting of a section that is empty or has nothing but comments."""
    if null is None:
        return _with_entry(text, len(text), entry, end=len(text))
    start, end = null.start_mark.index, null.end_mark.index
    text, heading = text[:start] + text[end:], heading - (end - start)
    comments = _COMMENTS.match(text, heading)
    return _with_entry(text, heading, entry, end=comments.end() if comments else heading)


def _with_entry(text: str, at: int, entry: str, *, end: int) -> str:
    """The text with an entry in place of the comment that suggests it, else as a line at `at`."""
    name = entry.partition(":")[0]
    indent = name.removesuffix(name.strip())
    written = re.compile(rf"^{indent}# {re.escape(name.strip())}:.*$", re.MULTILINE)
    if suggested := written.search(text, at, end):
        return f"{text[: suggested.start()]}{entry}{text[suggested.end() :]}"
    gap = "" if not text[:at] or text[:at].endswith("\n") else "\n"
    return f"{text[:at]}{gap}{entry}\n{text[at:]}"


def _entry(path: tuple[str, ...], value: str, indent: int) -> str:
    """The lines of a setting and of the sections around it that are missing."""
    lines = [f"{' ' * (indent + 2 * at)}{name}:" for at, name in enumerate(path)]
    return "\n".join(lines) + f" {value}"


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _next_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _end_of(node: yaml.Node, text: str) -> int:
    """Where a value ends. PyYAML counts the comments after a block among it; they stay."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        last = node.value[-1]
        return _end_of(last[1] if isinstance(last, tuple) else last, text)
    start, end = node.start_mark.index, node.end_mark.index
    return start + len(text[start:end].rstrip())
