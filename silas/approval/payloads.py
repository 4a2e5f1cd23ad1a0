"""Approvals that are not plans: wrapped so that the same hash, signature and doors apply."""

from dataclasses import dataclass
from typing import Any

from silas.kernel import canonical_bytes


@dataclass(frozen=True)
class BatchPayload:
    """One action on exactly these items, in this order. The batch's own id authorises nothing."""

    goal_id: str
    action: str
    item_ids: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.goal_id

    @property
    def parent(self) -> str | None:
        return None

    def plan_bytes(self) -> bytes:
        return canonical_bytes(
            {
                "goal_id": self.goal_id,
                "action": self.action,
                "item_ids": self.item_ids,
                "count": len(self.item_ids),
            }
        )

    def spawn_policy_bytes(self) -> bytes:
        return b""


@dataclass(frozen=True)
class ThresholdChange:
    """One autonomy setting, from what to what."""

    key: str
    current_value: str
    proposed_value: str
    direction: str


@dataclass(frozen=True)
class AutonomyPayload:
    """A change of autonomy thresholds together with the evidence that it was proposed on."""

    proposal_id: str
    scope_id: str
    goal_id: str | None
    changes: tuple[ThresholdChange, ...]
    sample_size: int
    correction_rate: float
    evidence_window: str

    @property
    def id(self) -> str:
        return self.proposal_id

    @property
    def parent(self) -> str | None:
        return None

    def plan_bytes(self) -> bytes:
        changes: list[dict[str, Any]] = [vars(change) for change in self.changes]
        return canonical_bytes(
            {
                "scope_id": self.scope_id,
                "goal_id": self.goal_id,
                "changes": changes,
                "sample_size": self.sample_size,
                "correction_rate": self.correction_rate,
                "evidence_window": self.evidence_window,
            }
        )

    def spawn_policy_bytes(self) -> bytes:
        return b""
