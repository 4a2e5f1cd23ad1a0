"""What answers used, as the model that gave each tells it: whole, cut off, failed, unpriced."""

import pytest
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.test import TestModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.usage import RequestUsage

from silas.agents.models.choices import ModelChoice, Role
from silas.agents.models.metered import MeteredModel
from silas.kernel import LlmError
from silas.stream.usage import ModelUse
from silas.testing.model_server import answer, failure, model_server, streamed
from tests.agents.wire.stack import OPENAI, OPENROUTER, choice, stack

ASKED = [ModelRequest.user_text_prompt("Which city? " * 30)]


async def test_each_answer_is_told_once_with_its_role_and_model() -> None:
    async with model_server(answer("Vienna.")) as server, stack(server) as wired:
        await wired.ask()
        await wired.ask()
    told = ModelUse(role="planner", model=OPENAI, input_tokens=11, output_tokens=7, cost_usd=0.0)
    assert wired.used == [told, told]


async def test_a_failure_uses_nothing_and_the_fallback_is_named() -> None:
    async with (
        model_server(failure(500)) as down,
        model_server(answer("Graz.")) as up,
        stack(down, fallback=choice(up, OPENROUTER), max_retries=0) as wired,
    ):
        await wired.ask()
    assert [(each.model, each.output_tokens) for each in wired.used] == [(OPENROUTER, 7)]


async def test_a_model_that_only_fails_uses_nothing() -> None:
    async with model_server(failure(500)) as server, stack(server, max_retries=1) as wired:
        with pytest.raises(LlmError):
            await wired.ask()
    assert wired.used == []


async def test_a_stream_is_told_at_its_end() -> None:
    async with (
        model_server(streamed("Vien", "na.")) as server,
        stack(server) as wired,
        model_request_stream(wired.model.model, ASKED) as stream,
    ):
        async for _ in stream:
            pass
        assert wired.used == []
    assert [(each.input_tokens, each.output_tokens) for each in wired.used] == [(11, 7)]


async def test_a_stream_that_was_stopped_is_measured_by_its_text() -> None:
    pieces = ["Vienna is a city on a river. "] * 20
    async with (
        model_server(streamed(*pieces)) as server,
        stack(server) as wired,
        model_request_stream(wired.model.model, ASKED) as stream,
    ):
        seen = 0
        async for _ in stream:
            seen += 1
            if seen == 5:
                break
    [told] = wired.used
    assert told.input_tokens > 50  # the question
    assert 0 < told.output_tokens < 200  # as far as it came


@pytest.mark.parametrize(
    ("chosen", "usage", "price"),
    [
        ("openai:gpt-4o", RequestUsage(input_tokens=1_000_000), pytest.approx(2.5)),
        ("openai:no-such-model", RequestUsage(input_tokens=1_000_000), None),
        ("openai:gpt-4o", RequestUsage(), None),  # it does not say what it used
    ],
)
async def test_a_price_is_known_or_it_is_not(
    chosen: str, usage: RequestUsage, price: float | None
) -> None:
    class Answering(WrapperModel):
        async def request(self, *_: object) -> ModelResponse:
            return ModelResponse(parts=[TextPart("Vienna.")], usage=usage)

    told: list[ModelUse] = []
    chosen_model, model = ModelChoice(name=chosen), Answering(TestModel())
    metered = MeteredModel(model, chosen_model, role=Role.PROXY, told=told.append)
    await metered.request(list(ASKED), None, ModelRequestParameters())
    assert [each.cost_usd for each in told] == [price]
    assert told[0].input_tokens > 0
