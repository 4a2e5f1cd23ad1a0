"""Where settings come from: the file, the environment, and the variables that the file names.

1. The file is YAML with everything under `silas:`; each value keeps the line it was written in.
2. `SILAS_CHANNELS__WEB__PORT=9000` sets `channels.web.port`, over the file. Two underscores stand
   between the levels; upper and lower case are the same. Sections, maps and lists are written as
   JSON or as YAML in one line.
3. `${NAME}` in a value of the file is replaced by the variable; `$$` is a plain dollar sign.
4. What a draft still needs before it is checked is filled in: empty sections, the usual variables
   of secrets, whole paths.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from silas.kernel.errors import ConfigError
from silas.kernel.models import dotted
from silas.kernel.yaml_positions import YamlDocument, YamlError, load_yaml
from silas.settings.keys import ROOT, ValueKind, child, children, default_of, kind_at, typed, walk
from silas.settings.paths import DEFAULT, Location, SettingOrigin, absolute_path, presentable
from silas.settings.problems import (
    ConfigBinary,
    ConfigEncoding,
    ConfigMissing,
    ConfigNotAFile,
    ConfigSyntax,
    ConfigTooLarge,
    ConfigUnreadable,
    KeyPath,
    SettingsDraft,
    did_you_mean,
)

_MAX_BYTES = 1_000_000
_TOP = "silas"


@dataclass(frozen=True)
class ConfigText:
    """The content of the file, and who may read and write it."""

    text: str
    mode: int


def read_config(location: Location) -> ConfigText | None:
    """The file's text; None if it is not there and nobody asked for it by name."""
    try:
        with location.path.open("rb") as file:
            raw, mode = file.read(_MAX_BYTES + 1), os.fstat(file.fileno()).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if location.named:
            raise _failure(ConfigMissing, location.shown) from None
        return None
    except IsADirectoryError:
        raise _failure(ConfigNotAFile, location.shown) from None
    except (OSError, ValueError) as error:  # a ValueError is a NUL in the path
        raise _failure(ConfigUnreadable, location.shown) from error
    return ConfigText(_decoded(raw, location), mode)


def _decoded(raw: bytes, location: Location) -> str:
    if len(raw) > _MAX_BYTES:
        raise _failure(ConfigTooLarge, location.shown)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _failure(ConfigEncoding, f"{location.shown}:{line}") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise _failure(ConfigBinary, f"{location.shown}:{line}")
    return text


def _failure(kind: type[ConfigError], place: str) -> ConfigError:
    return kind(f"{place}: {kind.sentence()}", file=place)


def draft_from(text: str, location: Location) -> SettingsDraft:
    """The settings that the file sets, with its lines; `ConfigSyntax` if it is not YAML at all."""
    draft = SettingsDraft()
    try:
        document = load_yaml(text)
    except YamlError as error:
        if error.document is None:
            raise _syntax_error(error, location) from None
        document = error.document
        for problem in error.problems:
            origin = SettingOrigin("file", location.shown, problem.position.line)
            key = problem.path[1:] if problem.path[:1] == (_TOP,) else ()
            draft.complain(key, _one_line(problem.message), origin=origin)
    _take_over(document, location, draft)
    return draft


def _syntax_error(error: YamlError, location: Location) -> ConfigSyntax:
    first = error.problems[0]
    line, column = first.position.line, first.position.column
    return ConfigSyntax(
        f"{location.shown}:{line}:{column}: {_one_line(first.message)}",
        file=location.shown,
        line=line,
        column=column,
    )


def _one_line(message: str) -> str:
    return message if message.isprintable() else presentable(message, longest=200)


def _take_over(document: YamlDocument, location: Location, draft: SettingsDraft) -> None:
    """Move what stands under `silas:` into the draft, and refuse whatever stands beside it."""
    for place, position in (*document.values.items(), *document.keys.items()):
        if place[:1] == (_TOP,):
            draft.origins[place[1:]] = SettingOrigin("file", location.shown, position.line)
    content = document.value if document.value is not None else {}
    if not isinstance(content, dict):
        draft.complain((), f"must begin with `{_TOP}:`", origin=_first_line(location))
        return
    for name in content:
        if name != _TOP:
            line = document.key_position((name,)).line
            origin = SettingOrigin("file", location.shown, line)
            draft.complain((), _misplaced(name), origin=origin)
    settings = content.get(_TOP)
    if isinstance(settings, dict):
        draft.values = settings
    elif settings is not None:
        draft.complain((), f"`{_TOP}` must be a section with settings below it")


def _misplaced(name: Any) -> str:
    if name in children(ROOT):
        return f"`{name}` belongs under `{_TOP}:`, indented by two spaces"
    near = did_you_mean(name, [_TOP])
    return f"`{presentable(name)}` is not known here; all settings stand under `{_TOP}:`{near}"


