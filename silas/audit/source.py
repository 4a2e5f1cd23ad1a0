"""Where an examination reads from: the database, or an exported file."""

from collections.abc import Iterator
from typing import Protocol

from silas.audit.store import (
    ChainState,
    StoredCheckpoint,
    checkpoints_from,
    entries_after,
    find_checkpoint,
    newest_checkpoint,
    numbers_up_to,
    read_state,
)
from silas.storage import Reader, Row


class ChainSource(Protocol):
    """A chain, read from beginning to end without being held in memory."""

    def state(self) -> ChainState | None:
        """Where the chain says that it starts and ends; None if that cannot be read."""
        ...

    def entries(self, after: int) -> Iterator[Row]:
        """Number, body and hash of the entries behind that number."""
        ...

    def strays(self, up_to: int) -> list[int]:
        """Numbers of entries that lie before the start of the chain (the first of them)."""
        ...

    def checkpoints(self, from_seq: int) -> Iterator[StoredCheckpoint]:
        """The checkpoints that vouch for this entry and for later ones."""
        ...

    def checkpoint(self, checkpoint_id: str) -> StoredCheckpoint | None:
        """The checkpoint with this id, or None."""
        ...

    def newest_checkpoint(self) -> StoredCheckpoint | None:
        """The checkpoint that vouches for most, or None."""
        ...


class DatabaseSource:
    """The chain in the database, in one consistent view."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def state(self) -> ChainState | None:
        return read_state(self._reader)

    def entries(self, after: int) -> Iterator[Row]:
        return entries_after(self._reader, after)

    def strays(self, up_to: int) -> list[int]:
        return numbers_up_to(self._reader, up_to)

    def checkpoints(self, from_seq: int) -> Iterator[StoredCheckpoint]:
        return checkpoints_from(self._reader, from_seq)

    def checkpoint(self, checkpoint_id: str) -> StoredCheckpoint | None:
        return find_checkpoint(self._reader, checkpoint_id)

    def newest_checkpoint(self) -> StoredCheckpoint | None:
        return newest_checkpoint(self._reader)
