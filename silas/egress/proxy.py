"""The only way out of a sandbox: a proxy that reaches the listed hosts, and writes down what.

For each request:

1. It is one of two forms: `CONNECT host:port` for a tunnel, `METHOD http://host/...` for a plain
   request. `h11` reads it; what it cannot read is refused.
2. The host is on the list, with this port and this form (`hosts`).
3. The name is resolved once. Every address that it has must be public, and the connection goes to
   one of these addresses; nobody resolves the name again. A host that the list names with its
   address is not resolved: the connection goes there.
4. A plain request says the same host in its header, and is written anew, one for each connection.
   A tunnel to the TLS port begins with a ClientHello for the same host (`hosts`).
5. Bytes, requests, connections at once and waiting are limited. Time as a whole is that of the run:
   the proxy ends with it.
6. What was reached and what was refused is counted by host.

`WayOut` is how names are resolved and addresses dialled. Rule 3 is applied to whatever it says.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

import h11

from silas.egress.hosts import (
    PLAIN_PORT,
    TLS_PORT,
    EgressRefused,
    HostAndPort,
    parse_authority,
    read_client_hello,
    require_listed,
    require_public,
)
from silas.kernel.models import Data

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_T = TypeVar("_T")

_CHUNK = 64 * 1024
_MAX_ADDRESSES = 4
_MAX_HOSTS_NAMED = 100
_UNREADABLE, _OTHERS = "(not a host name)", "(others)"
_SCHEME = "http://"
# They are about one connection, not about the message (RFC 9110, 7.6.1), or about the proxy.
_OF_THE_CONNECTION = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization"),
        *(b"proxy-connection", b"te", b"trailer", b"upgrade", b"expect"),
    }
)


class WayOut(Protocol):
    """How the proxy reaches the network."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name."""
        ...

    async def dial(self, address: str, port: int) -> Streams:
        """A connection to an address that was checked."""
        ...

    async def dial_signed(self, address: str, port: int) -> Streams:
        """A connection to an address, public or not, that stands in the list."""
        ...


