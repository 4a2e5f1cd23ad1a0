"""The pipes between Silas and one `bwrap`: options in, status out, and a gate to wait at."""

import asyncio
import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from silas.kernel import CanonicalError, strict_loads
from silas.sandbox.errors import CommandRefused

_MOST_OPTIONS = 1024 * 1024
_USUAL_PIPE = 64 * 1024


class OptionsPipe:
    """`bwrap --args`: it waits here, before it does anything, until all options are there."""

    def __init__(self, stack: ExitStack) -> None:
        self.reading, self._writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self.reading, True)
        self._text = b""
        stack.callback(os.close, self.reading)
        stack.callback(self._close)

    def prepare(self, options: Sequence[str]) -> None:
        """Make room for all of them: half of the options would be half of a sandbox."""
        self._text = b"".join(os.fsencode(option) + b"\0" for option in options)
        if len(self._text) > _MOST_OPTIONS:
            raise CommandRefused(f"The environment and paths exceed {_MOST_OPTIONS} bytes.")
        if len(self._text) > _USUAL_PIPE:
            fcntl.fcntl(self._writing, fcntl.F_SETPIPE_SZ, len(self._text))

    def send(self) -> None:
        os.write(self._writing, self._text)
        self._close()

    def _close(self) -> None:
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1


class Gate:
    """`bwrap --block-fd`: the first process inside waits here before it executes the command."""

    def __init__(self, stack: ExitStack) -> None:
        self.waiting, self._opening = os.pipe2(os.O_CLOEXEC)
        stack.callback(os.close, self.waiting)
        stack.callback(os.close, self._opening)

    def open(self) -> None:
        os.write(self._opening, b"1")


class StatusPipe:
    """`bwrap --json-status-fd`: the first process inside, and how the command ended.

    `first_process` is its number, or nothing if the sandbox could not be built.
    The command cannot write to it: bubblewrap closes it before it executes anything.
    """

    def __init__(self, stack: ExitStack) -> None:
        self._loop = asyncio.get_running_loop()
        self._reading, self.writing = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._reading, False)
        self._text = b""
        self.first_process: asyncio.Future[int | None] = self._loop.create_future()
        self._on_first: Callable[[int], None] | None = None
        stack.callback(self._close)

    def listen(self, on_first: Callable[[int], None]) -> None:
        """Start to read, once the launcher has its own copy of the writing end."""
        os.close(self.writing)
        self.writing = -1
        self._on_first = on_first
        self._loop.add_reader(self._reading, self._read)

    def exit_code(self) -> int | None:
        """The command's exit code; nothing if it was never executed. Only after the end."""
        while self._reading >= 0 and self._read():
            pass
        return self._value("exit-code")

    def _read(self) -> bool:
        try:
            chunk = os.read(self._reading, 4096)
        except BlockingIOError:
            return False
        self._text += chunk
        pid = self._value("child-pid")
        if not self.first_process.done() and (pid is not None or not chunk):
            self.first_process.set_result(pid)
            if pid is not None and self._on_first is not None:
                self._on_first(pid)
        if not chunk:
            self._close()
        return bool(chunk)

    def _value(self, name: str) -> int | None:
        for line in self._text.splitlines():
            try:
                document = strict_loads(line)
            except CanonicalError:
                continue
            if isinstance(document, dict) and isinstance(document.get(name), int):
                value: int = document[name]
                return value
        return None

    def _close(self) -> None:
        if self._reading >= 0:
            self._loop.remove_reader(self._reading)
            os.close(self._reading)
            self._reading = -1
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1
