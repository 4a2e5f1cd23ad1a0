"""A log, or the old part of one, written to a file; and such a file examined."""

import hashlib
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from silas.audit.chain import Position
from silas.audit.errors import AuditFileNotWritten, AuditStateDamaged
from silas.audit.examination import Progress, examine_chain
from silas.audit.file_format import Header, checkpoint_line, entry_line, header_line
from silas.audit.file_source import FileSource
from silas.audit.models import AuditProblem, AuditReport, ProblemKind
from silas.audit.ports import CheckpointVerifier
from silas.audit.source import DatabaseSource
from silas.audit.store import ChainState
from silas.audit.witness import Witness
from silas.storage import Reader
from silas.storage.files import PRIVATE_FILE, sync_directory

Write = Callable[[bytes], object]

_PROGRESS_EVERY = 20_000


def export_log(
    reader: Reader, write: Write, *, up_to: Position | None = None, progress: Progress | None = None
) -> ChainState:
    """Write the log, or the part of it that ends at `up_to`; returns where it starts and ends."""
    source = DatabaseSource(reader)
    state = source.state()
    if state is None:
        raise AuditStateDamaged
    if up_to is not None:
        state = replace(state, head=up_to)
    write(header_line(_header(source, state)))
    for seq, body, digest in source.entries(state.base.seq):
        if up_to is not None and seq > up_to.seq:
            break
        write(entry_line(body, digest))
        if progress is not None and seq % _PROGRESS_EVERY == 0:
            progress(seq - state.base.seq, state.head.seq - state.base.seq)
    for checkpoint in source.checkpoints(state.base.seq):
        if checkpoint.seq <= state.head.seq:
            write(checkpoint_line(checkpoint.signed))
    return state


def _header(source: DatabaseSource, state: ChainState) -> Header:
    count, key_ids = 0, dict[str, None]()
    for checkpoint in source.checkpoints(state.base.seq):
        if checkpoint.seq <= state.head.seq:
            count += 1
            key_ids[checkpoint.signed.key_id] = None
    return Header(state, count, tuple(key_ids))


def examine_file(
    path: Path,
    *,
    verifier: CheckpointVerifier | None = None,
    witness: Witness | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Examine an exported file, which needs nothing but itself and the public key."""
    source = FileSource(path)
    report = examine_chain(source, verifier=verifier, witness=witness, progress=progress)
    if (report.checkpoints, report.key_ids) == (source.header.checkpoints, source.header.key_ids):
        return report
    problem = AuditProblem(
        kind=ProblemKind.STATE_MISMATCH,
        seq=0,
        sentence="The header speaks of other checkpoints than there are.",
    )
    return replace(
        report,
        ok=False,
        problems=(problem, *report.problems),
        problem_count=report.problem_count + 1,
    )


def ends_of(path: Path) -> tuple[Position, Position]:
    """Where the log in a file starts and ends, by its header."""
    state = FileSource(path).header.state
    return state.base, state.head


def write_new_file(path: Path, fill: Callable[[Write], object]) -> str:
    """Create a file that only its owner may read, whole or not at all; returns its sha256."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(6)}.partial")
    digest = hashlib.sha256()
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        with os.fdopen(os.open(partial, flags, PRIVATE_FILE), "wb") as file:

            def write(piece: bytes) -> None:
                digest.update(piece)
                file.write(piece)

            fill(write)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise AuditFileNotWritten(
            f"{path} could not be written: {error.strerror}. Nothing was removed: choose another "
            "place and try again."
        ) from error
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return digest.hexdigest()
