"""Who has signed a decision about a card, and with what: rules 4 and 7 of `cards.py`.

The owner's own key is enough for everything. A device's key is enough for what can be undone; for a
yes to what cannot, a passkey has to have signed the plan's hash as well. It is checked when it is
used, and again when the decision is followed.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from pydantic import ValidationError

from silas.approval import (
    ApprovalDecision,
    ApprovalVerdict,
    Assertion,
    DecisionRefused,
    PasskeyStore,
    Use,
)
from silas.gates.risk import RiskLevel
from silas.kernel.models import Data
from silas.storage import Database, Transaction
from silas.stream.card_statements import Card, challenge_of
from silas.stream.errors import StrongerProofNeeded
from silas.stream.receipts import Signer

GRANTS = frozenset({ApprovalVerdict.APPROVED, ApprovalVerdict.CONDITIONAL})
_KEEP = "INSERT INTO card_passkeys (card_id, proof) VALUES (?, ?)"
_KEPT = "SELECT proof FROM card_passkeys WHERE card_id = ?"


class DeviceKeys(Protocol):
    """The keys of the owner's devices."""

    async def verify(self, key_id: str, payload: bytes, signature: bytes) -> bool:
        """Whether a device that is trusted now made this signature."""
        ...


class _Proof(Data):
    """The passkey's part of a decision."""

    assertion: Assertion
    origin: str


@dataclass(frozen=True)
class Signed:
    """A decision on its way into the store."""

    statement: bytes
    key_id: str
    signature: bytes
    proof: _Proof | None = None
    use: Use | None = None


@dataclass(frozen=True)
class CardProofs:
    """The signatures of one data directory's cards. Absent devices or passkeys prove nothing."""

    database: Database
    signer: Signer
    devices: DeviceKeys | None
    passkeys: PasskeyStore | None

    async def is_from_device(self, signed: Signed) -> bool:
        """Whether a device that is trusted now has signed it."""
        if self.devices is None:
            return False
        return await self.devices.verify(signed.key_id, signed.statement, signed.signature)

    async def with_passkey(
        self, card: Card, signed: Signed, passkey: Assertion | None, origins: Collection[str]
    ) -> Signed:
        """The same with the passkey's proof; raises `StrongerProofNeeded` without one."""
        if passkey is None or self.passkeys is None:
            raise StrongerProofNeeded
        challenge = challenge_of(card.plan_hashes)
        use = await self.passkeys.verify(passkey, challenge, origins=origins)
        proof = _Proof(assertion=passkey, origin=use.origin)
        return replace(signed, proof=proof, use=use)

    def keep(self, tx: Transaction, card_id: str, signed: Signed) -> None:
        """Keep the passkey's proof, if there is one, in the transaction that keeps the decision."""
        if signed.proof is None or signed.use is None or self.passkeys is None:
            return
        self.passkeys.count_in(tx, signed.proof.assertion.credential_id, signed.use)
        tx.execute(_KEEP, (card_id, signed.proof.model_dump_json()))

    async def is_owners(
        self, card: Card, decision: ApprovalDecision, signed: Signed, *, now: datetime
    ) -> bool:
        """Whether a kept decision is the owner's, with all that it needs."""
        grants = decision.verdict in GRANTS
        if grants and not card.sealed:
            return False
        if self.signer.verify(signed.key_id, signed.statement, signed.signature, at=now):
            return True
        if not await self.is_from_device(signed):
            return False
        if grants and card.risk is RiskLevel.IRREVERSIBLE:
            return await self._has_passkey(card)
        return True

    async def _has_passkey(self, card: Card) -> bool:
        row = await self.database.fetch_one(_KEPT, (card.card_id,))
        if row is None or self.passkeys is None:
            return False
        try:
            proof = _Proof.model_validate_json(row[0])
            challenge = challenge_of(card.plan_hashes)
            await self.passkeys.verify(proof.assertion, challenge, origins=(proof.origin,))
        except (ValidationError, DecisionRefused):
            return False
        return True
