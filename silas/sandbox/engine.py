"""A small client for the Docker HTTP API on a Unix socket; Podman's socket speaks it too.

Six calls do not need a library with its own HTTP stack, and asyncio can cancel these.
"""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from silas.sandbox.errors import BackendUnavailable, ContainerEngineFailed

_API = "/v1.41"
_MOST_HEADERS = 64 * 1024
_FRAME_HEADER = 8
_STREAMS = {1: "stdout", 2: "stderr"}


@dataclass(frozen=True)
class Answer:
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

    async def ask(self, method: str, path: str, body: Any = None, **query: str | int) -> Answer:
        """One request; any answer is returned, also a refusal."""
        reader, writer = await self._connect()
        try:
            with self._our_errors():
                await _send(writer, method, f"{_API}{path}?{urlencode(query)}", body)
                status, headers = await _head(reader)
                return Answer(status, await _body(reader, headers))
        finally:
            writer.close()

    async def expect(self, method: str, path: str, body: Any = None, **query: str | int) -> Any:
        """One request that must succeed; its answer as data."""
        answer = await self.ask(method, path, body, **query)
        if not answer.ok:
            raise ContainerEngineFailed(f"The container engine refused: {answer.message}")
        return answer.json if answer.body.strip() else None

    async def attach(self, container: str, *, stdin: bool) -> "Attachment | Answer":
        """The streams of a container that has not started yet, or the engine's refusal."""
        reader, writer = await self._connect()
        query = urlencode({"stream": 1, "stdin": int(stdin), "stdout": 1, "stderr": 1})
        path = f"{_API}/containers/{container}/attach?{query}"
        try:
            with self._our_errors():
                await _send(writer, "POST", path, None, upgrade=True)
                status, headers = await _head(reader)
                refusal = Answer(status, await _body(reader, headers)) if status >= 400 else None
        except BaseException:
            writer.close()
            raise
        if refusal is not None:
            writer.close()
            return refusal
        return Attachment(reader, writer)

    @contextmanager
    def _our_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            raise ContainerEngineFailed(f"{self._socket} gave no proper answer: {error}") from error

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_unix_connection(self._socket)
        except OSError as error:
            reason = error.strerror or str(error)
            raise BackendUnavailable(f"No container engine at {self._socket}: {reason}.") from error


class Attachment:
    """A container's standard streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        """Give the container its input, then the end of it."""
        self._writer.write(data)
        await self._writer.drain()
        self._writer.write_eof()

    async def frame(self) -> tuple[str, bytes] | None:
        """The next piece of output and its stream; nothing at the end."""
        try:
            header = await self._reader.readexactly(_FRAME_HEADER)
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


async def _send(
    writer: asyncio.StreamWriter, method: str, path: str, body: Any, *, upgrade: bool = False
) -> None:
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(content)}"]
    lines.append("Content-Type: application/json")
    lines += ["Connection: Upgrade", "Upgrade: tcp"] if upgrade else ["Connection: close"]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
    await writer.drain()


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    if len(text) > _MOST_HEADERS:
        raise ValueError("its headers are too long")
    first, *rest = text.split("\r\n")
    headers = {}
    for line in rest:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    version, _, status = first.partition(" ")
    if not version.startswith("HTTP/"):
        raise ValueError("this is not HTTP")
    return int(status[:3]), headers


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return await _chunks(reader)
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    return await reader.read()


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    whole = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        whole += (await reader.readexactly(size + 2))[:size]
    return whole
