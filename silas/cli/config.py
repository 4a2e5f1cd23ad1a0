"""`silas config`: check, show, describe and change the configuration. Secrets are never shown."""

import json
from typing import Any

import click

from silas.cli.commands import CliContext, JsonGroup, pass_cli, settings_of
from silas.kernel.yaml_positions import YamlError, load_yaml
from silas.settings.keys import ValueKind, kind_at, settings_schema, walk
from silas.settings.load import LoadedSettings, shown_settings, shown_values
from silas.settings.problems import did_you_mean
from silas.settings.write import change_setting


@click.group(cls=JsonGroup)
def config() -> None:
    """Check, show and change the configuration.

    The command line goes before environment variables (SILAS_CHANNELS__WEB__PORT=9000), these go
    before the file, and the file goes before the defaults.
    """


@config.command()
@pass_cli
def check(cli: CliContext) -> None:
    """Say whether the configuration is right, or everything that is wrong with it."""
    loaded = settings_of(cli)
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
    loaded = settings_of(cli)
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
    loaded = settings_of(cli)
    cli.show(_place(loaded), click.format_filename(loaded.paths.config_file))


@config.command("set")
@click.argument("key")
@click.argument("value")
@pass_cli
def set_value(cli: CliContext, key: str, value: str) -> None:
    """Set KEY, such as `models.proxy` or `channels.web.port`, to VALUE in the configuration file.

    Comments and everything else in the file stay as they are. What is not right is not written.
    VALUE is YAML: `true`, `9000`, `null`, `[a, b]`, or a text.
    """
    loaded, path = settings_of(cli), tuple(key.removeprefix("silas.").split("."))
    kind = kind_at(path)
    if kind is None or kind.shape == "section":
        names = [".".join(each) for each, found in walk() if found.shape != "section"]
        hint = did_you_mean(".".join(path), names)
        raise click.UsageError(f"There is no setting {'.'.join(path)!r}{hint or '.'}")
    if kind.is_secret:
        raise click.UsageError(
            f"{'.'.join(path)} is a secret, which a command line would show to others. Set it with "
            "an environment variable, or write `${NAME}` into the file."
        )
    changed = change_setting(loaded, path, _typed(kind, value), reload=lambda: settings_of(cli))
    shown = {each.name: each.value for each in shown_settings(changed)}
    now = json.dumps(shown.get(".".join(path), value), ensure_ascii=False)
    cli.show(
        {**_place(changed), "key": ".".join(path), "value": shown.get(".".join(path), value)},
        f"{'.'.join(path)} = {now}\nA Silas that runs takes it on when it is started again.",
    )


def _typed(kind: ValueKind, text: str) -> Any:
    """What a text means for this kind of value; a text that is no YAML is taken as it is."""
    if kind.is_text and text not in ("null", "~"):
        return text
    try:
        return load_yaml(text).value
    except YamlError:
        return text


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
