"""What a draft still needs before it is checked: empty sections, usual variables, whole paths."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from silas.app.settings.draft import Draft
from silas.app.settings.keys import default_of, walk
from silas.app.settings.locate import absolute_path
from silas.app.settings.origin import DEFAULT, KeyPath, Origin

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

    def absolute(self, path: str, origin: Origin) -> str:
        """The path from the root."""
        written_here = origin.source in ("environment", "command line")
        start = self.cwd if written_here else self.project
        return str(absolute_path(path, start=start, home=self.home))


def open_sections(draft: Draft) -> None:
    """Give every section a place. One whose lines are all commented out reads as null.

    This also spares pydantic from building each default section on its own, which is slow.
    """
    for key, kind in walk():
        around = draft.find(key[:-1])
        if kind.shape == "section" and isinstance(around, dict) and around.get(key[-1]) is None:
            around[key[-1]] = {}


def apply_well_known_variables(draft: Draft, environ: Mapping[str, str]) -> None:
    """Take a secret from its usual variable if no setting says otherwise."""
    for key, variable in WELL_KNOWN_VARIABLES.items():
        if environ.get(variable) and not draft.has(key):
            draft.put(key, environ[variable], origin=Origin("environment", variable))


def make_paths_absolute(draft: Draft, start: StartingPoints) -> None:
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
