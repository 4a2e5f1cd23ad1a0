"""Checkpoints: the owner's key vouches for the chain up to its present end."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from silas.audit.chain import Position
from silas.audit.errors import AuditBroken, CheckpointNotWritten
from silas.audit.examination import LATEST, examine_chain
from silas.audit.findings import Findings
from silas.audit.ports import CheckpointSigner, CheckpointVerifier
from silas.audit.source import DatabaseSource
from silas.audit.statements import Checkpoint
from silas.audit.store import has_entry, insert_checkpoint, newest_checkpoint
from silas.audit.witness import check_witness, holds, read_witness, write_witness
from silas.kernel import Clock, IdFactory, format_timestamp
from silas.storage import Database, Durability, Reader

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class _View:
    """What a checkpoint is made from."""

    newest: Checkpoint | None
    head: Position
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
        signer: CheckpointSigner,
        *,
        verifier: CheckpointVerifier | None,
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

    async def write(self, *, unless_fewer_than: int = 0) -> Checkpoint:
        """Vouch for the chain as it is now; returns the newest checkpoint.

        That is the one that is there already if it speaks of the present end, or if fewer entries
        than given have come since.
        """
        async with self._one_at_a_time:
            recorded: str | None = None
            for _ in range(_ATTEMPTS):
                view = await self._database.snapshot(partial(self._look, recorded))
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

    def _look(self, recorded: str | None, reader: Reader) -> _View:
        # Before the first look at the database: what the file vouches for by now is in every view
        # of the log that begins later. The other way round, a checkpoint that another process has
        # just made would look like one that was taken out of the log.
        witness = read_witness(self._witness) if self._witness is not None else None
        source = DatabaseSource(reader)
        report = examine_chain(source, from_checkpoint=LATEST, verifier=self._verifier)
        if report.first_problem is not None:
            raise AuditBroken(
                f"No checkpoint is made of a log that was tampered with. "
                f"{report.first_problem.sentence} Run `silas audit verify --full`.",
            )
        stored = newest_checkpoint(reader)
        if recorded is not None and not has_entry(reader, recorded, after=report.start_seq):
            raise AuditBroken("What the witness file showed was taken out of the log again.")
        newest = Checkpoint.read(stored.signed) if stored else None
        head = Position(report.head_seq, report.head_hash)
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
