"""The door and the tools of `silas mcp serve`: who is let in, and what every failure is."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import uvicorn

from silas.kernel import ServerError
from silas.mcp.serving import PATH, ProposalTools, make_app, tools
from silas.proposals.clients import ClientRefused
from tests.cli.machine import free_port

TOOL = {"kind": "tool", "tool_name": "deploy", "tool_input": {"to": "production"}}
COMMAND = {"kind": "command", "command": "echo $((6*7))"}


@contextlib.asynccontextmanager
async def over_http(ask: Callable[[str, Mapping[str, Any]], Any]) -> AsyncIterator[str]:
    """The real server on a free port of this machine."""
    port = free_port()
    with ThreadPoolExecutor(8) as threads:
        app = make_app(ask, threads, port=port, version="1")
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
        task = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn tells it in no other way
            await asyncio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{port}{PATH}"
        finally:
            server.should_exit = True
            await task


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}


def knows_one(command: str, arguments: Mapping[str, Any]) -> Any:
    """A Silas that knows one program."""

    if arguments["token"] != "good":
        raise ClientRefused
    if command == "recognise":
        return {"name": "One"}
    raise ServerError("Silas has just died.")


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (401, {"Authorization": ""}),
        (401, {"Authorization": "Bearer other"}),
        (401, {"Authorization": "Basic good"}),
        (403, {"Origin": "http://evil.test"}),
        (403, {"Origin": "null"}),
        (403, {"Origin": "http://127.0.0.1:1"}),
        (403, {"Sec-Fetch-Site": "cross-site"}),
        (421, {"Host": "rebind.test"}),
        (421, {"Host": "127.0.0.1.evil.test:80"}),
        (421, {"Host": "0.0.0.0"}),
        (200, {}),
    ],
)
async def test_who_is_let_in_over_http(status: int, headers: dict[str, str]) -> None:
    given = {
        "Authorization": "Bearer good",
        "Accept": "application/json, text/event-stream",
        **headers,
    }
    async with over_http(knows_one) as address, httpx.AsyncClient(trust_env=False) as http:
        answered = await http.post(address, json=INITIALIZE, headers=given)
    assert answered.status_code == status, answered.text


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("propose", {"title": "x", "action": TOOL}),
        ("status", {"proposal_id": "question_1"}),
        ("result", {"proposal_id": "question_1", "action": TOOL}),
        ("result", {"proposal_id": "card_1", "action": TOOL}),
        ("verify", {"proof": "{}", "action": TOOL}),
        ("verify", {"proof": "{}", "action": COMMAND}),
        ("propose", {"title": "x", "action": {**TOOL, "approve": True}}),
        ("propose", {"title": "x", "action": {"kind": "approve"}}),
        ("propose", {"title": "x", "action": TOOL, "seconds": "300"}),
        ("status", {}),
    ],
)
async def test_every_failure_is_a_no(tool: str, arguments: dict[str, Any]) -> None:
    with ThreadPoolExecutor(1) as threads:
        result = await ProposalTools(knows_one, threads).call("good", tool, arguments)
    assert result.is_error
    assert result.structured_content["answer"] == "deny"


def test_no_tool_approves_and_every_argument_is_described() -> None:
    for tool in tools():
        assert "approve" not in tool.name
        assert tool.input_schema["additionalProperties"] is False
