"""The checkpoints along the chain: signed, linked to each other, and borne out by the entries.

1. Every checkpoint is a canonical statement, signed by a key that is trusted, if any key is known.
2. Every checkpoint names the one before it; a gap means that one was removed.
3. The chain has, at the entry that a checkpoint speaks of, the hash that it vouches for.
"""

from collections import deque
from collections.abc import Iterator

from silas.audit.findings import Findings, entries_from_to
from silas.audit.models import ProblemKind
from silas.audit.ports import CheckpointVerifier
from silas.audit.statements import Checkpoint
from silas.audit.store import StoredCheckpoint


class CheckpointTrail:
    """Walks along with the entries and compares.

    `vouched` is the entry up to which nothing need be compared, `follows` the ids of the
    checkpoints there (None: they have been archived, and their ids with them).
    """

    def __init__(
        self,
        stored: Iterator[StoredCheckpoint],
        *,
        verifier: CheckpointVerifier | None,
        findings: Findings,
        vouched: int,
        follows: set[str | None] | None,
    ) -> None:
        self._stored = stored
        self._verifier = verifier
        self._findings = findings
        self._earlier_ids = follows
        self._ids_here: set[str | None] = set()
        self._doubtful: deque[str | None] = deque(maxlen=64)
        self._last_seq = vouched
        self.count = 0
        self.vouched = vouched
        self.key_ids: dict[str, None] = {}
        self._next: Checkpoint | None = self._read_on()

    @property
    def next_number(self) -> int | None:
        """The entry that the next checkpoint speaks of, or None after the last."""
        return self._next.position.seq if self._next else None

    def pass_by(self, number: int, digest: str | None) -> None:
        """Compare all checkpoints up to this entry, which has this hash (None: it is missing)."""
        while (checkpoint := self._next) is not None and checkpoint.position.seq <= number:
            here = digest if checkpoint.position.seq == number else None
            self._compare(checkpoint, here)
            self._next = self._read_on()

    def finish(self, last_number: int) -> None:
        """Whatever is left vouches for entries that are not there."""
        while (checkpoint := self._next) is not None:
            first, last = last_number + 1, checkpoint.position.seq
            self._findings.add(
                ProblemKind.TRUNCATED,
                first,
                f"{entries_from_to(first, last)} at the end of the log "
                f"{'is' if first == last else 'are'} missing: {_named(checkpoint)} vouches for "
                f"entry {last}.",
            )
            self._next = self._read_on()

    def _compare(self, checkpoint: Checkpoint, digest: str | None) -> None:
        number = checkpoint.position.seq
        if digest == checkpoint.position.hash:
            self.vouched = number
        elif digest is None:
            self._findings.add(
                ProblemKind.CHECKPOINT_MISMATCH,
                number,
                f"{_named(checkpoint)} vouches for entry {number}, which is not there.",
            )
        else:
            first = min(self.vouched + 1, number)
            self._findings.add(
                ProblemKind.CHECKPOINT_MISMATCH,
                first,
                f"{entries_from_to(first, number)} {'is' if first == number else 'are'} not what "
                f"{_named(checkpoint)} vouches for: the chain was rewritten.",
            )

    def _read_on(self) -> Checkpoint | None:
        """The next checkpoint that can be believed; the others are reported."""
        for stored in self._stored:
            self.count += 1
            self.key_ids[stored.signed.key_id] = None
            checkpoint = self._believed(stored)
            if checkpoint is not None:
                return checkpoint
        return None

    def _believed(self, stored: StoredCheckpoint) -> Checkpoint | None:
        checkpoint = Checkpoint.read(stored.signed)
        doubt = self._doubt(stored, checkpoint)
        if checkpoint is None or doubt is not None:
            # The one after it names it rightly: only this one is to be reported.
            self._doubtful.append(stored.checkpoint_id)
            name = f"Checkpoint {stored.checkpoint_id or 'without a name'}"
            sentence = f"{name} {doubt}."
            self._findings.add(ProblemKind.CHECKPOINT_FORGED, self._last_seq, sentence)
            return None
        self._check_link(checkpoint)
        return checkpoint

    def _doubt(self, stored: StoredCheckpoint, checkpoint: Checkpoint | None) -> str | None:
        if checkpoint is None or (checkpoint.checkpoint_id, checkpoint.position.seq) != (
            stored.checkpoint_id,
            stored.seq,
        ):
            return "is damaged: it does not say what was signed"
        if checkpoint.checkpoint_id in self._ids_here:
            return "is there twice"
        if self._verifier is not None and not stored.signed.signed_by(self._verifier):
            key_id = stored.signed.key_id
            return f"is not signed by a key that is trusted here; it names {key_id}"
        return None

    def _check_link(self, checkpoint: Checkpoint) -> None:
        if checkpoint.position.seq != self._last_seq and self._ids_here:
            self._earlier_ids, self._ids_here = self._ids_here, set()
        self._last_seq = checkpoint.position.seq
        if self._earlier_ids is not None and checkpoint.previous not in {
            *self._earlier_ids,
            *self._ids_here,
            *self._doubtful,
        }:
            self._findings.add(
                ProblemKind.CHECKPOINT_MISSING,
                checkpoint.position.seq,
                f"Checkpoint {checkpoint.previous or 'number one'} is missing: "
                f"{_named(checkpoint)} was made after it.",
            )
        self._ids_here.add(checkpoint.checkpoint_id)


def _named(checkpoint: Checkpoint) -> str:
    return f"Checkpoint {checkpoint.checkpoint_id} of {checkpoint.at}"
