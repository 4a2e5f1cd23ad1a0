"""`silas audit verify`: whether the log, or a file taken from it, is as it was written."""

from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from silas.app.ground import Ground
from silas.approval import PublicKeys
from silas.audit import (
    LATEST,
    AuditBroken,
    AuditReport,
    ProblemKind,
    Signatures,
    ends_of,
    examine_file,
)
from silas.audit.examination import Progress
from silas.audit.witness import Witness, read_witness
from silas.cli.commands import JsonCommand
from silas.cli.context import CliContext, pass_cli
from silas.cli.opening import with_ground
from silas.cli.progress import shown_progress
from silas.cli.verify import read_public_keys
from silas.kernel import visible

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
@click.option("--full", is_flag=True, help="From the very beginning, not from the last checkpoint.")
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
    full: bool,
    files: tuple[Path, ...],
    public_key: str | None,
    witness: Path | None,
) -> None:
    """Say whether the audit log was changed, and where.

    The exit code is 0 only if everything holds. A file can be verified on any machine.
    """
    keys = read_public_keys(public_key) if public_key else None
    with shown_progress() as progress:

        def tell(done: int, total: int) -> None:
            progress("Verifying", done, total)

        if files:
            noted = read_witness(witness) if witness else None
            examined = [_examined(file, keys, None, tell) for file in files[:-1]]
            examined.append(_examined(files[-1], keys, noted, tell))
        else:

            async def examine(ground: Ground) -> AuditReport:
                start = None if full else LATEST
                return await ground.audit.examine(
                    from_checkpoint=start, verifier=keys, witness=witness, progress=tell
                )

            examined = [_Examined("The audit log", with_ground(cli, examine))]
    breaks = _breaks(files)
    ok = not breaks and all(each.report.ok for each in examined)
    cli.show(_as_data(examined, breaks, ok=ok), _in_words(examined, breaks, keys))
    if not ok:
        raise click.exceptions.Exit(AuditBroken.exit_code)


def _examined(
    file: Path, keys: PublicKeys | None, witness: Witness | None, tell: Progress
) -> _Examined:
    return _Examined(str(file), examine_file(file, verifier=keys, witness=witness, progress=tell))


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
