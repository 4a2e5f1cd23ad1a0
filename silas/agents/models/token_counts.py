"""Servers that count tokens as their models do: llama.cpp's `/tokenize`, Anthropic's API.

What is counted goes to the server that the same text goes to anyway.
"""

import json
from collections.abc import Mapping
from typing import Any

import httpx

from silas.agents.models.choices import ModelChoice
from silas.agents.models.errors import ModelAnswerUnreadable, ModelServerFailed, ModelUnreachable

_ANTHROPIC = "https://api.anthropic.com"
_ANTHROPIC_VERSION = "2023-06-01"
_SECONDS = 10.0
_BYTES_FOR_A_CHARACTER = 40
_SHORTEST_LIMIT = 10_000


class LlamaCppTokens:
    """`ExactTokens` of a llama.cpp server; it counts without its chat template."""

    def __init__(self, client: httpx.AsyncClient, choice: ModelChoice) -> None:
        self._client = client
        root = (choice.base_url or "").rstrip("/").removesuffix("/v1")
        self._url = f"{root}/tokenize"
        self._headers = _bearer(choice)

    async def count(self, text: str) -> int:
        """How many tokens the server's model makes of the text."""
        answer = await _post(
            self._client, self._url, {"content": text}, headers=self._headers, asked=len(text)
        )
        tokens = answer.get("tokens")
        if not isinstance(tokens, list):
            raise ModelAnswerUnreadable("The server does not count tokens as llama.cpp does.")
        return len(tokens)


class AnthropicTokens:
    """`ExactTokens` of Anthropic; a few tokens for the message around the text are counted too."""

    def __init__(self, client: httpx.AsyncClient, choice: ModelChoice, *, key: str | None) -> None:
        self._client = client
        self._model = choice.model
        self._url = f"{(choice.base_url or _ANTHROPIC).rstrip('/')}/v1/messages/count_tokens"
        self._headers = {"anthropic-version": _ANTHROPIC_VERSION, "x-api-key": key or ""}

    async def count(self, text: str) -> int:
        """How many tokens a message with this text has."""
        asked = {"model": self._model, "messages": [{"role": "user", "content": text}]}
        answer = await _post(self._client, self._url, asked, headers=self._headers, asked=len(text))
        tokens = answer.get("input_tokens")
        if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 0:
            raise ModelAnswerUnreadable("The provider's count of tokens cannot be read.")
        return tokens


def counting_client() -> httpx.AsyncClient:
    """The connection that counts are asked over; whoever opens it closes it."""
    return httpx.AsyncClient(timeout=_SECONDS, follow_redirects=False)


def _bearer(choice: ModelChoice) -> dict[str, str]:
    key = choice.api_key.get_secret_value() if choice.api_key else ""
    return {"Authorization": f"Bearer {key}"} if key else {}


async def _post(
    client: httpx.AsyncClient,
    url: str,
    data: Mapping[str, Any],
    *,
    headers: Mapping[str, str],
    asked: int,
) -> dict[str, Any]:
    """The answer as data; no longer than an answer to such a question can be."""
    most = _SHORTEST_LIMIT + asked * _BYTES_FOR_A_CHARACTER
    body = bytearray()
    try:
        async with client.stream("POST", url, json=data, headers=dict(headers)) as response:
            if response.status_code != httpx.codes.OK:
                raise ModelServerFailed(
                    f"The server does not count: status {response.status_code}."
                )
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > most:
                    raise ModelAnswerUnreadable("The answer is longer than a count of tokens.")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise ModelUnreachable(f"Nobody counts at {url}.") from error
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ModelAnswerUnreadable("The count of tokens is not JSON.") from error
    if not isinstance(answer, dict):
        raise ModelAnswerUnreadable("The count of tokens cannot be read.")
    return answer
