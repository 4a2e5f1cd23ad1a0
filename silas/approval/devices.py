"""The owner's devices: browsers and phones that hold a key of their own.

1. A device is the owner's because the owner's active key has signed its name and public key. A row
   that somebody wrote into the database is nobody's device.
2. Revoking is at once and for good: the vault keeps the list, so that neither a changed row nor an
   old backup brings a device back.
3. Rotating the owner's key ends every device: it was the old key that vouched for them.
4. A device signs messages and decisions. It can neither issue a token nor enrol another device.
"""

import base64
from typing import Protocol

from silas.approval.errors import DeviceUnknown
from silas.approval.ports import AuditTrail, KeyVault
from silas.approval.public_keys import PublicKey, PublicKeys
from silas.approval.revoked import RevokedList
from silas.kernel import (
    CanonicalError,
    Clock,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
)
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Database, Durability, Row, Transaction

REVOKED_DEVICES_REF = "silas/revoked-devices"
_FORMAT = "silas-device-v1"
_LONGEST_NAME = 80
_SELECT = """
SELECT device_id, public_key, name, enrolled_at, owner_key_id, endorsement, revoked_at FROM devices
"""
_INSERT = """
INSERT INTO devices (device_id, public_key, name, enrolled_at, owner_key_id, endorsement)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (device_id) DO NOTHING
"""


class Device(Data):
    """One device, as people see it."""

    device_id: str
    """The fingerprint of its key."""
    name: str
    public_key: str
    enrolled_at: UtcDatetime
    revoked_at: UtcDatetime | None = None
    trusted: bool
    """Whether it may sign: the owner's active key vouches for it, and nobody has revoked it."""


class OwnerKey(Protocol):
    """The owner's key, as far as devices need it."""

    def sign(self, payload: bytes) -> tuple[str, bytes]:
        """The id of the active key, and its signature."""
        ...

    def vouches(self, key_id: str, payload: bytes, signature: bytes) -> bool:
        """Whether the key that is active now made this signature."""
        ...


class DeviceStore:
    """The devices of one data directory."""

    def __init__(
        self,
        database: Database,
        keys: OwnerKey,
        *,
        vault: KeyVault,
        audit: AuditTrail,
        clock: Clock,
    ) -> None:
        self._database = database
        self._keys = keys
        self._revoked = RevokedList(vault, REVOKED_DEVICES_REF, "devices")
        self._audit = audit
        self._clock = clock

    async def enrol(self, public_key: PublicKey, *, name: str) -> Device:
        """Make a device the owner's (rule 1). Whoever calls this has checked that he may."""
        shown = " ".join(name.split())[:_LONGEST_NAME] or "A device"
        enrolled_at = format_timestamp(self._clock.now())
        if public_key.key_id in self._revoked.ids():
            raise DeviceUnknown("This device was revoked. Pair it anew, with a new key.")
        payload = _endorsed(public_key.key_id, public_key.hex, shown, enrolled_at)
        key_id, signature = self._keys.sign(payload)
        endorsement = base64.b64encode(signature).decode()
        values = (public_key.key_id, public_key.hex, shown, enrolled_at, key_id, endorsement)

        def write(tx: Transaction) -> None:
            if tx.execute(_INSERT, values):
                event = {"device_id": public_key.key_id, "name": shown}
                self._audit.append(tx, "device_enrolled", event)

        await self._database.transaction(write, durability=Durability.TRUST)
        return await self.require(public_key.key_id)

    async def revoke(self, device_id: str) -> Device:
        """End a device (rule 2); raises `DeviceUnknown`."""
        device = await self.find(device_id)
        if device is None:
            raise DeviceUnknown(f"There is no device {device_id!a}.")
        self._revoked.add(device_id)
        now = format_timestamp(self._clock.now())

        def write(tx: Transaction) -> None:
            changed = tx.execute(
                "UPDATE devices SET revoked_at = ? WHERE device_id = ? AND revoked_at IS NULL",
                (now, device_id),
            )
            if changed:
                self._audit.append(tx, "device_revoked", {"device_id": device_id})

        await self._database.transaction(write, durability=Durability.TRUST)
        return device.model_copy(update={"trusted": False, "revoked_at": parse_timestamp(now)})

    async def list(self) -> "list[Device]":
        """All devices, the oldest first, also those that are no longer trusted."""
        revoked = self._revoked.ids()
        rows = await self._database.fetch_all(f"{_SELECT} ORDER BY enrolled_at, device_id")
        return [self._device(row, revoked) for row in rows]

    async def find(self, device_id: str) -> Device | None:
        """One device, or None."""
        row = await self._database.fetch_one(f"{_SELECT} WHERE device_id = ?", (device_id,))
        return self._device(row, self._revoked.ids()) if row else None

    async def require(self, device_id: str) -> Device:
        """A device that is trusted now; raises `DeviceUnknown`."""
        device = await self.find(device_id)
        if device is None or not device.trusted:
            raise DeviceUnknown
        return device

    async def keys(self) -> PublicKeys:
        """The keys of all trusted devices."""
        trusted = [device for device in await self.list() if device.trusted]
        return PublicKeys.of(PublicKey.from_hex(device.public_key) for device in trusted)

    async def verify(self, key_id: str, payload: bytes, signature: bytes) -> bool:
        """Whether a device that is trusted now made this signature."""
        device = await self.find(key_id)
        if device is None or not device.trusted:
            return False
        return PublicKey.from_hex(device.public_key).signed(payload, signature)

    def _device(self, row: Row, revoked: frozenset[str]) -> Device:
        device_id, public_key, name, enrolled_at, owner_key_id, endorsement, revoked_at = row
        vouched = self._vouched(
            owner_key_id, _endorsed(device_id, public_key, name, enrolled_at), endorsement
        )
        return Device(
            device_id=device_id,
            name=name,
            public_key=public_key,
            enrolled_at=parse_timestamp(enrolled_at),
            revoked_at=parse_timestamp(revoked_at) if revoked_at else None,
            trusted=vouched and revoked_at is None and device_id not in revoked,
        )

    def _vouched(self, owner_key_id: str, payload: bytes, endorsement: str) -> bool:
        """Rules 1 and 3: by the key that is active now."""
        try:
            signature = base64.b64decode(endorsement, validate=True)
        except ValueError:
            return False
        return self._keys.vouches(owner_key_id, payload, signature)


def _endorsed(device_id: str, public_key: str, name: str, enrolled_at: str) -> bytes:
    content = {
        "format": _FORMAT,
        "device_id": device_id,
        "public_key": public_key,
        "name": name,
        "enrolled_at": enrolled_at,
    }
    try:
        return canonical_bytes(content)
    except CanonicalError:
        return b""
