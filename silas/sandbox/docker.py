"""The `docker` backend: one container for each command, through Docker's API or Podman's.

The image brings programs and libraries; the listed paths are mounted at their own place. The
container has no network unless it was asked for, no privileges, a read-only root and its own /tmp.
"""

import asyncio
import os
import secrets
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from silas.kernel import Clock, SandboxError, SystemClock
from silas.sandbox import runtime
from silas.sandbox.capture import Capture
from silas.sandbox.engine import Answer, Attachment, Engine, find_socket
from silas.sandbox.errors import CommandRefused, ContainerEngineFailed, SandboxNotStarted
from silas.sandbox.models import (
    MEBIBYTE,
    TEMPORARY,
    BackendReport,
    Limit,
    SandboxLimits,
    SandboxRequest,
    SandboxResult,
)
from silas.sandbox.pins import Pin, pin_all
from silas.sandbox.ports import OutputListener
from silas.sandbox.supervise import (
    KILLED,
    NO_SUCH_PROGRAM,
    NOT_EXECUTABLE,
    Run,
    probe_by_running,
    to_the_end,
)

DEFAULT_IMAGE = "python:3.12-slim"
_OWNER_LABEL = "silas.owner"
_NOT_THERE = 404
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 0.0)
_LONGEST_ARGUMENT, _LONGEST_COMMAND = 128 * 1024, 2 * MEBIBYTE - 4096
_MISSING = ("not found", "no such file")
_REFUSED = ("permission denied", "exec format error", "is a directory")

CONTAINS = (
    "files: only the image and the listed paths are visible",
    "network: none, unless it was asked for",
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
        _refuse_too_long(request)
        engine = Engine(self._socket or find_socket())
        await self._prepare(engine)
        run = Run(request, self._clock, on_output)
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
        self, engine: Engine, name: str, request: SandboxRequest, run: Run
    ) -> tuple[Answer | None, Limit | None]:
        """Start it and read until it ends: the engine's refusal if it did not start, the limit."""
        attachment = await engine.attach(name, stdin=bool(request.stdin))
        if isinstance(attachment, Answer):
            return attachment, None
        try:
            started = await engine.ask("POST", f"/containers/{name}/start")
            if not started.ok:
                return started, None
            reading = asyncio.ensure_future(_read(attachment, request.stdin, run.capture))
            return None, await run.watch_task(reading)
        finally:
            attachment.close()

    def _container(self, request: SandboxRequest, pins: list[Pin]) -> dict[str, Any]:
        limits = request.limits
        user = "0:0" if self._rootless else f"{os.geteuid()}:{os.getegid()}"
        environment = runtime.environment(request)
        return {
            "Image": self._image,
            "Entrypoint": list(request.argv),
            "Cmd": [],
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "WorkingDir": request.cwd,
            "User": user,
            "Hostname": runtime.HOSTNAME,
            "Labels": {_OWNER_LABEL: _owner(os.getpid())},
            "AttachStdin": bool(request.stdin),
            "AttachStdout": True,
            "AttachStderr": True,
            "OpenStdin": bool(request.stdin),
            "StdinOnce": bool(request.stdin),
            "HostConfig": {
                # Never a name from a request: "container:x" would be another container's network.
                "NetworkMode": "bridge" if request.network else "none",
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


def _refuse_too_long(request: SandboxRequest) -> None:
    """The kernel's own limits; an engine would report them as the command's failure."""
    pairs = (f"{name}={value}" for name, value in runtime.environment(request).items())
    sizes = [len(os.fsencode(text)) + 1 for text in (*request.argv, *pairs)]
    if max(sizes) > _LONGEST_ARGUMENT or sum(sizes) > _LONGEST_COMMAND:
        raise CommandRefused("The command cannot be started: Argument list too long.")


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


async def _read(attachment: Attachment, stdin: bytes, capture: Capture) -> None:
    if stdin:
        await attachment.send(stdin)
    while (frame := await attachment.frame()) is not None:
        stream, data = frame
        capture.take("stderr" if stream == "stderr" else "stdout", data)


async def _outcome(
    engine: Engine, name: str, refusal: Answer | None, limit: Limit | None
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
    for pause in _PAUSES:
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
