"""Which hosts a run may reach: how they are written, how a request names one, and what addresses.

1. A host is written as its ASCII name in lower case, with a dot in it and without one at the end:
   `pypi.org`, `xn--bcher-kva.example`. Addresses are not names. There are no patterns.
2. Without a port, a host is reached on 443 (a TLS tunnel) and 80 (plain requests). With one
   (`example.org:8443`), on that port alone.
3. A name that a program sends is compared after nothing but ASCII lower-casing. What rule 1 does
   not allow is not repaired: it is on no list.
4. A name is reached only at public addresses. If one of its addresses is not public, none of them
   is used: such an answer is how a name is turned against the machine or its network.
   A service at home or on this machine is listed with its port and its address
   (`nas.home.arpa:3000@192.168.1.20`): whoever signs the list signs the three of them. The name is
   not resolved then, and nothing but this address and port is reached. Addresses of a link, of a
   cloud's own services and of groups are never listed.
5. The first bytes of a tunnel to the TLS port are a ClientHello, which names exactly one host
   (RFC 6066): the one that the tunnel was opened for. Anything else is refused. A tunnel to a
   listed host that is served by a large provider could otherwise be opened for one of the
   provider's other customers: the address is the same, and the name inside decides.
6. A ClientHello that hides the true name (Encrypted Client Hello) is refused.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

PLAIN_PORT, TLS_PORT = 80, 443
MAX_HOSTS = 50

_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
# The last label begins with a letter: 127.1, 0x7f.1 and the like are addresses to a resolver.
_NAME = re.compile(rf"(?=.{{4,253}}\Z)(?:{_LABEL}\.)+[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?", re.ASCII)
_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_LIST_THEM = (
    "must be a list of hosts, such as [pypi.org, files.pythonhosted.org]; "
    "the whole network cannot be asked for"
)
_WRITE_IT = (
    "must be a host name in lower case such as `pypi.org` or `example.org:8443`: "
    "no address, no scheme, no pattern, and names with other letters in their form `xn--…`"
)
_AT_HOME = (
    "names an address that is not one of your own network or of this machine: write "
    "`nas.home.arpa:3000@192.168.1.20`, with the port, and leave public addresses out"
)

# What IANA's registries of special-purpose addresses do not call globally reachable, what is
# multicast, and the one public address at which a cloud answers its own machines (Azure).
_NOT_PUBLIC_4 = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
            *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24"),
            *("192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24"),
            *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4"),
            *("240.0.0.0/4", "168.63.129.16/32"),
        ),
    )
)
# Everything that is public lies here, so neither loopback, unique local, link-local, multicast and
# mapped addresses nor NAT64 have to be listed. In it lie the ways to embed another address
# (Teredo, 6to4), and documentation.
_PUBLIC_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"))
)
# What an owner can sign: private networks, the shared one that some private networks use, and this
# machine. Clouds answer their own machines at addresses inside of two of them.
_OWN = tuple(
    map(
        IPv4Network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8"),
    )
)
_OWN_6 = tuple(map(IPv6Network, ("fc00::/7", "::1/128")))
_OF_CLOUDS = frozenset(map(ip_address, ("100.100.100.200", "fd00:ec2::254", "fd20:ce::254")))


class EgressRefused(Exception):
    """The way out is closed for a request; the text is the answer to the program that asked."""


@dataclass(frozen=True)
class HostAndPort:
    """A host and a port, as a program asked for them."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class ListedHost:
    """One entry of a list."""

    name: str
    port: int | None = None
    """None: the usual ports."""
    address: str | None = None
    """Where a service is that is not on the public network."""

    @classmethod
    def parse(cls, entry: str) -> "ListedHost":
        """Raises `ValueError` with what to write instead."""
        place, at, address = entry.partition("@")
        name, colon, port = place.partition(":")
        if not _NAME.fullmatch(name) or (colon and not _is_port(port)):
            raise ValueError(_WRITE_IT)
        if at and not (colon and is_own(address)):
            raise ValueError(_AT_HOME)
        return cls(name, int(port) if colon else None, address or None)

    def __str__(self) -> str:
        place = self.name if self.port is None else f"{self.name}:{self.port}"
        if self.address is None:
            return place
        here = ip_address(self.address).is_loopback
        return f"{place} at {self.address} ({'this machine' if here else 'your own network'})"


def _checked_entry(text: str) -> str:
    ListedHost.parse(text)
    return text


def is_host_name(text: str) -> bool:
    """Whether this is a name as rule 1 wants it."""
    return bool(_NAME.fullmatch(text))


def _is_port(text: str) -> bool:
    return bool(_PORT.fullmatch(text)) and int(text) <= 65_535


def _list_of_hosts(value: Any) -> Any:
    """`false` and nothing mean no host; `true` meant the whole network, and is refused."""
    if value is None or value is False:
        return ()
    if isinstance(value, (bool, str)):
        raise ValueError(_LIST_THEM)  # noqa: TRY004 - pydantic's own
    return tuple(value) if isinstance(value, list) else value


def _each_once(hosts: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(hosts)) != len(hosts):
        raise ValueError("names a host twice")
    return hosts


Host = Annotated[str, Field(max_length=260), AfterValidator(_checked_entry)]
Hosts = Annotated[
    tuple[Host, ...],
    BeforeValidator(_list_of_hosts),
    Field(max_length=MAX_HOSTS),
    AfterValidator(_each_once),
]
"""The hosts that a plan, a check or a command may reach; none is the default everywhere."""


