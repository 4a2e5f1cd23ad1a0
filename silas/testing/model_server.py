"""A model server on loopback that speaks the protocol of OpenAI and OpenRouter, scripted by a test.

It is a real HTTP server on a real port: the whole client stack is exercised, down to the bytes.
Give it replies in the order in which they are to be sent; the last one is repeated. It writes down
every request that it gets. A completion is sent as server-sent events to whoever asks for a stream.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

_OK = 200
_PIECE = 24
_REASONS = {200: "OK", 401: "Unauthorized", 402: "Payment Required", 404: "Not Found"}


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The body as data."""
        data: dict[str, Any] = json.loads(self.body)
        return data

    @property
    def wants_stream(self) -> bool:
        """Whether the client asked for server-sent events."""
        return bool(self.body) and bool(self.json.get("stream"))


@dataclass(frozen=True)
class Reply:
    """What the server sends back: status, headers and pieces, with an optional gate before each."""

    pieces: tuple[bytes, ...]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    whole: bool = True
    """False: the connection breaks off before everything that was promised has been sent."""
    before_piece: Callable[[int], Any] | None = None
    """Awaited before each piece: a test can hold back bytes without a clock."""


Script = Sequence["Reply | Callable[[Request], Reply]"]


def answer(text: str, *, prompt_tokens: int = 11, completion_tokens: int = 7, **more: Any) -> Reply:
    """A plain text answer."""
    return completion(
        {"role": "assistant", "content": text},
        "stop",
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        **more,
    )


def tool_call(name: str, arguments: Mapping[str, Any] | str, *, call_id: str = "call_1") -> Reply:
    """An answer that calls a tool; arguments given as text are sent as they are."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
    return completion({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")


def completion(
    message: Mapping[str, Any],
    finish_reason: str,
    *,
    prompt_tokens: int = 11,
    completion_tokens: int = 7,
    **more: Any,
) -> Reply:
    """A chat completion around any message. `more` is added to it: `usage={…}`, `provider=…`."""
    choice = {"index": 0, "message": dict(message), **_finish(finish_reason)}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_767_268_800,
        "model": "served-model",
        "provider": "Loopback",
        "choices": [choice],
        "usage": _usage(prompt_tokens, completion_tokens),
        **more,
    }
    return Reply((json.dumps(body).encode(),))


def streamed(*texts: str, prompt_tokens: int = 11, completion_tokens: int = 7) -> Reply:
    """A text answer as server-sent events, one for each text, with the usage at the end."""
    events: list[dict[str, Any]] = [
        {"delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    ]
    events += [{"delta": {"content": text}, "finish_reason": None} for text in texts]
    events += [{"delta": {}, "finish_reason": "stop"}]
    return _events(events, _usage(prompt_tokens, completion_tokens))


def streamed_tool_call(name: str, *argument_pieces: str, call_id: str = "call_1") -> Reply:
    """A tool call as server-sent events, its arguments in pieces."""
    first = {"index": 0, "id": call_id, "type": "function", "function": {"name": name}}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "tool_calls": [first]}]
    deltas += [
        {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
        for piece in argument_pieces
    ]
    events: list[dict[str, Any]] = [{"delta": delta, "finish_reason": None} for delta in deltas]
    events += [{"delta": {}, "finish_reason": "tool_calls"}]
    return _events(events, _usage(11, 7))


def as_events(reply: Reply) -> Reply:
    """A completion as server-sent events; everything else is sent as it is."""
    if reply.status != _OK or reply.content_type != "application/json" or not reply.whole:
        return reply
    try:
        said = json.loads(b"".join(reply.pieces))
        if said["object"] != "chat.completion":
            return reply
    except (ValueError, LookupError, TypeError):
        return reply
    choice = said["choices"][0]
    message, ending = choice["message"], {"delta": {}, "finish_reason": choice["finish_reason"]}
    deltas = [{"role": "assistant", "content": ""}, *_pieces_of(message)]
    events: list[dict[str, Any]] = [{"delta": delta, "finish_reason": None} for delta in deltas]
    streamed_reply = _events([*events, ending], said.get("usage") or {}, said)
    return replace(reply, pieces=streamed_reply.pieces, content_type=streamed_reply.content_type)


def _pieces_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    text = message.get("content") or ""
    pieces = [{"content": text[at : at + _PIECE]} for at in range(0, len(text), _PIECE)]
    calls = [
        {"tool_calls": [{"index": index, **call}]}
        for index, call in enumerate(message.get("tool_calls") or ())
    ]
    return [*pieces, *calls]


def failure(
    status: int, message: str = "it failed", *, retry_after: str | None = None, **error: Any
) -> Reply:
    """An error as providers write it; `retry_after` becomes the header of that name."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    body = {"error": {"message": message, "code": status, **error}}
    return Reply((json.dumps(body).encode(),), status=status, headers=headers)


