"""Files that the owner attaches to messages: kept once by their bytes, and never opened up.

1. A file is kept under the SHA-256 of its bytes, private, and whole or not at all. What is read
   back has that hash, or counts as gone.
2. What a file is, its first bytes say. Its name says nothing: that is shown, without a path and
   without characters that hide or turn text around.
3. One file, one message and all files together have limits. Nothing is ever unpacked.
4. A message names its files by their hashes, and its signature covers them. They are read only for
   a message that the owner has signed.
5. What is in a file was written by somebody: its text is `external`, and says which file it is
   from. How much of a long one is shown, `silas.stream.attachment_reading` says.
6. A message holds on to its files for 90 days. What no message names any more is removed, and so is
   what was never sent, a day after it came.
"""

import asyncio
import fcntl
import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from silas.approval.devices import Attached
from silas.kernel import (
    ChannelError,
    Clock,
    Provenance,
    external,
    format_timestamp,
    parse_timestamp,
)
from silas.kernel.models import Data
from silas.kernel.visible import without_hidden
from silas.queue.models import QueueMessage, UserMessage
from silas.storage import Database, Durability, Transaction
from silas.storage.errors import translated
from silas.storage.files import PRIVATE_FILE, make_private_directory, write_private_file

MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_FILES = 8
"""Of one message."""
MAX_TOTAL_BYTES = 1024 * 1024 * 1024
MAX_NAME_CHARS = 120
SENT_KEPT, UNSENT_KEPT = timedelta(days=90), timedelta(days=1)
"""How long a file is kept after the last message that names it, and if none does."""
_MB = 1024 * 1024
_NO_NAME = "file"
_MOST_OF_CONVERSATION = 50
_LOCK = ".lock"
_LOCK_WAIT_SECONDS = 0.05
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BEGINNING_LINES = 6
_BEGINNING_CHARS = 600


class AttachmentRefused(ChannelError):
    """This file cannot be attached. The message says why, and what to do instead."""

    code = "E_CHANNEL_ATTACHMENT"


class AttachmentUnknown(ChannelError):
    """An attached file is not here, or not any more. Attach it again."""

    code = "E_CHANNEL_ATTACHMENT_GONE"


class FileKind(StrEnum):
    """What a file is, by its bytes."""

    TEXT = "text"
    PNG = "png"
    JPEG = "jpeg"
    GIF = "gif"
    WEBP = "webp"
    PDF = "pdf"
    ZIP = "zip"
    OTHER = "other"

    @property
    def is_image(self) -> bool:
        return self in _IMAGES

    @property
    def media_type(self) -> str:
        """How it is served: an image as one, everything else as bytes that nothing renders."""
        return f"image/{self.value}" if self.is_image else "application/octet-stream"

    @property
    def words(self) -> str:
        """What it is, for people."""
        if self.is_image:
            return f"{self.value.upper()} image"
        return _WORDS[self]


_IMAGES = frozenset({FileKind.PNG, FileKind.JPEG, FileKind.GIF, FileKind.WEBP})
_WORDS = {
    FileKind.TEXT: "text",
    FileKind.PDF: "PDF document",
    FileKind.ZIP: "ZIP archive",
    FileKind.OTHER: "file of an unknown kind",
}
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", FileKind.PNG),
    (b"\xff\xd8\xff", FileKind.JPEG),
    (b"GIF87a", FileKind.GIF),
    (b"GIF89a", FileKind.GIF),
    (b"%PDF-", FileKind.PDF),
    (b"PK\x03\x04", FileKind.ZIP),
    (b"PK\x05\x06", FileKind.ZIP),
    (b"PK\x07\x08", FileKind.ZIP),
)
_NOT_IN_TEXT = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")


def kind_of(content: bytes) -> FileKind:
    """What these bytes are (rule 2)."""
    for beginning, kind in _BEGINNINGS:
        if content.startswith(beginning):
            return kind
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return FileKind.WEBP
    try:
        return FileKind.OTHER if _NOT_IN_TEXT.search(content.decode()) else FileKind.TEXT
    except UnicodeDecodeError:
        return FileKind.OTHER


def clean_name(name: str) -> str:
    """A name to show: the last part of a path, on one line, with nothing hidden in it."""
    last = re.split(r"[/\\]", name)[-1]
    shown = without_hidden(unicodedata.normalize("NFC", last)).strip(" .")
    if len(shown) <= MAX_NAME_CHARS:
        return shown or _NO_NAME
    stem, dot, end = shown.rpartition(".")
    if not dot or len(end) > 10:
        return f"{shown[: MAX_NAME_CHARS - 1]}…"
    return f"{stem[: MAX_NAME_CHARS - len(end) - 2]}….{end}"


class AttachedFile(Data):
    """A file that is kept, as one message calls it."""

    sha256: str
    name: str
    kind: FileKind
    size: int

    @property
    def signed(self) -> Attached:
        """What a message says of it."""
        return Attached(sha256=self.sha256, name=self.name)

    @property
    def facts(self) -> str:
        """Its kind and size in words."""
        return f"{self.kind.words}, {size_words(self.size)}"


