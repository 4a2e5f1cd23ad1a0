"""The owner's signing key: created once, kept in the vault, rotated without losing the past.

1. The private key exists in the vault and nowhere else. It is read for one signature and dropped.
2. The vault entry also holds the public keys of the past. It is the anchor: whoever can write the
   database alone can neither add a key nor bring a retired one back.
3. Rotation destroys the old private key. Its public key stays, so old tokens stay verifiable, but
   only for what was signed while it was in use.
4. Public keys are parsed strictly, pinned, and compared by fingerprint. Two libraries can disagree
   on odd Ed25519 inputs; here there is one, and keys of low order, for which one signature fits
   many messages, are refused when they are read.
5. What was revoked or has ended is in the vault too (`RevokedList`, `EndedNames`): neither a
   changed row nor an old backup brings it back.

Seals: the owner's key signs what a row says, and whoever reads the row verifies it.

6. What is signed is the canonical form of the row's fields and of their kind, so that the seal of
   one kind of row is none of another. Fields without a canonical form cannot be sealed.
7. A row whose seal does not hold was written or changed by somebody else. What that means is said
   where the row is read: it is no device, no question, no receipt.
8. A seal holds at a time (`holds`): by a key of the owner's that was in use then. What ends
   with the owner's key, such as a device, is asked about with `holds_now`: by the active key alone.
9. A signature that is not one is no signature: it verifies nothing, and raises nothing.
10. A row that is read again and again is asked about once (`ProvenRows`): as long as it is the
   same, letter for letter, and the key that sealed it is the active one.
"""

import base64
import hashlib
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from silas.approval.errors import (
    DeviceUnknown,
    NoOwnerKey,
    OwnerKeyDamaged,
    OwnerKeyExists,
    PublicKeyInvalid,
)
from silas.audit.models import OwnerKey
from silas.kernel import (
    ApprovalError,
    CanonicalError,
    Clock,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
    strict_loads,
)
from silas.secrets.errors import VaultLocked
from silas.secrets.vault import Vault

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


_ENDED_FORMAT = "silas-ended-until-v1"
_ENDED_BY_NAME = "silas-ended-by-name-v1"
_ENDING = threading.Lock()


@dataclass(frozen=True)
class RevokedList:
    """The ids of one kind that are no longer trusted, and never will be again."""

    vault: Vault
    ref_id: str
    kind: str
    """What they are, such as `devices`; part of the format."""

    def ids(self) -> frozenset[str]:
        """All of them; raises `DeviceUnknown` if the list cannot be read: then none is trusted."""
        stored = self.vault.get(self.ref_id)
        if stored is None:
            return frozenset()
        try:
            document = strict_loads(stored)
            if document["format"] == self._format:
                return frozenset(document[self.kind])
        except (CanonicalError, KeyError, TypeError):
            pass
        raise DeviceUnknown(
            f"The list of revoked {self.kind} cannot be read. None of them is trusted."
        )

    def add(self, name: str) -> None:
        """From now on, not this one."""
        # As below: two that are revoked at once, each in a thread.
        with _ENDING:
            gone = sorted({*self.ids(), name})
            self.vault.set(self.ref_id, canonical_bytes({"format": self._format, self.kind: gone}))

    @property
    def _format(self) -> str:
        return f"silas-revoked-{self.kind}-v1"


EVERYTHING = "*"
"""The name under which everything of one kind has ended."""


@dataclass(frozen=True)
class EndedNames:
    """Until when what was approved under a name is not in force any more; never taken back.

    Approvals of this kind run out by themselves within `lifetime`: what ended before that is
    forgotten.
    """

    vault: Vault
    ref_id: str
    clock: Clock
    lifetime: timedelta = timedelta(days=200)

    def until(self, name: str) -> datetime | None:
        """The moment up to which approvals of this name have ended; None if none has."""
        known = self._read()
        found = [known[each] for each in (name, EVERYTHING) if each in known]
        return max(found) if found else None

    def covers(self, name: str, issued_at: datetime) -> bool:
        """Whether an approval of that time has ended."""
        until = self.until(name)
        return until is not None and issued_at <= until

    def end(self, names: Iterable[str], moment: datetime) -> None:
        """From now on nothing of these names up to this moment is in force."""
        # Two that end something at once, each in a thread, must not forget each other's.
        with _ENDING:
            known = self._read()
            for name in names:
                known[name] = max(moment, known.get(name, moment))
            oldest = self.clock.now() - self.lifetime
            until = {name: format_timestamp(at) for name, at in known.items() if at > oldest}
            self.vault.set(self.ref_id, canonical_bytes({"format": _ENDED_BY_NAME, "until": until}))

    def _read(self) -> dict[str, datetime]:
        stored = self.vault.get(self.ref_id)
        if stored is None:
            return {}
        try:
            document = strict_loads(stored)
            if document["format"] == _ENDED_BY_NAME:
                return {str(n): parse_timestamp(at) for n, at in document["until"].items()}
            if document["format"] == _ENDED_FORMAT:  # older: one moment for everything
                return {EVERYTHING: parse_timestamp(document["until"])}
        except (CanonicalError, KeyError, TypeError, ValueError, AttributeError):
            pass
        return {EVERYTHING: datetime.max.replace(tzinfo=UTC)}  # unreadable: everything has ended


