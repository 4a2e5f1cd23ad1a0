"""The broker for mail, on a real Dovecot and a real SMTP server: what code can do, each trick."""

import asyncio
import contextlib
import imaplib
import smtplib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from silas.egress import CredentialRef, Endpoint, Narrowing, PublicNetwork, Tier, WayOut
from silas.egress.broker import IMAP_PORT, SMTP_PORT
from tests.egress.brokered import (
    LOOPBACK,
    PASSWORD_REF,
    Brokered,
    HostsOnLoopback,
    account,
    brokered,
)
from tests.servers.dovecot import Dovecot, MailAccount, dovecot, message
from tests.servers.smtp import SmtpServer, smtp

__all__ = ["dovecot", "smtp"]

SECONDS = 90
IMAPS = Endpoint(kind="imap", host="imap.example.org", port=993, tls="tls")
STARTTLS = Endpoint(kind="imap", host="imap.example.org", port=143, tls="starttls")
SUBMISSION = Endpoint(kind="smtp", host="smtp.example.org", port=587, tls="starttls")
SMTPS = Endpoint(kind="smtp", host="smtp.example.org", port=465, tls="tls")


@asynccontextmanager
async def mailbox(
    mail: MailAccount,
    *endpoints: Endpoint,
    tier: Tier = Tier.OBSERVE,
    narrowed: Narrowing | None = None,
    way: WayOut | None = None,
    smtp_port: int = 0,
) -> AsyncIterator[Brokered]:
    used = account(
        *(endpoints or (IMAPS,)),
        tier=tier,
        credential=CredentialRef(kind="password", ref_id=PASSWORD_REF, username=mail.address),
        narrowed=narrowed,
    )
    imap = (
        mail.server.imaps_port
        if (endpoints or (IMAPS,))[0].tls == "tls"
        else (mail.server.imap_port)
    )
    ways = way or HostsOnLoopback({"imap.example.org": imap, "smtp.example.org": smtp_port})
    async with brokered(used, ways, mail.password) as run:
        yield run


async def with_imap(run: Brokered, use: Callable[[imaplib.IMAP4], Any]) -> Any:
    """What a script does, in a thread of its own."""

    def work() -> Any:
        client = imaplib.IMAP4(LOOPBACK, run.ports[IMAP_PORT], timeout=SECONDS)
        try:
            assert client.state == "AUTH"
            return use(client)
        finally:
            with contextlib.suppress(OSError):  # it has logged out itself
                client.shutdown()

    return await asyncio.to_thread(work)


