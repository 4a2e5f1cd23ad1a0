"""A WebSocket client that costs next to nothing, so that the server is what is measured."""

import asyncio
import base64
import json
import os
import struct
import urllib.request
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from silas.approval import PublicKey
from silas.kernel import canonical_bytes

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
