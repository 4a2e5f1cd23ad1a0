"""`silas clients` and `silas hook`: other agents ask the owner through Silas.

1. A hook answers what it was asked, and allows with the owner's signed yes to exactly that alone.
2. Everything else is a no that the agent understands: no Silas, no answer in time, an error, a
   request that is not understood. A hook that fell silent would leave the decision to the agent, so
   it answers before the agent's patience ends, also while Silas hangs or the agent breaks it off.
3. It is installed where the owner sees first what is written.
4. Which Silas is asked is written into what the agent starts, and never read from the folder that
   the agent is in: whoever writes files there would answer in the owner's place.
"""

import json
import re
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import click

from silas.app.client import NotRunning, call_server
from silas.cli.commands import CliContext, JsonCommand, JsonGroup, confirm, pass_cli, paths_of
from silas.kernel import ServerError, SilasError, visible
from silas.kernel.program import program
from silas.settings.paths import Paths
from silas.storage.files import PRIVATE_DIRECTORY, write_private_file

_AGENTS = {"claude": "Claude Code", "codex": "Codex"}
_FILES = {"claude": Path(".claude/settings.json"), "codex": Path(".codex/hooks.json")}
_INSTALLED = {
    "claude": "Claude Code asks you through Silas from now on. Without Silas, it is denied.",
    "codex": "Codex runs no hook before you have trusted it there: type /hooks in Codex. From then "
    "on it asks you through Silas. Without Silas, it is denied.",
}
_EVENT = "PermissionRequest"
_BEFORE = "PreToolUse"
_PATIENCE = 300
_GRACE = 30
"""How much longer an agent waits for its hook than the hook does for the owner."""
_WAIT_SECONDS = 20
_SILENT_SECONDS = 10.0
"""How much longer than it was asked to wait Silas may take for one answer. A question, a look that
begins at the last moment and taking the card away end within `_GRACE`, whatever hangs."""
_NOT_UNDERSTOOD = 2
"""The exit code with which both agents take a hook to refuse."""
_SHOWN = ("tool_name", "tool_input", "cwd")


@click.group(cls=JsonGroup)
def clients() -> None:
    """Show, add and remove the programs that may ask you through Silas."""


def _ask(paths: Paths, command: str, *, timeout: float = 60.0, **arguments: Any) -> Any:
    return call_server(paths, f"/api/proposals/{command}", arguments, timeout=timeout)


@clients.command("list")
@pass_cli
def list_clients(cli: CliContext) -> None:
    """Show who may ask."""
    found = _ask(paths_of(cli), "list_clients")
    lines = [
        f"{visible(each['name'])}  {each['client_id']}  since {each['created_at'][:10]}"
        for each in found["clients"]
    ]
    cli.show(found, "\n".join(lines) or "No other program may ask you through Silas.")


@clients.command("add")
@click.argument("name")
@click.option(
    "--keep",
    is_flag=True,
    help="Keep its token here, readable for you alone, for `silas mcp serve --client NAME`.",
)
@pass_cli
def add_client(cli: CliContext, name: str, keep: bool) -> None:
    """Let a program ask. It may put cards before you, and nothing else."""
    paths = paths_of(cli)
    added = _ask(paths, "add_client", name=name)
    if keep:
        _keep_token(paths, name, added.pop("token"))
        command = _own_command(paths, "mcp", "serve", "--client", name)
        cli.show({**added, "command": command}, f"{visible(name)} may ask. It starts: {command}")
        return
    told = f"{visible(name)} may ask. It shows this token, which is told only now:"
    cli.show(added, "\n".join([told, added["token"]]))


