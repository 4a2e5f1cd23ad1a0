"""Something to approve, who approves it, and a place where approvals leave a trace."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from silas.approval import ApprovalEngine, ApprovalPolicy, KeyManager, NonceStore
from silas.approval.ports import AuditTrail, KeyVault
from silas.kernel import Clock, IdFactory, canonical_bytes
from silas.storage import Database, Transaction


@dataclass(frozen=True)
class FakePlan:
    """`Approvable` made of plain values."""

    id: str = "wi_1"
    parent: str | None = None
    content: Mapping[str, Any] = field(default_factory=lambda: {"run": "echo hello"})
    spawn_policy: Mapping[str, Any] | None = None

    def plan_bytes(self) -> bytes:
        return canonical_bytes({"id": self.id, "parent": self.parent, "content": self.content})

    def spawn_policy_bytes(self) -> bytes:
        return b"" if self.spawn_policy is None else canonical_bytes(self.spawn_policy)


@dataclass(frozen=True)
class RecordedEntry:
    """One entry that was recorded."""

    event: str
    data: Mapping[str, Any]


class RecordingAudit:
    """`AuditTrail` that keeps its entries in a list."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, dict[str, Any]]] = []

    def append(self, tx: Transaction, event: str, data: Mapping[str, Any]) -> str:
        tx.fetch_one("SELECT 1")  # outside of a transaction this fails, as the real one would
        self.entries.append((event, dict(data)))
        return f"aud_{len(self.entries)}"

    async def write_checkpoint(self) -> str:
        return "ckp_1"

    async def proven_since(
        self, moment: datetime, events: Collection[str], *, about: str
    ) -> list[RecordedEntry]:
        """All of them, however old: nobody tampers with a list."""
        return [
            RecordedEntry(event, data)
            for event, data in self.entries
            if event in events and about in str(data)
        ]

    async def log(self, event: str, /, **data: Any) -> str:
        self.entries.append((event, data))
        return f"aud_{len(self.entries)}"

    def events(self) -> list[str]:
        """The names of what was recorded, in order."""
        return [event for event, _ in self.entries]


def owners_keys(vault: KeyVault, *, clock: Clock) -> KeyManager:
    """The owner's keys in this vault; made if there are none."""
    keys = KeyManager(vault, clock=clock)
    if not keys.exists():
        keys.generate_keypair()
    return keys


def approval_engine(
    database: Database, keys: KeyManager, *, audit: AuditTrail, clock: Clock, ids: IdFactory
) -> ApprovalEngine:
    """Approvals with the policy that holds where nothing is configured."""
    return ApprovalEngine(
        database,
        keys,
        nonces=NonceStore(database, clock=clock),
        audit=audit,
        clock=clock,
        ids=ids,
        policy=ApprovalPolicy(),
    )
