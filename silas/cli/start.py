"""`silas start`: the server of a data directory, until it is told to stop."""

import asyncio
import logging
import os
import shlex
import signal
import sys
from pathlib import Path

import click

from silas.app.house import open_house
from silas.app.jobs import ground_jobs
from silas.app.server import RunningServer, running_server
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.opening import ground_of, settings_of
from silas.kernel import SystemClock

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(cls=JsonCommand)
@pass_cli
def start(cli: CliContext) -> None:
    """Start Silas, and go on until `silas stop` or Ctrl-C."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    asyncio.run(_serve(cli))


async def _serve(cli: CliContext) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    async with running_server(
        settings_of(cli).paths,
        clock=SystemClock(),
        command=shlex.join(["silas", *sys.argv[1:]]),
        ground=ground_of(cli),
        jobs_of=ground_jobs,
        stopping=stopping,
        conversation_of=lambda ground: open_house(ground, environ=os.environ, home=Path.home()),
    ) as server:
        cli.show(await server.status({}), _greeting(server))
        sys.stdout.flush()
        await stopping.wait()
        cli.say("Stopping.")


def _greeting(server: RunningServer) -> str:
    return (
        f"Silas is running (process {os.getpid()}).\n"
        f"Data:   {server.paths.data_dir}\n"
        f"Socket: {server.paths.socket}\n"
        "Stop it with Ctrl-C or `silas stop`."
    )
