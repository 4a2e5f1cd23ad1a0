"""The OAuth client at a certified provider, and its token at a real mail server."""

import asyncio
import contextlib
import socket
import urllib.request
from collections.abc import Iterator

import pytest

from silas.egress import CredentialRef, Endpoint, OAuthRegistration, PublicNetwork, Tier
from silas.egress.broker import IMAP_PORT, CredentialBroker
from silas.egress.oauth import GrantRevoked, OAuthDenied
from silas.egress.proxy import EgressLimits
from silas.testing.fakes import FakeClock, MemoryVault
from tests.egress.brokered import LOOPBACK, account
from tests.egress.test_broker_mail import Talk
from tests.servers.dovecot import Dovecot, require_dovecot
from tests.servers.oidc import CLIENT, OidcProvider, oidc

__all__ = ["oidc"]

SCOPES = ("openid", "offline_access", "email")
REF = "conn_1/oauth"


@pytest.fixture(scope="module")
def mail_server(oidc: OidcProvider) -> Iterator[Dovecot]:
    """A mail server that asks the provider whose a token is."""
    require_dovecot()
    with contextlib.closing(Dovecot(oauth=f"{oidc.issuer}/me")) as server:
        server.start()
        yield server


class Signing:
    """A broker with a vault, and the registration of its client at the provider."""

    def __init__(self) -> None:
        self.vault, self.clock = MemoryVault(), FakeClock()
        self.broker = CredentialBroker(
            self.vault, PublicNetwork(), clock=self.clock, limits=EgressLimits(wait_seconds=60)
        )
        self.oauth = self.broker.oauth

    async def credential(self, oidc: OidcProvider, username: str) -> CredentialRef:
        server = await self.oauth.discover(oidc.issuer, address=LOOPBACK)
        assert server.names_issuer
        registration = OAuthRegistration(server=server, client_id=CLIENT, scopes=SCOPES)
        return CredentialRef(kind="oauth", ref_id=REF, username=username, oauth=registration)

    async def by_device(self, oidc: OidcProvider, username: str) -> CredentialRef:
        credential = await self.credential(oidc, username)
        assert credential.oauth is not None
        started = await self.oauth.start_device(credential.oauth)
        started.interval = 0
        await asyncio.to_thread(oidc.enter_code, started.user_code, login=username)
        granted = await self.oauth.finish_device(credential, started)
        assert granted.renewable
        return credential

    def token(self, name: str) -> str:
        return self.vault.entries[f"{REF}/{name}"].decode()


async def test_a_code_is_entered_and_the_token_opens_the_mailbox_until_it_is_taken_back(
    oidc: OidcProvider, mail_server: Dovecot
) -> None:
    mail = mail_server.add_account()
    signing = Signing()
    credential = await signing.by_device(oidc, mail.address)
    assert await _greeting(signing, mail_server, credential) == b"* PREAUTH"
    access, refresh = signing.token("access"), signing.token("refresh")
    assert await signing.broker.forget(credential)
    assert not signing.vault.entries
    assert not mail.opens_with_token(access)
    assert oidc.post("/token", client_id=CLIENT, grant_type="refresh_token", refresh_token=refresh)[
        1
    ] == {"error": "invalid_grant", "error_description": "grant request is invalid"}
    assert await _greeting(signing, mail_server, credential) == b"* BYE [AUTHENTICATIONFAILED]"


async def test_a_token_that_the_mail_server_no_longer_takes_is_renewed_once(
    oidc: OidcProvider, mail_server: Dovecot
) -> None:
    mail = mail_server.add_account()
    signing = Signing()
    credential = await signing.by_device(oidc, mail.address)
    old = "a token that has ended early"
    signing.vault.set(f"{REF}/access", old.encode())
    assert await _greeting(signing, mail_server, credential) == b"* PREAUTH"
    assert signing.token("access") != old


async def test_rotation_and_an_old_token_that_somebody_else_uses(oidc: OidcProvider) -> None:
    signing = Signing()
    credential = await signing.by_device(oidc, "me@example.org")
    stolen = signing.token("refresh")
    await signing.oauth.refresh(credential)
    assert signing.token("refresh") != stolen
    form = {"client_id": CLIENT, "grant_type": "refresh_token", "refresh_token": stolen}
    assert oidc.post("/token", **form)[0] == 400
    with pytest.raises(GrantRevoked):
        await signing.oauth.refresh(credential)
    assert not signing.vault.entries


async def test_a_code_that_is_declined_leaves_nothing(oidc: OidcProvider) -> None:
    signing = Signing()
    credential = await signing.credential(oidc, "me@example.org")
    assert credential.oauth is not None
    started = await signing.oauth.start_device(credential.oauth)
    started.interval = 0
    await asyncio.to_thread(oidc.deny_code, started.user_code)
    with pytest.raises(OAuthDenied):
        await signing.oauth.finish_device(credential, started)
    assert not signing.vault.entries


async def test_a_browser_signs_in_and_comes_back(oidc: OidcProvider) -> None:
    signing = Signing()
    credential = await signing.credential(oidc, "me@example.org")
    assert credential.oauth is not None
    started = await signing.oauth.start_redirect(credential.oauth)
    waiting = asyncio.ensure_future(signing.oauth.finish_redirect(credential, started))

    def person() -> bytes:
        back = oidc.sign_in(started.auth_url, login="me@example.org")
        with urllib.request.urlopen(back, timeout=90) as page:
            return bytes(page.read())

    assert b"You are signed in" in await asyncio.to_thread(person)
    assert (await waiting).renewable
    assert await signing.oauth.access_token(credential) == signing.token("access")


async def _greeting(signing: Signing, server: Dovecot, credential: CredentialRef) -> bytes:
    """How the mail server of the account greets code in a sandbox."""
    endpoint = Endpoint(
        kind="imap", host="localhost", port=server.imap_port, tls="none", address=LOOPBACK
    )
    session = signing.broker.session(account(endpoint, tier=Tier.OBSERVE, credential=credential))
    listeners = {port: socket.create_server((LOOPBACK, 0)) for port in session.ports}
    where = listeners[IMAP_PORT].getsockname()
    for listener in listeners.values():
        listener.setblocking(False)
    await session.serve(listeners)
    try:
        reader, writer = await asyncio.open_connection(*where)
        line = await Talk(reader, writer).line()
        writer.transport.abort()
        return b" ".join(line.split(b" ")[: 3 if line.startswith(b"* BYE") else 2])
    finally:
        await session.close()
