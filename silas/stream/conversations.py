"""The owner's conversations: begun with a message, listed, named, put away, deleted.

1. A conversation begins with its first message, in the transaction that accepts it. Whoever says
   something chooses its id; its title is made from the first words, and the owner can change it.
2. Titles and first words are kept without the secrets that are known by then.
3. Deleting takes out what was said in it: the chronicle and its words in the search index, its
   archive, what pages were shown, and what left its context for the memory. What came of it stays:
   work and files, approvals, memories that the owner has, the journal, the audit log, which gets
   one digest over everything that was said.
4. One in which something goes on or waits for the owner is not deleted. What comes later all the
   same (an undo, a goal that was made there) is told in the conversation that was used last.
5. A deleted conversation is not begun again by a message that was late. The first one is: older
   pages know no other.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from silas.audit.models import AuditTrail
from silas.context.chronicle import ChronicleStore, FileArchive
from silas.kernel import (
    ChannelError,
    Clock,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
    visible,
)
from silas.kernel.ids import (
    FIRST_CONVERSATION,
    conversation_of,
    conversation_scope,
    is_conversation_id,
    person_of,
)
from silas.kernel.models import Data, UtcDatetime
from silas.kernel.told_secrets import told_secret
from silas.queue.models import QueueMessage
from silas.storage import Database, Durability, Reader, Row, Transaction
from silas.stream.delivery import UserMessageStore

MAX_TITLE_CHARS = 120
_TITLE_CHARS = 60
_FIRST_WORDS_CHARS = 160
_COLUMNS = "scope_id, title, first_words, created_at, used_at, archived_at"
_LIST = f"""
SELECT {_COLUMNS} FROM conversations WHERE person = ? AND deleted_at IS NULL
ORDER BY used_at DESC, scope_id
"""  # noqa: S608 - names of columns only
_STATE = "SELECT deleted_at FROM conversations WHERE scope_id = ?"
_BEGIN = """
INSERT INTO conversations (scope_id, person, title, first_words, created_at, used_at)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (scope_id) DO NOTHING
"""
_USED = """
UPDATE conversations SET used_at = ?, archived_at = NULL WHERE scope_id = ? AND used_at < ?
"""
_RENAME = "UPDATE conversations SET title = ? WHERE scope_id = ? AND deleted_at IS NULL"
_ARCHIVE = "UPDATE conversations SET archived_at = ? WHERE scope_id = ? AND deleted_at IS NULL"
_BEFORE_LISTS = """
SELECT content, words_from, created_at,
    (SELECT max(created_at) FROM chronicle_entries WHERE scope_id = ? AND source LIKE 'channel:%')
FROM chronicle_entries WHERE scope_id = ? AND source LIKE 'channel:%' ORDER BY number LIMIT 1
"""
_ENTRIES = "SELECT entry_id, content FROM chronicle_entries WHERE scope_id = ? ORDER BY number"
_GOES_ON = """
SELECT 'An answer is on its way' FROM queue_messages WHERE json_extract(body, '$.scope_id') = ?1
UNION ALL
SELECT 'Work goes on' FROM conversation_work AS work
    JOIN work_items AS item ON item.id = work.work_item_id
    WHERE work.scope_id = ?1 AND item.status IN ('running', 'paused')
UNION ALL
SELECT 'A plan waits for your decision' FROM review_cards
    WHERE scope_id = ?1 AND state = 'open' AND requested_by <> 'undo'
LIMIT 1
"""
_SAID_HERE = """
SELECT message_id FROM said WHERE connection_id = ?1
    AND coalesce((SELECT scope_id FROM said_scopes WHERE message_id = said.message_id), ?1) = ?2