class Talk:
    """A client that sends whatever it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def line(self) -> bytes:
        return await asyncio.wait_for(self.reader.readline(), SECONDS)

    async def until(self, *beginnings: bytes) -> bytes:
        """All lines up to one that begins like this, or to the end."""
        said = b""
        while line := await self.line():
            said += line
            if line.startswith(beginnings):
                break
        return said


@asynccontextmanager
async def talk(run: Brokered, port: int = IMAP_PORT) -> AsyncIterator[Talk]:
    reader, writer = await asyncio.open_connection(LOOPBACK, run.ports[port])
    try:
        yield Talk(reader, writer)
    finally:
        writer.transport.abort()


@pytest.mark.parametrize("endpoint", [IMAPS, STARTTLS], ids=["tls", "starttls"])
async def test_a_mailbox_is_listed_searched_and_read_without_a_password(
    dovecot: Dovecot, endpoint: Endpoint
) -> None:
    mail = dovecot.add_account()
    mail.deliver(message("Invoice March"), message("Lunch", text="x" * 200_000))

    def read(client: imaplib.IMAP4) -> tuple[list[Any], ...]:
        assert "IDLE" in client.capabilities
        assert not [word for word in client.capabilities if word.startswith("AUTH=")]
        client.select("INBOX", readonly=True)
        _, found = client.uid("SEARCH", "SUBJECT", '"Invoice"')
        _, listed = client.list()
        _, fetched = client.uid("FETCH", "1:*", "(UID FLAGS BODY.PEEK[])")
        client.logout()
        return found, listed, fetched

    async with mailbox(mail, endpoint) as run:
        found, listed, fetched = await with_imap(run, read)
        assert found == [b"1"]
        assert any(b"\\Drafts" in line for line in listed)
        assert b"Invoice March" in fetched[0][1]
        assert len(fetched[2][1]) > 200_000
        (use,) = run.session.uses()
        assert (use.connections, use.refused) == (1, 0)
        assert use.received > 200_000
    with mail.login() as own:
        own.select("INBOX", readonly=True)
        assert own.search(None, "UNSEEN")[1] == [b"1 2"]


async def test_a_bridge_on_this_machine_is_reached_at_the_address_that_was_signed(
    dovecot: Dovecot,
) -> None:
    mail = dovecot.add_account()
    bridge = Endpoint(
        kind="imap", host="localhost", port=dovecot.imap_port, tls="none", address=LOOPBACK
    )
    async with mailbox(mail, bridge, way=PublicNetwork()) as run:
        status, _ = await with_imap(run, lambda client: client.select("INBOX", readonly=True))
        assert status == "OK"


REFUSED_TO_OBSERVE = {
    "select": b"SELECT INBOX",
    "store": b"STORE 1 +FLAGS (\\Seen)",
    "uid store": b"UID STORE 1 +FLAGS (\\Deleted)",
    "copy": b"COPY 1 Trash",
    "uid move": b"UID MOVE 1 Trash",
    "expunge": b"EXPUNGE",
    "uid expunge": b"UID EXPUNGE 1",
    "close, which expunges": b"CLOSE",
    "create": b"CREATE Evil",
    "delete": b"DELETE Archive",
    "rename": b"RENAME Archive Evil",
    "append": b"APPEND Drafts {4+}\r\nabcd",
    "append with an empty flag list": b"APPEND INBOX () {4+}\r\nabcd",
    "fetch of a body, which marks it": b"FETCH 1 BODY[]",
    "fetch of a body in a list": b"FETCH 1 (FLAGS BODY[TEXT])",
    "fetch of RFC822": b"UID FETCH 1 RFC822",
    "fetch of RFC822.TEXT": b"FETCH 1 (RFC822.TEXT)",
    "fetch of a body in small letters": b"fetch 1 body[]",
    "fetch of a binary body": b"FETCH 1 BINARY[1]",
    "fetch with a field in quotes": b'FETCH 1 BODY.PEEK[HEADER.FIELDS ("A] BODY[")]',
    "fetch with a field as a literal": b"FETCH 1 BODY.PEEK[HEADER.FIELDS ({1+}\r\nA)]",
    "login": b"LOGIN a b",
    "authenticate": b"AUTHENTICATE PLAIN AGEAYg==",
    "starttls": b"STARTTLS",
    "compress": b"COMPRESS DEFLATE",
    "unauthenticate": b"UNAUTHENTICATE",
    "a command that nobody knows": b"XEVIL",
    "setmetadata": b'SETMETADATA "" (/private/x "y")',
    "setacl": b"SETACL INBOX anyone lrs",
    "subscribe": b"SUBSCRIBE Evil",
}


@pytest.mark.parametrize("trick", REFUSED_TO_OBSERVE)
async def test_observe_changes_nothing_whatever_is_tried(dovecot: Dovecot, trick: str) -> None:
    mail = dovecot.add_account()
    mail.deliver(message("Hello"))
    async with mailbox(mail) as run, talk(run) as client:
        assert (await client.line()).startswith(b"* PREAUTH ")
        await client.say(b"a EXAMINE INBOX\r\n")
        assert b"a OK" in await client.until(b"a ")
        await client.say(b"b " + REFUSED_TO_OBSERVE[trick] + b"\r\n")
        assert (await client.line()).startswith(b"b NO Silas: ")
        await client.say(b"c NOOP\r\n")
        assert b"c OK" in await client.until(b"c ")
        assert run.refused() == 1
    assert mail.subjects() == ["Hello"]
    with mail.login() as own:
        own.select("INBOX", readonly=True)
        assert own.search(None, "UNSEEN")[1] == [b"1"]


UNREADABLE = {
    "a line without its CR": b"b NOOP\n",
    "a CR inside of a line": b"b NOOP\rSELECT INBOX\r\n",
    "a NUL": b"b NOOP\0\r\n",
    "a command without a tag": b"NOOP\r\n",
    "a tag that is a plus": b"+ NOOP\r\n",
    "a byte above 127": b"b EXAMINE \xff\r\n",
    "a tab between words": b"b\tSELECT INBOX\r\n",
    "two spaces": b"b  SELECT INBOX\r\n",
    "a quote that does not end": b'b EXAMINE "INBOX\r\n',
    "a quote with a bad escape": b'b EXAMINE "IN\\BOX"\r\n',
    "a literal that is no number": b"b EXAMINE {x}\r\n",
    "a literal with a minus": b"b EXAMINE {-1}\r\n",
    "a literal of a whole mailbox": b"b EXAMINE {999999999}\r\n",
    "a binary literal": b"b APPEND Drafts ~{4}\r\n",
    "a literal in the middle of a line": b"b EXAMINE {5} SELECT\r\n",
    "a line without end": b"b " + b"x" * 100_000 + b"\r\n",
    "a command behind IDLE": b"b IDLE\r\nc SELECT INBOX\r\n",
}


@pytest.mark.parametrize("trick", UNREADABLE)
async def test_what_is_not_in_the_grammar_ends_the_session(dovecot: Dovecot, trick: str) -> None:
    mail = dovecot.add_account()
    async with mailbox(mail) as run, talk(run) as client:
        assert (await client.line()).startswith(b"* PREAUTH ")
        await client.say(UNREADABLE[trick])
        said = await client.until(b"* BYE ")
        assert b"* BYE BAD Silas cannot read this" in said
        assert await asyncio.wait_for(client.reader.read(-1), SECONDS) == b""
        assert run.refused() == 1


async def test_a_command_inside_of_a_literal_is_text_and_nothing_else(dovecot: Dovecot) -> None:
    mail = dovecot.add_account()
    mail.deliver(message("Hello"))
    inside = b"x\r\nc STORE 1 +FLAGS (\\Deleted)\r\nd EXPUNGE\r\n"
    async with mailbox(mail) as run, talk(run) as client:
        await client.line()
        await client.say(b"a EXAMINE INBOX\r\n")
        await client.until(b"a ")
        await client.say(b"b SEARCH SUBJECT {%d}\r\n" % len(inside))
        assert (await client.line()).startswith(b"+ ")
        await client.say(inside + b"\r\n")
        said = await client.until(b"b ")
        assert b"\nc " not in said
        assert b"\nd " not in said
        await client.say(b"e EXAMINE {5+}\r\nINBOX\r\n")
        assert b"e OK" in await client.until(b"e ")
    assert mail.subjects() == ["Hello"]


async def test_commands_may_come_before_the_answers_to_those_before(dovecot: Dovecot) -> None:
    mail = dovecot.add_account()
    mail.deliver(message("Hello"))
    async with mailbox(mail) as run, talk(run) as client:
        await client.line()
        await client.say(
            b"a EXAMINE INBOX\r\nb STORE 1 +FLAGS (\\Seen)\r\nc FETCH 1 FLAGS\r\nd NOOP\r\n"
        )
        said = await client.until(b"d ")
        assert b"b NO Silas: STORE needs the permission `act`." in said
        assert b"c OK" in said
        assert b"\\Seen" not in said.partition(b"c OK")[0].partition(b"* 1 FETCH")[2]


async def test_idle_hears_of_a_new_mail_and_is_ended_by_done(dovecot: Dovecot) -> None:
    mail = dovecot.add_account()
    mail.deliver(message("Hello"))
    async with mailbox(mail) as run, talk(run) as client:
        await client.line()
        await client.say(b"a EXAMINE INBOX\r\n")
        await client.until(b"a ")
        await client.say(b"b IDLE\r\n")
        assert (await client.until(b"+ ")).endswith(b"+ idling\r\n")
        mail.deliver(message("Another"))
        assert b"* 2 EXISTS" in await client.until(b"* 2 EXISTS")
        await client.say(b"done\r\n")
        assert b"b OK" in await client.until(b"b ")
        await client.say(b"c LOGOUT\r\n")
        assert b"* BYE" in await client.until(b"c ")


async def test_a_draft_goes_to_the_drafts_and_nowhere_else(dovecot: Dovecot) -> None:
    mail = dovecot.add_account()
    draft = message("Tuesday is fine")

    def write(client: imaplib.IMAP4) -> list[str]:
        append = [
            client.append(folder, "(\\Draft)", "", draft)[0]
            for folder in ("Drafts", '"Drafts"', "INBOX", "Sent", "drafts", '"INBOX"')
        ]
        return [*append, client.select("INBOX")[0]]

    async with mailbox(mail, tier=Tier.DRAFT) as run:
        assert await with_imap(run, write) == ["OK", "OK", "NO", "NO", "NO", "NO", "NO"]
        assert run.refused() == 5
        async with talk(run) as client:
            await client.line()
            await client.say(b"a APPEND {6}\r\n")
            assert (await client.line()).startswith(b"+ ")
            await client.say(b"Drafts {4+}\r\nabcd\r\n")
            assert (await client.until(b"a ")).startswith((b"a OK", b"*"))
            await client.say(b'b APPEND "Drafts"INBOX {4+}\r\nabcd\r\n')
            assert (await client.line()).startswith(b"b NO Silas")
    assert mail.subjects("Drafts")[:2] == ["Tuesday is fine"] * 2
    assert mail.subjects() == []


async def test_act_archives_and_brings_back(dovecot: Dovecot) -> None:
    mail = dovecot.add_account()
    mail.deliver(message("Hello"))

    def move(client: imaplib.IMAP4) -> list[str]:
        client.select("INBOX")
        first = client.uid("MOVE", "1", "Archive")[0]
        client.select("Archive")
        second = client.uid("STORE", "1", "+FLAGS", "(\\Seen)")[0]
        third = client.uid("MOVE", "1", "INBOX")[0]
        deleted = client.delete("Archive")[0]
        return [first, second, third, deleted]

    async with mailbox(mail, tier=Tier.ACT) as run:
        assert await with_imap(run, move) == ["OK", "OK", "OK", "NO"]
    assert mail.subjects() == ["Hello"]


async def test_a_sidecar_only_narrows_the_commands(dovecot: Dovecot) -> None:
    mail = dovecot.add_account()
    narrowed = Narrowing(imap=("CAPABILITY", "EXAMINE", "STORE"))
    async with mailbox(mail, narrowed=narrowed) as run, talk(run) as client:
        await client.line()
        await client.say(b'a EXAMINE INBOX\r\nb LIST "" *\r\nc STORE 1 +FLAGS (x)\r\n')
        said = await client.until(b"a ")
        assert b"a OK" in said
        assert b"b NO Silas: LIST is not among" in said
        assert b"c NO Silas: STORE needs the permission" in said


async def test_a_wrong_password_is_said_and_shown_nowhere(dovecot: Dovecot) -> None:
    mail = dovecot.add_account()
    wrong = MailAccount(dovecot, mail.address, "canary-of-a-wrong-password")
    async with mailbox(wrong) as run, talk(run) as client:
        said = await client.until(b"* BYE ")
        assert said.startswith(b"* BYE [AUTHENTICATIONFAILED] ")
        assert wrong.password.encode() not in said
        assert run.refused() == 1


async def test_a_server_that_is_out_of_order_is_not_called_a_wrong_password(
    dovecot: Dovecot,
) -> None:
    mail = MailAccount(dovecot, "me@example.org", "canary-password")
    signed = {"host": "localhost", "tls": "none", "address": LOOPBACK}
    imap = (b"* OK hi\r\n", b"* CAPABILITY IMAP4rev1 AUTH=PLAIN SASL-IR\r\n%s OK\r\n")
    async with scripted(*imap, b"%s NO [UNAVAILABLE] later\r\n") as server:
        endpoint = Endpoint(kind="imap", port=server.port, **signed)
        async with mailbox(mail, endpoint, way=PublicNetwork()) as run, talk(run) as client:
            assert (await client.line()).startswith(b"* BYE [UNAVAILABLE] ")
    relay = (b"220 hi\r\n", b"250-hi%s\r\n250 AUTH PLAIN\r\n", b"334 %s\r\n", b"454 %s later\r\n")
    async with scripted(*relay) as server:
        endpoint = Endpoint(kind="smtp", port=server.port, **signed)
        async with (
            mailbox(mail, endpoint, tier=Tier.ACT, way=PublicNetwork()) as run,
            talk(run, SMTP_PORT) as client,
        ):
            assert (await client.line()).startswith(b"421 4.3.2 ")


async def test_a_password_with_a_line_break_is_no_second_command(dovecot: Dovecot) -> None:
    mail = dovecot.add_account()
    odd = MailAccount(dovecot, mail.address, "a\r\nb LOGIN x y")
    async with mailbox(odd) as run, talk(run) as client:
        assert (await client.until(b"* BYE ")).startswith(b"* BYE [AUTHENTICATIONFAILED] ")


class Scripted:
    """A server that says what a test tells it to, and notes what it hears."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.heard: list[bytes] = []
        self.port = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in self.answers:
            if b"%s" in answer:
                line = await reader.readline()
                self.heard.append(line)
                writer.write(answer.replace(b"%s", line.partition(b" ")[0].strip()))
            else:
                writer.write(answer)
            await writer.drain()
        self.heard.append(await reader.read(65536))
        writer.close()


