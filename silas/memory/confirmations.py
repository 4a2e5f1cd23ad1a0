"""The owner's confirmation of a memory: a signed token over exactly what was shown.

Only the approval room can make one: whoever wants a memory to be trusted shows `MemoryClaim`, the
owner decides, and `ApprovalEngine.issue_token(claim, decision, CONFIRMATION)` signs it. The store
hands the token back to the engine, which uses it up. A token for any other content, action, scope
or memory does not fit, and none of these tokens lets a work item run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from silas.approval import ApprovalScope, ApprovalToken
from silas.kernel import canonical_bytes
from silas.memory.errors import TrustRefused
from silas.memory.models import MemoryItem
from silas.memory.ports import Confirmations

CONFIRMATION = ApprovalScope.SINGLE_STEP
"""The scope of these tokens: one step, and none that executes anything."""

ACCEPTED = frozenset({CONFIRMATION})


@dataclass(frozen=True)
class MemoryClaim:
    """`Approvable`: these memories shall be stored, changed to, deleted, or imported like this."""

    action: str
    scope_id: str
    items: tuple[MemoryItem, ...]

    @property
    def id(self) -> str:
        return self.items[0].memory_id if self.items else self.scope_id

    @property
    def parent(self) -> str | None:
        return None

    def plan_bytes(self) -> bytes:
        """Everything that decides what the memory says and how far it is trusted."""
        return canonical_bytes(
            {
                "kind": "memory",
                "action": self.action,
                "scope_id": self.scope_id,
                "items": [shown_fields(item) for item in self.items],
            }
        )

    def spawn_policy_bytes(self) -> bytes:
        return b""


def shown_bytes(item: MemoryItem) -> bytes:
    """What the owner sees of a memory when confirming it."""
    return canonical_bytes(shown_fields(item))


def shown_fields(item: MemoryItem) -> dict[str, object]:
    """The fields that decide what a memory says and how far it is trusted."""
    shown = item.model_dump(
        mode="json",
        include={
            "memory_id",
            "content",
            "memory_type",
            "trust_level",
            "taint",
            "semantic_tags",
            "valid_from",
            "valid_until",
        },
    )
    return dict(shown)


async def require_confirmed(
    approvals: Confirmations | None,
    token: ApprovalToken,
    *,
    action: str,
    scope_id: str,
    items: Sequence[MemoryItem],
) -> None:
    """Use the token up for exactly this; raises `TrustRefused` if it is not valid for it."""
    if approvals is None:
        raise TrustRefused("Nobody here can check the owner's confirmation.")
    claim = MemoryClaim(action, scope_id, tuple(items))
    valid, reason = await approvals.verify(token, claim, accept=ACCEPTED)
    if not valid:
        raise TrustRefused(f"The owner's confirmation does not hold: {reason}.")
