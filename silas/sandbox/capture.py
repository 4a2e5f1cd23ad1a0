"""Reads what a command writes, without ever holding more than was asked for."""

import asyncio
import os
from dataclasses import dataclass, field
from typing import Literal

from silas.sandbox.models import SandboxLimits
from silas.sandbox.ports import OutputListener

_CHUNK = 64 * 1024
StreamName = Literal["stdout", "stderr"]


@dataclass
class _Stream:
    name: StreamName
    descriptor: int
    kept: bytearray = field(default_factory=bytearray)
    truncated: bool = False


class Capture:
    """The two output streams of one command.

    The beginning of each is kept; what comes after is read and dropped, so that the command does
    not block. `flooded` is done when it has written more than anyone should have to read.
    """

    def __init__(self, limits: SandboxLimits, listener: OutputListener | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._listener = listener
        self._total = 0
        self._streams: dict[StreamName, _Stream] = {}
        self.flooded: asyncio.Future[None] = self._loop.create_future()

    def pipe(self, name: StreamName) -> int:
        """The end for the command to write to; whoever starts the command closes it then."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reading, False)
        stream = self._streams[name] = _Stream(name, reading)
        self._loop.add_reader(reading, self._read, stream)
        return writing

    def take(self, name: StreamName, chunk: bytes) -> None:
        """Keep what still fits, and tell whoever listens."""
        self._keep(self._streams.setdefault(name, _Stream(name, -1)), chunk)

    def kept(self, name: StreamName) -> bytes:
        stream = self._streams.get(name)
        return bytes(stream.kept) if stream else b""

    def truncated(self, name: StreamName) -> bool:
        stream = self._streams.get(name)
        return stream is not None and stream.truncated

    def finish(self) -> None:
        """Take what is still in the pipes and close them. Call it when no writer is left."""
        for stream in self._streams.values():
            while stream.descriptor >= 0 and self._read(stream):
                pass
            self._close(stream)

    def _read(self, stream: _Stream) -> bool:
        try:
            chunk = os.read(stream.descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            self._close(stream)
            return False
        self._keep(stream, chunk)
        return True

    def _keep(self, stream: _Stream, chunk: bytes) -> None:
        room = self._limits.output_bytes - len(stream.kept)
        stream.kept += chunk[:room]
        stream.truncated = stream.truncated or len(chunk) > room
        self._total += len(chunk)
        if self._total > self._limits.flood_bytes:
            if not self.flooded.done():
                self.flooded.set_result(None)
        elif self._listener is not None:
            self._listener(stream.name, chunk)

    def _close(self, stream: _Stream) -> None:
        if stream.descriptor >= 0:
            self._loop.remove_reader(stream.descriptor)
            os.close(stream.descriptor)
            stream.descriptor = -1
