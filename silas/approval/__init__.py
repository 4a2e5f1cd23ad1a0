"""Keys, tokens, nonces, proofs: the only place where the owner's yes becomes a right to act.

This package knows canonical bytes, hashes and ids, never what they mean.
Nothing here talks to a model, a queue or the network, and every doubt is a no.
"""

from silas.approval.devices import (
    FRESHNESS_WINDOW,
    ChannelMessage,
    Device,
    DeviceStore,
    MessageVerifier,
    SignedMessage,
    message_bytes,
)
from silas.approval.engine import ApprovalEngine
from silas.approval.errors import (
    DecisionRefused,
    DeviceUnknown,
    NonceUsed,
    NoOwnerKey,
    OwnerKeyDamaged,
    OwnerKeyExists,
    ProofInvalid,
    PublicKeyInvalid,
    TokenUnknown,
)
from silas.approval.keys import OWNER_KEYS_REF, KeyManager, OwnerKeys, PublicKey, PublicKeys
from silas.approval.models import (
    Approvable,
    ApprovalDecision,
    ApprovalScope,
    ApprovalStrength,
    ApprovalToken,
    ApprovalVerdict,
    AutonomyPayload,
    Base64Bytes,
    BatchPayload,
    ThresholdChange,
)
from silas.approval.passkeys import (
    Assertion,
    Passkey,
    PasskeyCode,
    PasskeyCodes,
    PasskeyStore,
    Registration,
    Use,
    enrolment_challenge,
    make_code,
    page_name,
)
from silas.approval.proofs import ProofReport, export_proof, verify_proof
from silas.approval.rules import ApprovalPolicy
from silas.approval.store import IssuedToken, NonceStore

__all__ = [
    "FRESHNESS_WINDOW",
    "OWNER_KEYS_REF",
    "Approvable",
    "ApprovalDecision",
    "ApprovalEngine",
    "ApprovalPolicy",
    "ApprovalScope",
    "ApprovalStrength",
    "ApprovalToken",
    "ApprovalVerdict",
    "Assertion",
    "AutonomyPayload",
    "Base64Bytes",
    "BatchPayload",
    "ChannelMessage",
    "DecisionRefused",
    "Device",
    "DeviceStore",
    "DeviceUnknown",
    "IssuedToken",
    "KeyManager",
    "MessageVerifier",
    "NoOwnerKey",
    "NonceStore",
    "NonceUsed",
    "OwnerKeyDamaged",
    "OwnerKeyExists",
    "OwnerKeys",
    "Passkey",
    "PasskeyCode",
    "PasskeyCodes",
    "PasskeyStore",
    "ProofInvalid",
    "ProofReport",
    "PublicKey",
    "PublicKeyInvalid",
    "PublicKeys",
    "Registration",
    "SignedMessage",
    "ThresholdChange",
    "TokenUnknown",
    "Use",
    "enrolment_challenge",
    "export_proof",
    "make_code",
    "message_bytes",
    "page_name",
    "verify_proof",
]
