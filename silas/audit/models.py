"""What an audit log consists of, what people and programs learn about it, and its ports.

The hash chain: every hash covers an entry's bytes and, through the hash before it, all the past.

1. The body of an entry is the canonical JSON of `at`, `data`, `entry_id`, `event` and `seq`. Keys
   are sorted, so `seq` comes last and can be filled in when the entry gets its place.
2. hash(n) = sha256(hash(n - 1) as 32 bytes || body(n) as UTF-8), kept as 64 small hex digits.
3. hash(0), where nothing has been written yet, is the hash of a fixed text that names this format.
4. To verify, the stored bytes are hashed. Nothing is ever parsed and written again for it.

Plain records: a command that only reads the log must not wait for a validating library to load.

The ports say how others write to the log and read it, and whose key vouches for it; everything that
acts lies above the log. `AuditLog` is the `AuditTrail` that ships; `silas.testing.RecordingAudit`
keeps a list. The owner's `KeyManager` is the `OwnerKey`; a set of public keys alone, as whoever
verifies elsewhere has it, is a `SignatureVerifier`.

Signed statements speak about the chain: checkpoints, and where it starts after archiving. A
statement is canonical JSON with a `format` of its own, so that no signature made for one purpose
can serve another. Its bytes are kept as they were signed.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, Self

from silas.kernel import CanonicalError, canonical_bytes, parse_timestamp, strict_loads
from silas.storage import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One thing that happened."""

    seq: int
    entry_id: str
    at: str
    event: str
    data: dict[str, Any]


class ProblemKind(StrEnum):
    """What is wrong with a place in the log."""

    CHANGED = "changed"
    UNPROVEN = "unproven"
    REMOVED = "removed"
    INSERTED = "inserted"
    REORDERED = "reordered"
    TRUNCATED = "truncated"
    CHECKPOINT_MISSING = "checkpoint_missing"
    CHECKPOINT_FORGED = "checkpoint_forged"
    CHECKPOINT_MISMATCH = "checkpoint_mismatch"
    WITNESS_DAMAGED = "witness_damaged"
    BASE_UNPROVEN = "base_unproven"
    STATE_MISMATCH = "state_mismatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditProblem:
    """One thing that is wrong, with the number of the first entry that it concerns."""

    kind: ProblemKind
    seq: int
    sentence: str


class Signatures(StrEnum):
    """What can be said about the signatures of the checkpoints."""

    CHECKED = "checked"
    NO_CHECKPOINT = "no checkpoint"
    NO_PUBLIC_KEY = "no public key"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What an examination of the log has found."""

    ok: bool
    entries: int
    """How many entries were hashed."""
    start_seq: int
    """The last entry before the first one that was hashed: 0, the base, or a checkpoint."""
    head_seq: int
    head_hash: str
    checkpoints: int
    vouched_seq: int
    """The last entry that a checkpoint vouches for; what follows is held by the chain alone."""
    signatures: Signatures
    key_ids: tuple[str, ...]
    """The keys that the checkpoints name as theirs."""
    problems: tuple[AuditProblem, ...]
    """The first of them, in the order of the entries."""
    problem_count: int

    @property
    def first_problem(self) -> AuditProblem | None:
        """What to look at first."""
        return self.problems[0] if self.problems else None


_MOST_KEPT = 200


class Findings:
    """Keeps the first problems and counts them all, so that memory stays flat."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[AuditProblem] = []

    def add(self, kind: ProblemKind, seq: int, sentence: str) -> None:
        """Something is wrong at this entry."""
        self.count += 1
        if len(self._kept) < _MOST_KEPT:
            self._kept.append(AuditProblem(kind=kind, seq=seq, sentence=sentence))

    def in_order(self) -> tuple[AuditProblem, ...]:
        """What was kept, in the order of the entries."""
        return tuple(sorted(self._kept, key=lambda problem: problem.seq))


