"""The `docker` backend: one container for each command, through Docker's API or Podman's.

The image brings programs and libraries; the listed paths are mounted at their own place. The
container has no network, no privileges, a read-only root and its own /tmp.

A client for the Docker HTTP API on a Unix socket; Podman's socket speaks it too.

Requests go through httpx. Only `attach` is written by hand: it turns the connection into the
container's standard streams, which no HTTP client gives away.
"""

import asyncio
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from silas.kernel import Clock, SandboxError, SystemClock
from silas.sandbox import environment
from silas.sandbox.command_run import (
    KILLED,
    NO_SUCH_PROGRAM,
    NOT_EXECUTABLE,
    Capture,
    CommandRun,
    probe_by_running,
    to_the_end,
)
from silas.sandbox.environment import Pin, pin_all
from silas.sandbox.errors import (
    BackendUnavailable,
    CannotContain,
    CommandRefused,
    ContainerEngineFailed,
    SandboxNotStarted,
)
from silas.sandbox.models import (
    MEBIBYTE,
    TEMPORARY,
    BackendReport,
    Limit,
    OutputListener,
    SandboxLimits,
    SandboxRequest,
    SandboxResult,
)

_API = "/v1.41"
_MAX_HEADER_BYTES = 64 * 1024
_FRAME_HEADER_BYTES = 8
_STREAMS = {1: "stdout", 2: "stderr"}
_ATTACH_HEAD = (
    "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n"
    "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
)
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_NO_BODY = re.compile(rb"\r\ncontent-length:\s*0\r\n", re.IGNORECASE)


@dataclass(frozen=True)
class EngineAnswer:
    """What the engine said."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return self.status < 400

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"null")

    @property
    def message(self) -> str:
        try:
            return str(self.json["message"])
        except (ValueError, TypeError, KeyError):
            return self.body.decode(errors="replace").strip() or f"status {self.status}"


class Engine:
    """One container engine, reached through its socket."""

    def __init__(self, socket: str) -> None:
        self._socket = socket

    async def ask(
        self, method: str, path: str, body: Any = None, **query: str | int
    ) -> EngineAnswer:
        """One request; any answer is returned, also a refusal."""
        # A Unix socket has no TLS to verify. Starting and waiting take as long as they take: the
        # limit of the command's wall clock ends them.
        transport = httpx.AsyncHTTPTransport(uds=self._socket, verify=False)
        with self._our_errors():
            async with httpx.AsyncClient(
                transport=transport,
                base_url="http://localhost",
                timeout=httpx.Timeout(None),
                trust_env=False,
            ) as client:
                answer = await client.request(method, f"{_API}{path}", json=body, params=query)
                if sum(len(name) + len(value) for name, value in answer.headers.raw) > (
                    _MAX_HEADER_BYTES
                ):
                    raise ValueError("its headers are too long")
                return EngineAnswer(answer.status_code, answer.content)

    async def expect(self, method: str, path: str, body: Any = None, **query: str | int) -> Any:
        """One request that must succeed; its answer as data."""
        answer = await self.ask(method, path, body, **query)
        if not answer.ok:
            raise ContainerEngineFailed(f"The container engine refused: {answer.message}")
        with self._our_errors():
            return answer.json if answer.body.strip() else None

    async def attach(self, container: str, *, stdin: bool) -> "Attachment | EngineAnswer":
        """The streams of a container that has not started yet, or the engine's refusal."""
        query = httpx.QueryParams(stream=1, stdin=int(stdin), stdout=1, stderr=1)
        with self._our_errors():
            reader, writer = await self._connect()
            try:
                path = f"{_API}/containers/{container}/attach?{query}"
                writer.write(_ATTACH_HEAD.format(path=path).encode())
                await writer.drain()
                refusal = await _refusal(reader)
            except BaseException:
                writer.close()
                raise
        if refusal is None:
            return Attachment(reader, writer)
        writer.close()
        return refusal

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_unix_connection(self._socket, limit=_MAX_HEADER_BYTES)
        except OSError as error:
            raise httpx.ConnectError(error.strerror or str(error)) from error

    @contextmanager
    def _our_errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.ConnectError as error:
            raise BackendUnavailable(f"No container engine at {self._socket}: {error}.") from error
        except asyncio.LimitOverrunError as error:
            sentence = f"{self._socket} gave no proper answer: its headers are too long"
            raise ContainerEngineFailed(sentence) from error
        except (httpx.HTTPError, OSError, ValueError, asyncio.IncompleteReadError) as error:
            raise ContainerEngineFailed(f"{self._socket} gave no proper answer: {error}") from error


