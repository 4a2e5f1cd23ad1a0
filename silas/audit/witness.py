"""The witness: a copy of the newest checkpoint in a file beside the database.

Whoever replaces the database by an older copy, or removes its newest checkpoints, would have to
think of this file as well. It is written after the checkpoint is in the database, so an interrupted
run leaves it older, never newer. An owner who wants more keeps copies of it on another machine.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from silas.audit.errors import AuditFileNotWritten
from silas.audit.findings import Findings
from silas.audit.models import ProblemKind
from silas.audit.ports import CheckpointVerifier
from silas.audit.source import ChainSource
from silas.audit.statements import Checkpoint, SignedStatement
from silas.storage.files import write_private_file

_LONGEST = 64 * 1024


@dataclass(frozen=True, slots=True)
class Witness:
    """What the witness file holds; None if there is none."""

    content: bytes | None


def read_witness(path: Path) -> Witness:
    """What is in the file, whatever it is."""
    try:
        with path.open("rb") as file:
            return Witness(file.read(_LONGEST))
    except FileNotFoundError:
        return Witness(None)
    except OSError:
        return Witness(b"")


async def write_witness(path: Path, checkpoint: Checkpoint) -> None:
    """Let the file hold this checkpoint; a crash leaves the old one or the new one."""
    await asyncio.to_thread(_write, path, checkpoint)


def _write(path: Path, checkpoint: Checkpoint) -> None:
    try:
        write_private_file(path, _content(checkpoint))
    except OSError as error:
        raise AuditFileNotWritten(
            f"The checkpoint was made, but its witness {path} could not be written: "
            f"{error.strerror}. Make room for it, and run the command again."
        ) from error


def check_witness(
    witness: Witness,
    source: ChainSource,
    *,
    verifier: CheckpointVerifier | None,
    findings: Findings,
) -> None:
    """The newest checkpoint that was noted outside the log is in the log."""
    if witness.content is None:
        _check_absence(source, findings)
        return
    noted = _checkpoint_in(witness)
    stored = source.checkpoint(noted.checkpoint_id) if noted else None
    if noted is not None and stored is not None and stored.signed == noted.signed:
        return  # its signature is checked where it lies in the log
    if noted is None or (verifier is not None and not noted.signed.signed_by(verifier)):
        findings.add(
            ProblemKind.WITNESS_DAMAGED,
            0,
            "The witness file is damaged, or not signed by a key that is trusted here.",
        )
        return
    if stored is None or stored.signed.body != noted.signed.body:
        _report_absence(noted, source, findings)


def _check_absence(source: ChainSource, findings: Findings) -> None:
    newest = source.newest_checkpoint()
    checkpoint = Checkpoint.read(newest.signed) if newest else None
    # A run that was killed after its very first checkpoint has not written the file yet.
    if checkpoint is not None and checkpoint.previous is not None:
        findings.add(
            ProblemKind.WITNESS_DAMAGED,
            checkpoint.position.seq,
            "The witness file, which holds a copy of the newest checkpoint, is missing.",
        )


def _report_absence(noted: Checkpoint, source: ChainSource, findings: Findings) -> None:
    state = source.state()
    number = noted.position.seq
    if state is not None and number < state.base.seq:
        return  # archived: the start of the log is vouched for by a statement of its own
    if state is not None and number > state.head.seq:
        findings.add(
            ProblemKind.TRUNCATED,
            state.head.seq + 1,
            f"The log ends at entry {state.head.seq}, but the witness file vouches for entry "
            f"{number} (on {noted.at}): an older copy of the log was put in its place.",
        )
    else:
        findings.add(
            ProblemKind.CHECKPOINT_MISSING,
            number,
            f"Checkpoint {noted.checkpoint_id} of {noted.at}, which the witness file holds, is "
            "not in the log.",
        )


def holds(witness: Witness, checkpoint: Checkpoint) -> bool:
    """Whether the file holds exactly this checkpoint."""
    return witness.content == _content(checkpoint)


def _content(checkpoint: Checkpoint) -> bytes:
    return checkpoint.signed.to_bytes() + b"\n"


def _checkpoint_in(witness: Witness) -> Checkpoint | None:
    content = witness.content or b""
    signed = SignedStatement.from_bytes(content[:-1]) if content.endswith(b"\n") else None
    return Checkpoint.read(signed) if signed else None
