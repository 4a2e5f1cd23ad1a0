"""The log of a companion: one row for each message, chained, never rewritten.

What one message adds is itself, its content and a few links; none of it depends on how long the log
is already. Links are the companions' own graph: in `agent_links` alone, never in the journal.

What a companion remembers when it wakes (`MemoryAssembler`) is bounded, however long its log is.
Hot are the newest messages of the thread, as they are. Warm are summaries of what came before them
and of other threads. Cold are summaries of summaries. No message is shown twice.

Conversations with a companion: they are opened, spoken in, and end when nobody speaks.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import Field

from silas.companions.errors import SessionClosed
from silas.companions.ids import (
    head_link_id,
    link_id,
    payload_id,
    run_message_id,
    session_thread,
    user_run_key,
)
from silas.companions.messages import (
    AgentLink,
    AgentMessage,
    AgentMessagePayload,
    LinkDraft,
    MessageDraft,
    WakeJob,
)
from silas.companions.models import (
    AgentInteractionMode,
    AgentLinkRelation,
    AgentMessageKind,
    Companion,
    InteractiveSession,
    JsonMap,
    MessagePointer,
    WakeReason,
)
from silas.companions.store import CompanionStore
from silas.kernel import canonical_bytes, format_timestamp, parse_timestamp, strict_loads
from silas.kernel.models import Data
from silas.storage import Reader, Row, Transaction

_LAST_SEQUENCE = "SELECT max(sequence) FROM agent_messages WHERE agent_id = ?"
_BYTES_PER_TOKEN = 4


class MessageLog:
    """Appends messages, in a caller's transaction."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    def append_in(
        self, tx: Transaction, drafts: Sequence[MessageDraft]
    ) -> tuple[AgentMessage, ...]:
        """Append all of these. A draft whose id is known is not appended again."""
        now = self._store.clock.now()
        return tuple(self._append_one(tx, draft, now) for draft in drafts)

    def keep_in(
        self, tx: Transaction, message: AgentMessage, content: JsonMap | None
    ) -> AgentMessage:
        """Write a message and its content, without a place in a thread."""
        if content is None:
            return self._store.put_in(tx, message)
        payload = self._store.put_in(
            tx,
            AgentMessagePayload(
                id=payload_id(message.id),
                agent_id=message.agent_id,
                created_at=message.created_at,
                content=content,
            ),
        )
        stored = self._store.put_in(tx, message.model_copy(update={"content_entry_id": payload.id}))
        draw_link_in(
            tx,
            self._store,
            AgentLinkRelation.MESSAGE_PAYLOAD,
            agent_id=message.agent_id,
            from_id=message.id,
            to_id=payload.id,
            now=message.created_at,
        )
        return stored

    def _append_one(self, tx: Transaction, draft: MessageDraft, now: datetime) -> AgentMessage:
        store = self._store
        known = draft.message_id and store.get_in(tx, AgentMessage, draft.message_id)
        if known:
            return known
        head = store.get_in(tx, AgentLink, head_link_id(draft.agent_id, draft.thread_id))
        message = AgentMessage(
            id=draft.message_id or store.ids.new("msg"),
            agent_id=draft.agent_id,
            thread_id=draft.thread_id,
            kind=draft.kind,
            created_at=now,
            host_id=store.host_id,
            sequence=last_sequence(tx, draft.agent_id) + 1,
            prev_message_id=head.to_id if head else None,
            trigger_source_id=draft.trigger_source_id,
            tokens_approx=approximate_tokens(draft.content),
            metadata=draft.metadata,
        )
        message = self.keep_in(tx, message, draft.content)
        self._link_in(tx, message, draft.links)
        return message

    def _link_in(self, tx: Transaction, message: AgentMessage, wanted: Sequence[LinkDraft]) -> None:
        agent_id, thread_id, now = message.agent_id, message.thread_id, message.created_at
        before = message.prev_message_id
        chain = [LinkDraft(relation=AgentLinkRelation.MESSAGE_PREV, to_id=before)] if before else []
        for link in (*chain, *wanted):
            draw_link_in(
                tx,
                self._store,
                link.relation,
                agent_id=agent_id,
                from_id=message.id,
                to_id=link.to_id,
                now=now,
                thread_id=thread_id,
                metadata=link.metadata,
            )
        # The head of the thread is the one link that moves.
        self._store.put_in(
            tx,
            AgentLink(
                id=head_link_id(agent_id, thread_id),
                agent_id=agent_id,
                relation=AgentLinkRelation.AGENT_HEAD,
                from_id=agent_id,
                to_id=message.id,
                created_at=now,
                thread_id=thread_id,
            ),
        )