async def _refusal(reader: asyncio.StreamReader) -> EngineAnswer | None:
    """Read the head of the answer to `attach`; nothing if the streams follow."""
    head = await reader.readuntil(b"\r\n\r\n")
    found = _STATUS.match(head)
    if found is None:
        raise ValueError("this is not HTTP")
    status = int(found[1])
    if status < 400:
        return None
    body = b"" if _NO_BODY.search(head) else await reader.read(_MAX_HEADER_BYTES)
    return EngineAnswer(status, body)


class Attachment:
    """A container's standard streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Give the container its input, then the end of it.

        Somebody has to read frames meanwhile: a container whose output nobody takes stops reading.
        One that ends or closes its input before it has read everything is no failure.
        """
        with suppress(OSError):
            self._writer.write(data)
            await self._writer.drain()
            self._writer.write_eof()

    async def frame(self) -> tuple[str, bytes] | None:
        """The next piece of output and its stream; nothing at the end."""
        try:
            header = await self._reader.readexactly(_FRAME_HEADER_BYTES)
            data = await self._reader.readexactly(int.from_bytes(header[4:]))
        except (asyncio.IncompleteReadError, OSError):
            return None
        return _STREAMS.get(header[0], "stdout"), data

    def close(self) -> None:
        self._writer.close()


def find_socket(environment: Mapping[str, str] = os.environ) -> str:
    """Where an engine listens: what DOCKER_HOST says, else the usual places."""
    named = environment.get("DOCKER_HOST", "")
    if named:
        if not named.startswith("unix://"):
            raise BackendUnavailable(f"DOCKER_HOST={named}: only Unix sockets can be used.")
        return named.removeprefix("unix://")
    runtime = environment.get("XDG_RUNTIME_DIR", "/run/user/none")
    usual = ("/var/run/docker.sock", f"{runtime}/podman/podman.sock", "/run/podman/podman.sock")
    for path in usual:
        if Path(path).is_socket():
            return path
    raise BackendUnavailable("Neither Docker nor Podman listens on its usual socket.")


DEFAULT_IMAGE = "python:3.12-slim"
_OWNER_LABEL = "silas.owner"
_NOT_THERE = 404
_REMOVAL_PAUSES_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 0.0)
_MAX_ARGUMENT_BYTES, _MAX_COMMAND_BYTES = 128 * 1024, 2 * MEBIBYTE - 4096
_MISSING = ("not found", "no such file")
_REFUSED = ("permission denied", "exec format error", "is a directory")

CONTAINS = (
    "files: only the image and the listed paths are visible",
    "network: none; commands that list hosts are refused",
    "processes: those of the host are neither visible nor reachable, and none survives",
    "system calls: what the engine's own filter refuses",
    "privileges: none, and none to be gained",
    "limits: time, memory, processes, files, output",
)
DOES_NOT_CONTAIN = (
    "the kernel: a flaw in it is shared with the host",
    "the engine: whoever controls its socket controls the machine",
    "a killed Silas: its containers run on until Silas starts again",
)