OWNER_KEYS_REF = "silas/owner-keys"
WITHDRAWN_REF = "silas/withdrawn-approvals"
ENDED_REF = "silas/ended-permissions"
_FOR_EVER = timedelta(days=36_500)
_FORMAT = "silas-owner-keys-v1"
_ROTATION_FORMAT = "silas-key-rotation-v1"


class KeyManager:
    """Signs with the owner's key and knows which public keys are the owner's."""

    def __init__(self, vault: Vault, *, clock: Clock) -> None:
        self._vault = vault
        self._clock = clock
        self._lock = threading.Lock()
        self._public: PublicKeys | None = None

    @property
    def public(self) -> PublicKeys:
        """The owner's public keys, the active one first."""
        if self._public is None:
            self._public = _public_keys(self._load())
        return self._public

    def reload(self) -> None:
        """Forget what was read: another process has rotated the key."""
        self._public = None

    def exists(self) -> bool:
        """Whether this vault holds an owner key."""
        return self._vault.get(OWNER_KEYS_REF) is not None

    def generate_keypair(self) -> str:
        """Create the owner's key; returns the public key in hexadecimal digits."""
        with self._lock:
            if self.exists():
                raise OwnerKeyExists
            private = Ed25519PrivateKey.generate()
            self._save([_record(private, created_at=self._clock.now())])
        return self.public.keys[0].hex

    @property
    def withdrawn(self) -> RevokedList:
        """What the owner has taken back before its time, of what is in force for long."""
        return RevokedList(self._vault, WITHDRAWN_REF, "approvals")

    @property
    def ended(self) -> EndedNames:
        """What the owner has narrowed or taken back of what holds without an end."""
        return EndedNames(self._vault, ENDED_REF, self._clock, _FOR_EVER)

    def sign(self, payload: bytes) -> tuple[str, bytes]:
        """Sign with the active key; returns the key's id and the signature."""
        active = self._load()[0]
        private = _private_key(active)
        return self._id_of(private), private.sign(payload)

    def verify(self, key_id: str, payload: bytes, signature: bytes, *, at: datetime) -> bool:
        """Whether this key, which was the owner's at that time, made this signature."""
        return self.public.verify(key_id, payload, signature, at=at)

    def vouches(self, key_id: str, payload: bytes, signature: bytes) -> bool:
        """Whether the key that is active now made this signature."""
        return self.public.vouches(key_id, payload, signature)

    def is_active(self, key_id: str) -> bool:
        """Whether this is the key that is active now."""
        key = self.public.find(key_id)
        return key is not None and key.retired_at is None

    def rotate(self) -> dict[str, str]:
        """Replace the active key; returns the old key's endorsement of the new one."""
        with self._lock:
            records = self._load()
            old = _private_key(records[0])
            new = Ed25519PrivateKey.generate()
            now = self._clock.now()
            statement = {
                "format": _ROTATION_FORMAT,
                "at": format_timestamp(now),
                "old_key_id": self._id_of(old),
                "new_key_id": self._id_of(new),
                "new_public_key": new.public_key().public_bytes_raw().hex(),
            }
            retired = {k: v for k, v in records[0].items() if k != "seed"}
            retired["retired_at"] = format_timestamp(now)
            self._save([_record(new, created_at=now), retired, *records[1:]])
            self.reload()
        return {**statement, "endorsement": old.sign(canonical_bytes(statement)).hex()}

    def _load(self) -> list[dict[str, Any]]:
        stored = self._vault.get(OWNER_KEYS_REF)
        if stored is None:
            raise NoOwnerKey
        try:
            document = strict_loads(stored)
            if document["format"] != _FORMAT:
                raise OwnerKeyDamaged
            keys: list[dict[str, Any]] = document["keys"]
            _public_keys(keys)
            _private_key(keys[0])
        except (ValueError, KeyError, TypeError, IndexError, ApprovalError) as error:
            raise OwnerKeyDamaged from error
        return keys

    def _save(self, records: list[dict[str, Any]]) -> None:
        self._vault.set(OWNER_KEYS_REF, canonical_bytes({"format": _FORMAT, "keys": records}))

    @staticmethod
    def _id_of(private: Ed25519PrivateKey) -> str:
        return PublicKey(private.public_key().public_bytes_raw()).key_id