def draw_link_in(
    tx: Transaction,
    store: CompanionStore,
    relation: AgentLinkRelation,
    *,
    agent_id: str,
    from_id: str,
    to_id: str,
    now: datetime,
    thread_id: str | None = None,
    metadata: JsonMap | None = None,
) -> AgentLink:
    """Draw a link; drawing it again is the same link."""
    return store.put_in(
        tx,
        AgentLink(
            id=link_id(relation, from_id, to_id),
            agent_id=agent_id,
            relation=relation,
            from_id=from_id,
            to_id=to_id,
            created_at=now,
            thread_id=thread_id,
            metadata=metadata or {},
        ),
    )


def last_sequence(reader: Reader, agent_id: str) -> int:
    """The highest sequence of a companion's log; 0 if it is empty."""
    row = reader.fetch_one(_LAST_SEQUENCE, (agent_id,))
    return int(row[0]) if row and row[0] is not None else 0


def pointer_to(message: AgentMessage) -> MessagePointer:
    """A pointer that can be ranked without looking the message up."""
    return MessagePointer(message_id=message.id, sequence=message.sequence, host_id=message.host_id)


def higher_pointer(a: MessagePointer | None, b: MessagePointer | None) -> MessagePointer | None:
    """The pointer that is further on: by sequence, then by host, then by id, on every device."""
    known = [each for each in (a, b) if each is not None]
    return max(known, key=lambda p: (p.sequence, p.host_id, p.message_id), default=None)


def approximate_tokens(content: JsonMap | None) -> int:
    """About how many tokens of a model this content is."""
    return 0 if content is None else 1 + len(canonical_bytes(content)) // _BYTES_PER_TOKEN


def content_of_in(reader: Reader, store: CompanionStore, message_id: str) -> JsonMap | None:
    """What an entry says, if it is there and says anything."""
    message = store.get_in(reader, AgentMessage, message_id)
    if message is None or message.deleted_at is not None or message.content_entry_id is None:
        return None
    payload = store.get_in(reader, AgentMessagePayload, message.content_entry_id)
    return payload.content if payload is not None and payload.deleted_at is None else None


_BOTH = """
SELECT m.body, p.body FROM agent_messages AS m
LEFT JOIN agent_message_payloads AS p ON p.id = m.content_entry_id AND p.deleted_at IS NULL
"""
_HOT = f"""{_BOTH}
WHERE m.agent_id = ? AND m.thread_id = ? AND m.summary_depth = 0 AND m.deleted_at IS NULL
ORDER BY m.sequence DESC LIMIT ?
"""
_COLD = f"""{_BOTH}
WHERE m.agent_id = ? AND m.summary_depth = 2 AND m.deleted_at IS NULL
ORDER BY m.sequence DESC LIMIT ?
"""
# Without those of this thread that only cover what is hot anyway.
_WARM = f"""{_BOTH}
WHERE m.agent_id = ? AND m.summary_depth = 1 AND m.sequence > ? AND m.deleted_at IS NULL
    AND NOT (m.thread_id = ? AND m.sequence >= ?)
ORDER BY m.sequence DESC LIMIT ?
"""
_NOTHING_IS_HOT = 2**53


