"""`make newcomer`: the first minutes, from a fresh clone to the first checked result, with seconds.

1. The repository is cloned into a temporary directory, as it was last committed.
2. There, `make` installs what `make run` installs: from the network, or from pip's own cache.
3. `silas start --init` sets everything up, as `make run` does, with a passphrase from the
   environment, in a home directory of its own.
4. A browser's key is paired with the link that was printed.
5. The README's request is said, its card approved, and its work waited for: it must be done, and
   checked.

It prints how long each step took. It is a report: no figure in it fails. What it made is removed at
the end, and nothing outside of the temporary directory is touched.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from evals.firsthour.owner import ENDED, Machine, NotShown, Owner
from evals.served import Frame

_ROOT = Path(__file__).parents[1]
_REQUEST = "create a file notes/today.txt with buy milk"
_PATIENCE = 120.0


@dataclass
class Steps:
    """What was done, and how long it took."""

    taken: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Do one thing, and say how long it took."""
        click.echo(f"{name} …", err=True)
        begun = time.monotonic()
        yield
        self.taken.append((name, time.monotonic() - begun))

    def lines(self) -> list[str]:
        """The report."""
        width = max(len(name) for name, _ in self.taken)
        rows = [f"{name.ljust(width)}  {seconds:7.1f} s" for name, seconds in self.taken]
        whole = sum(seconds for _, seconds in self.taken)
        return [*rows, f"{'together'.ljust(width)}  {whole:7.1f} s"]


def _run(command: Sequence[str], place: Path) -> None:
    """Run a command; what it printed is shown if it fails."""
    outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise click.ClickException(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


async def first_result(owner: Owner, steps: Steps) -> Frame:
    """Steps 3 to 5; returns the last state of the work."""
    with steps.step("set up, start and pair"):
        await owner.sit_down()
    with steps.step("first checked result"):
        await owner.say(_REQUEST)
        await owner.decide("approved")
        done: Frame = await owner.until("the end of the work", _ended)
    return done


def _ended(frames: Sequence[Frame]) -> Frame | None:
    return next(
        (each for each in frames if each["type"] == "work" and each["status"] in ENDED), None
    )


async def _live(owner: Owner, steps: Steps) -> Frame:
    try:
        return await first_result(owner, steps)
    finally:
        await owner.leave()


@click.command()
@click.option("--python", default=sys.executable, help="The Python that the clone is set up with.")
def main(python: str) -> None:
    """Go the way of a newcomer, and print how long each step takes."""
    steps = Steps()
    with tempfile.TemporaryDirectory(prefix="silas-newcomer-") as place:
        folder = Path(place)
        clone = folder / "silas"
        with steps.step("clone"):
            _run(["git", "clone", "--quiet", "--no-hardlinks", str(_ROOT), str(clone)], folder)
        with steps.step("install"):
            _run(["make", f"PYTHON={python}", ".venv/.core"], clone)
        machine = Machine(folder, {}, program=(str(clone / ".venv" / "bin" / "silas"),), first=True)
        machine.files.mkdir(parents=True)
        try:
            done = asyncio.run(_live(Owner(machine, _PATIENCE), steps))
        except NotShown as error:
            log = (folder / "server.log").read_text("utf-8")
            raise click.ClickException(f"{error}\n{log}") from error
        written = machine.files / "notes" / "today.txt"
        if done["status"] != "done" or written.read_text("utf-8") != "buy milk\n":
            raise click.ClickException(f"The work ended as {done['status']}.")
    click.echo("\n".join(steps.lines()))


if __name__ == "__main__":
    main()