def size_words(size: int) -> str:
    """A size as people say it."""
    if size < 1000:
        return "1 byte" if size == 1 else f"{size} bytes"
    for unit, factor in (("kB", 1000), ("MB", 1000**2)):
        if size < 1000 * factor:
            return f"{size / factor:.1f} {unit}".replace(".0 ", " ")
    return f"{size / 1000**3:.1f} GB"


def source_of(name: str, at: datetime) -> str:
    """The file as a source, in words for the owner (rule 5)."""
    return f"{name}, attached at {at:%H:%M} UTC on {at:%Y-%m-%d}"


class AgentFile(Data):
    """A file as an agent is told of it; its text is in the context for those who hear that."""

    sha256: str
    name: str
    kind: FileKind
    size: int
    lines: int | None = None
    """Of a text."""
    beginning: str = ""
    """The first lines of a text."""
    image: bytes | None = None
    """For a model that sees images."""


_INSERT = """
INSERT INTO attachments (sha256, kind, size, kept_at) VALUES (?, ?, ?, ?)
ON CONFLICT (sha256) DO UPDATE SET kept_at = excluded.kept_at
"""
_NAME_IN = """
INSERT INTO message_attachments (message_id, position, sha256, name, said_at)
VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
_FORGET_OLD = "DELETE FROM message_attachments WHERE said_at < ?"
_FORGET_UNNAMED = """
DELETE FROM attachments WHERE kept_at < ?
AND NOT EXISTS (SELECT 1 FROM message_attachments AS m WHERE m.sha256 = attachments.sha256)
"""
_OF_CONVERSATION = """
SELECT named.sha256, named.name, named.said_at FROM message_attachments AS named
JOIN chronicle_entries AS entry ON entry.scope_id = ?
    AND entry.entry_id = 'said_' || named.message_id || '_file' || (named.position + 1) || '.in'