@asynccontextmanager
async def scripted(*answers: bytes) -> AsyncIterator[Scripted]:
    server = Scripted(*answers)
    running = await asyncio.start_server(server.handle, LOOPBACK, 0)
    server.port = running.sockets[0].getsockname()[1]
    async with running:
        yield server


WITHOUT_ENCRYPTION = {
    "stripped": (b"* OK hi\r\n", b"* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n%s OK\r\n"),
    "refused": (
        *(b"* OK hi\r\n", b"* CAPABILITY IMAP4rev1 STARTTLS AUTH=PLAIN\r\n%s OK\r\n"),
        b"%s NO later\r\n",
    ),
    "already signed in": (b"* PREAUTH hi\r\n",),
    "answered in plain text afterwards": (
        *(b"* OK hi\r\n", b"* CAPABILITY IMAP4rev1 STARTTLS AUTH=PLAIN\r\n%s OK\r\n"),
        b"%s OK go\r\n* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\nS3 OK done\r\nS4 OK in\r\n",
    ),
}


@pytest.mark.parametrize("trick", WITHOUT_ENCRYPTION)
async def test_a_password_is_never_sent_without_encryption(dovecot: Dovecot, trick: str) -> None:
    mail = MailAccount(dovecot, "me@example.org", "canary-password")
    async with scripted(*WITHOUT_ENCRYPTION[trick]) as server:
        way = HostsOnLoopback({"imap.example.org": server.port})
        async with mailbox(mail, STARTTLS, way=way) as run, talk(run) as client:
            said = await client.until(b"* BYE ")
            assert said.startswith(b"* BYE ")
            assert b"PREAUTH" not in said
    assert b"AUTHENTICATE" not in b"".join(server.heard)
    assert b"LOGIN" not in b"".join(server.heard)


