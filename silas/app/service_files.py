"""The file with which a machine keeps Silas running: a systemd user unit, or a launchd agent.

1. Every path in it is absolute: it is read from anywhere, without the shell of its owner.
2. There is no secret in it, and Silas prints no pairing link where a journal would keep it.
3. What failed is started again; what is set up wrongly is not, because that would never end.
"""

import plistlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from silas.kernel import ServerError

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
