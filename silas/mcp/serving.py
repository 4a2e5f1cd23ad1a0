"""`silas mcp serve`: any program that speaks the protocol asks the owner through Silas.

1. It is a thin client: each tool is a command of Silas' API, asked over the owner's socket with the
   token of the program that calls. Nothing is decided, stored or remembered here.
2. No tool approves. `propose` puts a card before the owner, `status` says how it stands, `result`
   tells the answer once, `verify` redeems what `result` has given.
3. Whatever goes wrong is a no: no Silas, no answer, an error, arguments that are not understood. A
   program is told so as a result that it can read.
4. The arguments are checked against the schema that is published; the SDK does not do that.
5. Over HTTP each request shows the token of its own program, and no request is taken from another
   page or for another host: a name of somebody else's that leads here is refused (DNS rebinding).
   It listens on this machine alone.
6. Both eras of the protocol are served: with a handshake (2025) and without (2026-07-28).
"""

import asyncio
import hmac
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from pydantic import Field, ValidationError
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from silas.kernel import ApprovalError, SilasError
from silas.kernel.models import Data, dotted, problems_in
from silas.proposals.clients import ClientRefused

AskSilas = Callable[[str, Mapping[str, Any]], Any]
"""One command of the API; blocks until it is answered, and raises a `SilasError`."""
PATH = "/mcp"
MAX_BODY_BYTES = 1024 * 1024
_AT_ONCE = 32
_BEARER = "bearer "
_WORK = "card_"
"""How the ids of proposals begin that Silas carries out itself."""
_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_SECURITY = TransportSecuritySettings(enable_dns_rebinding_protection=False)
"""Host and origin are checked before the SDK sees a request (`LoopbackDoor`)."""
_INSTRUCTIONS = (
    "Silas asks its owner before anything happens. `propose` an action, wait with `status`, then "
    "read `result`. Only the answer `allow` allows, for exactly what was proposed, once. Anything "
    "else is a no: do not act, and do not propose the same again at once."
)


class CommandAction(Data):
    """A command that Silas runs in its sandbox, once the owner has approved it."""

    kind: Literal["command"]
    command: str = Field(min_length=1, max_length=8_000, description="One line for /bin/sh.")
    folder: str | None = Field(default=None, description="The whole path of the folder to work in.")
    add: list[str] = Field(default_factory=list, description="Files that it adds.")
    change: list[str] = Field(default_factory=list, description="Files that it changes.")
    remove: list[str] = Field(default_factory=list, description="Files that it removes.")
    check: str | None = Field(
        default=None, description="A command that fails before it and passes after it."
    )


class MarkdownPlanAction(Data):
    """A plan in markdown (docs/plans.md) that Silas carries out, once the owner has approved it."""

    kind: Literal["plan"]
    plan: str = Field(min_length=1, max_length=1_000_000)


class ToolAction(Data):
    """A call of one of your own tools. You carry it out, if the answer is `allow`."""

    kind: Literal["tool"]
    tool_name: str = Field(min_length=1, max_length=128)
    tool_input: dict[str, Any]
    cwd: str | None = Field(default=None, description="The folder in which it would be done.")

    @property
    def request(self) -> dict[str, Any]:
        """What is shown and signed."""
        given = {"tool_name": self.tool_name, "tool_input": self.tool_input}
        return given if self.cwd is None else {**given, "cwd": self.cwd}


class JsonAction(Data):
    """Anything else that you would do, as JSON. You carry it out, if the answer is `allow`."""

    kind: Literal["json"]
    request: dict[str, Any]
    rendering: str = Field(
        default="",
        max_length=8_000,
        description="What it means, in words. It is shown beside the request, as your claim.",
    )


Action = Annotated[
    CommandAction | MarkdownPlanAction | ToolAction | JsonAction, Field(discriminator="kind")
]
ProposalId = Annotated[str, Field(min_length=1, max_length=200)]
Wait = Annotated[
    float, Field(ge=0, le=50, description="Wait so many seconds for news before answering.")
]


class ProposeArguments(Data):
    """Put an action before the owner. Nothing happens before the owner's signed yes."""

    title: str = Field(min_length=1, max_length=200, description="What it is, in a few words.")
    action: Action
    seconds: int = Field(
        default=300, ge=1, le=3600, description="How long the owner has. Then it is a no."
    )