async def test_a_certificate_of_another_authority_is_refused(dovecot: Dovecot) -> None:
    mail = dovecot.add_account()
    elsewhere = Endpoint(kind="imap", host="imap.elsewhere.net", port=993, tls="tls")
    way = HostsOnLoopback({"imap.elsewhere.net": dovecot.imaps_port})
    async with mailbox(mail, elsewhere, way=way) as run, talk(run) as client:
        said = await client.until(b"* BYE ")
        assert b"its certificate is not valid for this host" in said


async def with_smtp(run: Brokered, use: Callable[[smtplib.SMTP], Any]) -> Any:
    def work() -> Any:
        with smtplib.SMTP(LOOPBACK, run.ports[SMTP_PORT], timeout=SECONDS) as client:
            return use(client)

    return await asyncio.to_thread(work)


def with_line_ends(mail: bytes) -> bytes:
    """As `smtplib` sends a message that it is given whole."""
    return mail.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def send(client: smtplib.SMTP, *recipients: str, text: str = "Hello") -> Any:
    mail = with_line_ends(message(text, to=", ".join(recipients)))
    return client.sendmail("owner@example.org", list(recipients), mail)


@pytest.mark.parametrize("endpoint", [SUBMISSION, SMTPS], ids=["starttls", "tls"])
async def test_a_mail_is_sent_without_a_password(
    dovecot: Dovecot, smtp: SmtpServer, endpoint: Endpoint
) -> None:
    mail = dovecot.add_account()
    port = smtp.starttls_port if endpoint.tls == "starttls" else smtp.tls_port
    body = "One\n.\n..two\n.three"

    def work(client: smtplib.SMTP) -> None:
        client.ehlo()
        assert not client.has_extn("auth")
        assert not client.has_extn("starttls")
        sent = with_line_ends(message("Hello", text=body))
        client.sendmail(mail.address, ["ann@example.com", "ben@example.com"], sent)

    async with mailbox(mail, IMAPS, endpoint, tier=Tier.ACT, smtp_port=port) as run:
        await with_smtp(run, work)
    (sent,) = smtp.sent_by(mail.address)
    assert sent.recipients == ("ann@example.com", "ben@example.com")
    assert sent.message.get_payload().splitlines() == body.splitlines()


