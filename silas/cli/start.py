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
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import click

from silas.app.core import Core, make_core
from silas.app.jobs import core_jobs
from silas.app.server import RunningServer, running_server
from silas.app.setup import require_own_files
from silas.app.web import WebFront
from silas.cli.commands import (
    CliContext,
    JsonCommand,
    how_to_type_silas,
    on_terminal,
    pass_cli,
    passphrase_prompt,
    settings_of,
)
from silas.kernel import SystemClock
from silas.secrets import OnDemandVault, open_vault
from silas.secrets.errors import VaultLocked
from silas.settings.load import LoadedSettings, load_settings

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(cls=JsonCommand)
@click.option("--host", metavar="ADDRESS", help="Where to listen for browsers. [channels.web.host]")
@click.option("--port", type=int, metavar="PORT", help="On which port. [channels.web.port]")
@click.option("--no-open", "--no-browser", is_flag=True, help="Open no browser.")
@click.option("--init", "first", is_flag=True, help="Set Silas up first, if it is not.")
@click.option("--no-link", is_flag=True, help="Print no link either: for services, with a journal.")
@pass_cli
def start(
    cli: CliContext,
    host: str | None,
    port: int | None,
    *,
    no_open: bool,
    no_link: bool,
    first: bool,
) -> None:
    """Start Silas, and go on until `silas stop` or Ctrl-C.

    The link that is printed lets one browser in, once, within ten minutes. `silas devices pair`
    gives another one. On a desktop it is opened.

    Where nobody can be asked for the vault's passphrase, the page asks for it, or `silas unlock`.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    if first:
        _set_up_once(cli)
    loaded = _settings(cli, host=host, port=port)
    require_own_files(loaded.paths)
    vault = _vault(cli, loaded)
    locked = _is_locked(vault)
    opens = not no_open and on_terminal() and _has_display()
    reload = partial(_settings, cli, host=host, port=port)
    core = make_core(loaded, vault)
    asyncio.run(
        _serve(
            cli,
            loaded,
            core,
            reload=reload,
            opens=opens,
            links=not no_link,
            unlock=partial(_unlock, vault, loaded.paths.vault) if locked else None,
        )
    )


def _set_up_once(cli: CliContext) -> None:
    """Set Silas up where it is not; what was typed for that is not asked for again."""
    # Imported here: of all starts, only the first one needs it.
    from silas.cli.init import set_up_here  # noqa: PLC0415

    paths = settings_of(cli, to_be_made=True).paths
    if not (paths.database.exists() and paths.vault.exists() and paths.public_key.exists()):
        set_up_here(cli, yes=False, goes_on=True)


def _vault(cli: CliContext, loaded: LoadedSettings) -> OnDemandVault:
    loaded.paths.require_initialised()
    prompt, environ = passphrase_prompt(), cli.vault_environ
    return OnDemandVault(lambda: open_vault(loaded.paths.vault, environ=environ, prompt=prompt))


def _is_locked(vault: OnDemandVault) -> bool:
    """Open the vault now; whether nothing and nobody here can. What is wrong with it is raised."""
    try:
        vault.list()
    except VaultLocked:
        if vault.describe().unlocked_by != "passphrase":
            raise  # such as a keyring that nobody has unlocked: the page could not either
        return True
    return False


def _unlock(vault: OnDemandVault, path: Path, passphrase: str) -> None:
    """Open the vault with what was typed in the page; raises `WrongKey`."""
    opened = open_vault(path, environ={}, passphrase=passphrase)
    opened.list()
    vault.use(opened)


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
    core: AbstractAsyncContextManager[Core],
    *,
    reload: Callable[[], LoadedSettings],
    opens: bool,
    links: bool,
    unlock: Callable[[str], None] | None,
) -> None:
    gc.disable()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopping.set)
    clock = SystemClock()
    web = WebFront(clock, environ=os.environ, home=Path.home(), reload=reload)

    async def unlocking(opened: Core) -> None:
        if unlock is not None:
            await web.wait_for_passphrase(
                opened,
                unlock,
                stopping=stopping,
                ready=lambda: _say_locked(cli, loaded, web, links=links),
            )

    async with running_server(
        loaded.paths,
        clock=clock,
        command=shlex.join(["silas", *sys.argv[1:]]),
        core=core,
        jobs_of=core_jobs,
        stopping=stopping,
        conversation_of=web.open,
        api=web.api,
        unlocking=unlocking,
    ) as server:
        gc.freeze()  # what is there now stays: whoever looks for garbage need not look at it again
        gc.enable()
        if stopping.is_set():
            return
        link = web.link() if web.address and links else None
        status = {**await server.status(), "web": web.address or None, "link": link}
        cli.show(status, _greeting(server, web, link))
        sys.stdout.flush()
        if opens and link:
            _open_browser(link)
        await stopping.wait()
        cli.say("Stopping.")


def _say_locked(cli: CliContext, loaded: LoadedSettings, web: WebFront, *, links: bool) -> None:
    """What whoever started it without a passphrase reads, in a terminal or in a log."""
    link = web.link() if web.address and links else None
    lines = [
        f"Silas is locked (process {os.getpid()}): it was started without its passphrase.",
        f"Data:   {loaded.paths.data_dir}",
    ]
    if link is not None:
        lines.append(f"Type the passphrase in the page, within ten minutes: {link}")
    elif web.address:
        lines.append(f"Type the passphrase in a paired browser: {web.address}")
    lines.append("Or run `silas unlock` in a terminal.")
    cli.show({"locked": True, "web": web.address or None, "link": link}, "\n".join(lines))
    sys.stdout.flush()


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
    return "\n".join([*lines, "Stop it with Ctrl-C or `silas stop`.", *how_to_type_silas()])


def _open_browser(link: str) -> None:
    """Open the link, with no program from the directory in which `silas start` was typed."""
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(place for place in places if place.startswith("/"))
    webbrowser.open(link)


def _has_display() -> bool:
    seen = {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    return sys.platform == "darwin" or bool(seen)