class StatusArguments(Data):
    """How a proposal stands. It uses nothing up."""

    proposal_id: ProposalId
    wait_seconds: Wait = 0


class ResultArguments(Data):
    """The answer, and what came of it. A yes to what you carry out yourself is told once."""

    proposal_id: ProposalId
    action: Action = Field(description="Exactly what was proposed.")
    wait_seconds: Wait = 0


class VerifyArguments(Data):
    """Redeem a proof that `result` gave: valid once, for exactly this action, before it expires."""

    proof: str = Field(min_length=1, max_length=512 * 1024)
    action: Action


class ActionDenied(ApprovalError):
    """This cannot be done. Nothing was allowed."""

    code = "E_APPROVAL_ACTION_DENIED"


_TOOLS: Mapping[str, tuple[type[Data], bool]] = {
    "propose": (ProposeArguments, False),
    "status": (StatusArguments, True),
    "result": (ResultArguments, False),
    "verify": (VerifyArguments, False),
}
"""The arguments of each tool, and whether it only looks."""


def tools() -> list[types.Tool]:
    """What is published."""
    return [
        types.Tool(
            name=name,
            description=model.__doc__,
            input_schema=model.model_json_schema(),
            annotations=types.ToolAnnotations(
                read_only_hint=looks, destructive_hint=False, open_world_hint=False
            ),
        )
        for name, (model, looks) in _TOOLS.items()
    ]


@dataclass(frozen=True)
class ProposalTools:
    """The four tools, for whichever program shows its token."""

    ask: AskSilas
    threads: ThreadPoolExecutor

    async def call(
        self, token: str, name: str, arguments: Mapping[str, Any]
    ) -> types.CallToolResult:
        """The answer of one tool; a refusal is an answer too (rule 3)."""
        try:
            answer = await self._answer(token, name, arguments)
        except SilasError as error:
            return _told({"answer": "deny", "reason": error.message, "code": error.code}, no=True)
        return _told(answer, no=False)

    async def _answer(self, token: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if name == "propose":
            return await self._propose(token, _read(ProposeArguments, arguments))
        if name == "status":
            asked = _read(StatusArguments, arguments)
            command = "look_at_work" if _is_work(asked.proposal_id) else "look"
            return await self._ask(token, command, **asked.model_dump())
        if name == "result":
            return await self._result(token, _read(ResultArguments, arguments))
        given = _read(VerifyArguments, arguments)
        request = _request_of(given.action)
        return await self._ask(token, "verify", proof=given.proof, request=request)

    async def _propose(self, token: str, asked: ProposeArguments) -> dict[str, Any]:
        action, common = asked.action, {"title": asked.title, "seconds": asked.seconds}
        if isinstance(action, CommandAction):
            command = _command_of(action)
            return await self._ask(token, "propose_command", command=command, **common)
        if isinstance(action, MarkdownPlanAction):
            return await self._ask(token, "propose_plan", plan=action.plan, **common)
        rendering = action.rendering if isinstance(action, JsonAction) else ""
        return await self._ask(
            token,
            "propose",
            request=action.request,
            kind=action.kind,
            rendering=rendering,
            **common,
        )

    async def _result(self, token: str, asked: ResultArguments) -> dict[str, Any]:
        known = {"proposal_id": asked.proposal_id, "wait_seconds": asked.wait_seconds}
        if not _is_work(asked.proposal_id):
            request = _request_of(asked.action)
            return await self._ask(token, "result", request=request, **known)
        if isinstance(asked.action, CommandAction):
            given: dict[str, Any] = {"command": _command_of(asked.action)}
        elif isinstance(asked.action, MarkdownPlanAction):
            given = {"plan": asked.action.plan}
        else:
            raise ActionDenied("That is not what was proposed.")
        return await self._ask(token, "work_result", **given, **known)

    async def _ask(self, token: str, asked_for: str, /, **arguments: Any) -> dict[str, Any]:
        asked = partial(self.ask, asked_for, {"token": token, **arguments})
        answer = await asyncio.get_running_loop().run_in_executor(self.threads, asked)
        if not isinstance(answer, dict):
            raise ActionDenied("Silas gave an answer that makes no sense.")
        return answer

    async def program_of(self, token: str) -> str:
        """The name of the program that shows this token; raises `ClientRefused`."""
        return str((await self._ask(token, "recognise"))["name"])


def _is_work(proposal_id: str) -> bool:
    return proposal_id.startswith(_WORK)


def _command_of(action: CommandAction) -> dict[str, Any]:
    given = action.model_dump(include={"command", "folder", "check"})
    return {**given, "changes": action.model_dump(include={"add", "change", "remove"})}


def _request_of(action: object) -> dict[str, Any]:
    if isinstance(action, ToolAction | JsonAction):
        return action.request
    raise ActionDenied("Silas carries commands and plans out itself: there is nothing to redeem.")


def _read(model: type[Any], arguments: Mapping[str, Any]) -> Any:
    """Rule 4."""
    try:
        return model.model_validate_json(json.dumps(dict(arguments)), strict=True)
    except (ValidationError, ValueError, RecursionError) as error:
        if not isinstance(error, ValidationError):
            raise ActionDenied("The arguments cannot be read.") from error
        told = "; ".join(f"{dotted(path)} {said}".strip() for path, said in problems_in(error))
        raise ActionDenied(f"The arguments are not understood: {told}") from error


def _told(answer: dict[str, Any], *, no: bool) -> types.CallToolResult:
    text = json.dumps(answer, ensure_ascii=True, sort_keys=True)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=answer,
        is_error=no,
    )


