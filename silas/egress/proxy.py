"""The only way out of a sandbox: a proxy that reaches the listed hosts, and writes down what.

For each request:

1. It is one of two forms: `CONNECT host:port` for a tunnel, `METHOD http://host/...` for a plain
   request. `h11` reads it; what it cannot read is refused.
2. The host is on the list, with this port and this form (`hosts`).
3. The name is resolved once. Every address that it has must be public, and the connection goes to
   one of these addresses; nobody resolves the name again. Where the owner signed an exact address,
   the name is not resolved, and nothing else is dialled.
4. A plain request says the same host in its header, and is written anew, one for each connection.
   A tunnel to the TLS port begins with a ClientHello for the same host (`hosts`).
5. Bytes, requests, connections at once and waiting are limited. Time as a whole is that of the run:
   the proxy ends with it.
6. What was reached and what was refused is counted by host.

`WayOut` is how names are resolved and addresses dialled. Rule 3 is applied to whatever it says.
`Dialer` is for connections of Silas's own: it verifies certificates for the endpoint's host name,
and encryption that begins later (STARTTLS) begins with an empty buffer, so that whatever came
before it is forgotten. `broker` is the same proxy for a run with an account.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import h11

from silas.egress.accounts import Endpoint
from silas.egress.hosts import (
    PLAIN_PORT,
    TLS_PORT,
    EgressRefused,
    HostAndPort,
    is_own,
    parse_authority,
    read_client_hello,
    require_listed,
    require_public,
)
from silas.egress.namespace import PORT
from silas.kernel.models import Data

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_T = TypeVar("_T")

CHUNK = 64 * 1024
_MAX_ADDRESSES = 4
_WAIT_SECONDS = 30.0
_MAX_ANSWER_BYTES = 1024 * 1024
_MAX_HOSTS_NAMED = 100
_UNREADABLE, _OTHERS = "(not a host name)", "(others)"
_SCHEME = "http://"
# They are about one connection, not about the message (RFC 9110, 7.6.1), or about the proxy.
OF_THE_CONNECTION = frozenset(
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
        """A connection to the exact private address that the owner signed."""
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


async def reach(
    way_out: WayOut, wanted: HostAndPort, *, address: str | None = None, wait_seconds: float
) -> Streams:
    """Rule 3; raises `EgressRefused` or `OSError`."""
    if address is not None:
        if not is_own(address):
            raise EgressRefused(f"The address of {wanted} is not one that can be signed.")
        return await _within(way_out.dial_signed(address, wanted.port), wait_seconds)
    addresses = await _within(way_out.resolve(wanted.host, wanted.port), wait_seconds)
    require_public(addresses)
    failure: OSError = OSError("no address answered")
    for found in addresses[:_MAX_ADDRESSES]:
        try:
            return await _within(way_out.dial(found, wanted.port), wait_seconds)
        except OSError as error:
            failure = error
    raise failure


async def _within(work: Awaitable[_T], seconds: float) -> _T:
    async with asyncio.timeout(seconds):
        return await work


@dataclass
class FarLink:
    """A connection to a host outside."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    below: asyncio.StreamWriter | None = None
    """The unencrypted writer; it would close the connection if it were forgotten."""
    encrypting: bool = False
    """The connection belongs to the encrypted link above, or to the attempt to make one."""

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def close(self) -> None:
        if self.below or self.encrypting:
            # There is nobody to wait for: TLS would wait for the other side's farewell.
            self.writer.transport.abort()
        else:
            await close_writer(self.writer)


@dataclass(frozen=True)
class HttpAnswer:
    """What a server answered to a request of Silas's own."""

    status: int
    headers: dict[str, str]
    body: bytes


