"""A broker whose internet is on loopback, spoken to as code in a sandbox would speak to it."""

import asyncio
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from silas.egress import (
    BrokeredAccount,
    CredentialRef,
    EgressLimits,
    Endpoint,
    Narrowing,
    Tier,
    WayOut,
)
from silas.egress.broker import BrokerSession, CredentialBroker
from silas.testing.fakes import FakeClock, MemoryVault
from tests.egress.loopback import PUBLIC
from tests.servers.certificates import certificates

PASSWORD_REF, TOKEN_REF = "conn_1/password", "conn_1/token"
LOOPBACK = "127.0.0.1"


def canary() -> str:
    """A credential that is found nowhere else."""
    return f"canary-{secrets.token_hex(16)}"


@dataclass
class HostsOnLoopback:
    """Stands in for `PublicNetwork`: each name has a public address, and a server of the test."""

    ports: dict[str, int]
    resolved: list[str] = field(default_factory=list)
    dialled: list[tuple[str, int]] = field(default_factory=list)
    answers: dict[str, Sequence[str]] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.resolved.append(host)
        if host in self.answers:
            return self.answers[host]
        address = f"{PUBLIC.rpartition('.')[0]}.{1 + list(self.ports).index(host)}"
        self._names[address] = host
        return [address]

    async def dial(
        self, address: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.dialled.append((address, port))
        return await asyncio.open_connection(LOOPBACK, self.ports[self._names[address]])

    async def dial_signed(
        self, address: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.dialled.append((address, port))
        return await asyncio.open_connection(address, port)


def account(
    *endpoints: Endpoint,
    tier: Tier = Tier.OBSERVE,
    credential: CredentialRef | None = None,
    narrowed: Narrowing | None = None,
) -> BrokeredAccount:
    return BrokeredAccount(
        connection_id="conn_1",
        endpoints=endpoints,
        tier=tier,
        credential=credential or CredentialRef(kind="bearer", ref_id=TOKEN_REF),
        narrowed=narrowed or Narrowing(),
    )


@dataclass
class Brokered:
    """A session with the ports at which it answers, by its ports inside of a sandbox."""

    session: BrokerSession
    ports: dict[int, int]
    vault: MemoryVault

    async def say(self, data: bytes, *, port: int = 3128) -> bytes:
        """Send this, and return all that came back."""
        reader, writer = await asyncio.open_connection(LOOPBACK, self.ports[port])
        writer.write(data)
        try:
            return await asyncio.wait_for(reader.read(-1), 90)
        except ConnectionResetError:
            return b""
        finally:
            writer.transport.abort()

    def refused(self) -> int:
        return sum(use.refused for use in self.session.uses())


@asynccontextmanager
async def brokered(
    used: BrokeredAccount,
    way_out: WayOut,
    secret: str,
    *,
    hosts: Sequence[str] = (),
    limits: EgressLimits | None = None,
    trust: ssl.SSLContext | None = None,
    clock: FakeClock | None = None,
    prepare: Callable[[MemoryVault], None] = lambda _vault: None,
) -> AsyncIterator[Brokered]:
    """The broker with one run, whose vault has the secret for every kind of credential."""
    vault = MemoryVault()
    for ref in (PASSWORD_REF, TOKEN_REF):
        vault.set(ref, secret.encode())
    prepare(vault)
    broker = CredentialBroker(
        vault,
        way_out,
        clock=clock or FakeClock(),
        trust=trust or certificates().client_context(),
        limits=limits or EgressLimits(wait_seconds=60),
    )
    session = broker.session(used, hosts=hosts)
    listeners = {port: socket.create_server((LOOPBACK, 0)) for port in session.ports}
    for listener in listeners.values():
        listener.setblocking(False)
    ports = {port: listener.getsockname()[1] for port, listener in listeners.items()}
    await session.serve(listeners)
    try:
        yield Brokered(session, ports, vault)
    finally:
        await session.close()
