"""Sends mail for code in a sandbox: a relay that has signed in at the account's server.

Sending is `act`. The relay signs in before it says a word to the code (`mail_sessions`). Then:

1. Each command is read, checked and written anew. Signing in, encryption and everything that is not
   needed to send a mail are refused.
2. A line of a message ends with CR LF and in no other way, so that the end of the message is the
   same for every server on its way (no smuggling). Its dots are doubled anew.
3. Recipients and the number of mails can be narrowed to those that were approved.
4. Where the connection ends before the server has answered, the code is told that nobody knows
   whether the mail was sent.
"""

import asyncio
import base64
import re
from contextlib import suppress
from dataclasses import dataclass

from silas.egress.accounts import Credential, Tier
from silas.egress.hosts import EgressRefused
from silas.egress.mail_sessions import (
    EXPLAINED,
    LINE_BYTES,
    MESSAGE_BYTES,
    NO_ENCRYPTION,
    NO_SIGN_IN,
    NOT_NOW,
    MailLines,
    MailSession,
    ServerBusy,
    SignInRefused,
    UnreadableMail,
    sasl,
    what_server_said,
)
from silas.egress.proxy import FarLink

_MESSAGE_LINE = 998
_REPLY = re.compile(rb"([2-5][0-9]{2})(?:([ -])(.*))?", re.DOTALL)
_MAX_REPLY_LINES = 100
_SENT_ALL = "5.7.1 This run has sent all the mails that it may send."
_OUTCOME_UNKNOWN = (
    "4.4.2 The connection ended before the server said whether it took the mail. "
    "Look for it before it is sent again."
)
_LOCAL = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}"
_DOMAIN = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?"
_ADDRESS = rf"{_LOCAL}@{_DOMAIN}"
_MAIL = re.compile(rf"MAIL FROM:<({_ADDRESS})>((?: [A-Z0-9]+(?:=[A-Z0-9]+)?)*)", re.IGNORECASE)
_RCPT = re.compile(rf"RCPT TO:<({_ADDRESS})>", re.IGNORECASE)


@dataclass(frozen=True)
class _Reply:
    code: int
    lines: tuple[bytes, ...]

    @property
    def ok(self) -> bool:
        return 200 <= self.code < 300