def _first_line(location: Location) -> SettingOrigin:
    return SettingOrigin("file", location.shown, 1)


PREFIX = "SILAS_"
RESERVED = frozenset(
    {
        "SILAS_CONFIG",
        "SILAS_DATA_DIR",
        "SILAS_DEBUG",
        "SILAS_VAULT_PASSPHRASE",
        "SILAS_VAULT_PASSPHRASE_FD",
        "SILAS_VAULT_KEY_FILE",
        "SILAS_TELEGRAM_TOKEN",
        "SILAS_TELEGRAM_OWNER_ID",
    }
)
_NULLS = ("", "~", "null")


def apply_environment(draft: SettingsDraft, environ: Mapping[str, str]) -> None:
    """Lay the variables over what the file says; the deeper a variable reaches, the later."""
    taken: dict[KeyPath, str] = {}
    for name in sorted(_candidates(environ), key=lambda name: (name.count("__"), name)):
        key = _key_of(name, draft)
        if key is None:
            draft.warnings.append(_unknown(name))
        elif key in taken and environ[name] != environ[taken[key]]:
            origin = SettingOrigin("environment", presentable(name))
            draft.complain(key, f"is also set by {taken[key]}; unset one of them", origin=origin)
        else:
            taken[key] = name
            _apply(
                draft, key, environ[name], origin=SettingOrigin("environment", presentable(name))
            )


def variable_name(key: KeyPath) -> str:
    """The variable that sets this setting."""
    return PREFIX + "__".join(str(part) for part in key).upper()


def _candidates(environ: Mapping[str, str]) -> Iterator[str]:
    return (n for n in environ if n.upper().startswith(PREFIX) and n.upper() not in RESERVED)


def _key_of(name: str, draft: SettingsDraft) -> KeyPath | None:
    """The setting that a variable means; None if there is none."""
    key: KeyPath = ()
    kind: ValueKind | None = ROOT
    for part in name[len(PREFIX) :].lower().split("__"):
        if kind is None or kind.shape not in ("section", "map") or not part:
            return None
        key = (*key, _entry(draft, key, part) if kind.shape == "map" else part)
        kind = child(kind, part)
    return key if kind else None


def _entry(draft: SettingsDraft, key: KeyPath, part: str) -> str:
    """The key of a map as it is written there: the names of variables have no case."""
    entries = draft.find(key) if draft.has(key) else default_of(key)
    names = entries if isinstance(entries, dict) else {}
    return next((name for name in names if name.lower() == part), part)


def _apply(draft: SettingsDraft, key: KeyPath, text: str, *, origin: SettingOrigin) -> None:
    kind = kind_at(key)
    if kind is None:
        return
    _prepare_maps(draft, key)
    if kind.shape == "value":
        value = None if kind.nullable and text in _NULLS else typed(kind, text)
        draft.put(key, value, origin=origin)
        return
    try:
        _merge(draft, key, kind, load_yaml(text).value, origin)
    except YamlError:
        draft.complain(key, "must be JSON, or YAML in one line", origin=origin)


def _merge(
    draft: SettingsDraft, key: KeyPath, kind: ValueKind, value: Any, origin: SettingOrigin
) -> None:
    """A section is merged key by key; anything else replaces what was there."""
    if kind.shape == "section" and isinstance(value, dict) and draft.has(key):
        for name, each in value.items():
            inner = child(kind, name) or ValueKind("value", Any)
            _merge(draft, (*key, name), inner, each, origin)
    else:
        draft.put(key, value, origin=origin)


def _prepare_maps(draft: SettingsDraft, key: KeyPath) -> None:
    """A variable changes one entry of a map; without this, the default entries would be lost."""
    for depth in range(1, len(key)):
        kind = kind_at(key[:depth])
        if kind and kind.shape == "map" and not draft.has(key[:depth]):
            draft.put(key[:depth], default_of(key[:depth]))
            return


RETIRED: Mapping[KeyPath, str] = {
    ("channels", "cli"): "`silas chat` talks in a terminal whenever Silas runs",
    ("memory", "portability_bundle_format"): "memories are always exported as jsonl-v1",
    ("personality", "scope_mode"): "every connection has a mood of its own",
}
"""What older files may still name, and what is so instead."""


def drop_retired(draft: SettingsDraft) -> None:
    """Take settings of the past out of the draft, each with a sentence for the owner."""
    for key, instead in RETIRED.items():
        if draft.has(key):
            place = draft.origin_of(key)
            draft.remove(key)
            written = f" ({place})" if place != DEFAULT else ""
            draft.warnings.append(
                f"{dotted(key)} is no setting any more{written}: {instead}. Remove it."
            )


