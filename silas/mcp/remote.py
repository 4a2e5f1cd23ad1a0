"""A tool server of somebody else's: where it is, how it is signed in to, and the way there.

1. The owner signs one address. It is reached through the same proxy as everything else that leaves
   a sandbox: the name is resolved once, only public addresses count (or the one that was signed),
   the certificate has to be the host's, and no redirect is followed.
2. The credential is in the vault. The broker puts it into each request, on the way out; the
   protocol's library, which reads what strangers send, never has it.
3. A credential is for this server alone: a sign-in names the server as its resource (RFC 8707), at
   the one issuer that the owner signed. What another server says about signing in is not followed.
4. Only the methods of the protocol go to the server's one path.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import h11
from pydantic import Field, model_validator

from silas.egress import ListedHost
from silas.egress.accounts import (
    AllowedRequest,
    BrokeredAccount,
    CredentialRef,
    Endpoint,
    Narrowing,
    OAuthRegistration,
    Tier,
    endpoint_of,
)
from silas.egress.proxy import EgressProxy, host_header, next_event
from silas.kernel.models import Data, FieldProblem, refuse

if TYPE_CHECKING:
    import httpx2

MAX_URL_CHARS = 500
_METHODS = ("POST", "GET", "DELETE")
OpenProxy = Callable[[BrokeredAccount], EgressProxy]
"""The way out of one run with an account (`CredentialBroker.session`)."""


class RemoteServer(Data):
    """Where a server is, and how it is signed in to."""

    url: Annotated[str, Field(min_length=1, max_length=MAX_URL_CHARS)]
    address: str | None = None
    """The exact private address, of one in the owner's own network."""
    sign_in: Literal["none", "bearer", "oauth"] = "none"
    secret: str | None = None
    """The name of its credential in the vault."""
    oauth: OAuthRegistration | None = None

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        problems = []
        try:
            _, path = endpoint_of(self.url, address=self.address)
            if "?" in path or "%" in path or "//" in path:
                problems.append(FieldProblem(("url",), "is a plain address without `?` and `%`"))
        except ValueError as error:
            problems.append(FieldProblem(("url",), str(error)))
        if (self.sign_in == "none") != (self.secret is None):
            problems.append(FieldProblem(("secret",), "comes with a sign-in, and only with it"))
        if (self.sign_in == "oauth") != (self.oauth is not None):
            problems.append(FieldProblem(("oauth",), "comes with `oauth`, and only with it"))
        refuse(problems)
        return self

    @cached_property
    def endpoint(self) -> Endpoint:
        """The host, its port, and whether the way there is encrypted."""
        return endpoint_of(self.url, address=self.address)[0]

    @property
    def path(self) -> str:
        return endpoint_of(self.url, address=self.address)[1]

    @property
    def listed_hosts(self) -> tuple[str, ...]:
        """The host as lists of hosts name it; one without a dot is in none."""
        at = f"@{self.address}" if self.address else ""
        entry = f"{self.endpoint.at}{at}"
        try:
            ListedHost.parse(entry)
        except ValueError:
            return ()
        return (entry,)

    @property
    def account(self) -> BrokeredAccount:
        """The server as the broker knows it (rules 2 and 4)."""
        return BrokeredAccount(
            connection_id=f"mcp {self.endpoint.host}"[:100],
            endpoints=(self.endpoint,),
            tier=Tier.ACT,
            credential=self.credential,
            narrowed=Narrowing(
                http=tuple(AllowedRequest(method=each, path=self.path) for each in _METHODS)
            ),
        )

    @property
    def credential(self) -> CredentialRef:
        """Which secret of the vault it is signed in to with."""
        return CredentialRef(
            kind=self.sign_in,
            ref_id=self.secret or "none",
            oauth=self.oauth,
            resource=self.url if self.oauth else None,
        )

    def lines(self) -> list[str]:
        """Where it is, in sentences."""
        endpoint = self.endpoint
        how = "encrypted" if endpoint.tls == "tls" else "NOT encrypted"
        at = f", at the address {self.address} in your own network" if self.address else ""
        lines = [f"It is somebody else's, at {self.url} ({how}{at}). What you send is known there."]
        if self.oauth is not None:
            lines.append(
                f"You sign in at {self.oauth.server.issuer} as the client {self.oauth.client_id}, "
                f"for {self.url} alone. The tokens stay in the vault."
            )
        elif self.sign_in == "bearer":
            lines.append(f"Its token stays in the vault ({self.secret}), and is sent nowhere else.")
        else:
            lines.append("It gets no credential.")
        return lines


