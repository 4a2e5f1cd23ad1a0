"""The addresses under which a browser may reach Silas; everything else is somebody else's page."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

_DEFAULT_PORTS = {"http": "80", "https": "443"}


@dataclass(frozen=True)
class Origins:
    """Exact origins, such as `http://127.0.0.1:8420`."""

    allowed: frozenset[str]

    @classmethod
    def of(cls, port: int, *, more: Iterable[str] = ()) -> Self:
        """This machine's own names, and those that are configured."""
        own = {f"http://{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        return cls(frozenset(own | {each.rstrip("/") for each in more}))

    @property
    def hosts(self) -> frozenset[str]:
        """What the `Host` header may say: exactly these, so that no rebound name comes through."""
        return frozenset(host for origin in self.allowed for host in _hosts(origin))

    def is_own(self, origin: str | None, host: str | None) -> bool:
        """Whether a page of ours, at the address that was asked, sent this."""
        return origin in self.allowed and host in _hosts(origin or "")


def _hosts(origin: str) -> tuple[str, ...]:
    scheme, _, host = origin.partition("://")
    default = _DEFAULT_PORTS.get(scheme)
    return (host, host.removesuffix(f":{default}"), f"{host}:{default}")


def is_number(host: str) -> bool:
    """Whether it is an address in numbers: browsers make no passkeys for those."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
