"""`silas start`: the server of a data directory, until it is told to stop."""

import asyncio
import gc
import logging
import os
import shlex
import signal
import sys
import webbrowser
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from silas.app.ground import open_ground
from silas.app.jobs import ground_jobs
from silas.app.server import RunningServer, running_server
from silas.app.settings import LoadedSettings, load_settings
from silas.app.web import WebFront
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.terminal import on_terminal, passphrase_prompt
from silas.kernel import SystemClock

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(cls=JsonCommand)
@click.option("--host", metavar="ADDRESS", help="Where to listen for browsers. [channels.web.host]")
@click.option("--port", type=int, metavar="PORT", help="On which port. [channels.web.port]")
@click.option("--no-open", "--no-browser", is_flag=True, help="Open no browser.")
@click.option("--no-link", is_flag=True, help="Print no link either: for services, with a journal.")
@pass_cli
def start(
    cli: CliContext, host: str | None, port: int | None, *, no_open: bool, no_link: bool
) -> None:
    """Start Silas, and go on until `silas stop` or Ctrl-C.

    The link that is printed lets one browser in, once, within ten minutes. `silas devices pair`
    gives another one. On a desktop it is opened.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    loaded = _settings(cli, host=host, port=port)
    opens = not no_open and on_terminal() and _has_display()
    reload = partial(_settings, cli, host=host, port=port)
    asyncio.run(_serve(cli, loaded, reload=reload, opens=opens, links=not no_link))


def _settings(cli: CliContext, *, host: str | None, port: int | None) -> LoadedSettings:
    """The options win over everything, and obey the same rules."""
    wanted = {"SILAS_CHANNELS__WEB__HOST": host, "SILAS_CHANNELS__WEB__PORT": port}
    given = {name: str(value) for name, value in wanted.items() if value is not None}
    return load_settings(
        data_dir=cli.data_dir,
        config_file=cli.config_file,
        environ={**os.environ, **given},
        cwd=Path.cwd(),
    )


async def _serve(
    cli: CliContext,
    loaded: LoadedSettings,
    *,
    reload: Callable[[], LoadedSettings],
    opens: bool,
    links: bool,
) -> None:
    gc.disable()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    clock = SystemClock()
    web = WebFront(clock, environ=os.environ, home=Path.home(), reload=reload)
    async with running_server(
        loaded.paths,
        clock=clock,
        command=shlex.join(["silas", *sys.argv[1:]]),
        ground=open_ground(loaded, environ=os.environ, prompt=passphrase_prompt()),
        jobs_of=ground_jobs,
        stopping=stopping,
        conversation_of=web.open,
        more={
            "live": web.live.events,
            "pair": web.pair,
            "devices_changed": web.devices_changed,
            "passkey_code": web.passkey_code,
            "ask_secret": web.ask_secret,
            "journal": web.journal.answer,
            "companions": web.companions.answer,
        },
    ) as server:
        gc.freeze()  # what is there now stays: whoever looks for garbage need not look at it again
        gc.enable()
        link = web.link() if web.address and links else None
        status = {**await server.status({}), "web": web.address or None, "link": link}
        cli.show(status, _greeting(server, web, link))
        sys.stdout.flush()
        if opens and link:
            webbrowser.open(link)
        await stopping.wait()
        cli.say("Stopping.")


def _greeting(server: RunningServer, web: WebFront, link: str | None) -> str:
    lines = [
        f"Silas is running (process {os.getpid()}).",
        f"Data:   {server.paths.data_dir}",
        f"Socket: {server.paths.socket}",
    ]
    if web.address:
        lines.append(f"Page:   {web.address}")
    if link is not None:
        lines.append(f"Pair a browser within ten minutes: {link}")
    elif web.address:
        lines.append("Pair a browser with `silas devices pair`.")
    return "\n".join([*lines, "Stop it with Ctrl-C or `silas stop`."])


def _has_display() -> bool:
    seen = {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    return sys.platform == "darwin" or bool(seen)