"""
_REMOVE = (
    f"DELETE FROM said WHERE message_id IN ({_SAID_HERE})",  # noqa: S608 - fixed text
    "DELETE FROM said_scopes WHERE scope_id = ?2 AND ?1 <> ''",
    "DELETE FROM deliveries WHERE connection_id = ?1 AND scope_id = ?2",
    "DELETE FROM sessions WHERE scope_id = ?2 AND ?1 <> ''",
)
_BURY = """
UPDATE conversations SET title = '', first_words = '', deleted_at = ? WHERE scope_id = ?
"""
_BURY_PLANS = "UPDATE conversation_work SET scope_id = ? WHERE scope_id = ?"


class ConversationUnknown(ChannelError):
    """There is no such conversation. `silas conversations list` shows them."""

    code = "E_CHANNEL_CONVERSATION"


class ConversationDeleted(ChannelError):
    """This conversation was deleted. Begin a new one and say it there."""

    code = "E_CHANNEL_CONVERSATION_DELETED"


class ConversationInUse(ChannelError):
    """Something goes on in this conversation. Wait until it is done, then delete it."""

    code = "E_CHANNEL_CONVERSATION_BUSY"


class ConversationLine(Data):
    """One conversation, as it is listed."""

    conversation: str
    """Its id; `first` is the one that was there before there were others."""
    title: str
    first_words: str
    created_at: UtcDatetime
    used_at: UtcDatetime
    archived: bool


class DeletedConversation(Data):
    """What was removed."""

    conversation: str
    title: str
    messages: int
    """How many entries of the conversation, the owner's and Silas'."""
    memories: int
    digest: str
    """SHA-256 over everything that was said, as the audit log has it."""


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()), keep_newlines=False)


def title_from(text: str) -> str:
    """A title from the first words of a message: one line, whole words, no end of a sentence."""
    line = _one_line(text)
    if len(line) > _TITLE_CHARS:
        line = line[:_TITLE_CHARS].rsplit(" ", 1)[0].rstrip(",;:-") + "…"
    return line.rstrip(".") or "A conversation"


@dataclass(frozen=True)
class ConversationList:
    """The conversations of the owner of one data directory."""

    database: Database
    owner_id: str
    said: UserMessageStore
    audit: AuditTrail
    clock: Clock
    redact: Callable[[str], str]
    archive_files: FileArchive
    forget: Callable[[Sequence[str]], Awaitable[int]]
    """Takes memories out by their ids; returns how many there were."""
    drop_context: Callable[[str], None]
    """Drops what this process holds of a conversation in memory."""

    def record(self, tx: Transaction, message: QueueMessage) -> None:
        """Note a message of the owner's in the transaction that accepts it (rules 1 and 5)."""
        scope, at = message.scope_id, format_timestamp(message.created_at)
        row = tx.fetch_one(_STATE, (scope,))
        if row is not None and row[0] is not None:
            raise ConversationDeleted
        if row is None:
            self._begin(tx, scope, message.content, first=at, last=at)
        else:
            tx.execute(_USED, (at, scope, at))
        self.said.write(tx, message)

    def _begin(self, tx: Transaction, scope: str, text: str, *, first: str, last: str) -> None:
        told = told_secret(text)
        clean = self.redact(text if told is None else told.text)
        words = _one_line(clean)[:_FIRST_WORDS_CHARS]
        tx.execute(_BEGIN, (scope, person_of(scope), title_from(clean), words, first, last))

    async def list(self) -> list[ConversationLine]:
        """All of them, the last used first."""
        await self._adopt_first()
        rows = await self.database.fetch_all(_LIST, (self.owner_id,))
        return [_line(row) for row in rows]

    async def _adopt_first(self) -> None:
        """List what was said before there were lists, once."""
        if await self.database.fetch_one(_STATE, (self.owner_id,)):
            return
        row = await self.database.fetch_one(_BEFORE_LISTS, (self.owner_id, self.owner_id))
        if row is None:
            return
        content, words_from, first, last = row
        text = content[(words_from or 1) - 1 :] if words_from else content.partition(": ")[2]

        def begin(tx: Transaction) -> None:
            self._begin(tx, self.owner_id, text, first=first, last=last)

        await self.database.transaction(begin)

    async def find(self, name: str) -> ConversationLine:
        """The conversation of this id or title, or the only one whose title begins so."""
        known = await self.list()
        wanted = name.strip().casefold()
        exact = [each for each in known if each.conversation == name.strip()]
        exact = exact or [each for each in known if each.title.casefold() == wanted]
        found = exact or [each for each in known if each.title.casefold().startswith(wanted)]
        if not wanted or not found:
            raise ConversationUnknown
        if len(found) > 1:
            told = "; ".join(f"{each.conversation} ({each.title})" for each in found[:5])
            raise ConversationUnknown(f"Several conversations are called so. Name its id: {told}.")
        return found[0]

    async def latest(self) -> str:
        """The id of the conversation that was used last."""
        known = await self.list()
        return known[0].conversation if known else FIRST_CONVERSATION

    async def rename(self, conversation: str, title: str) -> ConversationLine:
        """Give it another title; raises `ConversationUnknown` or a `ChannelError`."""
        name = _one_line(self.redact(title))
        if not 1 <= len(name) <= MAX_TITLE_CHARS:
            raise ChannelError(f"A title has 1 to {MAX_TITLE_CHARS} characters. Write another one.")
        await self._change(_RENAME, name, conversation)
        return await self._require(conversation)

    async def archive(self, conversation: str, *, archived: bool) -> ConversationLine:
        """Put it away, or bring it back. The next message brings it back by itself."""
        at = format_timestamp(self.clock.now()) if archived else None
        await self._change(_ARCHIVE, at, conversation)
        return await self._require(conversation)

    async def _change(self, sql: str, value: str | None, conversation: str) -> None:
        await self.list()  # the first one may be older than the list
        if not await self.database.execute(sql, (value, self.scope(conversation))):
            raise ConversationUnknown

    async def _require(self, conversation: str) -> ConversationLine:
        for each in await self.list():
            if each.conversation == conversation:
                return each
        raise ConversationUnknown

    def scope(self, conversation: str) -> str:
        """The scope of a conversation of the owner's; raises `ConversationUnknown`."""
        if not is_conversation_id(conversation):
            raise ConversationUnknown
        return conversation_scope(self.owner_id, conversation)

    async def delete(self, conversation: str) -> DeletedConversation:
        """Take out what was said in it (rule 3); raises `ConversationInUse` (rule 4).

        Memories and files go first: after a crash it is still listed, and can be deleted again.
        """
        line, scope = await self._require(conversation), self.scope(conversation)
        await self.database.snapshot(lambda reader: _require_quiet(reader, scope))
        entries = await self.database.fetch_all(_ENTRIES, (scope,))
        names = [str(name) for name, _ in entries]
        memories = await self._forget(names)
        await self.archive_files.forget_scope(scope)

        def remove(tx: Transaction) -> DeletedConversation:
            _require_quiet(tx, scope)
            last = tx.fetch_all(_ENTRIES, (scope,))
            gone = DeletedConversation(
                conversation=conversation,
                title=line.title,
                messages=len(last),
                memories=memories,
                digest=_digest(last),
            )
            self._remove(tx, scope, [str(name) for name, _ in last])
            known = gone.model_dump(mode="json", exclude={"title"})
            self.audit.append(tx, "conversation_deleted", known)
            return gone

        self.drop_context(scope)
        return await self.database.transaction(remove, durability=Durability.TRUST)

    async def _forget(self, entries: Sequence[str]) -> int:
        """What left the context, and what was kept of it raw, by the ids that they have then."""
        said = [name.removeprefix("said_") for name in entries if name.startswith("said_")]
        names = [*(f"ctx_said_{name}" for name in said), *(f"raw_{name}" for name in said)]
        return await self.forget(names) if names else 0

    def _remove(self, tx: Transaction, scope: str, entries: Sequence[str]) -> None:
        now = self.clock.now()
        # A note is left, so that a process that has it in its context drops that.
        ChronicleStore(self.database).forget_in(tx, scope, entries, at=now)
        for statement in _REMOVE:
            tx.execute(statement, (self.owner_id, scope))
        if scope == self.owner_id:  # it can be begun again (rule 5), without the plans of before
            buried = f"{conversation_scope(scope, 'conv_deleted')}_{format_timestamp(now)}"
            tx.execute(_BURY_PLANS, (buried, scope))
            tx.execute("DELETE FROM conversations WHERE scope_id = ?", (scope,))
        else:
            tx.execute(_BURY, (format_timestamp(now), scope))


def _require_quiet(reader: Reader, scope: str) -> None:
    row = reader.fetch_one(_GOES_ON, (scope,))
    if row is not None:
        raise ConversationInUse(
            f"{row[0]} in this conversation. Wait until that has ended, then delete it."
        )


def _digest(entries: Sequence[Row]) -> str:
    """One digest over what was said, in its order."""
    each = [[name, hashlib.sha256(text.encode()).hexdigest()] for name, text in entries]
    whole: dict[str, Any] = {"entries": each}
    return hashlib.sha256(canonical_bytes(whole)).hexdigest()


def _line(row: Row) -> ConversationLine:
    scope, title, first_words, created_at, used_at, archived_at = row
    return ConversationLine(
        conversation=conversation_of(scope),
        title=title,
        first_words=first_words,
        created_at=parse_timestamp(created_at),
        used_at=parse_timestamp(used_at),
        archived=archived_at is not None,
    )
