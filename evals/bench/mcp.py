"""The line *mcp*: one call of a tool, from the worker's arguments to its answer.

Ours is the whole chain: the arguments against the pinned schema, the server in the sandbox, the
answer as a stranger's text. The floor is the official SDK, which starts the same server outside of
any sandbox, and is asked by its own client. Both run already; a start is no part of it.
"""

import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from mcp import Client, StdioServerParameters
from pydantic import BaseModel

from evals.bench.measure import Line, Round, medians, milliseconds
from silas.mcp.launch import LaunchWish, pin
from silas.mcp.session import sandboxed_session
from silas.mcp.tools import ServerExecutor, ServerTool, ToolServerRun
from silas.mcp.toolset import PinnedServer, pinned_set
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.sandbox.models import SandboxConfig
from silas.skills.sidecar import ServedTool
from silas.tools.execution import ExecutionEnvelope

_CALLS = 100
_GOAL = 1.3
_TOOL = {
    "name": "add",
    "description": "Add two numbers.",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}
_SERVER = f"""
import json, sys
TOOL = {_TOOL!r}
def result(method, params):
    if method == "initialize":
        return {{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}},
                "serverInfo": {{"name": "adds", "version": "1"}}}}
    if method == "tools/list":
        return {{"tools": [TOOL]}}
    if method == "tools/call":
        given = params["arguments"]
        return {{"content": [{{"type": "text", "text": str(given["a"] + given["b"])}}]}}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        found = result(message["method"], message.get("params"))
        answer = {{"result": found}} if found else {{"error": {{"code": -32601, "message": "no"}}}}
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], **answer}}), flush=True)
"""


async def measure_mcp(folder: Path) -> list[Line]:
    """One call through the whole chain, as a ratio to the bare SDK's."""
    python, script = _written(folder)
    tool, run = _tool(python, script)
    args = {"a": 40, "b": 2}
    envelope = ExecutionEnvelope(
        execution_id="bench.1.1",
        step_index=0,
        task_description="bench",
        action="adds_add",
        args=args,
        sandbox_config=SandboxConfig(work_dir=""),
    )

    async def ours() -> None:
        tool.check(args)
        told = await tool.executor.execute(envelope)
        assert told.return_value == "42", told

    bare = StdioServerParameters(command=python, args=[str(script)])
    try:
        async with Client(bare, cache=None) as client:

            async def sdk() -> None:
                assert not (await client.call_tool("add", args)).is_error

            rounds: dict[str, Round] = {"ours": _timed(ours), "sdk": _timed(sdk)}
            await ours()
            await sdk()
            found = await medians(rounds)
    finally:
        await run.release()
    compared = f"the SDK's own client {milliseconds(found['sdk'])}"
    ratio = found["ours"] / found["sdk"]
    took = milliseconds(found["ours"])
    return [Line("mcp", "one call in the sandbox", took, compared, ratio, _GOAL, at_least=False)]


def _written(folder: Path) -> tuple[str, Path]:
    script = folder.resolve() / "server" / "adds.py"
    script.parent.mkdir()
    script.write_text(_SERVER)
    return os.path.realpath(sys.executable), script


def _tool(python: str, script: Path) -> tuple[ServerTool, ToolServerRun]:
    launch = pin(LaunchWish(program=python, arguments=(str(script),)))
    tool_set = pinned_set([_TOOL], "")
    pinned = PinnedServer(name="adds", launch=launch, protocol="2025-11-25", tool_set=tool_set)
    sandbox = BubblewrapBackend()

    async def never(_name: str, _digest: str, why: object) -> None:
        raise AssertionError(why)

    run = ToolServerRun(
        "adds",
        "0" * 64,
        pinned,
        lambda _place, directory, hosts: sandboxed_session(
            sandbox, launch, directory=directory, hosts=hosts
        ),
        never,
    )
    (only,) = tool_set.tools
    served = ServedTool(served="add")
    executor = ServerExecutor(run, only, served)
    tool = ServerTool("adds_add", BaseModel, executor, contained=False, effect=None, pinned=only)
    return tool, run


def _timed(call: Callable[[], Awaitable[None]]) -> Round:
    async def measure() -> float:
        begun = time.perf_counter()
        for _ in range(_CALLS):
            await call()
        return (time.perf_counter() - begun) / _CALLS

    return measure
