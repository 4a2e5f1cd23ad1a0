"""`/visit`: the page and the API of visitors, and what the owner sees of them.

1. Whoever is here is not the owner. A visitor shows a secret in `Authorization: Bearer`: the link's
   to open a connection, the connection's own for everything else. It is never in a path, a query or
   a cookie. Nothing else of the API knows these secrets.
2. A visitor says something, and hears what is said in the own conversation: the text, who said it
   and when. Cards, work, files and reports are the owner's.
3. Whoever waits for news waits some seconds; a link that is revoked ends that at once.
4. The id under which a message is kept is made here: a repetition of the same `key` on the same
   connection is the same message, and no visitor can use an id of anybody else's.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import resources
from typing import Annotated, Any

from fastapi import Request
from pydantic import Field
from starlette.responses import Response
from starlette.routing import Route

from silas.kernel import format_timestamp
from silas.kernel.models import Data
from silas.queue.models import QueueMessage, UserMessage
from silas.storage import Transaction
from silas.stream.admission import Intake, busy_for
from silas.stream.cases import SHOWN_TO_VISITORS, VisitorCase, VisitorCases, speaker_of
from silas.stream.delivery import Deliveries, UserMessageStore
from silas.stream.errors import LinkUnknown, VisitLimitReached
from silas.stream.limits import RateLimit
from silas.stream.visitors import (
    VISIT,
    VisitorConnection,
    VisitorDoor,
    VisitorLimits,
    VisitorStore,
)
from silas.web.access import page
from silas.web.command_routes import Routes
from silas.web.commands import ApiCommand, Body, PageAccess
from silas.web.serving import Endpoint, page_answer

_HISTORY = 100
_WAIT_SECONDS = 20.0
_MAX_WAITING = 2
"""Requests of one connection that wait for news at once."""
_BEARER = "bearer "
_FILES = {"visit.js": "text/javascript; charset=utf-8", "visit.css": "text/css; charset=utf-8"}
Text = Annotated[str, Field(min_length=1, max_length=50_000)]
Key = Annotated[str, Field(min_length=1, max_length=100)]
Name = Annotated[str, Field(min_length=1, max_length=100)]


class Opened(Data):
    """A connection of one's own."""

    secret: str
    name: str
    message_chars: int


class Said(Body):
    """What a visitor says."""

    text: Text
    key: Key


class Taken(Data):
    """It is kept, and will be answered."""

    accepted: bool = True


class Spoken(Data):
    """One line of the conversation."""

    who: str
    text: str
    at: str


class VisitNews(Data):
    """What is new, and from where to go on."""

    lines: list[Spoken]
    after: int


