"""The contexts as a turn uses them: read back when first needed, one turn at a time in a scope.

What is said is written to the chronicle in the turn's own transaction and shown once that is
committed (`PendingEntry`). If another process answered meanwhile, its entries are caught up first.

`SessionStore` has the sessions of each scope. One never ends; others come and go.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

from silas.audit.models import AuditTrail
from silas.context.chronicle import FORGOT_ID, ChroniclePlace, ChronicleStore
from silas.context.manager import ContextManager
from silas.context.models import (
    ContextItem,
    ContextKind,
    ContextSubscription,
    ContextZone,
    Session,
    SessionType,
    SubscriptionRefused,
    SubscriptionType,
    ZoneFull,
)
from silas.context.rehydration import PLAN_ID, RESULT_ID, Rehydration, WorkFollower, memory_item
from silas.context.subscriptions import MEMORY_ID
from silas.kernel import (
    Clock,
    IdFactory,
    Provenance,
    SilasError,
    TaintLevel,
    format_timestamp,
    parse_timestamp,
)
from silas.kernel.ids import person_of
from silas.kernel.models import Data
from silas.memory.models import MemoryItem
from silas.storage import Database, Row, Transaction

_COLUMNS = (
    "session_id, session_type, title, created_at, last_active, turn_count, active, pinned_ctx_ids"
)
_ALL = f"SELECT {_COLUMNS} FROM sessions WHERE scope_id = ? ORDER BY created_at, session_id"  # noqa: S608
_ADD = f"""
INSERT INTO sessions (scope_id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, 0, 1, '[]')
"""  # noqa: S608
# The conversation itself: made by its first turn, and never set back by a turn that is done again.
_TURN = f"""
INSERT INTO sessions (scope_id, {_COLUMNS}) VALUES (?, ?, 'stream', '', ?, ?, ?, 1, '[]')
ON CONFLICT (scope_id, session_id) DO UPDATE SET
    last_active = CASE WHEN excluded.last_active > sessions.last_active
        THEN excluded.last_active ELSE sessions.last_active END,
    turn_count = CASE WHEN excluded.turn_count > sessions.turn_count
        THEN excluded.turn_count ELSE sessions.turn_count END
"""  # noqa: S608
# What is said without a long silence in between is one session beside the whole conversation.
_TALK = """
SELECT session_id, last_active, (
    SELECT whole.turn_count FROM sessions AS whole
    WHERE whole.scope_id = sessions.scope_id AND whole.session_type = 'stream'
)
FROM sessions WHERE scope_id = ? AND session_type = 'side' AND title = ? AND active = 1
ORDER BY last_active DESC LIMIT 1
"""
_END_TALK = """
UPDATE sessions SET active = 0
WHERE scope_id = ? AND session_type = 'side' AND title = ? AND active = 1
"""
_END_IDLE = """
UPDATE sessions SET active = 0
WHERE session_type = 'side' AND title = ? AND active = 1 AND last_active < ?
"""
_TOUCH = """
UPDATE sessions SET last_active = ?, turn_count = turn_count + 1
WHERE scope_id = ? AND session_id = ? AND active = 1
"""
_PRUNE = "DELETE FROM sessions WHERE session_type = 'side' AND active = 0 AND last_active < ?"
STREAM_ID = "stream"
TALK = "talk"
"""The title of a session that the turns themselves begin and end."""


class SessionStore:
    """The sessions of every scope; no method reads two."""

    def __init__(self, database: Database, *, clock: Clock, ids: IdFactory) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids

    def note_turn(self, tx: Transaction, scope_id: str, *, turn_number: int, at: datetime) -> None:
        """Write down that the conversation had this turn; the same turn again changes nothing."""
        moment = format_timestamp(at)
        tx.execute(_TURN, (scope_id, STREAM_ID, moment, moment, turn_number))

    def continue_talk(
        self, tx: Transaction, scope_id: str, *, turn_number: int, at: datetime, idle: timedelta
    ) -> str:
        """The session that a turn belongs to; after a silence longer than `idle`, a new one.

        To be called before `note_turn`, which tells whether the turn is a new one.
        """
        moment = format_timestamp(at)
        row = tx.fetch_one(_TALK, (scope_id, TALK))
        if row is not None and at - parse_timestamp(row[1]) <= idle:
            if turn_number > (row[2] or 0):
                tx.execute(_TOUCH, (moment, scope_id, row[0]))
            return str(row[0])
        session_id = self._ids.new("ses")
        tx.execute(_END_TALK, (scope_id, TALK))
        tx.execute(_ADD, (scope_id, session_id, SessionType.SIDE.value, TALK, moment, moment))
        tx.execute(_TOUCH, (moment, scope_id, session_id))
        return session_id

    async def end_idle(self, before: datetime) -> int:
        """End the sessions in which nothing was said since; returns how many."""
        return await self._database.execute(_END_IDLE, (TALK, format_timestamp(before)))

    async def of_scope(self, scope_id: str) -> list[Session]:
        """All sessions of a scope, the oldest first."""
        return [_session(row) for row in await self._database.fetch_all(_ALL, (scope_id,))]

    async def prune_before(self, cutoff: datetime) -> int:
        """Delete sessions that ended before; returns how many."""
        return await self._database.execute(_PRUNE, (format_timestamp(cutoff),))


def _session(row: Row) -> Session:
    session_id, kind, title, created_at, last_active, turn_count, active, pinned = row
    return Session(
        session_id=session_id,
        session_type=SessionType(kind),
        title=title,
        created_at=parse_timestamp(created_at),
        last_active=parse_timestamp(last_active),
        turn_count=turn_count,
        active=bool(active),
        pinned_ctx_ids=json.loads(pinned),
    )


_log = logging.getLogger(__name__)
_DIRECTIVES = "directives"
_SAID = "said_"
_MISSED_AT_ONCE = 500
_MOST_ENDS = 10_000
_MOST_RESULT_CHARS = 4_000


class ChronicleEntry(Data):
    """One line of a conversation, as it is stored and shown to the agents."""

    entry_id: str
    """Made from the message's own id: the same entry, added again, is the same entry."""
    scope_id: str
    turn_number: int
    source: str
    """Such as `channel:web` or `agent:planner`."""
    text: str
    taint: TaintLevel
    sources: tuple[str, ...] = ()
    kind: ContextKind = ContextKind.MESSAGE
    words_from: int | None = None
    """Where the words that were said begin in the text; with it, the entry is their raw record."""


