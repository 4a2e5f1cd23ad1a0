"""The line *sandbox start*: `true`, contained by us and by the bare tools with the same options."""

import asyncio
import shutil
import time
from pathlib import Path

from silas.evals.bench.measure import Line, Round, medians, milliseconds
from silas.sandbox import SandboxBackend, SandboxRequest, profile
from silas.sandbox.bubblewrap import BubblewrapBackend
from silas.sandbox.subprocess_backend import SubprocessBackend

_ROUNDS = 40
_TRUE = SandboxRequest(argv=("true",))
_UNSHARE = [
    "--user",
    "--net",
    "--ipc",
    "--uts",
    "--pid",
    "--mount",
    "--fork",
    "--mount-proc",
    "--kill-child=KILL",
]


async def measure(_folder: Path) -> list[Line]:
    """Ratios of each backend that works here to the tool that it is made of."""
    bwrap = shutil.which("bwrap")
    rounds: dict[str, Round] = {"unshare": _bare(["unshare", *_UNSHARE, "true"])}
    rounds["subprocess"] = await _ours(SubprocessBackend())
    if bwrap is not None:
        options = [
            *profile.isolation(_TRUE, disable_userns=True),
            *profile.file_system(_TRUE, [], []),
        ]
        rounds["bwrap"] = _bare([bwrap, *options, "--", "true"])
        rounds["bubblewrap"] = await _ours(BubblewrapBackend())
    got = await medians(rounds, repeat=_ROUNDS)
    pairs = [("bubblewrap", "bwrap", 1.2), ("subprocess", "unshare", 1.3)]
    return [
        Line(
            "sandbox start",
            ours,
            milliseconds(got[ours]),
            f"bare {bare} {milliseconds(got[bare])}",
            got[ours] / got[bare],
            goal,
            at_least=False,
        )
        for ours, bare, goal in pairs
        if ours in got
    ]


async def _ours(backend: SandboxBackend) -> Round:
    await backend.run(_TRUE)  # what is found out once is not part of a start

    async def once() -> float:
        begun = time.perf_counter()
        await backend.run(_TRUE)
        return time.perf_counter() - begun

    return once


def _bare(command: list[str]) -> Round:
    async def once() -> float:
        begun = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={}
        )
        _, said = await process.communicate()
        if process.returncode != 0:
            raise RuntimeError(said.decode())
        return time.perf_counter() - begun

    return once
