"""The audit log: what happened, in a chain that cannot be changed without being found out.

1. `log` and `append` never fail because of what they are given; they fail if the disk does.
2. An entry is on the disk when `log` returns. Concurrent callers share one commit, and those that
   come while it is being written share the next (`DraftBatcher`).
3. `append` writes inside somebody else's transaction, so that an act and its entry happen together
   or not at all. Run that transaction with `Durability.TRUST`.
4. Several processes may write. The end of the chain is read inside the transaction.
5. With a signer, a checkpoint is made every `checkpoint_every` entries: the owner's key vouches for
   the chain up to its present end. A chain that does not hold since the last checkpoint is not
   signed.

What the checkpoints prove (`proven_entries`): what the log says since a moment, for those who
decide by it, not for those who look.

6. The chain is examined from the last checkpoint that was signed before that moment to its end,
   with every checkpoint in between and with the witness. So what was vouched for once cannot have
   been changed, moved or taken out since, whatever the rows say.
7. What was written after the last checkpoint is held by the chain alone. Whoever writes something
   that others will rely on writes a checkpoint right behind it.
8. A row that somebody has added cannot be told from a genuine one before it is vouched for. So an
   entry may only ever forbid something.
9. If the log itself was replaced since that moment (a backup came back, the witness file showed
   another log), nothing is known about the time between: that is an error, and not "nothing".
10. Whoever then adds entries and has them vouched for hands on how far the log was examined
   (`ExaminedLog`). The checkpoint signs the hash that follows from there, so that it vouches for
   exactly what was examined and what was added. If the newest checkpoint, the witness or the end is
   not what it must be then, the log is examined anew.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from silas.audit.drafts import Draft, Drafter, KnownSecretsPort
from silas.audit.errors import AuditBroken, AuditNotSigned, AuditStateDamaged, CheckpointNotWritten
from silas.audit.examination import (
    LATEST,
    Progress,
    Witness,
    check_witness,
    examine_chain,
    follow_to_end,
    holds,
    read_witness,
    write_witness,
)
from silas.audit.export import (
    Archived,
    Archiver,
    Write,
    examine_file,
    export_log,
    raise_if_broken,
    write_new_file,
)
from silas.audit.models import (
    START,
    AuditEntry,
    AuditReport,
    ChainPosition,
    Checkpoint,
    ExaminedLog,
    Findings,
    OwnerKey,
    Proven,
    SignatureVerifier,
)
from silas.audit.store import (
    ChainSource,
    ChainState,
    DatabaseSource,
    StoredCheckpoint,
    append_drafts,
    entry_from,
    has_entry,
    insert_checkpoint,
    last_checkpoint_until,
    newest_checkpoint,
    newest_entries,
    read_state,
)
from silas.kernel import Clock, IdFactory, canonical_bytes, format_timestamp
from silas.storage import Database, DatabaseConstraint, Durability, Reader, Row, Transaction

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class _View:
    """What a checkpoint is made from."""

    newest: Checkpoint | None
    head: ChainPosition
    is_noted: bool
    """Whether the witness file holds the newest checkpoint."""
    witness_problem: str | None

    @property
    def unvouched(self) -> int:
        return self.head.seq - (self.newest.position.seq if self.newest else 0)


class CheckpointWriter:
    """Makes checkpoints, one at a time.

    What came since the last checkpoint is examined first: a chain that does not hold is not signed.
    `record_problem` is told what the witness file showed before it is written anew, and answers
    with the id of an entry, which the new checkpoint then vouches for.
    """

    def __init__(
        self,
        database: Database,
        signer: OwnerKey,
        *,
        verifier: SignatureVerifier | None,
        clock: Clock,
        ids: IdFactory,
        witness: Path | None,
        record_problem: Callable[[str], Awaitable[str]],
    ) -> None:
        self._database = database
        self._signer = signer
        self._verifier = verifier
        self._clock = clock
        self._ids = ids
        self._witness = witness
        self._record_problem = record_problem
        self._one_at_a_time = asyncio.Lock()

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being made just now."""
        return self._one_at_a_time.locked()

    async def write(
        self, *, unless_fewer_than: int = 0, examined: ExaminedLog | None = None
    ) -> Checkpoint:
        """Vouch for the chain as it is now; returns the newest checkpoint.

        That is the one that is there already if it speaks of the present end, or if fewer entries
        than given have come since. With `examined`, only what came since is examined (rule 10).
        """
        async with self._one_at_a_time:
            recorded: str | None = None
            for _ in range(_ATTEMPTS):
                view = await self._database.snapshot(partial(self._look, recorded, examined))
                if view.witness_problem is not None and recorded is None:
                    recorded = await self._record_problem(view.witness_problem)
                    continue
                # A run that was killed may have left the file behind by one, never by more.
                if view.newest is not None and not view.is_noted:
                    await self._note(view.newest)
                if view.newest is not None and view.unvouched <= max(0, unless_fewer_than - 1):
                    return view.newest
                # Reaching the key may mean asking the system's keyring.
                checkpoint = await asyncio.to_thread(self._make, view)
                if await self._insert(checkpoint):
                    await self._note(checkpoint)
                    return checkpoint
            raise CheckpointNotWritten

    def _look(self, recorded: str | None, examined: ExaminedLog | None, reader: Reader) -> _View:
        # Before the first look at the database: what the file vouches for by now is in every view
        # of the log that begins later. The other way round, a checkpoint that another process has
        # just made would look like one that was taken out of the log.
        witness = read_witness(self._witness) if self._witness is not None else None
        source = DatabaseSource(reader)
        if examined is not None and recorded is None:
            extended = _extended(source, examined, witness)
            if extended is not None:
                return extended
        report = examine_chain(source, from_checkpoint=LATEST, verifier=self._verifier)
        if report.first_problem is not None:
            raise AuditBroken(
                f"No checkpoint is made of a log that was tampered with. "
                f"{report.first_problem.sentence} Run `silas audit verify`.",
            )
        stored = newest_checkpoint(reader)
        if recorded is not None and not has_entry(reader, recorded, after=report.start_seq):
            raise AuditBroken("What the witness file showed was taken out of the log again.")
        newest = Checkpoint.read(stored.signed) if stored else None
        head = ChainPosition(report.head_seq, report.head_hash)
        if witness is None:
            return _View(newest, head, is_noted=True, witness_problem=None)
        findings = Findings()
        check_witness(witness, source, verifier=self._verifier, findings=findings)
        return _View(
            newest,
            head,
            is_noted=newest is not None and holds(witness, newest),
            witness_problem=next((found.sentence for found in findings.in_order()), None),
        )

    def _make(self, view: _View) -> Checkpoint:
        return Checkpoint.make(
            self._ids.new("ckp"),
            view.head,
            at=format_timestamp(self._clock.now()),
            previous=view.newest.checkpoint_id if view.newest else None,
            signer=self._signer,
        )

    async def _insert(self, checkpoint: Checkpoint) -> bool:
        return await self._database.transaction(
            lambda tx: insert_checkpoint(tx, checkpoint), durability=Durability.TRUST
        )

    async def _note(self, checkpoint: Checkpoint) -> None:
        if self._witness is not None:
            await write_witness(self._witness, checkpoint)


