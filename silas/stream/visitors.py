"""Visitors: people and programs other than the owner, who talk to Silas with a link of the owner's.

1. A link belongs to one goal that declares `access_levels`. As long as no such goal is in force,
   nobody can visit, and the answer says so.
2. Of the secrets of links and connections only hashes are kept. A link's secret opens connections;
   each connection has a secret and an id of its own, made here and never chosen by the visitor. Its
   id is its scope: nothing of one connection is read for another.
3. A link has limits: messages a minute, messages and tokens a day (UTC), characters of a message,
   connections at once; one that was away for a while counts again when it comes back. A link that
   was revoked or has expired opens nothing, and ends every conversation at once. What waits for the
   owner when a link is revoked is withdrawn in the same transaction; when one expires, soon after.
4. What a visitor says is a stranger's. A link that names a customer is given to one person: what
   comes over it is of a known sender (`auth`), and still not the owner's.
"""

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from pydantic import Field

from silas.audit.models import AuditTrail
from silas.kernel import Clock, IdFactory, format_timestamp, parse_timestamp
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Database, Durability, Row, Transaction
from silas.stream.admission import busy_for
from silas.stream.errors import LinkUnknown, VisitLimitReached, VisitorsClosed
from silas.stream.limits import RateLimit
from silas.work.models import WorkItem

VISIT = "visit"
"""The channel of visitors, and how the ids of their connections begin."""
CUSTOMER = "customer:"
"""How the sender's name begins on a link that names a customer."""
_LINK, _CONNECTION = "vlink_", "vconn_"
_ACTIVE = timedelta(minutes=15)
"""How long a connection counts as one that is there after it was last heard of."""
_SEEN_EVERY = timedelta(minutes=1)
_FULL = "Too many people are here just now. Come again later."
_LINKS = """
SELECT id, name, goal_id, customer_id, limits, created_at, expires_at, revoked_at
FROM visitor_links
"""
_INSERT_LINK = """
INSERT INTO visitor_links
    (id, name, goal_id, customer_id, secret_sha256, limits, created_at, expires_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_CONNECTION = """
INSERT INTO visitor_connections (id, link_id, secret_sha256, created_at, seen_at)
VALUES (?, ?, ?, ?, ?)
"""
_CONNECTIONS = """
SELECT connection.id, connection.created_at, connection.seen_at, link.id, link.name, link.goal_id,
    link.customer_id, link.limits, link.created_at, link.expires_at, link.revoked_at
FROM visitor_connections AS connection JOIN visitor_links AS link ON link.id = connection.link_id
"""
_USED = "SELECT messages, tokens FROM visitor_usage WHERE link_id = ? AND day = ?"
_USE = """
INSERT INTO visitor_usage (link_id, day, messages, tokens) VALUES (?, ?, ?, ?)
ON CONFLICT (link_id, day) DO UPDATE SET
    messages = messages + excluded.messages, tokens = tokens + excluded.tokens
"""


class VisitorLimits(Data):
    """How much may come over one link."""

    messages_per_minute: int = Field(default=10, ge=1, le=600)
    """Of one connection."""
    messages_per_day: int = Field(default=500, ge=1)
    tokens_per_day: int = Field(default=1_000_000, ge=1)
    message_chars: int = Field(default=4_000, ge=1, le=50_000)
    connections: int = Field(default=20, ge=1, le=1_000)
    """That are there at once."""


class VisitorLink(Data):
    """What the owner gives to others, so that they may talk to Silas."""

    link_id: str
    name: str
    goal_id: str
    customer_id: str | None
    limits: VisitorLimits
    created_at: UtcDatetime
    expires_at: UtcDatetime | None
    revoked_at: UtcDatetime | None

    def is_good(self, now: datetime) -> bool:
        """Whether it opens anything now (rule 3)."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class VisitorConnection(Data):
    """One browser or program that came with a link."""

    connection_id: str
    created_at: UtcDatetime
    seen_at: UtcDatetime
    link: VisitorLink

    @property
    def sender_id(self) -> str:
        """Who speaks, as far as it is known (rule 4)."""
        customer = self.link.customer_id
        return f"{CUSTOMER}{customer}" if customer else self.connection_id


