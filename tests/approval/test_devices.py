"""Devices: the owner's only by the owner's signature, and gone for good when revoked."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from silas.approval import (
    ChannelMessage,
    DeviceStore,
    DeviceUnknown,
    KeyManager,
    MessageVerifier,
    PublicKey,
    SignedMessage,
)
from silas.kernel import TaintLevel
from silas.storage import Durability
from silas.testing import MemoryVault
from tests.approval.desk import Desk

PAYLOAD = b"what is signed"


class Devices:
    """A store on a desk, and one device."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.vault = MemoryVault()
        self.private = Ed25519PrivateKey.generate()
        self.key = PublicKey(self.private.public_key().public_bytes_raw())
        self.store = self.reopened(desk.keys)

    def reopened(self, keys: KeyManager) -> DeviceStore:
        return DeviceStore(
            self.desk.database,
            keys,
            vault=self.vault,
            audit=self.desk.audit,
            clock=self.desk.clock,
        )

    async def enrol(self, name: str = "A phone") -> None:
        await self.store.enrol(self.key, name=name)

    async def signs(self) -> bool:
        return await self.store.verify(self.key.key_id, PAYLOAD, self.private.sign(PAYLOAD))

    def message(self, nonce: str = "n1") -> SignedMessage:
        message = ChannelMessage(
            channel="web", sender_id="owner", text="hello", timestamp=self.desk.clock.now()
        )
        unsigned = SignedMessage(message=message, signature=b"", nonce=nonce)
        signature = self.private.sign(unsigned.canonical_bytes())
        return unsigned.model_copy(update={"signature": signature})

    @property
    def verifier(self) -> MessageVerifier:
        return MessageVerifier(
            self.desk.database,
            nonces=self.desk.nonces,
            audit=self.desk.audit,
            clock=self.desk.clock,
            devices=self.store,
        )

    async def taint(self, *, nonce: str = "n1") -> TaintLevel:
        message = self.message(nonce)
        return (await self.verifier.classify(message, self.desk.keys.public)).taint


@pytest.fixture
def devices(desk: Desk) -> Devices:
    return Devices(desk)


async def test_a_device_signs_and_its_messages_are_the_owners(devices: Devices) -> None:
    assert not await devices.signs()
    assert await devices.taint() is TaintLevel.EXTERNAL
    await devices.enrol()
    assert await devices.signs()
    assert await devices.taint(nonce="n2") is TaintLevel.OWNER
    assert devices.desk.audit.events().count("device_enrolled") == 1


async def test_another_signature_is_not_the_devices(devices: Devices) -> None:
    await devices.enrol()
    other = Ed25519PrivateKey.generate().sign(PAYLOAD)
    assert not await devices.store.verify(devices.key.key_id, PAYLOAD, other)
    genuine = devices.private.sign(PAYLOAD)
    assert not await devices.store.verify(devices.key.key_id, b"something else", genuine)


async def test_revoked_is_at_once(devices: Devices) -> None:
    await devices.enrol()
    gone = await devices.store.revoke(devices.key.key_id)
    assert (gone.trusted, gone.revoked_at) == (False, devices.desk.clock.now())
    assert not await devices.signs()
    assert await devices.taint() is TaintLevel.EXTERNAL
    with pytest.raises(DeviceUnknown):
        await devices.store.require(devices.key.key_id)
    with pytest.raises(DeviceUnknown, match="revoked"):
        await devices.enrol()


async def test_a_changed_row_does_not_bring_a_device_back(devices: Devices) -> None:
    await devices.enrol()
    await devices.store.revoke(devices.key.key_id)
    await devices.desk.database.execute("UPDATE devices SET revoked_at = NULL")
    assert not await devices.signs()


