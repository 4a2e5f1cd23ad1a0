"""Commands with hosts to reach, in real sandboxes: what they reach, and what they do not."""

import contextlib
import os
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from silas.kernel import visible
from silas.sandbox import (
    CannotContain,
    SandboxLimits,
    SandboxNotStarted,
    SandboxRequest,
    python_executable,
)
from silas.sandbox.bubblewrap import BubblewrapBackend, SubprocessBackend
from silas.sandbox.models import UNSAFE_NO_BOUNDARY
from tests.egress.loopback import PretendInternetOnLoopback, web_server
from tests.sandbox.installed import require_backend

KINDS = {"bubblewrap": BubblewrapBackend, "subprocess": SubprocessBackend}
LISTED = ("example.org", "example.com")


@pytest.fixture(params=list(KINDS))
async def backend_kind(request):
    await require_backend(request.param, request)
    return KINDS[request.param]


@contextlib.asynccontextmanager
async def standing_in(kind, answer: bytes | None = None) -> AsyncIterator[tuple]:
    """A backend whose internet is one server on loopback."""
    async with web_server(answer) as served:
        way = PretendInternetOnLoopback(served.port)
        yield kind(way_out=way), way, served


def program(text: str, *arguments: str, hosts=LISTED, **fields) -> SandboxRequest:
    return SandboxRequest(
        argv=(python_executable(), "-I", "-S", "-c", text, *arguments),
        network=hosts,
        limits=SandboxLimits(wall_seconds=30),
        require=UNSAFE_NO_BOUNDARY,
        **fields,
    )


GET = """
import sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=10).read())
except OSError as error:
    print(error)
"""


async def test_a_listed_host_is_reached_and_told(backend_kind):
    async with standing_in(backend_kind) as (backend, way, served):
        result = await backend.run(program(GET, "http://example.org/a"))
        assert (result.stdout, result.exit_code) == (b"b'hello'\n", 0), visible(str(result.stderr))
        assert way.dialled == [("93.184.216.34", 80)]
        assert len(served.heads) == 1
        (use,) = result.network
        assert (use.host, use.connections, use.refused) == ("example.org:80", 1, 0)


async def test_another_host_is_refused_and_told(backend_kind):
    async with standing_in(backend_kind) as (backend, way, _served):
        result = await backend.run(program(GET, "http://evil.org/"))
        assert b"403" in result.stdout
        assert not way.resolved
        assert [(use.host, use.refused) for use in result.network] == [("evil.org:80", 1)]


async def test_a_redirect_to_another_host_ends_at_the_proxy(backend_kind):
    away = b"HTTP/1.1 302 Found\r\nLocation: http://evil.org/\r\nContent-Length: 0\r\n\r\n"
    async with standing_in(backend_kind, away) as (backend, way, _served):
        result = await backend.run(program(GET, "http://example.org/"))
        assert b"403" in result.stdout
        assert way.resolved == ["example.org"]


async def test_an_environment_of_the_plan_does_not_hide_the_way_out(backend_kind):
    env = {"http_proxy": "http://127.0.0.1:1", "NO_PROXY": "*", "no_proxy": "*"}
    async with standing_in(backend_kind) as (backend, _way, _served):
        result = await backend.run(program(GET, "http://example.org/", env=env))
        assert result.stdout == b"b'hello'\n"


RAW = """
import socket, sys
kind, *where = sys.argv[1:]
try:
    if kind == "tcp":
        family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as s:
            s.settimeout(5); s.connect((where[0], int(where[1]))); print("REACHED")
    elif kind == "udp":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(5); s.connect((where[0], int(where[1]))); s.send(b"x"); s.send(b"x")
            s.recv(1); print("REACHED")
    elif kind == "abstract":
        with socket.socket(socket.AF_UNIX) as s:
            s.connect("\\0" + where[0]); print("REACHED")
    elif kind == "dns":
        print("REACHED", socket.getaddrinfo(where[0], 80))
except OSError as error:
    print("no:", error)
"""


@contextlib.contextmanager
def listening(family: int, address) -> Iterator[tuple[socket.socket, list[object]]]:
    """A service of the host, and who came."""
    came: list[object] = []
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind(address)
        server.listen()
        server.settimeout(0.2)

        def accept() -> None:
            with contextlib.suppress(OSError):
                came.append(server.accept()[0].close())

        thread = threading.Thread(target=accept)
        thread.start()
        yield server, came
        thread.join()


@pytest.mark.parametrize("hosts", [(), LISTED], ids=["without", "with hosts"])
async def test_a_service_on_the_hosts_loopback_is_not_reached(backend_kind, hosts):
    async with standing_in(backend_kind) as (backend, _way, _served):
        # An address of its own: a browser of another test that tries an old port again is not it.
        with listening(socket.AF_INET, ("127.0.0.77", 0)) as (server, came):
            port = str(server.getsockname()[1])
            result = await backend.run(program(RAW, "tcp", "127.0.0.77", port, hosts=hosts))
        assert b"REACHED" not in result.stdout
        assert not came


@pytest.mark.parametrize("hosts", [(), LISTED], ids=["without", "with hosts"])
async def test_an_abstract_socket_of_the_host_is_not_reached(backend_kind, hosts):
    async with standing_in(backend_kind) as (backend, _way, _served):
        name = f"silas-test-{os.getpid()}-{id(backend)}"
        with listening(socket.AF_UNIX, f"\0{name}") as (_server, came):
            result = await backend.run(program(RAW, "abstract", name, hosts=hosts))
        assert b"REACHED" not in result.stdout
        assert not came


@pytest.mark.parametrize(
    "where",
    [
        ("tcp", "169.254.169.254", "80"),
        ("tcp", "93.184.216.34", "80"),
        ("tcp", "10.0.0.1", "80"),
        ("tcp", "fd00:ec2::254", "80"),
        ("udp", "127.0.0.53", "53"),
        ("udp", "8.8.8.8", "53"),
        ("dns", "example.org"),
    ],
    ids=" ".join,
)
async def test_nothing_is_reached_past_the_proxy(backend_kind, where):
    async with standing_in(backend_kind) as (backend, way, _served):
        result = await backend.run(program(RAW, *where))
        assert b"no:" in result.stdout, result
        assert not way.dialled
        assert not result.network


async def test_the_proxy_ends_with_the_command(backend_kind):
    async with standing_in(backend_kind) as (backend, way, _served):
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(2):
            await backend.run(program(GET, "http://example.org/"))
        assert len(way.dialled) == 2
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2  # the orphan killer's, once


async def test_without_hosts_nobody_listens_inside(backend_kind):
    async with standing_in(backend_kind) as (backend, _way, _served):
        result = await backend.run(program(RAW, "tcp", "127.0.0.1", "3128", hosts=()))
        assert b"REACHED" not in result.stdout


async def test_no_namespace_no_run(backend_kind, monkeypatch):
    """If the way out cannot be opened inside, the command does not run at all."""

    async def refused(_pid: int, *_ports: int) -> dict[int, socket.socket]:
        raise OSError("the command has no network namespace of its own")

    monkeypatch.setattr("silas.sandbox.command_run.listen_in_namespace_of", refused)
    async with standing_in(backend_kind) as (backend, _way, _served):
        with pytest.raises(CannotContain, match="nothing was run"):
            await backend.run(program("print('ran')"))


async def test_a_sandbox_that_was_not_built_says_why_and_not_that_its_network_is_open(request):
    await require_backend("bubblewrap", request)
    with pytest.raises(SandboxNotStarted, match="bwrap"):
        await BubblewrapBackend().run(program("print('ran')", cwd="/tmp/absent"))
