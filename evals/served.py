"""A Silas in a process of its own, and devices of the owner's that talk to it.

`silas_server` sets one up and starts it; `BenchDevice` is paired with it. `RawSocket` is a client
that costs next to nothing, so that the server is what is measured; `Page` speaks the protocol that
the browser speaks, and hands each frame to whoever waits for it.
"""

import asyncio
import base64
import contextlib
import json
import os
import secrets
import socket as sockets
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from silas.approval import PublicKey, message_bytes
from silas.kernel import SystemClock, canonical_bytes, format_timestamp
from silas.web.access import request_bytes

SILAS = (sys.executable, "-m", "silas")
_SECONDS = 60
_SHORT, _MEDIUM = 126, 127
_PING, _PONG = 0x89, 0x8A


def masked(text: bytes) -> bytes:
    """One text frame as a client sends it; the mask is zero, which every server takes."""
    size = len(text)
    if size < _SHORT:
        return bytes([0x81, 0x80 | size]) + b"\0\0\0\0" + text
    return bytes([0x81, 0x80 | _SHORT]) + struct.pack(">H", size) + b"\0\0\0\0" + text


class RawSocket:
    """One connection: frames in, frames out, nothing checked."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> "RawSocket":
        """Connect and upgrade."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 101 " not in head.split(b"\r\n", 1)[0]:
            raise ConnectionError(head.decode())
        return cls(reader, writer)

    def send(self, frame: bytes) -> None:
        """Send a frame that `masked` made."""
        self._writer.write(frame)

    async def receive(self) -> bytes:
        """The text of the next frame; pings are answered, as browsers do."""
        while True:
            kind, size = await self._reader.readexactly(2)
            if size == _SHORT:
                (size,) = struct.unpack(">H", await self._reader.readexactly(2))
            elif size == _MEDIUM:
                (size,) = struct.unpack(">Q", await self._reader.readexactly(8))
            text = await self._reader.readexactly(size)
            if kind != _PING:
                return text
            self._writer.write(bytes([_PONG, 0x80 | size]) + b"\0\0\0\0" + text)

    async def stay(self) -> None:
        """Be there, and say nothing."""
        while True:
            await self.receive()

    async def receive_type(self, kind: str) -> dict[str, Any]:
        """The next frame of Silas's of this type."""
        while True:
            frame: dict[str, Any] = json.loads(await self.receive())
            if frame["type"] == kind:
                return frame

    def close(self) -> None:
        self._writer.close()


class BenchDevice:
    """A device of the owner's, paired over HTTP."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._key = Ed25519PrivateKey.generate()
        self.origin = f"http://127.0.0.1:{port}"
        self._public = self._key.public_key().public_bytes_raw().hex()

    def pair(self, code: str) -> None:
        """Use the code of a link up."""
        body = {"code": code, "public_key": self._public, "name": "bench"}
        proof = {"type": "pair", "origin": self.origin, **body}
        request = urllib.request.Request(
            f"{self.origin}/api/pair",
            data=json.dumps({**body, "signature": self.signed(proof)}).encode(),
            headers={"Content-Type": "application/json", "Origin": self.origin},
        )
        with urllib.request.urlopen(request) as answer:
            answer.read()

    async def enter(self) -> RawSocket:
        """A conversation that was let in and has heard everything that it is told at first."""
        socket = await RawSocket.open(self.port)
        hello = await socket.receive_type("hello")
        socket.send(masked(json.dumps(self.auth(hello["challenge"])).encode()))
        await socket.receive_type("history")
        socket.send(masked(b'{"type":"ping"}'))
        await socket.receive_type("pong")
        return socket

    def auth(self, challenge: str) -> dict[str, Any]:
        """The frame that lets this device in."""
        name = PublicKey.from_hex(self._public).key_id
        proof = {"type": "auth", "challenge": challenge, "device_id": name, "origin": self.origin}
        return {"type": "auth", "device_id": name, "signature": self.signed(proof)}

    def signed(self, value: dict[str, Any]) -> str:
        """The device's signature over this, as frames carry it."""
        return self.sign(canonical_bytes(value))

    def sign(self, payload: bytes) -> str:
        """The same over bytes."""
        return base64.b64encode(self._key.sign(payload)).decode()


