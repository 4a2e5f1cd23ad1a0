"""`silas status` and `silas stop`: how the server is, and its end."""

import os
import signal
import time
from typing import Any

import click

from silas.app.instance import NotRunning, ServerSilent, call_server, holder_of
from silas.app.paths import Paths
from silas.app.status import status_of
from silas.cli.commands import JsonCommand, LazyCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.located import paths_of

_SECONDS_TO_STOP = 30.0
_SECONDS_BETWEEN_LOOKS = 0.05


@click.command(cls=JsonCommand)
@pass_cli
def status(cli: CliContext) -> None:
    """Say whether Silas is running, and how it is."""
    found = status_of(paths_of(cli))
    cli.show(found, _told(found))


@click.command(cls=JsonCommand)
@click.argument("what", type=click.Choice(["silas", "companions"]), default="silas")
@click.option("--kill", is_flag=True, help="End a server that no longer answers.")
@click.pass_context
def stop(context: click.Context, what: str, kill: bool) -> None:
    """Stop the running Silas, and wait until it has ended.

    `silas stop companions` leaves Silas running and stops what companions do, at once, until
    `silas agents go`. One companion or a class of tools: `silas agents stop`.
    """
    if what == "companions":
        context.invoke(LazyCommand("silas.cli.agents_doing:stop", "").load())
        return
    cli: CliContext = context.obj
    paths = paths_of(cli)
    holder = holder_of(paths.lock)
    if holder is None:
        raise NotRunning(f"{paths.data_dir}: {NotRunning.sentence()}")
    if kill:
        os.kill(int(holder["pid"]), signal.SIGKILL)
    else:
        call_server(paths, "stop")
    _wait_until_ended(paths)
    cli.show({"stopped": True, "pid": holder.get("pid")}, "Silas has stopped.")


def _wait_until_ended(paths: Paths) -> None:
    deadline = time.monotonic() + _SECONDS_TO_STOP
    while holder_of(paths.lock) is not None:
        if time.monotonic() > deadline:
            raise ServerSilent("Silas is still stopping. Look at its log, or use `--kill`.")
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _told(found: dict[str, Any]) -> str:
    lines = [_running(found), f"Data:    {found['data_dir']}"]
    if not found["initialised"]:
        return "\n".join([*lines, "There is no Silas in it yet. Run `silas init`."])
    lines.append(f"Schema:  {found['schema']}")
    lines += [
        f"         {name}  {size / 1_000_000:.1f} MB" for name, size in found["sizes"].items()
    ]
    server = found["server"] or {}
    for job in server.get("housekeeping", []):
        lines.append(f"Job:     {job['name']}  {job['problem'] or 'ok'}")
    return "\n".join(lines)


def _running(found: dict[str, Any]) -> str:
    if not found["running"]:
        return "Silas is not running."
    who = "process {pid}, since {started_at}".format_map(
        {"pid": "unknown", "started_at": "?"} | found["holder"]
    )
    return f"Silas is running ({who})." if found["server"] else f"Silas does not answer ({who})."
