"""`silas service`: have this machine keep Silas running."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from silas.app.instance import holder_of
from silas.app.service_files import Service, ServiceFile, ServiceKind, key_file_of, service_file
from silas.app.settings import LoadedSettings
from silas.cli.commands import JsonGroup
from silas.cli.context import CliContext, pass_cli
from silas.cli.opening import settings_of
from silas.secrets import open_vault
from silas.storage.errors import translated
from silas.storage.files import write_private_file

_NEEDS_A_PERSON = (
    "Note: the vault opens with a passphrase, and a service has nobody to ask. Put the line "
    "SILAS_VAULT_PASSPHRASE=… into a file that only you may read, and name it as EnvironmentFile= "
    "with `systemctl --user edit silas`; or keep the vault in the keyring or behind a key file."
)
kind_option = click.option(
    "--kind",
    type=click.Choice(["systemd", "launchd"]),
    default="launchd" if sys.platform == "darwin" else "systemd",
    show_default=True,
    help="Who starts it.",
)


@click.group(cls=JsonGroup)
def service() -> None:
    """Start Silas with this machine, and again when it has failed.

    A systemd user unit or a launchd agent of yours is written; nothing runs as root.
    """


@service.command()
@kind_option
@click.option("--print", "only_print", is_flag=True, help="Show the file; write nothing.")
@click.option("--force", is_flag=True, help="Replace a file that Silas did not write.")
@pass_cli
def install(cli: CliContext, kind: ServiceKind, only_print: bool, force: bool) -> None:
    """Write the file, and say how to start the service."""
    loaded = settings_of(cli)
    file = _file(loaded, kind)
    if only_print:
        cli.show(_data(file), file.content.decode())
        return
    if file.path.exists() and not file.is_ours() and not force:
        raise click.UsageError(f"{file.path} is not Silas's. Say --force to replace it.")
    with translated(str(file.path)):
        file.path.parent.mkdir(parents=True, exist_ok=True)
        write_private_file(file.path, file.content)
    lines = [f"Written: {file.path}", "Start it now and at every login with:"]
    lines += [f"  {command}" for command in file.start]
    lines += ["Then let a browser in with:", "  silas devices pair", *_notes(loaded, file)]
    cli.show(_data(file), "\n".join(lines))


@service.command()
@kind_option
@pass_cli
def uninstall(cli: CliContext, kind: ServiceKind) -> None:
    """Remove the file. Your data stays."""
    file = _file(settings_of(cli), kind)
    if not file.path.exists():
        cli.show({**_data(file), "removed": False}, f"There is no {file.path}.")
        return
    if not file.is_ours():
        raise click.UsageError(f"{file.path} is not Silas's. Remove it yourself if you want to.")
    with translated(str(file.path)):
        file.path.unlink()
    lines = [f"Removed: {file.path}", "If the service runs, stop it with:"]
    lines += [f"  {command}" for command in file.stop]
    cli.show({**_data(file), "removed": True}, "\n".join(lines))


@service.command()
@kind_option
@pass_cli
def status(cli: CliContext, kind: ServiceKind) -> None:
    """Say whether the file is there and right, and whether Silas runs."""
    loaded = settings_of(cli)
    file = _file(loaded, kind)
    holder = holder_of(loaded.paths.lock)
    if not file.path.exists():
        told = "The service is not installed. Try: silas service install"
    elif file.is_current():
        told = f"The service is installed: {file.path}"
    else:
        told = f"{file.path} says something else than now. Try: silas service install"
    runs = f"Silas is running (process {holder['pid']})." if holder else "Silas is not running."
    cli.show({**_data(file), "running": holder is not None}, f"{told}\n{runs}")


def _file(loaded: LoadedSettings, kind: ServiceKind) -> ServiceFile:
    paths = loaded.paths
    beside = paths.config_file == paths.data_dir / "silas.yaml"
    wanted = Service(
        python=Path(sys.executable).absolute(),
        data_dir=paths.data_dir,
        config_file=paths.config_file if loaded.file_exists and not beside else None,
        key_file=key_file_of(os.environ),
        seconds_to_stop=loaded.settings.backpressure.shutdown_grace_seconds,
    )
    return service_file(wanted, kind, home=Path.home(), environ=os.environ)


def _data(file: ServiceFile) -> dict[str, Any]:
    return {
        "kind": file.kind,
        "path": str(file.path),
        "installed": file.path.exists(),
        "current": file.is_current(),
        "content": file.content.decode(),
        "start": list(file.start),
        "stop": list(file.stop),
    }


def _notes(loaded: LoadedSettings, file: ServiceFile) -> list[str]:
    notes = []
    vault = loaded.paths.vault
    if not loaded.paths.database.exists():
        notes.append("Note: there is no Silas here yet. Run `silas init` first.")
    elif vault.exists() and "KEY_FILE" not in file.content.decode():
        description = open_vault(vault, environ={}, prompt=None).describe()
        if "passphrase" in description.unlocked_by:
            notes.append(_NEEDS_A_PERSON)
    return notes