class PublicNetwork:
    """The network of this machine."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[4][0]) for address in found))

    async def dial(self, address: str, port: int) -> Streams:
        reader, writer = await asyncio.open_connection(address, port)
        # A public address can be this machine's own, with services that are for it alone.
        own, other = (writer.get_extra_info(name) for name in ("sockname", "peername"))
        if own is None or other is None or own[0] == other[0]:
            writer.close()
            raise EgressRefused("The host's address is that of this machine.")
        return reader, writer

    async def dial_signed(self, address: str, port: int) -> Streams:
        return await asyncio.open_connection(address, port)


class EgressLimits(Data):
    """How much one run may use of the network."""

    requests: int = 2000
    at_once: int = 64
    total_bytes: int = 1024 * 1024 * 1024
    head_bytes: int = 64 * 1024
    wait_seconds: float = 30.0
    """For the head of a request, for a name, and for a connection, each."""


class HostUse(Data):
    """What a run did with one host: `connections` were made, `refused` were not."""

    host: str
    connections: int = 0
    refused: int = 0
    sent: int = 0
    received: int = 0


@dataclass
class _Count:
    connections: int = 0
    refused: int = 0
    sent: int = 0
    received: int = 0


class _Meter:
    """Counts by host, and knows when it is enough (5, 6)."""

    def __init__(self, limits: EgressLimits) -> None:
        self._limits = limits
        self._hosts: dict[str, _Count] = {}
        self._requests = self._bytes = 0

    def of(self, host: str) -> _Count:
        """The count of this host; a program that makes up names does not fill the memory."""
        if host not in self._hosts and len(self._hosts) >= _MAX_HOSTS_NAMED:
            host = _OTHERS
        return self._hosts.setdefault(host, _Count())

    def request(self) -> None:
        self._requests += 1
        if self._requests > self._limits.requests:
            raise EgressRefused(f"The run has made {self._limits.requests} requests: no more.")

    def data(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.total_bytes:
            raise EgressRefused(f"The run has moved {self._limits.total_bytes} bytes: no more.")

    def uses(self) -> tuple[HostUse, ...]:
        return tuple(HostUse(host=host, **vars(use)) for host, use in sorted(self._hosts.items()))


class EgressProxy:
    """The way out of one run. It ends with `close`, and every connection with it."""

    def __init__(
        self, hosts: Sequence[str], way_out: WayOut, *, limits: EgressLimits | None = None
    ) -> None:
        self._hosts = tuple(hosts)
        self._way_out = way_out
        self._limits = limits or EgressLimits()
        self._meter = _Meter(self._limits)
        self._server: asyncio.Server | None = None
        self._going_on: set[asyncio.Task[None]] = set()

    async def serve(self, listener: socket.socket) -> None:
        """Answer what comes to this socket from now on."""
        self._server = await asyncio.start_server(self._answer, sock=listener)

    async def close(self) -> None:
        """End it; what went through it is complete afterwards."""
        if self._server is not None:
            self._server.close()
        for task in self._going_on:
            task.cancel()
        await asyncio.gather(*self._going_on, return_exceptions=True)

    def uses(self) -> tuple[HostUse, ...]:
        """What was reached and what was refused, by host."""
        return self._meter.uses()

    def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._going_on) >= self._limits.at_once:
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._serve(_Client(reader, writer, self._limits)))
        self._going_on.add(task)
        task.add_done_callback(self._going_on.discard)

    async def _serve(self, client: "_Client") -> None:
        """One connection: one request, or one tunnel."""
        try:
            request = await client.request()
            await self._carry_out(client, request)
        except EgressRefused as refused:
            await client.refuse(403, str(refused))
        except (h11.RemoteProtocolError, h11.LocalProtocolError, UnicodeDecodeError):
            await client.refuse(400, "The proxy cannot read this request.")
        except TimeoutError:
            await client.refuse(504, "It took too long.")
        except OSError as error:
            await client.refuse(502, f"The host cannot be reached: {error.strerror or error}.")
        finally:
            await client.close()

    async def _carry_out(self, client: "_Client", request: h11.Request) -> None:
        tunnel = request.method == b"CONNECT"
        wanted: HostAndPort | None = None
        try:
            self._meter.request()
            wanted, path = _asked_for(request)
            usual = TLS_PORT if tunnel else PLAIN_PORT
            listed = require_listed(self._hosts, wanted, usual_port=usual)  # 2
            far = await self._reach(wanted, listed.address)
        except EgressRefused:
            self._meter.of(str(wanted or _UNREADABLE)).refused += 1
            raise
        count = self._meter.of(str(wanted))
        count.connections += 1
        carried = _Carried(client, _Far(*far), self._meter, count)
        try:
            await (carried.tunnel(wanted) if tunnel else carried.plain(request, wanted, path))
        except EgressRefused:
            count.refused += 1
            raise
        finally:
            await carried.far.close()

    async def _reach(self, wanted: HostAndPort, signed: str | None) -> Streams:
        """Rule 3."""
        if signed is not None:
            return await self._within(self._way_out.dial_signed(signed, wanted.port))
        addresses = await self._within(self._way_out.resolve(wanted.host, wanted.port))
        require_public(addresses)
        failure: OSError = OSError("no address answered")
        for address in addresses[:_MAX_ADDRESSES]:
            try:
                return await self._within(self._way_out.dial(address, wanted.port))
            except OSError as error:
                failure = error
        raise failure

    async def _within(self, work: Awaitable[_T]) -> _T:
        async with asyncio.timeout(self._limits.wait_seconds):
            return await work


class _Client:
    """The program inside, as `h11` understands it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: EgressLimits
    ) -> None:
        self.reader, self.writer = reader, writer
        self._limits = limits
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head_bytes)

    async def request(self) -> h11.Request:
        async with asyncio.timeout(self._limits.wait_seconds):
            event = await self.event()
        if not isinstance(event, h11.Request):
            raise h11.RemoteProtocolError("no request")
        return event

    async def event(self) -> object:
        return await _next_event(self._http, self.reader)

    async def send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self.writer.write(data)
            await self.writer.drain()

    async def become_tunnel(self) -> bytes:
        """Say yes to CONNECT; returns what was already sent into the tunnel."""
        await self.send(h11.Response(status_code=200, headers=[], reason=b"Connected"))
        data, _ = self._http.trailing_data
        return data

    async def refuse(self, status: int, reason: str) -> None:
        """Answer if that is still possible, else end the connection without a word."""
        body = f"Silas: {reason}\n".encode()
        headers = [
            ("content-type", "text/plain; charset=utf-8"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        with suppress(h11.ProtocolError, OSError):
            await self.send(h11.Response(status_code=status, headers=headers))
            await self.send(h11.Data(data=body))
            await self.send(h11.EndOfMessage())

    async def close(self) -> None:
        await _close(self.writer)


@dataclass
class _Far:
    """The host outside."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def close(self) -> None:
        await _close(self.writer)


@dataclass
class _Carried:
    """One request on its way, counted."""

    client: _Client
    far: _Far
    meter: _Meter
    count: _Count

    async def tunnel(self, wanted: HostAndPort) -> None:
        first = await self.client.become_tunnel()
        if wanted.port == TLS_PORT:
            first = await read_client_hello(first, self._read_client, host=wanted.host)  # 4
        await self._send(first)
        both = [asyncio.ensure_future(way) for way in (self._outward(), self._inward())]
        try:
            await asyncio.gather(*both)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def plain(self, request: h11.Request, wanted: HostAndPort, path: str) -> None:
        """Write the request anew, and pass the answer back (4)."""
        http = h11.Connection(h11.CLIENT)
        await self._send_event(http, _rewritten(request, wanted, path))
        while not isinstance(event := await self.client.event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                raise h11.RemoteProtocolError("the request ends early")
            await self._send_event(http, event)
        await self._send_event(http, h11.EndOfMessage())
        while True:
            event = await _next_event(http, self.far.reader, self._received)
            if isinstance(event, h11.InformationalResponse):
                continue
            if isinstance(event, h11.Response):
                event = _answer_rewritten(event)
            if not isinstance(event, h11.Response | h11.Data | h11.EndOfMessage):
                raise h11.RemoteProtocolError("the answer ends early")
            await self.client.send(event)
            if isinstance(event, h11.EndOfMessage):
                return

    async def _send_event(self, http: h11.Connection, event: h11.Event) -> None:
        await self._send(http.send(event) or b"")

    async def _send(self, data: bytes) -> None:
        self.meter.data(len(data))
        self.count.sent += len(data)
        self.far.writer.write(data)
        await self.far.writer.drain()

    def _received(self, data: bytes) -> None:
        self.meter.data(len(data))
        self.count.received += len(data)

    async def _read_client(self) -> bytes:
        return await self.client.reader.read(_CHUNK)

    async def _outward(self) -> None:
        while data := await self._read_client():
            await self._send(data)
        if self.far.writer.can_write_eof():
            self.far.writer.write_eof()

    async def _inward(self) -> None:
        while data := await self.far.reader.read(_CHUNK):
            self._received(data)
            self.client.writer.write(data)
            await self.client.writer.drain()
        if self.client.writer.can_write_eof():
            self.client.writer.write_eof()


def _asked_for(request: h11.Request) -> tuple[HostAndPort, str]:
    """The host that a request is for, and the path that is asked of it (1)."""
    target = request.target.decode("ascii")
    if request.method == b"CONNECT":
        return parse_authority(target), ""
    if not target.lower().startswith(_SCHEME):
        raise EgressRefused("Ask for http://HOST/PATH, or open a tunnel with CONNECT HOST:PORT.")
    authority, slash, path = target[len(_SCHEME) :].partition("/")
    if "#" in target:
        raise EgressRefused("A request has no fragment.")
    wanted = parse_authority(authority, default_port=PLAIN_PORT)
    for name, value in request.headers:
        if name == b"host" and parse_authority(value.decode("ascii"), default_port=80) != wanted:
            raise EgressRefused("The header Host names another host than the request.")
    return wanted, slash + path if slash else "/"


def _rewritten(request: h11.Request, wanted: HostAndPort, path: str) -> h11.Request:
    host = wanted.host if wanted.port == PLAIN_PORT else str(wanted)
    kept = [
        (name, value)
        for name, value in request.headers
        if name != b"host" and name not in _OF_THE_CONNECTION
    ]
    headers = [(b"host", host.encode()), *kept, (b"connection", b"close")]
    return h11.Request(method=request.method, target=path, headers=headers)


def _answer_rewritten(answer: h11.Response) -> h11.Response:
    kept = [(name, value) for name, value in answer.headers if name not in _OF_THE_CONNECTION]
    return h11.Response(
        status_code=answer.status_code,
        headers=[*kept, (b"connection", b"close")],
        reason=answer.reason,
    )


async def _next_event(
    http: h11.Connection,
    reader: asyncio.StreamReader,
    count: Callable[[bytes], None] = lambda _data: None,
) -> object:
    while (event := http.next_event()) is h11.NEED_DATA:
        data = await reader.read(_CHUNK)
        count(data)
        http.receive_data(data)
    return event


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
