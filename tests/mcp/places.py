"""A data directory with tool servers: real ones out of the registries, and ones that misbehave."""

import contextlib
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from silas.app.skills import make_tool_servers
from silas.mcp.service import ToolServerService
from silas.review.questions import Question
from silas.sandbox.models import SandboxConfig
from silas.tools.execution import ExecutionEnvelope, ExecutionResult
from tests.skills.place import SkillPlace, open_place

SERVERS = Path(__file__).parent.parent / "servers"
PYTHON = SERVERS / "mcp" / ".venv" / "bin"
NODE = SERVERS / "node" / "node_modules" / "@modelcontextprotocol"
NODE_PROGRAM = shutil.which("node") or "/usr/bin/node"
REGISTRY: Mapping[str, tuple[str, Sequence[str]]] = {
    "time": (str(PYTHON / "mcp-server-time"), ()),
    "git": (str(PYTHON / "mcp-server-git"), ()),
    "fetch": (str(PYTHON / "mcp-server-fetch"), ()),
    "sqlite": (
        str(SERVERS / "mcp" / ".venv-sqlite" / "bin" / "mcp-server-sqlite"),
        ["--db-path", "{workspace}/shop.db"],
    ),
    "everything": (NODE_PROGRAM, [str(NODE / "server-everything/dist/index.js")]),
    "filesystem": (NODE_PROGRAM, [str(NODE / "server-filesystem/dist/index.js"), "{workspace}"]),
    "memory": (NODE_PROGRAM, [str(NODE / "server-memory/dist/index.js")]),
}
PLAN = """---
id: ask-the-time
type: task
title: Ask for the time
skills: [{server}]
without_proof: true
domain: test
---
```call tool={tool}
{args}
```
"""
MODERN, LEGACY = "2026-07-28", "2025-11-25"


def require_registry(*names: str) -> None:
    """Skip where a server of the registries is not installed."""
    for name in names:
        program, arguments = REGISTRY[name]
        is_script = program == NODE_PROGRAM
        needed = Path(arguments[0]) if is_script else Path(program)
        if not needed.exists():
            how = "npm ci --prefix tests/servers/node" if is_script else "tests/servers/mcp/install"
            pytest.skip(f"the tool server {name} is not installed: {how}")


@dataclass
class ServerPlace:
    """One data directory, and its owner."""

    skills: SkillPlace
    servers: ToolServerService

    @property
    def core(self) -> Any:
        return self.skills.core

    async def decide(self, card: str, value: str = "approve") -> Question:
        """The owner answers a card, and the answer is followed."""
        questions = self.skills.questions
        question = await questions.get(card)
        await questions.answer_with_vault(card, {"selected_value": value})
        follow = self.servers.answered
        if question.about.startswith("skill:"):
            follow = self.servers.installer.answered
        await follow(question.about)
        return question

    async def shown(self, name: str) -> Question:
        """The card that waits about a server."""
        listed = await self.servers.list_servers()
        (card,) = [each.card_id for each in listed.waiting if each.name == name]
        return await self.skills.questions.get(card)

    async def add(
        self, name: str, program: str, arguments: Sequence[str] = (), **more: Any
    ) -> None:
        """Asked for, started, shown, approved."""
        asked = await self.servers.add(name, program, tuple(arguments), **more)
        await self.decide(asked.card_id)
        await self.decide((await self.shown(name)).question_id)
        assert await self.core.skill_files.digest(name)

    async def tools(self, name: str) -> dict[str, Any]:
        """Its tools as work gets them."""
        digest = await self.core.skill_files.digest(name)
        found = await self.core.skill_files.tools({name: digest} if digest else {})
        return {each.name: each for each in found}

    async def call(
        self,
        tools: Mapping[str, Any],
        name: str,
        args: dict[str, Any],
        directory: Path | None = None,
    ) -> ExecutionResult:
        """One call, without the review that work has before it."""
        work_dir = str(directory) if directory else ""
        tool = tools[name]
        tool.check(args)
        result: ExecutionResult = await tool.executor.execute(
            ExecutionEnvelope(
                execution_id="item.1.1",
                step_index=0,
                task_description="test",
                action=name,
                args=args,
                timeout_seconds=20,
                sandbox_config=SandboxConfig(work_dir=work_dir),
            )
        )
        return result

    async def state(self, name: str) -> str:
        record = await self.core.skills.get(name)
        if record is None:
            return "none"
        return "quarantined" if record.is_quarantined else record.state.value


@contextlib.asynccontextmanager
async def open_servers(root: Path) -> AsyncIterator[ServerPlace]:
    """The data directory below `root`."""
    async with open_place(root) as skills:
        yield ServerPlace(skills, make_tool_servers(skills.core, skills.service))


@contextlib.asynccontextmanager
async def used(tools: Mapping[str, Any]) -> AsyncIterator[Mapping[str, Any]]:
    """Tools for one piece of work; whatever they have running ends with it."""
    try:
        yield tools
    finally:
        for tool in tools.values():
            await tool.release()


WRITTEN = """
import json, sys, os, time
STATE = {state!r}
def send(**message):
    sys.stdout.write(json.dumps(dict(jsonrpc="2.0", **message)) + "\\n"); sys.stdout.flush()
def tools():
    {tools}
def call(name, args, number):
    {call}
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        send(id=number, result={{"protocolVersion": "2025-11-25",
             "capabilities": {{"tools": {{"listChanged": True}}}},
             "serverInfo": {{"name": "written", "version": "1"}},
             "instructions": {instructions!r}}})
    elif method == "tools/list":
        send(id=number, result={{"tools": tools()}})
    elif method == "tools/call":
        found = call(message["params"]["name"], message["params"].get("arguments") or {{}}, number)
        if found is not None:
            send(id=number, result={{"content": [{{"type": "text", "text": found}}]}})
    elif number is not None and method:
        send(id=number, error={{"code": -32601, "message": "no such method"}})
"""
ECHO = {"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object"}}


def write_server(
    folder: Path,
    *,
    tools: str = f"return [{ECHO!r}]",
    call: str = "return json.dumps(args)",
    instructions: str = "",
) -> tuple[str, list[str]]:
    """A server of the older era in one file, as somebody would write it who means no good."""
    folder.mkdir(exist_ok=True)
    text = WRITTEN.format(tools=tools, call=call, instructions=instructions, state={})
    (folder / "server.py").write_text(text)
    return str(Path(sys.base_prefix) / "bin" / "python3"), [str(folder / "server.py")]