Frame = dict[str, Any]
LONGEST_WAIT = 120.0
_LARGEST = 2**24


@dataclass(frozen=True)
class _Expected:
    kind: str
    fits: Callable[[Frame], bool]
    answer: asyncio.Future[Frame]


@dataclass
class Page:
    """Let in, reading everything; whoever waits for a frame gets it."""

    device: BenchDevice
    watch: Callable[[Frame], None] | None = None
    """Is shown every frame."""
    delivery: int = 0
    said: int = 0
    _socket: ClientConnection | None = None
    _cookie: str = ""
    _expected: list[_Expected] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Be there until the end of the block; a page that comes again says what it has read."""
        address = f"{self.device.origin.replace('http', 'ws')}/ws"
        origin = Origin(self.device.origin)
        async with connect(
            address, origin=origin, proxy=None, max_size=_LARGEST, open_timeout=LONGEST_WAIT
        ) as socket:
            self._socket = socket
            hello = json.loads(await socket.recv())
            reading = asyncio.create_task(self._read(socket))
            try:
                ready = self.expect("ready")
                position = {"delivery": self.delivery, "said": self.said}
                await self.send({**self.device.auth(hello["challenge"]), **position})
                await self._open_session((await ready)["ticket"])
                yield
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
                self._socket = None

    def expect(
        self, kind: str, fits: Callable[[Frame], bool] = lambda _frame: True
    ) -> asyncio.Future[Frame]:
        """The next frame of this kind that fits; to be asked for before it can have come."""
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._expected.append(_Expected(kind, fits, answer))
        return answer

    async def send(self, frame: Frame) -> None:
        """Send one frame."""
        if self._socket is None:
            raise ConnectionError("The page is not open.")
        await self._socket.send(json.dumps(frame))

    async def say(self, text: str, *, name: str | None = None) -> asyncio.Future[Frame]:
        """Say something, under a name from `new_name`; returns what Silas will answer first."""
        now, nonce, name = SystemClock().now(), secrets.token_hex(8), name or new_name()
        signed = message_bytes(text=text, timestamp=now, nonce=nonce)
        trace = trace_of(name)
        accepted = self.expect("accepted", lambda frame: frame["message_id"] == name)
        answer = self.expect(
            "message", lambda frame: frame["sender"] == "silas" and frame["trace_id"] == trace
        )
        await self.send(
            {
                "type": "message",
                "text": text,
                "message_id": name,
                "timestamp": format_timestamp(now),
                "nonce": nonce,
                "signature": self.device.sign(signed),
            }
        )
        await asyncio.wait_for(accepted, LONGEST_WAIT)
        return answer

    async def hear(self, text: str) -> Frame:
        """Say something, and hear the answer."""
        return await asyncio.wait_for(await self.say(text), LONGEST_WAIT)

    async def get(self, path: str) -> Any:
        """Read with the session's cookie."""
        async with self._http() as client:
            return _body(await client.get(path))

    async def post(self, path: str, body: Any) -> Any:
        """A change, signed by the device."""
        content, nonce = json.dumps(body).encode(), secrets.token_hex(8)
        at = format_timestamp(SystemClock().now())
        signed = request_bytes(method="POST", path=path, body=content, timestamp=at, nonce=nonce)
        headers = {
            "Content-Type": "application/json",
            "Silas-Timestamp": at,
            "Silas-Nonce": nonce,
            "Silas-Signature": self.device.sign(signed),
        }
        async with self._http() as client:
            return _body(await client.post(path, content=content, headers=headers))

    async def _open_session(self, ticket: str) -> None:
        async with self._http() as client:
            answer = await client.post("/api/session", json={"ticket": ticket})
        answer.raise_for_status()
        self._cookie = answer.cookies["silas_session"]

    def _http(self) -> httpx.AsyncClient:
        headers = {"Origin": self.device.origin, "Cookie": f"silas_session={self._cookie}"}
        return httpx.AsyncClient(
            base_url=self.device.origin,
            headers=headers,
            timeout=LONGEST_WAIT,
            verify=False,
            trust_env=False,
        )

    async def _read(self, socket: ClientConnection) -> None:
        try:
            async for text in socket:
                self._take(json.loads(text))
        except ConnectionClosed:
            pass  # told below, like an orderly end
        for each in self._expected:
            if not each.answer.done():
                each.answer.set_exception(ConnectionError("The server has closed the page."))
        self._expected.clear()

    def _take(self, frame: Frame) -> None:
        self._note(frame)
        for each in self._expected:
            if each.kind == frame["type"] and not each.answer.done() and each.fits(frame):
                each.answer.set_result(frame)
        self._expected = [each for each in self._expected if not each.answer.done()]
        if self.watch is not None:
            self.watch(frame)

    def _note(self, frame: Frame) -> None:
        """How far this page has read."""
        messages = frame["messages"] if frame["type"] == "history" else [frame]
        for each in messages:
            if each["type"] == "message" and each["sender"] == "silas":
                self.delivery = max(self.delivery, each["number"])
            elif each["type"] == "message":
                self.said = max(self.said, each["number"])


