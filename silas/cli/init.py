"""`silas init`: set up Silas on this machine."""

import asyncio
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import click
import tzlocal

from silas.agents.models.detection import FoundServer, detect_servers
from silas.agents.models.roles import Role
from silas.app.model_choices import model_name
from silas.app.settings import LoadedSettings
from silas.app.settings.fields import is_time_zone
from silas.app.settings.origin import DEFAULT
from silas.app.setup import SetupReport, set_up
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.models import how_to_use
from silas.cli.opening import settings_of
from silas.cli.terminal import new_passphrase_prompt, on_terminal, passphrase_prompt
from silas.kernel import SystemClock, visible

if TYPE_CHECKING:
    from silas.secrets import VaultChoice

_EXPLAIN_VAULT = """\
Silas signs what you approve with a key that only you have. It is kept in a vault: the keyring of
your desktop if there is one, else an encrypted file that a passphrase opens."""


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

    Makes the data directory, a commented configuration file, the vault, the database and the
    owner's key. What is there already is left as it is.
    """
    loaded = settings_of(cli)
    ask = on_terminal() and not yes and not cli.as_json
    servers = _local_servers(loaded)
    model = _offer(servers) if ask and not loaded.file_exists else {}
    if ask and not loaded.paths.vault.exists():
        cli.say(_EXPLAIN_VAULT)
    report = asyncio.run(
        set_up(
            loaded,
            environ=os.environ,
            clock=SystemClock(),
            vault_choice=cast("VaultChoice", vault_choice),
            new_passphrase=new_passphrase_prompt() if ask else None,
            passphrase=passphrase_prompt() if ask else None,
            chosen={**_time_zone(loaded), **model},
        )
    )
    hints = [] if model else [line for server in servers for line in how_to_use(server)]
    data = {
        **report.model_dump(mode="json"),
        "local_models": [server.model_dump(mode="json") for server in servers],
    }
    cli.show(data, "\n".join([_in_words(report), *hints]))


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


def _in_words(report: SetupReport) -> str:
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
            f"The vault opens with {report.vault.unlocked_by}.",
            *[f"Note: {warning}" for warning in report.vault.warnings],
            f"Your public key is {report.public_key} ({report.key_id}).",
            "Next: `silas doctor` says what state this machine is in.",
        ]
    )