class DockerBackend:
    """Runs commands in containers."""

    name = "docker"

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        image: str = DEFAULT_IMAGE,
        socket: str | None = None,
        shared: tuple[str, ...] = (),
    ) -> None:
        """`shared` are host paths that every container may read, as if they were in the image."""
        self._clock = clock or SystemClock()
        self._image = image
        self._socket = socket
        self._shared = shared
        self._rootless: bool | None = None

    async def probe(self) -> BackendReport:
        return await probe_by_running(self, contains=CONTAINS, does_not_contain=DOES_NOT_CONTAIN)

    async def run(
        self, request: SandboxRequest, *, on_output: OutputListener | None = None
    ) -> SandboxResult:
        _refuse_network(request)
        _refuse_too_long(request)
        _refuse_conversation(request)
        engine = Engine(self._socket or find_socket())
        await self._prepare(engine)
        run = CommandRun(request, self._clock, on_output)
        name = f"silas-{secrets.token_hex(8)}"
        with ExitStack() as stack:
            pins = pin_all(request, stack)
            try:
                await engine.expect(
                    "POST", "/containers/create", self._container(request, pins), name=name
                )
                refusal, limit = await self._execute(engine, name, request, run)
                code, limit = await _outcome(engine, name, refusal, limit)
            finally:
                await to_the_end(_remove(engine, name))
            if refusal is not None:
                run.capture.take("stderr", f"{request.argv[0]}: {refusal.message}\n".encode())
            return run.result(self.name, code, limit, not_enforced=())

    async def _prepare(self, engine: Engine) -> None:
        """Once: learn whose root the engine is, and remove what a killed Silas left."""
        if self._rootless is None:
            info = await engine.expect("GET", "/info")
            options = " ".join(info.get("SecurityOptions") or ())
            self._rootless = "rootless" in options
            await _remove_orphans(engine)

    async def _execute(
        self, engine: Engine, name: str, request: SandboxRequest, run: CommandRun
    ) -> tuple[EngineAnswer | None, Limit | None]:
        """Start it and read until it ends: the engine's refusal if it did not start, the limit."""
        attachment = await engine.attach(name, stdin=bool(request.stdin))
        if isinstance(attachment, EngineAnswer):
            return attachment, None
        try:
            started = await engine.ask("POST", f"/containers/{name}/start")
            if not started.ok:
                return started, None
            reading = asyncio.ensure_future(
                _read(attachment, request.stdin, run.capture, one_stream=request.one_stream)
            )
            return None, await run.watch_task(reading)
        finally:
            attachment.close()

    def _container(self, request: SandboxRequest, pins: list[Pin]) -> dict[str, Any]:
        limits = request.limits
        user = "0:0" if self._rootless else f"{os.geteuid()}:{os.getegid()}"
        variables = environment.variables(request)
        return {
            "Image": self._image,
            "Entrypoint": list(request.argv),
            "Cmd": [],
            "Env": [f"{name}={value}" for name, value in variables.items()],
            "WorkingDir": request.cwd,
            "User": user,
            "Hostname": environment.HOSTNAME,
            "Labels": {_OWNER_LABEL: _owner(os.getpid())},
            "AttachStdin": bool(request.stdin),
            "AttachStdout": True,
            "AttachStderr": True,
            "OpenStdin": bool(request.stdin),
            "StdinOnce": bool(request.stdin),
            "HostConfig": {
                # Never a name from a request: "container:x" would be another container's network.
                "NetworkMode": "none",
                "ReadonlyRootfs": True,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges"],
                "IpcMode": "private",
                "Memory": limits.memory_bytes,
                "MemorySwap": limits.memory_bytes,
                "PidsLimit": limits.processes,
                "ShmSize": limits.temporary_bytes // 4,
                "Tmpfs": {TEMPORARY: f"rw,mode=1777,size={limits.temporary_bytes}"},
                "Ulimits": _ulimits(limits),
                "Mounts": [
                    *(_mount(path, writable=False) for path in self._shared),
                    *(_mount(entry.path, writable=entry.writable) for entry in pins),
                ],
            },
        }


def _refuse_network(request: SandboxRequest) -> None:
    """The engine makes the namespace, in a machine of its own perhaps: we cannot listen in it."""
    if request.reaches_out:
        raise CannotContain(
            "The docker backend cannot keep a command to the listed hosts, so nothing was run. "
            "Use bubblewrap for commands with network."
        )


