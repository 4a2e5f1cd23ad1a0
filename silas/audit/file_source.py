"""`ChainSource` on an exported file, read as a stream."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from silas.audit.errors import AuditFileInvalid
from silas.audit.file_format import (
    LONGEST_LINE,
    Header,
    read_checkpoint,
    read_entry,
    read_header,
)
from silas.audit.statements import Checkpoint, SignedStatement
from silas.audit.store import ChainState, StoredCheckpoint
from silas.storage import Row

_DESTROYED = SignedStatement("", "", "")


class FileSource:
    """The chain in a file. It is read once for its entries and once for its checkpoints."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.header: Header = read_header(next(self._lines(), b""))

    def state(self) -> ChainState | None:
        return self.header.state

    def entries(self, after: int) -> Iterator[Row]:
        number = self.header.state.base.seq
        for line in self._body():
            entry = read_entry(line)
            if entry is None:
                return
            number += 1
            if number > after:
                yield number, *entry

    def strays(self, up_to: int) -> list[int]:
        del up_to  # in a file, nothing can lie before the start
        return []

    def checkpoints(self, from_seq: int) -> Iterator[StoredCheckpoint]:
        lines = self._body()
        for line in lines:
            if read_entry(line) is None:
                yield from self._read_checkpoints(line, lines, from_seq)

    def _read_checkpoints(
        self, first: bytes, rest: Iterator[bytes], from_seq: int
    ) -> Iterator[StoredCheckpoint]:
        for line in chain((first,), rest):
            signed = read_checkpoint(line) or _DESTROYED
            checkpoint = Checkpoint.read(signed)
            if checkpoint is None:
                yield StoredCheckpoint(None, from_seq, signed)
            elif checkpoint.position.seq >= from_seq:
                yield StoredCheckpoint(checkpoint.checkpoint_id, checkpoint.position.seq, signed)

    def checkpoint(self, checkpoint_id: str) -> StoredCheckpoint | None:
        every = self.checkpoints(self.header.state.base.seq)
        return next((each for each in every if each.checkpoint_id == checkpoint_id), None)

    def newest_checkpoint(self) -> StoredCheckpoint | None:
        return max(
            self.checkpoints(self.header.state.base.seq), key=lambda each: each.seq, default=None
        )

    def _body(self) -> Iterator[bytes]:
        lines = self._lines()
        next(lines, None)
        return lines

    def _lines(self) -> Iterator[bytes]:
        try:
            with self._path.open("rb") as file:
                while line := file.readline(LONGEST_LINE):
                    yield line
        except OSError as error:
            raise AuditFileInvalid(
                f"{self._path} cannot be read: {error.strerror}. Check the name of the file."
            ) from error
