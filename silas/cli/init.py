"""`silas init`: set up Silas on this machine."""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
import tzlocal

from silas.agents.models.choices import Role
from silas.agents.models.detection import FoundServer, detect_servers
from silas.app.agents import model_name
from silas.app.setup import SetupReport, set_up
from silas.cli.commands import (
    CliContext,
    JsonCommand,
    how_to_type_silas,
    new_passphrase_prompt,
    on_terminal,
    pass_cli,
    passphrase_prompt,
    settings_of,
)
from silas.cli.models import how_to_use
from silas.kernel import SystemClock, visible
from silas.kernel.program import is_on_path, own_program
from silas.sandbox.choice import Containment, containment
from silas.settings.fields import is_time_zone
from silas.settings.load import LoadedSettings
from silas.settings.paths import DEFAULT
from silas.storage.errors import translated

if TYPE_CHECKING:
    from silas.secrets import VaultChoice, VaultDescription

_EXPLAIN_VAULT = """\
Silas signs what you approve with a key that only you have. It is kept in a vault: the keyring of
your desktop if there is one, else an encrypted file that a passphrase opens. Nobody can reset the
passphrase: keep it where you keep your other ones. It has at least 8 characters; five random words
are easy to remember and hard to guess."""


@click.command(cls=JsonCommand)
@click.option("--yes", is_flag=True, help="Ask nothing: take the safe default everywhere.")
@click.option(
    "--vault",
    "vault_choice",
    type=click.Choice(["auto", "keyring", "passphrase", "key_file"]),
    default="auto",
    show_default=True,
    help="Where to keep the owner's key and other secrets.",
)
@pass_cli
def init(cli: CliContext, yes: bool, vault_choice: str) -> None:
    """Set up Silas on this machine.

    Makes the data directory, a commented configuration file (the one that --config or SILAS_CONFIG
    names), the vault, the database and the owner's key. What is there already is left as it is.
    """
    set_up_here(cli, yes=yes, vault_choice=vault_choice)


def set_up_here(
    cli: CliContext, *, yes: bool, vault_choice: str = "auto", goes_on: bool = False
) -> None:
    """What `silas init` does. A passphrase that is typed opens the vault for this call's rest.

    Whoever goes on after it says by himself how to type `silas`.
    """
    loaded = settings_of(cli, to_be_made=True)
    ask = on_terminal() and not yes and not cli.as_json
    servers = _local_servers(loaded)
    model = _offer(servers) if ask and not loaded.file_exists else {}
    if ask and not loaded.paths.vault.exists():
        cli.say(_EXPLAIN_VAULT)
    report = asyncio.run(
        set_up(
            loaded,
            environ=cli.vault_environ,
            clock=SystemClock(),
            vault_choice=cast("VaultChoice", vault_choice),
            new_passphrase=_remembered(cli, new_passphrase_prompt()) if ask else None,
            passphrase=passphrase_prompt() if ask else None,
            chosen={**_time_zone(loaded), **model},
        )
    )
    sandbox = asyncio.run(containment(loaded.settings.sandbox.backend))
    hints = [] if model else [line for server in servers for line in how_to_use(server)]
    data = {
        **report.model_dump(mode="json"),
        "local_models": [server.model_dump(mode="json") for server in servers],
        "sandbox": sandbox.model_dump(mode="json"),
    }
    notes = [_sandbox_note(sandbox)] if sandbox.fix else []
    unlinked = [] if goes_on else how_to_type_silas()
    typed = [_linked()] if ask and _may_link() else unlinked
    cli.show(data, "\n".join([_in_words(report, goes_on=goes_on), *notes, *hints, *typed]))


def _remembered(
    cli: CliContext, prompt: Callable[[str], str] | None
) -> Callable[[str], str] | None:
    """The prompt, whose answer is not asked for again in this process."""
    if prompt is None:
        return None

    def ask(question: str) -> str:
        cli.passphrase = prompt(question)
        return cli.passphrase

    return ask


def _may_link() -> bool:
    """Ask whether `silas` may be put where its owner's own programs are, if that would help."""
    place = Path.home() / ".local" / "bin"
    on_path = str(place) in os.environ.get("PATH", "").split(os.pathsep)
    free = not os.path.lexists(place / "silas")
    if is_on_path() or not own_program().exists() or not on_path or not free:
        return False
    question = f"Put a link to `silas` into {place}, so that you can type it anywhere?"
    return click.confirm(question, default=True, err=True)


def _linked() -> str:
    link = Path.home() / ".local" / "bin" / "silas"
    with translated(str(link)):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(own_program())
    return f"Now `silas` can be typed anywhere: {link} is a link to {own_program()}."


def _sandbox_note(found: Containment) -> str:
    return f"Note: {found.sentence}\n      {found.fix}"


def _local_servers(loaded: LoadedSettings) -> list[FoundServer]:
    """Model servers on this machine, as long as nobody has chosen a model."""
    if any(model_name(loaded.settings, role) for role in Role):
        return []
    return asyncio.run(detect_servers())


def _time_zone(loaded: LoadedSettings) -> Mapping[str, str]:
    """The zone that this machine's clock is set to, as long as nobody has chosen one."""
    try:
        name = tzlocal.get_localzone_name()
    except (OSError, LookupError, ValueError):  # a machine that does not say; the default stays
        return {}
    chosen = loaded.origin_of(("scheduler", "timezone")) != DEFAULT
    return {} if chosen or not is_time_zone(name) else {"scheduler.timezone": name}


def _offer(servers: list[FoundServer]) -> Mapping[str, str]:
    """Ask about the first server that was found; without a clear yes, nothing is switched on."""
    for server in servers[:1]:
        click.echo(f"{server.kind} answers on this machine, at {server.base_url}.", err=True)
        name = visible(server.models[0])
        if click.confirm(f"Use its model {name} for all roles?", default=False, err=True):
            return server.settings
    return {}


def _opened_by(vault: "VaultDescription") -> str:
    named = vault.unlocked_by
    if named.startswith("your "):
        return named
    return f"your {named}" if named == "passphrase" else f"the {named}"


_NEXT = (
    "Next: `silas start` prints a link for your browser; `silas doctor` says what state this "
    "machine is in."
)


def _in_words(report: SetupReport, *, goes_on: bool) -> str:
    width = max(len(step.what) for step in report.steps)
    lines = [
        f"  {'made ' if step.made else 'there'}  {step.what.ljust(width)}  {step.where}"
        for step in report.steps
    ]
    made = any(step.made for step in report.steps)
    return "\n".join(
        [
            "Silas is set up." if made else "Silas was set up already; nothing was changed.",
            *lines,
            f"What opens your vault: {_opened_by(report.vault)}.",
            *[f"Note: {warning}" for warning in report.vault.warnings],
            f"Your public key is {report.public_key} ({report.key_id}).",
            *([] if goes_on else [_NEXT]),
        ]
    )
