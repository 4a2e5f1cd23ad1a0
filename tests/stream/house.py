"""A whole Silas for the tests: real database, bus, approvals, gates, sandbox; scripted agents."""

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from silas.app.agents import Agents
from silas.app.conversation import Stream, TurnServices, make_stream
from silas.app.core import Core, make_core
from silas.app.runtime import open_cards
from silas.approval.devices import Attached, message_bytes
from silas.kernel import Clock
from silas.queue import Consumer, Handled, Lease, QueueMessage, QueueName
from silas.queue.models import AgentReply, UserMessage
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.storage import Database
from silas.testing import MemoryVault
from silas.testing.stream import FakeReviews

PATIENCE = 120.0
PLAN = """---
id: {id}
type: task
title: {title}
{more}
---
{body}
"""


def plan(body: str, *, id: str = "hello", title: str = "Say hello", more: str = "") -> str:  # noqa: A002
    return PLAN.format(id=id, title=title, body=body, more=more or "domain: test")


def writing(name: str, text: str = "hello", **more: str) -> str:
    """A plan that makes a file and checks it."""
    check = f"verify:\n  - name: there\n    run: cat {name}\n    expect: {{contains: {text}}}"
    return plan(f"```run\n/bin/sh -c 'echo {text} > {name}'\n```", more=check, **more)


FAILING = "verify:\n  - name: never\n    run: test -f never-made.txt\n    expect: {exit_code: 0}"


@dataclass
class House:
    """A running conversation and everybody around it."""

    core: Core
    stream: Stream
    reviews: FakeReviews
    said: list[QueueMessage] = field(default_factory=list)
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def database(self) -> Database:
        return self.core.database

    async def say(
        self,
        text: str,
        *,
        connection: str = "owner",
        signed: bool = True,
        conversation: str | None = None,
        **more: Any,
    ) -> QueueMessage:
        """Somebody says something; the owner signs it."""
        return await self.stream.intake.accept(
            text,
            self.spoken(text, connection=connection, signed=signed, conversation=conversation),
            **more,
        )

    def spoken(
        self,
        text: str,
        *,
        connection: str,
        signed: bool,
        conversation: str | None = None,
        files: Sequence[Attached] = (),
    ) -> UserMessage:
        now = self.core.clock.now()
        nonce = self.core.ids.new("nonce")
        signature = None
        if signed:
            payload = message_bytes(
                text=text,
                timestamp=now,
                nonce=nonce,
                conversation=conversation,
                attachments=files,
            )
            _, signature = self.core.keys.sign(payload)
        return UserMessage.model_validate(
            {
                "channel": "test",
                "connection_id": connection,
                "sender_id": connection,
                "timestamp": now,
                "signature": base64.b64encode(signature).decode() if signature else None,
                "nonce": nonce if signed else None,
                "attachments": [each.model_dump() for each in files],
                "conversation": conversation,
            }
        )

    async def hear(self, lease: Lease) -> Handled:
        self.said.append(lease.message)
        self.heard.set()
        return Handled()

    async def until(self, happened: Callable[[], Any]) -> Any:
        """Wait until this is true of what was heard."""
        deadline = time.monotonic() + PATIENCE
        while not (found := happened()):
            assert time.monotonic() < deadline, [each.content[:80] for each in self.said]
            self.heard.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.heard.wait(), 0.05)
        return found

    async def answer_to(self, message: QueueMessage) -> QueueMessage:
        found = await self.until(lambda: self.answers(message))
        return found[0]  # type: ignore[no-any-return]

    def answers(self, message: QueueMessage) -> list[QueueMessage]:
        return [
            each
            for each in self.said
            if isinstance(each.payload, AgentReply)
            and each.payload.in_reply_to == message.message_id
        ]

    def containing(self, text: str) -> list[QueueMessage]:
        return [each for each in self.said if text in each.content]

    async def card(self) -> Any:
        """The next card that waits for the owner."""
        deadline = time.monotonic() + PATIENCE
        while not (cards := await self.reviews.waiting()):
            assert time.monotonic() < deadline, [each.content[:80] for each in self.said]
            await asyncio.sleep(0.01)
        return cards[0]

    async def idle(self) -> None:
        """Wait until the bus is empty."""
        deadline = time.monotonic() + PATIENCE
        while (left := await self.on_the_bus()) or self.stream.busy._count:
            assert time.monotonic() < deadline, left
            await asyncio.sleep(0.01)

    async def row(self, query: str, params: tuple[str, ...] = ()) -> Any:
        """The first row of a query, once there is one."""
        deadline = time.monotonic() + PATIENCE
        while not (found := await self.database.fetch_one(query, params)):
            assert time.monotonic() < deadline, query
            await asyncio.sleep(0.01)
        return found

    async def on_the_bus(self) -> list[Any]:
        return await self.database.fetch_all("SELECT queue, message_id FROM queue_messages")

    async def dead(self) -> list[Any]:
        return await self.database.fetch_all("SELECT * FROM dead_letters")

    async def audited(self, event: str) -> list[str]:
        rows = await self.database.fetch_all("SELECT body FROM audit_log ORDER BY seq")
        return [body for (body,) in rows if f'"{event}"' in body]


@contextlib.asynccontextmanager
async def standing_house(
    root: Path,
    agents: Agents,
    *,
    vault: Any = None,
    clock: Clock | None = None,
    environ: dict[str, str] | None = None,
    **services: Any,
) -> AsyncIterator[House]:
    """Everything wired; nothing runs yet. There is no workspace unless `environ` names one."""
    known = {"SILAS_PLANNER__WORKSPACE_DIR": "null", **(environ or {})}
    settings = load_settings(data_dir=str(root / "data"), config_file=None, environ=known, cwd=root)
    (root / "data").mkdir(exist_ok=True)
    opened = vault or MemoryVault()
    async with make_core(settings, OnDemandVault(lambda: opened), clock=clock) as core:
        if not core.keys.exists():
            core.keys.generate_keypair()
        reviews = FakeReviews(
            core.database,
            None,  # type: ignore[arg-type]
            approvals=core.approvals,
            clock=core.clock,
        )
        if services.pop("with_reviews", True):
            services.setdefault("reviews", reviews)
        if services.pop("with_cards", False):
            services["reviews"] = open_cards(core)
        stream = make_stream(core, agents, services=TurnServices(**services))
        reviews._queue = stream.queue
        house = House(core, stream, reviews)
        channel = Consumer(
            name="channel", queue=QueueName.CHANNEL, handler=house.hear, store=stream.queue
        )
        stream.consumers = (*stream.consumers, channel)
        yield house


@contextlib.asynccontextmanager
async def open_house(root: Path, agents: Agents, **more: Any) -> AsyncIterator[House]:
    """The same, running."""
    async with standing_house(root, agents, **more) as house:
        await house.stream.recover()
        task = asyncio.create_task(house.stream.run())
        try:
            yield house
        finally:
            await house.stream.drain(5)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
