"""How often and when memories were found, counted in memory and written down in batches.

A search must not cost a write. So the counts wait here until there are enough of them, or until
they are older than a minute, or until somebody calls `flush`.
"""

import asyncio
from collections.abc import Iterable

from silas.kernel import Clock, format_timestamp
from silas.memory.rows import as_list
from silas.storage import Database

_ENOUGH = 512
_LONG_AGO = 60.0
_ADD = """
UPDATE memory_items
SET access_count = access_count + seen.times, last_accessed = max(coalesce(last_accessed, ''), ?)
FROM (SELECT value ->> 0 AS row, value ->> 1 AS times FROM json_each(?)) AS seen
WHERE memory_items.id = seen.row
"""


class AccessCounter:
    """Counts that are not written down yet."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._counts: dict[int, int] = {}
        self._last = clock.now()
        self._flushed = clock.monotonic()
        self._writing = asyncio.Lock()

    async def count(self, rows: Iterable[int]) -> None:
        """These were found once more."""
        for row in rows:
            self._counts[row] = self._counts.get(row, 0) + 1
        self._last = self._clock.now()
        waited = self._clock.monotonic() - self._flushed
        if len(self._counts) >= _ENOUGH or waited >= _LONG_AGO:
            await self.flush()

    async def flush(self) -> int:
        """Write the counts down; returns of how many memories."""
        async with self._writing:
            counts, last = self._counts, self._last
            self._counts, self._flushed = {}, self._clock.monotonic()
            if not counts:
                return 0
            pairs = as_list([list(pair) for pair in counts.items()])
            await self._database.execute(_ADD, (format_timestamp(last), pairs))
            return len(counts)

    def forget(self, rows: Iterable[int]) -> None:
        """Drop the counts of memories that are gone."""
        for row in rows:
            self._counts.pop(row, None)
