"""The audit log: everything that happened, hash-chained, redacted, vouched for by the owner's key.

Entries, checkpoints, their verification, export and archiving live here. Nothing here decides what
is logged or who may act; keys come in through ports, and no secret is ever written down.
"""

from silas.audit.archive import Archived
from silas.audit.chain import GENESIS, Position
from silas.audit.errors import (
    AuditBroken,
    AuditFileExists,
    AuditFileInvalid,
    AuditFileNotWritten,
    AuditNotSigned,
    AuditStateDamaged,
    CheckpointNotWritten,
    NothingToArchive,
)
from silas.audit.examination import LATEST
from silas.audit.export import ends_of, examine_file, write_new_file
from silas.audit.log import CHECKPOINT_EVERY, AuditLog
from silas.audit.models import AuditEntry, AuditProblem, AuditReport, ProblemKind, Signatures
from silas.audit.ports import CheckpointSigner, CheckpointVerifier

__all__ = [
    "CHECKPOINT_EVERY",
    "GENESIS",
    "LATEST",
    "Archived",
    "AuditBroken",
    "AuditEntry",
    "AuditFileExists",
    "AuditFileInvalid",
    "AuditFileNotWritten",
    "AuditLog",
    "AuditNotSigned",
    "AuditProblem",
    "AuditReport",
    "AuditStateDamaged",
    "CheckpointNotWritten",
    "CheckpointSigner",
    "CheckpointVerifier",
    "NothingToArchive",
    "Position",
    "ProblemKind",
    "Signatures",
    "ends_of",
    "examine_file",
    "write_new_file",
]
