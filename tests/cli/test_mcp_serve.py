"""`silas mcp serve`: real clients of the SDK, in both eras and over both transports, ask Silas."""

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from silas.cli.mcp import ask_silas
from silas.settings.paths import Paths
from tests.cli.machine import Machine, output_of
from tests.cli.test_devices import serving
from tests.mcp.test_serving import COMMAND, TOOL, over_http

pytestmark = pytest.mark.slow
ERAS = ("legacy", "2026-07-28")


def token_of(owner: Machine, name: str) -> str:
    return str(json.loads(output_of(owner.run("clients", "add", name, "--json")))["token"])


def answer(owner: Machine, card_id: str, value: str) -> None:
    """The owner answers at the terminal, with the vault."""
    shown = output_of(owner.run("review", "show", card_id))
    hashed = next(word for word in shown.split() if len(word) == 64)
    verb = ("answer", card_id, value) if card_id.startswith("question_") else ("approve", card_id)
    output_of(owner.run("review", *verb, "--hash", hashed))


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool answers; the text says the same as the data."""
    result = await client.call_tool(tool, arguments)
    told: dict[str, Any] = result.structured_content
    assert json.loads(result.content[0].text) == told  # type: ignore[union-attr]
    assert result.is_error is (told.get("code") is not None)
    return told


def asking(owner: Machine) -> Callable[[str, Mapping[str, Any]], Any]:
    paths = Paths(data_dir=owner.data_dir, config_file=owner.data_dir / "silas.yaml")
    return lambda command, arguments: ask_silas(paths, command, arguments)


@contextlib.asynccontextmanager
async def speaking(address: str, token: str, era: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(address, http_client=http), mode=era) as client,
    ):
        yield client


async def test_a_program_over_stdio_gets_a_signed_yes_once(owner: Machine) -> None:
    with serving(owner):
        output_of(owner.run("clients", "add", "Inspector", "--keep"))
        started = StdioServerParameters(
            command=sys.executable,
            args=["-m", "silas", "mcp", "serve", "--client", "Inspector"],
            env=owner.environ,
        )
        for era in ERAS:
            async with Client(started, mode=era) as client:
                listed = (await client.list_tools()).tools
                assert [each.name for each in listed] == ["propose", "status", "result", "verify"]
                proof = await allowed_once(owner, client)
        file = Path(owner.environ["HOME"]) / "proof.json"
        file.write_text(proof)
        key = str(owner.data_dir / "owner.pub")
        offline = output_of(owner.run("verify", str(file), "--public-key", key))
        assert "The approval is genuine" in offline
        assert "production" in offline
        async with Client(started) as client:
            asked = await called(client, "propose", title="deploy it", action=TOOL)
            output_of(owner.run("stop", "--kill"))
            name = asked["proposal_id"]
            told = await called(client, "result", proposal_id=name, action=TOOL, wait_seconds=5)
            assert (told["answer"], told["code"]) == ("deny", "E_SERVER_NOT_RUNNING")


async def allowed_once(owner: Machine, client: Client) -> str:
    """A call that the owner allows: told once, redeemed once."""
    asked = await called(client, "propose", title="deploy it", action=TOOL)
    name = asked["proposal_id"]
    assert (await called(client, "status", proposal_id=name))["answer"] == "waiting"
    answer(owner, name, "approve")
    told = await called(client, "result", proposal_id=name, action=TOOL, wait_seconds=5)
    assert told["answer"] == "allow"
    again = await called(client, "result", proposal_id=name, action=TOOL)
    assert again["answer"] == "deny"
    checks = [await called(client, "verify", proof=told["proof"], action=TOOL) for _ in range(2)]
    assert [each["valid"] for each in checks] == [True, False]
    return str(told["proof"])


async def test_two_programs_over_http_and_a_command_that_silas_carries_out(owner: Machine) -> None:
    with serving(owner):
        mine, theirs = token_of(owner, "Claude Code"), token_of(owner, "Codex")
        async with (
            over_http(asking(owner)) as address,
            speaking(address, mine, "2026-07-28") as client,
            speaking(address, theirs, "legacy") as other,
        ):
            asked = await called(client, "propose", title="compute", action=COMMAND)
            same = await called(other, "propose", title="compute", action=COMMAND)
            name = asked["proposal_id"]
            for tool, more in (("status", {}), ("result", {"action": COMMAND})):
                told = await called(other, tool, proposal_id=name, **more)
                assert (told["answer"], told["reason"]) == (
                    "deny",
                    "There is no such proposal of this client.",
                )
            answer(owner, name, "approve")
            told = await called(client, "result", proposal_id=name, action=COMMAND, wait_seconds=30)
            assert told["work"]["calls"][-1]["output"].strip() == "42"
            assert told["work"]["ended"]
            waiting = await called(other, "status", proposal_id=same["proposal_id"])
            assert waiting["answer"] == "waiting"
            changed = {**COMMAND, "command": "id"}
            told = await called(other, "result", proposal_id=same["proposal_id"], action=changed)
            assert "withdrawn" in told["reason"]
            waiting = await called(other, "status", proposal_id=same["proposal_id"])
            assert waiting["answer"] == "deny"
            output_of(owner.run("clients", "remove", "Codex"))
            with pytest.raises(MCPError):
                await called(other, "status", proposal_id=same["proposal_id"])