@asynccontextmanager
async def remote_streams(
    remote: RemoteServer, open_proxy: OpenProxy, note: Callable[[str], None]
) -> AsyncIterator[Any]:
    """What the protocol's library reads and writes, by way of the proxy (rule 1).

    `note` hears what the last message was answered with, if that was a refusal, and else nothing:
    the library does not tell it.
    """
    import httpx2  # noqa: PLC0415 - only with a server of somebody else's
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - of the extra

    proxy = open_proxy(remote.account)
    client = httpx2.AsyncClient(
        transport=_through(proxy, remote, note), timeout=httpx2.Timeout(60.0, read=math.inf)
    )
    try:
        async with (
            client,
            streamable_http_client(remote.url, http_client=client) as streams,
        ):
            yield streams
    finally:
        await proxy.close()


def _through(
    proxy: EgressProxy, remote: RemoteServer, note: Callable[[str], None]
) -> "httpx2.AsyncBaseTransport":
    """A transport whose only way is the proxy."""
    import httpx2  # noqa: PLC0415 - as above

    class Through(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            body = await request.aread()
            reader, writer = await proxy.connect()
            way = _Exchange(h11.Connection(h11.CLIENT), reader, writer)
            try:
                answer = await way.ask(_request(request, remote), body)
            except _BROKEN as error:
                writer.close()
                raise httpx2.ReadError(str(error), request=request) from error
            if request.method == "POST":
                status = answer.status_code
                note(f"it answered with the status {status}" if status >= 400 else "")
            return httpx2.Response(
                answer.status_code, headers=list(answer.headers), stream=Body(way), request=request
            )

    class Body(httpx2.AsyncByteStream):
        def __init__(self, way: _Exchange) -> None:
            self._way = way

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for part in self._way.body():
                    yield part
            except _BROKEN as error:
                raise httpx2.ReadError(str(error)) from error

        async def aclose(self) -> None:
            self._way.writer.close()

    return Through()


_BROKEN = (h11.ProtocolError, OSError)


def _request(request: "httpx2.Request", remote: RemoteServer) -> h11.Request:
    """The request as the proxy reads it: that adds what encrypts, and what signs in."""
    host = host_header(remote.endpoint)
    path = request.url.raw_path.decode("ascii")
    if path != remote.path:  # a rule that ends with a slash would let pass what lies below (rule 4)
        raise OSError(f"{path[:200]!a} is not the path of this server")
    headers = [each for each in request.headers.raw if each[0].lower() != b"host"]
    return h11.Request(
        method=request.method,
        target=f"http://{host}{path}".encode(),
        headers=[(b"host", host.encode()), *headers],
    )


@dataclass
class _Exchange:
    """One request through the proxy, and its answer as it comes."""

    http: h11.Connection
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, head: h11.Request, body: bytes) -> h11.Response:
        """The head of the answer."""
        for event in (head, *([h11.Data(data=body)] if body else []), h11.EndOfMessage()):
            self.writer.write(self.http.send(event) or b"")
        await self.writer.drain()
        while isinstance(
            answer := await next_event(self.http, self.reader), h11.InformationalResponse
        ):
            continue
        if not isinstance(answer, h11.Response):
            raise h11.RemoteProtocolError("the answer ends early")
        return answer

    async def body(self) -> AsyncIterator[bytes]:
        """The rest of it."""
        while not isinstance(event := await next_event(self.http, self.reader), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                raise h11.RemoteProtocolError("the answer ends early")
            yield bytes(event.data)
