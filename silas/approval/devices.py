"""The owner's devices, browsers and phones that hold a key of their own, and what they sign.

1. A device is the owner's because the owner's active key has signed its name and public key. A row
   that somebody wrote into the database is nobody's device.
2. Revoking is at once and for good: the vault keeps the list, so that neither a changed row nor an
   old backup brings a device back.
3. Rotating the owner's key ends every device: it was the old key that vouched for them.
4. A device signs messages and decisions. It can neither issue a token nor enrol another device.
5. A message is `owner` only if a pinned key signed its text, time, nonce and attachments, it is
   fresh, and its nonce was never seen. The keys of the trusted devices are pinned like the owner's.
6. A message of another conversation than the first names it in what is signed, so that nobody can
   move it into a third one.
7. Every other message falls to `external`, and the audit log says why. Falling is silent for the
   sender: a replayed message is answered like a stranger's.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from silas.approval.errors import DeviceUnknown, NonceUsed
from silas.approval.keys import ProvenRows, PublicKey, PublicKeys, RevokedList, Seal, Seals
from silas.approval.models import Base64Bytes
from silas.approval.rules import Refused
from silas.approval.store import MESSAGE, NonceStore
from silas.audit.models import AuditTrail, OwnerKey
from silas.kernel import (
    CanonicalError,
    Clock,
    TaintLevel,
    canonical_bytes,
    format_timestamp,
    parse_timestamp,
)
from silas.kernel.models import Data, UtcDatetime
from silas.secrets.vault import Vault
from silas.storage import Database, Durability, Transaction

REVOKED_DEVICES_REF = "silas/revoked-devices"
DEVICE_SEAL = "silas-device-v1"
_MAX_NAME_LENGTH = 80
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


class _DeviceRow(NamedTuple):
    """What `_SELECT` gives."""

    device_id: str
    public_key: str
    name: str
    enrolled_at: str
    owner_key_id: str
    endorsement: str
    revoked_at: str | None

    def sealed_fields(self) -> dict[str, str]:
        """What the owner's key vouches for (rule 1)."""
        return _sealed_fields(self.device_id, self.public_key, self.name, self.enrolled_at)


class DeviceStore:
    """The devices of one data directory."""

    def __init__(
        self,
        database: Database,
        keys: OwnerKey,
        *,
        vault: Vault,
        audit: AuditTrail,
        clock: Clock,
    ) -> None:
        self._database = database
        self._seals = Seals(keys)
        self._proven = ProvenRows(keys)
        self._revoked = RevokedList(vault, REVOKED_DEVICES_REF, "devices")
        self._audit = audit
        self._clock = clock

    async def enrol(self, public_key: PublicKey, *, name: str) -> Device:
        """Make a device the owner's (rule 1). Whoever calls this has checked that he may."""
        shown = " ".join(name.split())[:_MAX_NAME_LENGTH] or "A device"
        enrolled_at = format_timestamp(self._clock.now())
        if public_key.key_id in self._revoked.ids():
            raise DeviceUnknown("This device was revoked. Pair it anew, with a new key.")
        fields = _sealed_fields(public_key.key_id, public_key.hex, shown, enrolled_at)
        values = (*fields.values(), *self._seals.sign(DEVICE_SEAL, fields))

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
        return [self._device(_DeviceRow(*row), revoked) for row in rows]

    async def find(self, device_id: str) -> Device | None:
        """One device, or None."""
        row = await self._database.fetch_one(f"{_SELECT} WHERE device_id = ?", (device_id,))
        return self._device(_DeviceRow(*row), self._revoked.ids()) if row else None

    async def require(self, device_id: str) -> Device:
        """A device that is trusted now; raises `DeviceUnknown`."""
        device = await self.find(device_id)
        if device is None or not device.trusted:
            raise DeviceUnknown
        return device

    async def unproven_key(self, device_id: str) -> PublicKey | None:
        """The key that a row claims, which nobody vouches for: the vault may still be locked.

        For questions alone whose answer proves itself, such as the vault's passphrase.
        """
        row = await self._database.fetch_one(
            "SELECT public_key FROM devices WHERE device_id = ? AND revoked_at IS NULL",
            (device_id,),
        )
        return PublicKey.from_hex(str(row[0])) if row else None

    async def endorsed(self, device_id: str) -> tuple[dict[str, str], str, str] | None:
        """What the owner's key has vouched for, by which key and how; also of one that has ended.

        For proofs of what it signed while it was trusted: whoever reads them checks it.
        """
        found = await self._database.fetch_one(f"{_SELECT} WHERE device_id = ?", (device_id,))
        if found is None:
            return None
        row = _DeviceRow(*found)
        return row.sealed_fields(), row.owner_key_id, row.endorsement

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

    def _device(self, row: _DeviceRow, revoked: frozenset[str]) -> Device:
        seal = Seal(row.owner_key_id, row.endorsement)
        return Device(
            device_id=row.device_id,
            name=row.name,
            public_key=row.public_key,
            enrolled_at=parse_timestamp(row.enrolled_at),
            revoked_at=parse_timestamp(row.revoked_at) if row.revoked_at else None,
            trusted=self._proven.holds(  # 1, 3
                row, seal, lambda: self._seals.holds_now(seal, DEVICE_SEAL, row.sealed_fields())
            )
            and row.revoked_at is None
            and row.device_id not in revoked,  # 2
        )


def _sealed_fields(device_id: str, public_key: str, name: str, enrolled_at: str) -> dict[str, str]:
    return {
        "device_id": device_id,
        "public_key": public_key,
        "name": name,
        "enrolled_at": enrolled_at,
    }