def _refuse_too_long(request: SandboxRequest) -> None:
    """The kernel's own limits; an engine would report them as the command's failure."""
    pairs = (f"{name}={value}" for name, value in environment.variables(request).items())
    sizes = [len(os.fsencode(text)) + 1 for text in (*request.argv, *pairs)]
    if max(sizes) > _MAX_ARGUMENT_BYTES or sum(sizes) > _MAX_COMMAND_BYTES:
        raise CommandRefused("The command cannot be started: Argument list too long.")


def _refuse_conversation(request: SandboxRequest) -> None:
    if request.stdin_pipe is not None:
        raise CannotContain(
            "A container gets its whole input at once, and this script is talked to while it "
            "runs. Install bubblewrap, and set sandbox.backend to bubblewrap or auto."
        )


def _ulimits(limits: SandboxLimits) -> list[dict[str, Any]]:
    values = {
        "core": (0, 0),
        "cpu": (limits.cpu_seconds, limits.cpu_seconds + 1),
        "fsize": (limits.file_bytes, limits.file_bytes),
        "nofile": (limits.open_files, limits.open_files),
        "nproc": (limits.processes, limits.processes),
    }
    return [{"Name": name, "Soft": soft, "Hard": hard} for name, (soft, hard) in values.items()]


def _mount(path: str, *, writable: bool) -> dict[str, Any]:
    return {"Type": "bind", "Source": path, "Target": path, "ReadOnly": not writable}


async def _read(
    attachment: Attachment, stdin: bytes, capture: Capture, *, one_stream: bool
) -> None:
    """Read the output to its end, and give the input at the same time."""
    sending = asyncio.ensure_future(attachment.send(stdin)) if stdin else None
    try:
        while (frame := await attachment.frame()) is not None:
            stream, data = frame
            capture.take("stderr" if stream == "stderr" and not one_stream else "stdout", data)
    finally:
        # The command has ended: what it did not read, nobody reads any more.
        if sending is not None:
            sending.cancel()
            await asyncio.wait([sending])


async def _outcome(
    engine: Engine, name: str, refusal: EngineAnswer | None, limit: Limit | None
) -> tuple[int, Limit | None]:
    if refusal is not None:
        return _refusal_code(refusal.message), None
    if limit is not None:
        return KILLED, limit
    await engine.expect("POST", f"/containers/{name}/wait")
    state = (await engine.expect("GET", f"/containers/{name}/json"))["State"]
    return int(state["ExitCode"]), Limit.MEMORY if state.get("OOMKilled") else None


def _refusal_code(message: str) -> int:
    """Engines say only in words that a program is missing."""
    lower = message.lower()
    if any(words in lower for words in _REFUSED):
        return NOT_EXECUTABLE
    if any(words in lower for words in _MISSING):
        return NO_SUCH_PROGRAM
    raise SandboxNotStarted(f"The container did not start: {message}")


async def _remove(engine: Engine, name: str) -> None:
    """Kill and remove it; a container that was never made is no problem."""
    for pause in _REMOVAL_PAUSES_SECONDS:
        answer = await engine.ask("DELETE", f"/containers/{name}", force=1, v=1)
        if answer.ok or answer.status == _NOT_THERE:
            return
        # One that ends by itself at this very moment can be neither killed nor removed yet.
        await asyncio.sleep(pause)
    raise ContainerEngineFailed(f"The container {name} was not removed: {answer.message}")


async def _remove_orphans(engine: Engine) -> None:
    filters = f'{{"label":["{_OWNER_LABEL}"]}}'
    for container in await engine.expect("GET", "/containers/json", all=1, filters=filters) or ():
        owner = container.get("Labels", {}).get(_OWNER_LABEL, "")
        pid, _, _ = owner.partition(":")
        if not pid.isdigit() or _owner(int(pid)) != owner:
            with suppress(SandboxError):
                await _remove(engine, container["Id"])


def _owner(pid: int) -> str:
    """A process, named so that a later one with the same number is not taken for it."""
    try:
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return f"{pid}:gone"
    return f"{pid}:{started}"
