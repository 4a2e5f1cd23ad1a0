"""`silas config`: check, show and describe the configuration. Secrets are never shown."""

import json
import os
from pathlib import Path

import click

from silas.app.settings import LoadedSettings, load_settings
from silas.app.settings.schema import settings_schema
from silas.app.settings.show import shown_settings, shown_values
from silas.cli.commands import JsonGroup
from silas.cli.context import CliContext, pass_cli


@click.group(cls=JsonGroup)
def config() -> None:
    """Check and show the configuration.

    The command line goes before environment variables (SILAS_CHANNELS__WEB__PORT=9000), these go
    before the file, and the file goes before the defaults.
    """


@config.command()
@pass_cli
def check(cli: CliContext) -> None:
    """Say whether the configuration is right, or everything that is wrong with it."""
    loaded = _load(cli)
    where = _file_in_words(loaded)
    cli.show(
        {"valid": True, **_place(loaded), "warnings": list(loaded.warnings)},
        f"The configuration is right ({where}).",
    )
    _warn(cli, loaded)


@config.command()
@pass_cli
def show(cli: CliContext) -> None:
    """Show every setting in force, and where it comes from."""
    loaded = _load(cli)
    settings = list(shown_settings(loaded))
    lines = [
        f"{each.name} = {json.dumps(each.value, ensure_ascii=False)}  ({each.origin})"
        for each in settings
    ]
    data = {
        **_place(loaded),
        "settings": shown_values(loaded),
        "origins": {each.name: each.origin.as_json() for each in settings},
        "warnings": list(loaded.warnings),
    }
    cli.show(data, "\n".join(lines))
    _warn(cli, loaded)


@config.command()
@pass_cli
def schema(cli: CliContext) -> None:
    """Print a JSON Schema of the configuration file, for editors."""
    cli.show(settings_schema())


@config.command()
@pass_cli
def path(cli: CliContext) -> None:
    """Print the path of the configuration file in force, whether it exists or not."""
    loaded = _load(cli)
    cli.show(_place(loaded), click.format_filename(loaded.paths.config_file))


def _load(cli: CliContext) -> LoadedSettings:
    return load_settings(
        data_dir=cli.data_dir, config_file=cli.config_file, environ=os.environ, cwd=Path.cwd()
    )


def _place(loaded: LoadedSettings) -> dict[str, object]:
    return {
        "config_file": click.format_filename(loaded.paths.config_file),
        "exists": loaded.file_exists,
        "data_dir": str(loaded.paths.data_dir),
    }


def _file_in_words(loaded: LoadedSettings) -> str:
    shown = click.format_filename(loaded.paths.config_file)
    return shown if loaded.file_exists else f"all defaults; there is no {shown}"


def _warn(cli: CliContext, loaded: LoadedSettings) -> None:
    """Warnings go to people; whoever asked for JSON finds them there."""
    if not cli.as_json:
        for warning in loaded.warnings:
            click.echo(f"Warning: {warning}", err=True)
