"""The proxy, spoken to directly: each trick that a program could try, by name."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from silas.egress import PORT, EgressLimits, EgressProxy, PublicNetwork
from silas.egress.hosts import EgressRefused
from tests.egress.loopback import PretendInternetOnLoopback, Served, web_server

LISTED = ("example.org", "example.com:8443")


@asynccontextmanager
async def proxy_to(
    served: Served, limits: EgressLimits | None = None, **names: tuple[str, ...]
) -> AsyncIterator[tuple[EgressProxy, PretendInternetOnLoopback, int]]:
    way = PretendInternetOnLoopback(
        served.port, {name.replace("_", "."): found for name, found in names.items()}
    )
    proxy = EgressProxy(LISTED, way, limits=limits)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    await proxy.serve({PORT: listener})
    try:
        yield proxy, way, port
    finally:
        await proxy.close()


async def say(port: int, *parts: bytes) -> bytes:
    """Send the parts, each after an answer to the one before, and return all that came back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers = b""
    for index, part in enumerate(parts):
        writer.write(part)
        if index < len(parts) - 1:
            answers += await reader.readuntil(b"\r\n\r\n")
    try:
        answers += await reader.read(-1)
    except ConnectionResetError:
        answers += b""
    writer.close()
    return answers


def get(url: str, *headers: str, host: str | None = "example.org") -> bytes:
    lines = [f"GET {url} HTTP/1.1", *([f"Host: {host}"] if host else []), *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def client_hello(name: str) -> bytes:
    """What a real TLS client says first."""
    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(inward, outward, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outward.read()


async def test_a_listed_host_is_reached_and_counted() -> None:
    async with web_server() as served, proxy_to(served) as (proxy, way, port):
        answer = await say(port, get("http://Example.org/a?b", "Proxy-Authorization: secret"))
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"hello")
        (head,) = served.heads
        assert head.startswith(b"GET /a?b HTTP/1.1\r\nhost: example.org\r\n")
        assert b"secret" not in head
        assert b"connection: close" in head.lower()
        assert way.dialled == [("93.184.216.34", 80)]
        assert way.resolved == ["example.org"]
        (use,) = proxy.uses()
        assert (use.host, use.connections, use.refused) == ("example.org:80", 1, 0)
        assert use.sent == len(head)
        assert use.received > 5


async def test_a_tunnel_carries_tls_for_its_host() -> None:
    async with web_server() as served, proxy_to(served) as (_proxy, way, port):
        hello = client_hello("example.org")
        answer = await say(port, b"CONNECT example.org:443 HTTP/1.1\r\nHost: x.y\r\n\r\n", hello)
        assert answer.endswith(b"tls:" + hello[:3])
        assert served.raw == [hello]
        assert way.dialled == [("93.184.216.34", 443)]


async def test_a_port_that_is_listed_carries_anything() -> None:
    async with web_server() as served, proxy_to(served) as (_proxy, way, port):
        await say(port, b"CONNECT example.com:8443 HTTP/1.1\r\nHost: x.y\r\n\r\n", b"SSH-2.0\r\n")
        assert way.dialled == [("93.184.216.34", 8443)]
        assert served.heads == [b"SSH-2.0\r\n"]


REFUSED = {
    "another host": get("http://evil.org/", host="evil.org"),
    "a subdomain": get("http://a.example.org/", host="a.example.org"),
    "a suffix": get("http://example.org.evil.org/", host="example.org.evil.org"),
    "a trailing dot": get("http://example.org./", host="example.org."),
    "userinfo": get("http://example.org@evil.org/", host="evil.org"),
    "userinfo before the listed host": get("http://evil.org@example.org/"),
    "a backslash": get("http://evil.org\\@example.org/"),
    "another port": get("http://example.org:22/", host="example.org:22"),
    "TLS port with a plain request": get("http://example.org:443/", host="example.org:443"),
    "an address": get("http://127.0.0.1/", host="127.0.0.1"),
    "an address as a number": get("http://2130706433/", host="2130706433"),
    "an address in hexadecimal": get("http://0x7f000001/", host="0x7f000001"),
    "an address in octal": get("http://0177.0.0.1/", host="0177.0.0.1"),
    "an IPv4 address in an IPv6 one": get("http://[::ffff:127.0.0.1]/", host="[::ffff:127.0.0.1]"),
    "an IPv6 address": get("http://[::1]/", host="[::1]"),
    "another scheme": get("https://example.org/"),
    "a file": get("file:///etc/passwd"),
    "origin form": get("/"),
    "a fragment": get("http://example.org/#@evil.org"),
    "another host in the header": get("http://example.org/", host="evil.org"),
    "a tunnel to another host": b"CONNECT evil.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "a tunnel to the plain port": b"CONNECT example.org:80 HTTP/1.1\r\nHost: a.b\r\n\r\n",
    "a tunnel without a port": b"CONNECT example.org HTTP/1.1\r\nHost: a.b\r\n\r\n",
    "a tunnel to the metadata": b"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: a.b\r\n\r\n",
}
UNREADABLE = {
    "a NUL": get("http://example.org\0.evil.org/"),
    "a name that is not ASCII": get("http://ex\u00e4mple.org/"),
    "two headers Host": get("http://example.org/", "Host: evil.org"),
    "a folded header": get("http://example.org/", "X: a\r\n Host: evil.org\r\nbad header"),
    "two lengths": get("http://example.org/", "Content-Length: 1", "Content-Length: 2"),
    "a length beside chunks": get(
        "http://example.org/", "Content-Length: 6", "Transfer-Encoding: chunked"
    )
    + b"0\r\n\r\nGET /",
    "HTTP/0.9": b"GET http://example.org/\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x00\x05hello\r\n\r\n",
    "a head without end": b"GET http://example.org/ HTTP/1.1\r\nX: " + b"a" * 70_000,
}


@pytest.mark.parametrize("trick", [*REFUSED, *UNREADABLE])
async def test_a_request_with_a_trick_reaches_nothing(trick: str) -> None:
    async with web_server() as served, proxy_to(served) as (proxy, way, port):
        answer = await say(port, {**REFUSED, **UNREADABLE}[trick])
        assert answer.startswith(b"HTTP/1.1 403 " if trick in REFUSED else b"HTTP/1.1 400 ")
        assert not way.dialled
        assert not way.resolved
        assert not served.heads
        assert sum(use.refused for use in proxy.uses()) == (trick in REFUSED)


@pytest.mark.parametrize(
    "addresses", [("127.0.0.1",), ("93.184.216.34", "10.0.0.1"), ("::ffff:127.0.0.1",), ()]
)
async def test_a_listed_name_with_a_private_address_is_not_dialled(
    addresses: tuple[str, ...],
) -> None:
    async with web_server() as served, proxy_to(served, example_org=addresses) as (_, way, port):
        assert (await say(port, get("http://example.org/"))).startswith(b"HTTP/1.1 403 ")
        assert way.resolved == ["example.org"]
        assert not way.dialled


TUNNELS = {
    "TLS for another host": client_hello("evil.org"),
    "TLS for a subdomain": client_hello("a.example.org"),
    "plain HTTP": get("http://evil.org/"),
    "another protocol": b"SSH-2.0-x\r\n",
    "an alert instead of a greeting": b"\x15\x03\x01\x00\x02\x01\x00" + b"\0" * 20,
    "a greeting that is cut": b"\x16\x03\x01\x00\x06\x01\x00\x00\x02\x03\x03",
    "a server's greeting": b"\x16\x03\x01\x00\x06\x02\x00\x00\x02\x03\x03",
}


@pytest.mark.parametrize("trick", TUNNELS)
async def test_a_tunnel_for_another_purpose_carries_nothing(trick: str) -> None:
    async with web_server() as served, proxy_to(served) as (proxy, _way, port):
        opening = b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n"
        answer = await say(port, opening, TUNNELS[trick])
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"hello" not in answer
        assert not served.heads
        assert all(not each for each in served.raw)
        assert [(use.refused, use.sent) for use in proxy.uses()] == [(1, 0)]


async def test_one_request_for_each_connection() -> None:
    async with web_server() as served, proxy_to(served) as (_proxy, _way, port):
        both = get("http://example.org/1") + get("http://evil.org/2", host="evil.org")
        await say(port, both)
        assert len(served.heads) == 1
        assert b"evil" not in served.heads[0]


async def test_a_redirect_is_the_programs_own_business() -> None:
    """The proxy passes it on and follows nothing; the next request is judged like the first."""
    elsewhere = b"HTTP/1.1 302 Found\r\nLocation: http://evil.org/\r\nContent-Length: 0\r\n\r\n"
    async with web_server(elsewhere) as served, proxy_to(served) as (_proxy, way, port):
        assert b"302" in await say(port, get("http://example.org/"))
        assert way.resolved == ["example.org"]


async def test_bytes_and_requests_are_limited() -> None:
    limits = EgressLimits(requests=2, total_bytes=300)
    async with web_server() as served, proxy_to(served, limits) as (_proxy, _way, port):
        assert b" 403 " in await say(port, get("http://example.org/", f"X: {'a' * 400}"))
        assert not served.heads or b"" in served.heads
        assert b" 403 " in await say(port, get("http://example.org/"))
        refused = await say(port, get("http://example.org/"))
        assert b"2 requests" in refused


async def test_connections_at_once_are_limited() -> None:
    async with web_server() as served, proxy_to(served, EgressLimits(at_once=1)) as (_, _way, port):
        _reader, waiting = await asyncio.open_connection("127.0.0.1", port)
        waiting.write(b"GET ")
        await waiting.drain()
        assert await say(port, get("http://example.org/")) == b""
        waiting.close()


async def test_a_program_that_says_nothing_is_not_waited_for() -> None:
    limits = EgressLimits(wait_seconds=0.01)
    async with web_server() as served, proxy_to(served, limits) as (_proxy, _way, port):
        assert (await say(port, b"GET ")).startswith(b"HTTP/1.1 504 ")


async def test_this_machine_is_not_reached_by_its_own_address() -> None:
    """Also a public address can be our own; the address is not refused here, but the connection."""
    async with web_server() as served:
        with pytest.raises(EgressRefused, match="this machine"):
            await PublicNetwork().dial("127.0.0.1", served.port)


async def test_made_up_names_do_not_fill_the_memory() -> None:
    async with web_server() as served, proxy_to(served) as (proxy, _way, port):
        for number in range(105):
            await say(port, get(f"http://a{number}.org/", host=f"a{number}.org"))
        assert len(proxy.uses()) == 101
        assert proxy.uses()[0].refused == 5


async def test_a_service_at_home_is_reached_at_the_address_that_was_signed_and_at_no_other() -> (
    None
):
    async with web_server() as served:
        entry = f"nas.home.arpa:{served.port}@127.0.0.1"
        proxy = EgressProxy((entry,), PublicNetwork())
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        await proxy.serve({PORT: listener})
        try:
            here, other = f"nas.home.arpa:{served.port}", f"nas.home.arpa:{port}"
            answer = await say(port, get(f"http://{here}/a", host=here))
            assert answer.endswith(b"hello")
            refused = await say(port, get(f"http://{other}/a", host=other))
            assert refused.startswith(b"HTTP/1.1 403 ")
            bare = f"127.0.0.1:{served.port}"
            assert (await say(port, get(f"http://{bare}/a", host=bare))).startswith(b"HTTP/1.1 403")
        finally:
            await proxy.close()
        assert len(served.heads) == 1
        assert {each.host: each.connections for each in proxy.uses()}[here] == 1


async def test_a_name_that_leads_home_is_refused_unless_its_address_was_signed() -> None:
    async with web_server() as served, proxy_to(served, example_org=("192.168.1.20",)) as open_:
        _, way, port = open_
        answer = await say(port, get("http://example.org/"))
        assert b"192.168.1.20 is not on the public network" in answer
        assert way.dialled == []