@dataclass
class Visits:
    """What the routes of visitors work with, and the owner's commands about them."""

    store: VisitorStore
    door: VisitorDoor
    cases: VisitorCases
    intake: Intake
    said: UserMessageStore
    deliveries: Deliveries
    per_address: RateLimit
    address: str = ""
    """Where the page is, for links."""
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    _closed: bool = False
    _waiting: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store.news.add(self._end_waiting)

    def _end_waiting(self) -> None:
        """Let whoever waits look again whether the link is good (rule 3)."""
        self._ended.set()
        if not self._closed:
            self._ended = asyncio.Event()

    def end(self) -> None:
        """Let nobody wait any more: this Silas is closing."""
        self._closed = True
        self.store.news.discard(self._end_waiting)
        self._ended.set()

    async def say(self, visitor: VisitorConnection, said: Said) -> None:
        """Take a message in; raises what keeps it from being taken."""
        await self.door.require_place(visitor, said.text)

        def record(tx: Transaction, message: QueueMessage) -> None:
            # Looked at again here: several may have passed the door at the same time.
            if self.said.write(tx, message):
                self.store.take_message_in(tx, visitor.link)

        key = hashlib.sha256(said.key.encode()).hexdigest()[:24]
        await self.intake.accept(
            said.text,
            UserMessage(
                channel=VISIT,
                connection_id=visitor.connection_id,
                sender_id=visitor.sender_id,
                timestamp=self.store.clock.now(),
            ),
            message_id=f"{visitor.connection_id}.{key}",  # rule 4
            record=record,
        )

    async def history(self, visitor: VisitorConnection) -> VisitNews:
        """The conversation so far."""
        name = visitor.connection_id
        lines = await self.cases.conversation(name)
        shown = [
            Spoken(who=each.who, text=each.text, at=format_timestamp(each.at))
            for each in lines[-_HISTORY:]
        ]
        return VisitNews(lines=shown, after=await self.deliveries.last(name))

    async def hear(self, visitor: VisitorConnection, after: int) -> VisitNews:
        """What came after a number; if nothing did, what comes next, for a while."""
        with self._waits(visitor.connection_id):
            found = await self._new(visitor, after)
            ended = self._ended
            if not found.lines:
                news = asyncio.create_task(self._next(visitor, found.after))
                over = asyncio.create_task(ended.wait())
                both: set[asyncio.Task[Any]] = {news, over}
                try:
                    await asyncio.wait(
                        both, timeout=_WAIT_SECONDS, return_when=asyncio.FIRST_COMPLETED
                    )
                finally:
                    for task in both:
                        task.cancel()
                    await asyncio.gather(*both, return_exceptions=True)
                found = await self._new(visitor, found.after)
        return found

    async def _next(self, visitor: VisitorConnection, after: int) -> None:
        async for _ in self.deliveries.follow(visitor.connection_id, after):
            return

    async def _new(self, visitor: VisitorConnection, after: int) -> VisitNews:
        found = await self.deliveries.after(visitor.connection_id, after)
        lines = [
            Spoken(
                who=speaker_of(each.message),
                text=each.message.content,
                at=format_timestamp(each.message.created_at),
            )
            for each in found
            if each.reply.surface in SHOWN_TO_VISITORS
        ]
        return VisitNews(lines=lines, after=found[-1].number if found else after)

    @contextlib.contextmanager
    def _waits(self, name: str) -> Iterator[None]:
        if self._waiting.get(name, 0) >= _MAX_WAITING:
            raise VisitLimitReached("You wait for news already.")
        self._waiting[name] = self._waiting.get(name, 0) + 1
        try:
            yield
        finally:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name]

    async def invite(
        self,
        name: Name,
        *,
        goal: str | None = None,
        customer: Name | None = None,
        days: Annotated[int, Field(ge=1, le=3650)] | None = None,
        messages_per_minute: int = 10,
        messages_per_day: int = 500,
        tokens_per_day: int = 1_000_000,
        connections: int = 20,
    ) -> dict[str, Any]:
        """Make a link for visitors. Its secret is in the answer, and nowhere else."""
        found = await (self.door.goal_named(goal) if goal else self.door.only_goal())
        link, secret = await self.store.invite(
            name,
            found.id,
            limits=VisitorLimits(
                messages_per_minute=messages_per_minute,
                messages_per_day=messages_per_day,
                tokens_per_day=tokens_per_day,
                connections=connections,
            ),
            customer_id=customer,
            valid_for=None if days is None else timedelta(days=days),
        )
        return {
            **link.model_dump(mode="json"),
            "secret": secret,
            "link": f"{self.address}/visit#{secret}",
        }

    async def list_links(self) -> list[dict[str, Any]]:
        """The links that there are, with what each has used today."""
        now = self.store.clock.now()
        return [
            {
                **link.model_dump(mode="json"),
                "good": link.is_good(now),
                "used_today": (await self.store.used_today(link.link_id))._asdict(),
            }
            for link in await self.store.links()
        ]

    async def revoke(self, link_id: str) -> dict[str, Any]:
        """End a link, and everything that came with it, at once."""
        return (await self.cases.revoke(link_id)).model_dump(mode="json")

    async def conversations(self) -> list[dict[str, Any]]:
        """Who was here lately, and what waits for a person."""
        waiting = await self.cases.open()
        return [
            {
                "connection_id": each.connection_id,
                "link": each.link.name,
                "seen_at": format_timestamp(each.seen_at),
                "waits": any(case.connection_id == each.connection_id for case in waiting),
            }
            for each in await self.store.connections()
        ]

    async def show(self, connection_id: str) -> list[dict[str, Any]]:
        """One conversation with a visitor."""
        lines = await self.cases.conversation(connection_id)
        return [line.model_dump(mode="json") for line in lines]

    async def queue(self, name: str | None = None) -> list[VisitorCase]:
        """What waits for a person: of one queue, or all of it."""
        return await self.cases.open(name)

    async def reply(self, to: str, text: Text) -> dict[str, bool]:
        """Answer a visitor in person: `to` is a case or a conversation."""
        name = (await self.cases.get(to)).connection_id if to.startswith("case_") else to
        await self.cases.reply(name, text)
        return {"sent": True}

    async def close(self, case_id: str) -> dict[str, bool]:
        """End what waits for a person, without an answer."""
        await self.cases.close(case_id)
        return {"closed": True}