ORDER BY named.said_at DESC, named.message_id, named.position LIMIT ?
"""
_FIND = "SELECT kind, size FROM attachments WHERE sha256 = ?"
_TOTAL = "SELECT coalesce(sum(size), 0) FROM attachments WHERE sha256 != ?"


@dataclass(frozen=True)
class AttachmentStore:
    """The attached files of one data directory: rows in its database, bytes below `directory`."""

    database: Database
    directory: Path
    clock: Clock

    async def keep(self, name: str, content: bytes) -> AttachedFile:
        """Keep a file; raises `AttachmentRefused`. The same bytes are kept once."""
        shown = clean_name(name)
        sha256 = hashlib.sha256(content).hexdigest()
        await self._require_room(shown, content, sha256)
        file = AttachedFile(sha256=sha256, name=shown, kind=kind_of(content), size=len(content))
        lock = await self._shared_lock()
        try:
            if await self._read(sha256) is None:
                with translated(str(self.directory)):
                    await asyncio.to_thread(write_private_file, self._path(sha256), content)
            row = (sha256, file.kind.value, file.size, format_timestamp(self.clock.now()))
            await self.database.execute(_INSERT, row, durability=Durability.TRUST)
        finally:
            os.close(lock)
        return file

    async def _require_room(self, name: str, content: bytes, sha256: str) -> None:
        if not content:
            raise AttachmentRefused(f"{name} is empty: there is nothing to attach.")
        if len(content) > MAX_FILE_BYTES:
            raise AttachmentRefused(
                f"{name} is larger than {MAX_FILE_BYTES // _MB} MB, the most that one file may "
                "have. Attach a part of it, or name its path instead."
            )
        row = await self.database.fetch_one(_TOTAL, (sha256,))
        if row is not None and int(row[0]) + len(content) > MAX_TOTAL_BYTES:
            raise AttachmentRefused(
                f"There is no room for {name}: all attached files together may have at most "
                f"{MAX_TOTAL_BYTES // _MB} MB. Name its path instead; a file is removed "
                f"{SENT_KEPT.days} days after the last message with it."
            )

    async def find(self, named: Sequence[Attached]) -> list[AttachedFile]:
        """The files that a message names; raises if one is not here, or if there are too many."""
        require_few(len(named))
        found = []
        for each in named:
            row = await self.database.fetch_one(_FIND, (each.sha256,))
            if row is None or not await asyncio.to_thread(self._path(each.sha256).is_file):
                name = clean_name(each.name)
                raise AttachmentUnknown(f"{name}: {AttachmentUnknown.sentence()}")
            if clean_name(each.name) != each.name:
                raise AttachmentRefused("The name of an attached file is not a plain name.")
            kind, size = row
            found.append(
                AttachedFile(sha256=each.sha256, name=each.name, kind=FileKind(kind), size=size)
            )
        return found

    async def of_conversation(self, scope_id: str) -> list[tuple[Attached, datetime]]:
        """The files that were read for messages of a conversation, newest first, and their times.

        The chronicle has an entry for each, which only a message that the owner signed gets.
        """
        rows = await self.database.fetch_all(_OF_CONVERSATION, (scope_id, _MOST_OF_CONVERSATION))
        return [(Attached(sha256=row[0], name=row[1]), parse_timestamp(row[2])) for row in rows]

    async def content(self, sha256: str) -> bytes | None:
        """The bytes with this hash; None if they are not kept, or not what they were (rule 1)."""
        if await self.database.fetch_one(_FIND, (sha256,)) is None:
            return None
        return await self._read(sha256)

    async def _read(self, sha256: str) -> bytes | None:
        def read() -> bytes | None:
            try:
                descriptor = os.open(self._path(sha256), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                return None
            with os.fdopen(descriptor, "rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
            return content if hashlib.sha256(content).hexdigest() == sha256 else None

        return await asyncio.to_thread(read) if _SHA256.fullmatch(sha256) else None

    async def prune(self) -> int:
        """Remove what rule 6 says; returns how many files it was."""
        now = self.clock.now()
        old, unsent = (format_timestamp(now - each) for each in (SENT_KEPT, UNSENT_KEPT))

        def forget(tx: Transaction) -> int:
            tx.execute(_FORGET_OLD, (old,))
            return tx.execute(_FORGET_UNNAMED, (unsent,))

        gone = await self.database.transaction(forget)
        if not self.directory.is_dir():
            return gone
        lock = self._lock(fcntl.LOCK_EX)
        if lock is None:
            return gone  # somebody attaches something just now; the next time will do
        try:
            for path in await asyncio.to_thread(lambda: list(self.directory.iterdir())):
                known = await self.database.fetch_one(_FIND, (path.name,))
                if known is None and path.name != _LOCK:
                    await asyncio.to_thread(path.unlink, missing_ok=True)
        finally:
            os.close(lock)
        return gone

    async def _shared_lock(self) -> int:
        # Whoever waited for it in a thread could keep the one who has it from going on.
        while (lock := self._lock(fcntl.LOCK_SH)) is None:  # noqa: ASYNC110 - or a process
            await asyncio.sleep(_LOCK_WAIT_SECONDS)
        return lock

    def _lock(self, how: int) -> int | None:
        """A descriptor that holds the lock until it is closed; None if somebody else has it."""
        with translated(str(self.directory)):
            make_private_directory(self.directory)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self.directory / _LOCK, flags, PRIVATE_FILE)
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor

    def _path(self, sha256: str) -> Path:
        return self.directory / sha256


def require_few(count: int) -> None:
    """Rule 3, for one message; raises `AttachmentRefused`."""
    if count > MAX_FILES:
        raise AttachmentRefused(
            f"One message can have at most {MAX_FILES} files, and this one has {count}. Send them "
            "in several messages."
        )


def name_in(tx: Transaction, message: QueueMessage) -> None:
    """Write down which files a message names, in the transaction that takes it (rule 6)."""
    said = message.payload
    if not isinstance(said, UserMessage):
        return
    at = format_timestamp(message.created_at)
    for position, each in enumerate(said.attachments):
        tx.execute(_NAME_IN, (message.message_id, position, each.sha256, each.name, at))


@dataclass(frozen=True)
class ReadFile:
    """A file that was read for a turn."""

    file: AttachedFile
    content: bytes

    @property
    def text(self) -> str | None:
        """The whole text, if it is one."""
        return self.content.decode() if self.file.kind is FileKind.TEXT else None

    def for_agent(self, *, images: bool) -> AgentFile:
        """The same for whoever answers."""
        text = self.text
        begin = "" if text is None else "\n".join(text.splitlines()[:_BEGINNING_LINES])
        return AgentFile(
            sha256=self.file.sha256,
            name=self.file.name,
            kind=self.file.kind,
            size=self.file.size,
            lines=None if text is None else len(text.splitlines()),
            beginning=begin[:_BEGINNING_CHARS],
            image=self.content if images and self.file.kind.is_image else None,
        )


def unseen_images(files: Iterable["AttachedFile | AgentFile"]) -> str:
    """What is said where the model cannot be given the images of a message; empty without any."""
    names = [each.name for each in files if each.kind.is_image]
    if not names:
        return ""
    which = f"{names[0]} was not" if len(names) == 1 else f"none of {', '.join(names)} was"
    return f"This model cannot see images, so {which} looked at."


async def read_files(store: AttachmentStore, named: Iterable[Attached]) -> list[ReadFile]:
    """The files, read; one that is gone or is not what it was is left out (rule 1)."""
    found = []
    for each in named:
        content = await store.content(each.sha256)
        if content is not None:
            file = AttachedFile(
                sha256=each.sha256, name=each.name, kind=kind_of(content), size=len(content)
            )
            found.append(ReadFile(file, content))
    return found


def provenance_of(files: Sequence[Attached | AttachedFile], at: datetime) -> tuple[Provenance, ...]:
    """What an answer comes from that was made from these files."""
    return tuple(external(source_of(each.name, at)) for each in files)
