"""Web search against a server on this machine that speaks the three providers' JSON."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from silas.kernel import TaintLevel
from silas.tools import core_tools
from silas.tools.declaration import ToolRegistry
from silas.tools.execution import ExecutionEnvelope, ExecutionResult
from silas.tools.web_search import (
    SearchLimits,
    SearchProvider,
    WebSearchExecutor,
    brave,
    make_provider,
    searxng,
    tavily,
)

HITS = [
    ("One", "https://docs.example.org/one", "first"),
    ("Two", "https://example.org.evil.test/two", "second"),
    ("Three", "javascript:alert(1)", "third"),
    ("Four", "http://example.org/four", "fourth"),
]
KEY = "k-123"


class Server(BaseHTTPRequestHandler):
    asked: list[dict[str, Any]]
    answer: dict[str, Any]

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self._reply(parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()})

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self._reply(self.path, json.loads(self.rfile.read(length)))

    def _reply(self, path: str, query: dict[str, Any]) -> None:
        self.asked.append({"path": path, "query": query, "headers": dict(self.headers)})
        status = self.answer.get("status", 200)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()
        self.wfile.write(self.answer.get("raw") or json.dumps(self._body(path)).encode())

    def _body(self, path: str) -> dict[str, Any]:
        text = "description" if "brave" in path else "content"
        rows = [{"title": t, "url": u, text: x} for t, u, x in HITS]
        return {"web": {"results": rows}} if "brave" in path else {"results": rows}

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, type[Server]]]:
    handler = type("Handler", (Server,), {"asked": [], "answer": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", handler
        running.shutdown()
        thread.join()


def providers(address: str) -> list[SearchProvider]:
    return [
        tavily(KEY, address=f"{address}/tavily"),
        brave(KEY, address=f"{address}/brave"),
        searxng(f"{address}/searx/"),
    ]


async def search(
    provider: SearchProvider, limits: SearchLimits | None = None, **args: Any
) -> ExecutionResult:
    envelope = ExecutionEnvelope(
        execution_id="e",
        step_index=0,
        task_description="T",
        action="web_search",
        args={"query": "silas", **args},
    )
    return await WebSearchExecutor(provider, limits).execute(envelope)


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_each_provider_is_asked_in_its_own_way(server, which: int) -> None:
    address, handler = server
    result = await search(providers(address)[which])
    assert result.success, result.error
    assert [hit["title"] for hit in result.content] == ["One", "Two", "Four"]
    assert result.content[0] == {
        "title": "One",
        "url": "https://docs.example.org/one",
        "text": "first",
    }
    assert result.taint is TaintLevel.EXTERNAL
    (asked,) = handler.asked
    assert asked["path"] == ["/tavily", "/brave", "/searx/search"][which]
    assert asked["query"].get("query", asked["query"].get("q")) == "silas"
    sent = {**asked["headers"]}
    assert (KEY in str(sent)) is (which < 2)


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_limits_of_results_and_domains(server, which: int) -> None:
    address, handler = server
    limits = SearchLimits(max_results=1, allowed_domains=("example.org",))
    result = await search(providers(address)[which], limits, max_results=50)
    assert [hit["url"] for hit in result.content] == ["https://docs.example.org/one"]
    assert "example.org" in str(handler.asked[0]["query"])


async def test_a_long_query_is_not_sent(server) -> None:
    address, handler = server
    result = await search(providers(address)[0], SearchLimits(max_query_chars=5), query="x" * 6)
    assert (result.success, handler.asked) == (False, [])


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"status": 500}, "status 500"),
        ({"status": 401}, "status 401"),
        ({"status": 302}, "status 302"),
        ({"raw": b"<html>"}, "cannot be read"),
        ({"raw": b"[1]"}, "cannot be read"),
        ({"raw": b'{"results": [1]}'}, "cannot be read"),
        ({"raw": b" " * 3_000_000}, "more than"),
    ],
)
async def test_a_bad_answer_is_a_failure_that_keeps_the_key(server, answer, told: str) -> None:
    address, handler = server
    handler.answer = answer
    result = await search(providers(address)[0])
    assert not result.success
    assert told in (result.error or "")
    assert KEY not in result.model_dump_json()
    assert result.taint is TaintLevel.EXTERNAL


async def test_nobody_answers() -> None:
    result = await search(tavily(KEY, address="http://127.0.0.1:9/"))
    assert "cannot be reached" in (result.error or "")


async def test_a_slow_answer_is_not_waited_for() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as quiet:
        # It accepts, but nobody serves: no answer ever comes.
        address = f"http://127.0.0.1:{quiet.server_port}/"
        result = await search(tavily(KEY, address=address), SearchLimits(seconds=0.1))
    assert "did not answer within 0.1s" in (result.error or "")


@pytest.mark.parametrize(
    ("name", "credential", "there"),
    [
        ("tavily", KEY, True),
        ("brave", KEY, True),
        ("searxng", "https://search.example.org", True),
        ("tavily", None, False),
        ("tavily", "", False),
        ("tavily", "two words", False),
        ("searxng", KEY, False),
        ("unknown", KEY, False),
        (None, KEY, False),
    ],
)
def test_it_is_loaded_only_with_valid_credentials(name, credential, there: bool) -> None:
    provider = make_provider(name, credential)
    registry = ToolRegistry(core_tools(None, search=provider))  # type: ignore[arg-type]
    assert ("web_search" in registry.names) is there
