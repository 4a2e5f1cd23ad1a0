"""`silas connect` and `silas connections`: accounts elsewhere, connected, looked after, taken back.

Everything goes through the API of the running Silas; without one, what can be done on the files is
done there. Nothing is connected here: `silas connect` puts a card before the owner, whose yes
connects. A password is typed where nothing is shown, and goes to the vault of the running Silas.
"""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from silas.app.client import NotRunning, call_server
from silas.app.connections import make_connections
from silas.app.review import open_questions
from silas.cli.commands import (
    CliContext,
    JsonCommand,
    JsonGroup,
    ask_hidden,
    confirm,
    on_terminal,
    pass_cli,
    paths_of,
    with_core,
)
from silas.cli.review import give_answer
from silas.kernel import AccountError, visible
from silas.web.connections import CONNECTION_COMMANDS
from silas.web.pending_secrets import PendingSecrets

if TYPE_CHECKING:
    from silas.app.core import Core

_NEEDS_A_SERVER = frozenset({"connect", "reconnect", "cancel"})
"""A setup lives in the Silas that is running."""
_LOOK_SECONDS = 0.3
_PATIENCE_SECONDS = 180.0
_STATES = {
    "proposed": "waits for you",
    "connecting": "is being set up",
    "active": "works",
    "paused": "is paused",
    "failed": "DOES NOT WORK",
}


def _ask(cli: CliContext, command: str, **given: Any) -> Any:
    """What a command of the API answers, here or in the Silas that is running."""
    found = CONNECTION_COMMANDS[command]
    values = {key: value for key, value in given.items() if value is not None}
    try:
        return call_server(paths_of(cli), f"/api/connections/{command}", values, timeout=300.0)
    except NotRunning:
        if command in _NEEDS_A_SERVER:
            raise

    async def inside(core: "Core") -> Any:
        secrets = PendingSecrets(core.vault, core.database, core.clock)
        service = make_connections(core, open_questions(core, core.queue), secrets)
        answer = await found.run(service, found.read(values))
        return answer.model_dump(mode="json")

    return with_core(cli, inside)


@click.command(cls=JsonCommand)
@click.argument("skill")
@click.argument("identity", default="")
@click.option("--name", help="What you call it; unless given, provider and account.")
@click.option("--domain", help="`personal` unless given, or such as `business:acme`.")
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="What the connection should know, such as imap=imap.example.org:993.",
)
@pass_cli
def connect(
    cli: CliContext,
    *,
    skill: str,
    identity: str,
    name: str | None,
    domain: str | None,
    options: tuple[str, ...],
) -> None:
    """Connect an account: SKILL is mail, calendar, github or another connection.

    IDENTITY is the account, such as you@example.org. A card shows what would be reached and what
    Silas could then do. At a terminal you are asked at once, and then for the password.
    """
    asked = _ask(
        cli,
        "connect",
        skill=skill,
        identity=identity,
        name=name,
        domain=domain,
        options=_options(options),
    )
    if cli.as_json or not on_terminal():
        cli.show(asked, _what_next(asked))
        return
    give_answer(cli, asked["card_id"], "approve")
    _go_on(cli, asked["connection"]["connection_id"])


