"""A mailbox over IMAP: sessions, folders, and mails by ids that survive.

1. The broker answers on loopback as a server that has signed in already. No script sees a password.
2. The id of a mail is `VALIDITY.UID<MESSAGE-ID>FOLDER`. Before anything is done with a mail, it is
   looked up: what is there under its number has to be the same mail. If the folder was numbered
   anew, or the mail has another number by now, it is found by its Message-ID.
3. A mail that is not there any more is a conflict, and then nothing is done with any of the mails.
4. A folder is opened read-only unless something is to be changed, and reading marks nothing.
"""

import binascii
import contextlib
import imaplib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

BROKER = ("127.0.0.1", 1143)
SECONDS = 60
INBOX = "INBOX"
# One line with the numbers of all mails that were found: a million mails fit.
imaplib._MAXLINE = 10_000_000  # type: ignore[attr-defined]  # noqa: SLF001 - there is no other way

_ID = re.compile(r"(\d{1,10})\.(\d{1,10})(<[^<>\s]{0,250}>)(.{1,250})", re.DOTALL)
_MESSAGE_ID = re.compile(rb"<[!-;=?-~]{1,248}>")
_LISTED = re.compile(rb'\(([^)]*)\) (?:"(\\?.)"|NIL) (.*)', re.DOTALL)


class Conflict(Exception):
    """Something was changed meanwhile, or is not there. Nothing was done."""


