"""What people and programs learn about the audit log.

Plain records: a command that only reads the log must not wait for a validating library to load.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One thing that happened."""

    seq: int
    entry_id: str
    at: str
    event: str
    data: dict[str, Any]


class ProblemKind(StrEnum):
    """What is wrong with a place in the log."""

    CHANGED = "changed"
    UNPROVEN = "unproven"
    REMOVED = "removed"
    INSERTED = "inserted"
    REORDERED = "reordered"
    TRUNCATED = "truncated"
    CHECKPOINT_MISSING = "checkpoint_missing"
    CHECKPOINT_FORGED = "checkpoint_forged"
    CHECKPOINT_MISMATCH = "checkpoint_mismatch"
    WITNESS_DAMAGED = "witness_damaged"
    BASE_UNPROVEN = "base_unproven"
    STATE_MISMATCH = "state_mismatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditProblem:
    """One thing that is wrong, with the number of the first entry that it concerns."""

    kind: ProblemKind
    seq: int
    sentence: str


class Signatures(StrEnum):
    """What can be said about the signatures of the checkpoints."""

    CHECKED = "checked"
    NO_CHECKPOINT = "no checkpoint"
    NO_PUBLIC_KEY = "no public key"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What an examination of the log has found."""

    ok: bool
    entries: int
    """How many entries were hashed."""
    start_seq: int
    """The last entry before the first one that was hashed: 0, the base, or a checkpoint."""
    head_seq: int
    head_hash: str
    checkpoints: int
    vouched_seq: int
    """The last entry that a checkpoint vouches for; what follows is held by the chain alone."""
    signatures: Signatures
    key_ids: tuple[str, ...]
    """The keys that the checkpoints name as theirs."""
    problems: tuple[AuditProblem, ...]
    """The first of them, in the order of the entries."""
    problem_count: int

    @property
    def first_problem(self) -> AuditProblem | None:
        """What to look at first."""
        return self.problems[0] if self.problems else None