@pytest.mark.parametrize("tier", [Tier.OBSERVE, Tier.DRAFT])
async def test_without_act_no_mail_leaves(dovecot: Dovecot, smtp: SmtpServer, tier: Tier) -> None:
    mail = dovecot.add_account()
    before = smtp.sessions
    async with mailbox(mail, SMTPS, tier=tier, smtp_port=smtp.tls_port) as run:
        with pytest.raises(smtplib.SMTPConnectError) as error:
            await with_smtp(run, lambda client: send(client, "ann@example.com"))
        assert error.value.smtp_code == 554
        assert b"needs the permission `act`" in error.value.smtp_error
        assert run.refused() == 1
    assert smtp.sessions == before


async def test_a_mail_goes_to_the_approved_recipients_alone_and_once(
    dovecot: Dovecot, smtp: SmtpServer
) -> None:
    mail = dovecot.add_account()
    narrowed = Narrowing(recipients=("Ann@example.com",), messages=1)
    async with mailbox(
        mail, SMTPS, tier=Tier.ACT, narrowed=narrowed, smtp_port=smtp.tls_port
    ) as run:
        with pytest.raises(smtplib.SMTPRecipientsRefused):
            await with_smtp(run, lambda client: send(client, "evil@example.net"))
        left_out = await with_smtp(
            run, lambda client: send(client, "ann@example.com", "evil@example.net")
        )
        assert list(left_out) == ["evil@example.net"]
        with pytest.raises(smtplib.SMTPSenderRefused):
            await with_smtp(run, lambda client: send(client, "ann@example.com"))
    (sent,) = smtp.sent_by(mail.address)
    assert sent.recipients == ("ann@example.com",)


