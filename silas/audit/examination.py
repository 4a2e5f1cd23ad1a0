"""The examination of a chain. In order to say that a log is as it was written:

0. Its note of where it starts and ends can be read.
1. It starts at the very beginning, or where a statement signed by the owner lets it start.
2. Each entry's hash follows from the hash before it and the entry's own bytes; each entry lies at
   the place whose number it carries.
3. Each checkpoint is genuine, follows the one before it, and is borne out by the chain.
4. The chain ends where its note says.
5. The newest checkpoint that was noted outside the log is in it.

An examination may also start at a checkpoint, and then costs only what came after it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from silas.audit.chain import START, Position, StoredEntry
from silas.audit.diagnosis import WIDEST_WINDOW, diagnose, is_calm
from silas.audit.findings import Findings, entries_from_to
from silas.audit.following import Stretch, follow
from silas.audit.models import AuditReport, ProblemKind, Signatures
from silas.audit.ports import CheckpointVerifier
from silas.audit.source import ChainSource
from silas.audit.statements import Checkpoint, SignedStatement, base_in
from silas.audit.store import ChainState
from silas.audit.trail import CheckpointTrail
from silas.audit.witness import Witness, check_witness
from silas.storage import Row

LATEST = "latest"
"""In place of a checkpoint's id: the newest one."""

Progress = Callable[[int, int], None]
"""Told now and then how many entries are done, of how many; on the examining thread."""

_FIRST_NUMBER = -(2**63)
_PROGRESS_EVERY = 20_000


@dataclass(frozen=True, slots=True)
class _Start:
    """Where to begin: the base of the chain, or a checkpoint."""

    position: Position
    follows: set[str | None] | None
    checkpoint: Checkpoint | None = None


