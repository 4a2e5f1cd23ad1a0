"""`silas audit export` and `silas audit archive`: the log as a file that proves itself."""

import sys
from datetime import datetime
from pathlib import Path

import click

from silas.app.ground import Ground
from silas.audit import Archived, AuditFileExists
from silas.audit.archive import raise_if_broken
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.moments import moment
from silas.cli.opening import with_ground
from silas.cli.progress import shown_progress
from silas.cli.terminal import confirm


@click.command(cls=JsonCommand)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@pass_cli
def export(cli: CliContext, file: Path, force: bool) -> None:
    """Write the log to FILE as JSON lines, or to the standard output with -.

    The file can be verified on any machine: silas audit verify --file FILE --public-key KEY.
    """
    if str(file) == "-":
        with_ground(cli, lambda ground: ground.audit.export(sys.stdout.buffer.write))
        sys.stdout.buffer.flush()
        return
    if file.exists() and not force:
        raise AuditFileExists(f"{file} exists already. Choose another name, or use --force.")
    report = with_ground(cli, lambda ground: ground.audit.export_file(file))
    raise_if_broken(report, what=f"{file} was written, and shows that the log was tampered with")
    cli.show(
        {"file": str(file), "entries": report.entries, "head_hash": report.head_hash},
        f"Wrote the log to {file} and verified it (entries: {report.entries}).",
    )


@click.command(cls=JsonCommand)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--before", type=moment, metavar="TIME", required=True, help="A date, e.g. 2026-03-01, or 365d."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_cli
def archive(cli: CliContext, file: Path, before: datetime, yes: bool) -> None:
    """Move entries older than a date to FILE.

    Up to the last checkpoint before that date, entries are written to FILE and, once FILE has been
    read back and verified, taken out of the log. Both parts stay verifiable. Keep FILE.
    """
    confirm(f"Move entries before {before:%Y-%m-%d %H:%M} UTC to {file}?", yes=yes)
    with shown_progress() as progress:

        async def work(ground: Ground) -> Archived:
            return await ground.audit.archive(
                file, before=before, progress=lambda done, total: progress("Checking", done, total)
            )

        archived = with_ground(cli, work)
    cli.show(
        {
            "file": str(archived.file),
            "sha256": archived.sha256,
            "first_seq": archived.base.seq + 1,
            "last_seq": archived.head.seq,
        },
        f"Moved entries {archived.base.seq + 1} to {archived.head.seq} to {archived.file}.\n"
        f"Its sha256 is {archived.sha256}. Keep the file.",
    )