class Dialer:
    """Opens connections to endpoints, encrypted as each one says."""

    def __init__(
        self,
        way_out: WayOut,
        *,
        trust: ssl.SSLContext | None = None,
        wait_seconds: float = _WAIT_SECONDS,
    ) -> None:
        """`trust` are the authorities whose certificates count; else those of the system."""
        if trust and not (trust.verify_mode == ssl.CERT_REQUIRED and trust.check_hostname):
            raise ValueError("certificates and host names have to be verified")
        self.way_out = way_out
        self.wait_seconds = wait_seconds
        self._given_trust = trust

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        # Read when it is needed: the system's authorities take a while.
        return self._given_trust or ssl.create_default_context()

    async def connect(self, endpoint: Endpoint) -> FarLink:
        """A connection; one with `starttls` is still to be encrypted by `encrypt`."""
        link = FarLink(
            *await reach(
                self.way_out,
                endpoint.at,
                address=endpoint.address,
                wait_seconds=self.wait_seconds,
            )
        )
        return await self.encrypt(link, endpoint.host) if endpoint.tls == "tls" else link

    async def encrypt(self, link: FarLink, host: str) -> FarLink:
        """The same connection, encrypted; closes it if the certificate is not the host's."""
        loop = asyncio.get_running_loop()
        link.encrypting = True
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport = await loop.start_tls(
                link.writer.transport,
                protocol,
                self._trust,
                server_hostname=host,
                ssl_handshake_timeout=self.wait_seconds,
            )
        except BaseException:
            link.writer.transport.abort()
            raise
        if transport is None:  # the connection ended meanwhile
            raise ConnectionResetError("the server ended the connection")
        protocol.connection_made(transport)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        return FarLink(reader, writer, below=link.writer)

    async def fetch(
        self,
        endpoint: Endpoint,
        method: str,
        path: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        body: bytes = b"",
    ) -> HttpAnswer:
        """One request of Silas's own. A redirect is an answer like any other: none is followed."""
        own = [("host", host_header(endpoint)), ("content-length", str(len(body)))]
        request = h11.Request(
            method=method, target=path, headers=[*own, *headers, ("connection", "close")]
        )
        async with asyncio.timeout(self.wait_seconds):
            link = await self.connect(endpoint)
            try:
                return await _exchange(link, request, body)
            finally:
                await link.close()


async def _exchange(link: FarLink, request: h11.Request, body: bytes) -> HttpAnswer:
    http = h11.Connection(h11.CLIENT)
    for sent in (request, h11.Data(data=body), h11.EndOfMessage()):
        await link.send(http.send(sent) or b"")
    received, status, kept = bytearray(), 0, dict[str, str]()
    while not isinstance(event := await next_event(http, link.reader), h11.EndOfMessage):
        if isinstance(event, h11.Response):
            status = event.status_code
            kept = {name.decode(): value.decode("latin-1") for name, value in event.headers}
        elif isinstance(event, h11.Data):
            received += event.data
            if len(received) > _MAX_ANSWER_BYTES:
                raise EgressRefused("The server's answer is too long.")
        elif not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("the answer ends early")
    return HttpAnswer(status, kept, bytes(received))


def host_header(endpoint: Endpoint) -> str:
    """How a request names its host: with the port where it is not the usual one."""
    return endpoint.host if endpoint.port == endpoint.usual_port else str(endpoint.at)


async def next_event(
    http: h11.Connection,
    reader: asyncio.StreamReader,
    count: Callable[[bytes], None] = lambda _data: None,
) -> object:
    while (event := http.next_event()) is h11.NEED_DATA:
        data = await reader.read(CHUNK)
        count(data)
        http.receive_data(data)
    return event


