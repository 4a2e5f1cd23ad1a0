"""`silas approvals`: what was approved here, and proofs of it for others."""

from pathlib import Path
from typing import Any

import click

from silas.app.ground import Ground
from silas.approval import IssuedToken, export_proof
from silas.cli.commands import JsonGroup
from silas.cli.context import CliContext, pass_cli
from silas.cli.opening import with_ground
from silas.kernel import format_timestamp, strict_loads, visible, visible_json
from silas.storage.errors import translated
from silas.storage.files import write_private_file


@click.group(cls=JsonGroup)
def approvals() -> None:
    """Show what was approved, and export proofs of it."""


@approvals.command("list")
@click.option("-n", "--limit", default=20, show_default=True, help="How many, newest first.")
@pass_cli
def list_approvals(cli: CliContext, limit: int) -> None:
    """Show the newest approvals."""
    issued = with_ground(cli, lambda ground: _newest(ground, limit))
    cli.show(
        {"approvals": [_as_data(each) for each in issued]},
        "\n".join(_line(each) for each in issued) or "Nothing has been approved yet.",
    )


@approvals.command("show")
@click.argument("token_id")
@pass_cli
def show_approval(cli: CliContext, token_id: str) -> None:
    """Show one approval with the exact content that was shown to the owner."""
    issued = with_ground(cli, lambda ground: ground.approvals.tokens.load(token_id))
    shown = visible_json(strict_loads(issued.shown))
    cli.show(
        {**_as_data(issued), "shown": issued.shown.decode()},
        f"{_line(issued)}\n\nExactly this was shown and signed:\n{shown}",
    )


@approvals.command("export")
@click.argument("token_id")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@pass_cli
def export_approval(cli: CliContext, token_id: str, file: Path, force: bool) -> None:
    """Write a proof of an approval to FILE.

    Anyone who has your public key can check it, on any machine:
    `silas verify FILE --public-key KEY`.
    """
    if file.exists() and not force:
        raise click.UsageError(f"{file} exists. Say --force to replace it.")
    issued = with_ground(cli, lambda ground: ground.approvals.tokens.load(token_id))
    proof = export_proof(issued)
    with translated(str(file)):
        write_private_file(file, proof)
    cli.show({"file": str(file), "bytes": len(proof)}, f"Wrote {file} ({len(proof)} bytes).")


async def _newest(ground: Ground, limit: int) -> list[IssuedToken]:
    tokens = ground.approvals.tokens
    return [await tokens.load(token_id) for token_id in await tokens.list_ids(limit=limit)]


def _as_data(issued: IssuedToken) -> dict[str, Any]:
    return issued.token.model_dump(mode="json")


def _line(issued: IssuedToken) -> str:
    token = issued.token
    return (
        f"{token.token_id}  {format_timestamp(token.issued_at)}  {token.scope.value}  "
        f"{visible(token.work_item_id)}  used {token.executions_used} of {token.max_executions}"
    )