class ContextService:
    """What the agents see of every conversation, as a turn uses it.

    Everything is of one scope, and no method reads another. A repetition with the same ids changes
    nothing: a turn that a crash interrupted is done again from the start.
    """

    def __init__(
        self,
        manager: ContextManager,
        chronicle: ChronicleStore,
        *,
        sessions: SessionStore,
        rehydration: Rehydration,
        follower: WorkFollower,
        audit: AuditTrail,
        clock: Clock,
        redact: Callable[[str], str],
        session_idle: timedelta,
    ) -> None:
        self._session_idle = session_idle
        self.manager = manager
        self.chronicle = chronicle
        self.sessions = sessions
        self._rehydration = rehydration
        self._follower = follower
        self._audit = audit
        self._clock = clock
        self._redact = redact
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._ends: dict[str, int] = {}
        """Up to where each scope's chronicle is in its context."""

    async def prepare(self, entry: ChronicleEntry) -> "PendingEntry":
        """An entry of the chronicle, to be written down and then shown, once for each entry id."""
        await self.bring_back(entry.scope_id)
        return self.pending(entry)

    async def bring_back(self, scope_id: str) -> None:
        """Have what was said before in the context, before more is said."""
        async with self._ready(scope_id):
            pass

    def pending(self, entry: ChronicleEntry) -> "PendingEntry":
        """The same as `prepare` for a scope whose context was brought back."""
        begin = self._redact(entry.text[: entry.words_from or 0])
        item = ContextItem(
            ctx_id=f"{_SAID}{entry.entry_id}",
            zone=ContextZone.CHRONICLE,
            content=begin + self._redact(entry.text[entry.words_from or 0 :]),
            created_at=self._clock.now(),
            turn_number=entry.turn_number,
            source=entry.source,
            taint=entry.taint,
            sources=entry.sources,
            kind=entry.kind,
        )
        words_from = len(begin) if entry.words_from is not None else None
        return PendingEntry(self, entry.scope_id, item, words_from)

    def write_in(
        self, tx: Transaction, scope_id: str, item: ContextItem, words_from: int | None
    ) -> tuple[ChroniclePlace, str]:
        """Write the entry, the session that its turn belongs to, and the turn itself."""
        at, turn_number = item.created_at, item.turn_number
        session = self.sessions.continue_talk(
            tx, scope_id, turn_number=turn_number, at=at, idle=self._session_idle
        )
        self.sessions.note_turn(tx, scope_id, turn_number=turn_number, at=at)
        place = self.chronicle.append_in(
            tx, scope_id, item, words_from=words_from, session_id=session
        )
        return place, session

    async def show(self, scope_id: str, item: ContextItem, place: ChroniclePlace) -> None:
        """Put an entry that was committed at this place into the context."""
        async with self._ready(scope_id):
            if place.before > self._ends[scope_id]:
                await self._catch_up(scope_id)
            if not self.manager.has(scope_id, item.ctx_id):
                self.manager.add(scope_id, item)
            self._ends[scope_id] = max(self._ends[scope_id], place.now)
            await self._follow_work(scope_id, item.turn_number)

    def fit_skills(self, descriptions: Mapping[str, str]) -> dict[str, str]:
        """The descriptions of skills, the first ones first, that fit into their share."""
        return self.manager.fit_skills(descriptions)

    async def add_memories(
        self, scope_id: str, items: Sequence[MemoryItem], *, turn_number: int
    ) -> None:
        """Put memories of this scope's person into the memory zone, as far as they are new."""
        async with self._ready(scope_id):
            for place, item in enumerate(items, 1):
                shown = memory_item(item, turn_number=turn_number, relevance=1 / place)
                if item.scope_id != person_of(scope_id):
                    _log.warning("a memory of another scope was not shown")
                elif not self.manager.has(scope_id, shown.ctx_id):
                    self.manager.add(scope_id, shown)

    async def add_plan(
        self,
        scope_id: str,
        work_item_id: str,
        *,
        markdown: str,
        taint: TaintLevel,
        sources: tuple[str, ...] = (),
    ) -> None:
        """Pin a plan in the workspace zone; the one before it need not stay any more."""
        async with self._ready(scope_id):
            for item in self.manager.get_zone(scope_id, ContextZone.WORKSPACE):
                if item.kind is ContextKind.PLAN and item.pinned:
                    self.manager.unpin(scope_id, item.ctx_id)
            said = self.manager.get_zone(scope_id, ContextZone.CHRONICLE)
            plan = ContextItem(
                ctx_id=f"{PLAN_ID}{work_item_id}",
                zone=ContextZone.WORKSPACE,
                content=self._redact(markdown),
                created_at=self._clock.now(),
                turn_number=said[-1].turn_number if said else 0,
                source=f"plan:{work_item_id}",
                taint=taint,
                sources=sources,
                kind=ContextKind.PLAN,
                pinned=True,
            )
            try:
                self.manager.add(scope_id, plan)
            except ZoneFull:
                self.manager.add(scope_id, plan.model_copy(update={"pinned": False}))

    async def add_result(
        self, scope_id: str, work_item_id: str, *, text: str, turn_number: int, found: Provenance
    ) -> None:
        """Show what came of work in the workspace zone, in place of what was known before."""
        async with self._ready(scope_id):
            result = ContextItem(
                ctx_id=f"{RESULT_ID}{work_item_id}",
                zone=ContextZone.WORKSPACE,
                content=self._redact(text[:_MOST_RESULT_CHARS]),
                created_at=self._clock.now(),
                turn_number=turn_number,
                source=f"work:{work_item_id}",
                taint=found.taint,
                sources=found.sources,
                kind=ContextKind.EXECUTION_RESULT,
            )
            self.manager.add(scope_id, result)

    async def watch_query(self, scope_id: str, query: str, *, turn_number: int) -> None:
        """Show what is remembered about this from now on, as long as it is spoken of."""
        name = hashlib.sha256(query.encode()).hexdigest()[:16]
        sub = ContextSubscription(
            sub_id=f"sub_{name}",
            sub_type=SubscriptionType.MEMORY_QUERY,
            target=query,
            zone=ContextZone.MEMORY,
            created_at=self._clock.now(),
            turn_created=turn_number,
        )
        async with self._ready(scope_id):
            try:
                self.manager.subscribe(scope_id, sub)
            except SubscriptionRefused as refused:
                _log.warning("a query is not watched: %s", refused.message)

    async def drop_memories(self, scope_id: str, memory_ids: Sequence[str]) -> None:
        """Show these memories no more: they are not what they were. Recalling brings back others.

        A conversation that is not in memory shows none.
        """
        if not self.manager.knows(scope_id):
            return
        async with self._ready(scope_id):
            for name in memory_ids:
                self.manager.drop(scope_id, f"{MEMORY_ID}{name}")

    async def pin_defaults(self, scope_id: str) -> None:
        """Show preferences that the owner has just confirmed, in every conversation."""
        for each in {scope_id, *self.manager.scopes_of(person_of(scope_id))}:
            async with self._ready(each):
                await self._rehydration.pin_defaults(each)

    def drop(self, scope_id: str) -> None:
        """Keep nothing of this context in memory; it is read again when it is next needed."""
        self.manager.discard(scope_id)
        self._follower.forget(scope_id)

    async def set_directives(self, scope_id: str, text: str) -> None:
        """Replace the pinned directives of the personality."""
        async with self._ready(scope_id):
            if not text:
                self.manager.drop(scope_id, _DIRECTIVES)
                return
            if self.manager.content_of(scope_id, _DIRECTIVES) == text:
                return
            directives = ContextItem(
                ctx_id=_DIRECTIVES,
                zone=ContextZone.SYSTEM,
                content=text,
                created_at=self._clock.now(),
                turn_number=0,
                source="persona:directives",
                taint=TaintLevel.OWNER,
                kind=ContextKind.SYSTEM,
                pinned=True,
            )
            try:
                self.manager.add(scope_id, directives)
            except ZoneFull as error:
                # How Silas sounds is never a reason not to answer.
                self.manager.drop(scope_id, _DIRECTIVES)
                _log.warning("the directives are not shown: %s", error.message)

    async def set_profile(self, scope_id: str, profile_name: str) -> None:
        """Switch the budget profile; a change is written down."""
        async with self._ready(scope_id):
            changed = self.manager.set_profile(scope_id, profile_name)
        if changed:
            await self._audit.log(
                "context_profile_changed", scope_id=scope_id, profile=profile_name
            )

    async def enforce_budget(
        self, scope_id: str, turn_number: int, *, current_goal: str | None
    ) -> None:
        """Evict what does not fit."""
        async with self._ready(scope_id):
            await self.manager.enforce_budget(scope_id, turn_number, current_goal)

    async def render(self, scope_id: str, turn_number: int) -> str:
        """The whole context as text for a model."""
        async with self._ready(scope_id):
            return await self.manager.render(scope_id, turn_number)

    async def provenance(self, scope_id: str) -> Provenance:
        """What the rendered context is derived from, joined."""
        async with self._ready(scope_id):
            return self.manager.provenance(scope_id)

    @asynccontextmanager
    async def _ready(self, scope_id: str) -> AsyncIterator[None]:
        """The scope's context, brought back if it is not in memory; one at a time works on it."""
        lock = self._locks.get(scope_id)
        if lock is None:
            lock = self._locks[scope_id] = asyncio.Lock()
        async with lock:
            if not self.manager.knows(scope_id):
                if len(self._ends) > _MOST_ENDS:
                    self._forget_gone()
                await self._restore(scope_id)
            yield

    async def _restore(self, scope_id: str) -> None:
        """Read the context anew. What could be read only in part is not kept: it would pass for
        the whole conversation, and nobody would know where it ends."""
        self.drop(scope_id)
        try:
            self._ends[scope_id] = await self._rehydration.restore(scope_id)
            await self._bring_back_work(scope_id)
        except BaseException:
            self.drop(scope_id)
            raise

    def _forget_gone(self) -> None:
        knows = self.manager.knows
        self._ends = {each: at for each, at in self._ends.items() if knows(each)}

    async def _bring_back_work(self, scope_id: str) -> None:
        try:
            await self._follower.bring_back(scope_id)
        except SilasError as error:
            _log.warning("the plans of a conversation are not known now: %s", error.message)

    async def _follow_work(self, scope_id: str, turn_number: int) -> None:
        try:
            await self._follower.follow(scope_id, turn_number)
        except SilasError as error:
            # A conversation goes on without its files.
            _log.warning("the work of a conversation is not known now: %s", error.message)

    async def _catch_up(self, scope_id: str) -> None:
        """Another process has answered in this conversation meanwhile."""
        missed = await self.chronicle.since(scope_id, self._ends[scope_id], limit=_MISSED_AT_ONCE)
        if any(item.ctx_id.startswith(FORGOT_ID) for item in missed):
            await self._restore(scope_id)
            return
        for item in missed:
            if not self.manager.has(scope_id, item.ctx_id):
                self.manager.add(scope_id, item)


@dataclass
class PendingEntry:
    """An entry on its way into a conversation: written in a transaction, then shown.

    If it is committed and not shown, the next entry of the conversation brings it along.
    """

    _service: ContextService
    _scope_id: str
    _item: ContextItem
    _words_from: int | None = None
    _place: ChroniclePlace | None = None
    session: str | None = None
    """The session that it belongs to, once it was written."""

    def write(self, tx: Transaction) -> None:
        """Put it into the chronicle."""
        self._place, self.session = self._service.write_in(
            tx, self._scope_id, self._item, self._words_from
        )

    async def show(self) -> None:
        """Put it into the context, once it is committed."""
        if self._place is not None:
            await self._service.show(self._scope_id, self._item, self._place)
