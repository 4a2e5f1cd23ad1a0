"""The machine of a simulated world: its time, its threads, its commands.

1. Time is made up. When nothing can be done at once, the clock goes to the next thing that is due:
   an hour of waiting costs nothing.
2. Nothing happens on another thread. What would run on one runs on the loop, a moment later that
   the seed decides, so that everything else can come in between as it would with threads.
3. Commands are a handful of programs that are carried out in this process; starting real ones
   would be slow, and what comes first would be up to the operating system. `SimulatedSandbox`
   stands where the sandbox stands: behind the check of the approval, the gates and the envelope. It
   looks at what each request asks for, because that is decided outside of it: no network, no file
   of Silas's own, and the boundaries that must hold.
"""

import asyncio
import contextvars
import itertools
import selectors
import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from silas.sandbox.models import Boundary, OutputListener, SandboxRequest, SandboxResult, is_within

_LONGEST_HOP = 0.02
_PATIENCE = 300.0


class SimulatedClock:
    """`Clock` of a simulated world; the wall clock can be set, the other one only goes on."""

    def __init__(self, start: datetime) -> None:
        self._start = start.astimezone(UTC)
        self._elapsed = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(microseconds=round(self._elapsed * 1e6))

    def monotonic(self) -> float:
        return self._elapsed

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._elapsed += seconds

    def back_to(self, elapsed: float) -> None:
        """Undo the waiting of a process that was dead."""
        self._elapsed = elapsed

    def jump(self, by: timedelta) -> None:
        """Set the wall clock, as a person or a time server would."""
        self._start += by


class _Task(asyncio.Task[Any]):
    """A task with a place in sets that does not depend on where it is in memory."""

    def __init__(self, *args: Any, number: int, **more: Any) -> None:
        self._number = number
        super().__init__(*args, **more)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class NothingWillHappen(RuntimeError):
    """Somebody waits for something that nobody will do."""


class _Waiting(selectors.SelectSelector):
    def __init__(self, clock: SimulatedClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise NothingWillHappen("Everybody waits, and nothing is due.")
        self._clock.wait(max(timeout, 0.0))
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """The loop of one life of a process; when that has ended, nothing is begun any more."""

    def __init__(self, clock: SimulatedClock, chance: Random) -> None:
        self._simulated = clock
        self._chance = chance
        self._tasks = itertools.count(1)
        self.dead = False
        super().__init__(_Waiting(clock))
        self.set_task_factory(self._new_task)

    def time(self) -> float:
        return self._simulated.monotonic()

    def call_soon_threadsafe(  # type: ignore[override]  # the base class names the types of args
        self,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]  # the base class says that it is a coroutine
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        del executor
        future = self.create_future()
        self.call_later(self._chance.uniform(0.0, _LONGEST_HOP), self._run, future, func, args)
        return future

    def die(self) -> None:
        """The process is dead: what it would have done from here on is not done."""
        self.dead = True
        self.stop()

    def _new_task(
        self, _loop: asyncio.AbstractEventLoop, coro: Any, **more: Any
    ) -> "asyncio.Task[Any]":
        return _Task(coro, loop=self, number=next(self._tasks), **more)

    def _run(
        self, future: "asyncio.Future[Any]", func: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        if future.done():
            return
        if self.dead:
            future.cancel()
            return
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
            future.set_exception(error)
        else:
            future.set_result(result)


def bury(loop: SimulatedLoop, life: "asyncio.Task[Any]") -> None:
    """End everything that a process had begun, first its `life`, and close its loop.

    A dead process does not unwind. But what waits in it must be ended, and nothing that is done on
    the way can have an effect any more: its disk is dead, and no time passes for others.
    """
    for which in ([life], None):
        tasks = which or sorted(asyncio.all_tasks(loop), key=hash)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(_end(tasks))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


async def _end(tasks: list["asyncio.Task[Any]"]) -> None:
    if not tasks:
        return
    done, _ = await asyncio.wait(tasks, timeout=_PATIENCE)
    for task in done:
        if not task.cancelled():
            task.exception()  # looked at: a dead process fails in many ways


_NOT_THERE = 127
_LONGEST = 3.0
_INSIST = frozenset({Boundary.NETWORK, Boundary.FILESYSTEM})


class SimulatedSandbox:
    """`SandboxRunner` without processes. `off_limits` is Silas's own directory."""

    def __init__(self, chance: Random, *, off_limits: Path, alive: Callable[[], bool]) -> None:
        self._chance = chance
        self._off_limits = off_limits
        self._alive = alive
        self.problems: list[str] = []
        self.runs = 0

    async def run(
        self, request: SandboxRequest, *, on_output: OutputListener | None = None
    ) -> SandboxResult:
        self.runs += 1
        self.problems += self._wrong_with(request)
        seconds = self._chance.uniform(0.0, _LONGEST)
        await asyncio.sleep(seconds)
        code, text = self._carry_out(request) if self._alive() else (_NOT_THERE, "")
        if on_output is not None:
            on_output("stdout", text.encode())
        await asyncio.sleep(self._chance.uniform(0.0, _LONGEST))
        return SandboxResult(
            backend="simulated",
            exit_code=code,
            stdout=text.encode(),
            stderr=b"",
            duration_seconds=seconds,
        )

    def _wrong_with(self, request: SandboxRequest) -> list[str]:
        found = []
        if "python" in request.argv[0]:
            found.append(f"INV-04: {request.argv} was run, although a gate blocks it")
        if request.network or not request.require >= _INSIST:
            found.append(f"INV-05: {request.argv} was not to be kept from the network")
        own = str(self._off_limits)
        places = [str(self._off_limits / "work" / "attempts"), str(self._off_limits / "verify")]
        for place in (*request.read, *request.write):
            allowed = any(is_within(place, each) for each in places)
            if (is_within(place, own) and not allowed) or is_within(own, place):
                found.append(f"INV-05: {request.argv} was given {place}")
        return found

    def _carry_out(self, request: SandboxRequest) -> tuple[int, str]:
        argv = request.argv
        if argv[0] in ("sh", "/bin/sh") and argv[1] == "-c":
            argv = tuple(shlex.split(argv[2]))
        writable = any(is_within(request.cwd, place) for place in request.write)
        return _program(argv, Path(request.cwd), request.stdin if writable else None)


def _program(argv: Sequence[str], folder: Path, stdin: bytes | None) -> tuple[int, str]:
    """Exit code and output; what may not write has no `stdin`."""
    match argv:
        case ["echo", *words]:
            return 0, " ".join(words) + "\n"
        case ["printf", text, ">>", name] if stdin is not None:
            return _append(folder / name, text)
        case ["tee", "-a", "--", name] if stdin is not None:
            return _append(folder / name, stdin.decode())
        case ["cat", "--", name] | ["cat", name]:
            path = folder / name
            return (0, path.read_text()) if path.is_file() else (1, "")
        case ["test", "-f", name]:
            return (0 if (folder / name).is_file() else 1), ""
    return (0 if argv[0] == "true" else _NOT_THERE), ""


def _append(path: Path, text: str) -> tuple[int, str]:
    with path.open("a") as file:
        file.write(text)
    return 0, ""
