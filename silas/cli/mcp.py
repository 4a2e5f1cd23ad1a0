"""`silas mcp`: other people's tool servers for Silas, and Silas for other programs.

Everything but `import` goes through the API of the running Silas; without one, on the files.
Nothing is started or used here: `silas mcp add` puts a card before the owner, whose yes starts the
server once, to read its tools; they are used after the yes to a second card. `serve` is the other
way round: other programs ask the owner.
"""

import asyncio
import os
import shutil
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import silas
from silas.app.client import call_server
from silas.cli.commands import (
    CliContext,
    JsonGroup,
    ask_api,
    pass_cli,
    paths_of,
)
from silas.cli.hook import named_paths, token_file
from silas.kernel import ServerError, visible

if TYPE_CHECKING:
    from silas.app.core import Core
    from silas.mcp.importing import ConfiguredServer
    from silas.settings.paths import Paths

_EFFECTS = ("read", "change", "send", "irreversible", "ask")
_FROM_ENVIRONMENT = "SILAS_CLIENT_TOKEN"
_ANSWER_SECONDS = 30.0


class ProtocolMissing(ServerError):
    """The protocol needs its SDK. Install it with `pip install 'silas[mcp]'`."""

    code = "E_SERVER_PROTOCOL"


@click.group(cls=JsonGroup)
def mcp() -> None:
    """Tool servers that speak the Model Context Protocol. `docs/mcp.md` describes them."""


def _ask(cli: CliContext, command: str, **given: Any) -> Any:
    """What a command of the API answers, here or in the Silas that is running."""
    # Loaded here: `silas mcp import` needs none of it.
    from silas.app.review import open_questions  # noqa: PLC0415
    from silas.app.skills import make_skills, make_tool_servers  # noqa: PLC0415
    from silas.web.mcp import MCP_COMMANDS  # noqa: PLC0415

    def service(core: "Core") -> Any:
        skills = make_skills(core, open_questions(core, core.queue))
        return nullcontext(make_tool_servers(core, skills))

    found, path = MCP_COMMANDS[command], f"/api/mcp/{command}"
    return ask_api(cli, path, found, given, service, timeout=300.0)


def _line(text: str) -> str:
    return visible(text, keep_newlines=False)


@mcp.command("list")
@pass_cli
def list_servers(cli: CliContext) -> None:
    """Show all tool servers, and what waits for you."""
    found = _ask(cli, "list")
    lines = [_server_line(each) for each in found["servers"]] or ["There is no tool server."]
    lines += map(_waiting_line, found["waiting"])
    for each in found["failed"]:
        name, reason = _line(each["name"]), _line(each["reason"])
        lines.append(f"{name}  its tools could not be read: {reason} Ask for it again.")
    cli.show(found, "\n".join(lines))


def _waiting_line(waiting: dict[str, Any]) -> str:
    name = _line(waiting["name"])
    if waiting["sign_in"]:
        return f"{name}  {_line(waiting['asks'])} Open: {_line(waiting['sign_in'])}"
    return f"{name}  waits for you: `silas review show {waiting['card_id']}`"


def _server_line(server: dict[str, Any]) -> str:
    state = {"installed": "", "quarantined": "QUARANTINED"}.get(server["state"], server["state"])
    undecided = server["undecided"]
    parts = [
        _line(server["name"]),
        state if server["intact"] else "CHANGED, and not used",
        "1 tool" if server["tools"] == 1 else f"{server['tools']} tools",
        f"without an effect, so asked about every time: {undecided}" if undecided else "",
    ]
    lines = ["  ".join(filter(None, parts)), f"    {_line(server['runs'])}"]
    if server["reason"]:
        lines.append(f"    {_line(server['reason'])}")
    return "\n".join(lines)


@mcp.command()
@click.argument("name")
@pass_cli
def show(cli: CliContext, name: str) -> None:
    """Show a server whole: what runs, each tool with its effect, and what its server says of it."""
    found = _ask(cli, "show", name=name)
    lines = [f"{_line(found['name'])}  {found['state']}", *map(visible, found["summary"])]
    if found["reason"]:
        lines.append(f"It is quarantined: {visible(found['reason'])}")
    for tool in found["tools"]:
        lines += ["", f"{tool['name']}  {tool['effect'] or 'ask'}", visible(tool["description"])]
    if found["card_id"]:
        lines.append(f"\nIt waits for you: `silas review show {found['card_id']}`")
    cli.show(found, "\n".join(lines))


