"""`silas status`, `silas unlock` and `silas stop`: how the server is, its vault, and its end."""

import os
import signal
import time
from typing import Any

import click

from silas.app.client import NotRunning, ServerSilent, call_server
from silas.app.instance import holder_of
from silas.app.status import status_of
from silas.cli.commands import (
    CliContext,
    JsonCommand,
    LazyCommand,
    pass_cli,
    passphrase_prompt,
    paths_of,
)
from silas.kernel import parse_timestamp
from silas.kernel.process import PASSPHRASE_VARIABLE
from silas.settings.paths import Paths

_SECONDS_TO_STOP = 30.0
_SECONDS_BETWEEN_LOOKS = 0.05


@click.command(cls=JsonCommand)
@pass_cli
def status(cli: CliContext) -> None:
    """Say whether Silas is running, and how it is."""
    found = status_of(paths_of(cli))
    cli.show(found, _in_words(found))


@click.command(cls=JsonCommand)
@click.argument("what", type=click.Choice(["silas", "companions"]), default="silas")
@click.option("--kill", is_flag=True, help="End a server that no longer answers.")
@click.pass_context
def stop(context: click.Context, what: str, kill: bool) -> None:
    """Stop the running Silas, and wait until it has ended.

    `silas stop companions` leaves Silas running and stops what companions do, at once, until
    `silas companions go`. One companion or a class of tools: `silas companions stop`.
    """
    if what == "companions":
        context.invoke(LazyCommand("silas.cli.companions_changes:stop", "").load())
        return
    cli: CliContext = context.obj
    paths = paths_of(cli)
    holder = holder_of(paths.lock)
    if holder is None:
        raise NotRunning(f"{paths.data_dir}: {NotRunning.sentence()}")
    if kill:
        os.kill(int(holder["pid"]), signal.SIGKILL)
    else:
        call_server(paths, "/api/server/stop")
    _wait_until_ended(paths)
    cli.show({"stopped": True, "pid": holder.get("pid")}, "Silas has stopped.")


@click.command(cls=JsonCommand)
@pass_cli
def unlock(cli: CliContext) -> None:
    """Give the passphrase to a Silas that was started where nobody could be asked for it."""
    paths = paths_of(cli)
    if holder_of(paths.lock) is None:
        raise NotRunning(f"{paths.data_dir}: {NotRunning.sentence()}")
    if not _is_locked(paths):
        cli.show({"unlocked": False}, "Silas is not locked. Nothing was changed.")
        return
    prompt = passphrase_prompt()
    if cli.passphrase is None and prompt is None:
        raise click.UsageError(f"Nobody can be asked here. Set {PASSPHRASE_VARIABLE}.")
    typed = cli.passphrase or (prompt(f"Passphrase of {paths.vault}") if prompt else "")
    call_server(paths, "/api/unlock", {"passphrase": typed})
    cli.show({"unlocked": True}, "The vault is open, and Silas is starting.")


def _is_locked(paths: Paths) -> bool:
    try:
        return bool(call_server(paths, "/api/server/ping").get("locked"))
    except ServerSilent:
        return False


def _wait_until_ended(paths: Paths) -> None:
    deadline = time.monotonic() + _SECONDS_TO_STOP
    while holder_of(paths.lock) is not None:
        if time.monotonic() > deadline:
            raise ServerSilent("Silas is still stopping. Look at its log, or use `--kill`.")
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _in_words(found: dict[str, Any]) -> str:
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
    who = f"process {found['holder'].get('pid', 'unknown')}"
    if begun := found["holder"].get("started_at"):
        who += f", since {parse_timestamp(begun).astimezone():%Y-%m-%d %H:%M}"
    if not found["server"]:
        return f"Silas does not answer ({who})."
    if found["server"].get("locked"):
        return f"Silas is locked ({who}): it waits for its passphrase. Give it with `silas unlock`."
    return f"Silas is running ({who})."