def raw(body: bytes, *, status: int = 200, content_type: str = "application/json") -> Reply:
    """Any bytes at all: half of a JSON document, an HTML page, nothing."""
    return Reply((body,), status=status, content_type=content_type)


def broken_off(reply: Reply) -> Reply:
    """The same reply, but the connection ends in the middle of it."""
    body = b"".join(reply.pieces)
    half = body[: len(body) // 2]
    return Reply(
        (half,),
        headers={"Content-Length": str(len(body))},
        whole=False,
        content_type=reply.content_type,
    )


def held_back(reply: Reply, until: asyncio.Event) -> Reply:
    """The same reply, sent only once the event is set."""

    async def wait(_: int) -> None:
        await until.wait()

    return Reply(reply.pieces, reply.status, reply.headers, reply.content_type, reply.whole, wait)


class ModelServer:
    """The server while it runs; use `model_server`."""

    def __init__(self, script: Script) -> None:
        self.requests: list[Request] = []
        models = {"object": "list", "data": [{"id": "served-model"}]}
        self.pages: dict[str, Reply] = {"/v1/models": raw(json.dumps(models).encode())}
        """What is sent for a path other than that of the chat completions."""
        self._script = list(script)
        self._handlers: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        """The base URL that a client is given."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def chats(self) -> list[Request]:
        """The requests for a chat completion."""
        return [each for each in self.requests if each.path.endswith("/chat/completions")]

    def script(self, *replies: "Reply | Callable[[Request], Reply]") -> None:
        """Replace what is still to be sent."""
        self._script = list(replies)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, with as many requests as the client likes."""
        task = asyncio.current_task()
        if task is not None:
            self._handlers.add(task)
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                if not await _write(writer, self._reply_to(request)):
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()
            if task is not None:
                self._handlers.discard(task)

    async def hang_up(self) -> None:
        """End every connection."""
        for task in tuple(self._handlers):
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    def _reply_to(self, request: Request) -> Reply:
        if request.path in self.pages:
            return self.pages[request.path]
        if not request.path.endswith("/chat/completions"):
            return failure(404, f"no such path: {request.path}")
        step = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        reply = step(request) if callable(step) else step
        return as_events(reply) if request.wants_stream else reply


@asynccontextmanager
async def model_server(*script: "Reply | Callable[[Request], Reply]") -> AsyncIterator[ModelServer]:
    """A model server on a free port of this machine, until the block ends."""
    model = ModelServer(script or (answer("ok"),))
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    model.port = server.sockets[0].getsockname()[1]
    try:
        yield model
    finally:
        server.close()
        await model.hang_up()
        await server.wait_closed()


def _finish(reason: str | None) -> dict[str, str | None]:
    """Why the answer ended, as OpenAI writes it and as OpenRouter adds to it."""
    return {"finish_reason": reason, "native_finish_reason": reason}


def _usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
    }


def _events(
    choices: Sequence[Mapping[str, Any]],
    usage: Mapping[str, int],
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Reply:
    head = {
        **{key: value for key, value in more.items() if key not in ("choices", "usage")},
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_767_268_800,
        "model": "served-model",
        "provider": "Loopback",
    }
    chunks: list[dict[str, Any]] = [
        {**head, "choices": [{"index": 0, **choice, **_finish(choice["finish_reason"])}]}
        for choice in choices
    ]
    chunks.append({**head, "choices": [], "usage": dict(usage)})
    lines = [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks]
    return Reply((*lines, b"data: [DONE]\n\n"), content_type="text/event-stream")


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path.partition("?")[0], headers, body)


async def _write(writer: asyncio.StreamWriter, reply: Reply) -> bool:
    """Send the reply; says whether the connection can be used again."""
    headers = {
        "Content-Type": reply.content_type,
        "Content-Length": str(sum(map(len, reply.pieces))),
        "X-Request-Id": "request-1",
        **reply.headers,
    }
    lines = [f"HTTP/1.1 {reply.status} {_REASONS.get(reply.status, 'Status')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    for number, piece in enumerate(reply.pieces):
        if reply.before_piece is not None:
            await reply.before_piece(number)
        writer.write(piece)
        await writer.drain()
    return reply.whole
