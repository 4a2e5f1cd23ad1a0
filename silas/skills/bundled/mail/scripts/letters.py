"""Mails as texts: what one says, who has really sent it, and how one is written.

1. Everything that stands in a mail is a stranger's text.
2. A sender counts as verified only if the server that received the mail says so: the first
   `Authentication-Results` in it is of a server that is trusted for this account, and says that
   DMARC passed for the domain in `From`, or DKIM with a signature of that domain. Everybody can
   write such a line; only the first one is the receiving server's.
3. A mail that is written has a Message-ID that follows from what it says. The same mail is not
   written, and not sent, twice.
"""

import contextlib
import hashlib
import html.parser
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.errors import MessageError
from email.message import EmailMessage, MIMEPart
from email.utils import format_datetime, getaddresses

MAX_TEXT = 20_000
_ADDRESS = re.compile(r"[^\s<>,;:\"()\[\]\\@]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250})")
_MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,248}>")
# What the parser of the standard library lets out where a mail is not as it should be.
_UNREADABLE = (MessageError, ValueError, LookupError, AttributeError, TypeError)


class NotWritten(Exception):
    """The mail cannot be written like this; nothing was sent or kept."""


def parsed(raw: bytes) -> EmailMessage:
    """A mail, or its header."""
    raw = raw.replace(b"\0", b"")
    try:
        return message_from_bytes(raw, policy=policy.default)
    except _UNREADABLE:
        # Its own account of how it is put together leads nowhere: it is read as it stands there.
        plain = re.sub(rb"(?im)^content-", b"X-Content-", raw)
        return message_from_bytes(plain, policy=policy.default)


def readable(text: str) -> str:
    """A text that can be written as UTF-8: bytes of no known charset are read as it."""
    text = re.sub("[\ud800-\udc7f\udd00-\udfff]", "\ufffd", text)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _raw(mail: EmailMessage, name: str) -> list[str]:
    """The lines of this header as they stand in the mail, the first one first."""
    return [str(value) for key, value in mail.raw_items() if key.lower() == name.lower()]


def header(mail: EmailMessage, name: str) -> str:
    """A header as one line; what cannot be read is given as it stands there."""
    try:
        value = mail.get(name)
    except _UNREADABLE:
        value = next(iter(_raw(mail, name)), "")
    return re.sub(r"\s+", " ", readable(str(value or ""))).strip()[:1000]


def message_id(mail: EmailMessage) -> str:
    """The Message-ID; `<>` if the mail has none that can be compared."""
    found = _MESSAGE_ID.search("".join(_raw(mail, "Message-ID")[:1]))
    return found[0] if found else "<>"


def addresses(mail: EmailMessage, name: str) -> list[str]:
    """The addresses in a header."""
    return [address for _, address in getaddresses([header(mail, name)]) if address]


def is_verified(mail: EmailMessage, trusted: Sequence[str]) -> bool:
    """Whether the receiving server vouches for the domain of the sender (rule 2)."""
    senders, results = addresses(mail, "From"), _raw(mail, "Authentication-Results")
    if len(senders) != 1 or not results or len(_raw(mail, "From")) != 1:
        return False
    domain = senders[0].rpartition("@")[2].casefold()
    server, *found = _without_comments(results[0]).split(";")
    name = server.split()[0].casefold() if server.split() else ""
    if not domain or not any(_is_server(name, each) for each in trusted):
        return False
    return any(_vouches(each, domain) for each in found)


def _is_server(name: str, trusted: str) -> bool:
    """Whether a server is the trusted one, or below it where that begins with a dot."""
    return name.endswith(trusted) if trusted.startswith(".") else name == trusted


def _without_comments(text: str) -> str:
    """What a server says, without what it repeats of the mail in comments and between quotes.

    Both can hold words of the sender's: of one that does not end, nothing counts.
    """
    kept, depth, quoted, skip = list[str](), 0, False, False
    for letter in text:
        if skip or letter == "\\":
            skip = not skip
        elif letter == '"' and not depth:
            quoted = not quoted
        elif quoted:
            continue
        elif letter in "()":
            depth += 1 if letter == "(" else -1
            kept.append(" ")
        elif not depth:
            kept.append(letter)
        if depth < 0:
            return ""
    return "" if depth or quoted else "".join(kept)


def _vouches(result: str, domain: str) -> bool:
    """What one method has found; its own word comes first, and each word once (RFC 8601)."""
    words = [each.casefold().partition("=")[::2] for each in result.split()]
    said = dict(words)
    if not words or len(said) != len(words):
        return False
    if words[0] == ("dmarc", "pass"):
        return said.get("header.from", "") == domain
    if words[0] != ("dkim", "pass"):
        return False
    signed = said.get("header.d") or said.get("header.i", "").rpartition("@")[2]
    return signed == domain


def text_of(mail: EmailMessage) -> str:
    """What a mail says, as plain text. Of two forms, the plain one counts unless it is empty."""
    plain = _body(mail, "plain")
    if plain.strip():
        return plain
    page = _body(mail, "html")
    return _from_html(page) if page.strip() else plain


