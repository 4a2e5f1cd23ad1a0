"""Where the data is, for commands that need to know no more, and are to start fast."""

import importlib
import os
from pathlib import Path

from silas.app.paths import Paths
from silas.cli.context import CliContext


def paths_of(cli: CliContext) -> Paths:
    """The data directory that was named; the configuration is read only if none was."""
    if cli.data_dir:
        data_dir = Path.cwd() / Path(cli.data_dir).expanduser()
        return Paths(data_dir=data_dir, config_file=data_dir / "silas.yaml")
    # Loaded here, and not above, because it takes longer than all that these commands do.
    load_settings = importlib.import_module("silas.app.settings").load_settings
    loaded = load_settings(
        data_dir=None, config_file=cli.config_file, environ=os.environ, cwd=Path.cwd()
    )
    paths: Paths = loaded.paths
    return paths