def _options(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for each in given:
        key, sign, value = each.partition("=")
        if not sign or not key:
            raise click.UsageError(f"--option must be KEY=VALUE, and not {visible(each)}.")
        found[key] = value
    return found


def _what_next(asked: dict[str, Any]) -> str:
    name = asked["connection"]["connection_id"]
    return (
        "Nothing is connected yet. Read what would be reached, and answer:\n"
        f"  silas review show {asked['card_id']}\n"
        f"  silas review answer {asked['card_id']} approve\n"
        f"Then type the password:  silas connections password {name}"
    )


def _go_on(cli: CliContext, name: str) -> None:
    """Follow a setup to its end; the owner types what is asked for."""
    shown = _until(cli, name, lambda each: each["wants_secret"] or _is_over(each))
    if shown["wants_secret"]:
        _type_secret(cli, shown, ask_hidden(f"Password for {visible(shown['name'])}"))
        shown = _until(cli, name, lambda each: _is_over(each) and not each["step"])
    _tell_end(cli, shown)


def _is_over(shown: dict[str, Any]) -> bool:
    ended = shown["status"] in ("active", "failed")
    return ended or (shown["status"] == "proposed" and bool(shown["problem"]))


def _until(cli: CliContext, name: str, done: Any) -> dict[str, Any]:
    """Look until it is so; what it does meanwhile is shown."""
    until, told = time.monotonic() + _PATIENCE_SECONDS, ""
    while True:
        shown: dict[str, Any] = _ask(cli, "show", name=name)["connection"]
        if done(shown):
            return shown
        if shown["step"] and shown["step"] != told:
            told = shown["step"]
            cli.say(visible(told))
        if time.monotonic() > until:
            raise AccountError(
                f"{visible(shown['name'])} is not set up yet. "
                f"`silas connections show {shown['connection_id']}` says how far it is."
            )
        time.sleep(_LOOK_SECONDS)


def _type_secret(cli: CliContext, shown: dict[str, Any], value: str) -> None:
    path = f"/secrets/{quote(shown['wants_secret'])}"
    call_server(paths_of(cli), path, {"value": value}, timeout=60.0)


def _tell_end(cli: CliContext, shown: dict[str, Any]) -> None:
    name = visible(shown["name"], keep_newlines=False)
    if shown["status"] == "active":
        found = visible(shown["found"], keep_newlines=False)
        cli.show(shown, f"{name} is connected. {found}".strip())
        return
    reason = visible(shown["problem"], keep_newlines=False)
    raise AccountError(f"{name} is not connected. {reason}")


@click.group(cls=JsonGroup)
def connections() -> None:
    """Your accounts elsewhere. `docs/connections.md` describes them."""


@connections.command("list")
@click.option("--domain", help="Only those of one domain.")
@pass_cli
def list_connections(cli: CliContext, domain: str | None) -> None:
    """Show all connections, and what can be connected."""
    found = _ask(cli, "list", domain=domain)
    lines = [_line(each) for each in found["connections"]] or ["Nothing is connected yet."]
    kinds = ", ".join(each["skill"] for each in found["kinds"]) or "none"
    lines.append(f"What can be connected: {visible(kinds)}. `silas connect SKILL ACCOUNT` does it.")
    cli.show(found, "\n".join(lines))


def _line(each: dict[str, Any]) -> str:
    used = each["last_used_at"]
    parts = [
        visible(each["name"], keep_newlines=False),
        _STATES[each["status"]] if each["intact"] else "CHANGED, and not used",
        f"may {', '.join(each['permissions'])}" if each["permissions"] else "",
        visible(each["domain"]),
        f"used {used[:10]}" if used else "never used",
    ]
    problem = visible(each["problem"], keep_newlines=False)
    told = f"\n    {problem}" if problem else ""
    return "  ".join(filter(None, parts)) + f"  ({each['connection_id']}){told}"


@connections.command()
@click.argument("name")
@pass_cli
def show(cli: CliContext, name: str) -> None:
    """Show a connection whole: servers, permissions, what was done with it."""
    found = _ask(cli, "show", name=name)
    each = found["connection"]
    lines = [_line(each)]
    lines += [f"server {visible(server)}" for server in each["servers"]]
    lines.append(f"can be granted: {', '.join(each['can_be_granted']) or 'nothing more'}")
    lines.append(f"its secret in the vault: {visible(found['secret'])}")
    lines.append(
        f"checked: {found['health_check']}, last at {each['last_health_check'] or 'never'}"
    )
    lines += [f"waits for you: silas review show {card}" for card in each["card_ids"]]
    lines += [f"{use['at'][:19]}  {use['event']}  {visible(use['tool'])}" for use in found["uses"]]
    cli.show(found, "\n".join(lines))


@connections.command()
@click.argument("name", required=False)
@pass_cli
def check(cli: CliContext, name: str | None) -> None:
    """Try a connection now, or all of them."""
    found = _ask(cli, "check", name=name)
    lines = []
    for each in found["checks"]:
        result = each["result"]
        well = f"works ({result['latency_ms']} ms)" if result["healthy"] else "DOES NOT WORK"
        error = visible(result["error"] or "", keep_newlines=False)
        lines.append(f"{visible(each['name'])}  {well}  {error}".rstrip())
    cli.show(found, "\n".join(lines) or "No connection is active.")


@connections.command()
@click.argument("name")
@click.option("--stdin", "from_stdin", is_flag=True, help="Read it from standard input.")
@pass_cli
def password(cli: CliContext, name: str, from_stdin: bool) -> None:
    """Type the password that the setup of a connection waits for."""
    shown = _until(cli, name, lambda each: each["wants_secret"] or _is_over(each))
    if not shown["wants_secret"]:
        raise AccountError(f"{visible(shown['name'])} asks for no password now.")
    typed = on_terminal() and not from_stdin
    value = ask_hidden("Password") if typed else sys.stdin.read().removesuffix("\n")
    _type_secret(cli, shown, value)
    _tell_end(cli, _until(cli, name, lambda each: _is_over(each) and not each["step"]))


@connections.command()
@click.argument("name")
@pass_cli
def reconnect(cli: CliContext, name: str) -> None:
    """Set up again a connection that has failed: you type its password anew."""
    shown = _ask(cli, "reconnect", name=name)
    if cli.as_json or not on_terminal():
        then = f"Type the password:  silas connections password {shown['connection_id']}"
        cli.show(shown, then)
        return
    _go_on(cli, shown["connection_id"])


@connections.command()
@click.argument("name")
@pass_cli
def cancel(cli: CliContext, name: str) -> None:
    """End a setup, wherever it is. What was typed is forgotten."""
    cli.show(_ask(cli, "cancel", name=name), f"{visible(name)} is not set up any more.")


@connections.command()
@click.argument("name")
@pass_cli
def pause(cli: CliContext, name: str) -> None:
    """Let nothing use a connection."""
    cli.show(_ask(cli, "pause", name=name), f"Nothing uses {visible(name)} any more.")


@connections.command()
@click.argument("name")
@pass_cli
def resume(cli: CliContext, name: str) -> None:
    """Let a paused connection be used again."""
    cli.show(_ask(cli, "resume", name=name), f"{visible(name)} can be used again.")


@connections.command()
@click.argument("name")
@click.argument("new_name")
@pass_cli
def rename(cli: CliContext, name: str, new_name: str) -> None:
    """Call a connection NEW_NAME."""
    shown = _ask(cli, "rename", name=name, new_name=new_name)
    cli.show(shown, f"It is called {visible(shown['name'])} now.")


@connections.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_cli
def remove(cli: CliContext, name: str, yes: bool) -> None:
    """Forget a connection and its secret. Plans that use it do not work any more."""
    confirm(f"Forget {visible(name)} and its secret?", yes=yes)
    gone = _ask(cli, "remove", name=name)
    cli.show(gone, f"{visible(gone['name'])} is removed, and its secret is forgotten.")


@connections.command()
@click.argument("name")
@click.argument("permission", required=False)
@click.option("--take-back", is_flag=True, help="Take the permission back.")
@pass_cli
def permissions(cli: CliContext, name: str, permission: str | None, take_back: bool) -> None:
    """Show what a connection may do, or ask for a PERMISSION more.

    A card shows what it may now and what it could then. Taking back needs no card.
    """
    if permission is None:
        each = _ask(cli, "show", name=name)["connection"]
        more = ", ".join(each["can_be_granted"]) or "nothing"
        text = f"It may: {', '.join(each['permissions']) or 'nothing'}\nIt could be granted: {more}"
        cli.show(each, text)
    elif take_back:
        shown = _ask(cli, "disallow", name=name, permission=permission)
        cli.show(shown, f"{visible(shown['name'])} may: {', '.join(shown['permissions'])}")
    else:
        asked = _ask(cli, "allow", name=name, permission=permission)
        card = asked["card_id"]
        text = f"Read it and answer:  silas review answer {card} approve | just_this_once | deny"
        cli.show(asked, text if card else "It may do that already.")
