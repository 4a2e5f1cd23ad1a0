"""What was said and done, found again: in all conversations of the owner's, and in all work.

1. What was said is found in the word index of the raw records, which holds no text of its own.
   Titles of conversations and the records of work (titles, plans, results, files) are read as they
   lie. There is no second copy of anything.
2. Every query is understood somehow: words must all be there, the last one may be the beginning of
   a word, `word*` is a beginning, and "words in quotes" stand side by side. What has no letter and
   no digit finds nothing, and a sentence says so.
3. Only conversations of the owner's are searched. What a visitor said is not among them, and what
   was deleted is nowhere.
4. What is shown of a text is cleaned of the secrets that are known by then.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from silas.kernel import format_timestamp, parse_timestamp
from silas.kernel.ids import conversation_of
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Database, Reader, Row, SqlValue
from silas.stream.conversations import ConversationList
from silas.stream.delivery import Delivery, StoredUserMessage, read_delivery, saying_of
from silas.stream.offers import is_unused_offer
from silas.work.store import WorkItemStore
from silas.work.wording import ending_of, status_of

Kind = Literal["conversation", "message", "work"]
KINDS: tuple[Kind, ...] = ("conversation", "message", "work")
MAX_QUERY_CHARS = 400
_MOST_TERMS = 16
_SNIPPET_CHARS = 180
_BEFORE_MATCH = 60
_MOST_CONTENT = 20_000
_TERM = re.compile(r'"([^"]*)"?|(\S+)')
_NOTHING_TO_FIND = "Say what to look for: at least one letter or digit."

_SAID = """
SELECT entry.scope_id, entry.entry_id, entry.source, entry.created_at,
    substr(entry.content, entry.words_from), mine.title
FROM chronicle_words
JOIN chronicle_entries AS entry ON entry.number = chronicle_words.rowid
JOIN conversations AS mine ON mine.scope_id = entry.scope_id
WHERE chronicle_words MATCH ? AND mine.person = ? AND mine.deleted_at IS NULL
ORDER BY chronicle_words.rank, entry.number DESC LIMIT ?
"""
_ANSWER = """
SELECT message_id FROM deliveries WHERE connection_id = ? AND scope_id = ?
    AND created_at BETWEEN ? AND ? ORDER BY number LIMIT 1
"""
_WORK = """
SELECT item.id, item.updated_at, json_extract(item.plan, '$.title') AS title,
    json_extract(item.plan, '$.body') AS body,
    concat_ws(char(10), json_extract(item.plan, '$.workspace.path'),
        (SELECT group_concat(key, char(10)) FROM json_each(item.plan, '$.workspace.files')),
        (SELECT group_concat(path, char(10)) FROM file_changes WHERE work_item_id = item.id))
        AS files,
    (SELECT group_concat(detail, char(10)) FROM work_attempts WHERE work_item_id = item.id)
        AS details,
    (SELECT group_concat(substr(coalesce(json_extract(result, '$.return_value'), result), 1, ?),
        char(10)) FROM work_ledger WHERE work_item_id = item.id) AS results,
    (SELECT work.scope_id FROM conversation_work AS work WHERE work.work_item_id = item.id)
FROM work_items AS item
"""
_TEXTS = ("title", "body", "files", "details", "results")
_WINDOW = """
SELECT number, said.message_id, text, created_at, ?2 FROM said
WHERE connection_id = ?1
    AND coalesce((SELECT scope_id FROM said_scopes WHERE message_id = said.message_id), ?1) = ?2
"""
_DELIVERED = "SELECT number, message FROM deliveries WHERE connection_id = ?1 AND scope_id = ?2"
_OLDEST = "SELECT min(created_at) FROM deliveries WHERE connection_id = ? AND scope_id = ?"
_RECORDS = """
SELECT entry_id, substr(content, words_from), created_at FROM chronicle_entries
WHERE scope_id = ?2 AND ?1 <> '' AND created_at < ?3 AND source LIKE 'agent:%'
    AND words_from IS NOT NULL
