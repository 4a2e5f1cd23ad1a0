"""A log, or the old part of one, in a file of JSON lines; and such a file examined on any machine.

The format needs the public key alone to be checked:

1. The first line is the header: format, start (with the owner's permission, if it is not the very
   beginning), end, how many checkpoints there are, and the ids of the keys that signed them.
2. Then come the entries, `{"entry":…,"hash":"…"}`, with the stored bytes in place of the dots. They
   are cut out again as they are; nothing is parsed to be verified.
3. Then come the checkpoints, each a signed statement.
4. Every line ends with a line feed. No byte is without a meaning: each change is found.

Retention (`Archiver`) moves the old part of the log to such a file, and both parts stay provable:

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
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from silas.audit.errors import (
    AuditBroken,
    AuditFileExists,
    AuditFileInvalid,
    AuditFileNotWritten,
    AuditStateDamaged,
    NothingToArchive,
)
from silas.audit.examination import Progress, Witness, examine_chain
from silas.audit.models import (
    AuditProblem,
    AuditReport,
    ChainPosition,
    Checkpoint,
    OwnerKey,
    ProblemKind,
    SignatureVerifier,
    SignedStatement,
    base_statement,
)
from silas.audit.store import (
    ChainState,
    DatabaseSource,
    StoredCheckpoint,
    first_entry_since,
    last_checkpoint_before,
    read_state,
    remove_archived,
)
from silas.kernel import (
    AuditError,
    CanonicalError,
    Clock,
    canonical_bytes,
    format_timestamp,
    strict_loads,
)
from silas.storage import Database, Durability, Reader, Row, Transaction
from silas.storage.files import PRIVATE_FILE, sync_directory

FILE_FORMAT = "silas-audit-export-v1"
LONGEST_LINE = 1 << 20

_ENTRY = re.compile(rb'{"entry":(.*),"hash":"([0-9a-f]{64})"}\n', re.DOTALL)
_DAMAGED = b'{"damaged_entry":'
_CHECKPOINT = b'{"key_id":'


@dataclass(frozen=True, slots=True)
class Header:
    """What the first line says."""

    state: ChainState
    checkpoints: int
    key_ids: tuple[str, ...]


def header_line(header: Header) -> bytes:
    """The first line of a file."""
    state = header.state
    fields = {
        "format": FILE_FORMAT,
        "base": {"seq": state.base.seq, "hash": state.base.hash},
        "base_proof": state.base_proof,
        "head": {"seq": state.head.seq, "hash": state.head.hash},
        "checkpoints": header.checkpoints,
        "key_ids": list(header.key_ids),
    }
    return canonical_bytes(fields) + b"\n"


def read_header(line: bytes) -> Header:
    """What `header_line` wrote; raises `AuditFileInvalid` for anything else."""
    try:
        fields = strict_loads(line)
        if fields["format"] != FILE_FORMAT:
            raise AuditFileInvalid
        state = ChainState(
            _position(fields["base"]), fields["base_proof"], _position(fields["head"])
        )
        header = Header(state, fields["checkpoints"], tuple(fields["key_ids"]))
        if not all(type(text) is str for text in (state.base_proof, *header.key_ids)):
            raise AuditFileInvalid
        if type(header.checkpoints) is not int:
            raise AuditFileInvalid
        # Written again it must be the same bytes, or it holds something that we did not look at.
        if header_line(header) != line:
            raise AuditFileInvalid
    except (CanonicalError, KeyError, TypeError, AttributeError) as error:
        raise AuditFileInvalid from error
    return header


def _position(fields: dict[str, Any]) -> ChainPosition:
    if type(fields["seq"]) is not int or type(fields["hash"]) is not str:
        raise AuditFileInvalid
    return ChainPosition(fields["seq"], fields["hash"])


def entry_line(body: str, digest: str) -> bytes:
    """The line of an entry; one that is no entry any more is kept as a text, as evidence."""
    line = b'{"entry":%b,"hash":"%b"}\n' % (body.encode(), digest.encode())
    if "\n" in body or not _ENTRY.fullmatch(line):
        return canonical_bytes({"damaged_entry": body, "hash": digest}) + b"\n"
    return line


def read_entry(line: bytes) -> tuple[str, str] | None:
    """Body and hash in an entry's line; empty texts if it was destroyed; None for a checkpoint."""
    match = _ENTRY.fullmatch(line)
    try:
        if match:
            return match[1].decode(), match[2].decode()
        if line.startswith(_DAMAGED):
            fields = strict_loads(line)
            return str(fields["damaged_entry"]), str(fields["hash"])
    except (CanonicalError, UnicodeDecodeError, KeyError, TypeError):
        return "", ""
    return None if line.startswith(_CHECKPOINT) else ("", "")


