"""Looks for model servers on this machine: Ollama, llama.cpp, LM Studio, vLLM.

Only loopback is asked, with one small question each and little patience. What is found is offered;
nothing here switches anything on.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from silas.kernel.loopback import is_loopback_url
from silas.kernel.models import Data


@dataclass(frozen=True)
class LocalServer:
    """A kind of model server, where it usually listens, and what its models are called in Silas."""

    kind: str
    port: int
    path: str = "/v1/models"
    provider: str = "openai"


KNOWN_SERVERS = (
    LocalServer("Ollama", 11434, path="/api/tags", provider="ollama"),
    LocalServer("llama.cpp", 8080),
    LocalServer("LM Studio", 1234),
    LocalServer("vLLM", 8000),
)


class FoundServer(Data):
    """A model server that answered."""

    kind: str
    base_url: str
    provider: str
    models: tuple[str, ...]

    @property
    def settings(self) -> Mapping[str, str]:
        """What to set so that all roles use the first model of this server."""
        name = f"{self.provider}:{self.models[0]}"
        roles = {f"models.{role}": name for role in ("proxy", "planner", "executor", "scorer")}
        return roles if self.provider == "ollama" else {**roles, "models.base_url": self.base_url}


__all__ = ["FoundServer", "LocalServer", "detect_servers"]

_HOST = "127.0.0.1"
_SECONDS = 1.0
_FAR_SECONDS = 10.0
_LARGEST_ANSWER = 1_000_000
_MOST_MODELS = 200
_MODEL_NAME = re.compile(r"[!-~]{1,200}")


async def detect_servers(known: Sequence[LocalServer] = KNOWN_SERVERS) -> list[FoundServer]:
    """The servers that answer and have a model to offer."""
    # Without the environment: a proxy must not get between Silas and its own machine.
    async with httpx.AsyncClient(timeout=_SECONDS, trust_env=False) as client:
        found = await asyncio.gather(*(_ask(client, server) for server in known))
    return [each for each in found if each is not None]


async def _ask(client: httpx.AsyncClient, server: LocalServer) -> FoundServer | None:
    address = f"http://{_HOST}:{server.port}"
    try:
        async with asyncio.timeout(_SECONDS):
            models = _names_in(await _get(client, address + server.path))
    except (httpx.HTTPError, OSError, ValueError, TimeoutError, RecursionError):
        return None
    if not models:
        return None
    return FoundServer(
        kind=server.kind, base_url=f"{address}/v1", provider=server.provider, models=models
    )


async def models_at(address: str, key: str | None) -> tuple[str, ...]:
    """The models of a server that speaks OpenAI's protocol, at any address; empty if it is mute."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with (
            asyncio.timeout(_FAR_SECONDS),
            httpx.AsyncClient(
                timeout=_FAR_SECONDS, headers=headers, trust_env=not is_loopback_url(address)
            ) as client,
        ):
            return _names_in(await _get(client, f"{address}/models"))
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, TimeoutError, RecursionError):
        return ()


async def _get(client: httpx.AsyncClient, url: str) -> Any:
    """The answer as data; whatever listens there may send anything, also without end."""
    body = bytearray()
    async with client.stream("GET", url) as response:
        response.raise_for_status()
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > _LARGEST_ANSWER:
                raise ValueError("more than a list of models")
    return json.loads(body)


def _names_in(answer: Any) -> tuple[str, ...]:
    """The models in an answer of Ollama (`models`, `name`) or of the others (`data`, `id`)."""
    if not isinstance(answer, dict):
        return ()
    listed = answer.get("models") if "data" not in answer else answer.get("data")
    entries = listed if isinstance(listed, list) else []
    names = (each.get("id") or each.get("name") for each in entries if isinstance(each, dict))
    usable = (name for name in names if isinstance(name, str) and _is_chat_model(name))
    return tuple(usable)[:_MOST_MODELS]


def _is_chat_model(name: str) -> bool:
    return bool(_MODEL_NAME.fullmatch(name)) and "embed" not in name.lower()