class MemoryLimits(Data):
    """How much a companion may remember at once."""

    hot_messages: int = Field(default=30, ge=1)
    hot_tokens: int = Field(default=6_000, ge=1)
    warm_summaries: int = Field(default=8, ge=0)
    warm_tokens: int = Field(default=3_000, ge=0)
    cold_summaries: int = Field(default=2, ge=0)
    cold_tokens: int = Field(default=1_500, ge=0)


@dataclass(frozen=True)
class Remembered:
    """A message with what it says."""

    message: AgentMessage
    content: JsonMap | None


@dataclass(frozen=True)
class AssembledMemory:
    """What fits, each part oldest first."""

    hot: tuple[Remembered, ...]
    warm: tuple[Remembered, ...]
    cold: tuple[Remembered, ...]
    tokens: int


class MemoryAssembler:
    """Puts together what a run is told of the past."""

    def __init__(self, store: CompanionStore) -> None:
        self._store = store

    async def assemble(
        self, agent_id: str, thread_id: str, *, limits: MemoryLimits | None = None
    ) -> AssembledMemory:
        """What this companion remembers in this thread."""
        bounds = limits or MemoryLimits()
        return await self._store.database.snapshot(
            lambda reader: assemble_in(reader, agent_id, thread_id, limits=bounds)
        )


def assemble_in(
    reader: Reader, agent_id: str, thread_id: str, *, limits: MemoryLimits
) -> AssembledMemory:
    """The same on a view of the database. Each part is one bounded look into an index."""
    hot = _fitting(reader.rows(_HOT, (agent_id, thread_id, limits.hot_messages)), limits.hot_tokens)
    cold = _fitting(reader.rows(_COLD, (agent_id, limits.cold_summaries)), limits.cold_tokens)
    # A cold summary stands where its span ends: whatever is older was taken up by one.
    taken_up = cold[-1].message.sequence if cold else -1
    oldest_hot = hot[0].message.sequence if hot else _NOTHING_IS_HOT
    warm = _fitting(
        reader.rows(_WARM, (agent_id, taken_up, thread_id, oldest_hot, limits.warm_summaries)),
        limits.warm_tokens,
    )
    tokens = sum(each.message.tokens_approx for each in (*hot, *warm, *cold))
    return AssembledMemory(hot=hot, warm=warm, cold=cold, tokens=tokens)


def read_remembered(rows: Iterable[Row]) -> list[Remembered]:
    """Messages with their contents, from rows that have the bodies of both."""
    return [_remembered(row) for row in rows]


def _fitting(newest_first: Iterator[Row], tokens: int) -> tuple[Remembered, ...]:
    """The newest that fit, oldest first. What does not fit is not even read."""
    kept: list[Remembered] = []
    for each in map(_remembered, newest_first):
        tokens -= each.message.tokens_approx
        if tokens < 0:
            break
        kept.append(each)
    return tuple(kept[::-1])


def _remembered(row: Row) -> Remembered:
    message, payload = row
    content = strict_loads(payload)["content"] if payload else None
    return Remembered(AgentMessage.model_validate_json(message), content)


_HISTORY = f"""{_BOTH}
WHERE m.agent_id = ? AND m.deleted_at IS NULL AND m.thread_id <> ?
    AND m.kind IN ('user', 'thought', 'action', 'tool_result', 'summary')
ORDER BY m.sequence DESC LIMIT ?
"""
_MOST_HISTORY = 6_000
_TELLING = re.compile(r"[^\W_]{3,}")
_ENDINGS = ("ments", "ment", "ings", "ing", "ies", "ied", "ed", "es", "s", "e", "y")
_LEAST_STEM = 3
_COMMON = frozenset(
    [
        "the",
        "and",
        "for",
        "was",
        "were",
        "are",
        "has",
        "had",
        "have",
        "with",
        "that",
        "this",
        "what",
        "when",
        "why",
        "how",
        "did",
        "does",
        "you",
        "your",
        "our",
        "they",
        "them",
        "then",
        "than",
        "from",
        "into",
        "about",
        "who",
        "will",
        "would",
        "can",
        "could",
        "should",
        "not",
        "but",
        "any",
        "all",
        "out",
        "get",
        "got",
        "its",
        "it's",
        "his",
        "her",
        "she",
        "him",
        "we're",
        "been",
        "being",
        "owner",
        "woken",
        "said",
        "something",
        "changed",
        "because",
    ]
)


