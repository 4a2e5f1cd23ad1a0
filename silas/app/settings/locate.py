"""Which configuration file is in force, and what relative paths are relative to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from silas.app.settings.origin import Origin, presentable

DATA_DIR_VARIABLE = "SILAS_DATA_DIR"
CONFIG_VARIABLE = "SILAS_CONFIG"


@dataclass(frozen=True)
class Location:
    """The configuration file, whether it was asked for by name, and how it is shown."""

    path: Path
    named: bool
    shown: str

    @property
    def project_dir(self) -> Path:
        """What relative paths in the file start from."""
        directory = self.path.parent
        return directory.parent if directory.name == "config" else directory


@dataclass(frozen=True)
class Choice:
    """A value of a global option, and whether the option or its variable gave it."""

    value: str
    origin: Origin


def choose(
    given: str | None, *, option: str, variable: str, environ: Mapping[str, str]
) -> Choice | None:
    """The value of a global option; its variable counts if the option is not given."""
    from_environment = environ.get(variable)
    if given and given != from_environment:
        return Choice(given, Origin("command line", option))
    if given or from_environment:
        return Choice(given or from_environment or "", Origin("environment", variable))
    return None


def locate(
    *, data_dir: Choice | None, config_file: Choice | None, home: str | None, cwd: Path
) -> Location:
    """The file that was named; else the one in the data directory that was named; else ours."""
    if config_file:
        path, named = config_file.value, True
    elif data_dir:
        path, named = f"{data_dir.value}/silas.yaml", False
    else:
        path, named = "config/silas.yaml", False
    absolute = absolute_path(path, start=cwd, home=home)
    return Location(path=absolute, named=named, shown=_shown(absolute, cwd))


def absolute_path(path: str, *, start: Path, home: str | None) -> Path:
    """The path from the root; `~` is the owner's home. Links are left as they are."""
    if home and (path == "~" or path.startswith("~/")):
        return start / home / path[2:]
    return start / path


def _shown(path: Path, cwd: Path) -> str:
    """Short if the file lies below the current directory, so that editors can open it."""
    short = path.relative_to(cwd) if path.is_relative_to(cwd) else path
    return presentable(str(short), longest=400)
