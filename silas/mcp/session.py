"""A tool server that runs in the sandbox and is talked to: started, asked, ended.

1. The program, its files and its tools are those that were pinned: both are compared before the
   first call, and the tools again whenever the server says that they have changed.
2. It runs in the sandbox, in a world of its own: its pinned folders, the copy of the workspace if
   that was approved, the hosts of the tool that is called. It gets none of this process'
   variables, and no credential.
3. A message is one line of at most `MAX_MESSAGE_BYTES`; time, memory and the sum of what it says
   are limited.
4. Its questions are written down as its own words, and nobody answers them here: neither a form,
   nor an address to open, nor what a model should say (sampling), nor a list of folders (roots).
5. A call is sent once. If its answer is lost, nobody knows what it has done, and that is said.
6. Everything ends with the instance: when its work is over, when it was idle, or when it broke.
"""

import asyncio
import math
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from silas.kernel import SandboxError, SkillError, visible, visible_json
from silas.kernel.tasks import end_task
from silas.mcp.launch import Launch
from silas.mcp.remote import OpenProxy, RemoteServer, remote_streams
from silas.mcp.toolset import ToolSet, ToolSetRefused, pinned_set
from silas.sandbox.models import (
    MEBIBYTE,
    SandboxLimits,
    SandboxRequest,
    SandboxRunner,
    checked_request,
)

if TYPE_CHECKING:  # of the extra: nothing of it is loaded before a server is used
    from mcp.client import Client
    from mcp.client.session import ClientRequestContext
    from mcp_types import ElicitRequestParams, ElicitResult

MAX_MESSAGE_BYTES = 8 * MEBIBYTE
MAX_ANSWER_CHARS = 200_000
_FLOOD = 256 * MEBIBYTE
_MAX_NOISE = 1000
_LIFE_SECONDS = 30 * 60.0
_START_SECONDS = 60.0
_MAX_PAGES = 50
_MAX_ASKED = 20
_GOODBYE_SECONDS = 3.0
_SEND_SECONDS = 2.0


class McpMissing(SkillError):
    """Tool servers need the extra `mcp`: `pip install 'silas[mcp]'` adds it."""

    code = "E_SKILL_MCP_MISSING"


class ServerFailed(SkillError):
    """The tool server does not work. The sentence says what it did."""

    code = "E_SKILL_MCP_SERVER"


class AnswerLost(SkillError):
    """The server's answer was lost: nobody knows whether the call was carried out."""

    code = "E_SKILL_MCP_ANSWER_LOST"


@dataclass(frozen=True)
class ServerAnswer:
    """What a call gave: a stranger's text."""

    text: str
    failed: bool = False
    asked: tuple[str, ...] = ()
    """What the server wanted to know from the owner; nobody answered."""


def require_sdk() -> None:
    """Raise `McpMissing` unless the extra is there."""
    try:
        import jsonschema  # noqa: F401, PLC0415 - whether it is there
        import mcp  # noqa: F401, PLC0415 - as above
    except ImportError as error:
        raise McpMissing from error


def server_request(
    launch: Launch, *, directory: str | None, hosts: tuple[str, ...], stdin_pipe: int | None = None
) -> SandboxRequest:
    """The world of a server (rule 2). Without a directory it sees no workspace."""
    inside = (directory,) if directory and launch.workspace != "none" else ()
    writes = launch.workspace == "write"
    return checked_request(
        argv=launch.argv(directory or "/tmp"),  # noqa: S108 - the sandbox's own
        env={"PYTHONUNBUFFERED": "1", **launch.variables},
        # Not in the workspace: interpreters load code from where they are started.
        read=(*launch.mounts, *(() if writes else inside)),
        write=inside if writes else (),
        network=hosts,
        limits=SandboxLimits(
            wall_seconds=_LIFE_SECONDS,
            cpu_seconds=600,
            memory_bytes=launch.memory_mb * MEBIBYTE,
            output_bytes=8_000,
            flood_bytes=_FLOOD,
        ),
        stdin_pipe=stdin_pipe,
    )


