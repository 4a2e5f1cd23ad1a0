"""The broker for HTTP, on a real TLS server: what it adds, what it lets through, each trick."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from silas.egress import CredentialRef, EgressLimits, Endpoint, Narrowing, PublicNetwork, Tier
from silas.egress.accounts import AllowedRequest
from tests.egress.brokered import (
    LOOPBACK,
    PASSWORD_REF,
    TOKEN_REF,
    HostsOnLoopback,
    account,
    brokered,
    canary,
)
from tests.servers.certificates import certificates

API = Endpoint(kind="http", host="api.example.org", port=443, tls="tls")
CALENDAR = Endpoint(kind="caldav", host="dav.example.org", port=8443, tls="tls")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@dataclass
class Api:
    """A server of the test, and what it was sent."""

    port: int = 0
    answer: bytes = OK
    requests: list[bytes] = field(default_factory=list)
    echoes: bool = False

    def header(self, name: str) -> list[str]:
        lines = self.requests[-1].partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
        pairs = [line.partition(": ")[::2] for line in lines]
        return [value for key, value in pairs if key.lower() == name]


@asynccontextmanager
async def api_server(
    answer: bytes = OK, *, tls: bool = True, echoes: bool = False
) -> AsyncIterator[Api]:
    served, writers = Api(answer=answer, echoes=echoes), list[asyncio.StreamWriter]()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        request = await reader.read(65536)
        served.requests.append(request)
        body = b"\r\n".join([request] * 3)
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
        if served.echoes:
            # In pieces, so that no single one holds the credential.
            for start in range(0, len(head + body), 7):
                writer.write((head + body)[start : start + 7])
                await writer.drain()
                await asyncio.sleep(0)
        else:
            writer.write(served.answer)
        await writer.drain()
        writer.close()

    context = certificates().server_context() if tls else None
    server = await asyncio.start_server(handle, LOOPBACK, 0, ssl=context)
    served.port = server.sockets[0].getsockname()[1]
    async with server:
        yield served
    for writer in writers:
        writer.transport.abort()


def way_to(served: Api) -> HostsOnLoopback:
    return HostsOnLoopback({"api.example.org": served.port, "dav.example.org": served.port})


def request(
    line: str, *headers: str, host: str | None = "api.example.org", body: bytes = b""
) -> bytes:
    lines = [f"{line} HTTP/1.1", *([f"Host: {host}"] if host else []), *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


GET = request("GET http://api.example.org/notifications?all=true")


async def test_a_request_gets_encryption_and_the_credential_and_the_code_sees_neither() -> None:
    secret = canary()
    async with (
        api_server() as served,
        brokered(account(API), way := way_to(served), secret) as run,
    ):
        answer = await run.say(GET)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.endswith(b"hello")
        assert served.requests[0].startswith(b"GET /notifications?all=true HTTP/1.1\r\n")
        assert served.header("host") == ["api.example.org"]
        assert served.header("authorization") == [f"Bearer {secret}"]
        assert secret.encode() not in answer
        assert [port for _, port in way.dialled] == [443]
        (use,) = run.session.uses()
        assert (use.host, use.connections, use.refused) == ("api.example.org:443", 1, 0)
        assert use.sent > 0
        assert use.received > 5


async def test_a_password_becomes_basic_authentication() -> None:
    secret = canary()
    login = CredentialRef(kind="password", ref_id=PASSWORD_REF, username="me")
    async with (
        api_server() as served,
        brokered(account(CALENDAR, credential=login), way_to(served), secret) as run,
    ):
        line = "PROPFIND http://dav.example.org:8443/me/"
        await run.say(request(line, "Content-Length: 2", host="dav.example.org:8443", body=b"<>"))
        (told,) = served.header("authorization")
        assert base64.b64decode(told.removeprefix("Basic ")).decode() == f"me:{secret}"
        assert served.header("host") == ["dav.example.org:8443"]


async def test_what_the_code_sends_as_its_own_credential_is_dropped() -> None:
    secret = canary()
    async with api_server() as served, brokered(account(API), way_to(served), secret) as run:
        stolen = ("Authorization: Bearer other", "Cookie: session=other", "Accept-Encoding: gzip")
        await run.say(request("GET http://api.example.org/", *stolen, "Proxy-Authorization: other"))
        assert served.header("authorization") == [f"Bearer {secret}"]
        assert b"other" not in served.requests[0]
        assert served.header("accept-encoding") == ["identity"]


async def test_cookies_that_the_server_sets_do_not_reach_the_code() -> None:
    answer = b"HTTP/1.1 200 OK\r\nSet-Cookie: session=1\r\nContent-Length: 0\r\n\r\n"
    async with (
        api_server(answer) as served,
        brokered(account(API), way_to(served), canary()) as run,
    ):
        assert b"session" not in await run.say(GET)


async def test_a_redirect_is_passed_back_and_followed_by_nobody() -> None:
    secret = canary()
    answer = b"HTTP/1.1 302 Found\r\nLocation: https://evil.org/\r\nContent-Length: 0\r\n\r\n"
    async with (
        api_server(answer) as served,
        brokered(account(API), way := way_to(served), secret) as run,
    ):
        assert b"https://evil.org/" in await run.say(GET)
        assert len(way.dialled) == 1
        next_one = await run.say(request("GET http://evil.org/", host="evil.org"))
        assert next_one.startswith(b"HTTP/1.1 403 ")
        assert way.resolved == ["api.example.org"]


async def test_hosts_that_are_listed_beside_the_account_get_no_credential() -> None:
    secret = canary()
    async with api_server(tls=False) as served:
        way = HostsOnLoopback({"files.example.org": served.port, "api.example.org": served.port})
        async with brokered(account(API), way, secret, hosts=("files.example.org",)) as run:
            answer = await run.say(
                request("GET http://files.example.org/", host="files.example.org")
            )
            assert answer.endswith(b"hello")
            assert not served.header("authorization")
            assert secret.encode() not in served.requests[0]


REFUSED = {
    "POST with observe": request("POST http://api.example.org/", "Content-Length: 0"),
    "DELETE with observe": request("DELETE http://api.example.org/"),
    "REPORT of no calendar": request("REPORT http://api.example.org/"),
    "a method in lower case": request("post http://api.example.org/", "Content-Length: 0"),
    "TRACE, which repeats the header": request("TRACE http://api.example.org/"),
    "a method in a header": request("GET http://api.example.org/", "X-HTTP-Method-Override: POST"),
    "a method in another header": request("GET http://api.example.org/", "X-Method-Override: PUT"),
    "a path in a header": request("GET http://api.example.org/", "X-Original-URL: /send"),
    "a body of a GET": request("GET http://api.example.org/", "Content-Length: 4", body=b"send"),
    "a body in chunks of a GET": request(
        "GET http://api.example.org/", "Transfer-Encoding: chunked"
    )
    + b"0\r\n\r\n",
    "a tunnel": b"CONNECT api.example.org:443 HTTP/1.1\r\nHost: api.example.org\r\n\r\n",
    "a tunnel in capitals": b"CONNECT API.EXAMPLE.ORG:443 HTTP/1.1\r\nHost: a.b\r\n\r\n",
    "a tunnel to another port": b"CONNECT api.example.org:22 HTTP/1.1\r\nHost: a.b\r\n\r\n",
    "another port": request("GET http://api.example.org:80/", host="api.example.org:80"),
    "another host": request("GET http://evil.org/", host="evil.org"),
    "a subdomain": request("GET http://a.api.example.org/", host="a.api.example.org"),
    "a suffix": request("GET http://api.example.org.evil.org/", host="api.example.org.evil.org"),
    "a trailing dot": request("GET http://api.example.org./", host="api.example.org."),
    "userinfo": request("GET http://api.example.org@evil.org/", host="evil.org"),
    "a user before the host": request("GET http://me@api.example.org/"),
    "another host in the header": request("GET http://api.example.org/", host="evil.org"),
    "a fragment": request("GET http://api.example.org/#@evil.org"),
    "another scheme": request("GET https://api.example.org/"),
    "origin form": request("GET /"),
    "an address": request("GET http://93.184.216.1/", host="93.184.216.1"),
    "the metadata": request("GET http://169.254.169.254/", host="169.254.169.254"),
    "loopback": request("GET http://127.0.0.1:8000/", host="127.0.0.1:8000"),
}
UNREADABLE = {
    "a NUL": request("GET http://api.example.org\0.evil.org/"),
    "a name that is not ASCII": request("GET http://\u00e4pi.example.org/"),
    "a Cyrillic letter": request("GET http://x/").replace(b"x/", "\u0430pi.example.org/".encode()),
    "CR LF in the path": request("GET http://api.example.org/\r\nX: /"),
    "CR alone in a header": request("GET http://api.example.org/", "X: a\rAuthorization: b"),
    "LF alone in a header": request("GET http://api.example.org/", "X: a\nbad header"),
    "NUL in a header": request("GET http://api.example.org/", "X: a\0b"),
    "a space in a header's name": request("GET http://api.example.org/", "Content-Length : 5"),
    "two lengths": request("GET http://api.example.org/", "Content-Length: 1", "Content-Length: 2"),
    "an unknown coding": request("GET http://api.example.org/", "Transfer-Encoding: x, chunked"),
    "a length beside chunks": request(
        "POST http://api.example.org/", "Content-Length: 6", "Transfer-Encoding: chunked"
    )
    + b"0\r\n\r\nGET http://evil.org/ HTTP/1.1\r\nHost: evil.org\r\n\r\n",
    "two hosts": request("GET http://api.example.org/", "Host: evil.org"),
}


@pytest.mark.parametrize("trick", [*REFUSED, *UNREADABLE])
async def test_a_request_with_a_trick_reaches_nothing(trick: str) -> None:
    secret = canary()
    async with (
        api_server() as served,
        brokered(account(API), way := way_to(served), secret) as run,
    ):
        answer = await run.say({**REFUSED, **UNREADABLE}[trick])
        assert answer.startswith(b"HTTP/1.1 403 " if trick in REFUSED else b"HTTP/1.1 400 ")
        assert not way.dialled
        assert not served.requests
        assert secret.encode() not in answer
        assert run.refused() == (trick in REFUSED)


async def test_a_second_request_behind_the_first_is_not_carried() -> None:
    async with api_server() as served, brokered(account(API), way_to(served), canary()) as run:
        await run.say(GET + request("POST http://api.example.org/send", "Content-Length: 0"))
        assert len(served.requests) == 1
        assert b"send" not in served.requests[0]


@pytest.mark.parametrize(
    ("tier", "method", "passes"),
    [
        *((Tier.OBSERVE, "HEAD", True), (Tier.DRAFT, "POST", False), (Tier.ACT, "POST", True)),
        *((Tier.ACT, "DELETE", True), (Tier.ACT, "TRACE", False), (Tier.MANAGE, "PATCH", True)),
    ],
)
async def test_the_tier_decides_which_methods_pass(tier: Tier, method: str, passes: bool) -> None:
    answer = b"HTTP/1.1 204 No Content\r\n\r\n"
    async with (
        api_server(answer) as served,
        brokered(account(API, tier=tier), way_to(served), canary()) as run,
    ):
        told = await run.say(request(f"{method} http://api.example.org/x"))
        assert told.startswith(b"HTTP/1.1 204 " if passes else b"HTTP/1.1 403 ")
        assert bool(served.requests) is passes
        if not passes and method == "POST":
            assert b"needs the permission `act`" in told


async def test_a_calendar_is_read_with_the_methods_of_calendars() -> None:
    async with api_server() as served, brokered(account(CALENDAR), way_to(served), canary()) as run:
        for method, passes in (("REPORT", True), ("PROPFIND", True), ("PUT", False)):
            line = f"{method} http://dav.example.org:8443/"
            told = await run.say(request(line, host="dav.example.org:8443"))
            assert told.startswith(b"HTTP/1.1 200 " if passes else b"HTTP/1.1 403 ")


async def test_a_sidecar_only_narrows() -> None:
    narrowed = Narrowing(
        http=(
            AllowedRequest(method="GET", path="/repos/"),
            AllowedRequest(method="GET", path="/notifications"),
            AllowedRequest(method="POST", path="/send"),
        )
    )
    paths = {
        "/notifications": True,
        "/notifications?all=1": True,
        "/repos/a/b": True,
        "/repos/a/": True,
        "/repos//": False,
        "/repos/../": False,
        "/user": False,
        "/notifications/1": False,
        "/repos/../user": False,
        "/repos/%2e%2e/user": False,
        "/repos/a%2fb": False,
        "/repos//user": False,
        "/repos/a;/../user": False,
        "/repos/..": False,
        "/repos/%252e%252e/user": False,
    }
    async with (
        api_server() as served,
        brokered(account(API, narrowed=narrowed), way_to(served), canary()) as run,
    ):
        for path, passes in paths.items():
            told = await run.say(request(f"GET http://api.example.org{path}"))
            assert told.startswith(b"HTTP/1.1 200 " if passes else b"HTTP/1.1 403 "), path
        told = await run.say(request("POST http://api.example.org/send", "Content-Length: 0"))
        assert told.startswith(b"HTTP/1.1 403 ")


async def test_an_answer_that_repeats_the_credential_ends_before_it() -> None:
    """A page for debugging that prints the request's headers gives nothing away."""
    secret = canary()
    async with api_server(echoes=True) as served:
        for used, forms in (
            (account(API), (secret,)),
            (
                account(
                    API,
                    credential=CredentialRef(kind="password", ref_id=PASSWORD_REF, username="me"),
                ),
                (secret, base64.b64encode(f"me:{secret}".encode()).decode()),
            ),
        ):
            async with brokered(used, way_to(served), secret) as run:
                answer = await run.say(GET)
                assert b"GET /notifications" in answer
                for form in forms:
                    assert form.encode()[:12] not in answer or form.encode() not in answer
                    assert form.encode()[:-1] not in answer
                assert run.refused() == 1


