"""The audit log: what happened, in a chain that cannot be changed without being found out.

1. `log` and `append` never fail because of what they are given; they fail if the disk does.
2. An entry is on the disk when `log` returns. Concurrent callers share one commit.
3. `append` writes inside somebody else's transaction, so that an act and its entry happen together
   or not at all. Run that transaction with `Durability.TRUST`.
4. Several processes may write. The end of the chain is read inside the transaction.
5. With a signer, a checkpoint is made every `checkpoint_every` entries. A chain that does not hold
   since the last checkpoint is not signed.
"""

import asyncio
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from silas.audit.archive import Archived, Archiver, raise_if_broken
from silas.audit.batching import DraftBatcher
from silas.audit.chain import Position
from silas.audit.checkpoints import CheckpointWriter
from silas.audit.drafts import Draft, Drafter, KnownSecretsPort
from silas.audit.errors import AuditNotSigned, AuditStateDamaged
from silas.audit.examination import LATEST, Progress, examine_chain
from silas.audit.export import Write, examine_file, export_log, write_new_file
from silas.audit.models import AuditEntry, AuditReport
from silas.audit.ports import CheckpointSigner, CheckpointVerifier
from silas.audit.proving import WITNESS_PROBLEM, proven_entries
from silas.audit.reading import newest_entries
from silas.audit.source import DatabaseSource
from silas.audit.store import ChainState, append_drafts, read_state
from silas.audit.witness import read_witness
from silas.kernel import Clock, IdFactory
from silas.storage import Database, DatabaseConstraint, Durability, Transaction

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
        signer: CheckpointSigner | None = None,
        verifier: CheckpointVerifier | None = None,
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

    async def write_checkpoint(self) -> str:
        """Have the owner's key vouch for the chain as it is; returns the checkpoint's id."""
        if self._checkpoints is None:
            raise AuditNotSigned
        return (await self._checkpoints.write()).checkpoint_id

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
        verifier: CheckpointVerifier | None = None,
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
    ) -> list[AuditEntry]:
        """The entries of these events since then that hold this text, oldest first.

        Raises `AuditBroken` if it cannot be proven that there are no others, and `AuditNotSigned`
        without anything to prove it with. See `proving.py` for what they may be used for.
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

    async def _write(self, drafts: list[Draft]) -> Position:
        try:
            return await self._database.transaction(
                lambda tx: append_drafts(tx, drafts), durability=Durability.TRUST
            )
        except DatabaseConstraint as error:
            raise AuditStateDamaged from error

    async def _after_writing(self, head: Position) -> None:
        """One of many callers sees to the checkpoint; the others need not wait for it."""
        if self._checkpoints is None or self._checkpoints.busy or not self._may_be_due(head):
            return
        try:
            checkpoint = await self._checkpoints.write(unless_fewer_than=self._checkpoint_every)
            self._vouched = checkpoint.position.seq
        except Exception as error:  # noqa: BLE001 - the entries are written; that must be said
            self._vouched = head.seq  # try again after as many entries, not after every one
            await self._append("audit_checkpoint_failed", {"error": error})

    def _may_be_due(self, head: Position) -> bool:
        """By what is remembered; other processes write checkpoints as well."""
        return head.seq - self._vouched >= self._checkpoint_every

    async def _append(self, event: str, data: Mapping[str, Any]) -> str:
        return await self._database.transaction(
            lambda tx: self.append(tx, event, data), durability=Durability.TRUST
        )
