"""A real SMTP server on loopback: it takes mail from whoever has a password, and keeps it.

    def test_it(dovecot: Dovecot, smtp: SmtpServer) -> None:
        account = dovecot.add_account()    # the same address and password open the SMTP server
        ...
        assert smtp.sent_by(account.address)[0].recipients == ("ann@example.com",)

Three ports: `plain_port` (passwords without TLS, as a mail bridge on the same machine does it),
`starttls_port` (nothing before STARTTLS) and `tls_port`. What is addressed to a mailbox of the
Dovecot beside it is delivered there, with `Authentication-Results` of the provider.
"""

import asyncio
import base64
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.servers.certificates import certificates
from tests.servers.dovecot import PROVIDER, Dovecot

_WAIT_SECONDS = 120


@dataclass(frozen=True)
class Sent:
    """One mail that the server took."""

    user: str
    sender: str
    recipients: tuple[str, ...]
    content: bytes

    @property
    def message(self) -> Message:
        return message_from_bytes(self.content)


@dataclass
class SmtpServer:
    """A running server, with a thread of its own."""

    dovecot: Dovecot
    token_is_active: Callable[[str, str], bool] = lambda _user, _token: False
    """Whether a bearer token opens the account of this user (XOAUTH2)."""
    sent: list[Sent] = field(default_factory=list)
    refuse_with: str | None = None
    """What every recipient is answered with, such as `451 4.7.1 Try again later`; None: taken."""
    sessions: int = 0
    plain_port: int = 0
    starttls_port: int = 0
    tls_port: int = 0

    def start(self) -> None:
        """Listen on the three ports."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._servers = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(
            _WAIT_SECONDS
        )

    def close(self) -> None:
        """Stop listening, and end the thread."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_WAIT_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WAIT_SECONDS)
        self._loop.close()

    def sent_by(self, address: str) -> list[Sent]:
        """What this account has sent, in order."""
        return [each for each in self.sent if each.user == address]

    async def _listen(self) -> list[asyncio.Server]:
        context = certificates().server_context()
        plain = await self._serve({"auth_require_tls": False})
        secured = await self._serve({"tls_context": context, "require_starttls": True})
        wrapped = await self._serve({"auth_require_tls": False}, ssl=context)
        self.plain_port, self.starttls_port, self.tls_port = (
            each.sockets[0].getsockname()[1] for each in (plain, secured, wrapped)
        )
        return [plain, secured, wrapped]

    async def _serve(self, options: dict[str, Any], **more: Any) -> asyncio.Server:
        def session() -> SMTP:
            return SMTP(
                self,
                hostname="smtp.example.org",
                ident="ESMTP",
                enable_SMTPUTF8=True,
                authenticator=self._authenticate,
                loop=self._loop,
                **options,
            )

        return await self._loop.create_server(session, "127.0.0.1", 0, **more)

    async def _end(self) -> None:
        for each in self._servers:
            each.close()
        mine = asyncio.current_task()
        running = [task for task in asyncio.all_tasks() if task is not mine]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for each in self._servers:
            await each.wait_closed()

    def _authenticate(
        self, _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, data: Any
    ) -> AuthResult:
        if not isinstance(data, LoginPassword):
            return AuthResult(success=False, handled=False)
        user = data.login.decode()
        good = self.dovecot.password_of(user) == data.password.decode()
        return AuthResult(success=good, handled=good, auth_data=user)

    # What follows are the hooks of aiosmtpd, by its names.

    async def auth_XOAUTH2(self, server: SMTP, args: list[str]) -> AuthResult:
        """`user=…^Aauth=Bearer …^A^A`, as Google and Microsoft want it."""
        given = args[1] if len(args) > 1 else await server.challenge_auth("")
        if not isinstance(given, str | bytes):
            return AuthResult(success=False)
        raw = base64.b64decode(given) if isinstance(given, str) else given
        parts = dict(each.partition("=")[::2] for each in raw.decode().split("\x01") if each)
        user, scheme, token = parts.get("user", ""), *parts.get("auth", " ").split(" ", 1)
        good = scheme == "Bearer" and self.token_is_active(user, token)
        return AuthResult(success=good, handled=False, auth_data=user)

    async def handle_CONNECT(self, *_: Any) -> None:
        self.sessions += 1

    async def handle_MAIL(
        self, _server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        # The library's own switch warns on the port without TLS, and a warning fails the tests.
        if not session.authenticated:
            return "530 5.7.0 Authentication required"
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 OK"

    async def handle_RCPT(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: Any
    ) -> str:
        if self.refuse_with is not None:
            return self.refuse_with
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, session: Session, envelope: Envelope) -> str:
        content = envelope.content if isinstance(envelope.content, bytes) else b""
        user, sender = str(session.auth_data), envelope.mail_from or ""
        recipients = tuple(envelope.rcpt_tos)
        self.sent.append(Sent(user, sender, recipients, content))
        found = f"Authentication-Results: {PROVIDER}; dmarc=pass header.from=example.org\n"
        for address in recipients:
            if (account := self.dovecot.account(address)) is not None:
                account.deliver(found.encode() + content)
        return "250 OK: taken"


@pytest.fixture(scope="session")
def smtp(dovecot: Dovecot) -> Iterator[SmtpServer]:
    """One server for the whole session, with the accounts of the Dovecot beside it."""
    server = SmtpServer(dovecot)
    server.start()
    try:
        yield server
    finally:
        server.close()
