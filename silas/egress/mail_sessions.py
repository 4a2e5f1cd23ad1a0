"""Mail for code in a sandbox: an IMAP server that has already signed in.

A session connects to the account's server, verifies its certificate and signs in before it says a
word to the code. A server that does not offer the encryption of the endpoint ends the session:
`starttls` never becomes `none`.

IMAP, for each command of the code:

1. It is read whole, with its literals, as far as the grammar of RFC 9051 goes: atoms, quoted
   strings, literals, parentheses. A byte outside of it ends the session. Sizes are limited.
2. The tier has to hold the command (`accounts.IMAP_TIERS`), and the narrowing too. Below `act`, a
   fetch is of items that mark nothing as read, and a message is appended to the drafts alone. The
   server says which folder that is.
3. It is written anew from what was read, so that the server reads the same as Silas did.
4. Signing in, encryption and compression are no commands of the code. While the server waits for
   `DONE`, nothing else is passed on.

`smtp_relay` sends.
"""

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from silas.egress.accounts import BrokeredAccount, Credential, Endpoint, Tier, tier_of_command
from silas.egress.hosts import EgressRefused
from silas.egress.proxy import CHUNK, Dialer, FarLink, RunMeter, UseCount

LINE_BYTES = 64 * 1024
_ANSWER_LINE = 4 * 1024 * 1024
MESSAGE_BYTES = 32 * 1024 * 1024
_MAX_LITERALS = 16
_MAX_ANSWERS = 10_000
_MAX_WORDS = 300
NO_SIGN_IN = "The server does not take the credential of this connection"
NOT_NOW = "The server cannot sign anybody in now."
NO_ENCRYPTION = "The server does not offer the encryption that this connection was approved with."


class SignInRefused(EgressRefused):
    """The server does not take the credential."""


class ServerBusy(EgressRefused):
    """The server cannot say now whether it takes the credential."""


class UnreadableMail(Exception):
    """What was sent is not in the grammar; the text says what is wrong with it."""


@dataclass
class MailSession:
    """What the connections to one mail server need: whose mail, where, and what it costs."""

    account: BrokeredAccount
    endpoint: Endpoint
    dialer: Dialer
    credential: Callable[[bool], Awaitable[Credential]]
    """The credential; True asks for a renewed one."""
    meter: RunMeter
    count: UseCount
    messages: int = 0
    """The mails that were sent, by all connections together."""

    @property
    def sent_all(self) -> bool:
        """Whether the run has sent all mails that it may send."""
        most = self.account.narrowed.messages
        return most is not None and self.messages >= most

    def sent(self, data: bytes) -> bytes:
        self.meter.data(len(data))
        self.count.sent += len(data)
        return data

    def received(self, data: bytes) -> None:
        self.meter.data(len(data))
        self.count.received += len(data)


class MailLines:
    """Reads lines and pieces of a stream, with limits."""

    def __init__(
        self, reader: asyncio.StreamReader, count: Callable[[bytes], None] | None = None
    ) -> None:
        self._reader = reader
        self._count = count
        self._buffer = bytearray()

    async def _more(self) -> None:
        data = await self._reader.read(CHUNK)
        if not data:
            raise ConnectionResetError("the connection ended")
        if self._count is not None:
            self._count(data)
        self._buffer += data

    async def line(self, limit: int) -> bytes:
        """The next line, without its CR LF; a CR or LF alone is part of no line."""
        start = 0
        while (end := self._buffer.find(b"\n", start)) < 0:
            if len(self._buffer) > limit:
                raise UnreadableMail("a line is too long")
            start = len(self._buffer)
            await self._more()
        line = bytes(self._buffer[: end + 1])
        del self._buffer[: end + 1]
        if len(line) > limit:
            raise UnreadableMail("a line is too long")
        if not line.endswith(b"\r\n") or b"\r" in line[:-2] or b"\0" in line:
            raise UnreadableMail("a line does not end with CR LF")
        return line[:-2]

    async def pieces(self, size: int) -> AsyncIterator[bytes]:
        """The next `size` bytes, as they come."""
        while size > 0:
            if not self._buffer:
                await self._more()
            piece = bytes(self._buffer[:size])
            del self._buffer[: len(piece)]
            size -= len(piece)
            yield piece

    async def exactly(self, size: int) -> bytes:
        return b"".join([piece async for piece in self.pieces(size)])


