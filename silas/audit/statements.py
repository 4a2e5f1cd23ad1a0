"""Signed statements about the chain: checkpoints, and where it starts after archiving.

A statement is canonical JSON with a `format` of its own, so that no signature made for one purpose
can serve another. Its bytes are kept as they were signed.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from silas.audit.chain import Position
from silas.audit.ports import CheckpointSigner, CheckpointVerifier
from silas.kernel import CanonicalError, canonical_bytes, parse_timestamp, strict_loads

CHECKPOINT_FORMAT = "silas-audit-checkpoint-v1"
BASE_FORMAT = "silas-audit-base-v1"


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """Canonical bytes, the key that signed them, and the signature in base64."""

    body: str
    key_id: str
    signature: str

    @classmethod
    def sign(cls, content: Mapping[str, Any], signer: CheckpointSigner) -> Self:
        """Have the owner's key sign this content."""
        body = canonical_bytes(content)
        key_id, signature = signer.sign(body)
        return cls(body.decode(), key_id, base64.b64encode(signature).decode())

    def signed_by(self, verifier: CheckpointVerifier) -> bool:
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
    position: Position
    previous: str | None
    signed: SignedStatement

    @classmethod
    def make(
        cls,
        checkpoint_id: str,
        position: Position,
        *,
        at: str,
        previous: str | None,
        signer: CheckpointSigner,
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
        said = signed.content(
            format=str,
            checkpoint_id=str,
            at=str,
            seq=int,
            hash=str,
            previous=(str, type(None)),
        )
        if said is None or said["format"] != CHECKPOINT_FORMAT:
            return None
        position = Position(said["seq"], said["hash"])
        return cls(said["checkpoint_id"], said["at"], position, said["previous"], signed)


def base_statement(
    position: Position, *, at: str, archive_sha256: str, signer: CheckpointSigner
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


def base_in(signed: SignedStatement) -> Position | None:
    """Where a base statement lets the chain start; None if it is not one."""
    said = signed.content(format=str, at=str, seq=int, hash=str, archive_sha256=str)
    if said is None or said["format"] != BASE_FORMAT:
        return None
    return Position(said["seq"], said["hash"])
