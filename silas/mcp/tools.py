"""The tools of a server as work uses them: pinned, checked, called in an instance of its own.

1. A tool exists for work whose plan names its server, and is called as `SERVER_TOOL`. What it does
   to the world is what the owner has said; where the owner has said nothing, it counts as the worst
   and is asked about every time.
2. Arguments are checked against the pinned schema before anything is started.
3. Before the first call, the program, its files and all tools are compared with what was pinned.
   Any difference quarantines the whole server: nothing uses it until the owner has looked at it.
   The tools are compared again when the server says that they have changed; a call in whose course
   that happened gave nothing.
4. Each run has instances of its own, one for each set of hosts, and they end with it. One that ends
   early is started again for the next call. One that reaches hosts ends with its call: what comes
   into the workspace later is not there for it to send.
5. What a server answers or asks is a stranger's text.
6. What takes a call back is written down before it is made, where the owner has named the tool.
7. A call whose answer was lost says so, and no attempt of the same work makes it again: nobody
   knows what it has done (`made_once`). One of a tool that only reads can be made again.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from pydantic import BaseModel, create_model

from silas.kernel import SilasError, TaintLevel, visible
from silas.kernel.tasks import end_task
from silas.mcp.launch import Launch, ServerChanged
from silas.mcp.remote import OpenProxy, RemoteServer
from silas.mcp.session import (
    AnswerLost,
    ServerAnswer,
    ServerFailed,
    ServerSession,
    remote_session,
    require_sdk,
    sandboxed_session,
)
from silas.mcp.toolset import (
    SERVER_FILE,
    PinnedServer,
    PinnedTool,
    differences,
    read_server,
)
from silas.sandbox.models import SandboxRunner
from silas.skills.format import Skill
from silas.skills.sidecar import ACCOUNT, ServedTool
from silas.skills.tree import read_file
from silas.tools.commands import changed_files, list_workspace
from silas.tools.declaration import ArgumentsRefused, Tool, ToolOffer
from silas.tools.execution import (
    OUTCOME_UNKNOWN,
    ExecutionEnvelope,
    ExecutionResult,
    failed,
)

Quarantine = Callable[[str, str, Sequence[str]], Awaitable[None]]
"""Lets nothing use the server with this name and digest any more; why, in sentences."""
IDLE_SECONDS = 60.0
_CALL_SECONDS = 120.0
_MAX_CACHED = 32
_QUARANTINED = (
    "The server {name} is not the one that you have approved: {why} It is quarantined, and nothing "
    "uses it. `silas mcp show {name}` says more."
)


class ServerQuarantined(ServerChanged):
    """The server is not the one that was approved, so nothing uses it any more."""

    code = "E_SKILL_MCP_QUARANTINED"


@dataclass(frozen=True)
class ServerTool(Tool):
    """One tool of a server; its arguments are those of the pinned schema."""

    pinned: PinnedTool = field(kw_only=True)

    @cached_property
    def offer(self) -> ToolOffer:
        """The tool as a worker sees it."""
        return ToolOffer(
            name=self.name,
            description=self.description,
            parameters=self.pinned.input_schema,
            contained=self.contained,
            changes_state=self.changes_state,
        )

    def check(self, args: Mapping[str, Any]) -> None:
        """Rule 2."""
        self.pinned.require_fitting(_without_account(args, self.pinned))


@dataclass(frozen=True)
class ServerAsAccount:
    """`AccountUse` of a tool that another tool of its server undoes (rule 6).

    Its undo is written down before the call, like that of a call in an account.
    """

    server: str

    async def gate_context(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Nothing is missing: what a tool may do is in its effect."""
        return {
            "connection": self.server,
            "connection_id": self.server,
            "required_permissions": [],
            "permissions_granted": [],
        }


def _without_account(args: Mapping[str, Any], pinned: PinnedTool) -> dict[str, Any]:
    """What the tool itself is called with: an undo also names the server that it is for."""
    if ACCOUNT in pinned.input_schema.get("properties", {}):
        return dict(args)
    return {name: each for name, each in args.items() if name != ACCOUNT}


class Instance:
    """One running server. It lives in a task of its own, and is asked from others."""

    def __init__(self, opened: AbstractAsyncContextManager[ServerSession]) -> None:
        self._opened = opened
        self._over = asyncio.Event()
        self._ready: asyncio.Future[ServerSession] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live())

    async def _live(self) -> None:
        try:
            async with self._opened as session:
                self._ready.set_result(session)
                await self._over.wait()
        except asyncio.CancelledError:
            if not self._ready.done():
                self._ready.set_exception(ServerFailed("It was ended before it was ready."))
            raise
        except Exception as error:  # noqa: BLE001 - whatever its library throws is its end
            if not self._ready.done():
                known = isinstance(error, SilasError)
                self._ready.set_exception(error if known else ServerFailed(_words(error)))

    async def session(self) -> ServerSession:
        """The conversation, once it has begun; raises what stood against it."""
        return await asyncio.shield(self._ready)

    @property
    def has_ended(self) -> bool:
        """Whether the server is gone by itself."""
        if self._task.done():
            return True
        begun = self._ready.done() and self._ready.exception() is None
        return begun and self._ready.result().ended.is_set()

    async def close(self) -> None:
        """Leave nothing of it."""
        self._over.set()
        if not self._ready.done():
            await end_task(self._task)
        else:
            await asyncio.wait({self._task}, timeout=10)
            await end_task(self._task)
        if self._ready.done() and not self._ready.cancelled():
            self._ready.exception()  # it was told to whoever asked


