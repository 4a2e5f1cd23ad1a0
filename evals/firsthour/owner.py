"""The owner of a fresh Silas: a machine of its own, a paired page, a terminal, two hands.

`Machine` is a home directory, a data directory and the server in it, as `silas start` starts it.
`Owner` sits before it: the page's frames are what he is shown, the page's answers, signed by his
device, are what he does, and `silas …` is run as he would type it. Nothing here looks into the
database.
"""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evals.crowd import QUESTIONS, answer, decide
from evals.served import SILAS, BenchDevice, Frame, Page, free_port, new_name, trace_of

ENDED = frozenset({"done", "unchecked", "failed", "stuck", "blocked", "paused", "healthy"})
"""Statuses of work after which it does not go on by itself."""
RESTS = frozenset({"done", "unchecked", "cancelled"})
"""Statuses in which it is over."""
_CARDS = frozenset({*QUESTIONS, "approval_request"})


def kind_of(card: Frame) -> str:
    """`plan`, `call`, `result` (something that can be undone), or the type of a question."""
    kind: str = card["kind"] if card["type"] == "approval_request" else card["type"]
    return kind


class NotShown(Exception):
    """What the owner waits for does not come; the text says what he waited for."""


@dataclass
class Machine:
    """A home, a data directory and the server in it."""

    folder: Path
    model: Mapping[str, str]
    """The environment variables that name the model."""
    port: int = 0
    program: Sequence[str] = SILAS
    """The `silas` that is run."""
    first: bool = False
    """Whether the server sets everything up when it starts, as `make run` does."""
    _process: subprocess.Popen[str] | None = None

    @property
    def home(self) -> Path:
        """The owner's home directory."""
        return self.folder / "home"

    @property
    def files(self) -> Path:
        """Where requests that name no place work."""
        return self.home / "silas-files"

    @property
    def environment(self) -> dict[str, str]:
        """What `silas` is started with."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("SILAS_")},
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.folder),
            "SILAS_DATA_DIR": str(self.folder / "data"),
            "SILAS_VAULT_PASSPHRASE": "for the first hour only",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
            "GIT_CONFIG_NOSYSTEM": "1",
            **self.model,
        }

    def silas(self, *arguments: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a command as the owner types it."""
        return subprocess.run(
            [*self.program, *arguments],
            env=self.environment,
            cwd=self.home,
            input=typed,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def set_up(self) -> None:
        """`silas init`."""
        self.files.mkdir(parents=True, exist_ok=True)
        made = self.silas("init", "--yes")
        if made.returncode:
            raise RuntimeError(f"silas init failed: {made.stdout}{made.stderr}")

    def start(self) -> str:
        """`silas start`; returns the code of the link that pairs a browser."""
        self.port = self.port or free_port()
        setting_up = ["--init"] if self.first else []
        begin = [*self.program, "start", *setting_up]
        command = [*begin, "--no-open", "--json", "--port", str(self.port)]
        with (self.folder / "server.log").open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                command,
                env=self.environment,
                cwd=self.home,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        printed = ""
        for line in self._process.stdout or ():
            printed += line
            if line == "}\n":
                said, printed = json.loads(printed), ""
                if "link" in said:  # what was set up is told before
                    return str(said["link"]).partition("#pair=")[2]
        raise RuntimeError(f"Silas did not start: {printed}")

    def stop(self) -> None:
        """End the server, in order, and wait for it."""
        if self._process is not None:
            self._process.terminate()
            self._gone(self._process)

    def kill(self) -> None:
        """End the server without a word, as a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._gone(self._process)

    def _gone(self, process: subprocess.Popen[str]) -> None:
        process.wait(60)
        if process.stdout:
            process.stdout.close()
        self._process = None


@dataclass
class Owner:
    """The one whose machine it is."""

    machine: Machine
    patience: float
    """Seconds after which he says that nothing happens."""
    frames: list[Frame] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    """What commands have printed, in order."""
    device: BenchDevice | None = None
    _page: Page | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _closed: set[str] = field(default_factory=set)
    _open: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    trace: str = ""
    """Of what was said last."""
    _traces: set[str] = field(default_factory=set)
    """Of everything that was said in this task."""
    _earlier: set[str] = field(default_factory=set)
    """Traces of the tasks before: what comes late of them is not shown in this task."""
    _since: int = 0

    @property
    def files(self) -> Path:
        """Where requests that name no place work."""
        return self.machine.files

    async def sit_down(self) -> None:
        """Start Silas, pair the browser the first time, open the page."""
        code = await asyncio.to_thread(self.machine.start)
        if self.device is None:
            self.device = BenchDevice(self.machine.port)
            await asyncio.to_thread(self.device.pair, code)
        self._page = Page(self.device, watch=self._watch)
        await self._open.enter_async_context(self._page.open())

    async def leave(self) -> None:
        """Close the page and end the server."""
        await self._open.aclose()
        await asyncio.to_thread(self.machine.stop)

    def _watch(self, frame: Frame) -> None:
        if frame.get("trace_id") in self._earlier:
            return
        self.frames.append(frame)
        if frame["type"] == "card_closed":
            self._closed.add(frame["request_id"])
        self._news.set()

    @property
    def page(self) -> Page:
        """The open page."""
        if self._page is None:
            raise ConnectionError("The page is not open.")
        return self._page

    async def until(self, what: str, found: Callable[[Sequence[Frame]], Any]) -> Any:
        """Wait until something is found among the frames since the last act; returns it."""
        try:
            async with asyncio.timeout(self.patience):
                while not (seen := found(self.frames[self._since :])):
                    self._news.clear()
                    await self._news.wait()
                return seen
        except TimeoutError:
            raise NotShown(f"waited {self.patience:.0f} s for {what}") from None

    async def say(self, text: str) -> Frame:
        """Say something, and wait for its answer or the card of its plan."""
        name = new_name()
        self.trace, self._since = trace_of(name), len(self.frames)
        self._traces.add(self.trace)
        await self.page.say(text, name=name)
        frame: Frame = await self.until(f"an answer to “{text}”", self._answered)
        return frame

    def _answered(self, frames: Sequence[Frame]) -> Frame | None:
        for frame in frames:
            if frame.get("trace_id") != self.trace:
                continue
            if frame["type"] in _CARDS and frame["state"] == "open":
                return frame
            if frame["type"] == "message" and frame["sender"] == "silas" and frame["final"]:
                return frame
        return None

    def cards(self, *kinds: str) -> list[Frame]:
        """The cards of these kinds that wait, the newest last."""
        latest = {each["request_id"]: each for each in self.frames if each["type"] in _CARDS}
        return [
            each
            for name, each in latest.items()
            if kind_of(each) in kinds and each["state"] == "open" and name not in self._closed
        ]

    async def card(self, kind: str) -> Frame:
        """The newest card of this kind, as soon as one waits."""
        found: Frame = (await self.until(f"a card “{kind}”", lambda _: self.cards(kind)))[-1]
        return found

    async def decide(self, verdict: str, kind: str = "plan") -> Frame:
        """Decide the newest card of this kind."""
        card = await self.card(kind)
        self._since = len(self.frames)
        self._closed.add(card["request_id"])
        await decide(self.page, card, verdict)
        return card

    async def answer(self, kind: str, value: str) -> Frame:
        """Answer the newest question of this kind."""
        question = await self.card(kind)
        self._since = len(self.frames)
        await answer(self.page, question, value)
        return question

    async def run(self, *arguments: str, typed: str = "") -> str:
        """Run `silas …`; what it prints is shown."""
        done = await asyncio.to_thread(self.machine.silas, *arguments, typed=typed)
        self.printed.append(done.stdout + done.stderr)
        return done.stdout + done.stderr

    def begin(self) -> None:
        """Forget what was shown before: the next task begins."""
        self.frames.clear()
        self.printed.clear()
        self._earlier |= self._traces
        self._traces.clear()
        self.trace, self._since = "", 0

    @property
    def unfinished(self) -> bool:
        """Whether something waits for him, or may go on without him."""
        last = {each["work_item_id"]: each["status"] for each in self.work}
        going = [status for status in last.values() if status not in RESTS]
        return bool(going or self.cards("plan", "call", *QUESTIONS))

    def tidy_up(self) -> None:
        """Empty his home, but for what begins with a dot."""
        for each in self.machine.home.iterdir():
            if each.is_dir() and not each.name.startswith("."):
                shutil.rmtree(each)
        self.files.mkdir()

    @property
    def heard(self) -> list[str]:
        """What Silas has said in the conversation, in order, with what it showed of commands."""
        return [
            "\n".join([each["text"], *map(_shown_output, each["printed"])])
            for each in self.frames
            if each["type"] == "message" and each["sender"] == "silas"
        ]

    @property
    def work(self) -> list[Frame]:
        """Every state of work that the page was shown."""
        return [each for each in self.frames if each["type"] == "work"]


def _shown_output(printed: Frame) -> str:
    return "\n".join([printed["title"], printed["error"], printed["first"], printed["last"]])