class Unavailable(Exception):
    """The account cannot be used; `kind` is the type of a `ConnectionFailure`."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class MailId:
    """Which mail (rule 2)."""

    validity: int
    uid: int
    message_id: str
    folder: str

    @classmethod
    def parse(cls, text: str) -> "MailId":
        found = _ID.fullmatch(text)
        if found is None:
            raise Conflict(f"{text[:80]!r} is no id of a mail. Take it from a search.")
        return cls(int(found[1]), int(found[2]), found[3], found[4])

    def __str__(self) -> str:
        return f"{self.validity}.{self.uid}{self.message_id}{self.folder}"


@dataclass(frozen=True)
class Folder:
    """A folder of the mailbox, by its name in Unicode."""

    name: str
    flags: frozenset[str]
    separator: str = ""
    """What stands between a folder and those in it; nothing if there are none."""

    @property
    def last_name(self) -> str:
        return self.name.rpartition(self.separator)[2] if self.separator else self.name

    @property
    def can_be_opened(self) -> bool:
        return "\\noselect" not in self.flags and "\\nonexistent" not in self.flags


@contextlib.contextmanager
def mailbox() -> Iterator["Mailbox"]:
    """A session; errors of the server and of the network become `Unavailable`."""
    try:
        imap = imaplib.IMAP4(*BROKER, timeout=SECONDS)
    except (imaplib.IMAP4.error, OSError) as error:
        raise _unavailable(error) from error
    try:
        if imap.state != "AUTH":
            raise Unavailable("unknown", "The way to the mail server is not open.")
        yield Mailbox(imap)
    except (imaplib.IMAP4.error, OSError) as error:
        raise _unavailable(error) from error
    finally:
        with contextlib.suppress(imaplib.IMAP4.error, OSError):
            imap.logout()


class Mailbox:
    """One session with one folder open at a time."""

    def __init__(self, imap: imaplib.IMAP4) -> None:
        self.imap = imap
        self.validity = 0
        self.count = 0
        self._open: tuple[str, bool] | None = None

    def folders(self) -> list[Folder]:
        """All folders."""
        found = []
        for line in self._listed():
            raw = b"".join(line) if isinstance(line, tuple) else line
            parts = _LISTED.match(raw or b"")
            if parts is None:
                continue
            flags = frozenset(parts[1].decode("ascii", "replace").lower().split())
            separator = (parts[2] or b"").decode("ascii", "replace")[-1:]
            found.append(Folder(_decoded(_unquoted(parts[3], line)), flags, separator))
        return found

    def _listed(self) -> list[Any]:
        # Some servers say what a folder is for only if they are asked (RFC 6154).
        if not {"SPECIAL-USE", "LIST-EXTENDED"} <= {
            each.upper() for each in self.imap.capabilities
        }:
            return self._ok(*self.imap.list('""', '"*"'))
        answer, said = self.imap.xatom("LIST", '""', '"*"', "RETURN (SPECIAL-USE)")
        self._ok(answer, said)
        return self.imap.response("LIST")[1]

    def special(self, use: str, names: Collection[str], otherwise: str = "") -> str:
        """The folder for drafts, sent mail or the archive; raises `Conflict` if there is none.

        That is the one that the server calls so, or one with a usual name, or the one that the
        server calls `otherwise`.
        """
        folders = [each for each in self.folders() if each.can_be_opened]
        called = [each for each in folders if f"\\{use}" in each.flags]
        named = [each for each in folders if each.last_name.casefold() in names]
        second = [each for each in folders if otherwise and f"\\{otherwise}" in each.flags]
        for each in (*called, *named, *second):
            return each.name
        raise Conflict(
            f"The mailbox has no folder that is known to be for this ({use}). Make one that is "
            f"called {use.capitalize()}."
        )

    def open(self, folder: str, *, changing: bool = False) -> None:
        """Open a folder; raises `Conflict` if it is not there (rule 4)."""
        if self._open == (folder, changing):
            return
        answer, data = self.imap.select(quoted(_encoded(folder)), readonly=not changing)
        if answer != "OK":
            raise Conflict(f"The mailbox has no folder {folder!r}: {_said(data)}")
        self._open = (folder, changing)
        self.count = int(data[0] or 0)
        _, [validity] = self.imap.response("UIDVALIDITY")
        self.validity = int(validity or 0)

    def search(self, *criteria: bytes | str) -> list[int]:
        """The numbers of the mails that meet every criterion, oldest first.

        A criterion in bytes is `KEY text` with text beyond ASCII, and is asked for by itself.
        """
        plain = [each for each in criteria if isinstance(each, str)] or ["ALL"]
        found = set(self._searched(" ".join(plain)))
        for each in criteria:
            if isinstance(each, bytes):
                key, _, text = each.partition(b" ")
                self.imap.literal = text  # type: ignore[assignment]  # bytes, as it sends them
                found &= set(self._searched(f"CHARSET UTF-8 {key.decode()}"))
        return sorted(found)

    def _searched(self, words: str) -> list[int]:
        data = self._ok(*self.imap.uid("SEARCH", words))
        return [int(each) for line in data if line for each in line.split()]

    def fetch(self, uids: Sequence[int], what: str) -> Iterator[tuple[int, bytes, bytes]]:
        """For each mail its number, its attributes and its one literal."""
        if not uids:
            return
        data = self._ok(*self.imap.uid("FETCH", _set(uids), f"(UID {what})"))
        for each in data:
            if isinstance(each, tuple):
                number = re.search(rb"UID (\d+)", each[0])
                if number:
                    yield int(number[1]), each[0], each[1]

    def flags(self, uids: Sequence[int]) -> Iterator[tuple[int, set[str]]]:
        """The flags and labels of mails."""
        if not uids:
            return
        for line in self._ok(*self.imap.uid("FETCH", _set(uids), "(UID FLAGS)")):
            number = re.search(rb"UID (\d+)", line or b"")
            found = re.search(rb"FLAGS \(([^)]*)\)", line or b"")
            if number and found:
                yield int(number[1]), set(found[1].decode("utf-8", "replace").split())

    def locate(self, ids: Sequence[MailId]) -> list[int]:
        """The numbers that these mails have now in the folder that is open (rules 2 and 3)."""
        here = {}
        if all(each.validity == self.validity for each in ids):
            here = self.message_ids([each.uid for each in ids])
        found, lost = [], []
        for each in ids:
            if here.get(each.uid) == each.message_id:
                found.append(each.uid)
                continue
            again = self.with_message_id(each.message_id)
            if len(again) == 1:
                found += again
            else:
                lost.append(str(each))
        if lost:
            raise Conflict(
                "Nothing was done. These mails are not there any more, or were moved: "
                + ", ".join(lost)
            )
        return found

    def message_ids(self, uids: Sequence[int]) -> dict[int, str]:
        """The Message-IDs of mails by their numbers."""
        what = "BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)]"
        return {uid: message_id_in(header) for uid, _, header in self.fetch(uids, what)}

    def with_message_id(self, message_id: str) -> list[int]:
        """The mails of the open folder with exactly this Message-ID, oldest first."""
        if message_id == "<>":
            return []
        found = self.search(f"HEADER MESSAGE-ID {quoted(message_id)}")
        same = self.message_ids(found)
        return [uid for uid in found if same.get(uid) == message_id]

    def move(self, uids: Sequence[int], folder: str) -> None:
        """Move mails of the open folder."""
        able = {each.upper() for each in self.imap.capabilities}
        if "MOVE" in able:
            self._ok(*self.imap.uid("MOVE", _set(uids), quoted(_encoded(folder))))
            return
        if "UIDPLUS" not in able:
            # A plain EXPUNGE would also delete what somebody else has marked.
            raise Conflict("This mail server cannot move mails safely. Nothing was done.")
        self._ok(*self.imap.uid("COPY", _set(uids), quoted(_encoded(folder))))
        self.delete(uids)

    def delete(self, uids: Sequence[int]) -> None:
        """Delete exactly these mails of the open folder."""
        self.flag(uids, "+", "\\Deleted")
        self._ok(*self.imap.uid("EXPUNGE", _set(uids)))

    def flag(self, uids: Sequence[int], sign: str, flag: str) -> None:
        """Set (`+`) or take away (`-`) a flag."""
        if uids:
            self._ok(*self.imap.uid("STORE", _set(uids), f"{sign}FLAGS.SILENT", f"({flag})"))

    def append(self, folder: str, flags: str, content: bytes) -> None:
        """Put a mail into a folder."""
        self._ok(*self.imap.append(quoted(_encoded(folder)), f"({flags})", None, content))

    def unread(self, folder: str) -> tuple[int, int]:
        """How many mails a folder has, and how many of them are unread."""
        data = self._ok(*self.imap.status(quoted(_encoded(folder)), "(MESSAGES UNSEEN)"))
        found = re.findall(rb"(MESSAGES|UNSEEN) (\d+)", b" ".join(filter(None, data)))
        counts = {key: int(value) for key, value in found}
        return counts.get(b"MESSAGES", 0), counts.get(b"UNSEEN", 0)

    @staticmethod
    def _ok(answer: str, data: list[Any]) -> list[Any]:
        if answer != "OK":
            raise Conflict(f"The mail server refused it: {_said(data)}")
        return data


def message_id_in(header: bytes) -> str:
    """The Message-ID of a header; `<>` if it has none that can be compared."""
    found = _MESSAGE_ID.search(header)
    return found[0].decode("ascii") if found else "<>"


def quoted(text: str) -> str:
    """A text as IMAP quotes it."""
    if re.search(r"[\x00-\x1f\x7f-\xff]", text) or not text.isascii():
        raise Conflict("The text holds characters that a mail server does not take.")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def criterion(key: str, text: str) -> bytes | str:
    """What to search for, as `Mailbox.search` takes it."""
    if re.search(r"[\x00-\x1f\x7f]", text):
        raise Conflict("A text to search for must be one line.")
    return f"{key} {quoted(text)}" if text.isascii() else f"{key} {text}".encode()


def _set(uids: Sequence[int]) -> str:
    return ",".join(map(str, uids))


def _said(data: Sequence[Any]) -> str:
    return b" ".join(each for each in data if isinstance(each, bytes)).decode("utf-8", "replace")[
        :300
    ]


def _unquoted(raw: bytes, line: object) -> bytes:
    if isinstance(line, tuple):  # the name came as a literal
        return bytes(line[1])
    return re.sub(rb"\\(.)", rb"\1", raw[1:-1]) if raw.startswith(b'"') else raw


def _decoded(raw: bytes) -> str:
    """The name of a folder: IMAP writes it in a UTF-7 of its own."""

    def piece(found: re.Match[str]) -> str:
        coded = found[1].replace(",", "/")
        if not coded:
            return "&"
        return binascii.a2b_base64(coded + "=" * (-len(coded) % 4)).decode("utf-16-be", "replace")

    return re.sub(r"&([^-]*)-", piece, raw.decode("ascii", "replace"))


def _encoded(name: str) -> str:
    def piece(found: re.Match[str]) -> str:
        if found[0] == "&":
            return "&-"
        coded = binascii.b2a_base64(found[0].encode("utf-16-be"), newline=False).decode("ascii")
        return f"&{coded.rstrip('=').replace('/', ',')}-"

    return re.sub(r"&|[^\x20-\x7e]+", piece, name)


# In this order: the broker says AUTHENTICATIONFAILED, and then what the server has said of it.
_KINDS = (
    (
        r"\[WEBALERT\b|application-specific password|(?:two|2)-(?:step|factor)|second factor",
        "mfa_required",
        "The provider wants you to sign in on its page, or a password for programs.",
    ),
    (r"\[LIMIT\b|too many", "rate_limited", "The mail server takes no more requests for now."),
    (r"\[EXPIRED\b", "token_revoked", "The mail server says that the password has expired."),
    (
        r"\[CONTACTADMIN\b",
        "enterprise_policy_block",
        "The mail server wants you to ask its admin.",
    ),
    (
        r"\[AUTHORIZATIONFAILED\b",
        "enterprise_policy_block",
        "The account may not be read by programs.",
    ),
    (
        r"\[PRIVACYREQUIRED\b",
        "enterprise_policy_block",
        "The mail server wants another encryption.",
    ),
    (r"\[UNAVAILABLE\b", "service_unavailable", "The mail server is not available."),
    (r"\[AUTHENTICATIONFAILED\b", "token_revoked", "The mail server does not take the password."),
)


def _unavailable(error: Exception) -> Unavailable:
    said = " ".join(str(each) for each in error.args)
    for pattern, kind, sentence in _KINDS:
        if re.search(pattern, said, re.IGNORECASE):
            return Unavailable(kind, sentence)
    if isinstance(error, OSError):
        return Unavailable("service_unavailable", "The mail server does not answer.")
    return Unavailable("unknown", f"The mail server said: {said[:300]}")