def new_name() -> str:
    """The id of a message that is to be said."""
    return f"msg_{secrets.token_hex(8)}"


def trace_of(name: str) -> str:
    """The trace of everything that follows from it."""
    return f"trace_{name}"


def _body(answer: httpx.Response) -> Any:
    answer.raise_for_status()
    return answer.json()


@dataclass(frozen=True)
class Running:
    """A server in a process of its own."""

    port: int
    pid: int

    def memory(self) -> int:
        """What it holds, in bytes."""
        pages = Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGESIZE")

    def cpu_seconds(self) -> float:
        """What it has computed so far: a busy machine does not change that."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.asynccontextmanager
async def silas_server(
    folder: Path, *, program: Sequence[str] = SILAS, **more: str
) -> AsyncIterator[tuple[Running, BenchDevice]]:
    """A Silas that was set up just now, with one paired device; `more` is of its environment."""
    environment = {**environment_for(folder), **more}
    setup = [*SILAS, "init", "--yes"]
    await asyncio.to_thread(subprocess.run, setup, env=environment, check=True, capture_output=True)
    port = free_port()
    command = [*program, "start", "--no-open", "--json", "--port", str(port)]
    start = partial(subprocess.Popen, command, env=environment, stdout=subprocess.PIPE, text=True)
    with await asyncio.to_thread(start) as process:
        try:
            device = BenchDevice(port)
            device.pair(await asyncio.to_thread(_code, process))
            yield Running(port, process.pid), device
        finally:
            process.terminate()


def environment_for(folder: Path) -> dict[str, str]:
    """A data directory of its own, and a vault that asks nobody."""
    return {
        **os.environ,
        "SILAS_DATA_DIR": str(folder / "web"),
        "SILAS_VAULT_PASSPHRASE": "for the benchmark only",
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        "XDG_CONFIG_HOME": str(folder),
        "HOME": str(folder),
    }


def _code(process: subprocess.Popen[str]) -> str:
    """The pairing code in what `silas start --json` says first."""
    told = ""
    for line in process.stdout or ():
        told += line
        if line == "}\n":
            return str(json.loads(told)["link"]).partition("#pair=")[2]
    raise RuntimeError(f"Silas did not start: {told}")


def wait_for_200(port: int, process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> float:
    """Wait until a server answers; returns the moment."""
    until = time.perf_counter() + _SECONDS
    while process.poll() is None and time.perf_counter() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                return time.perf_counter()
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.002)
    raise RuntimeError("The server does not answer.")


def free_port() -> int:
    with sockets.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