SMUGGLED = {
    "a dot between line feeds": b"Hello\r\n\n.\nMAIL FROM:<a@b.example>\r\n.\r\n",
    "a dot behind a line feed": b"Hello\n.\r\nMAIL FROM:<a@b.example>\r\n.\r\n",
    "a dot between returns": b"Hello\r\r\n.\r\r\nMAIL FROM:<a@b.example>\r\n.\r\n",
    "a dot behind a return": b"Hello\r.\r\n.\r\n",
    "a NUL": b"Hello\0\r\n.\r\n",
    "a line without end": b"x" * 2000 + b"\r\n.\r\n",
}


@pytest.mark.parametrize("trick", SMUGGLED)
async def test_a_message_has_one_end_and_hides_no_second_mail(
    dovecot: Dovecot, smtp: SmtpServer, trick: str
) -> None:
    mail = dovecot.add_account()
    async with (
        mailbox(mail, SMTPS, tier=Tier.ACT, smtp_port=smtp.tls_port) as run,
        talk(run, SMTP_PORT) as client,
    ):
        assert (await client.line()).startswith(b"220 ")
        for command in (b"EHLO a", b"MAIL FROM:<me@example.org>", b"RCPT TO:<ann@example.com>"):
            await client.say(command + b"\r\n")
            assert (await client.until(b"250 ")).endswith(b"\r\n")
        await client.say(b"DATA\r\n")
        assert (await client.line()).startswith(b"354 ")
        await client.say(SMUGGLED[trick])
        assert (await client.until(b"550 ")).startswith(b"550 5.6.0 Silas cannot read this")
        assert await asyncio.wait_for(client.reader.read(-1), SECONDS) == b""
    assert not smtp.sent_by(mail.address)


REFUSED_BY_THE_RELAY = {
    "a second address": b"RCPT TO:<ann@example.com>,<evil@example.net>",
    "a parameter of a recipient": b"RCPT TO:<ann@example.com> NOTIFY=SUCCESS",
    "a route": b"RCPT TO:<@evil.example:ann@example.com>",
    "a space in an address": b"RCPT TO:<ann@example.com evil>",
    "a parameter of the sender": b"MAIL FROM:<me@example.org> AUTH=x",
    "an empty sender": b"MAIL FROM:<>",
    "signing in": b"AUTH PLAIN AGEAYg==",
    "encryption": b"STARTTLS",
    "chunks": b"BDAT 5 LAST",
    "looking people up": b"VRFY ann",
    "data without a recipient": b"DATA",
    "an unknown command": b"XEVIL",
}


