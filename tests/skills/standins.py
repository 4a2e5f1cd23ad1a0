"""Services that stand in for those of the example plans: on loopback, over HTTP, with a memory.

Each answers what a real one would, and its state changes by what it is told alone.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Answer = tuple[int, Any]
FUND = "IE00B4L5Y983"


@dataclass
class Broker:
    """`api.broker.example`: a depot of 10,000 EUR, of which the fund is 57 %."""

    held: float = 5_700.0
    whole: float = 10_000.0
    price: float = 90.5
    orders: list[Mapping[str, Any]] = field(default_factory=list)

    def answer(self, path: str, query: Mapping[str, str], body: Any) -> Answer:
        share = 100 * self.held / self.whole
        match path:
            case "/quote":
                return 200, {"isin": query["isin"], "price": self.price, "age_seconds": 2}
            case "/positions":
                return 200, {"positions": [{"isin": FUND, "percent": share}], "cash_eur": 900}
            case "/orders" if body is not None:
                self.orders.append(body)
                self.held += body["amount_eur"] * (1 if body["side"] == "buy" else -1)
                return 200, {"order_id": f"o-{len(self.orders)}", "state": "executed"}
            case "/orders/open":
                return 200, "0"
        return (200, f"{share:.2f}") if path == f"/share/{FUND}" else (404, "no such thing")


@dataclass
class Ops:
    """`ops.example.org`: which image runs where, and which units run."""

    versions: dict[str, str]
    """What each digest answers as its version."""
    running: dict[str, str] = field(default_factory=dict)
    units: dict[str, bool] = field(default_factory=lambda: {"web.service": True})
    asked: list[tuple[str, Any]] = field(default_factory=list)

    def answer(self, path: str, query: Mapping[str, str], body: Any) -> Answer:
        self.asked.append((path, body))
        match path:
            case "/deploy" if body["digest"] in self.versions:
                self.running[body["environment"]] = body["digest"]
                return 200, {"deployed": body["digest"]}
            case "/restart":
                self.units[body["unit"]] = True
                return 200, {"restarted": body["unit"]}
        return 404, "no such image"


@dataclass
class Site:
    """`www.example.org` or `staging.example.org`: answers if its unit runs."""

    ops: Ops
    environment: str

    def answer(self, path: str, query: Mapping[str, str], body: Any) -> Answer:
        if not self.ops.units["web.service"]:
            return 503, "down"
        match path:
            case "/version":
                digest = self.ops.running.get(self.environment, "")
                return 200, self.ops.versions.get(digest, "2.3.0")
            case "/certificate.pem":
                return 200, certificate()
        return 200, "hello"


@dataclass
class ShopService:
    """`shop.example.org`: orders of two customers, and their wishes for refunds."""

    orders: dict[tuple[str, str], str]
    refunds: list[Mapping[str, Any]] = field(default_factory=list)

    def answer(self, path: str, query: Mapping[str, str], body: Any) -> Answer:
        given = body or query
        key = (given.get("order_id", ""), given.get("email", ""))
        match path:
            case "/orders/verify":
                valid = key in self.orders
                return 200, {"valid": valid, "order_id": key[0] if valid else None}
            case "/orders/status":
                return (200, {"status": self.orders[key]}) if key in self.orders else (404, "no")
            case "/refunds" if key in self.orders:
                self.refunds.append(given)
                return 200, {"refund": "waits for a person"}
            case "/hours":
                return 200, {"hours": "Monday to Friday, 9 to 17."}
        return 200, {"found": f"About {given.get('query', '')}: within 14 days."}


def certificate() -> str:
    """One that is valid for a month more."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "www.example.org")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


@asynccontextmanager
async def serving(
    services: Mapping[str, Callable[[str, Mapping[str, str], Any], Answer]],
) -> AsyncIterator[int]:
    """One port of loopback on which all of these hosts answer; what it is."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = head.split("\r\n")
        named = {
            key.strip().lower(): value.strip()
            for key, _, value in (each.partition(":") for each in lines[1:])
        }
        parts = urlsplit(lines[0].split()[1])
        length = int(named.get("content-length", 0))
        body = json.loads(await reader.readexactly(length)) if length else None
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        service = services[named["host"].partition(":")[0]]
        code, told = service(parts.path, query, body)
        text = (told if isinstance(told, str) else json.dumps(told)).encode()
        reason = "OK" if code == 200 else "Refused"
        writer.write(f"HTTP/1.1 {code} {reason}\r\nContent-Length: {len(text)}\r\n".encode())
        writer.write(b"Connection: close\r\n\r\n" + text)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