async def test_a_header_that_repeats_the_credential_is_refused() -> None:
    secret = canary()
    answer = f"HTTP/1.1 200 OK\r\nX-Debug: Bearer {secret}\r\nContent-Length: 0\r\n\r\n".encode()
    async with api_server(answer) as served, brokered(account(API), way_to(served), secret) as run:
        told = await run.say(GET)
        assert told.startswith(b"HTTP/1.1 403 ")
        assert secret.encode() not in told


async def test_a_compressed_answer_which_nobody_can_look_into_is_refused() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"
    async with (
        api_server(answer) as served,
        brokered(account(API), way_to(served), canary()) as run,
    ):
        assert (await run.say(GET)).startswith(b"HTTP/1.1 403 ")


async def test_a_certificate_for_another_host_is_refused_before_the_credential_is_sent() -> None:
    elsewhere = Endpoint(kind="http", host="api.elsewhere.net", port=443, tls="tls")
    async with api_server() as served:
        way = HostsOnLoopback({"api.elsewhere.net": served.port})
        async with brokered(account(elsewhere), way, canary()) as run:
            told = await run.say(request("GET http://api.elsewhere.net/", host="api.elsewhere.net"))
            assert told.startswith(b"HTTP/1.1 502 ")
            assert not served.requests


@pytest.mark.parametrize("addresses", [("127.0.0.1",), ("93.184.216.1", "10.0.0.1"), ()])
async def test_a_name_that_was_rebound_to_a_private_address_is_not_dialled(
    addresses: tuple[str, ...],
) -> None:
    async with api_server() as served:
        way = way_to(served)
        way.answers["api.example.org"] = addresses
        async with brokered(account(API), way, canary()) as run:
            assert (await run.say(GET)).startswith(b"HTTP/1.1 403 ")
            assert not way.dialled


