"""The settings of Silas: file, environment and command line, checked before anything runs.

`load_settings` is the one way in. Every value is typed and frozen, every problem is reported with
the place where it was written, and no secret is ever shown. Nothing here opens a database, a vault
or a connection.
"""

from silas.app.settings.load import LoadedSettings, load_settings
from silas.app.settings.models import Settings
from silas.app.settings.origin import Origin, Problem
from silas.app.settings.render import render_default_config

__all__ = [
    "LoadedSettings",
    "Origin",
    "Problem",
    "Settings",
    "load_settings",
    "render_default_config",
]
