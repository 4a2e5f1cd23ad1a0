"""The audit log: everything that happened, hash-chained, redacted, vouched for by the owner's key.

Entries, checkpoints, their verification, export and archiving live here. Nothing here decides what
is logged or who may act; keys come in through ports, and no secret is ever written down.
"""

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
from silas.audit.export import Archived, ends_of, examine_file, write_new_file
from silas.audit.log import AuditLog
from silas.audit.models import (
    GENESIS,
    AuditEntry,
    AuditReport,
    ChainPosition,
    ProblemKind,
    Signatures,
)

__all__ = [
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
    "AuditReport",
    "AuditStateDamaged",
    "ChainPosition",
    "CheckpointNotWritten",
    "NothingToArchive",
    "ProblemKind",
    "Signatures",
    "ends_of",
    "examine_file",
    "write_new_file",
]
