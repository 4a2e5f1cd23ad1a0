"""`silas service`: have this machine keep Silas running.

The file with which a machine keeps Silas running is a systemd user unit, or a launchd agent:

1. Every path in it is absolute: it is read from anywhere, without the shell of its owner.
2. There is no secret in it, and Silas prints no pairing link where a journal would keep it.
3. What failed is started again; what is set up wrongly is not, because that would never end.
"""

import os
import plistlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from silas.app.instance import holder_of
from silas.cli.commands import CliContext, JsonGroup, pass_cli, settings_of
from silas.kernel import ServerError
from silas.secrets import open_vault
from silas.settings.load import LoadedSettings
from silas.storage.errors import translated
from silas.storage.files import write_private_file

ServiceKind = Literal["systemd", "launchd"]
NAME = "silas"
_MARK = "Written by `silas service install`."
_KEY_FILE = "SILAS_VAULT_KEY_FILE"
_WRONGLY_SET_UP = "10 11 12 13 14 15 16 17 18 19 26 27 28 29 31 33 34 218"
_SECONDS_MORE = 15


@dataclass(frozen=True)
class Service:
    """What is to be kept running."""

    python: Path
    data_dir: Path
    config_file: Path | None
    """The configuration, where it is not in the data directory."""
    key_file: str | None
    """Where the key of the vault is; its path is no secret."""
    seconds_to_stop: float

    @property
    def command(self) -> list[str]:
        """Without a browser and without a link (rule 2)."""
        config = ["--config", str(self.config_file)] if self.config_file else []
        place = [*config, "--data-dir", str(self.data_dir)]
        # -P: modules come from where Silas is installed, and none from the working directory.
        return [str(self.python), "-P", "-m", "silas", *place, "start", "--no-open", "--no-link"]

    @property
    def environ(self) -> dict[str, str]:
        return {_KEY_FILE: self.key_file} if self.key_file else {}


@dataclass(frozen=True)
class ServiceFile:
    """A file, where it belongs, and what its owner types then."""

    kind: ServiceKind
    path: Path
    content: bytes
    start: tuple[str, ...]
    stop: tuple[str, ...]

    def is_ours(self) -> bool:
        """Whether the file that is there was written by Silas."""
        return self.path.exists() and _MARK.encode() in self.path.read_bytes()

    def is_current(self) -> bool:
        """Whether the file that is there says what it would say now."""
        return self.path.exists() and self.path.read_bytes() == self.content


def key_file_of(environ: Mapping[str, str]) -> str | None:
    """The key file that opens the vault, if one was named."""
    named = environ.get(_KEY_FILE)
    return str(Path(named).expanduser().absolute()) if named else None


def service_file(
    service: Service, kind: ServiceKind, *, home: Path, environ: Mapping[str, str]
) -> ServiceFile:
    """The file for this machine."""
    if kind == "launchd":
        return _launchd(service, home)
    return _systemd(service, Path(environ.get("XDG_CONFIG_HOME") or home / ".config"))


def _systemd(service: Service, config_home: Path) -> ServiceFile:
    lines = [
        f"# {_MARK}",
        "[Unit]",
        "Description=Silas, a personal AI runtime",
        "",
        "[Service]",
        f"ExecStart={' '.join(map(_quoted, service.command))}",
        f"WorkingDirectory={_escaped(str(service.data_dir))}",
        *(f"Environment={_quoted(f'{name}={value}')}" for name, value in service.environ.items()),
        "Restart=on-failure",
        "RestartSec=5",
        f"RestartPreventExitStatus={_WRONGLY_SET_UP}",
        f"TimeoutStopSec={round(service.seconds_to_stop) + _SECONDS_MORE}",
        "UMask=0077",
        "",
        "[Install]",
        "WantedBy=default.target",
        "",
    ]
    return ServiceFile(
        kind="systemd",
        path=config_home / "systemd" / "user" / f"{NAME}.service",
        content="\n".join(lines).encode(),
        start=(
            "systemctl --user daemon-reload",
            f"systemctl --user enable --now {NAME}",
            "loginctl enable-linger   # so that it also runs while you are not logged in",
        ),
        stop=(f"systemctl --user disable --now {NAME}", "systemctl --user daemon-reload"),
    )


def _launchd(service: Service, home: Path) -> ServiceFile:
    path = home / "Library" / "LaunchAgents" / f"{NAME}.plist"
    agent = {
        "Label": NAME,
        "ProgramArguments": service.command,
        "WorkingDirectory": str(service.data_dir),
        "EnvironmentVariables": service.environ,
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": round(service.seconds_to_stop) + _SECONDS_MORE,
        "Umask": 0o077,
        "StandardErrorPath": str(service.data_dir / "service.log"),
    }
    written = plistlib.dumps(agent).replace(b"<plist", f"<!-- {_MARK} -->\n<plist".encode(), 1)
    return ServiceFile(
        kind="launchd",
        path=path,
        content=written,
        start=(f"launchctl bootstrap gui/$(id -u) {path}",),
        stop=(f"launchctl bootout gui/$(id -u)/{NAME}",),
    )


def _quoted(text: str) -> str:
    """One word of a unit file, whatever is in it."""
    escaped = _escaped(text).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped}"'


def _escaped(text: str) -> str:
    if not text.isprintable():
        raise ServerError("A path with control characters cannot be written into a service file.")
    return text.replace("%", "%%")


_NEEDS_A_PERSON = (
    "Note: the vault opens with a passphrase, and a service has nobody to ask. After each start, "
    "type it in the page, or run `silas unlock`. If Silas is to start by itself, put the "
    "passphrase into a file that only you may read, and name it with `systemctl --user edit silas` "
    "in the section [Service], as LoadCredential=silas-vault-passphrase:/path/of/the/file; or keep "
    "the vault in the keyring or behind a key file."
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
        text = "The service is not installed. Try: silas service install"
    elif file.is_current():
        text = f"The service is installed: {file.path}"
    else:
        text = f"{file.path} says something else than now. Try: silas service install"
    runs = f"Silas is running (process {holder['pid']})." if holder else "Silas is not running."
    cli.show({**_data(file), "running": holder is not None}, f"{text}\n{runs}")


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
