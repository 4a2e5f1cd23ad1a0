"""Approval as portable proof: a token, and the exact bytes that were shown, in one file.

To verify a proof, with nothing but the owner's public key:

0. The file is canonical JSON of the known format: one proof, one spelling.
1. The token's fields are well formed, and its id is the one inside its signed nonce.
2. The signature over the token is by a key that the verifier trusts, in use at the time of issue.
3. The hash of the shown bytes is the one that was signed.
4. For a standing approval, the hash of the spawn policy is the one that was signed.
5. The verdict is a yes.

Counters are left out: how often a token was used is a fact of one data directory, not of the proof.
"""

import base64
import hashlib
from typing import Any

from pydantic import ValidationError

from silas.approval.errors import ProofInvalid
from silas.approval.keys import PublicKey, PublicKeys
from silas.approval.models import ApprovalScope, ApprovalToken, ApprovalVerdict, Base64Bytes
from silas.approval.rules import SPAWN_POLICY_HASH
from silas.approval.store import IssuedToken
from silas.kernel import CanonicalError, canonical_bytes, strict_loads
from silas.kernel.models import Data

PROOF_FORMAT = "silas-proof-v1"
MAX_PROOF_BYTES = 8_000_000
_COUNTERS = {"executions_used", "execution_nonces"}


class ProofReport(Data):
    """What a valid proof says."""

    token: ApprovalToken
    key_id: str
    shown: bytes
    spawn_policy: bytes | None


class _Proof(Data):
    """The file's own shape."""

    format: str
    token: dict[str, Any]
    shown: Base64Bytes
    spawn_policy: Base64Bytes | None


def export_proof(issued: IssuedToken) -> bytes:
    """The proof file for an issued token."""
    return canonical_bytes(
        {
            "format": PROOF_FORMAT,
            "token": issued.token.model_dump(mode="json", exclude=_COUNTERS),
            "shown": _base64(issued.shown),
            "spawn_policy": None if issued.spawn_policy is None else _base64(issued.spawn_policy),
        }
    )


def verify_proof(document: bytes, trusted: PublicKeys) -> ProofReport:
    """Check a proof against the keys that the verifier trusts; raises `ProofInvalid` with why."""
    proof = _read(document)
    token = _read_token(proof)
    signer = _require_signature(token, trusted)
    _require_hash(proof.shown, token.plan_hash, "What was shown is not what was signed")
    if token.scope is ApprovalScope.STANDING:
        _require_hash(
            proof.spawn_policy or b"",
            str(token.conditions.get(SPAWN_POLICY_HASH)),
            "The spawn policy is not the one that was signed",
        )
    elif proof.spawn_policy is not None:
        raise ProofInvalid(
            "The proof carries a spawn policy, but the approval is not a standing one."
        )
    if token.verdict not in {ApprovalVerdict.APPROVED, ApprovalVerdict.CONDITIONAL}:
        raise ProofInvalid(f"The owner did not approve: the verdict was {token.verdict.value}.")
    return ProofReport(
        token=token, key_id=signer.key_id, shown=proof.shown, spawn_policy=proof.spawn_policy
    )


def _read(document: bytes) -> _Proof:
    if len(document) > MAX_PROOF_BYTES:
        raise ProofInvalid("The file is too large to be a proof.")
    try:
        content = strict_loads(document)
        if canonical_bytes(content) != document:
            raise ProofInvalid(
                "The file is not in canonical form: it was changed after the export."
            )
        proof = _Proof.model_validate(content)
    except (CanonicalError, ValidationError) as error:
        raise ProofInvalid(f"The file is not a proof, or it was changed: {error}") from error
    if proof.format != PROOF_FORMAT:
        raise ProofInvalid(f"The file has the format {proof.format!r}; expected {PROOF_FORMAT!r}.")
    return proof


def _read_token(proof: _Proof) -> ApprovalToken:
    try:
        token = ApprovalToken.model_validate(proof.token)
    except ValidationError as error:
        raise ProofInvalid(f"The token in the proof is not well formed: {error}") from error
    if token.model_dump(mode="json", exclude=_COUNTERS) != proof.token:
        raise ProofInvalid("The token in the proof is not in its canonical spelling.")
    if not token.nonce.startswith(f"{token.token_id}."):
        raise ProofInvalid("The token's id is not the one that was signed.")
    return token


def _require_signature(token: ApprovalToken, trusted: PublicKeys) -> PublicKey:
    signer = trusted.signer_of(token.canonical_bytes(), token.signature)
    if signer is None:
        raise ProofInvalid(
            "The signature does not fit: the approval was changed, or another key signed it."
        )
    if not signer.in_use_at(token.issued_at):
        raise ProofInvalid(f"{signer.key_id} had been retired when this was signed.")
    return signer


def _require_hash(payload: bytes, expected: str, sentence: str) -> None:
    actual = hashlib.sha256(payload).hexdigest()
    if actual != expected:
        raise ProofInvalid(f"{sentence}: the hash is {actual}, signed was {expected}.")


def _base64(payload: bytes) -> str:
    return base64.b64encode(payload).decode()