def entries_from_to(first: int, last: int) -> str:
    """The words "Entry 5" or "Entries 5 to 7"."""
    return f"Entry {first}" if first == last else f"Entries {first} to {last}"


GENESIS = hashlib.sha256(b"silas-audit-chain-v1").hexdigest()

_SEQ_AT_THE_END = re.compile(rb',"seq":([1-9][0-9]{0,18})}\Z')


@dataclass(frozen=True, slots=True)
class ChainPosition:
    """A place in the chain: the number of an entry, and the hash there."""

    seq: int
    hash: str


START = ChainPosition(0, GENESIS)


@dataclass(frozen=True, slots=True)
class ExaminedLog:
    """How far the log was examined, and which signed checkpoint was its newest then."""

    position: ChainPosition
    newest_checkpoint: bytes


@dataclass(frozen=True, slots=True)
class Proven:
    """What the log says about something, and the examination that proves it."""

    entries: list[AuditEntry]
    examined: ExaminedLog | None
    """None if the next checkpoint has to examine the log anew."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as it lies in the table or in a file."""

    seq: int
    body: str
    hash: str


def link(previous: str, body: str) -> str:
    """The hash of an entry that follows an entry with the hash `previous`."""
    return hashlib.sha256(bytes.fromhex(previous) + body.encode()).hexdigest()


def number_in(body: bytes) -> int | None:
    """The number that an entry gives itself, or None if it has lost its end."""
    match = _SEQ_AT_THE_END.search(body)
    return int(match[1]) if match else None


class AuditTrail(Protocol):
    """Where everything that happens leaves its trace."""

    def append(self, tx: Transaction, event: str, data: Mapping[str, Any]) -> str:
        """Add an entry to the chain as part of this transaction; returns its id."""
        ...

    async def log(self, event: str, /, **data: Any) -> str:
        """Add an entry by itself; returns its id once it is on the disk."""
        ...

    async def write_checkpoint(self, examined: ExaminedLog | None = None) -> str:
        """Have the owner's key vouch for the log as it is; returns the checkpoint's id.

        `examined` comes from `proven_since`: only what came since is then examined.
        """
        ...

    async def proven_since(
        self, moment: datetime, events: Collection[str], *, about: str
    ) -> Proven:
        """All entries of these events since then that hold this text; raises `AuditError`."""
        ...

    async def tail(
        self, count: int, *, event: str = "*", since: datetime | None = None, after: int = 0
    ) -> list[AuditEntry]:
        """The last entries, oldest first, whose event matches the pattern (`approval_*`)."""
        ...


class SignatureVerifier(Protocol):
    """The owner's public keys."""

    def verify(self, key_id: str, payload: bytes, signature: bytes, *, at: datetime) -> bool:
        """Whether this key, which was the owner's at that time, made this signature."""
        ...


class OwnerKey(SignatureVerifier, Protocol):
    """The owner's signing key, usable but not readable."""

    def sign(self, payload: bytes) -> tuple[str, bytes]:
        """The id of the active key, and its Ed25519 signature over the payload."""
        ...

    def vouches(self, key_id: str, payload: bytes, signature: bytes) -> bool:
        """Whether the key that is active now made this signature."""
        ...

    def is_active(self, key_id: str) -> bool:
        """Whether this is the key that is active now."""
        ...


