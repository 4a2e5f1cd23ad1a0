"""The examination of a chain. In order to say that a log is as it was written:

0. Its note of where it starts and ends can be read.
1. It starts at the very beginning, or where a statement signed by the owner lets it start.
2. Each entry's hash follows from the hash before it and the entry's own bytes; each entry lies at
   the place whose number it carries. As long as nothing is odd, `follow` does this at full speed.
3. Each checkpoint along the chain (`CheckpointTrail`)
   a. is a canonical statement, signed by a key that is trusted, if any key is known;
   b. names the one before it: a gap means that one was removed;
   c. vouches for the hash that the chain has at the entry of which it speaks.
4. The chain ends where its note says.
5. The newest checkpoint that was noted outside the log is in it.

An examination may also start at a checkpoint, and then costs only what came after it.

The note of rule 5 is the *witness*: a copy of the newest checkpoint in a file beside the database.
Whoever replaces the database by an older copy, or removes its newest checkpoints, would have to
think of this file as well. It is written after the checkpoint is in the database, so an interrupted
run leaves it older, never newer. An owner who wants more keeps copies of it on another machine.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from silas.audit.diagnosis import WIDEST_WINDOW, diagnose, is_calm
from silas.audit.errors import AuditFileNotWritten
from silas.audit.models import (
    START,
    AuditReport,
    ChainPosition,
    Checkpoint,
    Findings,
    ProblemKind,
    Signatures,
    SignatureVerifier,
    SignedStatement,
    StoredEntry,
    base_in,
    entries_from_to,
)
from silas.audit.store import ChainSource, ChainState, StoredCheckpoint
from silas.storage import Row
from silas.storage.files import write_private_file

_LONGEST = 64 * 1024


@dataclass(frozen=True, slots=True)
class Witness:
    """What the witness file holds; None if there is none."""

    content: bytes | None


def read_witness(path: Path) -> Witness:
    """What is in the file, whatever it is."""
    try:
        with path.open("rb") as file:
            return Witness(file.read(_LONGEST))
    except FileNotFoundError:
        return Witness(None)
    except OSError:
        return Witness(b"")


async def write_witness(path: Path, checkpoint: Checkpoint) -> None:
    """Let the file hold this checkpoint; a crash leaves the old one or the new one."""
    await asyncio.to_thread(_write, path, checkpoint)


def _write(path: Path, checkpoint: Checkpoint) -> None:
    try:
        write_private_file(path, _content(checkpoint))
    except OSError as error:
        raise AuditFileNotWritten(
            f"The checkpoint was made, but its witness {path} could not be written: "
            f"{error.strerror}. Make room for it, and run the command again."
        ) from error


def check_witness(
    witness: Witness,
    source: ChainSource,
    *,
    verifier: SignatureVerifier | None,
    findings: Findings,
) -> None:
    """The newest checkpoint that was noted outside the log is in the log."""
    if witness.content is None:
        _check_absence(source, findings)
        return
    noted = _checkpoint_in(witness)
    stored = source.checkpoint(noted.checkpoint_id) if noted else None
    if noted is not None and stored is not None and stored.signed == noted.signed:
        return  # its signature is checked where it lies in the log
    if noted is None or (verifier is not None and not noted.signed.signed_by(verifier)):
        findings.add(
            ProblemKind.WITNESS_DAMAGED,
            0,
            "The witness file is damaged, or not signed by a key that is trusted here.",
        )
        return
    if stored is None or stored.signed.body != noted.signed.body:
        _report_absence(noted, source, findings)


def _check_absence(source: ChainSource, findings: Findings) -> None:
    newest = source.newest_checkpoint()
    checkpoint = Checkpoint.read(newest.signed) if newest else None
    # A run that was killed after its very first checkpoint has not written the file yet.
    if checkpoint is not None and checkpoint.previous is not None:
        findings.add(
            ProblemKind.WITNESS_DAMAGED,
            checkpoint.position.seq,
            "The witness file, which holds a copy of the newest checkpoint, is missing.",
        )


def _report_absence(noted: Checkpoint, source: ChainSource, findings: Findings) -> None:
    state = source.state()
    number = noted.position.seq
    if state is not None and number < state.base.seq:
        return  # archived: the start of the log is vouched for by a statement of its own
    if state is not None and number > state.head.seq:
        findings.add(
            ProblemKind.TRUNCATED,
            state.head.seq + 1,
            f"The log ends at entry {state.head.seq}, but the witness file vouches for entry "
            f"{number} (on {noted.at}): an older copy of the log was put in its place.",
        )
    else:
        findings.add(
            ProblemKind.CHECKPOINT_MISSING,
            number,
            f"Checkpoint {noted.checkpoint_id} of {noted.at}, which the witness file holds, is "
            "not in the log.",
        )


def holds(witness: Witness, checkpoint: Checkpoint) -> bool:
    """Whether the file holds exactly this checkpoint."""
    return witness.content == _content(checkpoint)


def _content(checkpoint: Checkpoint) -> bytes:
    return checkpoint.signed.to_bytes() + b"\n"


def _checkpoint_in(witness: Witness) -> Checkpoint | None:
    content = witness.content or b""
    signed = SignedStatement.from_bytes(content[:-1]) if content.endswith(b"\n") else None
    return Checkpoint.read(signed) if signed else None


_BEYOND = 2**63
"""Behind every entry."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """How far the chain could be followed, and the row that ended it, if one did."""

    position: ChainPosition
    before: ChainPosition
    last: Row | None
    odd: Row | None


def follow(rows: Iterator[Row], start: Stretch, offset: int, stop: int) -> Stretch:
    """Rule 2 at full speed: follow the chain to `stop`, to its end, or to the first odd row."""
    sha256 = hashlib.sha256
    number, digest = start.position.seq, _raw(start.position.hash)
    earlier, last, odd = _raw(start.before.hash), start.last, None
    for row in rows:
        place, body, stored = row
        following = sha256(digest + body.encode()).digest()
        if (
            following.hex() != stored
            or place != number + 1 - offset
            or not body.endswith(f',"seq":{number + 1}}}')
        ):
            odd = row
            break
        number += 1
        earlier, digest, last = digest, following, row
        if number == stop:
            break
    return Stretch(
        ChainPosition(number, digest.hex()), ChainPosition(number - 1, earlier.hex()), last, odd
    )


def follow_to_end(source: ChainSource, start: ChainPosition) -> ChainPosition | None:
    """Rules 2 and 4 from a place that was examined; None if anything behind it is odd.

    Checkpoints behind that place are not looked at: whoever calls this knows that there are none.
    """
    state = source.state()
    if state is None:
        return None
    reached = follow(source.entries(start.seq), Stretch(start, start, None, None), 0, _BEYOND)
    return reached.position if reached.odd is None and reached.position == state.head else None


def _raw(digest: str) -> bytes:
    try:
        return bytes.fromhex(digest)
    except ValueError:
        return b""  # a destroyed hash was reported already; nothing can follow from it


class CheckpointTrail:
    """Walks along with the entries and compares.

    `vouched` is the entry up to which nothing need be compared, `follows` the ids of the
    checkpoints there (None: they have been archived, and their ids with them).
    """

    def __init__(
        self,
        stored: Iterator[StoredCheckpoint],
        *,
        verifier: SignatureVerifier | None,
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


LATEST = "latest"
"""In place of a checkpoint's id: the newest one."""

Progress = Callable[[int, int], None]
"""JournalReply now and then how many entries are done, of how many; on the examining thread."""

_FIRST_NUMBER = -(2**63)
_PROGRESS_EVERY = 20_000


@dataclass(frozen=True, slots=True)
class _Start:
    """Where to begin: the base of the chain, or a checkpoint."""

    position: ChainPosition
    follows: set[str | None] | None
    checkpoint: Checkpoint | None = None


def examine_chain(
    source: ChainSource,
    *,
    from_checkpoint: str | None = None,
    verifier: SignatureVerifier | None = None,
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
        self, source: ChainSource, verifier: SignatureVerifier | None, progress: Progress | None
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

    def _walk_entries(self, base: ChainPosition, trail: CheckpointTrail) -> ChainPosition:
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

    def _check_end(self, last: ChainPosition) -> None:
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