class SmtpRelay:
    """One connection of a program that sends mail."""

    def __init__(
        self, session: MailSession, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._session = session
        self._client = MailLines(reader)
        self._writer = writer
        self._link: FarLink | None = None
        self._server = MailLines(asyncio.StreamReader())
        self._offers: dict[str, str] = {}
        self._secret: Credential | None = None
        self._recipients = 0

    async def run(self) -> None:
        """Sign in, greet, and relay until one side ends."""
        try:
            self._require_act()
            async with asyncio.timeout(self._session.dialer.wait_seconds):
                await self._sign_in()
            await self._tell(220, "Silas relays")
            while await self._command():
                pass
        except UnreadableMail as error:
            self._session.count.refused += 1
            await self._tell(550, f"5.6.0 Silas cannot read this: {error}.")
        except SignInRefused as error:
            self._session.count.refused += 1
            await self._tell(535, f"5.7.8 {error}")
        except ServerBusy as error:
            await self.refuse(f"Silas: {error}")
        except EgressRefused as error:
            self._session.count.refused += 1
            await self._tell(554, f"5.7.1 Silas: {error}")
        finally:
            if self._link is not None:
                await self._link.close()

    def _require_act(self) -> None:
        if not self._session.account.tier.allows(Tier.ACT):
            raise EgressRefused(f"Sending needs the permission `{Tier.ACT}`.")

    async def refuse(self, words: str) -> None:
        """End before anything was said."""
        await self._tell(421, f"4.3.2 {words}")

    async def _tell(self, code: int, *lines: str) -> None:
        data = "".join(
            f"{code}{' ' if number == len(lines) else '-'}{line}\r\n"
            for number, line in enumerate(lines, 1)
        )
        with suppress(OSError):
            self._writer.write(data.encode("ascii", "replace"))
            await self._writer.drain()

    async def _use(self, link: FarLink) -> None:
        self._link, self._server = link, MailLines(link.reader, self._session.received)

    async def _sign_in(self) -> None:
        endpoint = self._session.endpoint
        await self._use(await self._session.dialer.connect(endpoint))
        if (await self._reply()).code != 220:
            raise EgressRefused("The server does not take connections now.")
        await self._greet()
        if endpoint.tls == "starttls":
            if "STARTTLS" not in self._offers or self._link is None:
                raise EgressRefused(NO_ENCRYPTION)
            if (await self._ask(b"STARTTLS")).code != 220:
                raise EgressRefused(NO_ENCRYPTION)
            await self._use(await self._session.dialer.encrypt(self._link, endpoint.host))
            await self._greet()
        await self._authenticate()

    async def _greet(self) -> None:
        reply = await self._ask(b"EHLO silas.invalid")
        if not reply.ok:
            raise EgressRefused("The server does not speak the SMTP that Silas knows.")
        offers = (
            line.decode("ascii", "replace").upper().partition(" ") for line in reply.lines[1:]
        )
        self._offers = {name: rest for name, _, rest in offers}

    async def _authenticate(self) -> None:
        renewable = self._session.account.credential.kind == "oauth"
        words = ""
        for renew in (False, True) if renewable else (False,):
            self._secret = credential = await self._session.credential(renew)
            reply = await self._try(credential)
            if reply.code == 235:
                return
            words = what_server_said(b" ".join(reply.lines), credential)
        if reply.code // 100 == 4:
            raise ServerBusy(f"{NOT_NOW} {words}".strip())
        raise SignInRefused(f"{NO_SIGN_IN}. {words}".strip())

    async def _try(self, credential: Credential) -> _Reply:
        offered = self._offers.get("AUTH", "").split()
        way = sasl(offered, credential, self._session.endpoint)
        if way is not None:
            reply = await self._ask(f"AUTH {way[0]}".encode())
            reply = await self._ask(base64.b64encode(way[1])) if reply.code == 334 else reply
            return await self._ask(EXPLAINED[way[0]]) if reply.code == 334 else reply
        if credential.kind == "password" and "LOGIN" in offered:
            reply = await self._ask(b"AUTH LOGIN")
            for word in (credential.username, credential.value):
                if reply.code == 334:
                    reply = await self._ask(base64.b64encode(word.encode()))
            return reply
        raise SignInRefused("The server offers no way to sign in that Silas knows.")

    async def _ask(self, command: bytes) -> _Reply:
        await self._send(command + b"\r\n")
        return await self._reply()

    async def _send(self, data: bytes) -> None:
        if self._link is not None:
            await self._link.send(self._session.sent(data))

    async def _reply(self) -> _Reply:
        lines: list[bytes] = []
        while len(lines) < _MAX_REPLY_LINES:
            found = _REPLY.fullmatch(await self._server.line(LINE_BYTES))
            if found is None:
                raise EgressRefused("The server does not answer as it should.")
            lines.append(found[3] or b"")
            if found[2] != b"-":
                return _Reply(int(found[1]), tuple(lines))
        raise EgressRefused("The server answers without an end.")

    async def _pass_back(self, reply: _Reply) -> None:
        words = what_server_said(b" ".join(reply.lines), self._secret) if self._secret else ""
        await self._tell(reply.code, words or "The server said no more.")

    async def _command(self) -> bool:
        """One command of the code; says whether there can be another."""
        line = await self._client.line(LINE_BYTES)
        try:
            text = line.decode("ascii")
        except UnicodeDecodeError:
            raise UnreadableMail("a command is not ASCII") from None
        if not text.isprintable():
            raise UnreadableMail("a command has a byte that does not belong there")
        verb = text[:4].upper()
        if verb in ("EHLO", "HELO"):
            await self._offer(extended=verb == "EHLO")
        elif verb == "MAIL":
            await self._from(text)
        elif verb == "RCPT":
            await self._to(text)
        elif text.upper() == "DATA":
            return await self._data()
        elif text.upper() == "RSET":
            self._recipients = 0
            await self._pass_back(await self._ask(b"RSET"))
        elif verb == "NOOP":
            await self._tell(250, "2.0.0 Nothing done")
        elif text.upper() == "QUIT":
            with suppress(OSError, EgressRefused):
                await self._ask(b"QUIT")
            await self._tell(221, "2.0.0 Goodbye")
            return False
        else:
            await self._refuse(502, f"5.5.1 {verb} is not for code in a sandbox.")
        return True

    async def _refuse(self, code: int, words: str) -> None:
        self._session.count.refused += 1
        await self._tell(code, words)

    async def _offer(self, *, extended: bool) -> None:
        eight = ["8BITMIME"] if "8BITMIME" in self._offers else []
        lines = [f"SIZE {MESSAGE_BYTES}", *eight] if extended else []
        await self._tell(250, "Silas", *lines)

    async def _from(self, text: str) -> None:
        found = _MAIL.fullmatch(text)
        if found is None:
            await self._refuse(501, "5.5.4 The sender cannot be read.")
            return
        if self._session.sent_all:
            await self._refuse(554, _SENT_ALL)
            return
        body = []
        for word in found[2].upper().split():
            if word in ("BODY=8BITMIME", "BODY=7BIT"):
                body = [word] if "8BITMIME" in self._offers else []
            elif not re.fullmatch(r"SIZE=[0-9]{1,12}", word):
                await self._refuse(555, "5.5.4 The sender has a parameter that is not known.")
                return
        self._recipients = 0
        command = " ".join([f"MAIL FROM:<{found[1]}>", *body])
        await self._pass_back(await self._ask(command.encode()))

    async def _to(self, text: str) -> None:
        found = _RCPT.fullmatch(text)
        allowed = self._session.account.narrowed.recipients
        if found is None:
            await self._refuse(501, "5.5.4 The recipient cannot be read.")
        elif allowed is not None and found[1].lower() not in {each.lower() for each in allowed}:
            await self._refuse(550, "5.7.1 This recipient was not approved.")
        else:
            reply = await self._ask(f"RCPT TO:<{found[1]}>".encode())
            self._recipients += reply.ok
            await self._pass_back(reply)

    async def _data(self) -> bool:
        """The message; says whether there can be another command."""
        if not self._recipients:
            await self._refuse(503, "5.5.1 Name a sender and a recipient first.")
            return True
        await self._tell(354, "End with a dot on a line of its own")
        message = await self._message()
        if self._session.sent_all:  # by another connection, meanwhile
            await self._refuse(554, _SENT_ALL)
            return True
        self._recipients = 0
        self._session.messages += 1
        try:
            reply = await self._ask(b"DATA")
            if reply.code == 354:
                await self._send(message)
                reply = await self._ask(b".")
        except OSError:
            await self._tell(451, _OUTCOME_UNKNOWN)
            return False
        self._session.messages -= not reply.ok
        await self._pass_back(reply)
        return True

    async def _message(self) -> bytes:
        """The lines of a message, each with CR LF, and each dot at a beginning doubled."""
        message = bytearray()
        while (line := await self._client.line(_MESSAGE_LINE + 3)) != b".":
            plain = line.removeprefix(b".")
            message += (b"." if plain.startswith(b".") else b"") + plain + b"\r\n"
            if len(message) > MESSAGE_BYTES:
                raise UnreadableMail("the message is too long")
        return bytes(message)