def telling_words(text: str) -> list[str]:
    """The words of a text that say something, without their endings."""
    words = (each.group().casefold() for each in _TELLING.finditer(text))
    return [_stem(each) for each in words if each not in _COMMON]


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _LEAST_STEM:
            stem = word[: -len(ending)]
            return stem[:-1] if stem[-1] == stem[-2] else stem  # swimming, skipped
    return word


def recall_in(
    reader: Reader,
    agent_id: str,
    question: str,
    *,
    thread_id: str,
    line_of: Callable[[Remembered], str | None],
    limit: int = 5,
) -> tuple[tuple[Remembered, str], ...]:
    """The entries of a companion's own history that fit a question best, each as a line.

    Rare words count for more, words that stand together in few entries for most; of two that fit as
    well, the newer. What is in the open thread is remembered anyway.
    """
    wanted = set(telling_words(question))
    if not wanted:
        return ()
    rows = reader.fetch_all(_HISTORY, (agent_id, thread_id, _MOST_HISTORY))
    lines = [(each, line) for each in read_remembered(rows) if (line := line_of(each))]
    words = [set(telling_words(line)) for _, line in lines]
    seen = Counter(word for found in words for word in found & wanted)
    weight = {word: math.log(1 + len(lines) / (1 + seen[word])) for word in wanted}
    most = sum(weight.values()) or 1.0
    scored = []
    for place, ((entry, line), found) in enumerate(zip(lines, words, strict=True)):
        score = sum(weight[word] for word in found & wanted) / most
        score *= _worth(entry, line)
        if score >= _LEAST_SCORE:
            scored.append((-score, place, entry, line))
    best: dict[str, tuple[Remembered, str]] = {}
    for _, _, entry, line in sorted(scored, key=lambda each: each[:2]):
        best.setdefault(line, (entry, line))
    return tuple(best.values())[:limit]


def _worth(entry: Remembered, line: str) -> float:
    """A summary says many things, the entry itself says this one; what was asked says nothing."""
    if entry.message.summary_depth:
        return 0.6
    if entry.message.kind is AgentMessageKind.USER:
        return 0.3 if line.rstrip().endswith("?") else 1.0
    return 0.5 if entry.message.kind is AgentMessageKind.THOUGHT else 0.9


_LEAST_SCORE = 0.2
INACTIVITY = timedelta(minutes=20)
_NEAREST = "SELECT min(expires_at) FROM agent_sessions WHERE closed_at IS NULL"
_EXPIRED = "SELECT body FROM agent_sessions WHERE closed_at IS NULL AND expires_at <= ?"
_OPEN = """
SELECT body FROM agent_sessions WHERE agent_id = ? AND closed_at IS NULL
ORDER BY expires_at DESC LIMIT 1
"""


