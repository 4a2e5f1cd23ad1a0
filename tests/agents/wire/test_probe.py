"""What a test of a model finds out, and what detection finds on this machine."""

import json
from pathlib import Path

from silas.agents.models.choices import ModelChoice, OutputMode
from silas.agents.models.detection import LocalServer, detect_servers
from silas.agents.models.modes import ModeMemory
from silas.agents.models.probe import probe_model
from silas.testing.model_server import (
    Reply,
    Request,
    answer,
    failure,
    model_server,
    raw,
    tool_call,
)
from tests.agents.wire.stack import stack

RIGHT = '{"word": "sum", "number": 7}'


def able(request: Request) -> Reply:
    """A model that can do everything."""
    tools = request.json.get("tools")
    return tool_call(tools[0]["function"]["name"], RIGHT) if tools else answer(RIGHT)


def only_native(request: Request) -> Reply:
    """A small model: it follows a schema that the server enforces, and nothing else."""
    form = request.json.get("response_format", {}).get("type")
    return answer(RIGHT if form == "json_schema" else "The sum is seven, I think.")


async def test_a_model_that_can_do_everything_keeps_the_mode_that_is_in_use() -> None:
    async with model_server(able) as server, stack(server) as wired:
        report = await probe_model(wired.model, memory=ModeMemory(None), clock=wired.clock)
    assert report.ok
    assert set(report.modes.values()) == {None}
    assert report.best_mode is OutputMode.NATIVE
    assert len(server.chats) == 4
    assert (report.input_tokens, report.output_tokens) == (44, 28)


async def test_a_small_model_is_remembered_to_need_a_schema(tmp_path: Path) -> None:
    memory = ModeMemory(tmp_path / "modes.json")
    async with model_server(only_native) as server, stack(server) as wired:
        report = await probe_model(wired.model, memory=memory, clock=wired.clock)
        known = memory.recall(wired.model.choice or ModelChoice(name=""))
    assert [mode for mode, why in report.modes.items() if why is None] == [OutputMode.NATIVE]
    assert known is not None
    assert known.working == (OutputMode.NATIVE,)


async def test_a_quick_test_tries_only_the_mode_in_use(tmp_path: Path) -> None:
    memory = ModeMemory(tmp_path / "modes.json")
    async with model_server(able) as server, stack(server) as wired:
        report = await probe_model(wired.model, memory=memory, clock=wired.clock, quick=True)
    assert list(report.modes) == [OutputMode.NATIVE]
    assert len(server.chats) == 2
    assert not (tmp_path / "modes.json").exists()


async def test_a_wrong_answer_in_the_right_form_does_not_count() -> None:
    wrong = answer('{"word": "sum", "number": 8}')
    async with model_server(wrong) as server, stack(server) as wired:
        report = await probe_model(wired.model, memory=ModeMemory(None), clock=wired.clock)
    assert not report.ok
    assert report.exit_code == 110
    assert "wrong" in (report.modes[OutputMode.NATIVE] or "")


async def test_a_model_that_does_not_answer_is_asked_no_further() -> None:
    async with model_server(failure(401)) as server, stack(server) as wired:
        report = await probe_model(wired.model, memory=ModeMemory(None), clock=wired.clock)
    assert report.error is not None
    assert report.error["code"] == "E_LLM_KEY"
    assert report.exit_code == 110
    assert len(server.chats) == 1


async def test_a_server_on_this_machine_is_found(only_loopback: list[str]) -> None:
    async with model_server() as server:
        found = await detect_servers([LocalServer("llama.cpp", server.port)])
    assert [(each.kind, each.base_url, each.models) for each in found] == [
        ("llama.cpp", server.url, ("served-model",))
    ]
    assert found[0].settings["models.planner"] == "openai:served-model"
    assert found[0].settings["models.base_url"] == server.url
    assert set(only_loopback) == {"127.0.0.1"}
    assert server.chats == [], "finding is not using"


async def test_ollama_is_found_by_its_tags() -> None:
    tags = {"models": [{"name": "nomic-embed-text:latest"}, {"name": "qwen2.5:1.5b"}]}

    async with model_server() as server:
        server.pages["/api/tags"] = raw(json.dumps(tags).encode())
        known = LocalServer("Ollama", server.port, path="/api/tags", provider="ollama")
        found = await detect_servers([known])
    assert found[0].models == ("qwen2.5:1.5b",)
    assert dict(found[0].settings)["models.proxy"] == "ollama:qwen2.5:1.5b"


async def test_whatever_else_listens_there_is_left_alone() -> None:
    pages = [
        raw(b"<html>hello</html>", content_type="text/html"),
        raw(b"[" * 100_000),
        raw(b'{"data": [{"id": "name with\\u001b[31m colour"}, {"id": 7}, 3]}'),
        raw(b'{"data": {}}'),
        failure(500),
        raw(b" " * 3_000_000),
    ]
    for page in pages:
        async with model_server() as server:
            server.pages["/v1/models"] = page
            assert await detect_servers([LocalServer("x", server.port)]) == []


async def test_nobody_listens_and_nothing_is_found() -> None:
    async with model_server() as server:
        port = server.port
    assert await detect_servers([LocalServer("x", port)]) == []