@dataclass
class _Wire:
    """The messages between the protocol's library and a program in the sandbox (rule 3)."""

    sandbox: SandboxRunner
    make_request: Callable[[int], SandboxRequest]
    failure: str = ""
    """Why the program ended, for people."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _rest: bytes = b""
    _noise: int = 0

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Any]:
        """What the library reads and writes."""
        import anyio  # noqa: PLC0415 - of the extra's library

        incoming, reads = anyio.create_memory_object_stream[Any](math.inf)
        writes, outgoing = anyio.create_memory_object_stream[Any](0)
        reading, writing = os.pipe2(os.O_CLOEXEC)
        pipe = await _writer(writing)
        running = asyncio.create_task(self._run(reading, incoming))
        sending = asyncio.create_task(_send(outgoing, pipe))
        try:
            yield reads, writes
            pipe.close()
            await asyncio.wait({running}, timeout=_GOODBYE_SECONDS)
        finally:
            await end_task(sending)
            await end_task(running)
            pipe.close()
            os.close(reading)
            for stream in (incoming, reads, writes, outgoing):
                stream.close()

    async def _run(self, reading: int, incoming: Any) -> None:
        def hear(stream: Literal["stdout", "stderr"], chunk: bytes) -> None:
            if stream == "stdout" and not self.failure:
                self._take(chunk, incoming)

        try:
            ran = await self.sandbox.run(self.make_request(reading), on_output=hear)
            last = ran.stderr.decode("utf-8", "replace").strip().splitlines()[-3:]
            why = f"it was stopped: {ran.limit.value}" if ran.limit else f"code {ran.exit_code}"
            said = f". It wrote: {' / '.join(last)}" if last else ""
            self.failure = self.failure or visible(f"It ended ({why}){said}", keep_newlines=False)
        except SandboxError as error:
            self.failure = error.message
        finally:
            self.ended.set()
            incoming.close()

    def _take(self, chunk: bytes, incoming: Any) -> None:
        from mcp.shared.message import SessionMessage  # noqa: PLC0415 - of the extra
        from mcp_types import jsonrpc_message_adapter  # noqa: PLC0415 - of the extra

        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in (*lines, self._rest):
            if len(line) > MAX_MESSAGE_BYTES:
                self._break("It sent a message that is too long.", incoming)
                return
        for line in lines:
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                self._noise += bool(line.strip())
                if self._noise > _MAX_NOISE:
                    self._break("It writes what is no message of the protocol.", incoming)
                    return
                continue
            incoming.send_nowait(SessionMessage(message))

    def _break(self, why: str, incoming: Any) -> None:
        self.failure = why
        incoming.close()


async def _writer(writing: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(writing, "wb", buffering=0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _send(outgoing: Any, pipe: asyncio.StreamWriter) -> None:
    with suppress(OSError):  # it has ended: whoever waits for its answer hears that
        async for each in outgoing:
            line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            pipe.write(line.encode() + b"\n")
            await pipe.drain()


@dataclass
class ServerSession:
    """One conversation with a server; `open_session` makes it."""

    client: "Client"
    why_ended: Callable[[], str]
    ended: asyncio.Event
    """The program is gone."""
    asked: list[str] = field(default_factory=list)
    tools_changed: bool = False
    """The server has said that its tools are others now."""

    @property
    def protocol(self) -> str:
        return self.client.protocol_version

    @property
    def says(self) -> str:
        """How the server calls itself."""
        info = self.client.server_info
        return visible(f"{info.name} {info.version}"[:200], keep_newlines=False) if info else ""

    async def tool_set(self) -> ToolSet:
        """All tools that it offers now; raises `ServerFailed` or `ToolSetRefused`."""
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - of the extra
        from mcp_types import PaginatedRequestParams  # noqa: PLC0415 - of the extra

        self.tools_changed = False
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        try:
            for _ in range(_MAX_PAGES):
                page = await self.client.session.list_tools(
                    params=PaginatedRequestParams(cursor=cursor) if cursor else None
                )
                found += map(_as_sent, page.tools)
                cursor = page.next_cursor
                if not cursor:
                    return pinned_set(found, self.client.instructions)
        except (MCPError, ValueError) as error:
            raise ServerFailed(self._told("It does not list its tools", error)) from error
        raise ToolSetRefused("Its list of tools does not end.")

    async def call(self, tool: str, args: Mapping[str, Any], *, seconds: float) -> ServerAnswer:
        """One call, sent once; raises `ServerFailed` or `AnswerLost` (rule 5)."""
        from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - of the extra
        from mcp_types import (  # noqa: PLC0415 - of the extra
            CONNECTION_CLOSED,
            REQUEST_TIMEOUT,
            CallToolRequest,
            CallToolRequestParams,
            InputRequiredResult,
        )

        self.asked.clear()
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(args)))
        try:
            # The library limits the wait for an answer, and not that for a server that reads.
            async with asyncio.timeout(seconds + _SEND_SECONDS):
                result = await self.client.session.send_request(
                    request, _answers(), request_read_timeout_seconds=seconds
                )
        except MCPError as error:
            if error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT):
                raise AnswerLost(self._told(AnswerLost.sentence(), error)) from error
            return ServerAnswer(_cut(str(error)), failed=True, asked=tuple(self.asked))
        except Exception as error:  # whatever the library throws, the call may have been sent
            raise AnswerLost(self._told(AnswerLost.sentence(), error)) from error
        if isinstance(result, InputRequiredResult):
            self._note_questions(result)
            text = "The server wants an answer before it goes on, and got none."
            return ServerAnswer(text, failed=True, asked=tuple(self.asked))
        return ServerAnswer(_text_of(result), failed=result.is_error, asked=tuple(self.asked))

    def note(self, asked: str) -> None:
        """What the server asks, as its own words (rule 4)."""
        if len(self.asked) < _MAX_ASKED:
            self.asked.append(visible(asked[:2000], keep_newlines=False))

    def _note_questions(self, result: Any) -> None:
        for each in (result.input_requests or {}).values():
            params = getattr(each, "params", None)
            self.note(_question(params) if hasattr(params, "message") else each.method)

    def _told(self, words: str, error: Exception) -> str:
        ended = self.why_ended()
        detail = ended or " ".join(str(error).split())
        return visible(f"{words.rstrip('.')}: {detail[:600]}", keep_newlines=False)


@asynccontextmanager
async def open_session(
    streams: AbstractAsyncContextManager[Any], why_ended: Callable[[], str], ended: asyncio.Event
) -> AsyncIterator[ServerSession]:
    """Talk to a server in whichever era of the protocol it speaks; raises `ServerFailed`."""
    from mcp import Client  # noqa: PLC0415 - of the extra
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415 - of the extra
    from mcp_types import ElicitResult, ToolListChangedNotification  # noqa: PLC0415 - of the extra

    async def elicit(
        context: "ClientRequestContext", params: "ElicitRequestParams"
    ) -> "ElicitResult":
        session.note(_question(params))
        return ElicitResult(action="decline")

    async def heard(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            session.tools_changed = True

    client = Client(
        streams,
        mode="auto",
        read_timeout_seconds=_START_SECONDS,
        elicitation_callback=elicit,
        message_handler=heard,
        cache=None,
    )
    session = ServerSession(client, why_ended, ended)
    try:
        await client.__aenter__()
    except (MCPError, ValueError, OSError, ExceptionGroup) as error:
        detail = why_ended() or " ".join(str(_innermost(error)).split())
        raise ServerFailed(
            visible(f"It cannot be talked to: {detail[:600]}", keep_newlines=False)
        ) from error
    try:
        yield session
    finally:
        await client.__aexit__(None, None, None)


def sandboxed_session(
    sandbox: SandboxRunner, launch: Launch, *, directory: str | None, hosts: tuple[str, ...]
) -> AbstractAsyncContextManager[ServerSession]:
    """A session with a server that is started in the sandbox for it."""
    wire = _Wire(
        sandbox,
        lambda pipe: server_request(launch, directory=directory, hosts=hosts, stdin_pipe=pipe),
    )
    return open_session(wire.streams(), lambda: wire.failure, wire.ended)


def remote_session(
    remote: RemoteServer, open_proxy: OpenProxy
) -> AbstractAsyncContextManager[ServerSession]:
    """A session with a server of somebody else's."""
    refused = [""]

    def note(words: str) -> None:
        refused[0] = words

    streams = remote_streams(remote, open_proxy, note)
    return open_session(streams, lambda: refused[0], asyncio.Event())


