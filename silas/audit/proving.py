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

from collections.abc import Collection
from datetime import datetime
from pathlib import Path

from silas.audit.chain import START
from silas.audit.errors import AuditBroken
from silas.audit.examination import examine_chain
from silas.audit.models import AuditEntry
from silas.audit.ports import CheckpointVerifier
from silas.audit.reading import entry_from
from silas.audit.source import DatabaseSource
from silas.audit.statements import Checkpoint
from silas.audit.store import entries_saying, last_checkpoint_until
from silas.audit.witness import read_witness
from silas.kernel import format_timestamp
from silas.storage import Reader

WITNESS_PROBLEM = "audit_witness_problem"
_REPLACED = frozenset({WITNESS_PROBLEM, "backup_restored"})


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
    source = DatabaseSource(reader)
    stored = last_checkpoint_until(reader, format_timestamp(since))
    begin = Checkpoint.read(stored.signed) if stored else None
    if begin is not None and not begin.signed.signed_by(verifier):
        raise AuditBroken("A checkpoint of the audit log is not signed by a key of the owner's.")
    state = source.state()
    if begin is None and (state is None or state.base != START):
        raise AuditBroken("The audit log does not reach back that far: its old part was archived.")
    name = begin.checkpoint_id if begin else None
    report = examine_chain(source, from_checkpoint=name, verifier=verifier, witness=noted)
    if report.first_problem is not None:
        raise AuditBroken(
            "The audit log is not as it was written, so nothing can be decided by it. "
            f"{report.first_problem.sentence} Run `silas audit verify --full`."
        )
    first = begin.position.seq if begin else 0
    if report.start_seq != first:
        raise AuditBroken("A checkpoint of the audit log lies under another name.")
    if _found(reader, first, _REPLACED, about=""):
        raise AuditBroken(
            "The audit log was replaced by another one since. What was approved before is void."
        )
    return _found(reader, first, events, about=about)


def _found(reader: Reader, after: int, events: Collection[str], *, about: str) -> list[AuditEntry]:
    found = [
        entry_from(seq, body)
        for event in sorted(events)
        for seq, body in entries_saying(reader, after, event, about)
    ]
    return sorted((each for each in found if each.event in events), key=lambda each: each.seq)
