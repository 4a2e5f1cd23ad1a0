"""Who searches the web: Tavily, Brave, SearXNG. Each turns a query into plain hits.

Redirects are not followed: a provider's answer must not decide where a request with a key goes.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx

MAX_ANSWER_BYTES = 2 * 1024 * 1024
_ADDRESSES = {
    "tavily": "https://api.tavily.com/search",
    "brave": "https://api.search.brave.com/res/v1/web/search",
}


class SearchFailed(Exception):
    """The provider did not answer usefully; the text says why, without the key."""


@dataclass(frozen=True)
class SearchQuery:
    """What is asked of a provider."""

    text: str
    max_results: int
    domains: Sequence[str]
    seconds: float


@dataclass(frozen=True)
class Hit:
    """One result of a search."""

    title: str
    url: str
    text: str


class SearchProvider(Protocol):
    """Somebody who searches the web."""

    @property
    def name(self) -> str:
        """How configuration calls it."""
        ...

    async def search(self, query: SearchQuery) -> list[Hit]:
        """The hits, best first; raises `SearchFailed`."""
        ...


@dataclass(frozen=True)
class HttpSearch:
    """A provider that speaks JSON over HTTP."""

    name: str
    request: Callable[[SearchQuery], httpx.Request]
    rows: Callable[[Any], Sequence[Mapping[str, Any]]]
    text_key: str

    async def search(self, query: SearchQuery) -> list[Hit]:
        try:
            # One deadline for everything: a slow trickle of bytes counts as well.
            async with asyncio.timeout(query.seconds):
                answer = await self._fetch(query)
            return [self._hit(row) for row in self.rows(answer)]
        except (TimeoutError, httpx.TimeoutException) as error:
            raise SearchFailed(f"{self.name} did not answer within {query.seconds:g}s") from error
        except httpx.HTTPError as error:
            raise SearchFailed(f"{self.name} cannot be reached: {type(error).__name__}") from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise SearchFailed(f"{self.name} gave an answer that cannot be read") from error

    async def _fetch(self, query: SearchQuery) -> Any:
        # The owner's proxy variables would carry the key to wherever they point.
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.send(self.request(query), stream=True)
            try:
                if answer.status_code != httpx.codes.OK:
                    raise SearchFailed(f"{self.name} answered with status {answer.status_code}")
                return json.loads(await _read_limited(answer, self.name))
            finally:
                await answer.aclose()

    def _hit(self, row: Mapping[str, Any]) -> Hit:
        return Hit(
            title=str(row.get("title") or ""),
            url=str(row.get("url") or ""),
            text=str(row.get(self.text_key) or ""),
        )


async def _read_limited(answer: httpx.Response, name: str) -> bytes:
    content = bytearray()
    async for chunk in answer.aiter_bytes():
        content += chunk
        if len(content) > MAX_ANSWER_BYTES:
            raise SearchFailed(f"{name} answered with more than {MAX_ANSWER_BYTES} bytes")
    return bytes(content)


def tavily(key: str, *, address: str = _ADDRESSES["tavily"]) -> HttpSearch:
    """Tavily, with its API key."""

    def request(query: SearchQuery) -> httpx.Request:
        body = {
            "query": query.text,
            "max_results": query.max_results,
            "include_domains": list(query.domains),
        }
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Request("POST", address, json=body, headers=headers)

    return HttpSearch("tavily", request, lambda answer: answer["results"], "content")


def brave(key: str, *, address: str = _ADDRESSES["brave"]) -> HttpSearch:
    """Brave Search, with its subscription token."""

    def request(query: SearchQuery) -> httpx.Request:
        wanted = _with_sites(query)
        params = {"q": wanted, "count": str(min(query.max_results, 20))}
        headers = {"X-Subscription-Token": key, "Accept": "application/json"}
        return httpx.Request("GET", address, params=params, headers=headers)

    return HttpSearch(
        "brave", request, lambda answer: answer.get("web", {}).get("results", []), "description"
    )


def searxng(address: str) -> HttpSearch:
    """A SearXNG server of the owner's, by its address."""

    def request(query: SearchQuery) -> httpx.Request:
        params = {"q": _with_sites(query), "format": "json"}
        return httpx.Request("GET", address.rstrip("/") + "/search", params=params)

    return HttpSearch("searxng", request, lambda answer: answer["results"], "content")


def make_provider(name: str | None, credential: str | None) -> SearchProvider | None:
    """The configured provider; None if there is none or its credential cannot be one.

    SearXNG's credential is its address.
    """
    if not name or not credential:
        return None
    if name == "searxng":
        return searxng(credential) if _is_address(credential) else None
    makers = {"tavily": tavily, "brave": brave}
    usable = credential.isascii() and credential.isprintable() and " " not in credential
    return makers[name](credential) if name in makers and usable else None


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _with_sites(query: SearchQuery) -> str:
    sites = " OR ".join(f"site:{domain}" for domain in query.domains)
    return f"{query.text} ({sites})" if sites else query.text
