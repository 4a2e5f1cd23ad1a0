"""The official conformance suite of the Model Context Protocol, against `silas mcp serve --http`.

The suite covers the 2025 era, and expects a server that offers one of everything: prompts,
resources, sampling, tools that return pictures. Silas offers four tools. What can be asked of such
a server must pass (`MUST_PASS`); the rest is reported as what it is.

    python -m evals.mcp_conformance        # needs npm once; the package is pinned

The suite shows no token, so a small door in front of the real server shows it in its place; host
and origin are looked at as they come.
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

from silas.mcp.serving import PATH, make_app

PACKAGE = "@modelcontextprotocol/conformance@0.1.16"
MUST_PASS = frozenset({"server-initialize", "ping", "tools-list", "dns-rebinding-protection"})
_TOKEN = b"the one that the suite would show"
_PORT = 8934
_SCENARIO = re.compile(r"^  - (?P<name>[a-z0-9-]+) \[", re.MULTILINE)


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


def scenarios(program: Path) -> list[str]:
    """What the suite has for servers."""
    listed = subprocess.run(
        ["node", str(program), "list"], check=True, capture_output=True, text=True
    ).stdout
    servers = listed.partition("Client scenarios")[0]
    return [found["name"] for found in _SCENARIO.finditer(servers)]


async def passes(program: Path, scenario: str, folder: Path) -> bool:
    """Whether the server passes one scenario."""
    run = await asyncio.create_subprocess_exec(
        *("node", str(program), "server", "--url", f"http://127.0.0.1:{_PORT}{PATH}"),
        *("--scenario", scenario, "--output-dir", str(folder / "results")),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await run.wait() == 0


async def main() -> int:
    """Run everything; the exit code is 0 if what must pass has passed."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(4) as threads:
        program = installed(Path(name))
        app = make_app(knows_the_suite, threads, port=_PORT, version="1")
        config = uvicorn.Config(showing_the_token(app), port=_PORT, log_level="error")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn tells it in no other way
            await asyncio.sleep(0.05)
        found = {each: await passes(program, each, Path(name)) for each in scenarios(program)}
        server.should_exit = True
        await serving
    told = {
        "passed": sorted(each for each, good in found.items() if good),
        "failed": sorted(each for each, good in found.items() if not good),
        "must_pass": sorted(MUST_PASS),
    }
    print(json.dumps(told, indent=2))
    return 0 if set(told["passed"]) >= MUST_PASS else 1


if __name__ == "__main__":
    os.environ.setdefault("NODE_NO_WARNINGS", "1")
    sys.exit(asyncio.run(main()))
