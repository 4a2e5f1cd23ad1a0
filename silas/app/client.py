"""How commands talk to the running Silas: the API, over the owner's socket.

1. Both sides check that the other belongs to the same user, this one before it sends anything.
2. An error of Silas's comes out as it was: the same class, sentence, code and exit code.
3. Where no Silas is running, `NotRunning` says so at once.
"""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silas.kernel import ServerError, SilasError
from silas.settings.paths import Paths
from silas.web.peers import peer_user, short_path

if TYPE_CHECKING:  # commands that only look load nothing that takes long
    from silas.stream.ports import AnswerProgress, Live

LIVE = "/api/live"
_HOST = "http://silas"
_STRANGE = "The socket belongs to another user. Nothing was sent."
_SECONDS_BETWEEN_TRIES = 1.0


class NotRunning(ServerError):
    """No Silas is running for this data directory. Start it with `silas start`."""

    code = "E_SERVER_NOT_RUNNING"


class ServerSilent(ServerError):
    """The running Silas does not answer. Look at its log, or end it with `silas stop --kill`."""

    code = "E_SERVER_SILENT"


class ServerRefused(ServerError):
    """The running Silas refused this. Its answer says why, and what to do."""

    code = "E_SERVER_REFUSED"


def call_server(
    paths: Paths, path: str, body: Mapping[str, Any] | None = None, *, timeout: float = 60.0
) -> Any:
    """The answer of one command of the API, as JSON; raises `NotRunning` if there is no server."""
    with short_path(paths.socket) as address:
        _require_listener(address)
        # Loaded here, and not above: many commands find out without it that nobody is there.
        import httpx  # noqa: PLC0415

        transport = httpx.HTTPTransport(uds=address, verify=False)
        with (
            _translated(paths.socket),
            httpx.Client(transport=transport, base_url=_HOST, timeout=timeout) as client,
        ):
            answer = client.post(
                path,
                content=json.dumps(dict(body or {})).encode(),
                headers={"Content-Type": "application/json"},
                extensions={"trace": _require_own_peer},
            )
    return _result(answer.status_code, answer.content)


def _require_listener(address: str) -> None:
    """Rule 3: whether somebody listens is known before any library is loaded."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            raise NotRunning from None
        except OSError as error:
            raise ServerSilent(f"{ServerSilent.sentence()} ({error})") from error


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Turns what the HTTP client may raise into an error of ours."""
    import httpx  # noqa: PLC0415 - see `call_server`

    try:
        yield
    except httpx.TimeoutException as error:
        raise ServerSilent(f"{path}: {ServerSilent.sentence()} (It timed out.)") from error
    except httpx.HTTPError as error:
        raise ServerSilent(f"{path}: {ServerSilent.sentence()} ({error})") from error


def _is_strange(event: str, info: Mapping[str, Any]) -> bool:
    """Whether a connection was made just now, to somebody else (rule 1)."""
    if event != "connection.connect_unix_socket.complete":
        return False
    return peer_user(info["return_value"].get_extra_info("socket")) != os.getuid()


def _require_own_peer(event: str, info: Mapping[str, Any]) -> None:
    """Called by the HTTP client for each thing that it does."""
    if _is_strange(event, info):
        info["return_value"].close()
        raise ServerError(_STRANGE)


async def _require_own_peer_later(event: str, info: Mapping[str, Any]) -> None:
    if _is_strange(event, info):
        await info["return_value"].aclose()
        raise ServerError(_STRANGE)


def _result(status: int, content: bytes) -> Any:
    try:
        answer = json.loads(content)
    except ValueError as error:
        raise ServerSilent(f"{ServerSilent.sentence()} (The answer makes no sense.)") from error
    if status < 300:
        return answer
    if not isinstance(answer, dict) or not isinstance(answer.get("detail"), str):
        raise ServerSilent(f"{ServerSilent.sentence()} (The answer makes no sense.)")
    raise _as_it_was(answer)


def _as_it_was(answer: Mapping[str, Any]) -> SilasError:
    """Rule 2. An error that this process knows nothing of is told in its words."""
    kind = _kinds().get(str(answer.get("code")))
    if kind is None:
        return ServerRefused(str(answer["detail"]), answer=dict(answer))
    error = kind.__new__(kind)
    # Some classes write their sentence themselves, from what only the server has.
    SilasError.__init__(
        error,
        answer["detail"],
        correlation_id=answer.get("correlation_id"),
        **(answer.get("details") or {}),
    )
    return error


def _kinds() -> dict[str, type[SilasError]]:
    """The errors that have a code of their own, of what is loaded by now."""
    found: dict[str, type[SilasError]] = {}
    waiting = SilasError.__subclasses__()
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if "code" in kind.__dict__:
            found[kind.code] = kind
    return found


@dataclass
class Passing:
    """`Live` that passes on to whoever listens by then."""

    to: "Live | None" = None

    def text(self, connection_id: str, trace_id: str, piece: str, *, start: int) -> None:
        """An answer grows."""
        if self.to is not None:
            self.to.text(connection_id, trace_id, piece, start=start)

    def answering(self, progress: "AnswerProgress") -> None:
        """An answer is at another stage."""
        if self.to is not None:
            self.to.answering(progress)

    def progress(self, trace_id: str, what: str, detail: str = "") -> None:
        """Work goes on."""
        if self.to is not None:
            self.to.progress(trace_id, what, detail)


async def follow_live(paths: Paths, live: "Live") -> None:
    """Pass on what the running Silas tells, for as long as this task lives.

    Nothing relies on it: what matters is delivered through the database.
    """
    await follow_events(paths, lambda event: _pass_on(event, live))


async def follow_events(paths: Paths, hear: Callable[[Mapping[str, Any]], None]) -> None:
    """The same, as it is told: each event with its fields."""
    while True:
        with contextlib.suppress(OSError, ServerError, ValueError):
            await _follow(paths, hear)
        await asyncio.sleep(_SECONDS_BETWEEN_TRIES)


async def _follow(paths: Paths, hear: Callable[[Mapping[str, Any]], None]) -> None:
    import httpx  # noqa: PLC0415 - see `call_server`

    with short_path(paths.socket) as address, _translated(paths.socket):
        _require_listener(address)
        transport = httpx.AsyncHTTPTransport(uds=address, verify=False)
        async with (
            httpx.AsyncClient(
                transport=transport, base_url=_HOST, timeout=httpx.Timeout(None)
            ) as client,
            client.stream("GET", LIVE, extensions={"trace": _require_own_peer_later}) as answer,
        ):
            async for line in answer.aiter_lines():
                hear(json.loads(line))


def _pass_on(event: Mapping[str, Any], live: "Live") -> None:
    from silas.stream.ports import AnswerProgress  # noqa: PLC0415 - loaded by whoever follows

    if "piece" in event:
        live.text(event["connection_id"], event["trace_id"], event["piece"], start=event["start"])
    elif "stage" in event:
        live.answering(AnswerProgress.model_validate(event))
    elif "what" in event:
        live.progress(event["trace_id"], event["what"], event["detail"])
