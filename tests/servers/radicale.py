"""A real CalDAV server on loopback: Radicale, in a process of its own.

def test_it(radicale: Radicale) -> None:
    account = radicale.add_account()      # a principal with a calendar and a password
    account.put("lunch.ics", EVENT)       # as another program would
    account.get("lunch.ics")              # the text that is there, and its etag
"""

import base64
import contextlib
import http.client
import itertools
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.dovecot import free_ports

_WAIT_SECONDS = 120
_CONFIG = """
[server]
hosts = 127.0.0.1:{port}
[auth]
type = htpasswd
htpasswd_filename = {home}/users
htpasswd_encryption = plain
htpasswd_cache = False
delay = 0
cache_logins = False
[storage]
filesystem_folder = {home}/collections
[web]
type = none
[logging]
level = warning
"""
_MKCALENDAR = b"""<?xml version="1.0"?><C:mkcalendar xmlns:D="DAV:" \
xmlns:C="urn:ietf:params:xml:ns:caldav"><D:set><D:prop><D:displayname>%s</D:displayname>\
</D:prop></D:set></C:mkcalendar>"""
_numbers = itertools.count(1)


@dataclass(frozen=True)
class CalendarAccount:
    """A principal with one calendar, `private`."""

    server: "Radicale"
    username: str
    password: str

    def request(
        self, method: str, path: str, body: bytes = b"", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """One request of the test's own; `path` is below the principal."""
        way = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=_WAIT_SECONDS)
        word = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            way.request(
                method,
                f"/{self.username}/{path}",
                body,
                {"Authorization": f"Basic {word}", **named},
            )
            answer = way.getresponse()
            known = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, known, answer.read()
        finally:
            way.close()

    def add_calendar(self, name: str) -> None:
        """Another calendar."""
        status, _, said = self.request("MKCALENDAR", f"{name}/", _MKCALENDAR % name.encode())
        assert status == 201, said

    def put(self, name: str, text: str, calendar: str = "private") -> str:
        """Write an event as another program would; returns its etag."""
        status, headers, said = self.request(
            "PUT", f"{calendar}/{name}", text.encode(), Content_Type="text/calendar"
        )
        assert status in (201, 204), said
        return headers["etag"]

    def get(self, name: str, calendar: str = "private") -> str | None:
        """The text of an event; None if there is none."""
        status, _, text = self.request("GET", f"{calendar}/{name}")
        return text.decode() if status == 200 else None

    def names(self, calendar: str = "private") -> list[str]:
        """The files of a calendar."""
        folder = self.server.home / "collections" / "collection-root" / self.username / calendar
        return sorted(each.name for each in folder.glob("*.ics"))


class Radicale:
    """A running server. Its home is deleted when it is closed."""

    def __init__(self) -> None:
        [self.port] = free_ports(1)
        self.home = Path(tempfile.mkdtemp(prefix="silas-radicale-"))
        self._passwords: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        (self.home / "users").write_text("")
        (self.home / "config").write_text(_CONFIG.format(port=self.port, home=self.home))
        with (self.home / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "radicale", "--config", self.home / "config"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={"PATH": os.environ["PATH"]},
            )
        ends = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < ends and self._process.poll() is None:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            time.sleep(0.05)
        raise AssertionError((self.home / "log").read_text())

    def close(self) -> None:
        """End it, and delete what it kept."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=_WAIT_SECONDS)
        shutil.rmtree(self.home, ignore_errors=True)

    def add_account(self) -> CalendarAccount:
        """A new principal with an empty calendar and a password that is found nowhere else."""
        name = f"owner{next(_numbers)}-{secrets.token_hex(3)}"
        account = CalendarAccount(self, name, secrets.token_hex(16))
        self.set_password(name, account.password)
        account.add_calendar("private")
        return account

    def set_password(self, username: str, password: str) -> None:
        """From now on, this password and no other opens the account."""
        self._passwords[username] = password
        lines = "".join(f"{name}:{word}\n" for name, word in self._passwords.items())
        (self.home / "users").write_text(lines)


@pytest.fixture(scope="session")
def radicale() -> Iterator[Radicale]:
    """One server for the whole session; each test makes its own account."""
    server = Radicale()
    try:
        server.start()
        yield server
    finally:
        server.close()
