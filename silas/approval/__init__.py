"""Keys, tokens, nonces, proofs: the only place where the owner's yes becomes a right to act.

This room knows canonical bytes, hashes and ids, never what they mean.
Nothing here talks to a model, a queue or the network, and every doubt is a no.
"""

from silas.approval.devices import Device, DeviceStore
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
from silas.approval.keys import OWNER_KEYS_REF, KeyManager
from silas.approval.messages import (
    FRESHNESS_WINDOW,
    ChannelMessage,
    MessageVerifier,
    SignedMessage,
    message_bytes,
)
from silas.approval.models import (
    EXECUTION_SCOPES,
    ApprovalDecision,
    ApprovalScope,
    ApprovalStrength,
    ApprovalToken,
    ApprovalVerdict,
    Base64Bytes,
)
from silas.approval.nonces import NonceStore
from silas.approval.passkey_codes import PasskeyCode, PasskeyCodes, make_code
from silas.approval.passkeys import Passkey, PasskeyStore, enrolment_challenge
from silas.approval.payloads import AutonomyPayload, BatchPayload, ThresholdChange
from silas.approval.policy import ApprovalPolicy
from silas.approval.ports import Approvable
from silas.approval.proofs import ProofReport, export_proof, verify_proof
from silas.approval.public_keys import PublicKey, PublicKeys
from silas.approval.store import IssuedToken
from silas.approval.webauthn import Assertion, Registration, Use, page_name

__all__ = [
    "EXECUTION_SCOPES",
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
