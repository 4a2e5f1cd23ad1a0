"""Public keys: parsed strictly, pinned, compared by fingerprint.

Two libraries can disagree on odd Ed25519 inputs. Here there is one library, the keys are pinned,
and keys of low order, for which one signature fits many messages, are refused when they are read.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from silas.approval.errors import PublicKeyInvalid
from silas.kernel import format_timestamp, parse_timestamp

_PUBLIC_KEY_LENGTH = 32
_MOST_PROVEN = 4096
# What another process was signing while the key was rotated may carry a slightly later time.
_SIGNING_TAKES = timedelta(minutes=1)
_FILE_HEADER = "# Public keys of a Silas owner: Ed25519, state, since, until. Safe to share.\n"
# The encodings of the points of small order, sign bit cleared, with the non-canonical spellings.
_LOW_ORDER = {
    bytes.fromhex(text)
    for text in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
}


@dataclass(frozen=True)
class PublicKey:
    """One key of the owner, and the time in which it was in use."""

    raw: bytes
    created_at: datetime | None = None
    retired_at: datetime | None = None

    def __post_init__(self) -> None:
        without_sign = self.raw[:-1] + bytes([self.raw[-1] & 0x7F]) if self.raw else b""
        if len(self.raw) != _PUBLIC_KEY_LENGTH or without_sign in _LOW_ORDER:
            raise PublicKeyInvalid
        object.__setattr__(self, "_key", Ed25519PublicKey.from_public_bytes(self.raw))
        object.__setattr__(self, "_proven", set())

    @classmethod
    def from_hex(cls, text: str) -> Self:
        """Read 64 hexadecimal digits."""
        try:
            return cls(bytes.fromhex(text.strip()))
        except ValueError as error:
            raise PublicKeyInvalid from error

    @property
    def key_id(self) -> str:
        """A short fingerprint that names the key in tokens, logs and on screens."""
        return f"key_{hashlib.sha256(self.raw).hexdigest()[:16]}"

    @property
    def hex(self) -> str:
        return self.raw.hex()

    def signed(self, payload: bytes, signature: bytes) -> bool:
        """Whether this key made this signature over exactly these bytes.

        What was proven once is remembered: the same tokens and checkpoints are asked about before
        every step and at every look into the log, and a right signature stays right.
        """
        key: Ed25519PublicKey = self._key  # type: ignore[attr-defined]
        proven: set[tuple[bytes, bytes]] = self._proven  # type: ignore[attr-defined]
        # Two values, not one text: a byte must not wander from the signature into the payload.
        proof = (signature, hashlib.sha256(payload).digest())
        if proof in proven:
            return True
        try:
            key.verify(signature, payload)
        except InvalidSignature:
            return False
        if len(proven) >= _MOST_PROVEN:
            proven.clear()
        proven.add(proof)
        return True

    def in_use_at(self, moment: datetime, *, late_by: timedelta = timedelta()) -> bool:
        """Whether the key had not been retired yet at that time, or only just."""
        return self.retired_at is None or moment - self.retired_at <= late_by


@dataclass(frozen=True)
class PublicKeys:
    """The pinned keys of one owner: the active one and those that were rotated out."""

    keys: tuple[PublicKey, ...]

    def find(self, key_id: str) -> PublicKey | None:
        """The pinned key with this id, or None."""
        return next((key for key in self.keys if key.key_id == key_id), None)

    def signer_of(self, payload: bytes, signature: bytes) -> PublicKey | None:
        """The pinned key that made this signature, or None."""
        for key in self.keys:
            if key.signed(payload, signature):
                return key
        return None

    def verify(self, key_id: str, payload: bytes, signature: bytes, *, at: datetime) -> bool:
        """Whether the pinned key with this id, in use at that time, made the signature."""
        key = self.find(key_id)
        if key is None or not key.in_use_at(at, late_by=_SIGNING_TAKES):
            return False
        return key.signed(payload, signature)

    def vouches(self, key_id: str, payload: bytes, signature: bytes) -> bool:
        """Whether the key with this id is the active one, and made the signature.

        For what ends with its key at once, and has no minute for whoever was just signing.
        """
        key = self.find(key_id)
        return key is not None and key.retired_at is None and key.signed(payload, signature)

    def to_text(self) -> str:
        """The content of an `owner.pub` file."""
        return _FILE_HEADER + "".join(_line(key) + "\n" for key in self.keys)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read an `owner.pub` file, or a single key in hexadecimal digits."""
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        if not lines:
            raise PublicKeyInvalid
        return cls(tuple(_parse_line(line) for line in lines))

    @classmethod
    def of(cls, keys: Iterable[PublicKey]) -> Self:
        """Pin these keys."""
        return cls(tuple(keys))


def _line(key: PublicKey) -> str:
    state = "retired" if key.retired_at else "active"
    moments = [format_timestamp(m) if m else "-" for m in (key.created_at, key.retired_at)]
    return " ".join([key.hex, state, *moments])


def _parse_line(line: str) -> PublicKey:
    fields = line.split()
    if len(fields) == 1:
        return PublicKey.from_hex(fields[0])
    if len(fields) != 4:
        raise PublicKeyInvalid
    try:
        created_at, retired_at = (
            None if text == "-" else parse_timestamp(text) for text in fields[2:]
        )
    except ValueError as error:
        raise PublicKeyInvalid from error
    raw = PublicKey.from_hex(fields[0]).raw
    return PublicKey(raw, created_at, retired_at)