async def test_an_address_that_the_owner_signed_is_dialled_and_no_name_is_resolved() -> None:
    """A calendar on this machine, without encryption, through the network as it is."""
    secret = canary()
    async with api_server(tls=False) as served:
        for host in ("localhost", "calendar", LOOPBACK):
            signed = Endpoint(
                kind="caldav", host=host, port=served.port, tls="none", address=LOOPBACK
            )
            async with brokered(account(signed), PublicNetwork(), secret) as run:
                at = f"{host}:{served.port}"
                told = await run.say(request(f"GET http://{at}/", host=at))
                assert told.endswith(b"hello")
                assert served.header("authorization") == [f"Bearer {secret}"]
                beside = f"{host}:{served.port + 1}"
                told = await run.say(request(f"GET http://{beside}/", host=beside))
                assert told.startswith(b"HTTP/1.1 403 ")


async def test_without_a_signed_address_this_machine_is_not_reached() -> None:
    async with (
        api_server(tls=False) as served,
        brokered(account(API), PublicNetwork(), canary(), hosts=("localhost.localdomain",)) as run,
    ):
        at = f"{LOOPBACK}:{served.port}"
        assert (await run.say(request(f"GET http://{at}/", host=at))).startswith(b"HTTP/1.1 403 ")
        assert not served.requests


