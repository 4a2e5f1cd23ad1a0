"""A conversation at a terminal, with everything behind it under the control of a test."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from silas.channels.terminal import TerminalChannel
from silas.kernel import ChannelError, TaintLevel
from silas.queue.models import Agent, AgentReply, MessageKind, QueueMessage
from silas.stream.cards import Card
from silas.stream.delivery import Delivery

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def message(number: int, text: str, **reply: Any) -> QueueMessage:
    return QueueMessage(
        message_id=f"m{number}",
        trace_id="trace_m0",
        content=text,
        sender=Agent.PROXY,
        message_kind=MessageKind.AGENT_RESPONSE,
        scope_id="owner",
        taint=TaintLevel.OWNER,
        created_at=NOW,
        payload=AgentReply(connection_id="owner", channel="cli", **reply),
    )


class Post:
    """Deliveries that are all there already; then nothing more comes."""

    def __init__(self, *messages: QueueMessage) -> None:
        self._all = [Delivery(number, each) for number, each in enumerate(messages, 1)]
        self.read = asyncio.Event()
        self.failures: list[ChannelError] = []

    async def last(self, _connection_id: str) -> int:
        return 0

    async def follow(self, _connection_id: str, number: int) -> AsyncIterator[Delivery]:
        if self.failures:
            raise self.failures.pop()
        for each in self._all[number:]:
            yield each
        self.read.set()
        await asyncio.Event().wait()


class NoCards:
    """Cards that cannot be read."""

    async def open_cards(self) -> list[Card]:
        return []

    async def get(self, _card_id: str) -> Card:
        raise ChannelError("The card cannot be read.")

    async def decide(self, _card_id: str, _decision: object, **_more: object) -> Card:
        raise ChannelError("The card cannot be decided.")


def channel(post: Post, shown: list[str]) -> TerminalChannel:
    async def send(_text: str) -> QueueMessage:
        return message(0, "said")

    async def show(card: Card) -> str:
        return card.title

    return TerminalChannel(
        connection_id="owner",
        deliveries=post,  # type: ignore[arg-type]
        cards=NoCards(),  # type: ignore[arg-type]
        send=send,
        show_card=show,
        say=shown.append,
        again_seconds=0,
    )


async def nobody(_question: str) -> bool | None:
    return None


async def test_a_word_in_between_is_not_the_answer() -> None:
    shown: list[str] = []
    post = Post(message(1, "I am looking."), message(2, "It is green.", in_reply_to="m0"))
    async with asyncio.timeout(120):
        await channel(post, shown).ask_once("Which colour?", nobody)
    assert shown == ["I am looking.", "It is green."]


async def test_a_card_that_cannot_be_read_does_not_end_the_listening() -> None:
    shown: list[str] = []
    post = Post(message(1, "A plan.", card_id="card_1"), message(2, "And more."))

    async def read_line() -> str | None:
        await post.read.wait()
        return None

    async with asyncio.timeout(120):
        await channel(post, shown).talk(read_line)
    assert shown == ["A plan.", "The card cannot be read.", "And more."]


async def test_a_database_that_is_busy_does_not_make_the_terminal_deaf() -> None:
    shown: list[str] = []
    post = Post(message(1, "Here I am."))
    post.failures.append(ChannelError("Busy."))

    async def read_line() -> str | None:
        await post.read.wait()
        return None

    async with asyncio.timeout(120):
        await channel(post, shown).talk(read_line)
    assert shown == ["Busy.", "Here I am."]
