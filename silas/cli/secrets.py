"""`silas secrets`: passwords and keys in the vault, by name.

`show` alone prints a value, to whoever opens the vault at the machine; the audit log says so.
"""

import sys
from pathlib import Path

import click

from silas.app.client import call_server
from silas.cli.commands import (
    CliContext,
    JsonGroup,
    ask_hidden_twice,
    confirm,
    on_terminal,
    pass_cli,
    passphrase_prompt,
    settings_of,
    with_core,
)
from silas.kernel import SecretsError
from silas.secrets import (
    MAX_VALUE_BYTES,
    FileVault,
    InvalidSecret,
    UnknownSecret,
    Vault,
    check_name,
    is_internal,
    key_from_file,
    new_passphrase,
    open_vault,
)

_STDIN_HELP = "Read the value from standard input, even on a terminal."


@click.group(cls=JsonGroup)
def secrets() -> None:
    """Keep passwords and keys in the vault.

    Everything else in Silas knows a secret by its name alone.
    """


@secrets.command("ask")
@click.argument("name")
@click.option("--label", metavar="TEXT", help="What it is, in words, for whoever types it.")
@pass_cli
def ask_secret(cli: CliContext, name: str, label: str | None) -> None:
    """Have the secret NAME typed in a paired browser. Silas must be running.

    The value goes from the page straight to the vault.
    """
    check_name(name)
    _refuse_internal(name)
    params = {"name": name, "label": label or name}
    answer = call_server(settings_of(cli).paths, "/api/web/ask_secret", params)
    text = f"{name} can be typed in the page now, under Review."
    cli.show(answer, text if answer["pages"] else f"{text} No page is open.")


@secrets.command("set")
@click.argument("name")
@click.option("--stdin", "from_stdin", is_flag=True, help=_STDIN_HELP)
@pass_cli
def set_secret(cli: CliContext, name: str, from_stdin: bool) -> None:
    """Store a secret under NAME, replacing the one that was there.

    The value is asked for twice and not shown. Without a terminal it is read from standard input,
    and one newline at its end is left out.
    """
    _refuse_internal(name)
    vault = _open(cli)
    replaced = name in vault.list()
    vault.set(name, _read_value(f"Value of {name}", from_stdin=from_stdin))
    _record_change(cli, "secret_stored", ref_id=name)
    cli.show(
        {"name": name, "stored": True, "replaced": replaced},
        f"{'Replaced' if replaced else 'Stored'} {name}.",
    )


@secrets.command("list")
@pass_cli
def list_secrets(cli: CliContext) -> None:
    """Show the names of all secrets, never their values."""
    names = _open(cli).list()
    lines = [f"{name}  (internal)" if is_internal(name) else name for name in names]
    cli.show(
        {"secrets": [{"name": name, "internal": is_internal(name)} for name in names]},
        "\n".join(lines) or "There are no secrets yet. Store one with `silas secrets set NAME`.",
    )


@secrets.command("show")
@click.argument("name")
@pass_cli
def show_secret(cli: CliContext, name: str) -> None:
    """Print the value of NAME. The vault has to be opened for it, and the audit log says so."""
    _refuse_internal(name)
    value = _open(cli).get(name)
    if value is None:
        raise UnknownSecret(f"{name}: {UnknownSecret.sentence()}")
    _record_change(cli, "secret_shown", ref_id=name)
    text = value.decode("utf-8", "backslashreplace")
    cli.show({"name": name, "value": text}, text)


@secrets.command("rm")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_cli
def remove_secret(cli: CliContext, name: str, yes: bool) -> None:
    """Remove the secret NAME. It cannot be brought back."""
    _refuse_internal(name)
    vault = _open(cli)
    if name not in vault.list():
        raise UnknownSecret(f"{name}: {UnknownSecret.sentence()}")
    confirm(f"Remove {name} for good?", yes=yes)
    vault.delete(name)
    _record_change(cli, "secret_removed", ref_id=name)
    cli.show({"name": name, "removed": True}, f"Removed {name}.")


@secrets.command("passphrase")
@click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Lock the vault with this key file instead; it is made if it is not there.",
)
@click.option("--stdin", "from_stdin", is_flag=True, help=_STDIN_HELP)
@pass_cli
def change_passphrase(cli: CliContext, key_file: Path | None, from_stdin: bool) -> None:
    """Encrypt the vault anew under another passphrase or key file.

    Silas processes that are running must be started again afterwards.
    """
    vault = _open(cli)
    if not isinstance(vault, FileVault):
        raise SecretsError(
            "This vault is in the system keyring, which has a password of its own. Change it in "
            "your desktop's password program."
        )
    vault.list()  # a wrong old passphrase is reported before a new one is asked for
    vault.change_key(
        key_from_file(key_file)
        if key_file
        else new_passphrase(_read_text("New passphrase", from_stdin=from_stdin))
    )
    _record_change(cli, "vault_key_changed", method="key_file" if key_file else "passphrase")
    description = vault.describe()
    cli.show(
        {"changed": True, "vault": description.model_dump()},
        "\n".join([f"The vault now opens with {description.unlocked_by}.", *description.warnings]),
    )


def _open(cli: CliContext) -> Vault:
    vault = settings_of(cli).paths.vault
    return open_vault(vault, environ=cli.vault_environ, prompt=passphrase_prompt())


def _refuse_internal(name: str) -> None:
    check_name(name)
    if is_internal(name):
        raise InvalidSecret(
            f"{name} belongs to Silas itself and is not changed by hand. Choose a name that does "
            "not begin with silas/."
        )


def _read_value(question: str, *, from_stdin: bool) -> bytes:
    if on_terminal() and not from_stdin:
        return ask_hidden_twice(question).encode()
    return sys.stdin.buffer.read(MAX_VALUE_BYTES + 2).removesuffix(b"\n")


def _read_text(question: str, *, from_stdin: bool) -> str:
    try:
        return _read_value(question, from_stdin=from_stdin).decode()
    except UnicodeDecodeError as error:
        raise InvalidSecret("A passphrase is text in UTF-8. Nothing was changed.") from error


def _record_change(cli: CliContext, event: str, **facts: str) -> None:
    """A change of the vault enters the audit log: names, never values."""
    with_core(cli, lambda core: core.audit.log(event, **facts))