async def test_a_credential_that_is_gone_is_said_and_nothing_is_sent() -> None:
    async with (
        api_server() as served,
        brokered(
            account(API), way := way_to(served), canary(), prepare=lambda v: v.entries.clear()
        ) as run,
    ):
        told = await run.say(GET)
        assert told.startswith(b"HTTP/1.1 401 ")
        assert b"Connect the account again" in told
        assert not way.dialled


async def test_requests_and_bytes_are_limited() -> None:
    limits = EgressLimits(requests=2, wait_seconds=60)
    async with (
        api_server() as served,
        brokered(account(API), way_to(served), canary(), limits=limits) as run,
    ):
        told = [await run.say(GET) for _ in range(3)]
        assert [each[9:12] for each in told] == [b"200", b"200", b"403"]
    small = EgressLimits(total_bytes=400, wait_seconds=60)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000
    async with (
        api_server(answer) as served,
        brokered(account(API), way_to(served), canary(), limits=small) as run,
    ):
        assert len(await run.say(GET)) < 5000
        assert run.refused() == 1


async def test_a_token_in_the_vault_is_named_in_no_text_of_the_broker() -> None:
    secret = canary()
    async with api_server() as served, brokered(account(API), way_to(served), secret) as run:
        await run.say(GET)
        found = await run.session._broker.credential(CredentialRef(kind="bearer", ref_id=TOKEN_REF))
        assert found.value == secret
        assert secret not in repr(found)
        assert secret not in repr(vars(run.session))
        assert secret not in account(API).model_dump_json()
