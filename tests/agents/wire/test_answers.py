"""Answers over the wire: text, structure, tools, streams, usage, cost."""

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ToolReturnPart

from silas.agents.models.choices import OutputMode
from silas.agents.models.errors import ModelAnswerUnreadable
from silas.agents.models.modes import Cost
from silas.agents.models.resilience import translated
from silas.testing.model_server import (
    Reply,
    Request,
    answer,
    model_server,
    streamed,
    streamed_tool_call,
    tool_call,
)
from tests.agents.wire.stack import KEY, OPENAI, OPENROUTER, City, stack

both = pytest.mark.parametrize("name", [OPENAI, OPENROUTER])


@both
async def test_a_question_and_its_answer(name: str, only_loopback: list[str]) -> None:
    async with model_server(answer("Vienna.")) as server, stack(server, name) as wired:
        result = await wired.ask()
    assert result.output == "Vienna."
    assert (result.usage.input_tokens, result.usage.output_tokens) == (11, 7)
    sent = server.chats[0]
    assert sent.json["model"] == name.partition(":")[2]
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert only_loopback


@both
async def test_a_server_on_this_machine_is_asked_by_a_native_schema(name: str) -> None:
    async with model_server(answer('{"name": "Graz"}')) as server, stack(server, name) as wired:
        assert wired.model.output_mode is OutputMode.NATIVE
        result = await wired.ask(structured=True)
    assert result.output == City(name="Graz")
    assert server.chats[0].json["response_format"]["type"] == "json_schema"


@both
async def test_a_structured_answer_as_a_tool_call(name: str) -> None:
    def call_the_output_tool(request: Request) -> Reply:
        return tool_call(request.json["tools"][0]["function"]["name"], {"name": "Linz"})

    async with (
        model_server(call_the_output_tool) as server,
        stack(server, name, mode=OutputMode.TOOL) as wired,
    ):
        result = await wired.ask(structured=True)
    assert result.output == City(name="Linz")
    assert "response_format" not in server.chats[0].json


@both
async def test_a_structured_answer_by_the_prompt_alone(name: str) -> None:
    async with (
        model_server(answer('```json\n{"name": "Wels"}\n```')) as server,
        stack(server, name, mode=OutputMode.PROMPTED) as wired,
    ):
        result = await wired.ask(structured=True)
    assert result.output == City(name="Wels")
    assert "tools" not in server.chats[0].json
    assert '"properties"' in server.chats[0].json["messages"][0]["content"]


@both
async def test_a_tool_is_called_and_its_result_goes_back(name: str) -> None:
    async with (
        model_server(tool_call("population", {"city": "Graz"}), answer("Many.")) as server,
        stack(server, name) as wired,
    ):
        agent = Agent(wired.model.model, model_settings=wired.model.settings)

        @agent.tool_plain
        def population(city: str) -> int:
            return {"Graz": 300_000}[city]

        result = await agent.run("How many live in Graz?")
    assert result.output == "Many."
    assert result.usage.input_tokens == 22
    returned = [part for each in result.all_messages() for part in each.parts]
    assert any(isinstance(part, ToolReturnPart) and part.content == 300_000 for part in returned)
    assert server.chats[1].json["messages"][-1]["role"] == "tool"


@both
async def test_an_answer_is_streamed(name: str) -> None:
    async with model_server(streamed("Vi", "en", "na")) as server, stack(server, name) as wired:
        agent = Agent(wired.model.model, model_settings=wired.model.settings)
        async with agent.run_stream("Which city?") as run:
            pieces = [piece async for piece in run.stream_text(delta=True, debounce_by=None)]
        assert "".join(pieces) == "Vienna"
        assert run.usage.output_tokens == 7
    assert server.chats[0].wants_stream


async def test_a_tool_call_is_streamed() -> None:
    async with (
        model_server(
            streamed_tool_call("population", '{"ci', 'ty": "Graz"}'), streamed("Many.")
        ) as server,
        stack(server) as wired,
    ):
        agent = Agent(wired.model.model, model_settings=wired.model.settings)
        seen = []

        @agent.tool_plain
        def population(city: str) -> int:
            seen.append(city)
            return 300_000

        async with agent.run_stream("How many?") as run:
            assert await run.get_output() == "Many."
    assert seen == ["Graz"]


async def test_what_openrouter_says_it_cost_counts() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "cost": 0.25}
    async with (
        model_server(answer("x", usage=usage)) as server,
        stack(server, OPENROUTER) as wired,
    ):
        result = await wired.ask()
        # Loopback is free unless the server itself names a price.
        assert wired.model.cost(result.usage) == Cost(usd=0.25, known=True)


async def test_a_wrong_schema_is_an_error_of_ours() -> None:
    async with model_server(answer('{"nom": 1}')) as server, stack(server) as wired:
        with pytest.raises(ModelAnswerUnreadable), translated(wired.model.name):
            await wired.ask(structured=True)
    assert len(server.chats) == 2  # one repair


async def test_a_huge_answer_is_refused() -> None:
    async with model_server(answer("x" * 5_000_000)) as server, stack(server) as wired:
        with pytest.raises(ModelAnswerUnreadable, match="too large"):
            await wired.ask()
    assert len(server.chats) == 1
