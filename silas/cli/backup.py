"""`silas backup` and `silas restore`: everything in one verified file, and back."""

from pathlib import Path

import click

from silas.app.backup import RestoreReport, back_up, bring_back
from silas.cli.commands import CliContext, JsonCommand, pass_cli, settings_of, shown_progress
from silas.kernel import SystemClock
from silas.storage.archive import Manifest


@click.command(cls=JsonCommand)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@pass_cli
def backup(cli: CliContext, file: Path, force: bool) -> None:
    """Write everything to FILE, while Silas may go on running.

    The file holds the databases, the encrypted vault, the public key and the configuration. The
    key file and what is in the system keyring are not in it: keep those apart.
    """
    paths = settings_of(cli).paths
    with shown_progress() as progress:
        manifest = back_up(paths, file, clock=SystemClock(), replace=force, progress=progress)
    size = file.stat().st_size
    cli.show(
        {"file": str(file), "size": size, "manifest": manifest.model_dump(mode="json")},
        f"Wrote {file} ({_amount(size)}) and read it back: {_names(manifest)}.\n"
        "The key that opens the vault is not in it. Keep it elsewhere.",
    )


@click.command(cls=JsonCommand)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Set aside the data that is there now.")
@pass_cli
def restore(cli: CliContext, file: Path, force: bool) -> None:
    """Bring back the backup FILE.

    Everything is checked before anything is changed. Approvals that were open when the backup was
    written are void afterwards, because they may have been used since. For the same reason, signed
    messages are not accepted as the owner's for five minutes.
    """
    paths = settings_of(cli).paths
    with shown_progress() as progress:
        report = bring_back(paths, file, clock=SystemClock(), replace=force, progress=progress)
    cli.show(
        {
            "data_dir": str(paths.data_dir),
            "set_aside": report.set_aside and str(report.set_aside),
            "voided_approvals": report.voided_approvals,
            "config_file": report.config_file and str(report.config_file),
            "manifest": report.manifest.model_dump(mode="json"),
        },
        _in_words(report, paths.data_dir),
    )


def _in_words(report: RestoreReport, data_dir: Path) -> str:
    lines = [f"Restored {data_dir} as it was on {report.manifest.created_at}."]
    if report.set_aside:
        lines.append(f"What was there before is kept in {report.set_aside}.")
    if report.config_file:
        lines.append(f"The configuration of the backup is in {report.config_file}.")
    lines.append(
        f"The approvals in it were made void ({report.voided_approvals}): they may have been "
        "used since. Decide anew where something is still wanted."
    )
    lines.append(
        "Wait five minutes before you talk to Silas: until then, it takes no message for yours, so "
        "that nobody can repeat an old one."
    )
    lines.append("Run `silas doctor` to see whether anything is missing on this machine.")
    return "\n".join(lines)


def _names(manifest: Manifest) -> str:
    return ", ".join(entry.name for entry in manifest.files)


def _amount(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"