"""


class Term(NamedTuple):
    """One thing that must be there."""

    text: str
    begins: bool
    """Whether it may go on."""


class SearchHit(Data):
    """One place where everything was found."""

    kind: Kind
    title: str
    """Of the conversation, or of the work."""
    snippet: str
    at: UtcDatetime
    conversation: str | None = None
    """Where it can be read; None if that conversation is gone, or never was."""
    sender: Literal["owner", "silas", "tool"] | None = None
    message_id: str | None = None
    work_item_id: str | None = None
    status: str | None = None
    """How the work stands, in words."""


class SearchResults(Data):
    """What was found, and the words that it was found by, to be marked."""

    hits: list[SearchHit]
    words: list[str]
    note: str = ""
    """A sentence, if there is something to say about the query."""


class OldAnswer(NamedTuple):
    """An answer whose delivery is not kept any more, as the conversation has it."""

    entry_id: str
    text: str
    at: datetime


@dataclass(frozen=True)
class ConversationPart:
    """A part of one conversation, each list oldest first."""

    said: list[StoredUserMessage]
    deliveries: list[Delivery]
    older: list[OldAnswer]


def terms_of(query: str) -> list[Term]:
    """What a query asks for (rule 2)."""
    found = []
    for match in _TERM.finditer(query[:MAX_QUERY_CHARS].replace("\0", " ")):
        phrase, word = match.groups()
        text = " ".join((phrase if word is None else word.replace('"', " ")).split())
        begins = word is not None and (text.endswith("*") or match.end() >= len(query.rstrip()))
        text = text.rstrip("*")
        if any(map(str.isalnum, text)):
            found.append(Term(text, begins))
    return found[:_MOST_TERMS]


def expression_of(terms: Sequence[Term]) -> str:
    """The same for the word index; every term is quoted, so none is taken for its language."""
    return " AND ".join(f'"{text}"{"*" if begins else ""}' for text, begins in terms)


def snippet_of(text: str, terms: Sequence[Term]) -> str:
    """A line of the text around the first of the terms that it holds."""
    line = " ".join(text.replace("```", " ").split())  # fences are drawn nowhere but in a block
    folded = line.casefold()
    places = [folded.find(term.text.casefold()) for term in terms]
    start = max(0, min((at for at in places if at >= 0), default=0) - _BEFORE_MATCH)
    if start:
        start = line.find(" ", start, start + _BEFORE_MATCH) + 1 or start
    shown = line[start : start + _SNIPPET_CHARS]
    return f"{'…' if start else ''}{shown}{'…' if start + _SNIPPET_CHARS < len(line) else ''}"


@dataclass(frozen=True)
class Search:
    """Finds what was said and done in one data directory."""

    database: Database
    conversations: ConversationList
    items: WorkItemStore
    clean: Callable[[str], str]
    """Takes secrets out of a text (rule 4)."""

    async def find(
        self, query: str, *, kinds: Collection[Kind] = KINDS, limit: int = 20
    ) -> SearchResults:
        """The places where all words of the query are, the best of each kind first."""
        terms = terms_of(query)
        if not terms:
            return SearchResults(hits=[], words=[], note=_NOTHING_TO_FIND)
        hits: list[SearchHit] = []
        titles = await self._titles(terms)
        if "conversation" in kinds:
            hits += titles[:limit]
        if "message" in kinds:
            hits += await self._said(terms, limit)
        if "work" in kinds:
            hits += await self._work(terms, limit)
        note = "" if hits else "Nothing was found. Try fewer words, or the beginning of one."
        return SearchResults(hits=hits, words=[term.text for term in terms], note=note)

    async def _titles(self, terms: Sequence[Term]) -> list[SearchHit]:
        """Also lists the first conversation, if it is older than the list: it is found then."""
        return [
            SearchHit(
                kind="conversation",
                title=line.title,
                snippet=line.first_words,
                at=line.used_at,
                conversation=line.conversation,
            )
            for line in await self.conversations.list()
            if all(term.text.casefold() in line.title.casefold() for term in terms)
        ]

    async def _said(self, terms: Sequence[Term], limit: int) -> list[SearchHit]:
        owner = self.conversations.owner_id
        rows = await self.database.fetch_all(_SAID, (expression_of(terms), owner, limit))
        return [await self._message(row, terms) for row in rows]

    async def _message(self, row: Row, terms: Sequence[Term]) -> SearchHit:
        scope, entry_id, source, created_at, text, title = row
        name = str(entry_id).removeprefix("said_")
        mine = str(source).startswith("channel:")
        message_id = name.removesuffix(".in") if mine else await self._answer(scope, created_at)
        agent = str(source).startswith("agent:")
        return SearchHit(
            kind="message",
            title=title,
            snippet=snippet_of(self.clean(text[:_MOST_CONTENT]), terms),
            at=parse_timestamp(created_at),
            conversation=conversation_of(scope),
            sender="owner" if mine else "silas" if agent else "tool",
            message_id=message_id,
        )

    async def _answer(self, scope: str, written_at: str) -> str | None:
        """The message that showed an answer: the first that was sent once it was written."""
        owner = self.conversations.owner_id
        row = await self.database.fetch_one(_ANSWER, (owner, scope, written_at, _LATER))
        return str(row[0]) if row else None

    async def _work(self, terms: Sequence[Term], limit: int) -> list[SearchHit]:
        known = {line.conversation for line in await self.conversations.list()}
        conditions, params = _holds_all(terms)
        sql = f"SELECT * FROM ({_WORK}) WHERE {conditions} ORDER BY updated_at DESC LIMIT ?"  # noqa: S608 - fixed text and marks
        rows = await self.database.fetch_all(sql, (_MOST_CONTENT, *params, limit))
        hits = [await self._work_hit(row, terms, known) for row in rows]
        return [hit for hit in hits if hit is not None]

    async def _work_hit(
        self, row: Row, terms: Sequence[Term], known: Collection[str]
    ) -> SearchHit | None:
        item = await self.items.get(row[0])
        if item is None or is_unused_offer(item):
            return None
        texts = [str(text) for text in row[3:7] if text]
        fitting = [each for each in texts if any(_is_in(term, each) for term in terms)]
        scope = conversation_of(row[7]) if row[7] else None
        return SearchHit(
            kind="work",
            title=self.clean(item.title),
            snippet=snippet_of(self.clean((fitting or texts or [""])[0][:_MOST_CONTENT]), terms),
            at=parse_timestamp(row[1]),
            conversation=scope if scope in known else None,
            work_item_id=item.id,
            status=ending_of(item) or status_of(item),
        )

    async def part(
        self, conversation: str, *, around: datetime | None = None, limit: int = 100
    ) -> ConversationPart:
        """What was said last in a conversation, or around a moment; so many before and after it."""
        owner, scope = self.conversations.owner_id, self.conversations.scope(conversation)

        def read(reader: Reader) -> ConversationPart:
            key = (owner, scope)
            row = reader.fetch_one(_OLDEST, key)
            # An answer is written down just before it is sent: the oldest one is not an older one.
            oldest = row and row[0] and format_timestamp(parse_timestamp(row[0]) - _JUST_BEFORE)
            said = _around(reader, _WINDOW, key, around, limit)
            sent = _around(reader, _DELIVERED, key, around, limit)
            older = _around(reader, _RECORDS, (*key, oldest or _LATER), around, limit)
            return ConversationPart(
                said=[saying_of(reader, row) for row in said],
                deliveries=[read_delivery(owner, number, text) for number, text in sent],
                older=[OldAnswer(row[0], row[1], parse_timestamp(row[2])) for row in older],
            )

        return await self.database.snapshot(read)


_LATER = "9999"
"""After every moment."""
_JUST_BEFORE = timedelta(minutes=5)


def _around(
    reader: Reader, sql: str, key: tuple[str, ...], around: datetime | None, limit: int
) -> list[Row]:
    """The newest rows, or those before and after a moment, oldest first."""
    at = format_timestamp(around) if around else _LATER
    before = reader.fetch_all(
        f"{sql} AND created_at <= ? ORDER BY created_at DESC LIMIT ?", (*key, at, limit)
    )
    after = reader.fetch_all(
        f"{sql} AND created_at > ? ORDER BY created_at LIMIT ?", (*key, at, limit)
    )
    return [*reversed(before), *after]


def _is_in(term: Term, text: str) -> bool:
    return term.text.casefold() in text.casefold()


def _holds_all(terms: Sequence[Term]) -> tuple[str, list[SqlValue]]:
    """Conditions that each term is in one of the texts, whatever the case of its letters."""
    parts: list[str] = []
    params: list[SqlValue] = []
    for term in terms:
        # The engine ignores the case of English letters only.
        cases = dict.fromkeys([term.text, term.text.lower(), term.text.capitalize()])
        wanted = cases if not term.text.isascii() else [term.text]
        patterns = [f"%{_escaped(each)}%" for each in wanted]
        like = [f"{name} LIKE ? ESCAPE '!'" for name in _TEXTS for _ in patterns]
        parts.append(f"({' OR '.join(like)})")
        params += [pattern for _ in _TEXTS for pattern in patterns]
    return " AND ".join(parts), params


def _escaped(text: str) -> str:
    return re.sub(r"([!%_])", r"!\1", text)
