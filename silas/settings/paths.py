"""Where things are: the files in the data directory, and which configuration file is in force.

`SettingOrigin` is where a single value was written. Commands that only look at a data directory
load this module and no other of the settings, so nothing that builds models is imported here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from silas.kernel.errors import ConfigError
from silas.kernel.redaction import redact_text
from silas.kernel.visible import visible

Source = Literal["default", "file", "environment", "command line"]


class NotInitialised(ConfigError):
    """There is no Silas in this directory yet. Run `silas init`, or name another `--data-dir`."""

    code = "E_CFG_NOT_INITIALISED"


@dataclass(frozen=True)
class Paths:
    """The files of one Silas."""

    data_dir: Path
    config_file: Path

    @property
    def database(self) -> Path:
        return self.data_dir / "silas.db"

    def require_initialised(self) -> None:
        """Raise unless there is a Silas in the data directory."""
        if not self.database.exists():
            raise NotInitialised(f"{self.data_dir}: {NotInitialised.sentence()}")

    @property
    def journal(self) -> Path:
        """The owner's own records."""
        return self.data_dir / "journal.db"

    @property
    def companions(self) -> Path:
        """Who the companions are, what they remember and report; nothing of the journal."""
        return self.data_dir / "agent.db"

    @property
    def companion_kinds(self) -> Path:
        """The owner's own kinds of companions: one YAML file each."""
        return self.data_dir / "companions"

    @property
    def skills(self) -> Path:
        """The files of skills, each version in a directory of its digest."""
        return self.data_dir / "skills"

    @property
    def vault(self) -> Path:
        return self.data_dir / "vault.json"

    @property
    def public_key(self) -> Path:
        return self.data_dir / "owner.pub"

    @property
    def audit_witness(self) -> Path:
        """A copy of the newest audit checkpoint, outside the database that it vouches for."""
        return self.data_dir / "audit.checkpoint"

    @property
    def artifacts(self) -> Path:
        """What attempts at work items left behind."""
        return self.data_dir / "artifacts"

    @property
    def attachments(self) -> Path:
        """Files that the owner attached to messages, named by their hashes."""
        return self.data_dir / "attachments"

    @property
    def before_images(self) -> Path:
        """What files held before Silas changed or removed them, named by their hashes."""
        return self.data_dir / "before"

    @property
    def gates(self) -> Path:
        """The scripts that gates may run."""
        return self.data_dir / "gates"

    @property
    def model_modes(self) -> Path:
        """What `silas models test` found out about the models; can be deleted."""
        return self.data_dir / "model_modes.json"

    @property
    def first_run(self) -> Path:
        """That the owner was welcomed, and their name; without it they are welcomed again."""
        return self.data_dir / "first_run.json"

    @property
    def clients(self) -> Path:
        """What other programs show when they ask the owner: a token each."""
        return self.data_dir / "clients"

    @property
    def archive(self) -> Path:
        """Old parts of the audit log, each a file that proves itself."""
        return self.data_dir / "archive"

    @property
    def lock(self) -> Path:
        return self.data_dir / "silas.lock"

    @property
    def terminal_lock(self) -> Path:
        """Held by a conversation in a terminal with a person at it, who can be asked."""
        return self.data_dir / "terminal.lock"

    @property
    def socket(self) -> Path:
        return self.data_dir / "silas.sock"


DATA_DIR_VARIABLE = "SILAS_DATA_DIR"
CONFIG_VARIABLE = "SILAS_CONFIG"


@dataclass(frozen=True)
class SettingOrigin:
    """Where a value was written: a line of a file, a variable, an option, or nowhere."""

    source: Source = "default"
    name: str = ""
    line: int | None = None

    def __str__(self) -> str:
        if self.source == "default":
            return "default"
        return f"{self.name}:{self.line}" if self.line is not None else self.name

    def as_json(self) -> dict[str, Any]:
        """The same as data."""
        names = {"file": "file", "environment": "variable", "command line": "option"}
        place = {names[self.source]: self.name} if self.source in names else {}
        line = {} if self.line is None else {"line": self.line}
        return {"source": self.source, **place, **line}


DEFAULT = SettingOrigin()


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
    origin: SettingOrigin


def choose(
    given: str | None, *, option: str, variable: str, environ: Mapping[str, str]
) -> Choice | None:
    """The value of a global option; its variable counts if the option is not given."""
    from_environment = environ.get(variable)
    if given and given != from_environment:
        return Choice(given, SettingOrigin("command line", option))
    if given or from_environment:
        return Choice(given or from_environment or "", SettingOrigin("environment", variable))
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


def presentable(name: str, *, longest: int = 60) -> str:
    """A name from outside, fit for one line: short, visible, and no secret by accident."""
    shown = visible(redact_text(name), keep_newlines=False)
    return shown if len(shown) <= longest else f"{shown[:longest]}…"