def _body(mail: EmailMessage, kind: str) -> str:
    try:
        part = mail.get_body(preferencelist=(kind,))
    except _UNREADABLE:
        part = next((each for each in _parts(mail) if each.get_content_subtype() == kind), None)
    if part is None:
        return ""
    content = part.get_payload(decode=True)
    return _decoded(content, part) if isinstance(content, bytes) else ""


def _parts(mail: EmailMessage) -> Iterator[EmailMessage]:
    for part in mail.walk():
        if part.get_content_maintype() == "text":
            yield part


def _decoded(content: bytes, part: MIMEPart) -> str:
    """By the charset that the part names; one that names none, or one that nobody knows, is read
    as UTF-8, and else as what most old programs have written."""
    with contextlib.suppress(*_UNREADABLE):
        named = part.get_content_charset("us-ascii")
        if named not in ("us-ascii", "ascii"):
            return content.decode(named, "replace")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def attachments(mail: EmailMessage) -> list[dict[str, object]]:
    """What is attached: names, types and sizes."""
    found = []
    for part in mail.walk():
        try:
            name, placed = part.get_filename() or "", part.get_content_disposition()
        except _UNREADABLE:
            name, placed = "", "attachment"
        if part.is_multipart() or not (name or placed == "attachment"):
            continue
        content = part.get_payload(decode=True)
        size = len(content) if isinstance(content, bytes) else 0
        kind = readable(part.get_content_type())
        found.append({"name": readable(name)[:250], "type": kind, "bytes": size})
    return found[:50]


class _Text(html.parser.HTMLParser):
    _HIDDEN = frozenset({"script", "style", "head", "title", "template"})
    _BREAKS = frozenset({"p", "div", "br", "tr", "li", "h1", "h2", "h3", "table", "blockquote"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # Where the head was not closed, the body still begins here.
        self._hidden = 0 if tag == "body" else self._hidden + (tag in self._HIDDEN)
        if tag in self._BREAKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in self._HIDDEN))

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(re.sub(r"\s+", " ", data))


def _from_html(text: str) -> str:
    reader = _Text()
    reader.feed(text)
    reader.close()
    return re.sub(r"\n\s*\n+", "\n\n", "".join(reader.parts)).strip()


def written(
    *,
    sender: str,
    to: Sequence[str],
    cc: Sequence[str] = (),
    subject: str,
    text: str,
    answers: EmailMessage | None = None,
    bcc: Sequence[str] = (),
    identity: str,
) -> EmailMessage:
    """A mail, ready to be kept or sent (rule 3); raises `NotWritten`."""
    for each in (sender, *to, *cc, *bcc):
        if not _ADDRESS.fullmatch(each):
            raise NotWritten(f"{each[:100]!r} is no mail address. Write it as `ann@example.org`.")
    if re.search(r"[\x00-\x1f\x7f]", subject):
        raise NotWritten("The subject must be one line.")
    mail = EmailMessage(policy=policy.SMTP)
    mail["From"], mail["To"] = sender, ", ".join(to)
    if cc:
        mail["Cc"] = ", ".join(cc)
    mail["Subject"] = subject
    mail["Date"], mail["Message-ID"] = format_datetime(datetime.now(UTC)), identity
    if answers is not None and (threaded := message_id(answers)) != "<>":
        before = header(answers, "References") or header(answers, "In-Reply-To")
        mail["In-Reply-To"] = threaded
        known = _MESSAGE_ID.findall(before)
        mail["References"] = " ".join([*known[-20:], threaded])
    mail.set_content(text)
    return mail


def message_id_for(sender: str, said: str) -> str:
    """The Message-ID of a mail that says this (rule 3)."""
    digest = hashlib.sha256(f"{sender}\n{said}".encode()).hexdigest()[:32]
    return f"<silas.{digest}@{sender.rpartition('@')[2]}>"


def answer_subject(mail: EmailMessage) -> str:
    """The subject of an answer to a mail."""
    subject = re.sub(r"[\x00-\x1f\x7f]", "", header(mail, "Subject"))
    return subject if re.match(r"(?i)(re|aw|sv|antw)\s*:", subject) else f"Re: {subject}".strip()


def answer_to(mail: EmailMessage) -> list[str]:
    """Who an answer to a mail goes to."""
    return addresses(mail, "Reply-To") or addresses(mail, "From")


def unsubscribe_addresses(mail: EmailMessage) -> tuple[list[str], list[str]]:
    """Where a mailing list takes an unsubscription: its `mailto:` and its `https:` addresses."""
    found = re.findall(r"<([^<>]{1,1000})>", header(mail, "List-Unsubscribe"))
    mailto = [each for each in found if each.lower().startswith("mailto:")]
    return mailto, [each for each in found if each.lower().startswith("https://")]


def flat(words: Iterable[str]) -> list[str]:
    """Texts in order, each once."""
    return list(dict.fromkeys(words))
