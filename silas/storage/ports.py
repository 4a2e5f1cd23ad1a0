"""The `Database` port: what every package may ask of the place where its rows are kept.

Transactions are closures, not context managers: a whole transaction crosses to the writer in one
hop, several callers share one commit, and a cancelled caller can never leave half of one behind.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Protocol, TypeVar

SqlValue = None | int | float | str | bytes
Row = tuple[Any, ...]
T = TypeVar("T")

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


class Durability(Enum):
    """What must be true when a write returns."""

    ORDINARY = "NORMAL"
    """Atomic and consistent; a power cut may take back the last moments."""

    TRUST = "FULL"
    """On the disk. For nonces, tokens, keys and the audit log."""


class Reader(Protocol):
    """One consistent view of the data, for as long as the closure runs."""

    def fetch_one(self, sql: str, params: Sequence[SqlValue] = ()) -> Row | None:
        """The first row, or None."""
        ...

    def fetch_all(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        """All rows."""
        ...

    def rows(self, sql: str, params: Sequence[SqlValue] = ()) -> Iterator[Row]:
        """The rows one at a time, so that a long result needs no memory."""
        ...


class Transaction(Reader, Protocol):
    """A view that can also be changed; everything in it happens, or nothing does."""

    def execute(self, sql: str, params: Sequence[SqlValue] = ()) -> int:
        """Run a statement (without parameters: a script); returns the number of changed rows."""
        ...

    def execute_many(self, sql: str, params: Iterable[Sequence[SqlValue]]) -> list[Row]:
        """Run a statement once for each; returns the rows that all of them return, in order."""
        ...


class Database(Protocol):
    """A database that many tasks use at once without blocking the event loop."""

    async def execute(
        self,
        sql: str,
        params: Sequence[SqlValue] = (),
        *,
        durability: Durability = Durability.ORDINARY,
    ) -> int:
        """Run one statement as its own transaction; returns the number of changed rows."""
        ...

    async def fetch_one(self, sql: str, params: Sequence[SqlValue] = ()) -> Row | None:
        """The first row of a read, or None."""
        ...

    async def fetch_all(self, sql: str, params: Sequence[SqlValue] = ()) -> list[Row]:
        """All rows of a read."""
        ...

    async def transaction(
        self,
        body: Callable[[Transaction], T],
        *,
        durability: Durability = Durability.ORDINARY,
        brief: bool = False,
    ) -> T:
        """Run `body` atomically and return its result once it is committed.

        If `body` raises, nothing of it remains and the exception reaches the caller. `body` may be
        run again if a shared commit failed, so its only effects must be those on the transaction.
        If the caller is cancelled, the transaction either never starts or finishes whole.

        `brief`: it changes a few rows and takes less time than a hop to a thread, so it may be run
        on the event loop if no other transaction is being written.
        """
        ...

    def snapshot_here(self, body: Callable[[Reader], T]) -> T | None:
        """Run a few small reads at once, on the caller's own thread and on one consistent view.

        None if they take longer than a moment: `snapshot` does it then. `body` itself must not
        return None.
        """
        ...

    async def snapshot(self, body: Callable[[Reader], T]) -> T:
        """Run a longer read in its own thread, on one consistent view."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, then release the files."""
        ...
