"""Goes the four ways, and counts.

The owner's device talks to the server over its page's protocol; the journal is changed by the
command line, as people do.

What is counted for each way, from the first frame to the last:

- *calls* of functions in `silas/`, and how many different *functions* in how many *files*;
- a *visit*: functions in the order in which each was called first, those of kernel, storage and
  secrets left out; as long as the next one is in the same file, the reader stays. *Functions per
  visit* is the average length of such a run, *changes* is how often another file is opened.

Before an approved command starts, besides: how often somebody asked whether a signature is right,
how many were really verified (what was proven is remembered) and made, examinations of the audit
log, transactions that write.
"""

import asyncio
import contextlib
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile, groupby, pairwise
from pathlib import Path

import apsw

from evals.crowd import decide
from evals.served import (
    LONGEST_WAIT,
    SILAS,
    Page,
    environment_for,
    new_name,
    silas_server,
    trace_of,
)

Step = tuple[str, str]
"""A file and a function in it."""

COMMAND = "echo hello"
GOALS: Mapping[str, Mapping[str, str]] = {
    "every way": {"functions per visit": ">= 3"},
    "message": {"calls": "<= 1200"},
    "start": {
        "signature questions": "<= 8",
        "signatures made": "<= 4",
        "examinations of the log": "<= 1",
        "transactions": "<= 8",
    },
}
SIGNATURE_QUESTION = "PublicKey.signed"
EXAMINATION = "examine_chain"
_BELOW = ("silas/kernel/", "silas/storage/", "silas/secrets/")
_REPORT = "Done, "
_TRACER = (sys.executable, "-m", "evals.walk.tracer")
_CATEGORY = "gym"


@dataclass(frozen=True)
class Walk:
    """What was called on one way."""

    name: str
    title: str
    events: Sequence[Step]

    @property
    def calls(self) -> list[Step]:
        """Every call, in order."""
        return [each for each in self.events if each[0].endswith(".py")]

    @property
    def steps(self) -> list[Step]:
        """Every function once, in the order of the first calls."""
        return list(dict.fromkeys(self.calls))

    @property
    def visits(self) -> list[tuple[str, list[str]]]:
        """The same without the packages below, by runs in one file."""
        read = [step for step in self.steps if not step[0].startswith(_BELOW)]
        return [
            (file, [name for _, name in run]) for file, run in groupby(read, lambda step: step[0])
        ]

    def figures(self) -> dict[str, float]:
        """The counts."""
        visits = self.visits
        read = sum(len(names) for _, names in visits)
        return {
            "calls": len(self.calls),
            "functions": len(self.steps),
            "files": len({file for file, _ in self.steps}),
            "functions per visit": round(read / max(1, len(visits)), 2),
            "changes of file": max(0, len(visits) - 1),
        }


def before_start(walks: Sequence[Walk]) -> dict[str, int]:
    """What happens before the approved command starts."""
    [walk] = [walk for walk in walks if walk.name == "decision"]
    starts = [
        number
        for number, (kind, said) in enumerate(walk.events)
        if kind == "process" and COMMAND in said
    ]
    if not starts:
        raise LookupError(f"`{COMMAND}` was not started on the way of a decision.")
    events = walk.events[: starts[0]]
    kinds = Counter(kind for kind, _ in events)
    names = Counter(name for kind, name in events if kind.endswith(".py"))
    return {
        "signature questions": names[SIGNATURE_QUESTION],
        "signatures verified": kinds["verified"],
        "signatures made": kinds["signed"],
        "examinations of the log": names[EXAMINATION],
        "transactions": kinds["transaction"],
    }


def to_and_fro(walks: Sequence[Walk], most: int = 20) -> list[tuple[int, str]]:
    """Between which two files a reader goes most often: what to read, or to put, together."""
    pairs: Counter[str] = Counter()
    for walk in walks:
        files = [file for file, _ in walk.visits]
        pairs.update(" - ".join(sorted(each)) for each in pairwise(files))
    return [(times, pair) for pair, times in pairs.most_common(most)]


