"""A real keyring in a session of its own, far from the user's."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

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
                yield {**environ, "DBUS_SESSION_BUS_ADDRESS": address}
            finally:
                session.stdin.close()  # ends the session, and with it the bus and the keyring
                session.wait()


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
