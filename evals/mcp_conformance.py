"""The official conformance suite of the Model Context Protocol, against Silas' server and client.

The suite covers the 2025 era. Of a server it expects one of everything: prompts, resources,
sampling, tools that return pictures; `silas mcp serve` offers four tools. A client shall answer
elicitations and sign in wherever the server sends it; Silas does neither, on purpose: a server's
question is its text, and the owner names the issuer. What can be asked of them must pass
(`MUST_PASS`); the rest is reported as what it is.

    python -m evals.mcp_conformance        # needs npm once; the package is pinned

The suite shows no token, so a small door in front of the real server shows it in its place; host
and origin are looked at as they come. The client is the one that talks with servers of somebody
else's, by way of the broker: it lists the tools, and calls each once.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from silas.egress.broker import CredentialBroker
from silas.egress.proxy import PublicNetwork
from silas.kernel import SystemClock
from silas.mcp.remote import RemoteServer
from silas.mcp.serving import PATH, make_app
from silas.mcp.session import remote_session
from silas.mcp.toolset import ToolSetRefused
from silas.testing import MemoryVault

PACKAGE = "@modelcontextprotocol/conformance@0.1.16"
MUST_PASS = {
    "server": {"server-initialize", "ping", "tools-list", "dns-rebinding-protection"},
    "client": {"initialize", "tools_call", "sse-retry"},
}
_TOKEN = b"the one that the suite would show"
_PORT = 8934
_CLIENT = "--client"
_SCENARIO = re.compile(r"^  - (?P<name>[a-z0-9_/-]+) \[", re.MULTILINE)
_MADE_UP = {"integer": 2, "number": 2, "string": "x", "boolean": True, "array": [], "object": {}}


def knows_the_suite(command: str, arguments: Mapping[str, Any]) -> Any:
    """A Silas that knows one program, and whose owner never answers."""
    del arguments
    return {"name": "The suite"} if command == "recognise" else {"answer": "waiting"}


def showing_the_token(app: ASGIApp) -> ASGIApp:
    """Show the token in the suite's place."""

    async def shown(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = (b"authorization", b"Bearer " + _TOKEN)
            scope = {**scope, "headers": [*scope["headers"], given]}
        await app(scope, receive, send)

    return shown


def installed(folder: Path) -> Path:
    """The suite's program, from the registry."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("It needs npm: apt install nodejs npm")
    command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    program = folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    # Node before 22 has no `globSync`; the suite uses it to compare releases, and not here.
    program.write_text(program.read_text().replace("globSync as o,", "", 1))
    return program


def scenarios(program: Path, side: str) -> list[str]:
    """What the suite has for servers, or for clients."""
    listed = subprocess.run(
        ["node", str(program), "list"], check=True, capture_output=True, text=True
    ).stdout
    servers, _, clients = listed.partition("Client scenarios")
    return [found["name"] for found in _SCENARIO.finditer(clients if side == "client" else servers)]


async def passes(program: Path, side: str, scenario: str, folder: Path) -> bool:
    """Whether one side passes one scenario."""
    asked = ("--url", f"http://127.0.0.1:{_PORT}{PATH}")
    if side == "client":
        asked = ("--command", f"{sys.executable} -m evals.mcp_conformance {_CLIENT}")
    run = await asyncio.create_subprocess_exec(
        *("node", str(program), side, *asked),
        *("--scenario", scenario, "--output-dir", str(folder / "results")),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await run.wait() == 0


async def ask_server(url: str) -> None:
    """Talk with a server of somebody else's, and call each of its tools once."""
    broker = CredentialBroker(MemoryVault(), PublicNetwork(), clock=SystemClock())
    remote = RemoteServer(url=url, address="127.0.0.1" if "127.0.0.1" in url else "::1")
    async with remote_session(remote, broker.session) as session:
        try:
            tools = (await session.tool_set()).tools
        except ToolSetRefused as refused:  # it has none: nothing could be pinned
            print(refused)
            return
        for tool in tools:
            args = {
                name: _MADE_UP.get(str(each.get("type")), "x")
                for name, each in tool.input_schema.get("properties", {}).items()
            }
            print(await session.call(tool.name, args, seconds=20))


async def main() -> int:
    """Run everything; the exit code is 0 if what must pass has passed."""
    found: dict[str, dict[str, bool]] = {}
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(4) as threads:
        program = installed(Path(name))
        app = make_app(knows_the_suite, threads, port=_PORT, version="1")
        config = uvicorn.Config(showing_the_token(app), port=_PORT, log_level="error")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn tells it in no other way
            await asyncio.sleep(0.05)
        for side in MUST_PASS:
            found[side] = {
                each: await passes(program, side, each, Path(name))
                for each in scenarios(program, side)
            }
        server.should_exit = True
        await serving
    told = {
        side: {
            "passed": sorted(each for each, good in tried.items() if good),
            "failed": sorted(each for each, good in tried.items() if not good),
            "must_pass": sorted(MUST_PASS[side]),
        }
        for side, tried in found.items()
    }
    print(json.dumps(told, indent=2))
    return (
        0 if all(set(told[side]["passed"]) >= needed for side, needed in MUST_PASS.items()) else 1
    )


if __name__ == "__main__":
    if _CLIENT in sys.argv:
        asyncio.run(ask_server(sys.argv[-1].replace("localhost", "127.0.0.1")))
        sys.exit()
    os.environ.setdefault("NODE_NO_WARNINGS", "1")
    sys.exit(asyncio.run(main()))
