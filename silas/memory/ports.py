"""What the memory needs from others."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from silas.approval import Approvable, ApprovalScope, ApprovalToken
from silas.memory.models import MemoryItem
from silas.memory.rows import Lane
from silas.storage import Transaction
from silas.storage.ports import Progress


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


class Traces(Protocol):
    """Other places that hold what was said: chronicle, archive, deliveries. Absent: there are none.

    A memory that was kept from a message has the id of that message in its own.
    """

    def forget_in(self, tx: Transaction, scope_id: str, memories: Sequence[MemoryItem]) -> int:
        """Erase there what these memories were kept from, in this transaction; says how many."""
        ...

    async def forget_files(self, scope_id: str, memories: Sequence[MemoryItem]) -> int:
        """The same in files."""
        ...


class Nearest(Protocol):
    """Finds memories by their meaning."""

    async def nearest(
        self, lane: Lane, texts: Sequence[str], most: int, *, context: float = 0.0
    ) -> dict[int, float]:
        """The rows of this lane that are nearest to the mean of the texts, with their cosines.

        `context` is how much of the memory just before it each of them takes along.
        """
        ...


class Index(Nearest, Protocol):
    """The vectors of all memories, which follow the memories."""

    async def catch_up(self, *, most: int = 1000) -> int:
        """Embed memories that are new or were reworded, at most so many; returns how many."""
        ...

    async def reindex(self, *, progress: Progress | None = None) -> dict[str, int]:
        """Embed what has no vector of its present text, drop what has no memory any more."""
        ...

    async def forget(self, rows: Sequence[int]) -> int:
        """Erase the vectors of these rows."""
        ...

    async def close(self) -> None:
        """Release the files."""
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
