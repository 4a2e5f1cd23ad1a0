"""The contexts as a turn uses them: brought back when first needed, by one at a time in a scope."""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from weakref import WeakValueDictionary

from silas.context.chronicle import FORGOT_ID, ChronicleStore, Place
from silas.context.errors import SubscriptionRefused, ZoneFull
from silas.context.following import PLAN_ID, WorkFollower
from silas.context.manager import ContextManager
from silas.context.models import (
    ContextItem,
    ContextKind,
    ContextSubscription,
    ContextZone,
    SubscriptionType,
)
from silas.context.ports import AuditTrail
from silas.context.rehydration import Rehydration, memory_item
from silas.context.sessions import SessionStore
from silas.kernel import Clock, SilasError, TaintLevel
from silas.memory.models import MemoryItem
from silas.storage import Transaction
from silas.stream.ports import ChronicleEntry

_log = logging.getLogger(__name__)
_DIRECTIVES = "directives"
_SAID = "said_"
_MISSED_AT_ONCE = 500
_MOST_ENDS = 10_000


@dataclass
class Saying:
    """`silas.stream.ports.Saying`."""

    _scope_id: str
    _item: ContextItem
    _write: Callable[[Transaction, str, ContextItem], tuple[Place, str]]
    _show: Callable[[str, ContextItem, Place], Awaitable[None]]
    _place: Place | None = None
    session: str | None = None

    def write(self, tx: Transaction) -> None:
        """Put it into the chronicle."""
        self._place, self.session = self._write(tx, self._scope_id, self._item)

    async def show(self) -> None:
        """Put it into the context, once it is committed."""
        if self._place is not None:
            await self._show(self._scope_id, self._item, self._place)


class _Ready:
    """A scope's lock and its context: what a generator would do, without its cost at every step."""

    def __init__(self, room: "Contexts", scope_id: str, lock: asyncio.Lock) -> None:
        self._room = room
        self._scope_id = scope_id
        self._lock = lock

    async def __aenter__(self) -> None:
        await self._lock.acquire()
        try:
            await self._room.bring_back(self._scope_id)
        except BaseException:
            self._lock.release()
            raise

    async def __aexit__(self, *_error: object) -> None:
        self._lock.release()


class Contexts:
    """`silas.stream.ports.ContextRoom`: the contexts, as a turn uses them."""

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

    async def saying(self, entry: ChronicleEntry) -> Saying:
        """An entry of the chronicle, to be written down and then shown, once for each entry id."""
        async with self._ready(entry.scope_id):
            pass  # what is brought back is what was said before
        item = ContextItem(
            ctx_id=f"{_SAID}{entry.entry_id}",
            zone=ContextZone.CHRONICLE,
            content=self._redact(entry.text),
            created_at=self._clock.now(),
            turn_number=entry.turn_number,
            source=entry.source,
            taint=entry.taint,
            kind=ContextKind.MESSAGE,
        )
        return Saying(entry.scope_id, item, self._write, self._show)

    def _write(self, tx: Transaction, scope_id: str, item: ContextItem) -> tuple[Place, str]:
        """The entry, the session that its turn belongs to, and the turn itself."""
        place = self.chronicle.append_in(tx, scope_id, item)
        at, turn_number = item.created_at, item.turn_number
        session = self.sessions.continue_talk(
            tx, scope_id, turn_number=turn_number, at=at, idle=self._session_idle
        )
        self.sessions.note_turn(tx, scope_id, turn_number=turn_number, at=at)
        return place, session

    async def _show(self, scope_id: str, item: ContextItem, place: Place) -> None:
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
        """Put memories of this scope into the memory zone, those that are not there yet."""
        async with self._ready(scope_id):
            for place, item in enumerate(items, 1):
                shown = memory_item(item, turn_number=turn_number, relevance=1 / place)
                if item.scope_id != scope_id:
                    _log.warning("a memory of another scope was not shown")
                elif not self.manager.has(scope_id, shown.ctx_id):
                    self.manager.add(scope_id, shown)

    async def add_plan(
        self, scope_id: str, work_item_id: str, *, markdown: str, taint: TaintLevel
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
                kind=ContextKind.PLAN,
                pinned=True,
            )
            try:
                self.manager.add(scope_id, plan)
            except ZoneFull:
                self.manager.add(scope_id, plan.model_copy(update={"pinned": False}))

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

    async def pin_defaults(self, scope_id: str) -> None:
        """Show preferences that the owner has just confirmed."""
        async with self._ready(scope_id):
            await self._rehydration.pin_defaults(scope_id)

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

    async def taint(self, scope_id: str) -> TaintLevel:
        """What the rendered context is derived from, joined."""
        async with self._ready(scope_id):
            return self.manager.taint(scope_id)

    def _ready(self, scope_id: str) -> "_Ready":
        """The scope's context, brought back if need be; one at a time works on it."""
        lock = self._locks.get(scope_id)
        if lock is None:
            lock = self._locks[scope_id] = asyncio.Lock()
        return _Ready(self, scope_id, lock)

    async def bring_back(self, scope_id: str) -> None:
        """Read the context of a scope that is not in memory; for whoever holds its lock."""
        if self.manager.knows(scope_id):
            return
        self._follower.forget(scope_id)
        end = await self._rehydration.restore(scope_id)
        if len(self._ends) > _MOST_ENDS:
            self._forget_gone()
        self._ends[scope_id] = end

    def _forget_gone(self) -> None:
        knows = self.manager.knows
        self._ends = {each: at for each, at in self._ends.items() if knows(each)}

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
            self.manager.discard(scope_id)
            self._follower.forget(scope_id)
            self._ends[scope_id] = await self._rehydration.restore(scope_id)
            return
        for item in missed:
            if not self.manager.has(scope_id, item.ctx_id):
                self.manager.add(scope_id, item)