def checkpoint_line(signed: SignedStatement) -> bytes:
    """The line of a checkpoint."""
    return signed.to_bytes() + b"\n"


def read_checkpoint(line: bytes) -> SignedStatement | None:
    """The checkpoint in a line, or None."""
    return SignedStatement.from_bytes(line[:-1]) if line.endswith(b"\n") else None


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


Write = Callable[[bytes], object]

_PROGRESS_EVERY = 20_000


def export_log(
    reader: Reader,
    write: Write,
    *,
    up_to: ChainPosition | None = None,
    progress: Progress | None = None,
) -> ChainState:
    """Write the log, or the part of it that ends at `up_to`; returns where it starts and ends."""
    source = DatabaseSource(reader)
    state = source.state()
    if state is None:
        raise AuditStateDamaged
    if up_to is not None:
        state = replace(state, head=up_to)
    write(header_line(_header(source, state)))
    for seq, body, digest in source.entries(state.base.seq):
        if up_to is not None and seq > up_to.seq:
            break
        write(entry_line(body, digest))
        if progress is not None and seq % _PROGRESS_EVERY == 0:
            progress(seq - state.base.seq, state.head.seq - state.base.seq)
    for checkpoint in source.checkpoints(state.base.seq):
        if checkpoint.seq <= state.head.seq:
            write(checkpoint_line(checkpoint.signed))
    return state


def _header(source: DatabaseSource, state: ChainState) -> Header:
    count, key_ids = 0, dict[str, None]()
    for checkpoint in source.checkpoints(state.base.seq):
        if checkpoint.seq <= state.head.seq:
            count += 1
            key_ids[checkpoint.signed.key_id] = None
    return Header(state, count, tuple(key_ids))


def examine_file(
    path: Path,
    *,
    verifier: SignatureVerifier | None = None,
    witness: Witness | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Examine an exported file, which needs nothing but itself and the public key."""
    source = FileSource(path)
    report = examine_chain(source, verifier=verifier, witness=witness, progress=progress)
    if (report.checkpoints, report.key_ids) == (source.header.checkpoints, source.header.key_ids):
        return report
    problem = AuditProblem(
        kind=ProblemKind.STATE_MISMATCH,
        seq=0,
        sentence="The header speaks of other checkpoints than there are.",
    )
    return replace(
        report,
        ok=False,
        problems=(problem, *report.problems),
        problem_count=report.problem_count + 1,
    )


def ends_of(path: Path) -> tuple[ChainPosition, ChainPosition]:
    """Where the log in a file starts and ends, by its header."""
    state = FileSource(path).header.state
    return state.base, state.head


def write_new_file(path: Path, fill: Callable[[Write], object]) -> str:
    """Create a file that only its owner may read, whole or not at all; returns its sha256."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(6)}.partial")
    digest = hashlib.sha256()
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        with os.fdopen(os.open(partial, flags, PRIVATE_FILE), "wb") as file:

            def write(piece: bytes) -> None:
                digest.update(piece)
                file.write(piece)

            fill(write)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise AuditFileNotWritten(
            f"{path} could not be written: {error.strerror}. Nothing was removed: choose another "
            "place and try again."
        ) from error
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return digest.hexdigest()


AppendEntry = Callable[[Transaction, str, Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class Archived:
    """What an archiving has done."""

    file: Path
    sha256: str
    base: ChainPosition
    head: ChainPosition


class Archiver:
    """Moves the old part of the log to a file."""

    def __init__(
        self,
        database: Database,
        signer: OwnerKey,
        *,
        verifier: SignatureVerifier | None,
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

    def _check_file(self, path: Path, base: ChainPosition, head: ChainPosition) -> None:
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


def _part_before(reader: Reader, moment: datetime) -> tuple[ChainPosition, ChainPosition]:
    """Rule 2: where the part that may go starts and ends."""
    state = read_state(reader)
    since = first_entry_since(reader, format_timestamp(moment))
    stored = last_checkpoint_before(reader, since)
    checkpoint = Checkpoint.read(stored.signed) if stored else None
    if state is None or checkpoint is None or checkpoint.position.seq <= state.base.seq:
        raise NothingToArchive
    return state.base, checkpoint.position


def _write_unless_there(reader: Reader, path: Path, head: ChainPosition) -> None:
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
