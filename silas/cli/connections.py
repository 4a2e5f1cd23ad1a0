"""`silas connect` and `silas connections`: accounts elsewhere, connected, looked after, taken back.

Everything goes through the API of the running Silas; without one, what can be done on the files is
done there. Nothing is connected here: `silas connect` puts a card before the owner, whose yes
connects. A password is typed where nothing is shown, and goes to the vault of the running Silas; a
sign-in happens in a browser, and the terminal says where. Ctrl-C meanwhile ends the setup.
"""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from silas.app.client import call_server
from silas.app.connections import make_connections
from silas.app.review import open_questions
from silas.cli.commands import (
    CliContext,
    JsonCommand,
    JsonGroup,
    ask_api,
    ask_hidden,
    confirm,
    on_terminal,
    pass_cli,
    paths_of,
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
_SIGN_IN_SECONDS = 1900.0
"""Longer than any code is valid."""
_STATES = {
    "proposed": "waits for you",
    "connecting": "is being set up",
    "active": "works",
    "paused": "is paused",
    "failed": "DOES NOT WORK",
}


def _ask(cli: CliContext, command: str, **given: Any) -> Any:
    """What a command of the API answers, here or in the Silas that is running."""

    def service(core: "Core") -> Any:
        secrets = PendingSecrets(core.vault, core.database, core.clock)
        return nullcontext(make_connections(core, open_questions(core, core.queue), secrets))

    found, path = CONNECTION_COMMANDS[command], f"/api/connections/{command}"
    needed = command in _NEEDS_A_SERVER
    return ask_api(cli, path, found, given, service, timeout=300.0, needs_server=needed)


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
@click.option("--secret", metavar="NAME", help="Take the password from the vault; do not ask.")
@pass_cli
def connect(
    cli: CliContext,
    *,
    skill: str,
    identity: str,
    name: str | None,
    domain: str | None,
    options: tuple[str, ...],
    secret: str | None,
) -> None:
    """Connect an account: SKILL is mail, calendar, github or another connection.

    IDENTITY is the account, such as you@example.org. A card shows what would be reached and what
    Silas could then do. At a terminal you are asked at once, and then for the password, or told
    where to sign in.
    """
    asked = _ask(
        cli,
        "connect",
        skill=skill,
        identity=identity,
        name=name,
        domain=domain,
        options=_options(options),
        secret=secret,
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
        f"Then type the password, or see where to sign in:  silas connections password {name}"
    )


def _go_on(cli: CliContext, name: str) -> None:
    """Follow a setup to its end; the owner types what is asked for."""
    _follow(cli, name, lambda shown: ask_hidden(f"Password for {visible(shown['name'])}"))


def _follow(cli: CliContext, name: str, typed: Callable[[dict[str, Any]], str]) -> None:
    """Answer each step of a setup, in its order, until it is over."""
    done: set[str] = set()
    while True:
        shown = _until(cli, name, _next_step(done))
        asked = _asks(shown) - done
        if not asked:
            break
        done |= asked
        if shown["wants_secret"]:
            cli.say(visible(shown["guidance"], keep_newlines=True))
            _type_secret(cli, shown, _typed(cli, shown, typed))
        else:
            _sign_in(cli, shown)
    _tell_end(cli, shown)


def _typed(cli: CliContext, shown: dict[str, Any], typed: Callable[[dict[str, Any]], str]) -> str:
    """What the owner types. Ctrl-C ends the setup."""
    try:
        return typed(shown)
    except (KeyboardInterrupt, click.Abort):
        _ask(cli, "cancel", name=shown["connection_id"])
        cli.say("Cancelled. Nothing was connected, and nothing that you typed is kept.")
        raise


def _next_step(done: set[str]) -> Callable[[dict[str, Any]], bool]:
    return lambda each: bool(_asks(each) - done) or _is_settled(each)


def _asks(shown: dict[str, Any]) -> set[str]:
    """What the setup waits for: the name of a secret, or the page of a sign-in."""
    return {shown["wants_secret"] or (shown["sign_in"] or {}).get("url", "")} - {""}


def _is_settled(shown: dict[str, Any]) -> bool:
    return _is_over(shown) and not shown["step"]


def _sign_in(cli: CliContext, shown: dict[str, Any]) -> None:
    """Say where to sign in, and wait until that is over. Ctrl-C ends the setup."""
    sign_in, name = shown["sign_in"], shown["connection_id"]
    until = visible(sign_in["expires_at"][11:16])
    if sign_in["user_code"]:
        cli.say(
            f"Open {visible(sign_in['url'])} and enter the code {visible(sign_in['user_code'])}"
        )
    else:
        cli.say(f"Open this page in a browser on this machine:\n{visible(sign_in['url'])}")
    cli.say(f"Silas waits until {until} UTC. Ctrl-C cancels.")
    try:
        _until(cli, name, lambda each: not each["sign_in"], seconds=_SIGN_IN_SECONDS)
    except KeyboardInterrupt:
        _ask(cli, "cancel", name=name)
        raise


def _is_over(shown: dict[str, Any]) -> bool:
    ended = shown["status"] in ("active", "failed")
    return ended or (shown["status"] == "proposed" and bool(shown["problem"]))


def _until(
    cli: CliContext, name: str, done: Any, *, seconds: float | None = None
) -> dict[str, Any]:
    """Look until it is so; what it does meanwhile is shown."""
    until, told = time.monotonic() + (seconds or _PATIENCE_SECONDS), ""
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
        found = visible(shown["problem"] or shown["found"], keep_newlines=False)
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
    lines += [f"{use['at'][:19]}  {visible(use['words'])}" for use in found["uses"]]
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
    """Type the password that the setup of a connection waits for, or see where to sign in."""
    shown = _until(cli, name, lambda each: _asks(each) or _is_settled(each))
    if not _asks(shown):
        raise AccountError(f"{visible(shown['name'])} asks for no password now.")
    hidden = on_terminal() and not from_stdin
    _follow(
        cli,
        name,
        lambda _: ask_hidden("Password") if hidden else sys.stdin.read().removesuffix("\n"),
    )


@connections.command()
@click.argument("name")
@click.option("--secret", metavar="NAME", help="Take the password from the vault; do not ask.")
@pass_cli
def reconnect(cli: CliContext, name: str, secret: str | None) -> None:
    """Set up again a connection that has failed: you type its password anew, or sign in."""
    shown = _ask(cli, "reconnect", name=name, secret=secret)
    if cli.as_json or not on_terminal():
        name = shown["connection_id"]
        then = f"Type the password, or see where to sign in:  silas connections password {name}"
        cli.show(shown, then)
        return
    _go_on(cli, shown["connection_id"])


@connections.command()
@click.argument("name")
@pass_cli
def cancel(cli: CliContext, name: str) -> None:
    """End a setup, wherever it is. What was typed is forgotten."""
    shown = _ask(cli, "cancel", name=name)
    stays = shown["status"] in ("active", "paused")
    cli.show(shown, f"{visible(name)} {'stays as it was' if stays else 'is not set up any more'}.")


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
    left = visible(gone["problem"], keep_newlines=False)
    text = f"{visible(gone['name'])} is removed, and its secret is forgotten. {left}"
    cli.show(gone, text.strip())


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
        then = (
            f"If its card says that you sign in again:  silas connections password {visible(name)}"
        )
        cli.show(asked, f"{text}\n{then}" if card else "It may do that already.")


@connections.command("it-request")
@click.argument("name")
@pass_cli
def it_request(cli: CliContext, name: str) -> None:
    """Write what your IT department has to know to let an account be connected. You send it."""
    found = _ask(cli, "it_request", name=name)
    cli.show(found, visible(found["text"]))


@connections.command()
@pass_cli
def crossings(cli: CliContext) -> None:
    """Show what may cross from one domain to another."""
    found = _ask(cli, "list")
    told = {"domains": found["domains"], "crossings": found["crossings"]}
    lines = [
        f"{each['source']} -> {each['target']}  signed {each['signed_at'][:10]}"
        + ("" if each["intact"] else "  CHANGED, and not used")
        for each in found["crossings"]
    ] or ["Nothing crosses from one domain to another."]
    lines.append(f"Domains: {', '.join(found['domains']) or 'none'}.")
    cli.show(told, "\n".join(lines))


@connections.command()
@click.argument("source")
@click.argument("target")
@pass_cli
def cross(cli: CliContext, source: str, target: str) -> None:
    """Ask to let what is read in the domain SOURCE be used in the domain TARGET."""
    asked = _ask(cli, "cross", source=source, target=target)
    card = asked["card_id"]
    if card is None:
        cli.show(asked, "It may cross already.")
    elif cli.as_json or not on_terminal():
        cli.show(asked, f"Read it and answer:  silas review answer {card} approve | decline")
    else:
        give_answer(cli, card, "approve")


@connections.command()
@click.argument("source")
@click.argument("target")
@pass_cli
def uncross(cli: CliContext, source: str, target: str) -> None:
    """Let nothing cross from the domain SOURCE to the domain TARGET any more."""
    left = _ask(cli, "uncross", source=source, target=target)
    cli.show(left, f"Nothing crosses from {visible(source)} to {visible(target)} any more.")