class CompanionSessions:
    """The open conversations. While one is open, a companion that works alone also listens."""

    def __init__(self, store: CompanionStore, *, inactivity: timedelta = INACTIVITY) -> None:
        self._store = store
        self._log = MessageLog(store)
        self._inactivity = inactivity

    async def open(self, agent_id: str) -> InteractiveSession:
        """The conversation with this companion: the open one, or a new one."""
        return await self._store.transaction(lambda tx: self._open_in(tx, agent_id))

    async def say(
        self,
        session_id: str,
        text: str,
        *,
        turn_id: str,
        reply_to: Mapping[str, str] | None = None,
    ) -> WakeJob:
        """The wake that answers this; raises `SessionClosed`. It still has to be enqueued."""

        def touch(tx: Transaction) -> InteractiveSession:
            session = self._store.require_in(tx, InteractiveSession, session_id)
            now = self._store.clock.now()
            if session.closed_at is not None or session.expires_at <= now:
                raise SessionClosed(session_id=session_id)
            alive = {"last_activity_at": now, "expires_at": now + self._inactivity}
            return self._store.put_in(tx, session.model_copy(update=alive))

        session = await self._store.transaction(touch)
        return WakeJob(
            run_key=user_run_key(session.agent_id, session.id, turn_id),
            thread_id=session.thread_id,
            agent_id=session.agent_id,
            reason=WakeReason.USER_INITIATED,
            reason_id=turn_id,
            session_id=session.id,
            seed_input=text,
            reply_to=dict(reply_to) if reply_to is not None else None,
        )

    async def close(self, session_id: str, *, reason: str = "closed") -> InteractiveSession:
        """End a conversation; ending it again changes nothing."""

        def end(tx: Transaction) -> InteractiveSession:
            session = self._store.require_in(tx, InteractiveSession, session_id)
            return self.close_in(tx, session, reason=reason)

        return await self._store.transaction(end)

    async def close_expired(self, now: datetime) -> list[InteractiveSession]:
        """End the conversations in which nobody has spoken for too long."""
        rows = await self._store.database.fetch_all(_EXPIRED, (format_timestamp(now),))
        if not rows:
            return []
        expired = [InteractiveSession.model_validate_json(row[0]) for row in rows]
        return await self._store.transaction(
            lambda tx: [self.close_in(tx, each, reason="inactivity") for each in expired]
        )

    async def nearest_expiry(self) -> datetime | None:
        """When the next conversation ends by itself."""
        row = await self._store.database.fetch_one(_NEAREST)
        return parse_timestamp(row[0]) if row and row[0] else None

    def close_in(
        self, tx: Transaction, session: InteractiveSession, *, reason: str
    ) -> InteractiveSession:
        """The same in a caller's transaction: a mark in its thread, and the mode it had before."""
        current = self._store.require_in(tx, InteractiveSession, session.id)
        if current.closed_at is not None:
            return current
        self._log.append_in(
            tx,
            [
                MessageDraft(
                    agent_id=current.agent_id,
                    thread_id=current.thread_id,
                    kind=AgentMessageKind.SYSTEM,
                    content={"event": "session_closed", "reason": reason},
                    message_id=run_message_id(current.id, "closed"),
                )
            ],
        )
        companion = self._store.require_in(tx, Companion, current.agent_id)
        if companion.mode is not current.baseline_mode:
            self._store.put_in(tx, companion.model_copy(update={"mode": current.baseline_mode}))
        changes = {"closed_at": self._store.clock.now(), "close_reason": reason}
        return self._store.put_in(tx, current.model_copy(update=changes))

    def open_session_in(self, reader: Reader, agent_id: str) -> InteractiveSession | None:
        """The conversation that is open with this companion, if one is."""
        row = reader.fetch_one(_OPEN, (agent_id,))
        return InteractiveSession.model_validate_json(row[0]) if row else None

    def _open_in(self, tx: Transaction, agent_id: str) -> InteractiveSession:
        self._store.require_alive_in(tx, agent_id)
        now = self._store.clock.now()
        known = self.open_session_in(tx, agent_id)
        if known is not None and known.expires_at > now:
            return known
        if known is not None:
            self.close_in(tx, known, reason="inactivity")
        companion = self._store.require_in(tx, Companion, agent_id)
        if companion.mode is AgentInteractionMode.AUTONOMOUS:
            listening = companion.model_copy(update={"mode": AgentInteractionMode.HYBRID})
            self._store.put_in(tx, listening)
        session_id = self._store.ids.new("session")
        return self._store.put_in(
            tx,
            InteractiveSession(
                id=session_id,
                agent_id=agent_id,
                thread_id=session_thread(agent_id, session_id),
                baseline_mode=companion.mode,
                opened_at=now,
                last_activity_at=now,
                expires_at=now + self._inactivity,
            ),
        )
