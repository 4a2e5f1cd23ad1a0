"""A card, and the statements that are signed about it.

1. The seal is the runtime's: made when the card is asked, over everything that decides how it may
   be answered. A row that was changed afterwards has none.
2. A decision is the owner's: over the card, the hashes, the risk and the taint that were shown, and
   the verdict. One decision may cover several cards, each with its own hashes (a batch).
3. What a passkey signs is the plan's own hash; for several plans, the hash of their hashes.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from silas.approval import ApprovalDecision, DecisionRefused
from silas.gates.risk import RiskLevel
from silas.kernel import (
    CanonicalError,
    TaintLevel,
    canonical_bytes,
    format_timestamp,
    strict_loads,
)
from silas.kernel.models import Data, UtcDatetime
from silas.work.models import WorkItem

UNSEALED = (
    "This card is not as it was asked, or it is older than its seal. It can only be declined: "
    "ask for it again."
)
CHANGED = "This is not what the card asks about. Nothing was decided: look at the card again."


class Card(Data):
    """One question to the owner."""

    card_id: str
    scope_id: str
    connection_id: str
    channel: str
    trace_id: str
    title: str
    message: str
    risk: RiskLevel
    taint: TaintLevel
    plan_hashes: dict[str, str]
    """The hash of each work item, by its id, the first one first."""
    replaces: str | None
    requested_by: str
    created_at: UtcDatetime
    expires_at: UtcDatetime
    state: str
    """`open`, or the verdict."""
    sealed: bool = True
    """Whether it is as the runtime has asked it; if not, it can only be declined."""


def seal_bytes(card: Card) -> bytes:
    """What the runtime signs when it asks (rule 1)."""
    return canonical_bytes(
        {
            "type": "card_seal",
            "card_id": card.card_id,
            "scope_id": card.scope_id,
            "connection_id": card.connection_id,
            "trace_id": card.trace_id,
            "plan_hashes": card.plan_hashes,
            "risk": card.risk.value,
            "taint": card.taint.value,
            "replaces": card.replaces,
            "requested_by": card.requested_by,
            "expires_at": format_timestamp(card.expires_at),
        }
    )


def decision_bytes(card: Card, decision: ApprovalDecision) -> bytes:
    """What the owner signs (rule 2)."""
    return canonical_bytes(
        {
            "type": "card_decision",
            "card_id": card.card_id,
            "plan_hashes": card.plan_hashes,
            "risk": card.risk.value,
            "taint": card.taint.value,
            "decision": decision.model_dump(mode="json"),
        }
    )


def batch_entry(card: Card) -> dict[str, Any]:
    """A card as one of several that are decided together."""
    return {
        "card_id": card.card_id,
        "plan_hashes": card.plan_hashes,
        "risk": card.risk.value,
        "taint": card.taint.value,
    }


def batch_decision_bytes(content: Mapping[str, Any], decision: ApprovalDecision) -> bytes:
    """What the owner signs about several cards at once: all of what the batch shows."""
    return canonical_bytes(
        {
            "type": "batch_decision",
            "batch": dict(content),
            "decision": decision.model_dump(mode="json"),
        }
    )


def is_about(card: Card, statement: Mapping[str, Any], decision: ApprovalDecision) -> bool:
    """Whether a signed statement decides exactly this card, alone or in a batch."""
    signed = canonical_bytes(dict(statement))
    if signed == decision_bytes(card, decision):
        return True
    batch = statement.get("batch")
    if statement.get("type") != "batch_decision" or not isinstance(batch, Mapping):
        return False
    entries = [entry for entry in batch.get("items", ()) if entry.get("card_id") == card.card_id]
    wanted = batch_entry(card)
    return len(entries) == 1 and {name: entries[0].get(name) for name in wanted} == wanted


def kept_signature(text: str | None) -> bytes:
    """A signature from a row; what is none there is an empty one, which nobody has made."""
    try:
        return base64.b64decode(text or "", validate=True)
    except ValueError:
        return b""


def kept_statement(text: str) -> dict[str, Any]:
    """What was said, from a row; what cannot be read says nothing."""
    try:
        said = strict_loads(text)
    except CanonicalError:
        return {}
    return said if isinstance(said, dict) else {}


def challenge_of(plan_hashes: Mapping[str, str]) -> bytes:
    """What a passkey is asked to sign (rule 3)."""
    if len(plan_hashes) == 1:
        return bytes.fromhex(next(iter(plan_hashes.values())))
    return hashlib.sha256(canonical_bytes(dict(plan_hashes))).digest()


def require_shown(card: Card, items: Sequence[WorkItem | None]) -> list[WorkItem]:
    """The items, if they are all and exactly those of the card; raises `DecisionRefused`.

    To be asked before they are shown: the owner's yes is to the hashes of the card.
    """
    found = [item for item in items if item is not None]
    if {item.id: item.plan_hash for item in found} != card.plan_hashes:
        raise DecisionRefused(CHANGED)
    return found