FRESHNESS_WINDOW = timedelta(minutes=5)
"""How far a signed message's time may be from ours. Nonces are kept longer than this."""

_MAX_NONCE_LENGTH = 200


class Attached(Data):
    """A file that a message names: by the hash of its bytes, and as its sender calls it."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    name: Annotated[str, Field(min_length=1, max_length=200)]


class ChannelMessage(Data):
    """A message as it came in from a channel."""

    channel: str
    sender_id: str
    text: str
    timestamp: UtcDatetime
    attachments: list[Attached] = Field(default_factory=list)
    reply_to: str | None = None
    conversation: str | None = None
    """The conversation that it was said in; None for the first one, as in all older messages."""


class SignedMessage(Data):
    """A message with the signature that may make it the owner's."""

    message: ChannelMessage
    signature: Base64Bytes
    nonce: str
    taint: TaintLevel = TaintLevel.EXTERNAL

    def canonical_bytes(self) -> bytes:
        """The bytes that are signed: nothing in them could be ambiguous."""
        return message_bytes(
            text=self.message.text,
            timestamp=self.message.timestamp,
            nonce=self.nonce,
            conversation=self.message.conversation,
            attachments=self.message.attachments,
        )


def message_bytes(
    *,
    text: str,
    timestamp: datetime,
    nonce: str,
    conversation: str | None = None,
    attachments: Sequence[Attached] = (),
) -> bytes:
    """What the sender's key signs: text, time and nonce; the conversation and what is attached only
    where there is one, so that older messages stay what they were.
    """
    signed: dict[str, Any] = {"text": text, "timestamp": timestamp, "nonce": nonce}
    if conversation is not None:
        signed["conversation"] = conversation
    if attachments:
        signed["attachments"] = [each.model_dump(mode="json") for each in attachments]
    return canonical_bytes(signed)


class MessageVerifier:
    """Decides whether a signed message is the owner's."""

    def __init__(
        self,
        database: Database,
        *,
        nonces: NonceStore,
        audit: AuditTrail,
        clock: Clock,
        devices: DeviceStore | None = None,
    ) -> None:
        self._database = database
        self._devices = devices
        self._nonces = nonces
        self._audit = audit
        self._clock = clock

    async def classify(
        self,
        signed: SignedMessage,
        keys: PublicKeys,
        *,
        also: Callable[[Transaction, TaintLevel], None] | None = None,
    ) -> SignedMessage:
        """The message with its taint decided; its nonce is consumed if it is the owner's.

        `also` writes the decision down in the same transaction: whoever may see the message again
        after a crash must not take it for its own replay.
        """

        def consume(tx: Transaction) -> None:
            self._require_known_past(tx, signed)
            self._nonces.record_in(tx, MESSAGE, signed.nonce)
            if also is not None:
                also(tx, TaintLevel.OWNER)

        try:
            await self._require_owner(signed, keys)
            await self._database.transaction(consume, durability=Durability.TRUST)
        except Refused as refused:
            return await self._downgrade(signed, str(refused), also)
        except NonceUsed:
            return await self._downgrade(signed, "replayed", also)
        return signed.model_copy(update={"taint": TaintLevel.OWNER})

    async def is_signed(self, signed: SignedMessage, keys: PublicKeys) -> bool:
        """Whether the owner has signed it, however long ago; nothing is used up."""
        try:
            signer = await self._signer(signed, keys)
        except CanonicalError:
            return False
        return signer is not None and signer.in_use_at(signed.message.timestamp)

    async def _signer(self, signed: SignedMessage, keys: PublicKeys) -> PublicKey | None:
        """The owner's key that signed it, or a trusted device's; raises `CanonicalError`."""
        payload = signed.canonical_bytes()
        signer = keys.signer_of(payload, signed.signature)
        if signer is not None or self._devices is None:
            return signer
        return (await self._devices.keys()).signer_of(payload, signed.signature)

    async def _require_owner(self, signed: SignedMessage, keys: PublicKeys) -> None:
        if not 1 <= len(signed.nonce) <= _MAX_NONCE_LENGTH:
            raise Refused("the nonce is empty or too long")
        try:
            signer = await self._signer(signed, keys)
        except CanonicalError as error:
            raise Refused("the message has no canonical form") from error
        if signer is None:
            raise Refused("the signature is not the owner's")
        if not signer.in_use_at(signed.message.timestamp):
            raise Refused("the key had been retired")
        if abs(self._clock.now() - signed.message.timestamp) > FRESHNESS_WINDOW:
            raise Refused("stale")

    def _require_known_past(self, tx: Transaction, signed: SignedMessage) -> None:
        """Whether it would be known if this message had been accepted before."""
        restored_at = self._nonces.restored_at_in(tx)
        # Just before the restore, a message with this time could still have been fresh.
        if restored_at and signed.message.timestamp - restored_at <= FRESHNESS_WINDOW:
            raise Refused("it may have been used before a backup was restored")

    async def _downgrade(
        self,
        signed: SignedMessage,
        reason: str,
        also: Callable[[Transaction, TaintLevel], None] | None,
    ) -> SignedMessage:
        event = {
            "reason": reason,
            "channel": signed.message.channel,
            "sender_id": signed.message.sender_id,
            "sent_at": signed.message.timestamp,
        }

        def record(tx: Transaction) -> None:
            self._audit.append(tx, "message_downgraded", event)
            if also is not None:
                also(tx, TaintLevel.EXTERNAL)

        await self._database.transaction(record, durability=Durability.TRUST)
        return signed.model_copy(update={"taint": TaintLevel.EXTERNAL})
