"""`web_search`: asks a search provider, within limits. What comes back is foreign text, always."""

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from silas.kernel import TaintLevel
from silas.kernel.models import Data
from silas.work.execution_models import ExecutionEnvelope, ExecutionResult
from silas.work.executors.arguments import checked
from silas.work.executors.results import failed
from silas.work.executors.search_providers import Hit, SearchFailed, SearchProvider, SearchQuery

_MAX_TITLE, _MAX_URL, _MAX_TEXT = 300, 2000, 2000


class SearchArguments(Data):
    """What to search for."""

    query: Annotated[str, Field(min_length=1, max_length=10_000)]
    max_results: int = Field(default=5, ge=1, le=100)


@dataclass(frozen=True)
class SearchLimits:
    """What the owner's configuration allows."""

    seconds: float = 8.0
    max_results: int = 5
    max_query_chars: int = 300
    allowed_domains: tuple[str, ...] = ()


class WebSearchExecutor:
    """Searches the web."""

    def __init__(self, provider: SearchProvider, limits: SearchLimits | None = None) -> None:
        self._provider = provider
        self._limits = limits or SearchLimits()

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        args = checked(SearchArguments, envelope.args)
        limits = self._limits
        if len(args.query) > limits.max_query_chars:
            reason = f"A query may have at most {limits.max_query_chars} characters."
            return failed(envelope, reason)
        query = SearchQuery(
            text=args.query,
            max_results=min(args.max_results, limits.max_results),
            domains=limits.allowed_domains,
            seconds=min(limits.seconds, envelope.timeout_seconds),
        )
        try:
            hits = await self._provider.search(query)
        except SearchFailed as error:
            return failed(envelope, str(error), taint=TaintLevel.EXTERNAL)
        kept = [hit for hit in hits if _is_allowed(hit, limits)][: query.max_results]
        return _result(envelope, kept, provider=self._provider.name, found=len(hits))


def _is_allowed(hit: Hit, limits: SearchLimits) -> bool:
    """Whether the hit is an ordinary address, of a domain that may be searched."""
    try:
        parts = urlsplit(hit.url)
        host = (parts.hostname or "").rstrip(".").lower()
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not host or len(hit.url) > _MAX_URL:
        return False
    allowed = [domain.lower() for domain in limits.allowed_domains]
    return not allowed or any(host == each or host.endswith(f".{each}") for each in allowed)


def _result(
    envelope: ExecutionEnvelope, hits: list[Hit], *, provider: str, found: int
) -> ExecutionResult:
    content = [
        {"title": hit.title[:_MAX_TITLE], "url": hit.url, "text": hit.text[:_MAX_TEXT]}
        for hit in hits
    ]
    lines = [f"{each['title']}\n{each['url']}\n{each['text']}" for each in content]
    return ExecutionResult(
        execution_id=envelope.execution_id,
        step_index=envelope.step_index,
        success=True,
        return_value="\n\n".join(lines)[: envelope.max_output_bytes],
        content=content,
        metadata={"provider": provider, "found": found},
        taint=TaintLevel.EXTERNAL,
    )
