"""Where entries of the chronicle go when their time is over: a file of lines of JSON each day."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from silas.context.chronicle import ArchivedEntry
from silas.kernel import Clock, canonical_bytes
from silas.storage.errors import translated
from silas.storage.files import PRIVATE_FILE, make_private_directory, sync_directory

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class FileArchive:
    """`ArchiveSink` in a directory that only its owner may read."""

    def __init__(self, directory: Path, *, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock

    async def write(self, entries: Sequence[ArchivedEntry]) -> None:
        """Append these, and return when they are on the disk."""
        lines = b"".join(
            canonical_bytes(entry.model_dump(mode="json")) + b"\n" for entry in entries
        )
        path = self._directory / f"chronicle-{self._clock.now():%Y-%m-%d}.jsonl"
        await asyncio.to_thread(_append, path, lines)


def _append(path: Path, lines: bytes) -> None:
    with translated(str(path)):
        make_private_directory(path.parent)
        with os.fdopen(os.open(path, _APPEND, PRIVATE_FILE), "ab") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(path.parent)
