"""The real server, `silas start`, in processes that can be killed; and somebody who talks to it.

Servers are forked from a process that has imported everything and has no threads, so that a start
takes a fraction of a second. From there on they are what `silas start` is.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from websockets.exceptions import WebSocketException

from silas.cli import start as _imported_for_the_children  # noqa: F401
from silas.cli.main import main as silas
from tests.chaos import Runner, serve_runner
from tests.web.place import Line, TestDevice, environ_for, make_home

_GONE = (OSError, WebSocketException, httpx.HTTPError, KeyError, TimeoutError)
_PATIENCE = 180.0
_OUTPUT = "served.txt"


@dataclass
class Served:
    """One data directory, and the server that may be running on it."""

    root: Path
    environ: dict[str, str]
    runner: Runner
    pid: int = 0
    """Of the server that runs; 0 if none does."""

    @classmethod
    async def make(cls, root: Path, runner: Runner, **more: str) -> "Served":
        environ = environ_for(root, PATH=os.environ["PATH"], **more)
        await make_home(root, environ)
        served = cls(root, environ, runner)
        (root / "environ.json").write_text(
            json.dumps({**environ, "SILAS_DATA_DIR": f"{root}/data"})
        )
        return served

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.environ['SILAS_CHANNELS__WEB__PORT']}"

    @property
    def home(self) -> Path:
        return Path(self.environ["HOME"])

    def start(self) -> int:
        (self.root / _OUTPUT).write_text("")
        self.pid = self.runner.run(self.root)
        return self.pid

    def end(self, number: signal.Signals) -> int:
        """Send a signal to the server and wait for its end; returns how it ended."""
        pid, self.pid = self.pid, 0
        os.kill(pid, number)
        return self.runner.wait()

    async def up(self) -> dict[str, Any]:
        """What the server says when it is up."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE
        while asyncio.get_running_loop().time() < deadline:
            with contextlib.suppress(ValueError):
                said: dict[str, Any] = json.loads((self.root / _OUTPUT).read_text())
                return said
            await asyncio.sleep(0.02)
        raise AssertionError((self.root / "errors.txt").read_text()[-2000:])

    async def device(self) -> TestDevice:
        """A device that is paired with the server that runs."""
        device = TestDevice(self.address)
        code = (await self.up())["link"].partition("#pair=")[2]
        assert (await device.pair(code)).status_code == 200
        return device


@dataclass
class Talker:
    """A client of the real protocol that comes back whenever the server does.

    What was not accepted is sent again, under its own id; what was heard is remembered.
    """

    device: TestDevice
    to_say: list[str]
    verdict_of: Callable[[dict[str, Any]], str | None]
    frames: list[dict[str, Any]] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    heard: dict[int, dict[str, Any]] = field(default_factory=dict)
    cards: dict[str, str] = field(default_factory=dict)
    """Every card that was seen, with its title."""
    decided: dict[str, str] = field(default_factory=dict)
    """What the server has said about each card that was decided."""
    reconnected: int = 0

    async def talk(self) -> None:
        """Go on until cancelled."""
        while True:
            with contextlib.suppress(*_GONE):
                async with asyncio.timeout(30), self.device.socket() as socket:
                    await self._converse(Line(self.device, socket))
            await asyncio.sleep(0.03)

    async def _converse(self, line: Line) -> None:
        await line.enter(delivery=max(self.heard, default=0))
        self.reconnected += 1
        for text in self.to_say[len(self.frames) :]:
            self.frames.append(line.message(text))
        for frame in self.frames:
            if frame["message_id"] not in self.accepted:
                await line.send(frame)
        for frame in [*line.unread]:
            await self._take(line, frame)
        while True:
            await self._take(line, json.loads(await line.socket.recv()))

    async def _take(self, line: Line, frame: dict[str, Any]) -> None:
        kind = frame["type"]
        if kind == "accepted":
            self.accepted.add(frame["message_id"])
        elif kind == "message" and frame["sender"] == "silas":
            self._hear(frame)
        elif kind == "history":
            for message in frame["messages"]:
                if message["sender"] == "silas":
                    self._hear(message)
        elif kind == "approval_request":
            await self._decide(line, frame)
        elif kind == "card_closed" and frame["request_id"] in self.cards:
            self.decided[frame["request_id"]] = frame["state"]

    def _hear(self, message: dict[str, Any]) -> None:
        before = self.heard.setdefault(message["number"], message)
        assert before["message_id"] == message["message_id"], "a number was given twice"

    async def _decide(self, line: Line, card: dict[str, Any]) -> None:
        if card["title"].startswith("Undo"):
            return  # nobody wants to
        self.cards[card["request_id"]] = card["title"]
        if card["state"] != "open":
            self.decided[card["request_id"]] = card["state"]
        elif verdict := self.verdict_of(card):
            await line.send(line.decision(card, verdict))


def run(root: Path) -> int:
    os.environ.clear()
    os.environ.update(json.loads((root / "environ.json").read_text()))
    os.chdir(root)
    for name, number, flags in (
        (_OUTPUT, 1, os.O_TRUNC),
        ("errors.txt", 2, os.O_APPEND),
        ("/dev/null", 0, 0),
    ):
        os.dup2(os.open(root / name, os.O_RDWR | os.O_CREAT | flags, 0o600), number)
    sys.argv = ["silas", "start", "--no-open", "--json"]
    try:
        silas(sys.argv[1:])
    except SystemExit as end:
        sys.stdout.flush()
        return end.code if isinstance(end.code, int) else 0
    return 0


if __name__ == "__main__":
    serve_runner(run)
