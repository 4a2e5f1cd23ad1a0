"""What the memory needs from others."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from silas.approval import Approvable, ApprovalScope, ApprovalToken
from silas.storage import Transaction


class Confirmations(Protocol):
    """Where the owner's yes is checked and used up: the approval engine. Absent means no."""

    async def verify(
        self,
        token: ApprovalToken,
        work_item: Approvable,
        spawned_task: Approvable | None = None,
        *,
        accept: frozenset[ApprovalScope],
    ) -> tuple[bool, str]:
        """Use the token once for exactly these bytes; returns (valid, reason)."""
        ...


class AuditTrail(Protocol):
    """Where it is written down that something was forgotten, confirmed or taken out."""

    def append(self, tx: Transaction, event: str, data: Mapping[str, Any]) -> str:
        """Add an entry to the chain as part of this transaction; returns its id."""
        ...


class Embedder(Protocol):
    """Turns text into vectors. Absent means that memories are found by their words alone."""

    @property
    def model_id(self) -> str:
        """Names the model and its exact weights; vectors of different models never mix."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of every vector."""
        ...

    def embed(self, text: str) -> list[float]:
        """The vector of one text, of length 1."""
        ...

    def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of several texts, in their order."""
        ...
