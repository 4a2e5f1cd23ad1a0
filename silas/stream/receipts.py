"""Receipts: the owner's key vouches for when a decision was kept.

What a device has signed about a card has no time in it, and is valid for ever. So the runtime signs
when it came: a decision whose receipt is missing, of another decision, or too old is not followed
(`ApprovalEngine.token_for`). Only the runtime can make one, and it makes one when it keeps a
decision, never when it follows it.
"""

import base64
import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from silas.kernel import canonical_bytes, format_timestamp, parse_timestamp
from silas.storage import Database, Transaction

_KEEP = """
INSERT INTO decision_receipts (card_id, decided_at, key_id, signature) VALUES (?, ?, ?, ?)
ON CONFLICT (card_id) DO UPDATE SET
    decided_at = excluded.decided_at, key_id = excluded.key_id, signature = excluded.signature
"""
_RECEIPT = "SELECT decided_at, key_id, signature FROM decision_receipts WHERE card_id = ?"


class Signer(Protocol):
    """The owner's key."""

    def sign(self, payload: bytes) -> tuple[str, bytes]:
        """The id of the key, and its signature."""
        ...

    def verify(self, key_id: str, payload: bytes, signature: bytes, *, at: datetime) -> bool:
        """Whether this key of the owner's made this signature."""
        ...


@dataclass(frozen=True)
class Receipts:
    """The receipts of one data directory."""

    database: Database
    signer: Signer

    def keep(self, tx: Transaction, card_id: str, statement: bytes, *, now: datetime) -> None:
        """Vouch for it that this was decided now, in the transaction that keeps the decision."""
        at = format_timestamp(now)
        key_id, signature = self.signer.sign(_receipt_bytes(card_id, statement, at))
        tx.execute(_KEEP, (card_id, at, key_id, base64.b64encode(signature).decode()))

    async def decided_at(self, card_id: str, statement: bytes) -> datetime | None:
        """When exactly this was decided; None if nobody vouches for it."""
        row = await self.database.fetch_one(_RECEIPT, (card_id,))
        if row is None:
            return None
        at, key_id, signature = row
        try:
            moment, made = parse_timestamp(at), base64.b64decode(signature, validate=True)
        except (TypeError, ValueError):
            return None
        payload = _receipt_bytes(card_id, statement, at)
        return moment if self.signer.verify(key_id, payload, made, at=moment) else None


def _receipt_bytes(card_id: str, statement: bytes, at: str) -> bytes:
    return canonical_bytes(
        {
            "type": "decision_kept",
            "card_id": card_id,
            "statement": hashlib.sha256(statement).hexdigest(),
            "decided_at": at,
        }
    )
