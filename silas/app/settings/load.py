"""The one way to the settings: command line over environment over file over defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from silas.app.paths import Paths
from silas.app.settings.advice import advice_on_file, advice_on_settings
from silas.app.settings.completion import (
    StartingPoints,
    apply_well_known_variables,
    make_paths_absolute,
    open_sections,
)
from silas.app.settings.draft import Draft
from silas.app.settings.environment import apply_environment
from silas.app.settings.errors import invalid_settings
from silas.app.settings.expansion import expand_variables
from silas.app.settings.locate import (
    CONFIG_VARIABLE,
    DATA_DIR_VARIABLE,
    Choice,
    choose,
    locate,
)
from silas.app.settings.models import Settings
from silas.app.settings.origin import DEFAULT, KeyPath, Origin
from silas.app.settings.rules import violations
from silas.app.settings.validation import validate
from silas.app.settings.yaml_source import draft_from, read_config


@dataclass(frozen=True)
class LoadedSettings:
    """The settings in force, where each comes from, and what their owner should know."""

    settings: Settings
    paths: Paths
    provenance: Mapping[KeyPath, Origin]
    warnings: tuple[str, ...]
    file_exists: bool

    def origin_of(self, key: KeyPath) -> Origin:
        """Where a setting was written; the default if nowhere."""
        return self.provenance.get(key, DEFAULT)


def load_settings(
    *, data_dir: str | None, config_file: str | None, environ: Mapping[str, str], cwd: Path
) -> LoadedSettings:
    """The settings in force; a `ConfigError` names everything that is wrong, with file and line.

    `data_dir` and `config_file` are what the command line says; `SILAS_DATA_DIR` and
    `SILAS_CONFIG` count where it says nothing.
    """
    data = choose(data_dir, option="--data-dir", variable=DATA_DIR_VARIABLE, environ=environ)
    config = choose(config_file, option="--config", variable=CONFIG_VARIABLE, environ=environ)
    home = environ.get("HOME")
    location = locate(data_dir=data, config_file=config, home=home, cwd=cwd)
    source = read_config(location)
    draft = draft_from(source.text, location) if source else Draft()
    _lay_over(draft, data, environ)
    project = location.project_dir if source else cwd
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


def _lay_over(draft: Draft, data_dir: Choice | None, environ: Mapping[str, str]) -> None:
    """Over what the file says, first the environment, then the command line.

    Only then are variables in the file looked up: one that is not set does no harm in a value that
    is not in force.
    """
    open_sections(draft)
    apply_environment(draft, environ)
    if data_dir:
        draft.put(("data_dir",), data_dir.value, origin=data_dir.origin)
    expand_variables(draft, environ)
    apply_well_known_variables(draft, environ)


def _checked(draft: Draft) -> Settings:
    """The settings, or one error with all problems."""
    settings = validate(draft)
    for violation in violations(settings) if settings else ():
        if not any(draft.is_doubtful(key) for key in violation.keys):
            origin = draft.origin_of(*violation.keys)
            draft.complain(violation.key, violation.message, origin=origin)
    if settings is None or draft.problems:
        raise invalid_settings(draft.problems, draft.warnings)
    return settings