class VisitorUsage(NamedTuple):
    """What a link has used today."""

    messages: int
    tokens: int


def is_known_visitor(channel: str, sender_id: str) -> bool:
    """Whether a channel has recognised this sender (rule 4)."""
    return channel == VISIT and sender_id.startswith(CUSTOMER)


def is_visit(connection_id: str) -> bool:
    """Whether this connection came with a link."""
    return connection_id.startswith(f"{VISIT}_")


def takes_visitors(goal: WorkItem) -> bool:
    """Whether a goal says what visitors may use (rule 1)."""
    return bool(goal.access_levels)


@dataclass
class VisitorStore:
    """The links and connections of one data directory."""

    database: Database
    clock: Clock
    ids: IdFactory
    audit: AuditTrail
    news: set[Callable[[], None]] = field(default_factory=set)
    """Called when a link was revoked."""

    async def invite(
        self,
        name: str,
        goal_id: str,
        *,
        limits: VisitorLimits,
        customer_id: str | None = None,
        valid_for: timedelta | None = None,
    ) -> tuple[VisitorLink, str]:
        """Make a link; its secret is told here, once, and kept nowhere (rule 2)."""
        now, secret = self.clock.now(), f"{_LINK}{secrets.token_urlsafe(32)}"
        link = VisitorLink(
            link_id=self.ids.new("link"),
            name=name,
            goal_id=goal_id,
            customer_id=customer_id,
            limits=limits,
            created_at=now,
            expires_at=None if valid_for is None else now + valid_for,
            revoked_at=None,
        )
        values = (
            *(link.link_id, name, goal_id, customer_id, _digest(secret)),
            limits.model_dump_json(),
            format_timestamp(now),
            None if link.expires_at is None else format_timestamp(link.expires_at),
        )
        entry = {"link_id": link.link_id, "name": name, "goal_id": goal_id}

        def write(tx: Transaction) -> None:
            tx.execute(_INSERT_LINK, values)
            self.audit.append(tx, "visitor_link_made", entry)

        await self.database.transaction(write, durability=Durability.TRUST)
        return link, secret

    async def links(self) -> list[VisitorLink]:
        """All links, oldest first; also those that are over."""
        rows = await self.database.fetch_all(f"{_LINKS} ORDER BY created_at, id")
        return [_link(row) for row in rows]

    async def revoke(
        self, link_id: str, *, also: Callable[[Transaction, Sequence[str]], None]
    ) -> VisitorLink:
        """End a link and everything that came with it; raises `LinkUnknown`.

        `also` ends what waits of its connections, in the same transaction.
        """
        row = await self.database.fetch_one(f"{_LINKS} WHERE id = ?", (link_id,))
        if row is None:
            raise LinkUnknown(f"There is no link {link_id!a}. `silas visitors list` shows them.")
        now, link = self.clock.now(), _link(row)

        def write(tx: Transaction) -> None:
            ended = tx.execute(
                "UPDATE visitor_links SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL",
                (format_timestamp(now), link_id),
            )
            if ended:
                self.audit.append(tx, "visitor_link_revoked", {"link_id": link_id})
            rows = tx.fetch_all("SELECT id FROM visitor_connections WHERE link_id = ?", (link_id,))
            also(tx, [name for (name,) in rows])

        await self.database.transaction(write, durability=Durability.TRUST)
        for hear in tuple(self.news):
            hear()
        return link.model_copy(update={"revoked_at": link.revoked_at or now})

    def is_over_in(self, tx: Transaction, connection_id: str) -> bool:
        """Whether the link of this connection was taken back or has expired, in a transaction.

        Whoever writes something down that waits for the owner looks here first: a turn that has
        begun before may end after.
        """
        row = tx.fetch_one(f"{_CONNECTIONS} WHERE connection.id = ?", (connection_id,))
        return row is None or not _connection(row).link.is_good(self.clock.now())

    async def link_of(self, secret: str) -> VisitorLink:
        """The link with this secret, if it is good; raises `LinkUnknown`."""
        row = await self.database.fetch_one(f"{_LINKS} WHERE secret_sha256 = ?", (_digest(secret),))
        link = _link(row) if row else None
        if link is None or not link.is_good(self.clock.now()):
            raise LinkUnknown
        return link

    async def open(self, link: VisitorLink) -> tuple[VisitorConnection, str]:
        """A new connection of a link, with its secret; raises `VisitLimitReached`."""
        now = self.clock.now()
        mine = f"{_CONNECTION}{secrets.token_urlsafe(32)}"
        name, at = self.ids.new(VISIT), format_timestamp(now)

        def write(tx: Transaction) -> bool:
            if not self._has_place(tx, link, now):
                return False
            tx.execute(_INSERT_CONNECTION, (name, link.link_id, _digest(mine), at, at))
            return True

        if not await self.database.transaction(write):
            raise VisitLimitReached(_FULL)
        await self.audit.log("visitor_connected", link_id=link.link_id, connection_id=name)
        connection = VisitorConnection(connection_id=name, created_at=now, seen_at=now, link=link)
        return connection, mine

    async def entered(self, secret: str) -> VisitorConnection:
        """The connection with this secret, if its link is still good; raises `LinkUnknown`.

        One that was away counts as one that comes: raises `VisitLimitReached`.
        """
        if not secret.startswith(_CONNECTION):
            raise LinkUnknown
        found = await self._connection("connection.secret_sha256 = ?", _digest(secret))
        if found is None or not found.link.is_good(self.clock.now()):
            raise LinkUnknown
        await self._seen(found)
        return found

    async def connection(self, connection_id: str) -> VisitorConnection | None:
        """The connection with this id."""
        return await self._connection("connection.id = ?", connection_id)

    async def connections(self) -> list[VisitorConnection]:
        """Those that were heard of last, newest first."""
        rows = await self.database.fetch_all(f"{_CONNECTIONS} ORDER BY seen_at DESC LIMIT 200")
        return [_connection(row) for row in rows]

    async def used_today(self, link_id: str) -> VisitorUsage:
        """What has come over a link today."""
        row = await self.database.fetch_one(_USED, (link_id, self._today()))
        return VisitorUsage(*row) if row else VisitorUsage(0, 0)

    def count_in(
        self, tx: Transaction, link_id: str, *, messages: int = 0, tokens: int = 0
    ) -> None:
        """Count what a link uses, in somebody's transaction."""
        tx.execute(_USE, (link_id, self._today(), messages, tokens))

    def take_message_in(self, tx: Transaction, link: VisitorLink) -> None:
        """Count one message, in somebody's transaction; raises `VisitLimitReached` (rule 3)."""
        row = tx.fetch_one(_USED, (link.link_id, self._today()))
        require_left(VisitorUsage(*row) if row else VisitorUsage(0, 0), link.limits)
        self.count_in(tx, link.link_id, messages=1)

    async def _connection(self, where: str, value: str) -> VisitorConnection | None:
        row = await self.database.fetch_one(f"{_CONNECTIONS} WHERE {where}", (value,))
        return _connection(row) if row else None

    async def _seen(self, connection: VisitorConnection) -> None:
        now, away = self.clock.now(), self.clock.now() - connection.seen_at
        if away < _SEEN_EVERY:
            return
        values = (format_timestamp(now), connection.connection_id)

        def write(tx: Transaction) -> bool:
            if away >= _ACTIVE and not self._has_place(tx, connection.link, now):
                return False
            tx.execute("UPDATE visitor_connections SET seen_at = ? WHERE id = ?", values)
            return True

        if not await self.database.transaction(write):
            raise VisitLimitReached(_FULL)

    def _has_place(self, tx: Transaction, link: VisitorLink, now: datetime) -> bool:
        """Whether one more connection may be there (rule 3)."""
        active = (link.link_id, format_timestamp(now - _ACTIVE))
        row = tx.fetch_one(
            "SELECT count(*) FROM visitor_connections WHERE link_id = ? AND seen_at > ?", active
        )
        return row is None or row[0] < link.limits.connections

    def _today(self) -> str:
        return f"{self.clock.now():%Y-%m-%d}"