CHECKPOINT_FORMAT = "silas-audit-checkpoint-v1"
BASE_FORMAT = "silas-audit-base-v1"


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """Canonical bytes, the key that signed them, and the signature in base64."""

    body: str
    key_id: str
    signature: str

    @classmethod
    def sign(cls, content: Mapping[str, Any], signer: OwnerKey) -> Self:
        """Have the owner's key sign this content."""
        body = canonical_bytes(content)
        key_id, signature = signer.sign(body)
        return cls(body.decode(), key_id, base64.b64encode(signature).decode())

    def signed_by(self, verifier: SignatureVerifier) -> bool:
        """Whether a key that the verifier trusts, for the time it names, made the signature."""
        try:
            signature = base64.b64decode(self.signature, validate=True)
        except (binascii.Error, ValueError):
            return False
        # Base64 has several spellings of one value; only the one that we write is ours.
        if base64.b64encode(signature).decode() != self.signature:
            return False
        at = self._moment()
        return at is not None and verifier.verify(self.key_id, self.body.encode(), signature, at=at)

    def _moment(self) -> datetime | None:
        try:
            return parse_timestamp(strict_loads(self.body)["at"])
        except (CanonicalError, KeyError, TypeError, ValueError):
            return None

    def content(self, **kinds: type | tuple[type, ...]) -> dict[str, Any] | None:
        """What it says, if it is canonical and has exactly these fields of these kinds."""
        try:
            content = strict_loads(self.body)
            canonical = isinstance(content, dict) and canonical_bytes(content) == self.body.encode()
        except (CanonicalError, UnicodeEncodeError):
            return None
        if not canonical or set(content) != set(kinds):
            return None
        fits = all(
            isinstance(content[name], kind) and not isinstance(content[name], bool)
            for name, kind in kinds.items()
        )
        return content if fits else None

    def to_bytes(self) -> bytes:
        """The statement as one line of a file."""
        return canonical_bytes(
            {"key_id": self.key_id, "signature": self.signature, "statement": self.body}
        )

    @classmethod
    def from_bytes(cls, line: bytes) -> Self | None:
        """Read what `to_bytes` wrote; None for anything else."""
        try:
            fields = strict_loads(line)
            statement = cls(fields["statement"], fields["key_id"], fields["signature"])
            return statement if statement.to_bytes() == line else None
        except (CanonicalError, KeyError, TypeError):
            return None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The owner's signed word that, at this time, the chain had this hash at this entry."""

    checkpoint_id: str
    at: str
    position: ChainPosition
    previous: str | None
    signed: SignedStatement

    @classmethod
    def make(
        cls,
        checkpoint_id: str,
        position: ChainPosition,
        *,
        at: str,
        previous: str | None,
        signer: OwnerKey,
    ) -> Self:
        """State where the chain is, and sign it."""
        content = {
            "format": CHECKPOINT_FORMAT,
            "checkpoint_id": checkpoint_id,
            "at": at,
            "seq": position.seq,
            "hash": position.hash,
            "previous": previous,
        }
        signed = SignedStatement.sign(content, signer)
        return cls(checkpoint_id, at, position, previous, signed)

    @classmethod
    def read(cls, signed: SignedStatement) -> Self | None:
        """The checkpoint in a signed statement; None if it is not one."""
        fields = signed.content(
            format=str,
            checkpoint_id=str,
            at=str,
            seq=int,
            hash=str,
            previous=(str, type(None)),
        )
        if fields is None or fields["format"] != CHECKPOINT_FORMAT:
            return None
        position = ChainPosition(fields["seq"], fields["hash"])
        return cls(fields["checkpoint_id"], fields["at"], position, fields["previous"], signed)


def base_statement(
    position: ChainPosition, *, at: str, archive_sha256: str, signer: OwnerKey
) -> SignedStatement:
    """State that what was written up to here lies in that archive, and sign it."""
    content = {
        "format": BASE_FORMAT,
        "at": at,
        "seq": position.seq,
        "hash": position.hash,
        "archive_sha256": archive_sha256,
    }
    return SignedStatement.sign(content, signer)


def base_in(signed: SignedStatement) -> ChainPosition | None:
    """Where a base statement lets the chain start; None if it is not one."""
    fields = signed.content(format=str, at=str, seq=int, hash=str, archive_sha256=str)
    if fields is None or fields["format"] != BASE_FORMAT:
        return None
    return ChainPosition(fields["seq"], fields["hash"])