@pytest.mark.parametrize("column", ["public_key", "name", "enrolled_at", "endorsement"])
async def test_a_forged_row_is_nobodys_device(devices: Devices, column: str) -> None:
    await devices.enrol()
    other = PublicKey(Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    values = {
        "public_key": other.hex,
        "name": "Mallory",
        "enrolled_at": "2020-01-01T00:00:00.000000Z",
        "endorsement": "not base64!",
    }
    await devices.desk.database.execute(f"UPDATE devices SET {column} = ?", (values[column],))
    [device] = await devices.store.list()
    assert not device.trusted
    assert (await devices.store.keys()).keys == ()
    assert not await devices.signs()


async def test_a_device_cannot_vouch_for_another(devices: Devices) -> None:
    await devices.enrol()
    forger = KeyManager(MemoryVault(), clock=devices.desk.clock)
    forger.generate_keypair()
    other = PublicKey(Ed25519PrivateKey.generate().public_key().public_bytes_raw())
    with pytest.raises(DeviceUnknown):
        await _with_keys(devices, forger).enrol(other, name="Mallory")
    found = await devices.store.find(other.key_id)
    assert found is not None
    assert not found.trusted


def _with_keys(devices: Devices, forger: KeyManager) -> DeviceStore:
    """Signs with a key of its own, and believes in the owner's alone."""

    class Forging:
        sign = staticmethod(forger.sign)
        vouches = staticmethod(devices.desk.keys.vouches)
        is_active = staticmethod(devices.desk.keys.is_active)

    return devices.reopened(Forging())  # type: ignore[arg-type]


async def test_rotating_the_owners_key_ends_every_device(devices: Devices) -> None:
    await devices.enrol()
    devices.desk.keys.rotate()
    assert not await devices.signs(), "at once: a rotation is what follows a theft"


async def test_a_damaged_list_of_the_revoked_trusts_nobody(devices: Devices) -> None:
    await devices.enrol()
    devices.vault.set("silas/revoked-devices", b'{"format":"another"}')
    with pytest.raises(DeviceUnknown):
        await devices.signs()


async def test_enrolled_twice_is_enrolled_once(devices: Devices) -> None:
    await devices.enrol("First")
    await devices.enrol("Second")
    [device] = await devices.store.list()
    assert device.name == "First"


@pytest.mark.parametrize(
    ("given", "shown"), [("  a \n b ", "a b"), ("", "A device"), ("x" * 200, "x" * 80)]
)
async def test_names(devices: Devices, given: str, shown: str) -> None:
    await devices.enrol(given)
    [device] = await devices.store.list()
    assert device.name == shown


async def test_who_was_never_there_cannot_be_revoked(devices: Devices) -> None:
    with pytest.raises(DeviceUnknown):
        await devices.store.revoke("key_nobody")


async def test_what_is_written_down(devices: Devices) -> None:
    await devices.enrol()
    desk, name = devices.desk, devices.key.key_id
    gone = await devices.store.revoke(name)
    assert await devices.store.find(name) == gone
    assert gone.revoked_at == desk.clock.now()
    assert desk.audit.entries == [
        ("device_enrolled", {"device_id": name, "name": "A phone"}),
        ("device_revoked", {"device_id": name}),
    ]
    assert desk.database.durabilities[-2:] == [Durability.TRUST] * 2


async def test_refusals_in_words(devices: Devices) -> None:
    with pytest.raises(DeviceUnknown, match=r"^There is no device 'key_nobody'\.$"):
        await devices.store.revoke("key_nobody")
    await devices.enrol()
    await devices.store.revoke(devices.key.key_id)
    assert b'"devices":' in (devices.vault.get("silas/revoked-devices") or b"")
    told = r"^This device was revoked\. Pair it anew, with a new key\.$"
    with pytest.raises(DeviceUnknown, match=told):
        await devices.enrol()


async def test_what_a_device_has_signed_is_signed_until_it_is_revoked(devices: Devices) -> None:
    message, owners = devices.message(), devices.desk.keys.public
    assert not await devices.verifier.is_signed(message, owners)
    await devices.enrol()
    assert await devices.verifier.is_signed(message, owners)
    await devices.store.revoke(devices.key.key_id)
    assert not await devices.verifier.is_signed(message, owners)
