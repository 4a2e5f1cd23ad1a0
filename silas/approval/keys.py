"""The owner's signing key: created once, kept in the vault, rotated without losing the past.

1. The private key exists in the vault and nowhere else. It is read for one signature and dropped.
2. The vault entry also holds the public keys of the past. It is the anchor: whoever can write the
   database alone can neither add a key nor bring a retired one back.
3. Rotation destroys the old private key. Its public key stays, so old tokens stay verifiable, but
   only for what was signed while it was in use.
"""

import base64
import threading
from datetime import datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from silas.approval.errors import NoOwnerKey, OwnerKeyDamaged, OwnerKeyExists
from silas.approval.ports import KeyVault
from silas.approval.public_keys import PublicKey, PublicKeys
from silas.approval.revoked import RevokedList
from silas.kernel import (
    ApprovalError,
    Clock,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
    strict_loads,
)

OWNER_KEYS_REF = "silas/owner-keys"
WITHDRAWN_REF = "silas/withdrawn-approvals"
_FORMAT = "silas-owner-keys-v1"
_ROTATION_FORMAT = "silas-key-rotation-v1"


class KeyManager:
    """Signs with the owner's key and knows which public keys are the owner's."""

    def __init__(self, vault: KeyVault, *, clock: Clock) -> None:
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
        """The standing approvals that the owner has taken back before their time."""
        return RevokedList(self._vault, WITHDRAWN_REF, "approvals")

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