def _extended(
    source: DatabaseSource, examined: ExaminedLog, witness: Witness | None
) -> _View | None:
    """The view that an examination leads to by what came since (rule 10); None if it does not."""
    stored = source.newest_checkpoint()
    newest = Checkpoint.read(stored.signed) if stored else None
    if newest is None or newest.signed.to_bytes() != examined.newest_checkpoint:
        return None
    if witness is not None and not holds(witness, newest):
        return None
    head = follow_to_end(source, examined.position)
    return _View(newest, head, is_noted=True, witness_problem=None) if head else None


WITNESS_PROBLEM = "audit_witness_problem"
_REPLACED = (WITNESS_PROBLEM, "backup_restored")


class _MatchingSource(DatabaseSource):
    """The chain in the database; of what is examined, it keeps what may be of interest."""

    def __init__(self, reader: Reader, about: str) -> None:
        super().__init__(reader)
        self._about = canonical_bytes(about).decode()[1:-1]
        self.matching: list[Row] = []

    def entries(self, after: int) -> Iterator[Row]:
        about, (one, other) = self._about, _REPLACED
        for row in super().entries(after):
            body = row[1]
            if about in body or one in body or other in body:
                self.matching.append(row)
            yield row


def proven_entries(
    reader: Reader,
    since: datetime,
    *,
    events: Collection[str],
    about: str,
    verifier: SignatureVerifier,
    witness: Path,
) -> Proven:
    """The entries of these events that hold this text; raises `AuditBroken`.

    A few that are older than `since` may be among them.
    """
    noted = read_witness(witness)  # before the first look at the database, see rule 6
    source = _MatchingSource(reader, about)
    begin = _beginning(source, last_checkpoint_until(reader, format_timestamp(since)), verifier)
    name = begin.checkpoint_id if begin else None
    report = examine_chain(source, from_checkpoint=name, verifier=verifier, witness=noted)
    if report.first_problem is not None:
        raise AuditBroken(
            "The audit log is not as it was written, so nothing can be decided by it. "
            f"{report.first_problem.sentence} Run `silas audit verify`."
        )
    if report.start_seq != (begin.position.seq if begin else 0):
        raise AuditBroken("A checkpoint of the audit log lies under another name.")
    entries = [entry_from(seq, body) for seq, body, _ in source.matching]
    if any(entry.event in _REPLACED for entry in entries):
        raise AuditBroken(
            "The audit log was replaced by another one since. What was approved before is void."
        )
    wanted = [entry for entry in entries if entry.event in events]
    position = ChainPosition(report.head_seq, report.head_hash)
    return Proven(wanted, _examined(source, begin, position))