def in_words(walks: Sequence[Walk]) -> str:
    """All ways, file by file, the pairs of files, then the counts beside their goals."""
    lines = []
    for walk in walks:
        lines += [f"{walk.title} ({walk.name})", ""]
        lines += [f"  {file}: {', '.join(names)}" for file, names in walk.visits]
        lines.append("")
    lines += ["Files between which a reader goes to and fro, in all ways:", ""]
    lines += [f"  {times:3} {pair}" for times, pair in to_and_fro(walks)]
    lines += ["", *(f"{walk.name}: {_counts(walk.figures(), walk.name)}" for walk in walks)]
    lines.append(f"before `{COMMAND}` starts: {_counts(before_start(walks), 'start')}")
    return "\n".join(lines)


def _counts(figures: Mapping[str, float], way: str) -> str:
    goals = {**GOALS["every way"], **GOALS.get(way, {})}
    return ", ".join(
        f"{name} {value:g}{f' (goal {goals[name]})' if name in goals else ''}"
        for name, value in figures.items()
    )


async def go(folder: Path) -> list[Walk]:
    """All ways, each after the server has gone it once already."""
    address = str(folder / "trace.sock")
    program = (*_TRACER, address)
    async with silas_server(folder, program=program) as (_, device):
        page = Page(device)
        async with page.open():
            owner = _Owner(page, folder, address)
            return [
                await owner.message(),
                await owner.decision(),
                await owner.change(),
                await owner.memory("stored", "Remember that the boat is {}"),
                await owner.memory("recalled", "What do you remember about the boat?"),
            ]


@dataclass
class _Owner:
    page: Page
    folder: Path
    address: str

    async def message(self) -> Walk:
        await self.page.hear("thanks")
        async with self._traced("message", "A message becomes an answer") as walks:
            await self.page.hear("thanks")
        return walks[0]

    async def decision(self) -> Walk:
        await self._decided()
        return await self._decided()

    async def _decided(self) -> Walk:
        name = new_name()
        trace = trace_of(name)
        comes = self.page.expect("approval_request", lambda frame: frame["trace_id"] == trace)
        await self.page.say(f"run {COMMAND} and check that it prints hello", name=name)
        card = await asyncio.wait_for(comes, LONGEST_WAIT)
        report = self.page.expect(
            "message", lambda frame: frame["trace_id"] == trace and _REPORT in frame["text"]
        )
        async with self._traced("decision", "A decision becomes a command") as walks:
            await decide(self.page, card, "approved")
            await asyncio.wait_for(report, LONGEST_WAIT)
        return walks[0]

    async def change(self) -> Walk:
        await self._silas("companions", "new", "planner", "--category", _CATEGORY)
        for number in range(2):
            title = f"Lift {number}"
            await self._silas("journal", "task", "add", title, "--category", _CATEGORY)
            before = self._reports()
            async with self._traced("change", "A change of the journal becomes a report") as walks:
                # Starting a command takes so long that other things happen meanwhile.
                await self._silas("journal", "task", "done", title)
                async with asyncio.timeout(LONGEST_WAIT):
                    while self._reports() == before:  # noqa: ASYNC110 - a database tells nobody
                        await asyncio.sleep(0.02)
        arrived = dropwhile(lambda event: not event[0].startswith("silas/web/"), walks[0].events)
        return replace(walks[0], events=list(arrived))

    async def memory(self, name: str, text: str) -> Walk:
        await self.page.hear(text.format("blue"))
        async with self._traced(name, f"A memory is {name}") as walks:
            await self.page.hear(text.format("green"))
        return walks[0]

    @contextlib.asynccontextmanager
    async def _traced(self, name: str, title: str) -> AsyncIterator[list[Walk]]:
        await self._ask("begin")
        walks: list[Walk] = []
        yield walks
        events = json.loads(await self._ask("end"))
        walks.append(Walk(name, title, [(kind, said) for kind, said in events]))

    async def _ask(self, word: str) -> str:
        reader, writer = await asyncio.open_unix_connection(self.address)
        writer.write(f"{word}\n".encode())
        answer = await reader.read()
        writer.close()
        return answer.decode()

    async def _silas(self, *arguments: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *SILAS, *arguments, env=environment_for(self.folder), stdout=asyncio.subprocess.DEVNULL
        )
        if await process.wait():
            raise RuntimeError(f"silas {' '.join(arguments)} failed.")

    def _reports(self) -> list[tuple[object, ...]]:
        """Read beside the server, so that looking is not on the way."""
        path = Path(environment_for(self.folder)["SILAS_DATA_DIR"]) / "agent.db"
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return list(connection.execute("SELECT count(*), max(rowid) FROM agent_reports"))
        finally:
            connection.close()
