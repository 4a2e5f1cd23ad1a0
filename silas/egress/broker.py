"""The credential broker: code in a sandbox uses an account, and never sees what opens it.

A run with an account has the broker as its way out. It is the proxy (`proxy`) for hosts that are
listed beside the account, and for the account's own endpoints:

1. A plain request `http://HOST/…` to an endpoint is encrypted by the broker, which verifies the
   certificate, and gets the account's credential. What the code sent as `Authorization` or `Cookie`
   is dropped. A tunnel to an account's host is refused: nobody could look into it.
2. The account's tier has to hold the method, and its narrowing the path (`accounts`). A header that
   would turn one method or path into another is refused, and so is a body where none belongs.
3. An answer is passed back as it is, a redirect too: none is followed. It sets no cookie, it is not
   compressed, and it ends where it would repeat the credential.
4. A mail client finds a server that has already signed in (`mail_sessions`), and a relay that sends
   (`smtp_relay`).
5. The credential is read from the vault for each use, outside of every sandbox. Only `Credential`
   holds it, and no text, log or record shows one.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence

import h11

from silas.egress.accounts import (
    BrokeredAccount,
    Credential,
    CredentialRef,
    Endpoint,
    tier_of_method,
)
from silas.egress.hosts import EgressRefused
from silas.egress.mail_sessions import ImapSession, MailSession, ServerBusy, SignInRefused
from silas.egress.oauth import CredentialMissing, GrantRevoked, OAuthClient
from silas.egress.proxy import (
    OF_THE_CONNECTION,
    Carried,
    Dialer,
    EgressLimits,
    EgressProxy,
    PassedOn,
    ProxyClient,
    Serve,
    WayOut,
    close_writer,
    host_header,
)
from silas.egress.smtp_relay import SmtpRelay
from silas.kernel import Clock, SilasError
from silas.secrets import Vault

IMAP_PORT, SMTP_PORT = 1143, 1587
"""Where mail clients inside find the account. The namespace is new, so the ports are free."""

_MAIL_AT_ONCE = 4
_NO_CREDENTIAL = (CredentialMissing, GrantRevoked)
# What the code sends of its own in place of the broker's.
_DROPPED = OF_THE_CONNECTION | {b"host", b"authorization", b"cookie", b"accept-encoding"}
_OF_A_BODY = (b"content-length", b"transfer-encoding")
# They ask for another method or another path than the request says.
_TURNING = frozenset(
    {
        *(b"x-http-method-override", b"x-http-method", b"x-method-override"),
        *(b"x-original-url", b"x-rewrite-url", b"x-original-method"),
    }
)
_UNCLEAR = ("//", "/./", "/../", "\\", ";", "%2e", "%2f", "%5c", "%00", "%25")


class CredentialBroker:
    """Opens the way out for runs with an account. There is one in a process."""

    def __init__(
        self,
        vault: Vault,
        way_out: WayOut,
        *,
        clock: Clock,
        trust: ssl.SSLContext | None = None,
        limits: EgressLimits | None = None,
    ) -> None:
        self._vault = vault
        self._limits = limits or EgressLimits()
        self._dialer = Dialer(way_out, trust=trust, wait_seconds=self._limits.wait_seconds)
        self.oauth = OAuthClient(vault, self._dialer, clock=clock)

    def session(self, account: BrokeredAccount, *, hosts: Sequence[str] = ()) -> "BrokerSession":
        """The way out of one run, with the hosts that it may reach beside the account."""
        return BrokerSession(self, account, hosts, dialer=self._dialer, limits=self._limits)

    async def credential(self, ref: CredentialRef, *, renew: bool = False) -> Credential:
        """The secret itself (5); raises `EgressError`. For sessions alone."""
        if ref.kind == "none":
            value = ""
        elif ref.kind == "oauth":
            value = await self.oauth.access_token(ref, renew=renew)
        else:
            found = await asyncio.to_thread(self._vault.get, ref.ref_id)
            if found is None:
                raise CredentialMissing
            try:
                value = found.decode()
            except UnicodeDecodeError:
                raise CredentialMissing("The credential is no text. Enter it again.") from None
        return Credential(ref.kind, ref.username, value)

    async def forget(self, ref: CredentialRef) -> bool:
        """Remove the secret, and take an OAuth grant back; says whether the provider confirmed."""
        confirmed = await self.oauth.revoke(ref) if ref.kind == "oauth" else False
        await asyncio.to_thread(self._vault.delete, ref.ref_id)
        return confirmed


class BrokerSession(EgressProxy):
    """The way out of one run with an account."""

    def __init__(
        self,
        broker: CredentialBroker,
        account: BrokeredAccount,
        hosts: Sequence[str],
        *,
        dialer: Dialer,
        limits: EgressLimits,
    ) -> None:
        super().__init__(hosts, dialer.way_out, limits=limits)
        self._broker = broker
        self._account = account
        self._dialer = dialer
        self._renew = False
        """The server did not take the last token: the next use asks for another one."""
        self._mail: dict[int, tuple[type[ImapSession | SmtpRelay], MailSession]] = {}
        for port, kind, handler in (
            (IMAP_PORT, "imap", ImapSession),
            (SMTP_PORT, "smtp", SmtpRelay),
        ):
            endpoint = next((each for each in account.endpoints if each.kind == kind), None)
            if endpoint is not None:
                self._mail[port] = handler, self._mail_session(endpoint)

    def _mail_session(self, endpoint: Endpoint) -> MailSession:
        return MailSession(
            account=self._account,
            endpoint=endpoint,
            dialer=self._dialer,
            credential=self._credential_for_mail,
            meter=self._meter,
            count=self._meter.of(str(endpoint.at)),
        )

    @property
    def ports(self) -> tuple[int, ...]:
        return (*super().ports, *self._mail)

    async def serve(self, listeners: Mapping[int, socket.socket]) -> None:
        mail = {port: listener for port, listener in listeners.items() if port in self._mail}
        await super().serve({port: listeners[port] for port in listeners.keys() - mail.keys()})
        for port, listener in mail.items():
            await self._listen(listener, self._serving(port))

    def _serving(self, port: int) -> Serve:
        handler, session = self._mail[port]
        at_once = asyncio.Semaphore(_MAIL_AT_ONCE)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = handler(session, reader, writer)
            try:
                async with at_once:
                    await self._converse(connection, session)
            finally:
                await close_writer(writer)

        return serve

    async def _converse(self, connection: ImapSession | SmtpRelay, session: MailSession) -> None:
        try:
            self._meter.request()
            session.count.connections += 1
            await connection.run()
        except EgressRefused as refused:
            session.count.refused += 1
            await connection.refuse(f"Silas: {refused}")
        except TimeoutError:
            await connection.refuse("Silas: It took too long.")
        except OSError as error:
            await connection.refuse(f"Silas: The server cannot be reached: {_why(error)}.")

    async def _credential_for_mail(self, renew: bool) -> Credential:
        try:
            return await self._broker.credential(self._account.credential, renew=renew)
        except _NO_CREDENTIAL as error:
            raise SignInRefused(error.message) from error
        except SilasError as error:  # the provider does not answer, or the vault is locked
            raise ServerBusy(error.message) from error

    async def _carry_out(self, client: ProxyClient, request: h11.Request) -> None:
        target = request.target.decode("ascii")
        if request.method == b"CONNECT":
            self._refuse_tunnel(target)
            return await super()._carry_out(client, request)
        authority, path = _split(target)
        endpoint = self._endpoint(authority)
        if endpoint is None:
            return await super()._carry_out(client, request)
        count = self._meter.of(str(endpoint.at))
        try:
            self._meter.request()
            self._require(endpoint, request, path)
        except EgressRefused:
            count.refused += 1
            raise
        try:
            credential = await self._broker.credential(self._account.credential, renew=self._renew)
        except SilasError as error:
            count.refused += 1
            await client.refuse(401 if isinstance(error, _NO_CREDENTIAL) else 503, error.message)
            return None
        self._renew = False
        link = await self._dialer.connect(endpoint)
        count.connections += 1
        answers = _Screened(credential)
        try:
            written = _written_anew(request, endpoint, path, credential)
            await Carried(client, link, self._meter, count).plain(written, answers)
        except EgressRefused:
            count.refused += 1
            raise
        finally:
            self._renew = answers.status == 401 and credential.kind == "oauth"
            await link.close()
        return None

    def _refuse_tunnel(self, target: str) -> None:
        host = target.rpartition(":")[0].lower()
        if any(host == each.host for each in self._account.endpoints):
            self._meter.of(target.lower()).refused += 1
            raise EgressRefused("An account is reached by http://HOST/…, and not by a tunnel.")

    def _endpoint(self, authority: str) -> Endpoint | None:
        """The endpoint that a request names: exactly, but for the case of ASCII letters."""
        name, _, port = authority.lower().partition(":")
        for each in self._account.endpoints:
            if (
                each.is_http
                and name == each.host
                and (port or str(each.usual_port)) == str(each.port)
            ):
                return each
        return None

    def _require(self, endpoint: Endpoint, request: h11.Request, path: str) -> None:
        """Rule 2; raises `EgressRefused`."""
        method, account = request.method.decode("ascii"), self._account
        for name, value in request.headers:
            if name == b"host" and self._endpoint(value.decode("ascii")) != endpoint:
                raise EgressRefused("The header Host names another host than the request.")
            if name in _TURNING:
                raise EgressRefused(f"The header {name.decode()} is not passed on.")
            if method in ("GET", "HEAD") and name in _OF_A_BODY and value != b"0":
                raise EgressRefused(f"A {method} has no body.")
        needed = tier_of_method(endpoint.kind, method)
        if needed is None:
            raise EgressRefused(f"{method} is not passed on.")
        if not account.tier.allows(needed):
            raise EgressRefused(f"{method} needs the permission `{needed}`.")
        _require_narrowed(account, method, path)


def _require_narrowed(account: BrokeredAccount, method: str, path: str) -> None:
    if account.narrowed.http is None:
        return
    place = path.partition("?")[0]
    if any(part in f"{place.lower().removesuffix('/')}/" for part in _UNCLEAR):
        raise EgressRefused("The path could be read in two ways.")
    if not any(rule.holds(method, place) for rule in account.narrowed.http):
        raise EgressRefused(f"{method} {place} is not among what this connection uses.")


def _split(target: str) -> tuple[str, str]:
    """The authority and the path of `http://HOST/PATH`; nothing for any other form."""
    if not target.lower().startswith("http://") or "#" in target:
        return "", ""
    authority, slash, path = target[len("http://") :].partition("/")
    return authority, slash + path if slash else "/"


def _written_anew(
    request: h11.Request, endpoint: Endpoint, path: str, credential: Credential
) -> h11.Request:
    kept = [(name, value) for name, value in request.headers if name not in _DROPPED]
    headers = [
        (b"host", host_header(endpoint).encode()),
        *kept,
        (b"accept-encoding", b"identity"),
        (b"connection", b"close"),
    ]
    if credential.kind != "none":
        headers.append((b"authorization", credential.authorization.encode("latin-1")))
    return h11.Request(method=request.method, target=path, headers=headers)


class _Screened(PassedOn):
    """An answer of the account's server on its way to the code (3)."""

    def __init__(self, credential: Credential) -> None:
        self._needles = credential.needles
        self._held = b""
        self.status = 0

    def of(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> Iterator[h11.Event]:
        if isinstance(event, h11.Response):
            yield self.head(event)
        elif isinstance(event, h11.Data):
            if passed := self._pass(bytes(event.data)):
                yield h11.Data(data=passed)
        else:
            if self._held:
                yield h11.Data(data=self._held)
            yield event

    def head(self, answer: h11.Response) -> h11.Response:
        self.status = answer.status_code
        for name, value in answer.headers:
            if name == b"content-encoding" and value.lower() != b"identity":
                raise EgressRefused(
                    "The server's answer is compressed, although it was asked not to."
                )
            self._look(value)
        kept = [
            (name, value) for name, value in answer.headers if not name.startswith(b"set-cookie")
        ]
        return super().head(
            h11.Response(status_code=answer.status_code, headers=kept, reason=answer.reason)
        )

    def _pass(self, data: bytes) -> bytes:
        """What can go on: the last bytes are held back, in which a credential could begin."""
        whole = self._held + data
        self._look(whole)
        longest = max((len(needle) for needle in self._needles), default=1) - 1
        keep = min(longest, len(whole))
        self._held = whole[len(whole) - keep :]
        return whole[: len(whole) - keep]

    def _look(self, data: bytes) -> None:
        if any(needle in data for needle in self._needles):
            raise EgressRefused("The server's answer repeats the credential, so it ends here.")


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate is not valid for this host"
    return error.strerror or "it does not answer as it should"
