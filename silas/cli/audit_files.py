"""`silas audit verify`, `export` and `archive`: the log as it was written, also as a file."""

import sys
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from silas.app.core import Core
from silas.approval import PublicKeys
from silas.audit import (
    LATEST,
    Archived,
    AuditBroken,
    AuditFileExists,
    AuditReport,
    ProblemKind,
    Signatures,
    ends_of,
    examine_file,
)
from silas.audit.examination import Progress, Witness, read_witness
from silas.audit.export import raise_if_broken
from silas.cli.commands import (
    CliContext,
    JsonCommand,
    confirm,
    moment,
    pass_cli,
    shown_progress,
    with_core,
)
from silas.cli.verify import read_public_keys
from silas.kernel import visible

_WHOLE = "The audit log"
_ABOUT_KEYS = {
    ProblemKind.CHECKPOINT_FORGED,
    ProblemKind.BASE_UNPROVEN,
    ProblemKind.WITNESS_DAMAGED,
}


@dataclass(frozen=True)
class _Examined:
    """One report, and what it is about."""

    name: str
    report: AuditReport


@click.command(cls=JsonCommand)
@click.option(
    "--since-checkpoint",
    is_flag=True,
    help="Only what came after the last checkpoint; what is before it is not examined.",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="An exported or archived file instead of the log. Several must follow each other.",
)
@click.option(
    "--public-key",
    metavar="KEY|FILE",
    help="The owner's public key: 64 hexadecimal digits, or the path of an owner.pub file.",
)
@click.option(
    "--witness",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A copy of the file audit.checkpoint that was kept elsewhere.",
)
@pass_cli
def verify(
    cli: CliContext,
    since_checkpoint: bool,
    files: tuple[Path, ...],
    public_key: str | None,
    witness: Path | None,
) -> None:
    """Say whether the audit log was changed, and where: all of it, from its first entry on.

    The exit code is 0 only if everything holds. A file can be verified on any machine.
    """
    keys = read_public_keys(public_key) if public_key else None
    with shown_progress() as progress:

        def report(done: int, total: int) -> None:
            progress("Verifying", done, total)

        if files:
            noted = read_witness(witness) if witness else None
            examined = [_examined(file, keys, None, report) for file in files[:-1]]
            examined.append(_examined(files[-1], keys, noted, report))
        else:

            async def examine(core: Core) -> AuditReport:
                start = LATEST if since_checkpoint else None
                return await core.audit.examine(
                    from_checkpoint=start, verifier=keys, witness=witness, progress=report
                )

            examined = [_log(with_core(cli, examine))]
    breaks = _breaks(files)
    ok = not breaks and all(each.report.ok for each in examined)
    cli.show(_as_data(examined, breaks, ok=ok), _in_words(examined, breaks, keys))
    if not ok:
        raise click.exceptions.Exit(AuditBroken.exit_code)


def _log(report: AuditReport) -> _Examined:
    """Named by what was examined, so that the verdict claims no more."""
    start = report.start_seq
    return _Examined(f"The audit log, from entry {start + 1} on," if start else _WHOLE, report)


def _examined(
    file: Path, keys: PublicKeys | None, witness: Witness | None, report: Progress
) -> _Examined:
    return _Examined(str(file), examine_file(file, verifier=keys, witness=witness, progress=report))


def _breaks(files: tuple[Path, ...]) -> list[str]:
    """Where one file does not begin at the end of the one before it."""
    return [
        f"{after} does not begin where {before} ends."
        for before, after in pairwise(files)
        if ends_of(before)[1] != ends_of(after)[0]
    ]


def _as_data(examined: list[_Examined], breaks: list[str], *, ok: bool) -> dict[str, Any]:
    reports = [{"name": each.name, **asdict(each.report)} for each in examined]
    return {"ok": ok, "reports": reports, "breaks": breaks}


def _in_words(examined: list[_Examined], breaks: list[str], keys: PublicKeys | None) -> str:
    lines = [line for each in examined for line in _about(each, keys)]
    # Names and ids may come from whoever tampered with the log: nothing of them is obeyed.
    return visible("\n".join([*lines, *(f"  problem  {sentence}" for sentence in breaks)]))


def _about(examined: _Examined, keys: PublicKeys | None) -> list[str]:
    report = examined.report
    foreign = _foreign_keys(report, keys)
    lines = [f"{examined.name} {_verdict(report, foreign)}."]
    lines += [f"  problem  {problem.sentence}" for problem in report.problems]
    if report.problem_count > len(report.problems):
        lines.append(f"  problem  … and {report.problem_count - len(report.problems)} more.")
    lines.append(f"  entries  {_about_entries(report)}")
    if report.start_seq:
        lines.append(f"  note     What is before entry {report.start_seq + 1} was not examined.")
    lines.append(f"  keys     {_about_signatures(report)}")
    if foreign and keys is not None:
        given = ", ".join(key.key_id for key in keys.keys)
        lines.append(f"  note     {', '.join(foreign)} is not the key that you gave ({given}).")
    unvouched = report.head_seq - report.vouched_seq
    if report.ok and report.checkpoints and unvouched:
        lines.append(f"  note     No checkpoint vouches for the last {_entries(unvouched)} yet.")
    return lines


def _verdict(report: AuditReport, foreign: list[str]) -> str:
    if report.ok:
        return "is as it was written"
    if foreign and {problem.kind for problem in report.problems} <= _ABOUT_KEYS:
        return "is not vouched for by the key that you gave"
    return "is NOT as it was written"


def _foreign_keys(report: AuditReport, keys: PublicKeys | None) -> list[str]:
    given = {key.key_id for key in keys.keys} if keys else set(report.key_ids)
    return [key_id for key_id in report.key_ids if key_id not in given]


def _about_entries(report: AuditReport) -> str:
    if report.entries == 0:
        return f"none after entry {report.start_seq}"
    span = f"from {report.start_seq + 1} to {report.head_seq}"
    return f"{_entries(report.entries)} examined, {span}"


def _about_signatures(report: AuditReport) -> str:
    named = ", ".join(report.key_ids)
    count = f"{report.checkpoints} checkpoint{'' if report.checkpoints == 1 else 's'}"
    if report.signatures is Signatures.NO_CHECKPOINT:
        return "There is no checkpoint yet, so a chain that was rewritten whole would not show."
    if report.signatures is Signatures.NO_PUBLIC_KEY:
        return (
            f"{count}, said to be by {named}. The signatures could not be checked, because no "
            "public key is at hand: use --public-key."
        )
    return f"{count}, by {named}."


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


@click.command(cls=JsonCommand)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@pass_cli
def export(cli: CliContext, file: Path, force: bool) -> None:
    """Write the log to FILE as JSON lines, or to the standard output with -.

    The file can be verified on any machine: silas audit verify --file FILE --public-key KEY.
    """
    if str(file) == "-":
        with_core(cli, lambda core: core.audit.export(sys.stdout.buffer.write))
        sys.stdout.buffer.flush()
        return
    if file.exists() and not force:
        raise AuditFileExists(f"{file} exists already. Choose another name, or use --force.")
    report = with_core(cli, lambda core: core.audit.export_file(file))
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

        async def work(core: Core) -> Archived:
            return await core.audit.archive(
                file, before=before, progress=lambda done, total: progress("Checking", done, total)
            )

        archived = with_core(cli, work)
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