# A refused token is explained by the server first. This asks for the end of it.
EXPLAINED = {"PLAIN": b"*", "OAUTHBEARER": b"AQ==", "XOAUTH2": b""}


def sasl(
    offered: Sequence[str], credential: Credential, endpoint: Endpoint
) -> tuple[str, bytes] | None:
    """The way to sign in that the server offers, with what is said there; None: there is none."""
    user, value = credential.username, credential.value
    if any(char in user + value for char in "\0\r\n\x01"):
        raise SignInRefused("The credential has characters that no mail server takes.")
    if credential.kind == "password":
        return ("PLAIN", f"\0{user}\0{value}".encode()) if "PLAIN" in offered else None
    if "OAUTHBEARER" in offered:
        name = user.replace("=", "=3D").replace(",", "=2C")
        where = f"host={endpoint.host}\x01port={endpoint.port}"
        return "OAUTHBEARER", f"n,a={name},\x01{where}\x01auth=Bearer {value}\x01\x01".encode()
    if "XOAUTH2" in offered:
        return "XOAUTH2", f"user={user}\x01auth=Bearer {value}\x01\x01".encode()
    return None


def what_server_said(text: bytes, credential: Credential) -> str:
    """What a server said, for the code: printable, short, and without the credential."""
    words = re.sub(r"[^ -~]+", " ", text.decode("ascii", "replace"))[:_MAX_WORDS].strip()
    hidden = credential.value in words or any(
        needle.decode(errors="replace") in words for needle in credential.needles
    )
    return "" if hidden else words


_LITERAL_AT_END = re.compile(rb"\{([0-9]{1,10})(\+?)\}\Z")
_TOKENS = re.compile(
    rb"""(?P<space>[ ])|(?P<open>\()|(?P<close>\))
    |(?P<quoted>"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*")
    |(?P<atom>[!#$%&'*+,\-./0-9:;<=>?@A-Z\[\\\]^_`a-z|}~]+)""",
    re.VERBOSE,
)
_TAG = re.compile(rb"[A-Za-z0-9.]{1,40}")
_NAME = re.compile(rb"[A-Za-z][A-Za-z0-9.-]{0,39}")

_FIELDS = r"HEADER(?:\.FIELDS(?:\.NOT)? \([!#-'*+\-./0-9:;<=>?@A-Z\[\]^_`|}~ ]+\))?"
_SECTION = rf"\[(?:[0-9.]+)?(?:{_FIELDS}|TEXT|MIME)?\]"
_PART = r"(?:<[0-9]+\.[0-9]+>)?"
_ITEM = (
    r"(?:FLAGS|UID|INTERNALDATE|ENVELOPE|BODYSTRUCTURE|BODY|RFC822\.SIZE|RFC822\.HEADER|MODSEQ"
    r"|EMAILID|THREADID|SAVEDATE|PREVIEW|X-GM-MSGID|X-GM-THRID|X-GM-LABELS|ALL|FAST|FULL"
    rf"|BODY\.PEEK{_SECTION}{_PART}|BINARY\.PEEK\[[0-9.]*\]{_PART}|BINARY\.SIZE\[[0-9.]*\])"
)
_FETCH_THAT_MARKS_NOTHING = re.compile(
    rf"[0-9:*,$]+ (?:{_ITEM}|\({_ITEM}(?: {_ITEM})*\))(?: \(CHANGEDSINCE [0-9]+(?: VANISHED)?\))?"
)


@dataclass(frozen=True)
class _Command:
    """One command, read whole: text with literals between."""

    tag: bytes
    name: str
    texts: tuple[bytes, ...]
    literals: tuple[bytes, ...]

    @property
    def arguments(self) -> bytes:
        """What stands behind the name, up to the first literal."""
        words = self.texts[0].split(b" ", 3 if self.is_uid else 2)
        return words[-1] if len(words) > (3 if self.is_uid else 2) else b""

    @property
    def is_uid(self) -> bool:
        return self.texts[0].split(b" ")[1].upper() == b"UID"

    @property
    def first_argument(self) -> bytes | None:
        """The first argument as a string: a mailbox, for most commands; None: it is no string."""
        text = self.arguments
        if not text:
            return self.literals[0] if self.literals else None
        found = _TOKENS.match(text)
        if found is None or text[found.end() :][:1] != b" ":
            return None
        if found.lastgroup == "quoted":
            return re.sub(rb"\\(.)", rb"\1", found.group()[1:-1])
        return found.group()


