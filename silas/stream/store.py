"""What the conversation must not forget: origins of requests, turns, origins of work items."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from silas.kernel import Clock, TaintLevel, format_timestamp, join_taint, parse_timestamp
from silas.kernel.ids import person_of
from silas.kernel.models import Data
from silas.queue.models import OWN_CHANNEL, RequestFolders
from silas.storage import Database, Row, Transaction
from silas.stream.errors import NotFromHere
from silas.work.models import WorkItem

_SELECT_ORIGIN = """
SELECT trace_id, scope_id, connection_id, channel, sender_id, message_id, taint
FROM conversation_origins WHERE trace_id = ?
"""
_INSERT_ORIGIN = """
INSERT INTO conversation_origins
    (trace_id, scope_id, connection_id, channel, sender_id, message_id, taint, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (trace_id) DO UPDATE SET taint = coalesce(conversation_origins.taint, excluded.taint)
"""
_COUNT = """
INSERT INTO conversation_scopes (scope_id, turns) VALUES (?, 1)
ON CONFLICT (scope_id) DO UPDATE SET turns = conversation_scopes.turns + 1
"""
_SELECT_WORK = """
SELECT work_item_id, trace_id, scope_id, taint, depth, replaces
FROM conversation_work WHERE work_item_id = ?
"""
_INSERT_WORK = """
INSERT INTO conversation_work
    (work_item_id, trace_id, scope_id, taint, depth, replaces, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_NOTE_FOLDERS = """
INSERT INTO request_folders (trace_id, folders, created_at) VALUES (?, ?, ?)
ON CONFLICT (trace_id) DO NOTHING
"""
_PRUNE_FOLDERS = """
DELETE FROM request_folders WHERE created_at < ?
    AND trace_id NOT IN (SELECT trace_id FROM conversation_origins)
"""
_PRUNE_STOPS = "DELETE FROM stopped_answers WHERE stopped_at < ?"
_PRUNE = """
DELETE FROM conversation_origins WHERE created_at < ?
    AND NOT EXISTS (
        SELECT 1 FROM conversation_work AS work
        JOIN work_items AS item ON item.id = work.work_item_id
        WHERE work.trace_id = conversation_origins.trace_id
            AND item.status NOT IN ('done', 'unchecked', 'failed', 'replaced')
    )
    AND NOT EXISTS (
        SELECT 1 FROM review_cards AS card
        WHERE card.trace_id = conversation_origins.trace_id AND card.state = 'open'
    )
"""
# `COALESCE` keeps the index of scopes out of it: few items go on, a scope may have had very many.
_GOES_ON = """
SELECT item.id FROM work_items AS item
JOIN conversation_work AS work ON work.work_item_id = item.id
WHERE item.status IN ('running', 'paused') AND COALESCE(work.scope_id, '') = ?
ORDER BY item.created_at DESC, item.id LIMIT ?
"""
_UNDER_WAY = """
SELECT item.id FROM work_items AS item
JOIN conversation_work AS work ON work.work_item_id = item.id
WHERE work.scope_id = ? AND item.parent IS NULL AND item.type <> 'goal' AND (
    item.status = 'running' OR (item.status = 'pending' AND item.approval_token IS NOT NULL)
    OR EXISTS (SELECT 1 FROM work_attempts WHERE work_item_id = item.id AND ended_at IS NULL)
) ORDER BY item.created_at, item.id
"""
_LAST_UNDO = """
SELECT id FROM review_cards
WHERE scope_id = ? AND requested_by = 'undo' AND state = 'open' AND expires_at > ?
ORDER BY created_at DESC, id LIMIT 1
"""
_PLANNED = """
SELECT item.id FROM conversation_work AS work
JOIN work_items AS item ON item.id = work.work_item_id
WHERE work.scope_id = ? AND item.parent IS NULL
ORDER BY work.created_at DESC, item.id LIMIT ?
"""
_LATEST_SCOPE = """
SELECT scope_id FROM conversations WHERE person = ? AND deleted_at IS NULL
ORDER BY used_at DESC, scope_id LIMIT 1
"""
_IS_GONE = "SELECT 1 FROM conversations WHERE scope_id = ? AND deleted_at IS NOT NULL"
_OPEN_CARDS = "SELECT count(*) FROM review_cards WHERE scope_id = ? AND state = 'open'"


class Origin(Data):
    """Where a request came from, and so where everything that it leads to is reported."""

    trace_id: str
    scope_id: str
    connection_id: str
    channel: str
    sender_id: str
    message_id: str
    taint: TaintLevel | None = None
    """None until it is decided; then it stays."""


def own_origin(
    owner_id: str,
    name: str,
    *,
    scope_id: str,
    sender_id: str,
    taint: TaintLevel,
    trace_id: str | None = None,
) -> Origin:
    """Of what nobody has asked for in a message of theirs: the owner is told. The trace is named
    like it, unless there is one already."""
    return Origin(
        trace_id=trace_id or name,
        scope_id=scope_id,
        connection_id=owner_id,
        channel=OWN_CHANNEL,
        sender_id=sender_id,
        message_id=name,
        taint=taint,
    )


class WorkOrigin(Data):
    """Where a work item came from."""

    work_item_id: str
    trace_id: str
    scope_id: str
    taint: TaintLevel
    depth: int = 0
    replaces: str | None = None


class ConversationStore:
    """Origins, turns and goals' times of one data directory."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def origin(self, trace_id: str) -> Origin | None:
        """Where this trace began."""
        row = await self._database.fetch_one(_SELECT_ORIGIN, (trace_id,))
        return Origin.model_validate(_named(Origin, row)) if row else None

    async def require_origin(self, trace_id: str) -> Origin:
        """The same; raises `NotFromHere`."""
        found = await self.origin(trace_id)
        if found is None:
            raise NotFromHere(trace_id=trace_id)
        return found

    def note_origin(self, tx: Transaction, origin: Origin) -> None:
        """Keep where a trace began; noted again, it only learns its taint."""
        values = tuple(origin.model_dump(mode="json").values())
        tx.execute(_INSERT_ORIGIN, (*values, self._now()))

    async def write(self, writes: Sequence[Callable[[Transaction], object]]) -> None:
        """Some rows that belong together, in one transaction."""

        def all_of_them(tx: Transaction) -> None:
            for write in writes:
                write(tx)

        await self._database.transaction(all_of_them, brief=True)

    async def turns(self, scope_id: str) -> int:
        """How many turns the scope has had."""
        row = await self._database.fetch_one(
            "SELECT turns FROM conversation_scopes WHERE scope_id = ?", (scope_id,)
        )
        return row[0] if row else 0

    async def latest_scope(self, person: str) -> str:
        """The conversation that was used last: for what belongs to none."""
        row = await self._database.fetch_one(_LATEST_SCOPE, (person,))
        return str(row[0]) if row else person

    async def scope_of_work(self, work_item_id: str, person: str) -> str:
        """The conversation of this person's in which the work was made; if none is, the latest."""
        made = await self.work_origin(work_item_id)
        if made is None or person_of(made.scope_id) != person:
            return await self.latest_scope(person)
        if await self._database.fetch_one(_IS_GONE, (made.scope_id,)):
            return await self.latest_scope(person)
        return made.scope_id

    def count_turn(self, tx: Transaction, scope_id: str) -> None:
        """One more."""
        tx.execute(_COUNT, (scope_id,))

    async def work_origin(self, work_item_id: str) -> WorkOrigin | None:
        """Where a work item came from; None if it did not come from a conversation."""
        row = await self._database.fetch_one(_SELECT_WORK, (work_item_id,))
        return WorkOrigin.model_validate(_named(WorkOrigin, row)) if row else None

    async def taint_of(self, item: WorkItem) -> TaintLevel:
        """What a work item was made from, and what it goes on from; a stranger's, if not known.

        An item without an origin has that of what it belongs to. What it follows up adds its own
        and never speaks for it: a stranger can name what the owner has made.
        """
        made = [await self.work_origin(item.id)]
        made += [await self.work_origin(name) for name in (item.parent, item.spawned_by) if name]
        if not any(made):
            return TaintLevel.EXTERNAL
        before = [await self.work_origin(item.follow_up_of)] if item.follow_up_of else []
        return join_taint(*(each.taint for each in (*made, *before) if each))

    async def replacements(self, work_item_id: str) -> int:
        """How often a new approach to exactly this item was planned."""
        row = await self._database.fetch_one(
            "SELECT count(DISTINCT trace_id || depth) FROM conversation_work WHERE replaces = ?",
            (work_item_id,),
        )
        return row[0] if row else 0

    def note_work(self, tx: Transaction, origin: WorkOrigin) -> None:
        """Keep where a work item came from."""
        tx.execute(_INSERT_WORK, (*origin.model_dump(mode="json").values(), self._now()))

    async def note_typed(self, items: Sequence[WorkItem], *, owner_id: str) -> None:
        """Work that the owner has brought and approved himself, at his own terminal."""
        now = self._now()

        def note(tx: Transaction) -> None:
            for item in items:
                values = (item.id, "terminal", owner_id, TaintLevel.OWNER.value, 0, None, now)
                tx.execute(f"{_INSERT_WORK} ON CONFLICT (work_item_id) DO NOTHING", values)

        await self._database.transaction(note)

    async def of_scope(self, scope_id: str, ids: Collection[str]) -> set[str]:
        """Those of the ids that are work items of this scope."""
        found = set()
        for each in ids:
            origin = await self.work_origin(each)
            if origin is not None and origin.scope_id == scope_id:
                found.add(each)
        return found

    async def goes_on(self, scope_id: str, *, most: int) -> list[str]:
        """The work of this scope that was begun and has not ended, the newest first."""
        rows = await self._database.fetch_all(_GOES_ON, (scope_id, most))
        return [work_item_id for (work_item_id,) in rows]

    async def planned(self, scope_id: str, *, most: int) -> list[str]:
        """The plans of this scope, the newest first."""
        rows = await self._database.fetch_all(_PLANNED, (scope_id, most))
        return [work_item_id for (work_item_id,) in rows]

    async def open_cards(self, scope_id: str) -> int:
        """How many decisions of the owner's this scope waits for."""
        row = await self._database.fetch_one(_OPEN_CARDS, (scope_id,))
        return row[0] if row else 0

    async def under_way(self, scope_id: str) -> list[str]:
        """The work of this scope that is being done, or waits for a call; goals are none of it."""
        rows = await self._database.fetch_all(_UNDER_WAY, (scope_id,))
        return [work_item_id for (work_item_id,) in rows]

    async def last_undo(self, scope_id: str, *, now: datetime) -> str | None:
        """The card of the undo that was offered last in this scope, while it can be decided."""
        row = await self._database.fetch_one(_LAST_UNDO, (scope_id, format_timestamp(now)))
        return row[0] if row else None

    async def prune(self, *, before: datetime) -> int:
        """Forget where old requests came from, unless work or a card still belongs to them."""
        gone = await self._database.execute(_PRUNE, (format_timestamp(before),))
        await self._database.execute(_PRUNE_FOLDERS, (format_timestamp(before),))
        await self._database.execute(_PRUNE_STOPS, (format_timestamp(before),))
        return gone

    async def folders_of(self, trace_id: str) -> RequestFolders:
        """The folders that the request was about; none if it is not known."""
        row = await self._database.fetch_one(
            "SELECT folders FROM request_folders WHERE trace_id = ?", (trace_id,)
        )
        return RequestFolders.model_validate_json(row[0]) if row else RequestFolders()

    def note_folders(self, tx: Transaction, trace_id: str, folders: RequestFolders) -> None:
        """Keep the folders of a request; those that were noted first stay."""
        if folders.readable:
            tx.execute(_NOTE_FOLDERS, (trace_id, folders.model_dump_json(), self._now()))

    async def looked_until(self, goal_id: str) -> datetime | None:
        """Until when the goal's schedule has been looked at."""
        row = await self._database.fetch_one(
            "SELECT looked_until FROM goal_times WHERE goal_id = ?", (goal_id,)
        )
        return parse_timestamp(row[0]) if row else None

    def looked(self, tx: Transaction, goal_id: str, until: datetime) -> None:
        """The goal's schedule has been looked at until then."""
        tx.execute(
            "INSERT INTO goal_times (goal_id, looked_until) VALUES (?, ?) "
            "ON CONFLICT (goal_id) DO UPDATE SET looked_until = excluded.looked_until",
            (goal_id, format_timestamp(until)),
        )

    def first_told(self, tx: Transaction, name: str, at: datetime) -> bool:
        """Whether nothing of this name was told for this time or a later one; then it is now."""
        rows = tx.fetch_all("SELECT looked_until FROM goal_times WHERE goal_id = ?", (name,))
        if rows and parse_timestamp(rows[0][0]) >= at:
            return False
        self.looked(tx, name, at)
        return True

    def _now(self) -> str:
        return format_timestamp(self._clock.now())


def _named(kind: type[Data], row: Row) -> dict[str, object]:
    """A row whose columns are the fields, in their order."""
    return dict(zip(kind.model_fields, row, strict=True))