@clients.command("show")
@click.argument("name")
@pass_cli
def show_client(cli: CliContext, name: str) -> None:
    """Show what a program may do, what it asks often, and what it has asked lately."""
    found = _ask(paths_of(cli), "show_client", name=name)
    rules = found["rules"]
    folder = f", works below {visible(rules['folder'])}" if rules["folder"] else ""
    limits = f"{rules['waiting']} requests wait at most, {rules['per_minute']} come in a minute"
    lines = [
        f"{visible(found['name'])}  {found['client_id']}  since {found['created_at'][:10]}",
        f"  counts as {rules['taint']}{folder}; {limits}",
    ]
    for each in found["grants"]:
        shape, until = each["shape"], each["expires_at"][:10]
        used = f"{each['used']} of {shape['times']} times, until {until}"
        tool = shape["envelope"]["tool"]
        lines.append(f"  may use {tool} without asking ({used})  {each['token_id']}")
        lines += [f"    {words}" for words in each["words"]]
    for number, each in enumerate(found["habits"], 1):
        lines.append(f"  [{number}] you allowed {each['envelope']['tool']} {each['allowed']} times")
        lines += [f"    {words}" for words in each["words"]]
    lines += [
        f"  {each['created_at'][:16]}  {each['state']}  {visible(each['asked'])}"
        for each in found["proposals"]
    ]
    cli.show(found, "\n".join(lines))