@mcp.command()
@click.argument("name")
@click.argument("program")
@click.argument("arguments", nargs=-1)
@click.option("--tree", "trees", multiple=True, metavar="DIR", help="A folder that it runs out of.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable that it gets.")
@click.option(
    "--workspace",
    type=click.Choice(["none", "read", "write"]),
    help="Whether it sees the copy of a plan's workspace. In ARGUMENTS, {workspace} is where.",
)
@click.option("--memory", "memory_mb", type=int, default=1024, help="Megabytes, at most.")
@pass_cli
def add(
    cli: CliContext,
    /,
    name: str,
    program: str,
    arguments: tuple[str, ...],
    **options: Any,
) -> None:
    """Ask to use the server that PROGRAM with its ARGUMENTS is; put `--` before both.

    Nothing is started before your yes. Name the program whole, not `npx` or `uvx`.
    """
    given = {
        "program": _whole(program) if "/" in program else shutil.which(program) or program,
        "arguments": list(arguments),
        "trees": [_whole(each) for each in options["trees"]],
        "variables": dict(_pair(each, "NAME=VALUE") for each in options["env"]),
        "workspace": options["workspace"],
        "memory_mb": options["memory_mb"],
    }
    _asked(cli, _ask(cli, "add", name=name, **given))


@mcp.command()
@click.argument("name")
@click.argument("url")
@click.option("--address", help="The private address, of a server in your own network.")
@click.option(
    "--sign-in", type=click.Choice(["none", "bearer", "oauth"]), default="none", help="How."
)
@click.option("--issuer", metavar="URL", help="Where you sign in (with oauth).")
@click.option("--client", "client_id", metavar="ID", help="As which client (with oauth).")
@click.option("--scope", "scopes", multiple=True, help="What is asked for (with oauth).")
@pass_cli
def connect(cli: CliContext, /, name: str, url: str, **options: Any) -> None:
    """Ask to use the server of somebody else's at URL.

    Store a `bearer` token with `silas secrets set mcp/NAME` first. With `oauth`, you sign in
    after your yes: `silas mcp list` shows where.
    """
    given = {**options, "scopes": list(options["scopes"])}
    _asked(cli, _ask(cli, "connect", name=name, url=url, **given))


@mcp.command()
@click.argument("name")
@click.argument("tools", nargs=-1, required=True, metavar="TOOL=EFFECT...")
@click.option("--inverse", multiple=True, metavar="TOOL=TOOL", help="What undoes a change.")
@click.option("--hosts", multiple=True, metavar="TOOL=HOST,HOST", help="What it may reach.")
@pass_cli
def effects(
    cli: CliContext,
    name: str,
    tools: tuple[str, ...],
    inverse: tuple[str, ...],
    hosts: tuple[str, ...],
) -> None:
    """Say what each TOOL does: read, change, send, irreversible, or ask (every time).

    A new card shows the tools with these effects. They count after your yes to it.
    """
    said = dict(_pair(each, "TOOL=EFFECT") for each in tools)
    wrong = sorted(set(said.values()) - set(_EFFECTS))
    if wrong:
        raise click.UsageError(f"{wrong[0]} is no effect. Choose one of {', '.join(_EFFECTS)}.")
    given = {
        "effects": said,
        "inverses": dict(_pair(each, "TOOL=TOOL") for each in inverse),
        "hosts": {
            tool: [host for host in listed.split(",") if host]
            for tool, listed in (_pair(each, "TOOL=HOST") for each in hosts)
        },
    }
    _asked(cli, _ask(cli, "assign", name=name, **given))


def _whole(path: str) -> str:
    """What the person means, whose working directory the server does not know."""
    return os.path.normpath(Path.cwd() / Path(path).expanduser())


