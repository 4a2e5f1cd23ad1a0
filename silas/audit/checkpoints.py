"""Checkpoints: the owner's key vouches for the chain up to its present end."""

import asyncio
from pathlib import Path

from silas.audit.chain import Position
from silas.audit.errors import AuditBroken, CheckpointNotWritten
from silas.audit.examination import LATEST, examine_chain
from silas.audit.findings import Findings
from silas.audit.ports import CheckpointSigner, CheckpointVerifier
from silas.audit.source import DatabaseSource
from silas.audit.statements import Checkpoint
from silas.audit.store import insert_checkpoint, newest_checkpoint
from silas.audit.witness import check_witness, read_witness, write_witness
from silas.kernel import Clock, IdFactory, format_timestamp
from silas.storage import Database, Durability, Reader

_ATTEMPTS = 20


class CheckpointWriter:
    """Makes checkpoints, one at a time."""

    def __init__(
        self,
        database: Database,
        signer: CheckpointSigner,
        *,
        verifier: CheckpointVerifier | None,
        clock: Clock,
        ids: IdFactory,
        witness: Path | None,
    ) -> None:
        self._database = database
        self._signer = signer
        self._verifier = verifier
        self._clock = clock
        self._ids = ids
        self._witness = witness
        self._one_at_a_time = asyncio.Lock()

    async def newest(self) -> Position | None:
        """What the newest checkpoint vouches for; None if there is none that can be read."""
        stored = await self._database.snapshot(newest_checkpoint)
        checkpoint = Checkpoint.read(stored.signed) if stored else None
        return checkpoint.position if checkpoint else None

    async def write(self) -> str:
        """Vouch for the chain as it is now; returns the checkpoint's id.

        What came since the last checkpoint is examined first: a chain that does not hold is not
        signed. If the newest checkpoint speaks of the present end already, it is that one.
        """
        async with self._one_at_a_time:
            for _ in range(_ATTEMPTS):
                newest, head = await self._database.snapshot(self._examine)
                if newest is not None and newest.position == head:
                    checkpoint = newest
                    break
                # Reaching the key may mean asking the system's keyring.
                checkpoint = await asyncio.to_thread(self._make, head, newest)
                if await self._insert(checkpoint):
                    break
            else:
                raise CheckpointNotWritten
            if self._witness is not None:
                await write_witness(self._witness, checkpoint)
            return checkpoint.checkpoint_id

    async def witness_problem(self) -> str | None:
        """What is wrong with the witness file, in words, before it is written anew."""
        witness = self._witness
        if witness is None:
            return None

        def look(reader: Reader) -> Findings:
            findings = Findings()
            source = DatabaseSource(reader)
            check_witness(read_witness(witness), source, verifier=self._verifier, findings=findings)
            return findings

        problems = (await self._database.snapshot(look)).in_order()
        return problems[0].sentence if problems else None

    def _examine(self, reader: Reader) -> tuple[Checkpoint | None, Position]:
        source = DatabaseSource(reader)
        report = examine_chain(source, from_checkpoint=LATEST, verifier=self._verifier)
        if report.first_problem is not None:
            raise AuditBroken(
                f"No checkpoint is made of a log that was tampered with. "
                f"{report.first_problem.sentence} Run `silas audit verify --full`.",
            )
        stored = newest_checkpoint(reader)
        newest = Checkpoint.read(stored.signed) if stored else None
        return newest, Position(report.head_seq, report.head_hash)

    def _make(self, head: Position, newest: Checkpoint | None) -> Checkpoint:
        return Checkpoint.make(
            self._ids.new("ckp"),
            head,
            at=format_timestamp(self._clock.now()),
            previous=newest.checkpoint_id if newest else None,
            signer=self._signer,
        )

    async def _insert(self, checkpoint: Checkpoint) -> bool:
        return await self._database.transaction(
            lambda tx: insert_checkpoint(tx, checkpoint), durability=Durability.TRUST
        )
