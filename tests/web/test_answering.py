"""A model that writes slowly, a real socket: what pages see of an answer while it is made."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pydantic_ai.models import override_allow_model_requests

from silas.app.client import call_server
from silas.stream.answering import NOTHING_BEGUN, STOPPED
from silas.testing.model_server import (
    ModelServer,
    Reply,
    Request,
    answer,
    as_events,
    failure,
    model_server,
    raw,
)
from silas.web.owner_socket import owner_socket
from tests.web.place import Line, Place, environ_for, open_place

FIRST = "The first sentence is long enough to be shown before the rest. "
SECOND = "And this is the second one, which comes a good deal later."
MODEL = "openai:slow"


def decision(text: str) -> str:
    """What a small model on this machine is asked for: without a text, it wants a plan."""
    return json.dumps({"kind": "answer", "message": text} if text else {"kind": "work"})


@dataclass
class SlowModel:
    """Answers with a text, and holds back what comes after its first sentence."""

    text: str = FIRST + SECOND
    may_end: asyncio.Event = field(default_factory=asyncio.Event)
    writes: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[Request] = field(default_factory=list)

    def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        reply = as_events(answer(decision(self.text)))
        last = len(reply.pieces) - 4

        async def before(number: int) -> None:
            if number == last:
                self.writes.set()
                await self.may_end.wait()

        return replace(reply, before_piece=before)


@dataclass
class Talk:
    place: Place
    line: Line
    server: ModelServer
    model: SlowModel

    async def grown(self, line: Line | None = None) -> str:
        """The text that grows, once there is some."""
        frame = await (line or self.line).until("text", start=0)
        return str(frame["piece"])

    async def answer(self, line: Line | None = None) -> str:
        frame = await (line or self.line).until("message", sender="silas")
        return str(frame["text"])


@contextlib.asynccontextmanager
async def serving(root: Path, server: ModelServer, **more: str) -> AsyncIterator[Place]:
    environ = environ_for(
        root,
        OPENAI_API_KEY="x",
        SILAS_MODELS__BASE_URL=server.url,
        SILAS_MODELS__PROXY=MODEL,
        SILAS_MODELS__PLANNER=MODEL,
        SILAS_MODELS__EXECUTOR=MODEL,
        SILAS_MODELS__MAX_RETRIES="0",
        **more,
    )
    async with open_place(root, environ) as place:
        yield place


@contextlib.asynccontextmanager
async def talking(root: Path, model: Any, **more: str) -> AsyncIterator[Talk]:
    with override_allow_model_requests(True):
        async with model_server(model) as server, serving(root, server, **more) as place:
            device = await place.device()
            async with device.conversation() as line:
                yield Talk(place, line, server, model)


@pytest_asyncio.fixture(loop_scope="session")
async def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Talk]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    async with talking(tmp_path, SlowModel()) as talk:
        yield talk
        talk.model.may_end.set()


async def test_a_sentence_is_there_before_the_answer_ends(talk: Talk) -> None:
    said = await talk.line.say("What do you think of bread?")
    trace = f"trace_{said['message_id']}"
    stage = await talk.line.until("answering", stage="asking")
    assert (stage["words"], stage["trace_id"]) == (f"Asking {MODEL}", trace)
    assert await talk.grown() == FIRST
    talk.model.may_end.set()
    final = await talk.line.until("message", sender="silas")
    assert final["text"] == FIRST + SECOND
    assert final["answers"]
    await talk.line.until("answering", trace_id=trace, over=True)
    assert len(talk.model.requests) == 1


async def test_a_page_that_comes_in_the_middle_sees_the_text_so_far(talk: Talk) -> None:
    await talk.line.say("What do you think of bread?")
    await talk.grown()
    async with talk.line.device.conversation() as again:
        stage = await again.until("answering", over=False)
        assert stage["words"] == f"Asking {MODEL}"
        assert await talk.grown(again) == FIRST
        talk.model.may_end.set()
        assert await talk.answer(again) == FIRST + SECOND
    async with talk.line.device.conversation() as later:
        history = await later.until("history")
        assert [each["text"] for each in history["messages"]][-1] == FIRST + SECOND
        assert not [each for each in later.heard if each["type"] in ("answering", "text")]


async def test_a_stop_ends_the_request_to_the_model(talk: Talk) -> None:
    said = await talk.line.say("What do you think of bread?")
    await talk.grown()
    await talk.line.send({"type": "stop", "trace_id": f"trace_{said['message_id']}"})
    assert await talk.answer() == f"{FIRST.rstrip()}\n\n{STOPPED}"
    await talk.line.until("answering", over=True)
    # The next message is answered: the connection to the model was given up, not waited for.
    talk.model.may_end.set()
    await talk.line.say("And of butter?")
    assert await talk.answer() == FIRST + SECOND


async def test_another_device_stops_what_the_first_began(talk: Talk) -> None:
    other = await talk.place.device("The phone")
    async with other.conversation() as phone:
        await talk.line.say("What do you think of bread?")
        stage = await phone.until("answering", stage="asking")
        await talk.grown()
        await phone.send({"type": "stop", "trace_id": stage["trace_id"]})
        assert STOPPED in await talk.answer(phone)
        assert STOPPED in await talk.answer()


async def test_a_device_that_was_revoked_stops_nothing(talk: Talk) -> None:
    other = await talk.place.device("A lost phone")
    async with other.conversation() as lost:
        said = await talk.line.say("What do you think of bread?")
        await talk.grown()
        await talk.place.core.devices.revoke(other.device_id)
        await lost.send({"type": "stop", "trace_id": f"trace_{said['message_id']}"})
        await lost.socket.wait_closed()
    talk.model.may_end.set()
    assert await talk.answer() == FIRST + SECOND


async def test_nobody_stops_over_http(talk: Talk) -> None:
    said = await talk.line.say("What do you think of bread?")
    await talk.grown()
    body = {"trace_id": f"trace_{said['message_id']}"}
    for answered in (
        await talk.line.device.post("/api/answers/stop", body),
        await talk.line.device.signed_post("/api/answers/stop", body),
    ):
        assert answered.status_code in (401, 403, 404), answered.text
    talk.model.may_end.set()
    assert await talk.answer() == FIRST + SECOND


async def test_a_stop_for_an_answer_that_is_there_does_nothing(talk: Talk) -> None:
    talk.model.may_end.set()
    said = await talk.line.say("What do you think of bread?")
    await talk.answer()
    await talk.line.until("answering", over=True)
    await talk.line.send({"type": "stop", "trace_id": f"trace_{said['message_id']}"})
    await talk.line.send({"type": "ping"})
    await talk.line.until("pong")
    assert not [each for each in talk.line.unread if each["type"] == "error"]
    assert not [each for each in talk.line.unread if each.get("sender") == "silas"]


async def test_a_plan_that_is_being_made_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    plans = asyncio.Event()

    def think(request: Request) -> Reply:
        if request.json["response_format"]["json_schema"]["name"] == "RouteDecision":
            return answer(decision(""))

        async def wait(_: int) -> None:
            plans.set()
            await asyncio.Event().wait()

        return replace(answer("{}"), before_piece=wait)

    async with talking(tmp_path, think) as talk:
        await talk.line.say("Please build me a small thing that nobody has thought of.")
        stage = await talk.line.until("answering", stage="planning")
        assert stage["words"] == "Making a plan"
        await plans.wait()
        await talk.line.send({"type": "stop", "trace_id": stage["trace_id"]})
        assert await talk.answer() == NOTHING_BEGUN
        await talk.line.until("answering", over=True)
        assert await talk.place.front.cards.open_cards() == []


async def test_a_stream_that_dies_leaves_nothing_standing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def think(_: Request) -> Reply:
        reply = as_events(answer(decision(FIRST + SECOND)))
        size = str(sum(map(len, reply.pieces)))
        half = reply.pieces[:-5]
        return replace(reply, pieces=half, headers={"Content-Length": size}, whole=False)

    async with talking(tmp_path, think) as talk:
        await talk.line.say("What do you think of bread?")
        assert await talk.grown() == FIRST
        final = await talk.answer()
        assert final.startswith("I have no answer for you.")
        assert FIRST not in final
        await talk.line.until("answering", over=True)
        assert talk.place.front.answers.current() == []


@pytest.mark.parametrize("refuses", [True, False], ids=["refuses to stream", "ignores the wish"])
async def test_a_server_that_cannot_stream_answers_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def think(request: Request) -> Reply:
        if request.wants_stream and refuses:
            return failure(400, "streaming is not supported")
        body = answer(decision(FIRST + SECOND)).pieces[0]
        return raw(body, content_type="application/json; charset=utf-8")

    async with talking(tmp_path, think) as talk:
        await talk.line.say("What do you think of bread?")
        assert await talk.answer() == FIRST + SECOND


async def test_the_owner_stops_over_the_socket_of_this_machine(talk: Talk) -> None:
    said = await talk.line.say("What do you think of bread?")
    await talk.grown()
    body = {"trace_id": f"trace_{said['message_id']}"}
    paths = talk.place.core.paths
    async with owner_socket(talk.place.web.api, paths.socket):
        ask = partial(asyncio.to_thread, call_server, paths, "/api/answers/stop")
        assert await ask(body) is True
        assert STOPPED in await talk.answer()
        await talk.line.until("answering", over=True)
        assert await ask(body) is False