def _tokens_hold(text: bytes) -> bool:
    position = 0
    while position < len(text):
        found = _TOKENS.match(text, position)
        if found is None:
            return False
        position = found.end()
    return True


def _command(texts: Sequence[bytes], literals: Sequence[bytes]) -> _Command:
    """Rule 1; raises `Unreadable`."""
    words = texts[0].split(b" ")
    if len(words) < 2 or not _TAG.fullmatch(words[0]):
        raise UnreadableMail("a command has a tag and a name")
    if not all(_tokens_hold(text) for text in texts):
        raise UnreadableMail("a command has a byte that does not belong there")
    is_uid = words[1].upper() == b"UID" and len(words) > 2
    name = words[2] if is_uid else words[1]
    if not _NAME.fullmatch(name):
        raise UnreadableMail("a command has a name")
    return _Command(words[0], name.decode().upper(), tuple(texts), tuple(literals))


class ImapSession:
    """One connection of a mail client."""

    def __init__(
        self, session: MailSession, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._session = session
        self._client = MailLines(reader)
        self._writer = writer
        self._writing = asyncio.Lock()
        self._link: FarLink | None = None
        self._server = MailLines(asyncio.StreamReader())
        self._capabilities: frozenset[str] = frozenset()
        self._drafts: frozenset[bytes] = frozenset()
        self._number = 0
        self._go_on: tuple[bytes, asyncio.Future[bool]] | None = None
        self._idling: bytes | None = None

    async def run(self) -> None:
        """Sign in, greet, and carry commands until one side ends."""
        try:
            async with asyncio.timeout(self._session.dialer.wait_seconds):
                await self._sign_in()
            words = " ".join(sorted(_for_the_code(self._capabilities)))
            await self._tell(f"* PREAUTH [CAPABILITY {words}] Silas has signed in\r\n".encode())
            both = [asyncio.ensure_future(way) for way in (self._outward(), self._inward())]
            try:
                done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                with suppress(ConnectionError):  # one side has ended
                    for task in done:
                        task.result()
            finally:
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        except UnreadableMail as error:
            await self._end(f"BAD Silas cannot read this: {error}.")
        except SignInRefused as error:
            await self._end(f"[AUTHENTICATIONFAILED] {error}")
        finally:
            if self._link is not None:
                await self._link.close()

    async def _end(self, words: str) -> None:
        self._session.count.refused += 1
        with suppress(OSError):
            await self._tell(f"* BYE {words}\r\n".encode())

    async def refuse(self, words: str) -> None:
        """End before anything was said."""
        with suppress(OSError):
            await self._tell(f"* BYE [UNAVAILABLE] {words}\r\n".encode())

    async def _tell(self, data: bytes) -> None:
        async with self._writing:
            self._writer.write(data)
            await self._writer.drain()

    async def _sign_in(self) -> None:
        endpoint = self._session.endpoint
        await self._use(await self._session.dialer.connect(endpoint))
        greeting = await self._server.line(LINE_BYTES)
        # A server that greets with PREAUTH cannot be asked for encryption, nor be signed in to.
        if not greeting.upper().startswith(b"* OK"):
            raise EgressRefused("The server does not greet as it should.")
        await self._ask_capabilities()
        if endpoint.tls == "starttls":
            if "STARTTLS" not in self._capabilities:
                raise EgressRefused(NO_ENCRYPTION)
            if (await self._ask(b"STARTTLS"))[0] != "OK" or self._link is None:
                raise EgressRefused(NO_ENCRYPTION)
            await self._use(await self._session.dialer.encrypt(self._link, endpoint.host))
            await self._ask_capabilities()
        await self._authenticate()
        await self._ask_capabilities()
        tier = self._session.account.tier
        if tier.allows(Tier.DRAFT) and not tier.allows(Tier.ACT):
            self._drafts = await self._find_drafts()

    async def _use(self, link: FarLink) -> None:
        self._link, self._server = link, MailLines(link.reader, self._session.received)

    async def _ask_capabilities(self) -> None:
        _, untagged, _ = await self._ask(b"CAPABILITY")
        words: set[str] = set()
        for line in untagged:
            if line.upper().startswith(b"* CAPABILITY "):
                words.update(line.decode("ascii", "replace").upper().split()[2:])
        self._capabilities = frozenset(words)

    async def _authenticate(self) -> None:
        renewable = self._session.account.credential.kind == "oauth"
        for renew in (False, True) if renewable else (False,):
            credential = await self._session.credential(renew)
            status, words = await self._try(credential)
            if status == "OK":
                return
        if words.upper().startswith("[UNAVAILABLE]"):
            raise ServerBusy(f"{NOT_NOW} {words}")
        raise SignInRefused(f"{NO_SIGN_IN}. {words}".strip())

    async def _try(self, credential: Credential) -> tuple[str, str]:
        offered = [word[5:] for word in self._capabilities if word.startswith("AUTH=")]
        way = sasl(offered, credential, self._session.endpoint)
        if way is not None:
            command, initial = f"AUTHENTICATE {way[0]}".encode(), base64.b64encode(way[1])
            if "SASL-IR" in self._capabilities:
                status, _, text = await self._ask(command + b" " + initial, EXPLAINED[way[0]])
            else:
                status, _, text = await self._ask(command, initial, EXPLAINED[way[0]])
        elif credential.kind == "password" and "LOGINDISABLED" not in self._capabilities:
            user, password = (text.encode() for text in (credential.username, credential.value))
            first = b"LOGIN {%d}" % len(user)
            status, _, text = await self._ask(first, user + b" {%d}" % len(password), password)
        else:
            raise SignInRefused("The server offers no way to sign in that Silas knows.")
        return status, what_server_said(text, credential)

    async def _ask(self, command: bytes, *answers: bytes) -> tuple[str, list[bytes], bytes]:
        """A command of the broker's own; `answers` are sent one by one where the server waits."""
        self._number += 1
        tag, untagged, waiting = b"S%d" % self._number, list[bytes](), list(answers)
        await self._send(tag + b" " + command + b"\r\n")
        while len(untagged) < _MAX_ANSWERS:
            line = await self._server.line(LINE_BYTES)
            while found := _LITERAL_AT_END.search(line):
                if int(found[1]) > LINE_BYTES:
                    raise EgressRefused("The server does not answer as it should.")
                literal = await self._server.exactly(int(found[1]))
                line = (
                    line[: found.start()] + _quoted(literal) + await self._server.line(LINE_BYTES)
                )
            if line.startswith(b"+"):
                await self._send((waiting.pop(0) if waiting else b"*") + b"\r\n")
            elif line.startswith(tag + b" "):
                status, _, text = line[len(tag) + 1 :].partition(b" ")
                return status.decode("ascii", "replace").upper(), untagged, text
            else:
                untagged.append(line)
        raise EgressRefused("The server answers without an end.")

    async def _send(self, data: bytes) -> None:
        if self._link is not None:
            await self._link.send(self._session.sent(data))

    async def _find_drafts(self) -> frozenset[bytes]:
        """The folder that the server calls its drafts; by its name only where it calls none so."""
        special = {"SPECIAL-USE", "LIST-EXTENDED"} <= self._capabilities
        command = b'LIST "" "*" RETURN (SPECIAL-USE)' if special else b'LIST "" "*"'
        _, untagged, _ = await self._ask(command)
        marked, named = set(), set()
        for line in untagged:
            found = _FOLDER.fullmatch(line)
            if found is None:
                continue
            name = re.sub(rb"\\(.)", rb"\1", found[2][1:-1]) if found[2][:1] == b'"' else found[2]
            if b"\\drafts" in found[1].lower().split():
                marked.add(name)
            elif name.rpartition(b"/")[2].rpartition(b".")[2].lower() in _DRAFTS:
                named.add(name)
        return frozenset(marked or (named if len(named) == 1 else ()))

    async def _outward(self) -> None:
        """Commands of the code, one after the other."""
        while True:
            line = await self._client.line(LINE_BYTES)
            if self._idling is not None:
                await self._done(line)
                continue
            command = await self._read(line)
            try:
                self._require(command)
            except EgressRefused as refused:
                self._session.count.refused += 1
                await self._tell(command.tag + f" NO Silas: {refused}\r\n".encode())
                continue
            await self._pass_on(command)

    async def _read(self, line: bytes) -> _Command:
        """Rule 1: the whole command that begins with this line, literals included."""
        texts, literals, size = [], list[bytes](), 0
        while True:
            found = _LITERAL_AT_END.search(line)
            texts.append(line[: found.start()] if found else line)
            if found is None:
                return _command(texts, literals)
            if texts[-1][-1:] not in (b" ", b"("):  # a binary literal, or the end of a word
                raise UnreadableMail("a literal stands where none belongs")
            size += int(found[1])
            appends = len(words := texts[0].split(b" ")) > 1 and words[1].upper() == b"APPEND"
            if size > (MESSAGE_BYTES if appends else LINE_BYTES) or len(literals) >= _MAX_LITERALS:
                raise UnreadableMail("a literal is too long")
            if not found[2]:
                await self._tell(b"+ Silas reads on\r\n")
            literals.append(await self._client.exactly(int(found[1])))
            line = await self._client.line(LINE_BYTES)

    def _require(self, command: _Command) -> None:
        """Rule 2; raises `EgressRefused`."""
        account, name = self._session.account, command.name
        needed = tier_of_command(name)
        if needed is None:
            raise EgressRefused(f"{name} is not for code in a sandbox.")
        if account.narrowed.imap is not None and name not in account.narrowed.imap:
            raise EgressRefused(f"{name} is not among the commands that this connection uses.")
        if not account.tier.allows(needed):
            raise EgressRefused(f"{name} needs the permission `{needed}`.")
        if account.tier.allows(Tier.ACT):
            return
        if name == "FETCH":
            text = command.arguments.decode("ascii", "replace").upper()
            if command.literals or not _FETCH_THAT_MARKS_NOTHING.fullmatch(text):
                raise EgressRefused("This fetch could mark a mail as read. Use BODY.PEEK.")
        if name == "APPEND" and command.first_argument not in self._drafts:
            raise EgressRefused("Without `act`, a message is put into the drafts folder alone.")

    async def _pass_on(self, command: _Command) -> None:
        """Rule 3. The server is waited for where it takes literals only when it is ready."""
        if command.name == "IDLE":
            self._idling = command.tag
        for index, text in enumerate(command.texts):
            if index == len(command.literals):
                await self._send(text + b"\r\n")
                return
            literal = command.literals[index]
            waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._go_on = (command.tag, waiting)
            await self._send(text + b"{%d}\r\n" % len(literal))
            goes_on = await waiting
            self._go_on = None
            if not goes_on:
                return
            await self._send(literal)

    async def _done(self, line: bytes) -> None:
        """Rule 4."""
        if line.upper() != b"DONE":
            raise UnreadableMail("IDLE is ended by DONE")
        self._idling = None
        await self._send(b"DONE\r\n")

    async def _inward(self) -> None:
        """Answers of the server, each passed on whole."""
        while True:
            line = await self._server.line(_ANSWER_LINE)
            tag = line.partition(b" ")[0]
            if self._go_on is not None and not self._go_on[1].done():
                if line.startswith(b"+"):
                    self._go_on[1].set_result(True)
                    continue
                if tag == self._go_on[0]:
                    self._go_on[1].set_result(False)
            if tag == self._idling:
                self._idling = None
            if line.upper().startswith(b"* CAPABILITY "):
                words = frozenset(line.decode("ascii", "replace").upper().split()[2:])
                line = f"* CAPABILITY {' '.join(sorted(_for_the_code(words)))}".encode()
            await self._pass_back(line)

    async def _pass_back(self, line: bytes) -> None:
        async with self._writing:
            while found := _LITERAL_AT_END.search(line):
                self._writer.write(line + b"\r\n")
                async for piece in self._server.pieces(int(found[1])):
                    self._writer.write(piece)
                    await self._writer.drain()
                line = await self._server.line(_ANSWER_LINE)
            self._writer.write(line + b"\r\n")
            await self._writer.drain()


# As IMAP writes them; what a mail client finds by name has to be the same.
_DRAFTS = frozenset(
    {b"drafts", b"draft", b"entw&apw-rfe", b"brouillons", b"borradores", b"bozze", b"rascunhos"}
    | {b"concepten"}
)
_FOLDER = re.compile(
    rb'\* LIST \(([^()]*)\) (?:NIL|"(?:[^"\\]|\\.)*") ("(?:[^"\\]|\\.)*"|[^ "(){}]+)(?: \(.*)?'
)


def _quoted(text: bytes) -> bytes:
    return b'"' + re.sub(rb'(["\\])', rb"\\\1", text.replace(b"\r", b"").replace(b"\n", b"")) + b'"'


def _for_the_code(capabilities: frozenset[str]) -> frozenset[str]:
    """What the server can do, without what is the broker's part."""
    own = ("AUTH=", "STARTTLS", "LOGINDISABLED", "SASL-IR", "COMPRESS=", "UNAUTHENTICATE")
    return frozenset(word for word in capabilities if not word.startswith(own)) | {"IMAP4REV1"}
