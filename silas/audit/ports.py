"""What the audit log needs from others. The owner's key manager implements both."""

from datetime import datetime
from typing import Protocol


class CheckpointSigner(Protocol):
    """The owner's signing key, usable but not readable."""

    def sign(self, payload: bytes) -> tuple[str, bytes]:
        """The id of the active key, and its Ed25519 signature over the payload."""
        ...


class CheckpointVerifier(Protocol):
    """The owner's public keys."""

    def verify(self, key_id: str, payload: bytes, signature: bytes, *, at: datetime) -> bool:
        """Whether this key, which was the owner's at that time, made this signature."""
        ...
