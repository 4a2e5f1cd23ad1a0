"""The trial: what fits into half an hour, and one table: `make trial`.

Each suite runs by itself; what is not done when the time is over stands in the table as not run.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from evals.trial.suites import (
    Line,
    Tests,
    agentdojo,
    as_markdown,
    as_text,
    guards,
    malicious_worker,
    not_run,
    simulation,
)
from silas.kernel.process import environment_to_pass_on

_CHAOS_ROUNDS, _BATCH_ROUNDS = 40, 200
_MAILS = 2_000
_SEEDS, _LIVES = 60, 4
_LEAST_SECONDS = 20.0

SUITES = (
    Tests("signature and format vectors", ["tests/vectors"]),
    Tests("every write and sync fails once", ["tests/faults"]),
    Tests("attacks from a page in Chromium", ["tests/web/test_browser_attacks.py"]),
    Tests("the sandbox, from inside", ["tests/sandbox"]),
    Tests("poisoning of the memory", ["tests/memory/test_poisoning.py"]),
    Tests(
        "one scope against another",
        ["tests/stream/test_scopes.py", "tests/memory/test_isolation.py"],
    ),
    Tests(
        "agents that lie",
        [
            "tests/agents/test_compromised.py",
            "tests/stream/test_liars.py",
            "tests/work/test_liars.py",
            "tests/companions/test_adversarial.py",
        ],
    ),
    Tests(
        "SIGKILL anywhere",
        ["tests/stream/test_chaos.py", "tests/work/test_chaos.py"],
        figure=f"{_CHAOS_ROUNDS} rounds each",
        environ={"SILAS_CHAOS_ROUNDS": str(_CHAOS_ROUNDS)},
    ),
    Tests(
        "SIGKILL in a batch, and a mail server that fails at every n-th command",
        ["tests/proactive/test_batch_faults.py"],
        figure=f"{_BATCH_ROUNDS} kills, 27 servers",
        environ={"SILAS_CHAOS_ROUNDS": str(_BATCH_ROUNDS)},
    ),
    Tests(
        "two weeks of a mailbox, three owners",
        ["tests/proactive/test_two_weeks.py"],
        figure=f"{_MAILS} mails each",
        environ={"SILAS_MAILS": str(_MAILS)},
    ),
)


@click.command()
@click.option("--minutes", default=30.0, show_default=True)
@click.option(
    "--every",
    default=1,
    show_default=True,
    help="Each N-th attack of AgentDojo, and each N-th plan of the malicious worker.",
)
@click.option("--dojo", type=Path, default=Path(".venv-trial/bin/python"))
@click.option("--corpora", type=Path, default=Path(".corpora"))
@click.option("--markdown", type=Path, help="Write the table there as well.")
def main(minutes: float, every: int, dojo: Path, corpora: Path, markdown: Path | None) -> None:
    """Put Silas on trial; ends with 1 if a goal is not reached."""
    until = time.monotonic() + 60 * minutes
    lines = list(_run(until, every=every, dojo=dojo, corpora=corpora))
    if markdown is not None:
        markdown.write_text(as_markdown(lines), "utf-8")
    click.echo(as_text(lines))
    if not all(line.reached for line in lines):
        raise click.exceptions.Exit(1)


def _run(until: float, *, every: int, dojo: Path, corpora: Path) -> Iterator[Line]:
    def left() -> float:
        return max(_LEAST_SECONDS, until - time.monotonic())

    def in_time(suite: str, command: str, run: Callable[[float], Line]) -> Line:
        if time.monotonic() >= until:
            return not_run(suite, "no time was left", goal="", command=command)
        click.echo(f"{suite} …", err=True)
        return run(left())

    yield in_time("peers' failures", _PEERS, _peers)
    for tests in SUITES:
        yield in_time(tests.suite, tests.command, tests.run)
    yield in_time("simulation", "make simulate", lambda _: simulation(seeds=_SEEDS, rounds=_LIVES))
    yield in_time(
        "a malicious worker",
        "python -m evals.trial.malicious_worker",
        lambda seconds: malicious_worker(every=every, seconds=seconds),
    )
    yield from guards(corpora, seconds=left())
    yield in_time(
        "AgentDojo",
        "make trial-agentdojo",
        lambda seconds: agentdojo(dojo, every=every, seconds=seconds),
    )


_PEERS = "python -m tests.peers.entries run"


def _peers(seconds: float) -> Line:
    """The tests that the table of peers' failures names."""
    command = [sys.executable, "-m", "tests.peers.entries"]
    told = subprocess.run(
        command, env=environment_to_pass_on(), check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    table = json.loads(told)
    waiting = ", ".join(f"{number} ({room})" for number, room in table["waiting"].items())
    figure = f"{table['tried']} of {table['entries']} entries; not there yet: {waiting or 'none'}"
    return Tests("peers' failures", table["tests"], figure).run(seconds, shown=_PEERS)


if __name__ == "__main__":
    main()