@dataclass
class VisitorDoor:
    """Lets a visitor say something, or says why not (rules 1 and 3)."""

    store: VisitorStore
    goals: Callable[[], Awaitable[Sequence[WorkItem]]]
    """The goals that are in force now."""
    _pace: dict[int, RateLimit] = field(default_factory=dict)

    async def open(self, secret: str) -> tuple[VisitorConnection, str]:
        """A new connection for whoever shows the secret of a link; raises why not."""
        link = await self.store.link_of(secret)
        await self.goal_named(link.goal_id)
        return await self.store.open(link)

    async def goal_of(self, connection: VisitorConnection) -> WorkItem:
        """The goal that this visitor came for; raises `VisitorsClosed` or `LinkUnknown`."""
        if not connection.link.is_good(self.store.clock.now()):
            raise LinkUnknown
        return await self.goal_named(connection.link.goal_id)

    async def goal_named(self, goal_id: str) -> WorkItem:
        """The goal with this id, if it is in force and takes visitors; raises `VisitorsClosed`."""
        for goal in await self.goals():
            if goal.id == goal_id and takes_visitors(goal):
                return goal
        raise VisitorsClosed

    async def only_goal(self) -> WorkItem:
        """The one goal that takes visitors; raises `VisitorsClosed` if there is none or another."""
        found = {goal.id: goal for goal in await self.goals() if takes_visitors(goal)}
        if len(found) == 1:
            return next(iter(found.values()))
        if not found:
            raise VisitorsClosed(
                "No goal that is in force takes visitors: approve one that is `always_on` and has "
                "`access_levels`, or name it as `active_goal` in your settings."
            )
        raise VisitorsClosed(f"Several goals take visitors; name one: {', '.join(sorted(found))}.")

    async def require_place(self, connection: VisitorConnection, text: str) -> None:
        """Raise what keeps this from being said."""
        await self.goal_of(connection)
        limits = connection.link.limits
        if len(text) > limits.message_chars:
            raise VisitLimitReached(f"A message has at most {limits.message_chars} characters.")
        require_left(await self.store.used_today(connection.link.link_id), limits)
        pace = self._pace.setdefault(
            limits.messages_per_minute, RateLimit(self.store.clock, limits.messages_per_minute)
        )
        if not pace.take(connection.connection_id):
            raise busy_for(pace.wait(connection.connection_id))


def require_left(used: VisitorUsage, limits: VisitorLimits) -> None:
    """Raise `VisitLimitReached` if a link has used up its day."""
    if used.messages >= limits.messages_per_day or used.tokens >= limits.tokens_per_day:
        raise VisitLimitReached("This is all for today. Come again tomorrow.")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _link(row: Row) -> VisitorLink:
    name, title, goal_id, customer_id, limits, created_at, expires_at, revoked_at = row
    return VisitorLink(
        link_id=name,
        name=title,
        goal_id=goal_id,
        customer_id=customer_id,
        limits=VisitorLimits.model_validate_json(limits),
        created_at=parse_timestamp(created_at),
        expires_at=parse_timestamp(expires_at) if expires_at else None,
        revoked_at=parse_timestamp(revoked_at) if revoked_at else None,
    )


def _connection(row: Row) -> VisitorConnection:
    return VisitorConnection(
        connection_id=row[0],
        created_at=parse_timestamp(row[1]),
        seen_at=parse_timestamp(row[2]),
        link=_link(row[3:]),
    )