def in_words(hosts: Sequence[str]) -> str:
    """The hosts for a person who is to decide."""
    return f"reaches {named(hosts)}, and nothing else" if hosts else "none"


def named(hosts: Iterable[str]) -> str:
    """The hosts one after the other, with where those are that are not on the public network."""
    return ", ".join(str(ListedHost.parse(each)) for each in hosts)


def parse_authority(text: str, *, default_port: int | None = None) -> HostAndPort:
    """What a request calls `host:port`; raises `EgressRefused` for everything unusual."""
    name, colon, port = text.partition(":")
    lowered = name.lower() if name.isascii() else name
    if not _NAME.fullmatch(lowered):
        raise EgressRefused("The request names no host that a list could hold.")
    if colon and not _is_port(port):
        raise EgressRefused("The request names no port.")
    if not colon and default_port is None:
        raise EgressRefused("The request names no port.")
    return HostAndPort(lowered, int(port) if colon else default_port or 0)


def require_listed(hosts: Iterable[str], wanted: HostAndPort, *, usual_port: int) -> ListedHost:
    """The entry for this host with this port (rule 2); raises `EgressRefused` if there is none."""
    for entry in hosts:
        with suppress(ValueError):  # what cannot be read lists nothing
            listed = ListedHost.parse(entry)
            if (listed.name, listed.port or usual_port) == (wanted.host, wanted.port):
                return listed
    raise EgressRefused(f"{wanted} is not on the list of the plan for this kind of request.")


def require_public(addresses: Sequence[str]) -> None:
    """Raise `EgressRefused` unless there is an address, and every one is public (rule 4)."""
    if not addresses:
        raise EgressRefused("The host has no address.")
    for text in addresses:
        if not is_public(text):
            raise EgressRefused(f"The host's address {text} is not on the public network.")


def is_public(text: str) -> bool:
    """Whether an address belongs to some machine on the public network, and certainly so."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address.scope_id is not None or address not in _PUBLIC_6:
        return False
    return not any(address in network for network in _NOT_PUBLIC_6)


def is_own(text: str) -> bool:
    """Whether an address, in its one spelling, is one that a list may name (rule 4)."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if str(address) != text or "%" in text or address in _OF_CLOUDS:
        return False
    if isinstance(address, IPv4Address):
        return any(address in network for network in _OWN)
    return any(address in network for network in _OWN_6)


_HANDSHAKE, _CLIENT_HELLO = 22, 1
_SERVER_NAME, _ENCRYPTED_HELLO = 0, 0xFE0D
_MAX_HELLO_BYTES = 64 * 1024
_NOT_TLS = "Through this port goes nothing but TLS. The connection did not begin like it."

Read = Callable[[], Awaitable[bytes]]


async def read_client_hello(first: bytes, read: Read, *, host: str) -> bytes:
    """Read on from `first` until the message is whole and names `host`; returns all bytes read."""
    received = first
    while (message := _message(received)) is None:
        chunk = await read()
        if not chunk or len(received) > _MAX_HELLO_BYTES:
            raise EgressRefused(_NOT_TLS)
        received += chunk
    try:
        named = _server_name(message)
    except (IndexError, ValueError) as error:
        raise EgressRefused(_NOT_TLS) from error
    if named.lower() != host.encode():
        raise EgressRefused("The TLS connection names another host than the tunnel.")
    return received


def _message(received: bytes) -> bytes | None:
    """The ClientHello, put together from its records; None as long as it is not whole."""
    message, rest = b"", received
    while len(rest) >= 5:
        size = int.from_bytes(rest[3:5])
        if rest[0] != _HANDSHAKE or rest[1] != 3 or not size:
            raise EgressRefused(_NOT_TLS)
        message += rest[5 : 5 + size]
        if message and message[0] != _CLIENT_HELLO:
            raise EgressRefused(_NOT_TLS)
        if len(message) >= 4 and len(message) >= 4 + int.from_bytes(message[1:4]):
            return message[4 : 4 + int.from_bytes(message[1:4])]
        if len(rest) < 5 + size:
            return None
        rest = rest[5 + size :]
    if rest and rest[0] != _HANDSHAKE:
        raise EgressRefused(_NOT_TLS)
    return None


def _server_name(message: bytes) -> bytes:
    names = []
    for kind, content in _extensions(message):
        if kind == _ENCRYPTED_HELLO:
            raise EgressRefused("The TLS connection hides which host it is for.")
        if kind == _SERVER_NAME:
            names.append(_only_name(content))
    if len(names) != 1:
        raise EgressRefused("The TLS connection does not say which host it is for.")
    return names[0]


def _extensions(message: bytes) -> Iterator[tuple[int, bytes]]:
    rest = message[2 + 32 :]  # the version and 32 random bytes
    for width in (1, 2, 1):  # session, cipher suites, compression methods
        _, rest = _cut(rest, width)
    block, _ = _cut(rest, 2)
    while block:
        kind = int.from_bytes(_exactly(block, 2))
        content, block = _cut(block[2:], 2)
        yield kind, content


def _only_name(content: bytes) -> bytes:
    entries, rest = _cut(content, 2)
    if rest or entries[0] != 0:
        raise ValueError("not a list of host names")
    name, rest = _cut(entries[1:], 2)
    if rest:
        raise ValueError("more than one name")
    return name


def _cut(data: bytes, width: int) -> tuple[bytes, bytes]:
    """A piece with its length in front, and what follows it."""
    size = int.from_bytes(_exactly(data, width))
    return _exactly(data[width:], size), data[width + size :]


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) < size:
        raise ValueError("cut short")
    return data[:size]