VISITOR_COMMANDS = (
    ApiCommand(Visits.invite),
    ApiCommand(Visits.list_links, PageAccess.SIGNED, alias="list"),
    ApiCommand(Visits.revoke, PageAccess.SIGNED),
    ApiCommand(Visits.conversations, PageAccess.SIGNED),
    ApiCommand(Visits.show, PageAccess.SIGNED),
    ApiCommand(Visits.queue, PageAccess.SIGNED),
    ApiCommand(Visits.reply, PageAccess.SIGNED),
    ApiCommand(Visits.close, PageAccess.SIGNED),
)
"""For the owner: a link is made at the machine alone, everything else also on the page."""


def visit_routes(visits: Visits) -> Routes:
    """The routes of visitors (rule 1)."""
    routes = Routes("/visit")

    @routes.post("/connections")
    @page(PageAccess.OPEN)
    async def connect(request: Request, _nothing: dict[str, Any]) -> Opened:
        _pace(visits, request)
        found, secret = await visits.door.open(_secret(request))
        limits = found.link.limits
        return Opened(secret=secret, name=found.link.name, message_chars=limits.message_chars)

    @routes.post("/messages", status_code=202)
    @page(PageAccess.OPEN)
    async def say(request: Request, said: Said) -> Taken:
        _pace(visits, request)
        await visits.say(await visits.store.entered(_secret(request)), said)
        return Taken()

    @routes.get("/history")
    @page(PageAccess.OPEN)
    async def history(request: Request) -> VisitNews:
        return await visits.history(await visits.store.entered(_secret(request)))

    @routes.get("/messages/{after}")
    @page(PageAccess.OPEN)
    async def hear(request: Request, after: Annotated[int, Field(ge=0)]) -> VisitNews:
        found = await visits.hear(await visits.store.entered(_secret(request)), after)
        await visits.store.entered(_secret(request))  # revoked meanwhile: nothing is told
        return found

    return routes


def _pace(visits: Visits, request: Request) -> None:
    address = request.client.host if request.client else ""
    if not visits.per_address.take(address):
        raise busy_for(visits.per_address.wait(address))


def _secret(request: Request) -> str:
    given = request.headers.get("authorization", "")
    if not given.lower().startswith(_BEARER):
        raise LinkUnknown
    return given[len(_BEARER) :].strip()


def visitor_page() -> list[Route]:
    """The page of visitors, and its two files."""
    static = resources.files("silas.web").joinpath("static")
    text = static.joinpath("visit.html").read_text("utf-8")
    return [
        Route("/visit", page_answer(text)),
        *(Route(f"/visit/{name}", _file(name, kind)) for name, kind in _FILES.items()),
    ]


def _file(name: str, kind: str) -> Endpoint:
    content = resources.files("silas.web").joinpath("static").joinpath(name).read_bytes()

    async def answer(_request: Request) -> Response:
        return Response(content, media_type=kind)

    return answer
