"""A contained process tree: waited for and ended as a whole, whatever its members do.

Processes are held by pidfd, so a signal can never reach a stranger that got the same number.
The first process of a pid namespace takes all others with it: once it is gone, everything is.
"""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from subprocess import Popen


class ProcessTree:
    """The launcher that we started and, once known, the first process inside the sandbox."""

    def __init__(self, launcher: Popen[bytes]) -> None:
        self._launcher = launcher
        self._outer = os.pidfd_open(launcher.pid)
        self._first: int | None = None
        self._first_pid: int | None = None

    @property
    def pid(self) -> int:
        """The launcher's process number."""
        return self._launcher.pid

    @property
    def exit_code(self) -> int:
        """How the launcher ended, in a shell's words; only once the tree is gone."""
        code = self._launcher.wait()
        return 128 - code if code < 0 else code

    def adopt(self, pid: int) -> None:
        """Name the first process of the pid namespace."""
        if self._first is None:
            with suppress(ProcessLookupError):
                self._first = os.pidfd_open(pid)
                self._first_pid = pid

    def first_process(self) -> int | None:
        """The number of the first process inside, as soon as it is known."""
        if self._first is None:
            self._adopt_child()
        return self._first_pid

    def has_ended(self) -> bool:
        """Whether the launcher has ended, in whatever way."""
        return self._ending() is not None

    def _ending(self) -> os.waitid_result | None:
        # Without taking its status: as long as we have not, nobody else can get its number.
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)

    async def ended(self) -> None:
        """Return when the command has ended; processes that it left behind may still live."""
        await _readable(self._outer)

    async def gone(self) -> None:
        """End whatever is left, and return when nothing of the command is."""
        if not self._nothing_left():
            self.kill()
            for descriptor in (self._first, self._outer):
                if descriptor is not None:
                    await _readable(descriptor)
        self._launcher.wait()

    def kill(self) -> None:
        """End everything at once."""
        if self._first is None:
            self._adopt_child()
        for descriptor in (self._first, self._outer):
            if descriptor is not None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        # A launcher that somebody killed half-way has left a child that we may not know.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        for descriptor in (self._first, self._outer):
            if descriptor is not None:
                os.close(descriptor)

    def _adopt_child(self) -> None:
        """A launcher has one child, the first process inside."""
        for child in _children(self._launcher.pid) or ():
            self.adopt(child)

    def _nothing_left(self) -> bool:
        """Whether the launcher ended by itself and the first process, if still there, is alone.

        Every process of the namespace descends from the first one. Without children it is only the
        sandbox's own, on its way out; taking the namespaces down keeps it for a millisecond more.
        """
        ending = self._ending()
        if ending is None or ending.si_code != os.CLD_EXITED:
            return False
        return self._first_pid is None or _children(self._first_pid) == []


def _children(pid: int) -> list[int] | None:
    """A process's children; nothing if it is gone or the kernel does not tell."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return None
    return [int(child) for child in text.split()]


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not future.done():
            future.set_result(None)

    loop.add_reader(descriptor, settle)
    try:
        await future
    finally:
        loop.remove_reader(descriptor)
