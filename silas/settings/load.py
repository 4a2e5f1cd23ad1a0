"""The one way to the settings: command line over environment over file over defaults.

`load_settings` gives the settings in force with the place where each was written;
`shown_values` and `shown_settings` give them without their secrets.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, SecretStr

from silas.kernel.models import dotted
from silas.kernel.redaction import redact
from silas.settings.models import Settings
from silas.settings.paths import (
    CONFIG_VARIABLE,
    DATA_DIR_VARIABLE,
    DEFAULT,
    Choice,
    Paths,
    SettingOrigin,
    choose,
    locate,
)
from silas.settings.problems import KeyPath, SettingsDraft, invalid_settings
from silas.settings.sources import (
    StartingPoints,
    apply_environment,
    apply_well_known_variables,
    draft_from,
    drop_retired,
    expand_variables,
    make_paths_absolute,
    open_sections,
    read_config,
)
from silas.settings.validate import advice_on_file, advice_on_settings, validate, violations


@dataclass(frozen=True)
class LoadedSettings:
    """The settings in force, where each comes from, and what their owner should know."""

    settings: Settings
    paths: Paths
    provenance: Mapping[KeyPath, SettingOrigin]
    warnings: tuple[str, ...]
    file_exists: bool

    def origin_of(self, key: KeyPath) -> SettingOrigin:
        """Where a setting was written; the default if nowhere."""
        return self.provenance.get(key, DEFAULT)


def load_settings(
    *,
    data_dir: str | None,
    config_file: str | None,
    environ: Mapping[str, str],
    cwd: Path,
    to_be_made: bool = False,
) -> LoadedSettings:
    """The settings in force; a `ConfigError` names everything that is wrong, with file and line.

    `data_dir` and `config_file` are what the command line says; `SILAS_DATA_DIR` and
    `SILAS_CONFIG` count where it says nothing. With `to_be_made`, a file that is named and missing
    is about to be made: what it will say without a change is in force.
    """
    data = choose(data_dir, option="--data-dir", variable=DATA_DIR_VARIABLE, environ=environ)
    config = choose(config_file, option="--config", variable=CONFIG_VARIABLE, environ=environ)
    home = environ.get("HOME")
    location = locate(data_dir=data, config_file=config, home=home, cwd=cwd)
    if to_be_made:
        location = replace(location, named=False)
    source = read_config(location)
    draft = draft_from(source.text, location) if source else SettingsDraft()
    _lay_over(draft, data, environ)
    project = location.project_dir if source or (to_be_made and config) else cwd
    make_paths_absolute(draft, StartingPoints(project=project, cwd=cwd, home=home))
    settings = _checked(draft)
    if source:
        draft.warnings.extend(advice_on_file(location, source.mode, draft))
    return LoadedSettings(
        settings=settings,
        paths=Paths(data_dir=settings.data_dir, config_file=location.path),
        provenance=draft.origins,
        warnings=(*draft.warnings, *advice_on_settings(settings)),
        file_exists=source is not None,
    )


def _lay_over(draft: SettingsDraft, data_dir: Choice | None, environ: Mapping[str, str]) -> None:
    """Over what the file says, first the environment, then the command line.

    Only then are variables in the file looked up: one that is not set does no harm in a value that
    is not in force.
    """
    drop_retired(draft)
    open_sections(draft)
    apply_environment(draft, environ)
    if data_dir:
        draft.put(("data_dir",), data_dir.value, origin=data_dir.origin)
    expand_variables(draft, environ)
    apply_well_known_variables(draft, environ)


def _checked(draft: SettingsDraft) -> Settings:
    """The settings, or one error with all problems."""
    settings = validate(draft)
    for violation in violations(settings) if settings else ():
        if not any(draft.is_doubtful(key) for key in violation.keys):
            origin = draft.origin_of(*violation.keys)
            draft.complain(violation.key, violation.message, origin=origin)
    if settings is None or draft.problems:
        raise invalid_settings(draft.problems, draft.warnings)
    return settings


class ShownSetting(NamedTuple):
    """One setting: its name, its value without secrets, and where it was written."""

    name: str
    value: Any
    origin: SettingOrigin


def shown_values(loaded: LoadedSettings) -> dict[str, Any]:
    """All settings, nested as in the file, in JSON's types."""
    values = loaded.settings.model_dump(mode="json", by_alias=True)
    shown: dict[str, Any] = redact(values, known=_secrets(loaded.settings))
    return shown


def shown_settings(loaded: LoadedSettings) -> Iterator[ShownSetting]:
    """All settings one by one, in the order of the file."""
    for key, value in _leaves(shown_values(loaded)):
        yield ShownSetting(dotted(key), value, loaded.origin_of(key))


def _leaves(value: Any, key: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, dict) and (value or not key):
        for name, item in value.items():
            yield from _leaves(item, (*key, name))
    else:
        yield key, value


def _secrets(value: Any) -> Iterator[str]:
    """Every secret in the settings: none may appear, not even where it was copied to."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for _, item in value:
            yield from _secrets(item)
