"""The host guard: which requests come in at all, before anybody asks who sent them.

1. `Host` is one of ours, else 421: a name that somebody points at this machine opens nothing.
2. Whoever wants to change something, or to open a WebSocket, comes from a page of ours (`Origin`),
   and the browser says so too (`Sec-Fetch-Site`). From elsewhere one may at most open the page.
3. A change is JSON, so that no form can make one; and it is small, but for a file that is brought
   in: nothing of that is read before it is known who brings it.
4. There is no query: nothing secret can be in a URL, a log or a `Referer`.
5. Every answer says: not stored, not framed, not guessed at, no scripts but ours.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_DEFAULT_PORTS = {"http": "80", "https": "443"}
MAX_BODY_BYTES = 64 * 1024
_READING = frozenset({"GET", "HEAD"})
_STATIC_POLICY = "default-src 'none'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


@dataclass(frozen=True)
class Origins:
    """Exact origins, such as `http://127.0.0.1:8420`."""

    allowed: frozenset[str]

    @classmethod
    def of(cls, port: int, *, more: Iterable[str] = (), scheme: str = "http") -> Self:
        """This machine's own names, and those that are configured."""
        own = {f"{scheme}://{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
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


@dataclass(frozen=True)
class _Refusal:
    status: int
    reason: str


class HostGuard:
    """ASGI middleware."""

    def __init__(
        self, app: ASGIApp, *, origins: Origins, larger: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """`larger` are paths whose bodies may be longer than others, in bytes."""
        self._app = app
        self._origins = origins
        self._larger = larger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if scope["type"] == "websocket":
            if refusal is None:
                await self._app(scope, receive, send)
            else:
                await receive()
                await send({"type": "websocket.close", "code": 4001})  # before accept: 403
            return
        if refusal is None:
            await self._app(scope, _limited(receive, self._max_body(scope)), _with_headers(send))
            return
        answer = JSONResponse({"error": refusal.reason}, status_code=refusal.status)
        await answer(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: Headers) -> _Refusal | None:
        host = headers.get("host")
        if len(headers.getlist("host")) != 1 or host not in self._origins.hosts:  # 1
            return _Refusal(421, "This is not an address of Silas's.")
        if scope.get("query_string"):  # 4
            return _Refusal(400, "No address here has a query.")
        changes = scope["type"] == "websocket" or scope["method"] not in _READING
        if not self._comes_from_us(scope, headers, changes=changes):  # 2
            return _Refusal(403, "Another page sent this.")
        if scope["type"] == "http" and changes:
            return _changing(headers, self._max_body(scope))
        return None

    def _max_body(self, scope: Scope) -> int:
        return self._larger.get(scope["path"], MAX_BODY_BYTES)

    def _comes_from_us(self, scope: Scope, headers: Headers, *, changes: bool) -> bool:
        origin, host = headers.get("origin"), headers.get("host")
        if (changes or origin is not None) and not self._origins.is_own(origin, host):
            return False
        site = headers.get("sec-fetch-site")
        if site in {None, "same-origin"}:
            return True
        if changes:
            return False
        return site == "none" or _opens_the_page(scope, headers)


def _opens_the_page(scope: Scope, headers: Headers) -> bool:
    wanted = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest"))
    return scope["path"] in {"/", "/visit"} and wanted == ("navigate", "document")


def _changing(headers: Headers, most: int) -> _Refusal | None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # 3
        return _Refusal(415, "Only JSON is understood here.")
    length = headers.get("content-length", "")
    if not length.isdigit() or int(length) > most:
        return _Refusal(413, "That is too long.")
    return None


def _limited(receive: Receive, most: int) -> Receive:
    """What comes is never more than was announced."""
    seen = 0

    async def limited() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            return {"type": "http.disconnect"}
        return message

    return limited


def _with_headers(send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers: Any = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            headers.setdefault("Content-Security-Policy", _STATIC_POLICY)
        await send(message)

    return answer
