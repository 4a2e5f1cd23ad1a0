"""Where entries of the chronicle go when their time is over: a file of lines of JSON each day."""

import asyncio
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from silas.context.chronicle import ArchivedEntry
from silas.kernel import CanonicalError, Clock, canonical_bytes, strict_loads
from silas.storage.errors import translated
from silas.storage.files import (
    PRIVATE_FILE,
    make_private_directory,
    sync_directory,
    write_private_file,
)

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

    async def forget(self, scope_id: str, entry_ids: Collection[str]) -> int:
        """Take entries out of all files for good; returns how many."""
        return await asyncio.to_thread(_without, self._directory, scope_id, frozenset(entry_ids))


def _without(directory: Path, scope_id: str, entry_ids: frozenset[str]) -> int:
    gone = 0
    for path in sorted(directory.glob("chronicle-*.jsonl")):
        with translated(str(path)):
            lines = path.read_bytes().splitlines(keepends=True)
            kept = [line for line in lines if not _is_one(line, scope_id, entry_ids)]
            if len(kept) < len(lines):
                write_private_file(path, b"".join(kept))
        gone += len(lines) - len(kept)
    return gone


def _is_one(line: bytes, scope_id: str, entry_ids: frozenset[str]) -> bool:
    try:
        entry = strict_loads(line)
    except (CanonicalError, ValueError):
        return False  # what cannot be read is left to the owner's eyes
    return (
        isinstance(entry, dict)
        and entry.get("scope_id") == scope_id
        and entry.get("entry_id") in entry_ids
    )


def _append(path: Path, lines: bytes) -> None:
    with translated(str(path)):
        make_private_directory(path.parent)
        with os.fdopen(os.open(path, _APPEND, PRIVATE_FILE), "ab") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(path.parent)
