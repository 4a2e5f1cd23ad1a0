"""Retention: the old part of the log moves to a file, and both parts stay provable.

1. The log must hold, all of it. What is broken is not archived: it is evidence where it is.
2. The part that moves ends at a checkpoint, and nothing in it is younger than the given date.
3. It is written to a file, which is read back and examined before anything else happens.
4. In one transaction: the entries go, the owner's signed statement lets the log start behind them,
   and an entry says what was archived, where to, and with which hash.
5. A checkpoint vouches for that entry.

Whatever is interrupted can be run again: a file that holds exactly this part is used as it is.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from silas.audit.chain import Position
from silas.audit.errors import AuditBroken, AuditFileExists, NothingToArchive
from silas.audit.export import ends_of, examine_file, export_log, write_new_file
from silas.audit.models import AuditReport
from silas.audit.ports import CheckpointSigner, CheckpointVerifier
from silas.audit.statements import Checkpoint, base_statement
from silas.audit.store import first_entry_since, last_checkpoint_before, read_state, remove_archived
from silas.kernel import AuditError, Clock, format_timestamp
from silas.storage import Database, Durability, Reader, Transaction

AppendEntry = Callable[[Transaction, str, Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class Archived:
    """What an archiving has done."""

    file: Path
    sha256: str
    base: Position
    head: Position


class Archiver:
    """Moves the old part of the log to a file."""

    def __init__(
        self,
        database: Database,
        signer: CheckpointSigner,
        *,
        verifier: CheckpointVerifier | None,
        clock: Clock,
        append: AppendEntry,
    ) -> None:
        self._database = database
        self._signer = signer
        self._verifier = verifier
        self._clock = clock
        self._append = append

    async def archive(self, path: Path, *, before: datetime) -> Archived:
        """Rules 2 to 4; rules 1 and 5 are the caller's, who has the whole log."""
        base, head = await self._database.snapshot(lambda reader: _part_before(reader, before))
        await self._database.snapshot(lambda reader: _write_unless_there(reader, path, head))
        await asyncio.to_thread(self._check_file, path, base, head)
        digest = await asyncio.to_thread(_sha256_of, path)
        archived = Archived(path, digest, base, head)
        await self._remove(archived)
        return archived

    def _check_file(self, path: Path, base: Position, head: Position) -> None:
        if ends_of(path) != (base, head):
            raise AuditFileExists(f"{path}: {AuditFileExists.sentence()}")
        raise_if_broken(examine_file(path, verifier=self._verifier), what=str(path))

    async def _remove(self, archived: Archived) -> None:
        proof = await asyncio.to_thread(
            base_statement,
            archived.head,
            at=format_timestamp(self._clock.now()),
            archive_sha256=archived.sha256,
            signer=self._signer,
        )

        def move_base(tx: Transaction) -> None:
            state = read_state(tx)
            if state is None or state.base != archived.base:
                raise AuditError("Somebody else is archiving at the same time. Try again.")
            remove_archived(tx, archived.head, proof)
            self._append(tx, "audit_archived", _about(archived))

        await self._database.transaction(move_base, durability=Durability.TRUST)


def raise_if_broken(report: AuditReport, *, what: str) -> None:
    """Raise `AuditBroken`, with the first problem in words, unless the examination was passed."""
    if report.first_problem is not None:
        raise AuditBroken(f"{what}: {report.first_problem.sentence} Nothing was removed.")


def _part_before(reader: Reader, moment: datetime) -> tuple[Position, Position]:
    """Rule 2: where the part that may go starts and ends."""
    state = read_state(reader)
    since = first_entry_since(reader, format_timestamp(moment))
    stored = last_checkpoint_before(reader, since)
    checkpoint = Checkpoint.read(stored.signed) if stored else None
    if state is None or checkpoint is None or checkpoint.position.seq <= state.base.seq:
        raise NothingToArchive
    return state.base, checkpoint.position


def _write_unless_there(reader: Reader, path: Path, head: Position) -> None:
    if not path.exists():
        write_new_file(path, lambda write: export_log(reader, write, up_to=head))


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _about(archived: Archived) -> dict[str, Any]:
    return {
        "file": archived.file.name,
        "sha256": archived.sha256,
        "first_seq": archived.base.seq + 1,
        "last_seq": archived.head.seq,
        "last_hash": archived.head.hash,
    }