@clients.command("grant")
@click.argument("name")
@click.argument("number", type=click.IntRange(1))
@click.option("--times", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--days", type=click.IntRange(1, 30), default=14, show_default=True)
@pass_cli
def grant(cli: CliContext, name: str, number: int, times: int, days: int) -> None:
    """Ask for a standing grant: what `silas clients show NAME` lists under this NUMBER.

    It becomes a card in Review, and is in force once you have signed it.
    """
    habits = _ask(paths_of(cli), "show_client", name=name)["habits"]
    if number > len(habits):
        raise click.UsageError(f"`silas clients show` lists {len(habits)} of them.")
    envelope = habits[number - 1]["envelope"]
    asked = _ask(paths_of(cli), "ask_grant", name=name, envelope=envelope, times=times, days=days)
    cli.show(asked, f"{visible(asked['asks'])}: {asked['card_id']} waits in Review.")


@clients.command("revoke")
@click.argument("name")
@click.argument("grant_id", metavar="GRANT")
@pass_cli
def revoke(cli: CliContext, name: str, grant_id: str) -> None:
    """Take a standing grant back. From now on you are asked again."""
    ended = _ask(paths_of(cli), "revoke_grant", name=name, grant_id=grant_id)
    cli.show(ended, f"{ended['token_id']} is taken back.")


@clients.command("rules")
@click.argument("name")
@click.option("--taint", type=click.Choice(["external", "auth"]), help="What its text counts as.")
@click.option("--folder", help="Where work that it proposes may happen.")
@click.option("--waiting", type=click.IntRange(1, 20), help="How many requests may wait.")
@click.option("--per-minute", type=click.IntRange(1, 60), help="How many may come in a minute.")
@pass_cli
def rules(cli: CliContext, /, name: str, **said: Any) -> None:
    """Change what holds for a program. It becomes a card in Review, for you to sign."""
    before = _ask(paths_of(cli), "show_client", name=name)["rules"]
    wanted = {**before, **{key: value for key, value in said.items() if value is not None}}
    asked = _ask(paths_of(cli), "ask_rules", name=name, rules=wanted)
    cli.show(asked, f"{visible(asked['asks'])}: {asked['card_id']} waits in Review.")


@clients.command("remove")
@click.argument("name")
@pass_cli
def remove_client(cli: CliContext, name: str) -> None:
    """Let a program ask no more. What it asked is withdrawn."""
    removed = _ask(paths_of(cli), "remove_client", name=name)
    token_file(paths_of(cli), name).unlink(missing_ok=True)
    cli.show(removed, f"{visible(removed['name'])} may ask no more.")


@click.group(cls=JsonGroup)
def hook() -> None:
    """Let Claude Code or Codex ask you through Silas before it acts."""


def _hook_command(agent: str) -> click.Command:
    @click.option(
        "--seconds",
        type=click.IntRange(1, 3600),
        default=_PATIENCE,
        show_default=True,
        help="How long you have to answer. Nobody answers: it is a no.",
    )
    @pass_cli
    def answer(cli: CliContext, seconds: int) -> None:
        try:
            for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(each, _break_off)
            request = _read_request()
            allowed, reason = _decided(named_paths(cli), agent, request, seconds)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, it is a no (rule 2)
            known = error.message if isinstance(error, SilasError) else type(error).__name__
            _refuse(f"Silas could not ask: {known}")
        click.echo(json.dumps(_reply(request["hook_event_name"], allowed, reason)))

    answer.__doc__ = (
        f"Answer a permission request of {_AGENTS[agent]}, read from standard input.\n\n"
        "It becomes a card in Review. Allowed is what you sign; everything else is denied."
    )
    return click.command(agent, cls=JsonCommand)(answer)


for _agent in _AGENTS:
    hook.add_command(_hook_command(_agent))


def named_paths(cli: CliContext) -> Paths:
    """The Silas that was named; raises `WhichSilas` if only the folder would say it (rule 4)."""
    if not cli.data_dir and not cli.config_file:
        raise WhichSilas
    return paths_of(cli)


def _own_command(paths: Paths, *words: str) -> str:
    """What another program starts to ask this very Silas, as a shell reads it."""
    return f"{program()} {shlex.join(['--data-dir', str(paths.data_dir.resolve()), *words])}"


def _read_request() -> dict[str, Any]:
    """What the agent asks; ends the process with a refusal if it is not understood (rule 2)."""
    try:
        request: Any = json.loads(sys.stdin.read())
    except (ValueError, OSError, RecursionError) as error:
        _refuse(f"Silas cannot read this request: {error}")
    if not isinstance(request, dict) or request.get("hook_event_name") not in (_EVENT, _BEFORE):
        _refuse(f"Silas answers the hooks {_EVENT} and {_BEFORE}, and this is neither.")
    if not isinstance(request.get("tool_name"), str) or not isinstance(
        request.get("tool_input"), dict
    ):
        _refuse("The request names no tool, or not what it would do.")
    return dict(request)


def _refuse(reason: str) -> NoReturn:
    click.echo(f"Denied: {reason}", err=True)
    raise SystemExit(_NOT_UNDERSTOOD)


def _decided(paths: Paths, agent: str, asked: dict[str, Any], seconds: int) -> tuple[bool, str]:
    """Whether the owner allowed it, and what to tell the agent."""
    request = {name: asked[name] for name in _SHOWN if name in asked}
    command = request["tool_input"].get("command")
    title = "run a command" if isinstance(command, str) else f"use {asked['tool_name']}"[:200]
    end = time.monotonic() + seconds
    try:
        token = token_file(paths, _AGENTS[agent]).read_text().strip()
        kind = "command" if isinstance(command, str) else "tool"
        proposal = _ask(
            paths,
            "propose",
            timeout=min(60.0, seconds + _SILENT_SECONDS),
            token=token,
            title=title,
            request=request,
            seconds=seconds,
            kind=kind,
        )
        return _answer(paths, token, proposal, request, end)
    except NotRunning:
        return False, "Silas is not running, so nobody could be asked. Start it: silas start"
    except FileNotFoundError:
        return False, f"Silas does not know this client. Install it: silas hook install {agent}"
    except (SilasError, OSError, ValueError) as error:
        return False, str(error)


def _answer(
    paths: Paths, token: str, proposal: dict[str, Any], request: dict[str, Any], end: float
) -> tuple[bool, str]:
    """What the owner says before `end`; a card that nobody waits for any more is taken away."""
    if proposal["answer"] != "waiting":  # a standing grant has answered
        return proposal["answer"] == "allow", proposal["reason"]
    name = proposal["proposal_id"]
    asked = {"token": token, "proposal_id": name, "request": request}
    try:
        while (left := end - time.monotonic()) > 0:
            wait = min(_WAIT_SECONDS, left)
            told = _ask(paths, "status", timeout=wait + _SILENT_SECONDS, **asked, wait_seconds=wait)
            if told["answer"] != "waiting":
                return told["answer"] == "allow", told["reason"]
    except _BrokenOff:
        _ask(paths, "withdraw", timeout=_SILENT_SECONDS, **asked)
        return False, "The agent broke it off."
    _ask(paths, "withdraw", timeout=_SILENT_SECONDS, **asked)
    return False, "Nobody answered in time."


class WhichSilas(ServerError):
    """Say which Silas is asked: --data-dir DIR. Other programs are started in any folder."""

    code = "E_SERVER_WHICH"


class _BrokenOff(Exception):
    """The agent ends its hook: whoever asked is gone."""


def _break_off(*_: object) -> NoReturn:
    raise _BrokenOff


def _reply(event: str, allowed: bool, reason: str) -> dict[str, Any]:
    """The answer, as both agents read it."""
    verdict = "allow" if allowed else "deny"
    if event == _BEFORE:
        said: dict[str, Any] = {"permissionDecision": verdict, "permissionDecisionReason": reason}
    else:
        said = {"decision": {"behavior": verdict, **({} if allowed else {"message": reason})}}
    return {"hookSpecificOutput": {"hookEventName": event, **said}}


@hook.command("install")
@click.argument("agent", type=click.Choice(sorted(_AGENTS)))
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="For the project in this folder alone, instead of everywhere.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_cli
def install(cli: CliContext, agent: str, folder: Path | None, yes: bool) -> None:
    """Let an agent ask you through Silas. Shows what is written, and asks first.

    Everything that the agent has in that file stays. To undo it, remove the entry again, or
    `silas clients remove NAME`: from then on every request is denied.
    """
    file, paths = (folder or Path.home()) / _FILES[agent], paths_of(cli)
    entry = {
        "hooks": [
            {
                "type": "command",
                "command": _own_command(paths, "hook", agent),
                "timeout": _PATIENCE + _GRACE,
            }
        ]
    }
    content = _settings_in(file)
    hooks = content.setdefault("hooks", {})
    entries = hooks.setdefault(_EVENT, []) if isinstance(hooks, dict) else None
    if not isinstance(entries, list):
        raise click.UsageError(f"{file} has hooks that Silas does not understand. Look at it.")
    installed = entry in entries
    if not installed:
        cli.say(f"Added to {file}, under hooks, {_EVENT}:\n{json.dumps(entry, indent=2)}")
        confirm(f"Let {_AGENTS[agent]} ask you through Silas?", yes=yes)
        entries[:] = [each for each in entries if not _is_our_own(each, agent)] + [entry]
    _introduce(paths, agent)
    if not installed:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_private_file(file, json.dumps(content, indent=2).encode() + b"\n")
    text = _INSTALLED[agent]
    cli.show({"file": str(file), "installed": True}, text)


def _is_our_own(entry: Any, agent: str) -> bool:
    """Whether an entry asks a Silas, and nobody else."""
    hooks = entry.get("hooks") if isinstance(entry, dict) else None
    asked = re.compile(rf"(\S*/)?silas( --data-dir .+)? hook {agent}")
    return isinstance(hooks, list) and [
        bool(asked.fullmatch(str(each.get("command")))) if isinstance(each, dict) else False
        for each in hooks
    ] == [True]


def _settings_in(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{file} cannot be read: {error}. Nothing was changed.") from error
    if not isinstance(content, dict):
        raise click.UsageError(f"{file} holds no settings. Nothing was changed.")
    return content


def _introduce(paths: Paths, agent: str) -> None:
    """A client for the agent, unless there is one that can show its token."""
    name, file = _AGENTS[agent], token_file(paths, _AGENTS[agent])
    known = [each["name"] for each in _ask(paths, "list_clients")["clients"]]
    if name in known and file.exists():
        return
    if name in known:
        _ask(paths, "remove_client", name=name)
    _keep_token(paths, name, _ask(paths, "add_client", name=name)["token"])


def _keep_token(paths: Paths, name: str, token: str) -> None:
    file = token_file(paths, name)
    file.parent.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    write_private_file(file, token.encode())


def token_file(paths: Paths, name: str) -> Path:
    """What a client shows; readable for its user alone."""
    return paths.clients / f"{name.lower().replace(' ', '-')}.token"