def _pair(text: str, form: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.UsageError(f"Write {form}, not {_line(text)}.")
    return name, value


def _asked(cli: CliContext, asked: dict[str, Any]) -> None:
    card = asked["card_id"]
    how = f"Look at it:  silas review show {card}\nThen decide:  silas review answer {card} approve"
    cli.show(asked, f"{_line(asked['asks'])} Nothing is done yet.\n{how}")


@mcp.command()
@click.argument("name")
@pass_cli
def check(cli: CliContext, name: str) -> None:
    """Compare a server with what you have approved: its program, its files, its tools.

    The server is started for it. One that differs is quarantined.
    """
    found = _ask(cli, "check", name=name)
    if found["intact"]:
        cli.show(found, f"{_line(name)} is as you have approved it.")
        return
    lines = [f"{_line(name)} is quarantined. Nothing uses it.", *map(_line, found["found"])]
    cli.show(found, "\n".join([*lines, f"Look at it again:  silas mcp renew {_line(name)}"]))


@mcp.command()
@click.argument("name")
@pass_cli
def renew(cli: CliContext, name: str) -> None:
    """Ask to use a server as it is now: what has changed is shown on a card."""
    _asked(cli, _ask(cli, "renew", name=name))


@mcp.command()
@click.argument("name")
@pass_cli
def remove(cli: CliContext, name: str) -> None:
    """Take a server away. Its program stays where you have installed it."""
    cli.show(_ask(cli, "remove", name=name), f"{_line(name)} is removed.")


@mcp.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.argument("names", nargs=-1, metavar="[NAME]...")
@pass_cli
def import_(cli: CliContext, file: Path, names: tuple[str, ...]) -> None:
    """Show which tool servers another program is set up with, in FILE.

    FILE is the `mcp.json` of Claude, Cursor or VS Code, or the `config.toml` of Codex. Nothing is
    started, and nothing is granted. The values of variables and headers are not taken over. With
    NAMEs, you are asked about these.
    """
    from silas.mcp.importing import read_configuration  # noqa: PLC0415 - for this command alone

    found = read_configuration(file)
    if not names:
        shown = [each.model_dump(mode="json") for each in found]
        cli.show({"servers": shown}, "\n".join(_found_lines(each) for each in found))
        return
    known = {each.name: each for each in found}
    cards = [_add_configured(cli, _named(known, name)) for name in names]
    lines = [f"{_line(each['asks'])} `silas review show {each['card_id']}`" for each in cards]
    cli.show({"cards": cards}, "\n".join(lines))


def _named(known: dict[str, "ConfiguredServer"], name: str) -> "ConfiguredServer":
    if name not in known:
        raise click.UsageError(f"There is no {_line(name)}. There are: {', '.join(known)}.")
    if not known[name].can_be_added:
        raise click.UsageError(f"{_line(name)}: {' '.join(known[name].problems)}")
    return known[name]


def _add_configured(cli: CliContext, server: "ConfiguredServer") -> Any:
    if server.url:
        return _ask(cli, "connect", name=server.name, url=server.url)
    given = {"program": server.program, "arguments": list(server.arguments)}
    return _ask(cli, "add", name=server.name, **given)


def _found_lines(server: "ConfiguredServer") -> str:
    what = server.url or " ".join([server.program, *server.arguments])
    lines = [f"{server.name}  {_line(what)}"]
    if server.variables:
        lines.append(f"    its variables are not taken over: {', '.join(server.variables)}")
    lines += [f"    {each}" for each in server.problems]
    return "\n".join(lines)


@mcp.command()
@click.option("--client", "name", metavar="NAME", help="The program that starts this, by its name.")
@click.option(
    "--http",
    "port",
    type=click.IntRange(1, 65_535),
    metavar="PORT",
    help="Serve on this port of this machine instead; each request shows the token of its program.",
)
@pass_cli
def serve(cli: CliContext, name: str | None, port: int | None) -> None:
    """Let programs that speak the protocol ask you through Silas.

    They may propose, wait and read the answer; nothing that they can call approves. The program
    that starts this is one of `silas clients list`: its token is the one that `silas clients add
    NAME --keep` keeps, or that in SILAS_CLIENT_TOKEN. `docs/other-agents.md` says how to set it up.
    """
    try:
        from silas.mcp.serving import serve_http, serve_stdio  # noqa: PLC0415 - the extra is optional
    except ImportError as error:
        raise ProtocolMissing from error
    paths = named_paths(cli) if port is None else paths_of(cli)
    ask = partial(ask_silas, paths)
    if port is not None:
        if name is not None:
            raise click.UsageError("Over HTTP each request shows its token: leave --client out.")
        click.echo(f"http://127.0.0.1:{port}/mcp", err=True)
        asyncio.run(serve_http(ask, port, version=silas.__version__))
        return
    token = os.environ.get(_FROM_ENVIRONMENT) or _kept_token(paths, name)
    asyncio.run(serve_stdio(ask, token, version=silas.__version__))


def ask_silas(paths: "Paths", command: str, arguments: Mapping[str, Any]) -> Any:
    """One command of the running Silas; waits as long as the command says, and a while longer."""
    patience = float(arguments.get("wait_seconds") or 0) + _ANSWER_SECONDS
    return call_server(paths, f"/api/proposals/{command}", arguments, timeout=patience)


def _kept_token(paths: "Paths", name: str | None) -> str:
    if name is None:
        raise click.UsageError("Say which program this is: --client NAME.")
    try:
        return token_file(paths, name).read_text().strip()
    except OSError as error:
        raise click.UsageError(
            f"There is no token for {name!a} here: `silas clients add NAME --keep` keeps one."
        ) from error