def _examined(
    source: ChainSource, begin: Checkpoint | None, position: ChainPosition
) -> ExaminedLog | None:
    """How far the log was examined, if its newest checkpoint was examined with it (rule 10)."""
    stored = source.newest_checkpoint()
    newest = Checkpoint.read(stored.signed) if stored else None
    if newest is None or begin is None:
        return None
    # Beside the one at which the examination began there may lie others at the same entry.
    with_it = newest.position.seq > begin.position.seq or newest.signed == begin.signed
    return ExaminedLog(position, newest.signed.to_bytes()) if with_it else None


def _beginning(
    source: ChainSource, stored: StoredCheckpoint | None, verifier: SignatureVerifier
) -> Checkpoint | None:
    """The checkpoint to begin at; None for the beginning of the log, if that is still there."""
    begin = Checkpoint.read(stored.signed) if stored else None
    if begin is not None and not begin.signed.signed_by(verifier):
        raise AuditBroken("A checkpoint of the audit log is not signed by a key of the owner's.")
    state = source.state()
    if begin is None and (state is None or state.base != START):
        raise AuditBroken("The audit log does not reach back that far: its old part was archived.")
    return begin


Waiting = tuple[Draft, "asyncio.Future[ChainPosition | None]"]


class DraftBatcher:
    """Hands drafts on in batches: those that came while the batch before was being written."""

    def __init__(self, write: Callable[[list[Draft]], Awaitable[ChainPosition]]) -> None:
        self._write = write
        self._waiting: list[Waiting] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, draft: Draft) -> "asyncio.Future[ChainPosition | None]":
        """To be awaited: it is done when the draft has been written, or raises why it was not.

        One of those who wait for a batch, the last, is told where the log now ends.
        """
        loop = asyncio.get_running_loop()
        written: asyncio.Future[ChainPosition | None] = loop.create_future()
        self._waiting.append((draft, written))
        if self._task is None:
            # A task of its own: a caller that is cancelled must not take the others with it.
            self._task = loop.create_task(self._serve())
        return written

    async def _serve(self) -> None:
        batch: list[Waiting] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._serve_one(batch)
                # Those who have just been told often come back at once: one turn of the loop later
                # they are in the next batch, and do not wait for one of their own.
                await asyncio.sleep(0)
        finally:
            # Reached with something left only if the event loop is shutting down.
            self._task = None
            for _, written in batch + self._waiting:
                written.cancel()
            self._waiting = []

    async def _serve_one(self, batch: list[Waiting]) -> None:
        error: Exception | None = None
        head: ChainPosition | None = None
        try:
            head = await self._write([draft for draft, _ in batch])
        except Exception as caught:  # noqa: BLE001 - it is raised again in those who wait
            error = caught
        for _, written in reversed(batch):
            if written.done():
                continue
            if error is not None:
                written.set_exception(error)
            else:
                written.set_result(head)
                head = None


