"""A network that exists on loopback alone: names and public addresses that lead to test servers."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

PUBLIC = "93.184.216.34"


@dataclass
class PretendInternetOnLoopback:
    """Stands in for `PublicNetwork`: every public address is a server of the test."""

    port: int
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    resolved: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.resolved.append(host)
        return self.names.get(host, (PUBLIC,))

    async def dial(
        self, address: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.dialled.append((address, port))
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def dial_signed(
        self, address: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """What was signed is real, here as well."""
        return await asyncio.open_connection(address, port)


@dataclass
class Served:
    """A server that was reached, and what it was sent."""

    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def web_server(answer: bytes | None = None) -> AsyncIterator[Served]:
    """Answers every request with 200, or as told, and notes its head; echoes what is no HTTP."""
    served, writers = Served(), list[asyncio.StreamWriter]()
    told = answer or b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        first = await reader.read(65536)
        if first[:1] in (b"\x16", b""):
            served.raw.append(first)
            writer.write(b"tls:" + first[:3])
        else:
            served.heads.append(first)
            writer.write(told)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    served.port = server.sockets[0].getsockname()[1]
    async with server:
        yield served
    for writer in writers:
        writer.transport.abort()
