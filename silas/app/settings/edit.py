"""Changes to single settings in the configuration file; everything else stays as it was written.

1. Only the lines of the settings that change are touched, so that comments and order survive.
2. The changed file is read as a whole before it counts: it must say what was wanted and nothing
   else must have changed. If not, the old file is put back and nothing has happened.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from silas.app.settings.errors import SettingsNotChanged
from silas.app.settings.load import LoadedSettings
from silas.app.settings.render import rendered_value
from silas.kernel.errors import ConfigError
from silas.storage.errors import translated
from silas.storage.files import write_private_file

_TOP = "silas:"
_INDENT = "  "


def change_section(
    loaded: LoadedSettings,
    section: str,
    values: Mapping[str, Any],
    *,
    reload: Callable[[], LoadedSettings],
) -> LoadedSettings:
    """Set these values of a section and return the settings that are then in force (rule 2).

    Raises `SettingsNotChanged` with what the owner can write himself.
    """
    path = loaded.paths.config_file
    before = path.read_bytes() if path.exists() else None
    with translated(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        text = before.decode() if before is not None else ""
        write_private_file(path, with_values(text, section, values).encode())
    try:
        changed = reload()
        if _says(changed, loaded, section, values):
            return changed
    except ConfigError:
        pass  # the file that was there before is put back below
    with translated(str(path)):
        if before is None:
            path.unlink()
        else:
            write_private_file(path, before)
    lines = "; ".join(f"{section}.{name}: {rendered_value(each)}" for name, each in values.items())
    raise SettingsNotChanged(f"{path}: {SettingsNotChanged.sentence()} It would say {lines}")


def _says(
    changed: LoadedSettings, before: LoadedSettings, section: str, values: Mapping[str, Any]
) -> bool:
    wanted = before.settings.model_dump(mode="json")
    wanted[section] |= values
    return changed.settings.model_dump(mode="json") == wanted


def with_values(text: str, section: str, values: Mapping[str, Any]) -> str:
    """The text with these settings of a section (rule 1)."""
    lines = text.splitlines() or [_TOP]
    for name, value in values.items():
        line = f"{_INDENT * 2}{name}: {rendered_value(value)}"
        start, end = _section(lines, section)
        place = _line_of(lines, name, start, end)
        if place is None:
            lines.insert(start, line)
        else:
            lines[place] = line
    return "\n".join(lines) + "\n"


def _section(lines: list[str], section: str) -> tuple[int, int]:
    """The lines inside a section; one that is missing is begun right below the top."""
    heading = re.compile(rf"{_INDENT}{re.escape(section)}:\s*(#.*)?")
    start = next((at for at, line in enumerate(lines) if heading.fullmatch(line)), None)
    if start is None:
        start = lines.index(_TOP) + 1 if _TOP in lines else len(lines)
        lines.insert(start, f"{_INDENT}{section}:")
    inside = re.compile(rf"{_INDENT * 2}.*|\s*")
    end = start + 1
    while end < len(lines) and inside.fullmatch(lines[end]):
        end += 1
    return start + 1, end


def _line_of(lines: list[str], name: str, start: int, end: int) -> int | None:
    """Where a setting stands; if it is only there as a comment, then where that stands."""
    for mark in ("", "# "):
        written = re.compile(rf"{_INDENT * 2}{mark}{re.escape(name)}:(\s.*)?")
        for at in range(start, end):
            if written.fullmatch(lines[at]):
                return at
    return None
