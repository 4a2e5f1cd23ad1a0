"""The real client stack may talk here, but only to this machine."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_ai.models import override_allow_model_requests

import silas.agents.models.detection
import silas.agents.prompting  # its tags come before anybody frames anything
from silas.kernel.loopback import is_loopback


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Detection has a second for a server; on a busy machine this one may need more."""
    monkeypatch.setattr(silas.agents.models.detection, "_SECONDS", 60.0)


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let requests out, note every address that is connected to, and refuse all but loopback."""
    contacted: list[str] = []
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def check(where: Any) -> None:
        host = where[0] if isinstance(where, tuple) else "127.0.0.1"
        contacted.append(host)
        if not is_loopback(host):
            raise AssertionError(f"a test tried to reach {host}")

    def checked_connect(self: socket.socket, where: Any) -> None:
        check(where)
        connect(self, where)

    def checked_connect_ex(self: socket.socket, where: Any) -> int:
        check(where)
        return connect_ex(self, where)

    monkeypatch.setattr(socket.socket, "connect", checked_connect)
    monkeypatch.setattr(socket.socket, "connect_ex", checked_connect_ex)
    with override_allow_model_requests(True):
        yield contacted
    assert all(is_loopback(host) for host in contacted)
