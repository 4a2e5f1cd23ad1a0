"""What the log says since a moment, proven: for those who decide by it, not for those who look.

1. The chain is examined from the last checkpoint that was signed before that moment to its end,
   with every checkpoint in between and with the witness. So what was vouched for once cannot have
   been changed, moved or taken out since, whatever the rows say.
2. What was written after the last checkpoint is held by the chain alone. Whoever writes something
   that others will rely on writes a checkpoint right behind it.
3. A row that somebody has added cannot be told from a genuine one before it is vouched for. So an
   entry may only ever forbid something.
4. If the log itself was replaced since that moment (a backup came back, the witness file showed
   another log), nothing is known about the time between: that is an error, and not "nothing".
"""

from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path

from silas.audit.chain import START
from silas.audit.errors import AuditBroken
from silas.audit.examination import examine_chain
from silas.audit.models import AuditEntry
from silas.audit.ports import CheckpointVerifier
from silas.audit.reading import entry_from
from silas.audit.source import ChainSource, DatabaseSource
from silas.audit.statements import Checkpoint
from silas.audit.store import StoredCheckpoint, last_checkpoint_until
from silas.audit.witness import read_witness
from silas.kernel import canonical_bytes, format_timestamp
from silas.storage import Reader, Row

WITNESS_PROBLEM = "audit_witness_problem"
_REPLACED = (WITNESS_PROBLEM, "backup_restored")


class _HeardSource(DatabaseSource):
    """The chain in the database; of what is examined, it keeps what may be of interest."""

    def __init__(self, reader: Reader, about: str) -> None:
        super().__init__(reader)
        self._about = canonical_bytes(about).decode()[1:-1]
        self.heard: list[Row] = []

    def entries(self, after: int) -> Iterator[Row]:
        about, (one, other) = self._about, _REPLACED
        for row in super().entries(after):
            body = row[1]
            if about in body or one in body or other in body:
                self.heard.append(row)
            yield row


def proven_entries(
    reader: Reader,
    since: datetime,
    *,
    events: Collection[str],
    about: str,
    verifier: CheckpointVerifier,
    witness: Path,
) -> list[AuditEntry]:
    """The entries of these events that hold this text; raises `AuditBroken`.

    A few that are older than `since` may be among them.
    """
    noted = read_witness(witness)  # before the first look at the database, see `checkpoints.py`
    source = _HeardSource(reader, about)
    begin = _beginning(source, last_checkpoint_until(reader, format_timestamp(since)), verifier)
    name = begin.checkpoint_id if begin else None
    report = examine_chain(source, from_checkpoint=name, verifier=verifier, witness=noted)
    if report.first_problem is not None:
        raise AuditBroken(
            "The audit log is not as it was written, so nothing can be decided by it. "
            f"{report.first_problem.sentence} Run `silas audit verify --full`."
        )
    if report.start_seq != (begin.position.seq if begin else 0):
        raise AuditBroken("A checkpoint of the audit log lies under another name.")
    entries = [entry_from(seq, body) for seq, body, _ in source.heard]
    if any(entry.event in _REPLACED for entry in entries):
        raise AuditBroken(
            "The audit log was replaced by another one since. What was approved before is void."
        )
    return [entry for entry in entries if entry.event in events]


def _beginning(
    source: ChainSource, stored: StoredCheckpoint | None, verifier: CheckpointVerifier
) -> Checkpoint | None:
    """The checkpoint to begin at; None for the beginning of the log, if that is still there."""
    begin = Checkpoint.read(stored.signed) if stored else None
    if begin is not None and not begin.signed.signed_by(verifier):
        raise AuditBroken("A checkpoint of the audit log is not signed by a key of the owner's.")
    state = source.state()
    if begin is None and (state is None or state.base != START):
        raise AuditBroken("The audit log does not reach back that far: its old part was archived.")
    return begin