@pytest.mark.parametrize("trick", REFUSED_BY_THE_RELAY)
async def test_the_relay_passes_on_what_it_understands_alone(
    dovecot: Dovecot, smtp: SmtpServer, trick: str
) -> None:
    mail = dovecot.add_account()
    async with (
        mailbox(mail, SMTPS, tier=Tier.ACT, smtp_port=smtp.tls_port) as run,
        talk(run, SMTP_PORT) as client,
    ):
        await client.line()
        await client.say(REFUSED_BY_THE_RELAY[trick] + b"\r\n")
        assert (await client.line()).startswith(b"5")
        await client.say(b"NOOP\r\n")
        assert (await client.line()).startswith(b"250 ")
        assert run.refused() == 1


@pytest.mark.parametrize("line", [b"NOOP\n", b"NOOP\rX\r\n", b"NOOP \xff\r\n", b"x" * 70_000])
async def test_a_line_that_is_none_ends_the_relay(
    dovecot: Dovecot, smtp: SmtpServer, line: bytes
) -> None:
    mail = dovecot.add_account()
    async with (
        mailbox(mail, SMTPS, tier=Tier.ACT, smtp_port=smtp.tls_port) as run,
        talk(run, SMTP_PORT) as client,
    ):
        await client.line()
        await client.say(line)
        assert (await client.until(b"550 ")).startswith(b"550 ")


SMTP_WITHOUT_ENCRYPTION = {
    "stripped": (b"220 hi\r\n", b"250-hi%s\r\n250 AUTH PLAIN\r\n"),
    "refused": (b"220 hi\r\n", b"250-hi%s\r\n250 STARTTLS\r\n", b"454 later%s\r\n"),
    "answered in plain text afterwards": (
        *(b"220 hi\r\n", b"250-hi%s\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n"),
        b"220 go%s\r\n250-hi\r\n250 AUTH PLAIN\r\n334 \r\n235 in\r\n",
    ),
}


@pytest.mark.parametrize("trick", SMTP_WITHOUT_ENCRYPTION)
async def test_the_relay_signs_in_with_encryption_alone(dovecot: Dovecot, trick: str) -> None:
    mail = MailAccount(dovecot, "me@example.org", "canary-password")
    async with scripted(*SMTP_WITHOUT_ENCRYPTION[trick]) as server:
        way = HostsOnLoopback({"smtp.example.org": server.port})
        async with (
            mailbox(mail, SUBMISSION, tier=Tier.ACT, way=way) as run,
            talk(run, SMTP_PORT) as client,
        ):
            assert (await client.line())[:1] in (b"5", b"4")
    assert b"AUTH" not in b"".join(server.heard)


async def test_an_answer_that_was_lost_is_not_called_a_failure(dovecot: Dovecot) -> None:
    mail = MailAccount(dovecot, "me@example.org", "canary-password")
    plain = Endpoint(kind="smtp", host="localhost", port=1, tls="none", address=LOOPBACK)
    answers = (
        *(b"220 hi\r\n", b"250-hi%s\r\n250 AUTH PLAIN\r\n", b"334 %s\r\n", b"235 in%s\r\n"),
        *(b"250 ok%s\r\n", b"250 ok%s\r\n", b"354 go%s\r\n"),
    )
    async with scripted(*answers) as server:
        endpoint = plain.model_copy(update={"port": server.port})
        narrowed = Narrowing(messages=1)
        async with (
            mailbox(mail, endpoint, tier=Tier.ACT, narrowed=narrowed, way=PublicNetwork()) as run,
            talk(run, SMTP_PORT) as client,
        ):
            await client.line()
            for command in (b"MAIL FROM:<me@example.org>", b"RCPT TO:<ann@example.com>", b"DATA"):
                await client.say(command + b"\r\n")
                await client.line()
            await client.say(b"Hello\r\n.\r\n")
            assert b"Look for it before it is sent again" in await client.line()
            async with talk(run, SMTP_PORT) as again:
                await again.line()
                await again.say(b"MAIL FROM:<me@example.org>\r\n")
                assert (await again.line()).startswith(b"554 5.7.1 ")


async def test_a_refused_recipient_is_passed_back(dovecot: Dovecot, smtp: SmtpServer) -> None:
    mail = dovecot.add_account()
    smtp.refuse_with = "451 4.7.1 Try again later"
    try:
        async with mailbox(mail, SMTPS, tier=Tier.ACT, smtp_port=smtp.tls_port) as run:
            with pytest.raises(smtplib.SMTPRecipientsRefused) as error:
                await with_smtp(run, lambda client: send(client, "ann@example.com"))
            ((code, said),) = error.value.recipients.values()
            assert (code, said) == (451, b"4.7.1 Try again later")
    finally:
        smtp.refuse_with = None