CHECKPOINT_EVERY = 1024


class AuditLog:
    """Append-only, hash-chained, redacted.

    `known_secrets` gives the values that must never be written down; it is called for every entry,
    from any thread. Without a `signer` there are no checkpoints; without a `verifier` their
    signatures are not checked. `witness` is the file that holds a copy of the newest checkpoint.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        ids: IdFactory,
        signer: OwnerKey | None = None,
        verifier: SignatureVerifier | None = None,
        witness: Path | None = None,
        known_secrets: KnownSecretsPort | None = None,
        checkpoint_every: int = CHECKPOINT_EVERY,
    ) -> None:
        self._database = database
        self._verifier = verifier
        self._witness = witness
        self._drafter = Drafter(clock=clock, ids=ids, known_secrets=known_secrets)
        self._batcher = DraftBatcher(self._write)
        self._checkpoint_every = checkpoint_every
        self._vouched = 0
        self._checkpoints: CheckpointWriter | None = None
        self._archiver: Archiver | None = None
        if signer is not None:
            self._checkpoints = CheckpointWriter(
                database,
                signer,
                verifier=verifier,
                clock=clock,
                ids=ids,
                witness=witness,
                record_problem=lambda sentence: self._append(
                    WITNESS_PROBLEM, {"problem": sentence}
                ),
            )
            self._archiver = Archiver(
                database, signer, verifier=verifier, clock=clock, append=self.append
            )

    async def log(self, event: str, /, **data: Any) -> str:
        """Record that something happened; returns the entry's id once it is on the disk."""
        draft = self._drafter.draft(event, data)
        head = await self._batcher.add(draft)
        if head is not None:
            await self._after_writing(head)
        return draft.entry_id

    def append(self, tx: Transaction, event: str, data: Mapping[str, Any]) -> str:
        """Record it as part of this transaction; returns the entry's id.

        Whoever only ever writes in this way calls `checkpoint_if_due` now and then.
        """
        draft = self._drafter.draft(event, data)
        append_drafts(tx, [draft])
        return draft.entry_id

    async def write_checkpoint(self, examined: ExaminedLog | None = None) -> str:
        """Have the owner's key vouch for the chain as it is; returns the checkpoint's id.

        With what `proven_since` has examined, only what came since is examined.
        """
        if self._checkpoints is None:
            raise AuditNotSigned
        return (await self._checkpoints.write(examined=examined)).checkpoint_id

    async def checkpoint_if_due(self) -> str | None:
        """Write a checkpoint if enough entries have come since the last one; returns its id."""
        state = await self._database.snapshot(read_state)
        if state is None or not self._may_be_due(state.head) or self._checkpoints is None:
            return None
        checkpoint = await self._checkpoints.write(unless_fewer_than=self._checkpoint_every)
        self._vouched = checkpoint.position.seq
        return checkpoint.checkpoint_id if self._vouched >= state.head.seq else None

    async def verify_chain(self) -> tuple[bool, int]:
        """Whether all of the log is as it was written, and how many entries were hashed."""
        report = await self.examine()
        return report.ok, report.entries

    async def verify_from_checkpoint(self, checkpoint_id: str | None = None) -> tuple[bool, int]:
        """The same for what came after a checkpoint: the latest, or the one with this id."""
        report = await self.examine(from_checkpoint=checkpoint_id or LATEST)
        return report.ok, report.entries

    async def examine(
        self,
        *,
        from_checkpoint: str | None = None,
        verifier: SignatureVerifier | None = None,
        witness: Path | None = None,
        progress: Progress | None = None,
    ) -> AuditReport:
        """Examine all of the log, or what came after a checkpoint (an id, or `LATEST`).

        `verifier` and `witness` (a copy that was kept elsewhere, say) take the place of those that
        the log was made with. `progress` is called on another thread.
        """
        noted = witness or self._witness
        return await self._database.snapshot(
            lambda reader: examine_chain(
                DatabaseSource(reader),
                from_checkpoint=from_checkpoint,
                verifier=verifier or self._verifier,
                witness=read_witness(noted) if noted else None,
                progress=progress,
            )
        )

    async def proven_since(
        self, moment: datetime, events: Collection[str], *, about: str
    ) -> Proven:
        """The entries of these events since then that hold this text, oldest first.

        Raises `AuditBroken` if it cannot be proven that there are no others, and `AuditNotSigned`
        without anything to prove it with. See rules 6 to 10 for what they may be used for.
        """
        verifier, witness = self._verifier, self._witness
        if verifier is None or witness is None:
            raise AuditNotSigned
        return await self._database.snapshot(
            lambda reader: proven_entries(
                reader, moment, events=events, about=about, verifier=verifier, witness=witness
            )
        )

    async def tail(
        self, count: int, *, event: str = "*", since: datetime | None = None, after: int = 0
    ) -> list[AuditEntry]:
        """The last entries, oldest first, whose event matches the pattern (`approval_*`)."""
        return await self._database.snapshot(
            lambda reader: newest_entries(reader, count, event=event, since=since, after=after)
        )

    async def export(self, write: Write, *, progress: Progress | None = None) -> ChainState:
        """Write all of the log as JSON lines; `write` is called on another thread."""
        return await self._database.snapshot(
            lambda reader: export_log(reader, write, progress=progress)
        )

    async def export_file(self, path: Path, *, progress: Progress | None = None) -> AuditReport:
        """Write all of the log to a file, and examine what was written."""
        await self._database.snapshot(
            lambda reader: write_new_file(
                path, lambda write: export_log(reader, write, progress=progress)
            )
        )
        return await asyncio.to_thread(examine_file, path, verifier=self._verifier)

    async def archive(
        self, path: Path, *, before: datetime, progress: Progress | None = None
    ) -> Archived:
        """Move what is older than `before` to a file; the rest of the log starts behind it."""
        if self._archiver is None:
            raise AuditNotSigned
        raise_if_broken(await self.examine(progress=progress), what="The audit log")
        archived = await self._archiver.archive(path, before=before)
        await self.write_checkpoint()
        return archived

    async def _write(self, drafts: list[Draft]) -> ChainPosition:
        try:
            return await self._database.transaction(
                lambda tx: append_drafts(tx, drafts), durability=Durability.TRUST
            )
        except DatabaseConstraint as error:
            raise AuditStateDamaged from error

    async def _after_writing(self, head: ChainPosition) -> None:
        """One of many callers sees to the checkpoint; the others need not wait for it."""
        if self._checkpoints is None or self._checkpoints.busy or not self._may_be_due(head):
            return
        try:
            checkpoint = await self._checkpoints.write(unless_fewer_than=self._checkpoint_every)
            self._vouched = checkpoint.position.seq
        except Exception as error:  # noqa: BLE001 - the entries are written; that must be said
            self._vouched = head.seq  # try again after as many entries, not after every one
            await self._append("audit_checkpoint_failed", {"error": error})

    def _may_be_due(self, head: ChainPosition) -> bool:
        """By what is remembered; other processes write checkpoints as well."""
        return head.seq - self._vouched >= self._checkpoint_every

    async def _append(self, event: str, data: Mapping[str, Any]) -> str:
        return await self._database.transaction(
            lambda tx: self.append(tx, event, data), durability=Durability.TRUST
        )