def _unknown(name: str) -> str:
    for key, instead in RETIRED.items():
        if name.upper().startswith(variable_name(key)):
            return f"The variable {presentable(name)} sets nothing any more: {instead}."
    known = {variable_name(key): key for key, _ in walk()}
    flat = {variable.replace("__", "_"): variable for variable in known}
    same = flat.get(name.upper().replace("__", "_"))
    hint = f"; did you mean `{same}`?" if same else did_you_mean(name.upper(), known)
    return f"The variable {presentable(name)} sets nothing{hint or '.'}"


_DOLLAR = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<broken>\{))")


class _Unset(Exception):
    """A variable that the text names has no value."""


class _Broken(Exception):
    """A dollar sign and a brace that name no variable."""


def expand_variables(draft: SettingsDraft, environ: Mapping[str, str]) -> None:
    """Replace the variables in every text that the file sets."""
    draft.values = _expanded(draft, draft.values, (), environ)


def _expanded(draft: SettingsDraft, value: Any, key: KeyPath, environ: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {n: _expanded(draft, each, (*key, n), environ) for n, each in value.items()}
    if isinstance(value, list):
        return [_expanded(draft, each, (*key, i), environ) for i, each in enumerate(value)]
    if isinstance(value, str) and "$" in value and draft.origin_of(key).source == "file":
        return _expanded_text(draft, value, key, environ)
    return value


def _expanded_text(
    draft: SettingsDraft, text: str, key: KeyPath, environ: Mapping[str, str]
) -> Any:
    kind = kind_at(key)
    draft.concealed.add(key)
    try:
        expanded = _DOLLAR.sub(lambda match: _replacement(match, environ), text)
    except _Unset as unset:
        if not (kind and kind.null_if_unset):
            name = presentable(str(unset))
            draft.complain(key, f"names the variable {name}, which is not set; set it first")
        return None
    except _Broken:
        draft.complain(key, "has `${` without a name; write `${NAME}`, or `$$` for a dollar sign")
        return None
    return typed(kind, expanded) if kind else expanded


def _replacement(match: re.Match[str], environ: Mapping[str, str]) -> str:
    if match["dollar"]:
        return "$"
    if match["broken"]:
        raise _Broken
    # A variable that is set to nothing is as good as none: that is how scripts unset one.
    if not environ.get(match["name"]):
        raise _Unset(match["name"])
    return environ[match["name"]]


def escape(text: str) -> str:
    """The text as it must be written in the file so that it means itself."""
    return text.replace("$", "$$")


WELL_KNOWN_VARIABLES: Mapping[KeyPath, str] = {
    ("search", "api_key"): "SEARCH_API_KEY",
    ("channels", "telegram", "token"): "SILAS_TELEGRAM_TOKEN",
    ("channels", "telegram", "owner_chat_id"): "SILAS_TELEGRAM_OWNER_ID",
}
"""Where a secret comes from if no setting says otherwise."""

INSIDE_DATA_DIR: Mapping[KeyPath, str] = {
    ("sandbox", "verify_dir"): "verify",
    ("sandbox", "customer_context_dir"): "customer_context",
}
"""What lies in the data directory if no setting says otherwise."""


@dataclass(frozen=True)
class StartingPoints:
    """What relative paths are relative to: those of the file, and those of everything else."""

    project: Path
    cwd: Path
    home: str | None

    def absolute(self, path: str, origin: SettingOrigin) -> str:
        """The path from the root."""
        written_here = origin.source in ("environment", "command line")
        start = self.cwd if written_here else self.project
        return str(absolute_path(path, start=start, home=self.home))


def open_sections(draft: SettingsDraft) -> None:
    """Give every section a place. One whose lines are all commented out reads as null.

    This also spares pydantic from building each default section on its own, which is slow.
    """
    for key, kind in walk():
        around = draft.find(key[:-1])
        if kind.shape == "section" and isinstance(around, dict) and around.get(key[-1]) is None:
            around[key[-1]] = {}


def apply_well_known_variables(draft: SettingsDraft, environ: Mapping[str, str]) -> None:
    """Take a secret from its usual variable if no setting says otherwise."""
    for key, variable in WELL_KNOWN_VARIABLES.items():
        if environ.get(variable) and not draft.has(key):
            draft.put(key, environ[variable], origin=SettingOrigin("environment", variable))


def make_paths_absolute(draft: SettingsDraft, start: StartingPoints) -> None:
    """Make every path start from the root; what is not set follows `data_dir`."""
    for key, kind in walk():  # data_dir comes first, so that the others can follow it
        if not kind.is_path:
            continue
        if key in INSIDE_DATA_DIR and not draft.has(key):
            draft.put(key, f"{draft.find(('data_dir',))}/{INSIDE_DATA_DIR[key]}")
        path = draft.find(key) if draft.has(key) else default_of(key)
        if isinstance(path, str) and path.strip():
            origin = draft.origins.get(key, DEFAULT)
            draft.put(key, start.absolute(path, origin), origin=origin)
