"""A conversation at a terminal, with everything behind it under the control of a test."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from silas.approval import ApprovalDecision
from silas.channels import terminal
from silas.channels.terminal import TerminalChannel
from silas.kernel import ChannelError, TaintLevel
from silas.queue.models import Agent, AgentReply, MessageKind, QueueMessage
from silas.review.cards import Card
from silas.stream.delivery import Delivery
from silas.stream.ports import AnswerProgress

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
        show_exact=show,
        say=shown.append,
        again_seconds=0,
    )


async def nobody(_question: str) -> bool | None:
    return None


async def nobody_decides(_card: Card) -> ApprovalDecision | None:
    return None


async def test_a_word_in_between_is_not_the_answer() -> None:
    shown: list[str] = []
    post = Post(message(1, "I am looking."), message(2, "It is green.", in_reply_to="m0"))
    async with asyncio.timeout(120):
        await channel(post, shown).ask_once("Which colour?", nobody, nobody_decides)
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


async def test_options_are_listed_for_whoever_explores_and_for_nobody_else() -> None:
    shown: list[str] = []
    chips = {"chips": ["The red one", "The\x1b[2J blue one"]}
    offer = {"interaction_register": "exploration", "interaction_mode": "default_and_offer"}
    act = {"interaction_register": "execution", "interaction_mode": "act_and_report"}
    post = Post(
        message(1, "Two fit.", **chips, **offer),
        message(2, "Done.", **chips, **act),
        message(3, "None.", **offer, in_reply_to="m0"),
    )
    async with asyncio.timeout(120):
        await channel(post, shown).ask_once("Which colour?", nobody, nobody_decides)
    assert shown[0] == "Two fit."
    assert shown[1].splitlines()[:2] == ["You could say:", "  The red one"]
    assert "\x1b" not in shown[1]
    assert shown[2:] == ["Done.", "None."]


class Paper:
    """`Growing` that keeps what is written, line by line."""

    def __init__(self) -> None:
        self.text = ""

    def grow(self, piece: str) -> None:
        self.text += piece

    def end_growing(self) -> None:
        self.text += "|"


def growing_channel(*messages: QueueMessage) -> tuple[TerminalChannel, Paper, list[str]]:
    shown: list[str] = []
    found = channel(Post(*messages), shown)
    paper = Paper()
    found.growing, found.note = paper, shown.append
    return found, paper, shown


async def test_an_answer_grows_and_its_rest_is_added() -> None:
    found, paper, shown = growing_channel()
    found.text("owner", "trace_m0", "It is ", start=0)
    found.text("owner", "trace_m0", "green", start=6)
    found.text("guest", "trc_2", "Not yours", start=0)
    found._say_rest(message(1, "It is green."))
    assert (paper.text, shown) == ("It is green.|", [])


async def test_a_text_that_is_taken_back_is_said_to_be() -> None:
    found, paper, shown = growing_channel()
    found.text("owner", "trace_m0", "It is red.", start=0)
    found.text("owner", "trace_m0", "", start=0)
    assert paper.text == "It is red.|"
    assert shown == ["What stands above is not the answer: it was taken back."]
    found._say_rest(message(1, "A rule stopped it."))
    assert shown[-1] == "A rule stopped it."


async def test_a_text_whose_beginning_was_missed_waits_for_the_answer() -> None:
    found, paper, _ = growing_channel()
    found.text("owner", "trace_m0", "green", start=6)
    assert paper.text == ""


async def test_a_stage_that_lasts_is_told_and_one_that_is_over_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terminal, "_STAGE_SECONDS", (0.0, 15.0))
    found, _, shown = growing_channel()
    stage = AnswerProgress(
        trace_id="trace_m0", connection_id="owner", stage="asking", words="Asking a", note="Wait."
    )
    found.answering(stage)
    assert found.being_made == ("trace_m0",)
    async with asyncio.timeout(60):
        while not shown:  # noqa: ASYNC110 - a timer of the channel says it
            await asyncio.sleep(0)
    assert shown == ["… Asking a. Wait."]
    assert found.being_made == ("trace_m0",)
    found.answering(stage.model_copy(update={"over": True}))
    found.answering(stage.model_copy(update={"connection_id": "guest"}))
    assert found.being_made == ()
