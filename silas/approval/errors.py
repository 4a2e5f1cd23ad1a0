"""What can go wrong with keys, tokens and proofs, in words."""

from silas.kernel import ApprovalError, ChannelError


class NoOwnerKey(ApprovalError):
    """There is no owner key in the vault. Run `silas init` to create one."""

    code = "E_APPROVAL_NO_KEY"


class OwnerKeyDamaged(ApprovalError):
    """The owner key in the vault cannot be read. Bring back a backup: `silas restore`."""

    code = "E_APPROVAL_KEY_DAMAGED"


class OwnerKeyExists(ApprovalError):
    """There is an owner key already. To replace it, run `silas keys rotate`."""

    code = "E_APPROVAL_KEY_EXISTS"


class DecisionRefused(ApprovalError):
    """This decision cannot become an approval. Decide again on the card."""

    code = "E_APPROVAL_DECISION"


class ProofInvalid(ApprovalError):
    """The proof does not hold. Do not rely on it; ask for the original file."""

    code = "E_APPROVAL_PROOF"


class PublicKeyInvalid(ApprovalError):
    """This is not an Ed25519 public key. Give 64 hexadecimal digits or an `owner.pub` file."""

    code = "E_APPROVAL_PUBLIC_KEY"


class NonceUsed(ApprovalError):
    """This nonce was used before. Whoever sent it again is replaying an old message."""

    code = "E_APPROVAL_REPLAY"


class TokenUnknown(ApprovalError):
    """No approval with this id was given here. `silas approvals list` shows them."""

    code = "E_APPROVAL_UNKNOWN"


class DeviceUnknown(ChannelError):
    """This device is not the owner's, or it was revoked. `silas devices list` shows them."""

    code = "E_CHANNEL_DEVICE"
