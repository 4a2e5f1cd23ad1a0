"""Failures over the wire: each has its code, its sentence and its tries, and never a key."""

import asyncio
import json
import socket

import pytest
from pydantic_ai import Agent

from silas.agents.models import errors
from silas.kernel.errors import LlmError
from silas.testing.model_server import (
    Reply,
    answer,
    broken_off,
    failure,
    held_back,
    model_server,
    raw,
    streamed,
)
from tests.agents.wire.stack import KEY, OPENAI, OPENROUTER, choice, stack

both = pytest.mark.parametrize("name", [OPENAI, OPENROUTER])
CASES: list[tuple[str, Reply, type[LlmError], int]] = [
    ("wrong key", failure(401, f"Incorrect API key provided: {KEY}"), errors.ModelKeyRefused, 1),
    ("forbidden", failure(403), errors.ModelKeyRefused, 1),
    ("no credit", failure(402), errors.ModelCreditGone, 1),
    ("server's time-out", failure(408), errors.ModelTimeout, 3),
    ("busy", failure(429), errors.ModelBusy, 3),
    ("server error", failure(500), errors.ModelServerFailed, 3),
    ("overloaded", failure(503), errors.ModelServerFailed, 3),
    ("bad request", failure(400, f"echo {KEY}"), errors.ModelRequestRefused, 1),
    ("unknown model", failure(404), errors.ModelUnknown, 1),
    ("truncated JSON", raw(b'{"choices": [{"mess'), errors.ModelAnswerUnreadable, 3),
    ("a page", raw(b"<html>", content_type="text/html"), errors.ModelAnswerUnreadable, 1),
    ("cut off", broken_off(answer("x" * 500)), errors.ModelUnreachable, 3),
    ("not a completion", raw(b"[]"), errors.ModelAnswerUnreadable, 1),
]


@both
@pytest.mark.parametrize(
    ("reply", "kind", "tries"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
async def test_a_failure_has_its_own_error(
    name: str, reply: Reply, kind: type[LlmError], tries: int
) -> None:
    async with model_server(reply) as server, stack(server, name) as wired:
        with pytest.raises(kind) as caught:
            await wired.ask()
    assert type(caught.value) is kind
    assert caught.value.message.startswith(f"{name}: ")
    assert len(server.chats) == tries
    assert KEY not in json.dumps(caught.value.explain()) + str(caught.value) + repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


async def test_the_wait_grows_and_is_jittered() -> None:
    async with (
        model_server(failure(500), failure(503), answer("ok")) as server,
        stack(server) as wired,
    ):
        assert (await wired.ask()).output == "ok"
    assert wired.slept == [1.0, 2.0]


async def test_what_the_server_asks_for_is_waited() -> None:
    async with (
        model_server(failure(429, retry_after="7"), answer("ok")) as server,
        stack(server) as wired,
    ):
        assert (await wired.ask()).output == "ok"
    assert wired.slept == [7.0]


async def test_nobody_waits_an_hour_because_a_server_says_so() -> None:
    async with model_server(failure(429, retry_after="3600")) as server, stack(server) as wired:
        with pytest.raises(errors.ModelBusy) as caught:
            await wired.ask()
    assert wired.slept == []
    assert caught.value.details["retry_after_seconds"] == 3600


async def test_a_stream_that_cannot_be_opened_is_tried_again() -> None:
    async with model_server(failure(503), streamed("o", "k")) as server, stack(server) as wired:
        agent = Agent(wired.model.model, model_settings=wired.model.settings)
        async with agent.run_stream("?") as run:
            assert await run.get_output() == "ok"
    assert len(server.chats) == 2


async def test_a_stream_that_breaks_off_is_not_started_again() -> None:
    async with model_server(broken_off(streamed(*"abcdef"))) as server, stack(server) as wired:
        agent = Agent(wired.model.model, model_settings=wired.model.settings)
        with pytest.raises(LlmError):
            async with agent.run_stream("?") as run:
                await run.get_output()
    assert len(server.chats) == 1


async def test_slow_bytes_end_at_the_deadline() -> None:
    never = asyncio.Event()
    async with (
        model_server(held_back(answer("late"), never)) as server,
        stack(server, timeout_seconds=0.2, max_retries=0) as wired,
    ):
        with pytest.raises(errors.ModelTimeout):
            await wired.ask()


async def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        async with stack(url) as wired:
            with pytest.raises(errors.ModelUnreachable):
                await wired.ask()
    assert len(wired.slept) == 2


async def test_a_server_that_speaks_no_tls() -> None:
    async with (
        model_server() as server,
        stack(server.url.replace("http://", "https://")) as wired,
    ):
        with pytest.raises(errors.ModelTlsFailed):
            await wired.ask()
    assert wired.slept == []


async def test_a_fallback_steps_in() -> None:
    async with (
        model_server(failure(500)) as broken,
        model_server(answer("spare")) as spare,
        stack(broken, fallback=choice(spare, OPENROUTER)) as wired,
    ):
        assert (await wired.ask()).output == "spare"
    assert len(broken.chats) == 3
    assert len(spare.chats) == 1


async def test_both_failures_are_told() -> None:
    async with (
        model_server(failure(402)) as broke,
        model_server(failure(500)) as broken,
        stack(broke, fallback=choice(broken, OPENROUTER)) as wired,
    ):
        with pytest.raises(errors.ModelCreditGone) as caught:
            await wired.ask()
    codes = [each["code"] for each in caught.value.details["tried"]]
    assert codes == ["E_LLM_CREDIT", "E_LLM_SERVER"]


async def test_the_breaker_opens_and_tries_again_after_its_rest() -> None:
    async with (
        model_server(failure(500)) as server,
        stack(server, max_retries=0, breaker_failures=2, breaker_seconds=60) as wired,
    ):
        for _ in range(2):
            with pytest.raises(errors.ModelServerFailed):
                await wired.ask()
        with pytest.raises(errors.ModelResting):
            await wired.ask()
        assert len(server.chats) == 2
        wired.clock.advance(seconds=60)
        server.script(answer("well again"))
        assert (await wired.ask()).output == "well again"
        assert (await wired.ask()).output == "well again"