TokenOf = Callable[[ServerRequestContext[Any, Any]], str]
"""Whose request it is, by the token that it shows."""


def make_server(asked: ProposalTools, token_of: TokenOf, *, version: str) -> Server[Any]:
    """The server, for either way of transport."""

    async def list_tools(
        ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del ctx, params
        return types.ListToolsResult(tools=tools())

    async def call_tool(
        ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if params.name not in _TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name!a}.")
        return await asked.call(token_of(ctx), params.name, params.arguments or {})

    return Server(
        "silas",
        version=version,
        title="Silas",
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_stdio(ask: AskSilas, token: str, *, version: str) -> None:
    """Serve the one program that has started this process, until it ends."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        server = make_server(ProposalTools(ask, threads), lambda _: token, version=version)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())


def make_app(ask: AskSilas, threads: ThreadPoolExecutor, *, port: int, version: str) -> ASGIApp:
    """What is served over HTTP (rule 5)."""
    asked = ProposalTools(ask, threads)
    server = make_server(asked, _shown_token, version=version)
    inner = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=MAX_BODY_BYTES,
        transport_security=_SECURITY,
    )
    return LoopbackDoor(inner, asked, port)


async def serve_http(ask: AskSilas, port: int, *, version: str) -> None:
    """Serve the programs of this machine on one of its own addresses, until it is ended."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        app = make_app(ask, threads, port=port, version=version)
        config = uvicorn.Config(
            app, host=_LOCAL[0], port=port, log_level="warning", access_log=False
        )
        await uvicorn.Server(config).serve()


def _shown_token(ctx: ServerRequestContext[Any, Any]) -> str:
    """The token that this very request shows: never that of whoever was here before."""
    request = ctx.request
    return _bearer(request.headers.get("authorization")) if request is not None else ""


def _bearer(header: str | None) -> str:
    if header is None or not header.lower().startswith(_BEARER):
        return ""
    return header[len(_BEARER) :].strip()


@dataclass(frozen=True)
class LoopbackDoor:
    """Lets in who is on this machine, is no foreign page, and shows the token of a program."""

    inner: ASGIApp
    asked: ProposalTools
    port: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Rule 5."""
        if scope["type"] == "lifespan":
            await self.inner(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refused = await self._refusal(Headers(scope=scope))
        if refused is None:
            await self.inner(scope, receive, send)
            return
        status, reason = refused
        extra = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        await JSONResponse({"error": reason}, status_code=status, headers=extra)(
            scope, receive, send
        )

    async def _refusal(self, headers: Headers) -> tuple[int, str] | None:
        if not any(_same(headers.get("host", ""), f"{name}:{self.port}") for name in _LOCAL):
            return 421, "This is not the host that was asked for."
        own = {f"http://{name}:{self.port}" for name in _LOCAL}
        if any(each not in own for each in headers.getlist("origin")):
            return 403, "This page may not ask Silas."
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "This page may not ask Silas."
        token = _bearer(headers.get("authorization"))
        try:
            if token:
                await self.asked.program_of(token)
                return None
        except ClientRefused:
            pass
        except SilasError as error:
            return 503, error.message
        return 401, "Show the token of a program: `silas clients add NAME` makes one."


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.lower().encode(), other.encode())
