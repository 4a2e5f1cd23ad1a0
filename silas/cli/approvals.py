"""`silas approvals` and `silas metrics`: what was approved, with proofs, and how deciding goes."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from silas.app.core import Core
from silas.app.work import open_executor
from silas.approval import IssuedToken, export_proof
from silas.cli.commands import CliContext, JsonCommand, JsonGroup, pass_cli, with_core
from silas.kernel import format_timestamp, strict_loads, visible, visible_json
from silas.proactive.outcomes import OutcomeStore
from silas.review.attestations import approval_envelope
from silas.storage.errors import translated
from silas.storage.files import write_private_file
from silas.stream.metrics import Metric, in_words, metrics_of
from silas.work.authorisation import Revoked, revoke_approvals
from silas.work.errors import WorkNotDone

_SECONDS_TO_STOP = 30.0


@click.group(cls=JsonGroup)
def approvals() -> None:
    """Show what was approved, take it back, and export proofs of it."""


@approvals.command("list")
@click.option("-n", "--limit", default=20, show_default=True, help="How many, newest first.")
@pass_cli
def list_approvals(cli: CliContext, limit: int) -> None:
    """Show the newest approvals."""
    issued = with_core(cli, lambda core: _newest(core, limit))
    cli.show(
        {"approvals": [_as_data(each) for each in issued]},
        "\n".join(_approval_line(each) for each in issued) or "Nothing has been approved yet.",
    )


@approvals.command("show")
@click.argument("token_id")
@pass_cli
def show_approval(cli: CliContext, token_id: str) -> None:
    """Show one approval with the exact content that was shown to the owner."""
    issued = with_core(cli, lambda core: core.approvals.tokens.load(token_id))
    shown = visible_json(strict_loads(issued.shown))
    cli.show(
        {**_as_data(issued), "shown": issued.shown.decode()},
        f"{_approval_line(issued)}\n\nExactly this was shown and signed:\n{shown}",
    )


@approvals.command("export")
@click.argument("token_id")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["silas", "dsse"]),
    default="silas",
    show_default=True,
    help="dsse: for other people's verifiers, with the device that decided.",
)
@pass_cli
def export_approval(cli: CliContext, token_id: str, file: Path, force: bool, form: str) -> None:
    """Write a proof of an approval to FILE.

    Anyone who has your public key can check it, on any machine:
    `silas verify FILE --public-key KEY`. It proves what was shown, when, for how long, and how
    strongly the decision was proven (tap, slide, passkey or vault). With `--format dsse` it is an
    in-toto statement (`approval/v1`) in a DSSE envelope, and carries the decision too: which device
    signed it, and what the passkey signed. Without, it does not say which device decided.
    """

    async def inside(core: Core) -> bytes:
        issued = await core.approvals.tokens.load(token_id)
        if form == "silas":
            return export_proof(issued)
        return await approval_envelope(
            issued,
            core.decisions,
            signing=core.keys,
            now=core.clock.now(),
            devices=core.devices,
            passkeys=core.passkeys,
        )

    write_proof(cli, file, inside, force=force)


def write_proof(
    cli: CliContext, file: Path, make: Callable[[Core], Awaitable[bytes]], *, force: bool
) -> None:
    """Write a proof for others to a file, and say so."""
    if file.exists() and not force:
        raise click.UsageError(f"{file} exists. Say --force to replace it.")
    proof = with_core(cli, make)
    with translated(str(file)):
        write_private_file(file, proof)
    cli.show({"file": str(file), "bytes": len(proof)}, f"Wrote {file} ({len(proof)} bytes).")


@approvals.command()
@click.argument("name", metavar="TOKEN|ITEM")
@pass_cli
def revoke(cli: CliContext, name: str) -> None:
    """Take an approval back: by its id, or all that a work item has.

    Nothing more is done under it. Work that has it is cancelled, also in the middle; what was done
    before stays done. A goal stops with its standing approval, and so do the tasks that it has
    started. `silas work resume ITEM` shows the plan and asks for a new approval.
    """

    async def inside(core: Core) -> tuple[Revoked, bool]:
        context = open_executor(core).context
        control = context.control
        taken = await revoke_approvals(context.approvals, context.items, control, name)
        waits = [
            await control.wait_until_idle(each.id, seconds=_SECONDS_TO_STOP)
            for each in taken.stopped
        ]
        return taken, all(waits)

    taken, idle = with_core(cli, inside)
    data = {
        "revoked": [each.token_id for each in taken.tokens],
        "stopped": [{"id": each.id, "status": each.status.value} for each in taken.stopped],
        "idle": idle,
    }
    lines = [f"{each.token_id} is taken back. It allows nothing any more." for each in taken.tokens]
    lines += [f"{visible(each.id)} is cancelled." for each in taken.stopped]
    if not idle:
        lines.append("It has not stopped yet. Look again with `silas work list`.")
    cli.show(data, "\n".join(lines))
    if not idle:
        raise click.exceptions.Exit(WorkNotDone.exit_code)


async def _newest(core: Core, limit: int) -> list[IssuedToken]:
    tokens = core.approvals.tokens
    return [await tokens.load(token_id) for token_id in await tokens.list_ids(limit=limit)]


def _as_data(issued: IssuedToken) -> dict[str, Any]:
    return {**issued.token.model_dump(mode="json"), "void_reason": issued.void_reason}


def _approval_line(issued: IssuedToken) -> str:
    token = issued.token
    void = f"  void: {visible(issued.void_reason)}" if issued.void_reason else ""
    return (
        f"{token.token_id}  {format_timestamp(token.issued_at)}  {token.scope.value}  "
        f"{visible(token.work_item_id)}  used {token.executions_used} of {token.max_executions}"
        f"{void}"
    )


@click.command(cls=JsonCommand)
@click.option("--days", type=click.IntRange(1, 3650), default=30, show_default=True, metavar="DAYS")
@pass_cli
def metrics(cli: CliContext, days: int) -> None:
    """Show how deciding goes: how fast, how often no, how often undone.

    All of it is computed here, from what happened in the last DAYS. Nothing is sent anywhere.
    """

    async def load(core: Core) -> list[Metric]:
        from silas.app.review import open_outcomes, open_questions  # noqa: PLC0415 - slow to load
        from silas.app.runtime import open_cards  # noqa: PLC0415 - as above

        # What was decided since the last look of a running Silas counts as well.
        await open_outcomes(core, open_cards(core), open_questions(core, core.queue)).gather()
        outcomes, owner = OutcomeStore(core.database, core.clock), core.settings.owner_id
        return await metrics_of(core.audit, core.clock, outcomes, owner_id=owner, days=days)

    found = with_core(cli, load)
    data = [metric.model_dump(mode="json") for metric in found]
    cli.show({"days": days, "metrics": data}, "\n".join(map(in_words, found)))
