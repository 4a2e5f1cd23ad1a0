"""Signed messages: what makes a message the owner's.

A message is `owner` only if a pinned key signed its text, time and nonce, it is fresh, and its
nonce was never seen. Everything else falls to `external`, and the audit log says why. Falling is
silent for the sender: a replayed message is answered like a stranger's. The keys of the owner's
trusted devices are pinned like his own.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from pydantic import Field

from silas.approval.devices import DeviceStore
from silas.approval.errors import NonceUsed
from silas.approval.models import Base64Bytes
from silas.approval.nonces import MESSAGE, NonceStore
from silas.approval.ports import AuditTrail
from silas.approval.public_keys import PublicKeys
from silas.approval.rules import Refused
from silas.kernel import CanonicalError, Clock, TaintLevel, canonical_bytes
from silas.kernel.models import Data, UtcDatetime
from silas.storage import Database, Durability, Transaction

FRESHNESS_WINDOW = timedelta(minutes=5)
"""How far a signed message's time may be from ours. Nonces are kept longer than this."""

_MAX_NONCE_LENGTH = 200


class ChannelMessage(Data):
    """A message as it came in from a channel."""

    channel: str
    sender_id: str
    text: str
    timestamp: UtcDatetime
    attachments: list[str] = Field(default_factory=list)
    reply_to: str | None = None


class SignedMessage(Data):
    """A message with the signature that may make it the owner's."""

    message: ChannelMessage
    signature: Base64Bytes
    nonce: str
    taint: TaintLevel = TaintLevel.EXTERNAL

    def canonical_bytes(self) -> bytes:
        """The bytes that are signed: text, time and nonce, and nothing that could be ambiguous."""
        return message_bytes(
            text=self.message.text, timestamp=self.message.timestamp, nonce=self.nonce
        )


def message_bytes(*, text: str, timestamp: datetime, nonce: str) -> bytes:
    """What the sender's key signs."""
    return canonical_bytes({"text": text, "timestamp": timestamp, "nonce": nonce})


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
            self._require_owner(signed, await self._pinned(signed, keys))
            await self._database.transaction(consume, durability=Durability.TRUST)
        except Refused as refused:
            return await self._downgrade(signed, str(refused), also)
        except NonceUsed:
            return await self._downgrade(signed, "replayed", also)
        return signed.model_copy(update={"taint": TaintLevel.OWNER})

    async def is_signed(self, signed: SignedMessage, keys: PublicKeys) -> bool:
        """Whether the owner has signed it, however long ago; nothing is used up."""
        try:
            pinned = await self._pinned(signed, keys)
            signer = pinned.signer_of(signed.canonical_bytes(), signed.signature)
        except CanonicalError:
            return False
        return signer is not None and signer.in_use_at(signed.message.timestamp)

    async def _pinned(self, signed: SignedMessage, keys: PublicKeys) -> PublicKeys:
        """The owner's keys; those of the devices as well if the message is not signed by them."""
        if self._devices is None:
            return keys
        try:
            if keys.signer_of(signed.canonical_bytes(), signed.signature) is not None:
                return keys
        except CanonicalError:
            return keys
        return PublicKeys.of([*keys.keys, *(await self._devices.keys()).keys])

    def _require_owner(self, signed: SignedMessage, keys: PublicKeys) -> None:
        if not 1 <= len(signed.nonce) <= _MAX_NONCE_LENGTH:
            raise Refused("the nonce is empty or too long")
        try:
            signer = keys.signer_of(signed.canonical_bytes(), signed.signature)
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