class OwnerKeys:
    """The owner's public keys for checking the audit log: the vault's, if it can be opened.

    `owner.pub` is a copy in the same directory as the log, so it proves less; but a log must be
    readable also while the vault is locked.
    """

    def __init__(self, keys: KeyManager, *, published: Path) -> None:
        self._keys = keys
        self._published = published
        self._locked = False

    @property
    def public(self) -> PublicKeys:
        if not self._locked:
            try:
                return self._keys.public
            except VaultLocked:
                self._locked = True  # and nobody is asked again
        return self._from_file

    @cached_property
    def _from_file(self) -> PublicKeys:
        path = self._published
        return PublicKeys.from_text(path.read_text("utf-8")) if path.exists() else PublicKeys(())

    def verify(self, key_id: str, payload: bytes, signature: bytes, *, at: datetime) -> bool:
        """Whether this key, which was the owner's at that time, made this signature."""
        return self.public.verify(key_id, payload, signature, at=at)


def _record(private: Ed25519PrivateKey, *, created_at: datetime) -> dict[str, Any]:
    return {
        "public_key": private.public_key().public_bytes_raw().hex(),
        "seed": base64.b64encode(private.private_bytes_raw()).decode(),
        "created_at": format_timestamp(created_at),
        "retired_at": None,
    }


def _private_key(record: dict[str, Any]) -> Ed25519PrivateKey:
    private = Ed25519PrivateKey.from_private_bytes(base64.b64decode(record["seed"], validate=True))
    if private.public_key().public_bytes_raw().hex() != record["public_key"]:
        raise OwnerKeyDamaged
    return private


def _public_keys(records: list[dict[str, Any]]) -> PublicKeys:
    return PublicKeys.of(
        PublicKey(
            bytes.fromhex(record["public_key"]),
            parse_timestamp(record["created_at"]),
            parse_timestamp(record["retired_at"]) if record["retired_at"] else None,
        )
        for record in records
    )


_HEX_SIGNATURE_LENGTH = 128
"""How long a signature is in hexadecimal digits, as older rows have it; in base64 it is shorter."""

_MOST_ROWS = 4096


class Seal(NamedTuple):
    """A seal as a row keeps it; None where there is none."""

    key_id: str | None
    signature: str | None


@dataclass(frozen=True)
class Seals:
    """Seals of one owner's key."""

    keys: OwnerKey

    def sign(self, kind: str, fields: Mapping[str, Any]) -> Seal:
        """The seal of these fields (rule 6); reads the vault, so not for the event loop."""
        key_id, signature = self.keys.sign(sealed_bytes(kind, fields))
        return Seal(key_id, encode_signature(signature))

    def holds(self, seal: Seal, kind: str, fields: Mapping[str, Any], *, at: datetime) -> bool:
        """Whether a key of the owner's, in use at that time, has sealed these fields."""
        payload, signature = _payload(kind, fields), decode_signature(seal.signature)
        if not payload or not signature or seal.key_id is None:
            return False
        return self.keys.verify(seal.key_id, payload, signature, at=at)

    def holds_now(self, seal: Seal, kind: str, fields: Mapping[str, Any]) -> bool:
        """Whether the active key has sealed these fields (rule 8)."""
        payload, signature = _payload(kind, fields), decode_signature(seal.signature)
        if not payload or not signature or seal.key_id is None:
            return False
        return self.keys.vouches(seal.key_id, payload, signature)


class ProvenRows:
    """Remembers rows whose seal held, in this process (rule 10)."""

    def __init__(self, keys: OwnerKey) -> None:
        self._keys = keys
        self._rows: set[Hashable] = set()

    def holds(self, row: Hashable, seal: Seal, ask: Callable[[], bool]) -> bool:
        """Whether the seal of this row holds; `ask` is called unless that is known.

        The row has everything in it that is sealed, and the seal.
        """
        lasting = seal.key_id is not None and self._keys.is_active(seal.key_id)
        if lasting and row in self._rows:
            return True
        if not ask():
            return False
        if lasting:
            if len(self._rows) >= _MOST_ROWS:
                self._rows.clear()
            self._rows.add(row)
        return True


def sealed_bytes(kind: str, fields: Mapping[str, Any]) -> bytes:
    """What is signed (rule 6); raises `CanonicalError`."""
    # Devices and passkeys were sealed first, and named their kind so.
    label = "format" if kind.startswith("silas-") else "type"
    return canonical_bytes({label: kind, **fields})


def encode_signature(signature: bytes) -> str:
    """A signature as rows keep it."""
    return base64.b64encode(signature).decode()


def decode_signature(text: object) -> bytes:
    """A signature from a row; empty if it is none (rule 9)."""
    if not isinstance(text, str):
        return b""
    try:
        if len(text) == _HEX_SIGNATURE_LENGTH:
            return bytes.fromhex(text)
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _payload(kind: str, fields: Mapping[str, Any]) -> bytes:
    try:
        return sealed_bytes(kind, fields)
    except CanonicalError:
        return b""