def _words(error: BaseException) -> str:
    return visible(" ".join(str(error).split())[:600], keep_newlines=False) or type(error).__name__


Opener = Callable[
    [Launch | RemoteServer, str | None, tuple[str, ...]],
    AbstractAsyncContextManager[ServerSession],
]
"""Begins a conversation with a server, in a run with this workspace, which reaches these hosts."""


@dataclass
class ToolServerRun:
    """A server in one run (rules 3 and 4)."""

    skill: str
    digest: str
    pinned: PinnedServer
    opener: Opener
    quarantine: Quarantine
    _instances: dict[tuple[str | None, tuple[str, ...]], Instance] = field(default_factory=dict)
    _idle: asyncio.TimerHandle | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def call(
        self, tool: PinnedTool, served: ServedTool, envelope: ExecutionEnvelope
    ) -> ServerAnswer:
        """One call; raises `ServerFailed`, `ServerQuarantined` or `AnswerLost`."""
        async with self._turn:
            self._stop_clock()
            try:
                return await self._call(tool, served, envelope)
            except (AnswerLost, ServerFailed):
                await self._end_all()
                raise
            finally:
                await self._end_reaching()
                self._start_clock()

    async def _call(
        self, tool: PinnedTool, served: ServedTool, envelope: ExecutionEnvelope
    ) -> ServerAnswer:
        directory = _directory(self.pinned, envelope)
        hosts = served.hosts
        instance = self._instances.get((directory, hosts))
        if instance is not None and instance.has_ended:
            await self._instances.pop((directory, hosts)).close()
            instance = None
        if instance is None:
            await self._require_same_program()
            instance = Instance(self.opener(self.pinned.place, directory, hosts))
            self._instances[directory, hosts] = instance
            await self._require_same_tools(await instance.session())
        session = await instance.session()
        if session.tools_changed:
            await self._require_same_tools(session)
        seconds = min(_CALL_SECONDS, float(envelope.timeout_seconds))
        answer = await session.call(tool.name, envelope.args, seconds=seconds)
        if session.tools_changed:
            await self._require_same_tools(session)
        return answer

    async def _require_same_program(self) -> None:
        if self.pinned.launch is not None:
            found = await asyncio.to_thread(self.pinned.launch.differences)
            if found:
                await self._quarantine(found)

    async def _require_same_tools(self, session: ServerSession) -> None:
        try:
            now = await session.tool_set()
        except ServerFailed:
            raise
        except SilasError as error:  # what it offers now cannot even be pinned
            await self._quarantine([error.message])
            return
        if now.sha256 != self.pinned.tool_set.sha256:
            await self._quarantine(differences(self.pinned.tool_set, now))

    async def _quarantine(self, why: Sequence[str]) -> None:
        await self._end_all()
        await self.quarantine(self.skill, self.digest, why)
        shown = " ".join(why)[:1500]
        raise ServerQuarantined(_QUARANTINED.format(name=self.skill, why=shown))

    async def release(self) -> None:
        """End what runs: the work is over."""
        async with self._turn:
            self._stop_clock()
            await self._end_all()

    async def _end_reaching(self) -> None:
        """No instance reaches a host while nothing is called that may (rule 4)."""
        for key in [each for each in self._instances if each[1]]:
            await self._instances.pop(key).close()

    async def _end_all(self) -> None:
        while self._instances:
            _, instance = self._instances.popitem()
            await instance.close()

    def _start_clock(self) -> None:
        if self._instances:
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(IDLE_SECONDS, self._end_idle)

    def _stop_clock(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _end_idle(self) -> None:
        self._ending = asyncio.ensure_future(self.release())


def _sees_workspace(pinned: PinnedServer) -> bool:
    return pinned.launch is not None and pinned.launch.workspace != "none"


def _directory(pinned: PinnedServer, envelope: ExecutionEnvelope) -> str | None:
    """The copy of the workspace, if the server sees it; None where there is none."""
    directory = envelope.sandbox_config.work_dir
    return directory if _sees_workspace(pinned) and Path(directory).is_absolute() else None


@dataclass(frozen=True)
class ServerExecutor:
    """Calls one tool of a server."""

    server: ToolServerRun
    tool: PinnedTool
    served: ServedTool

    async def execute(self, envelope: ExecutionEnvelope) -> ExecutionResult:
        """Rules 2 to 7."""
        directory = _directory(self.server.pinned, envelope)
        args = _without_account(envelope.args, self.tool)
        envelope = envelope.model_copy(update={"args": args})
        try:
            self.tool.require_fitting(envelope.args)
            before = await asyncio.to_thread(list_workspace, Path(directory)) if directory else None
            answer = await self.server.call(self.tool, self.served, envelope)
            artifacts = {}
            if directory and before is not None:
                artifacts = await asyncio.to_thread(changed_files, Path(directory), before)
        except AnswerLost as error:
            return failed(
                envelope,
                error.message,
                taint=TaintLevel.EXTERNAL,
                metadata={"code": error.code, **OUTCOME_UNKNOWN},
            )
        except (SilasError, ArgumentsRefused) as error:
            code = error.code if isinstance(error, SilasError) else "E_SKILL_MCP_ARGUMENTS"
            return failed(envelope, str(error), taint=TaintLevel.EXTERNAL, metadata={"code": code})
        return ExecutionResult(
            execution_id=envelope.execution_id,
            step_index=envelope.step_index,
            success=not answer.failed,
            return_value=self._told(answer, envelope.max_output_bytes),
            artifacts=artifacts,
            taint=TaintLevel.EXTERNAL,
            error="The server says that it did not work." if answer.failed else None,
        )

    def _told(self, answer: ServerAnswer, most: int) -> str:
        name = self.server.skill
        asked = [
            f"[The server {name} asks the owner: “{each}” Nobody has answered.]"
            for each in answer.asked
        ]
        return "\n".join([answer.text[:most], *asked])


@dataclass
class ServedTools:
    """Gives work the tools of the servers that it names (`Served` of the skills)."""

    sandbox: SandboxRunner
    quarantine: Quarantine
    open_proxy: OpenProxy
    _read: dict[str, PinnedServer] = field(default_factory=dict)

    def __call__(self, skill: Skill, directory: Path) -> Sequence[Tool]:
        """The tools of one server; whoever asks gets instances of its own."""
        require_sdk()
        pinned = self.pinned(skill, directory)
        running = ToolServerRun(skill.name, skill.digest, pinned, self.open, self.quarantine)
        known = pinned.tool_set.by_name()
        undone = {each.inverse for each in skill.sidecar.served.values() if each.inverse}
        return [
            ServerTool(
                name,
                _arguments(known[served.served]),
                ServerExecutor(running, known[served.served], served),
                contained=_contained(pinned, served),
                stays_offline=not served.hosts,
                made_once=not served.only_reads,
                tells_more=bool(served.hosts) and _sees_workspace(pinned),
                effect=served.declared,
                inverse=served.inverse,
                description=_description(known[served.served]),
                pinned=known[served.served],
                release=running.release,
                account=ServerAsAccount(skill.name) if served.inverse or name in undone else None,
            )
            for name, served in skill.sidecar.served.items()
            if served.served in known
        ]

    def pinned(self, skill: Skill, directory: Path) -> PinnedServer:
        """What was pinned of a server."""
        known = self._read.get(skill.digest)
        if known is None:
            if len(self._read) >= _MAX_CACHED:
                self._read.clear()
            text = read_file(directory, skill.tree, SERVER_FILE).decode("utf-8")
            known = self._read[skill.digest] = read_server(text)
        return known

    def open(
        self, place: Launch | RemoteServer, directory: str | None, hosts: tuple[str, ...]
    ) -> AbstractAsyncContextManager[ServerSession]:
        """A conversation with a server: in the sandbox, or by way of the broker."""
        if isinstance(place, RemoteServer):
            return remote_session(place, self.open_proxy)
        launch = place
        if directory is not None or launch.workspace == "none":
            return sandboxed_session(self.sandbox, launch, directory=directory, hosts=hosts)
        return _in_an_empty_folder(
            os.path.realpath(gettempdir()),
            lambda empty: sandboxed_session(self.sandbox, launch, directory=empty, hosts=hosts),
        )


@contextlib.asynccontextmanager
async def _in_an_empty_folder(
    below: str, opened: Callable[[str], AbstractAsyncContextManager[ServerSession]]
) -> AsyncIterator[ServerSession]:
    """Where there is no workspace, a server that wants one sees a folder with nothing in it."""
    with TemporaryDirectory(prefix="silas-server-", dir=below) as empty:
        async with opened(empty) as session:
            yield session


def _contained(pinned: PinnedServer, served: ServedTool) -> bool:
    """It reaches nobody, and the owner has said that it does no more than it can there."""
    return (
        pinned.launch is not None
        and not served.hosts
        and served.effect is not None
        and not served.is_final
    )


def _description(tool: PinnedTool) -> str:
    """What the server says of it, for a model: without anything that a reader does not see."""
    return visible(tool.description or tool.title or tool.name)


def _arguments(tool: PinnedTool) -> type[BaseModel]:
    """The names of the arguments, for gates; their schema is the pinned one."""
    named = tool.input_schema.get("properties")
    names = [
        each
        for each in (named if isinstance(named, dict) else ())
        if each.isidentifier() and each[0] != "_" and not hasattr(BaseModel, each)
    ]
    fields: dict[str, Any] = dict.fromkeys(names, (Any, None))
    model: type[BaseModel] = create_model("ServerArguments", **fields)
    return model
