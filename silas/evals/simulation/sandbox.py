"""Commands in a simulated world: a handful of programs that are carried out in this process.

It stands where the sandbox stands: behind the door with the approval, the gates and the envelope.
Starting real processes would be slow, and what comes first would be up to the operating system. It
looks at what each request asks for, because that is decided outside of it: no network, no file of
Silas's own, and the boundaries that must hold.
"""

import asyncio
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from silas.sandbox.models import Boundary, SandboxRequest, SandboxResult, is_within
from silas.sandbox.ports import OutputListener

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