async def close_writer(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


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
class UseCount:
    connections: int = 0
    refused: int = 0
    sent: int = 0
    received: int = 0


class RunMeter:
    """Counts by host, and knows when it is enough (5, 6)."""

    def __init__(self, limits: EgressLimits) -> None:
        self._limits = limits
        self._hosts: dict[str, UseCount] = {}
        self._requests = self._bytes = 0

    def of(self, host: str) -> UseCount:
        """The count of this host; a program that makes up names does not fill the memory."""
        if host not in self._hosts and len(self._hosts) >= _MAX_HOSTS_NAMED:
            host = _OTHERS
        return self._hosts.setdefault(host, UseCount())

    def request(self) -> None:
        self._requests += 1
        if self._requests > self._limits.requests:
            raise EgressRefused(f"The run has made {self._limits.requests} requests: no more.")

    def data(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.total_bytes:
            raise EgressRefused(f"The run has moved {self._limits.total_bytes} bytes: no more.")

    def uses(self) -> tuple[HostUse, ...]:
        return tuple(
            HostUse(host=host, **vars(use))
            for host, use in sorted(self._hosts.items())
            if any(vars(use).values())
        )


class EgressProxy:
    """The way out of one run. It ends with `close`, and every connection with it."""

    def __init__(
        self, hosts: Sequence[str], way_out: WayOut, *, limits: EgressLimits | None = None
    ) -> None:
        self._hosts = tuple(hosts)
        self._way_out = way_out
        self._limits = limits or EgressLimits()
        self._meter = RunMeter(self._limits)
        self._servers: list[asyncio.Server] = []
        self._going_on: set[asyncio.Task[None]] = set()

    @property
    def ports(self) -> tuple[int, ...]:
        """Where the run finds its way out, inside."""
        return (PORT,)

    async def serve(self, listeners: Mapping[int, socket.socket]) -> None:
        """Answer what comes to these sockets from now on, each by its port inside."""
        for listener in listeners.values():
            await self._listen(listener, self._serve)

    async def _listen(self, listener: socket.socket, serve: Serve) -> None:
        """Serve each connection to this socket as a task of its own."""

        def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(self._going_on) >= self._limits.at_once:
                writer.transport.abort()
                return
            task = asyncio.ensure_future(serve(reader, writer))
            self._going_on.add(task)
            task.add_done_callback(self._going_on.discard)

        self._servers.append(await asyncio.start_server(answer, sock=listener))

    async def connect(self) -> Streams:
        """A connection of Silas's own to it, by a pair of sockets that nobody else can reach."""
        ours, theirs = socket.socketpair()
        far = await asyncio.open_connection(sock=theirs)
        task = asyncio.ensure_future(self._serve(*far))
        self._going_on.add(task)
        task.add_done_callback(self._going_on.discard)
        return await asyncio.open_connection(sock=ours)

    async def close(self) -> None:
        """End it; what went through it is complete afterwards."""
        for server in self._servers:
            server.close()
        for task in self._going_on:
            task.cancel()
        await asyncio.gather(*self._going_on, return_exceptions=True)

    def uses(self) -> tuple[HostUse, ...]:
        """What was reached and what was refused, by host."""
        return self._meter.uses()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one request, or one tunnel."""
        client = ProxyClient(reader, writer, self._limits)
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

    async def _carry_out(self, client: "ProxyClient", request: h11.Request) -> None:
        tunnel = request.method == b"CONNECT"
        wanted: HostAndPort | None = None
        try:
            self._meter.request()
            wanted, path = _asked_for(request)
            usual = TLS_PORT if tunnel else PLAIN_PORT
            listed = require_listed(self._hosts, wanted, usual_port=usual)  # 2
            far = await reach(  # 3
                self._way_out,
                wanted,
                address=listed.address,
                wait_seconds=self._limits.wait_seconds,
            )
        except EgressRefused:
            self._meter.of(str(wanted or _UNREADABLE)).refused += 1
            raise
        count = self._meter.of(str(wanted))
        count.connections += 1
        carried = Carried(client, FarLink(*far), self._meter, count)
        try:
            if tunnel:
                await carried.tunnel(wanted)
            else:
                await carried.plain(_rewritten(request, wanted, path), PassedOn())
        except EgressRefused:
            count.refused += 1
            raise
        finally:
            await carried.far.close()


class ProxyClient:
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
        # With both, the next server could see another end of the message (RFC 9112, 6.3).
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in event.headers}:
            raise h11.RemoteProtocolError("the request has two lengths")
        return event

    async def event(self) -> object:
        return await next_event(self._http, self.reader)

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
        await close_writer(self.writer)


@dataclass
class Carried:
    """One request on its way, counted."""

    client: ProxyClient
    far: FarLink
    meter: RunMeter
    count: UseCount

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

    async def plain(self, request: h11.Request, answers: "PassedOn") -> None:
        """Send the request, which was written anew, and pass the answer back (4)."""
        http = h11.Connection(h11.CLIENT)
        await self._send_event(http, request)
        while not isinstance(event := await self.client.event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                raise h11.RemoteProtocolError("the request ends early")
            await self._send_event(http, event)
        await self._send_event(http, h11.EndOfMessage())
        while True:
            event = await next_event(http, self.far.reader, self._received)
            if isinstance(event, h11.InformationalResponse):
                continue
            if not isinstance(event, h11.Response | h11.Data | h11.EndOfMessage):
                raise h11.RemoteProtocolError("the answer ends early")
            for passed in answers.of(event):
                await self.client.send(passed)
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
        return await self.client.reader.read(CHUNK)

    async def _outward(self) -> None:
        while data := await self._read_client():
            await self._send(data)
        if self.far.writer.can_write_eof():
            self.far.writer.write_eof()

    async def _inward(self) -> None:
        while data := await self.far.reader.read(CHUNK):
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
        if name != b"host" and name not in OF_THE_CONNECTION
    ]
    headers = [(b"host", host.encode()), *kept, (b"connection", b"close")]
    return h11.Request(method=request.method, target=path, headers=headers)


class PassedOn:
    """An answer on its way to the program: the same, without what is about the connection."""

    def of(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> Iterator[h11.Event]:
        """What the program gets of one part of the answer."""
        yield self.head(event) if isinstance(event, h11.Response) else event

    def head(self, answer: h11.Response) -> h11.Response:
        kept = [(name, value) for name, value in answer.headers if name not in OF_THE_CONNECTION]
        return h11.Response(
            status_code=answer.status_code,
            headers=[*kept, (b"connection", b"close")],
            reason=answer.reason,
        )
