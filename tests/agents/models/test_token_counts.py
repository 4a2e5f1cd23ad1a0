"""Counting tokens over HTTP, in front of a loopback server."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from silas.agents.models.choices import ModelChoice
from silas.agents.models.errors import (
    ModelAnswerUnreadable,
    ModelNotUsable,
    ModelServerFailed,
    ModelUnreachable,
)
from silas.agents.models.token_counts import AnthropicTokens, LlamaCppTokens, counting_client
from silas.app.core import make_core
from silas.app.model_agents import AgentFactory
from silas.secrets import OnDemandVault
from silas.settings.load import load_settings
from silas.testing import FakeClock, MemoryVault
from silas.testing.model_server import ModelServer, Reply, failure, model_server, raw


def llama(server: ModelServer) -> ModelChoice:
    return ModelChoice(name="openai:small", base_url=server.url)


async def test_llama_cpp_tokenizes() -> None:
    async with model_server() as server, counting_client() as client:
        server.pages["/tokenize"] = raw(b'{"tokens": [1, 5, 7]}')
        counted = LlamaCppTokens(client, llama(server))
        assert await counted.count("three small words") == 3
        (request,) = server.requests
        assert request.json == {"content": "three small words"}
        assert (request.method, request.path) == ("POST", "/tokenize")
        assert "authorization" not in request.headers


async def test_anthropic_counts_a_message() -> None:
    reply = raw(b'{"input_tokens": 14}')
    async with model_server() as server, counting_client() as client:
        server.pages["/v1/messages/count_tokens"] = reply
        root = server.url.removesuffix("/v1")
        choice = ModelChoice(name="anthropic:some-model", base_url=root, api_key=SecretStr("key-1"))
        assert await AnthropicTokens(client, choice, key="key-1").count("hello") == 14
        (request,) = server.requests
        assert request.path == "/v1/messages/count_tokens"
        assert request.headers["x-api-key"] == "key-1"
        assert request.json == {
            "model": "some-model",
            "messages": [{"role": "user", "content": "hello"}],
        }


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (failure(500), ModelServerFailed),
        (failure(404), ModelServerFailed),
        (raw(b"no json"), ModelAnswerUnreadable),
        (raw(b"[1, 2]"), ModelAnswerUnreadable),
        (raw(b'{"tokens": 3}'), ModelAnswerUnreadable),
        (raw(b'{"tokens": [' + b"1," * 50_000 + b"1]}"), ModelAnswerUnreadable),
    ],
)
async def test_whatever_else_is_answered_is_no_count(reply: Reply, error: type[Exception]) -> None:
    async with model_server() as server, counting_client() as client:
        server.pages["/tokenize"] = reply
        with pytest.raises(error):
            await LlamaCppTokens(client, llama(server)).count("word")


async def test_nobody_is_there() -> None:
    async with model_server() as server:
        choice = llama(server)
    async with counting_client() as client:
        with pytest.raises(ModelUnreachable):
            await LlamaCppTokens(client, choice).count("word")


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, None),
        (
            {
                "SILAS_CONTEXT__TOKEN_COUNTER": "llamacpp",
                "SILAS_MODELS__PROXY": "openai:small",
                "SILAS_MODELS__BASE_URL": "http://127.0.0.1:8080/v1",
            },
            LlamaCppTokens,
        ),
        (
            {
                "SILAS_CONTEXT__TOKEN_COUNTER": "anthropic",
                "SILAS_MODELS__PROXY": "anthropic:some-model",
            },
            AnthropicTokens,
        ),
        ({"SILAS_CONTEXT__TOKEN_COUNTER": "anthropic"}, ModelNotUsable),
    ],
)
async def test_the_settings_say_who_counts(
    tmp_path: Path, changes: dict[str, str], kind: type | None
) -> None:
    loaded = load_settings(data_dir=str(tmp_path), config_file=None, environ=changes, cwd=tmp_path)
    vault = OnDemandVault(MemoryVault)  # type: ignore[arg-type]
    async with make_core(loaded, vault, clock=FakeClock()) as core:
        opening = AgentFactory(core, {"ANTHROPIC_API_KEY": "key-1"}).open_token_counts()
        if kind is ModelNotUsable:
            with pytest.raises(ModelNotUsable):
                await opening.__aenter__()
            return
        async with opening as tokens:
            assert tokens is None if kind is None else isinstance(tokens, kind)
