"""The fence: nothing is written any more that was allowed before the last stop.

Who may write is decided elsewhere, in another database. So that no decision is overtaken on its way
to the disk:

1. Whoever takes a permission away writes that down first, then moves the fence, and only then says
   that it is done.
2. Whoever writes for others looks where the fence is, then whether the write is allowed, and writes
   with a guard: in the transaction of the write itself it is looked at again.
3. A fence that has moved in between stops the write. It is asked again whether it is allowed.

Of a write and a stop, one is first in the journal's own order, also in different processes.
"""

from collections.abc import Callable

from silas.storage import Database, Durability, Reader, Transaction

Guard = Callable[[Transaction], None]
"""Called in the transaction of a change, before anything is changed; may raise."""

_WHERE = "SELECT coalesce(max(generation), 0) FROM write_fence"
_MOVE = """
INSERT INTO write_fence (one, generation) VALUES (1, 1)
ON CONFLICT (one) DO UPDATE SET generation = write_fence.generation + 1
"""


class FenceMoved(Exception):
    """Somebody was stopped since the write was allowed. Ask again whether it is."""


class WriteFence:
    """The fence of one journal."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def move(self) -> None:
        """Stop every write that was allowed before (rule 1)."""
        await self._database.execute(_MOVE, durability=Durability.TRUST)

    async def guard(self) -> Guard:
        """A guard for a write that is allowed after this call (rule 2)."""
        row = await self._database.fetch_one(_WHERE)
        seen = row[0] if row else 0

        def still_there(tx: Transaction) -> None:
            if _where_in(tx) != seen:
                raise FenceMoved

        return still_there


def _where_in(reader: Reader) -> int:
    row = reader.fetch_one(_WHERE)
    return int(row[0]) if row else 0