def examine_chain(
    source: ChainSource,
    *,
    from_checkpoint: str | None = None,
    verifier: CheckpointVerifier | None = None,
    witness: Witness | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Examine the whole chain, or what came after a checkpoint (an id, or `LATEST`)."""
    examination = _Examination(source, verifier, progress)
    start = examination.begin(from_checkpoint)
    if start is not None:
        examination.walk(start)
    if witness is not None:
        check_witness(witness, source, verifier=verifier, findings=examination.findings)
    return examination.report()


class _Examination:
    def __init__(
        self, source: ChainSource, verifier: CheckpointVerifier | None, progress: Progress | None
    ) -> None:
        self.findings = Findings()
        self._source = source
        self._verifier = verifier
        self._progress = progress
        self._state = source.state()
        self._start = _Start(START, {None})
        self._entries = 0
        self._last = START
        self._trail: CheckpointTrail | None = None

    def begin(self, from_checkpoint: str | None) -> _Start | None:
        """Rules 0 and 1: where to start from; None if there is no such place."""
        if self._state is None:
            self.findings.add(
                ProblemKind.STATE_MISMATCH, 0, "The log's note of its start and end was destroyed."
            )
        if from_checkpoint is None:
            return self._begin_at_base(self._state)
        wanted = None if from_checkpoint == LATEST else from_checkpoint
        stored = self._source.checkpoint(wanted) if wanted else self._source.newest_checkpoint()
        if stored is None:
            if wanted is None:
                return self._begin_at_base(self._state)
            self.findings.add(
                ProblemKind.CHECKPOINT_MISSING, 0, f"There is no checkpoint {from_checkpoint}."
            )
            return None
        return self._begin_at(stored.signed)

    def _begin_at(self, signed: SignedStatement) -> _Start | None:
        checkpoint = Checkpoint.read(signed)
        if checkpoint is None or not self._is_trusted(signed):
            name = checkpoint.checkpoint_id if checkpoint else "without a name"
            self.findings.add(
                ProblemKind.CHECKPOINT_FORGED,
                checkpoint.position.seq if checkpoint else 0,
                f"Checkpoint {name} is damaged or not signed by a key that is trusted here, "
                "so nothing can be built on it.",
            )
            return None
        return _Start(checkpoint.position, {checkpoint.checkpoint_id}, checkpoint)

    def _begin_at_base(self, state: ChainState | None) -> _Start:
        if state is None or state.base == START:
            if state is not None and state.base_proof:
                self._base_unproven("has a proof of a later start that it does not need")
            return self._without_strays(_Start(START, {None}))
        proof = SignedStatement.from_bytes(state.base_proof.encode())
        if proof is None or base_in(proof) != state.base:
            self._base_unproven(f"claims to start at entry {state.base.seq}, without a proof")
            return self._without_strays(_Start(START, {None}))
        if not self._is_trusted(proof):
            self._base_unproven(
                f"starts at entry {state.base.seq}; the permission for that is not signed by a "
                f"key that is trusted here, it names {proof.key_id}"
            )
        return self._without_strays(_Start(state.base, None))

    def _without_strays(self, start: _Start) -> _Start:
        for stray in self._source.strays(start.position.seq):
            self.findings.add(
                ProblemKind.INSERTED,
                stray,
                f"The entry at place {stray} lies before the start of the log.",
            )
        return start

    def _base_unproven(self, what: str) -> None:
        self.findings.add(ProblemKind.BASE_UNPROVEN, 0, f"The log {what}.")

    def _is_trusted(self, signed: SignedStatement) -> bool:
        return self._verifier is None or signed.signed_by(self._verifier)

    def walk(self, start: _Start) -> None:
        """Rules 2 to 4."""
        self._start = start
        base = start.position
        trail = self._trail = CheckpointTrail(
            self._source.checkpoints(base.seq + 1 if start.checkpoint else _FIRST_NUMBER),
            verifier=self._verifier,
            findings=self.findings,
            vouched=base.seq,
            follows=start.follows,
        )
        if start.follows is None and trail.next_number != base.seq:
            self.findings.add(
                ProblemKind.CHECKPOINT_MISSING,
                base.seq,
                f"The checkpoint at entry {base.seq}, where the log starts, is missing.",
            )
        trail.pass_by(base.seq, base.hash)
        self._last = self._walk_entries(base, trail)
        trail.finish(self._last.seq)
        self._check_end(self._last)

    def _walk_entries(self, base: Position, trail: CheckpointTrail) -> Position:
        rows = self._source.entries(base.seq)
        stretch = Stretch(base, base, None, None)
        offset = 0
        while True:
            stop = self._next_stop(stretch.position.seq, trail)
            reached = follow(rows, stretch, offset, stop)
            self._entries += reached.position.seq - stretch.position.seq
            trail.pass_by(reached.position.seq, reached.position.hash)
            self._tell_progress()
            if reached.odd is not None:
                stretch, offset = self._diagnose(reached, rows, trail)
            elif reached.position.seq < stop:
                return reached.position
            else:
                stretch = reached

    def _next_stop(self, number: int, trail: CheckpointTrail) -> int:
        pause = number + _PROGRESS_EVERY
        return min(pause, trail.next_number) if trail.next_number is not None else pause

    def _tell_progress(self) -> None:
        if self._progress is not None and self._state is not None:
            self._progress(self._entries, self._state.head.seq - self._start.position.seq)

    def _diagnose(
        self, reached: Stretch, rows: Iterator[Row], trail: CheckpointTrail
    ) -> tuple[Stretch, int]:
        # The last row that seemed right is looked at again: it may be what does not belong here.
        known = [StoredEntry(*row) for row in (reached.last,) if row is not None]
        window = [*known, *(StoredEntry(*row) for row in (reached.odd,) if row is not None)]
        ended = False
        while not ended and len(window) < WIDEST_WINDOW and not is_calm(window[len(known) :]):
            row = next(rows, None)
            ended = row is None
            if row is not None:
                window.append(StoredEntry(*row))
        self._entries += len(window) - len(known)
        before = reached.before if known else reached.position
        end = self._state.head if ended and self._state else None
        resumption = diagnose(window, before, end=end, findings=self.findings)
        for number in sorted(resumption.hashes):
            trail.pass_by(number, resumption.hashes[number])
        return Stretch(resumption.position, before, None, None), resumption.offset

    def _check_end(self, last: Position) -> None:
        if self._state is None:
            return
        head = self._state.head
        if last.seq < head.seq:
            first = last.seq + 1
            self.findings.add(
                ProblemKind.TRUNCATED,
                first,
                f"{entries_from_to(first, head.seq)} at the end of the log "
                f"{'is' if first == head.seq else 'are'} missing.",
            )
        elif last.seq > head.seq:
            first = head.seq + 1
            self.findings.add(
                ProblemKind.INSERTED,
                first,
                f"{entries_from_to(first, last.seq)} {'lies' if first == last.seq else 'lie'} "
                "behind the end of the log.",
            )
        elif last.hash != head.hash:
            self.findings.add(
                ProblemKind.STATE_MISMATCH,
                head.seq,
                f"The log's note of its end has another hash for entry {head.seq}.",
            )

    def report(self) -> AuditReport:
        key_ids = dict(self._trail.key_ids) if self._trail else {}
        count = self._trail.count if self._trail else 0
        if self._start.checkpoint is not None:
            key_ids = {self._start.checkpoint.signed.key_id: None, **key_ids}
            count += 1
        signed = Signatures.CHECKED if self._verifier else Signatures.NO_PUBLIC_KEY
        return AuditReport(
            ok=self.findings.count == 0,
            entries=self._entries,
            start_seq=self._start.position.seq,
            head_seq=self._last.seq,
            head_hash=self._last.hash,
            checkpoints=count,
            vouched_seq=self._trail.vouched if self._trail else 0,
            signatures=signed if count else Signatures.NO_CHECKPOINT,
            key_ids=tuple(key_ids),
            problems=self.findings.in_order(),
            problem_count=self.findings.count,
        )
