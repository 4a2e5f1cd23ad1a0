"""What approval needs from others."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from silas.storage import Transaction


class Approvable(Protocol):
    """Something that can be put before the owner: canonical bytes, and how it is named."""

    @property
    def id(self) -> str:
        """The id that the token will carry."""
        ...

    @property
    def parent(self) -> str | None:
        """The goal that this was spawned from, if any."""
        ...

    def plan_bytes(self) -> bytes:
        """The canonical JSON of everything that is approved: what is shown and what is hashed."""
        ...

    def spawn_policy_bytes(self) -> bytes:
        """The canonical JSON of what tasks spawned under a standing approval must be like."""
        ...


class Recorded(Protocol):
    """One entry of the audit log."""

    @property
    def event(self) -> str:
        """What happened."""
        ...

    @property
    def data(self) -> Mapping[str, Any]:
        """The details."""
        ...


class AuditTrail(Protocol):
    """Where approvals leave their trace, inside the transaction that they happen in."""

    def append(self, tx: Transaction, event: str, data: Mapping[str, Any]) -> str:
        """Add an entry to the chain as part of this transaction; returns its id."""
        ...

    async def write_checkpoint(self) -> str:
        """Have the owner's key vouch for the log as it is; returns the checkpoint's id."""
        ...

    async def proven_since(
        self, moment: datetime, events: Collection[str], *, about: str
    ) -> Sequence[Recorded]:
        """All entries of these events since then that hold this text; raises `AuditError`."""
        ...


class KeyVault(Protocol):
    """Where the owner's private key lives."""

    def get(self, ref_id: str) -> bytes | None:
        """The secret, or None."""
        ...

    def set(self, ref_id: str, value: bytes) -> None:
        """Store the secret so that it survives a crash."""
        ...


class Signer(Protocol):
    """The owner's signing key, usable but not readable."""

    def sign(self, payload: bytes) -> tuple[str, bytes]:
        """The id of the active key, and its signature over the payload."""
        ...


class ConditionCheck(Protocol):
    """Decides one kind of condition that the owner put on an approval."""

    def __call__(self, value: Any, approvable: Approvable) -> bool:
        """Whether the condition holds for what is about to be executed."""
        ...