@cache
def _answers() -> Any:
    """What a call can be answered with, as the library reads it."""
    from mcp_types import CallToolResult, InputRequiredResult  # noqa: PLC0415 - of the extra
    from pydantic import TypeAdapter  # noqa: PLC0415 - beside them

    return TypeAdapter(CallToolResult | InputRequiredResult)


def _innermost(error: BaseException) -> BaseException:
    """What happened, out of a group that only says that something did."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _as_sent(tool: Any) -> dict[str, Any]:
    sent: dict[str, Any] = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    return sent


def _question(params: Any) -> str:
    url = getattr(params, "url", None)
    return f"{params.message} ({url})" if url else str(params.message)


def _text_of(result: Any) -> str:
    """The text of an answer; what is no text is named, and not passed on."""
    parts = []
    for block in result.content:
        kind = block.type
        if kind == "text":
            parts.append(block.text)
        elif kind == "resource" and getattr(block.resource, "text", None) is not None:
            parts.append(f"[{block.resource.uri}]\n{block.resource.text}")
        elif kind == "resource_link":
            parts.append(f"[{block.name}: {block.uri}]")
        else:
            parts.append(f"[{kind}: not shown]")
    if not parts and result.structured_content is not None:
        parts.append(visible_json(result.structured_content))
    return _cut("\n".join(parts))


def _cut(text: str) -> str:
    if len(text) <= MAX_ANSWER_CHARS:
        return text
    return f"{text[:MAX_ANSWER_CHARS]}\n[… {len(text) - MAX_ANSWER_CHARS} characters more …]"
