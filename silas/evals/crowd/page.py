"""One device of the owner's with its page open: the protocol that the browser speaks."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from silas.approval import message_bytes
from silas.evals.bench.web_client import BenchDevice
from silas.kernel import SystemClock, format_timestamp
from silas.web.sessions import request_bytes

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
        async with connect(address, origin=origin, proxy=None, max_size=_LARGEST) as socket:
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
            base_url=self.device.origin, headers=headers, timeout=LONGEST_WAIT, trust_env=False
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
