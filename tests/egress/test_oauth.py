"""The OAuth client, with a server that says what each test needs: flows, rotation, each trick."""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from silas.egress import (
    CredentialRef,
    Endpoint,
    OAuthRegistration,
    OAuthServer,
    PublicNetwork,
)
from silas.egress.oauth import (
    PRESETS,
    CredentialMissing,
    GrantRevoked,
    OAuthClient,
    OAuthDenied,
    OAuthFailed,
    OAuthTimedOut,
    OAuthUnreachable,
    RedirectSignIn,
)
from silas.egress.proxy import Dialer
from silas.testing.fakes import FakeClock, MemoryVault
from tests.egress.brokered import LOOPBACK, account, brokered, canary
from tests.egress.test_broker_http import api_server, request

REF = "conn_1/oauth"
Form = Mapping[str, str]


@dataclass
class Provider:
    """An authorization server: what it is asked, and what it answers at each path."""

    port: int = 0
    answers: dict[str, Callable[[Form], tuple[int, Any]]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def server(self, **changes: Any) -> OAuthServer:
        endpoints = {
            f"{name}_endpoint": f"{self.issuer}/{name}"
            for name in ("token", "authorization", "device_authorization", "revocation")
        }
        fields = {"issuer": self.issuer, "address": LOOPBACK, **endpoints, **changes}
        return OAuthServer(**fields)

    def credential(self, **changes: Any) -> CredentialRef:
        registration = OAuthRegistration(
            server=self.server(**changes), client_id="silas", scopes=("mail", "offline_access")
        )
        return CredentialRef(kind="oauth", ref_id=REF, username="me", oauth=registration)

    def forms(self, path: str) -> list[dict[str, str]]:
        return [form for asked, form in self.asked if asked == path]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ")[1]
        size = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0] or 0)
        form = {
            key: value[0]
            for key, value in parse_qs((await reader.readexactly(size)).decode()).items()
        }
        self.asked.append((path, form))
        status, answer = self.answers.get(path, lambda _form: (404, {}))(form)
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        writer.write(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def provider(**answers: Callable[[Form], tuple[int, Any]]) -> AsyncIterator[Provider]:
    made = Provider(answers={f"/{name}": answer for name, answer in answers.items()})
    server = await asyncio.start_server(made.handle, LOOPBACK, 0)
    made.port = server.sockets[0].getsockname()[1]
    async with server:
        yield made


class Waiting:
    """`sleep` that lets the clock run instead."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.slept = clock, list[float]()

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds=seconds)
        await asyncio.sleep(0)


@dataclass
class Signing:
    client: OAuthClient
    vault: MemoryVault
    clock: FakeClock
    waiting: Waiting


@pytest.fixture
def signing() -> Signing:
    clock, vault = FakeClock(), MemoryVault()
    waiting = Waiting(clock)
    dialer = Dialer(PublicNetwork(), wait_seconds=60)
    return Signing(OAuthClient(vault, dialer, clock=clock, sleep=waiting), vault, clock, waiting)


def tokens(access: str, refresh: str | None = None, **more: Any) -> dict[str, Any]:
    found = {"access_token": access, "token_type": "Bearer", "expires_in": 3600, **more}
    return {**found, "refresh_token": refresh} if refresh else found


DEVICE = {
    "device_code": "the-device-code",
    "user_code": "ABCD-EFGH",
    "verification_uri": "https://login.example.org/device",
    "expires_in": 600,
    "interval": 5,
}


async def test_a_network_that_is_away_for_a_moment_costs_no_code(signing: Signing) -> None:
    steps = iter([(503, b"busy"), (429, b""), (200, tokens(canary(), canary()))])
    async with provider(
        device_authorization=lambda _: (200, DEVICE), token=lambda _: next(steps)
    ) as server:
        credential = server.credential()
        assert credential.oauth is not None
        started = await signing.client.start_device(credential.oauth)
        assert (await signing.client.finish_device(credential, started)).renewable
    assert signing.waiting.slept == [5, 10, 20], "more seldom while it is away"


async def test_a_network_that_stays_away_is_not_called_a_code_that_nobody_entered(
    signing: Signing,
) -> None:
    async with provider(
        device_authorization=lambda _: (200, DEVICE), token=lambda _: (503, b"busy")
    ) as server:
        credential = server.credential()
        assert credential.oauth is not None
        started = await signing.client.start_device(credential.oauth)
        with pytest.raises(OAuthUnreachable):
            await signing.client.finish_device(credential, started)
    assert max(signing.waiting.slept) == 60


async def test_a_device_code_is_asked_for_as_seldom_as_the_server_wants(signing: Signing) -> None:
    access, refresh = canary(), canary()
    steps = iter(
        [
            (400, {"error": "authorization_pending"}),
            (400, {"error": "slow_down"}),
            (200, {"error": "authorization_pending"}),  # GitHub answers 200
            (200, tokens(access, refresh, scope="mail")),
        ]
    )
    async with provider(
        device_authorization=lambda _: (200, DEVICE), token=lambda _: next(steps)
    ) as server:
        credential = server.credential()
        assert credential.oauth is not None
        started = await signing.client.start_device(credential.oauth)
        assert started.user_code == "ABCD-EFGH"
        granted = await signing.client.finish_device(credential, started)
    assert signing.waiting.slept == [5, 5, 10, 10]
    assert granted.scopes == ("mail",)
    assert granted.renewable
    assert "the-device-code" not in repr(vars(started)["user_code"])
    assert signing.vault.entries[f"{REF}/access"] == access.encode()
    assert signing.vault.entries[f"{REF}/refresh"] == refresh.encode()
    held = {name for name, value in signing.vault.entries.items() if access.encode() in value}
    assert held == {f"{REF}/access"}
    assert server.forms("/device_authorization") == [
        {"scope": "mail offline_access", "client_id": "silas"}
    ]
    assert access not in granted.model_dump_json()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"error": "access_denied"}, OAuthDenied),
        ({"error": "expired_token"}, OAuthTimedOut),
        ({"error": "authorization_pending"}, OAuthTimedOut),
        ({"error": "invalid_client"}, OAuthFailed),
        ({}, OAuthFailed),
    ],
)
async def test_a_device_code_that_nobody_enters_ends(
    signing: Signing, answer: dict[str, str], error: type[Exception]
) -> None:
    async with provider(
        device_authorization=lambda _: (200, DEVICE), token=lambda _: (400, answer)
    ) as server:
        credential = server.credential()
        assert credential.oauth is not None
        started = await signing.client.start_device(credential.oauth)
        with pytest.raises(error):
            await signing.client.finish_device(credential, started)
    assert not signing.vault.entries


@pytest.mark.parametrize(
    "changes",
    [
        {"verification_uri": "http://login.example.org/device"},
        {"verification_uri": "javascript:alert(1)"},
        {"verification_uri": "file:///etc/passwd"},
        {"user_code": ""},
        {"user_code": "a\u202eb"},
        {"interval": -1},
        {"expires_in": "soon"},
        {"device_code": None},
    ],
)
async def test_an_answer_that_could_mislead_the_owner_is_refused(
    signing: Signing, changes: dict[str, Any]
) -> None:
    async with provider(device_authorization=lambda _: (200, {**DEVICE, **changes})) as server:
        oauth = server.credential().oauth
        assert oauth is not None
        with pytest.raises(OAuthFailed):
            await signing.client.start_device(oauth)


async def browser(url: str, host: str | None = None) -> bytes:
    """A browser that follows the redirect of the provider."""
    parts = urlsplit(url)
    assert parts.hostname
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    path = f"{parts.path}?{parts.query}"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host or parts.netloc}\r\n\r\n".encode())
    try:
        return await asyncio.wait_for(reader.read(-1), 90)
    finally:
        writer.transport.abort()


def coming_back(started: RedirectSignIn, **changes: str | None) -> str:
    asked = {key: value[0] for key, value in parse_qs(urlsplit(started.auth_url).query).items()}
    brought = {"code": "the-code", "state": asked["state"], **changes}
    query = urlencode({key: value for key, value in brought.items() if value is not None})
    return f"{asked['redirect_uri']}?{query}"


async def test_a_redirect_is_bound_to_its_attempt_and_the_code_to_its_verifier(
    signing: Signing,
) -> None:
    access = canary()
    async with provider(token=lambda _: (200, tokens(access, canary()))) as server:
        credential = server.credential(names_issuer=True)
        assert credential.oauth is not None
        started = await signing.client.start_redirect(credential.oauth)
        asked = {key: value[0] for key, value in parse_qs(urlsplit(started.auth_url).query).items()}
        assert asked["code_challenge_method"] == "S256"
        assert asked["redirect_uri"] == f"http://{started.listening_on}/callback"
        assert len(asked["state"]) >= 43
        waiting = asyncio.ensure_future(signing.client.finish_redirect(credential, started))
        page = await browser(coming_back(started, iss=server.issuer))
        assert b"You are signed in" in page
        assert b"the-code" not in page
        assert (await waiting).renewable
        (form,) = server.forms("/token")
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == asked["code_challenge"]
        assert form["redirect_uri"] == asked["redirect_uri"]
        assert form["code"] == "the-code"
        with pytest.raises(OSError):
            await browser(coming_back(started, iss=server.issuer))


NOT_OURS = {
    "another state": {"state": "x" * 43},
    "no state": {"state": None},
    "an empty state": {"state": ""},
}


@pytest.mark.parametrize("trick", NOT_OURS)
async def test_a_page_that_knows_no_state_ends_nothing(signing: Signing, trick: str) -> None:
    """SECURITY: a code that somebody else brings is not exchanged (CVE-2026-28477)."""
    async with provider(token=lambda _: (200, tokens(canary()))) as server:
        credential = server.credential()
        assert credential.oauth is not None
        started = await signing.client.start_redirect(credential.oauth)
        waiting = asyncio.ensure_future(signing.client.finish_redirect(credential, started))
        page = await browser(coming_back(started, **NOT_OURS[trick], iss=server.issuer))
        assert page.startswith(b"HTTP/1.1 400 ")
        assert not server.asked
        for other in (
            f"{coming_back(started)}&state=x",
            coming_back(started).replace("call", "cal"),
        ):
            assert (await browser(other))[9:12] in (b"400", b"404")
        rebound = await browser(coming_back(started), host="evil.org")
        assert rebound.startswith(b"HTTP/1.1 404 ")
        assert not server.asked
        await browser(coming_back(started))
        await waiting


MIXED_UP = {
    "another issuer": ({"iss": "https://evil.example"}, OAuthFailed),
    "no issuer": ({"iss": None}, OAuthFailed),
    "no code": ({"code": None}, OAuthFailed),
    "declined": ({"code": None, "error": "access_denied"}, OAuthDenied),
}


@pytest.mark.parametrize("trick", MIXED_UP)
async def test_an_answer_of_another_provider_is_not_exchanged(signing: Signing, trick: str) -> None:
    """SECURITY: mix-up (RFC 9207)."""
    changes, error = MIXED_UP[trick]
    async with provider(token=lambda _: (200, tokens(canary()))) as server:
        credential = server.credential(names_issuer=True)
        assert credential.oauth is not None
        started = await signing.client.start_redirect(credential.oauth)
        waiting = asyncio.ensure_future(signing.client.finish_redirect(credential, started))
        await browser(coming_back(started, **{"iss": server.issuer, **changes}))
        with pytest.raises(error):
            await waiting
        assert not server.asked
    assert not signing.vault.entries


async def test_a_sign_in_that_is_cancelled_leaves_no_socket(signing: Signing) -> None:
    async with provider() as server:
        credential = server.credential()
        assert credential.oauth is not None
        started = await signing.client.start_redirect(credential.oauth)
        waiting = asyncio.ensure_future(signing.client.finish_redirect(credential, started))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(OSError):
            await browser(coming_back(started))
        late = await signing.client.start_redirect(credential.oauth)
        with pytest.raises(OAuthTimedOut):
            await signing.client.finish_redirect(credential, late, seconds=0)


def keep(vault: MemoryVault, access: str, refresh: str | None, expires_at: str | None) -> None:
    vault.set(f"{REF}/access", access.encode())
    if refresh:
        vault.set(f"{REF}/refresh", refresh.encode())
    vault.set(f"{REF}/state", json.dumps({"expires_at": expires_at}).encode())


SOON, LATER = "2026-01-01T12:00:30.000000Z", "2026-01-01T13:00:00.000000Z"


async def test_a_token_is_renewed_before_it_ends_and_its_successor_replaces_it(
    signing: Signing,
) -> None:
    new, rotated = canary(), canary()
    async with provider(token=lambda _: (200, tokens(new, rotated))) as server:
        credential = server.credential()
        keep(signing.vault, "old", "old-refresh", LATER)
        assert await signing.client.access_token(credential) == "old"
        assert not server.asked
        keep(signing.vault, "old", "old-refresh", SOON)
        both = await asyncio.gather(*(signing.client.access_token(credential) for _ in range(5)))
        assert both == [new] * 5
        assert len(server.asked) == 1  # an old one that is used twice revokes everything
        assert signing.vault.entries[f"{REF}/refresh"] == rotated.encode()
        assert b"old" not in b"".join(signing.vault.entries.values())


@pytest.mark.parametrize("error", ["invalid_grant", "bad_refresh_token"])
async def test_a_refresh_token_that_is_no_longer_taken_means_revoked(
    signing: Signing, error: str
) -> None:
    async with provider(token=lambda _: (400, {"error": error})) as server:
        credential = server.credential()
        keep(signing.vault, "old", "old-refresh", SOON)
        with pytest.raises(GrantRevoked):
            await signing.client.access_token(credential)
        assert not signing.vault.entries
        with pytest.raises(CredentialMissing):
            await signing.client.access_token(credential)
        assert len(server.asked) == 1


async def test_a_server_that_is_out_of_order_costs_no_token(signing: Signing) -> None:
    async with provider(token=lambda _: (503, b"<html>")) as server:
        credential = server.credential()
        keep(signing.vault, "old", "old-refresh", SOON)
        with pytest.raises(OAuthFailed) as error:
            await signing.client.access_token(credential)
        assert not isinstance(error.value, GrantRevoked)
        assert signing.vault.entries[f"{REF}/refresh"] == b"old-refresh"


async def test_a_token_of_another_kind_is_not_used(signing: Signing) -> None:
    answer = {**tokens("x", "y"), "token_type": "mac"}
    async with provider(token=lambda _: (200, answer)) as server:
        keep(signing.vault, "old", "old-refresh", SOON)
        with pytest.raises(OAuthFailed):
            await signing.client.access_token(server.credential())


async def test_removal_takes_both_tokens_back_and_forgets_them(signing: Signing) -> None:
    async with provider(revocation=lambda _: (200, b"")) as server:
        credential = server.credential()
        keep(signing.vault, "the-access", "the-refresh", LATER)
        assert await signing.client.revoke(credential)
        asked = [(form["token"], form["token_type_hint"]) for form in server.forms("/revocation")]
        assert asked == [("the-refresh", "refresh_token"), ("the-access", "access_token")]
        assert not signing.vault.entries


@pytest.mark.parametrize("changes", [{"revocation_endpoint": None}, {}])
async def test_removal_forgets_the_tokens_also_where_the_provider_does_not_help(
    signing: Signing, changes: dict[str, Any]
) -> None:
    async with provider(revocation=lambda _: (503, b"")) as server:
        keep(signing.vault, "the-access", "the-refresh", LATER)
        assert not await signing.client.revoke(server.credential(**changes))
        assert not signing.vault.entries


def metadata(server: Provider, **changes: Any) -> dict[str, Any]:
    found = server.server().model_dump(exclude={"address", "names_issuer"}, exclude_none=True)
    return {**found, "authorization_response_iss_parameter_supported": True, **changes}


async def test_a_server_is_known_by_its_metadata(signing: Signing) -> None:
    async with provider() as server:
        for path in (
            "/.well-known/oauth-authorization-server",
            "/.well-known/openid-configuration",
        ):
            server.answers = {path: lambda _: (200, metadata(server))}
            found = await signing.client.discover(server.issuer, address=LOOPBACK)
            assert found == server.server(names_issuer=True)


@pytest.mark.parametrize("issuer", PRESETS)
async def test_a_preset_is_known_without_asking_anybody(signing: Signing, issuer: str) -> None:
    found = await signing.client.discover(issuer)
    assert found.issuer == issuer
    assert found.device_authorization_endpoint
    assert found.address is None


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "https://evil.example/token"},
        {"token_endpoint": "http://169.254.169.254/token"},
        {"token_endpoint": "http://127.0.0.1:1/token"},
        {"device_authorization_endpoint": "file:///etc/passwd"},
        {"token_endpoint": None},
        {"revocation_endpoint": 5},
    ],
)
async def test_metadata_that_leads_elsewhere_is_not_used(
    signing: Signing, changes: dict[str, Any]
) -> None:
    """SECURITY: a metadata document is no way into the owner's network."""
    async with provider() as server:
        found = metadata(server, **changes)
        server.answers["/.well-known/oauth-authorization-server"] = lambda _: (200, found)
        with pytest.raises(OAuthFailed):
            await signing.client.discover(server.issuer, address=LOOPBACK)


@pytest.mark.parametrize(
    "issuer", ["http://a.example", "https://127.0.0.1", "https://me@a.example", "x", "https://"]
)
async def test_an_issuer_is_encrypted_and_public_unless_it_was_signed(
    signing: Signing, issuer: str
) -> None:
    with pytest.raises(OAuthFailed):
        await signing.client.discover(issuer)


async def test_the_broker_renews_a_token_that_the_server_no_longer_takes() -> None:
    """The code gets the server's 401 once; its next request is made with a new token."""
    first, second = canary(), canary()
    refused = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    async with (
        provider(token=lambda _: (200, tokens(second, canary()))) as server,
        api_server(refused, tls=False) as served,
    ):
        endpoint = Endpoint(
            kind="http", host="localhost", port=served.port, tls="none", address=LOOPBACK
        )
        used = account(endpoint, credential=server.credential())
        at = f"localhost:{served.port}"
        async with brokered(
            used, PublicNetwork(), "x", prepare=lambda vault: keep(vault, first, "r", None)
        ) as run:
            ask = request(f"GET http://{at}/", host=at)
            assert (await run.say(ask)).startswith(b"HTTP/1.1 401 ")
            assert served.header("authorization") == [f"Bearer {first}"]
            await run.say(ask)
            assert served.header("authorization") == [f"Bearer {second}"]


async def test_a_provider_that_is_out_of_order_is_not_called_a_missing_sign_in() -> None:
    async with provider(token=lambda _: (503, b"")) as server, api_server(tls=False) as served:
        signed = {"host": "localhost", "port": served.port, "tls": "none", "address": LOOPBACK}
        at = f"localhost:{served.port}"
        for kind, port, ask, said in (
            ("http", 3128, request(f"GET http://{at}/", host=at), b"HTTP/1.1 503 "),
            ("imap", 1143, b"", b"* BYE [UNAVAILABLE] "),
        ):
            used = account(Endpoint(kind=kind, **signed), credential=server.credential())
            async with brokered(
                used, PublicNetwork(), "x", prepare=lambda vault: keep(vault, "a", "r", SOON)
            ) as run:
                told = await run.say(ask, port=port)
                assert told.startswith(said), told
                assert run.vault.entries[f"{REF}/refresh"] == b"r"


async def test_a_client_secret_comes_from_the_vault(signing: Signing) -> None:
    secret = canary()
    async with provider(token=lambda _: (200, tokens("new"))) as server:
        credential = server.credential()
        assert credential.oauth is not None
        oauth = credential.oauth.model_copy(update={"client_secret_ref": "client/secret"})
        credential = credential.model_copy(update={"oauth": oauth})
        keep(signing.vault, "old", "old-refresh", SOON)
        with pytest.raises(CredentialMissing):
            await signing.client.access_token(credential)
        signing.vault.set("client/secret", secret.encode())
        assert await signing.client.access_token(credential) == "new"
        assert server.forms("/token")[0]["client_secret"] == secret
