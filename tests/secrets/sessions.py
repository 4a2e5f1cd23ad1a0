"""A real keyring in a session of its own, far from the user's."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from jeepney import message_bus
from jeepney.io.blocking import open_dbus_connection

_START = """
unlock() { printf '%s' "$KEYRING_PASSWORD" | gnome-keyring-daemon --unlock --components=secrets; }
serve() { gnome-keyring-daemon --start --components=secrets; }
if [ -n "$KEYRING_PASSWORD" ]; then unlock; else serve; fi >"$HOME/keyring.log"
echo "$DBUS_SESSION_BUS_ADDRESS"
cat >/dev/null
"""


@contextmanager
def desktop_session(*, password: str, plaintext: bool = False) -> Iterator[dict[str, str]]:
    """The environment of a private D-Bus session with a GNOME keyring.

    With a password the keyring is set up and unlocked; without one it waits to be set up, or, if
    `plaintext` is asked for, it is one that nobody protected.
    """
    if not shutil.which("dbus-run-session") or not shutil.which("gnome-keyring-daemon"):
        pytest.skip("needs a real keyring: apt-get install gnome-keyring dbus")
    # The keyring's socket must have a short path.
    with tempfile.TemporaryDirectory(prefix="silas-keyring-") as home:
        environ = _environment(Path(home), password)
        if plaintext:
            _make_plaintext_keyring(Path(environ["XDG_DATA_HOME"]) / "keyrings")
        command = ["dbus-run-session", "--", "sh", "-c", _START]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        with subprocess.Popen(
            command, env=environ, stdin=pipe, stdout=pipe, stderr=nowhere, text=True
        ) as session:
            try:
                address = session.stdout.readline().strip()
                # Whoever asks before the daemon serves makes D-Bus start another one, locked.
                while not _serving_process(address) and session.poll() is None:
                    time.sleep(0.01)
                yield {**environ, "DBUS_SESSION_BUS_ADDRESS": address}
            finally:
                session.stdin.close()  # ends the session, and with it the bus and the keyring
                session.wait()


class UnlockedKeyring:
    """An unlocked keyring that is started anew when its daemon has died.

    D-Bus starts another one by itself, which is locked: every later test would fail for what
    happened in an earlier one.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._environ: dict[str, str] = {}
        self._process = 0

    def __enter__(self) -> "UnlockedKeyring":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def environ(self) -> dict[str, str]:
        """The environment of a session in which the daemon lives."""
        if not self.lives():
            self._stack.close()
            self._environ = self._stack.enter_context(
                desktop_session(password="the login password")
            )
            self._process = _serving_process(self._environ["DBUS_SESSION_BUS_ADDRESS"])
        return self._environ

    def lives(self) -> bool:
        """Whether the daemon that was unlocked is the one that answers."""
        address = self._environ.get("DBUS_SESSION_BUS_ADDRESS")
        return address is not None and _serving_process(address) == self._process


def _serving_process(address: str) -> int:
    """The process behind the Secret Service, 0 if there is none."""
    ask = message_bus.GetConnectionUnixProcessID("org.freedesktop.secrets")
    with open_dbus_connection(address) as connection:
        answer = connection.send_and_get_reply(ask, timeout=30).body[0]
    return answer if isinstance(answer, int) else 0


def _environment(home: Path, password: str) -> dict[str, str]:
    (home / "run").mkdir(mode=0o700)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home / "run"),
        "XDG_DATA_HOME": str(home / "share"),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "KEYRING_PASSWORD": password,
    }


def _make_plaintext_keyring(directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "default").write_text("Default")
    (directory / "Default.keyring").write_text(
        "[keyring]\ndisplay-name=Default\nctime=0\nmtime=0\nlock-on-idle=false\nlock-after=false\n"
    )
