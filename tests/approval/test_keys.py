"""The owner's key: where it lives, what it signs, how it is replaced."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from silas.approval import (
    OWNER_KEYS_REF,
    KeyManager,
    NoOwnerKey,
    OwnerKeyDamaged,
    OwnerKeyExists,
    PublicKey,
    PublicKeyInvalid,
    PublicKeys,
)
from silas.approval import (
    keys as key_module,
)
from silas.kernel import canonical_bytes, strict_loads
from silas.testing import FakeClock, MemoryVault

LOW_ORDER = [
    "00" * 32,
    "00" * 31 + "80",
    "01" + "00" * 31,
    "01" + "00" * 30 + "80",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "ec" + "ff" * 30 + "7f",
    "ec" + "ff" * 31,
    "ed" + "ff" * 30 + "7f",
    "ed" + "ff" * 31,
    "ee" + "ff" * 30 + "7f",
    "ee" + "ff" * 31,
]


@pytest.fixture
def vault() -> MemoryVault:
    return MemoryVault()


@pytest.fixture
def keys(vault: MemoryVault) -> KeyManager:
    manager = KeyManager(vault, clock=FakeClock())
    manager.generate_keypair()
    return manager


class TestKeyManager:
    def test_generating_returns_the_public_key(self, vault: MemoryVault) -> None:
        manager = KeyManager(vault, clock=FakeClock())
        assert not manager.exists()
        public = manager.generate_keypair()
        assert manager.exists()
        assert manager.public.keys[0].hex == public
        assert len(public) == 64

    def test_there_is_no_second_first_key(self, keys: KeyManager) -> None:
        before = keys.public
        with pytest.raises(OwnerKeyExists):
            keys.generate_keypair()
        assert keys.public == before

    def test_without_a_key_nothing_is_signed(self) -> None:
        empty = KeyManager(MemoryVault(), clock=FakeClock())
        with pytest.raises(NoOwnerKey):
            empty.sign(b"x")
        with pytest.raises(NoOwnerKey):
            _ = empty.public

    def test_a_signature_verifies_with_the_plain_library(self, keys: KeyManager) -> None:
        key_id, signature = keys.sign(b"payload")
        public = keys.public.keys[0]
        assert key_id == public.key_id
        Ed25519PublicKey.from_public_bytes(public.raw).verify(signature, b"payload")

    def test_verify_knows_only_the_owners_keys(self, keys: KeyManager) -> None:
        key_id, signature = keys.sign(b"payload")
        now = FakeClock().now()
        assert keys.verify(key_id, b"payload", signature, at=now)
        assert not keys.verify(key_id, b"payload!", signature, at=now)
        assert not keys.verify(key_id, b"payload", signature[:-1], at=now)
        assert not keys.verify("key_unknown", b"payload", signature, at=now)

    def test_rotation_keeps_the_past_verifiable(self, vault: MemoryVault) -> None:
        clock = FakeClock()
        manager = KeyManager(vault, clock=clock)
        manager.generate_keypair()
        old_id, old_signature = manager.sign(b"then")
        clock.advance(days=1)
        rotation = manager.rotate()
        new_id, new_signature = manager.sign(b"now")
        assert new_id != old_id
        assert (rotation["old_key_id"], rotation["new_key_id"]) == (old_id, new_id)
        assert manager.verify(old_id, b"then", old_signature, at=clock.now() - timedelta(days=1))
        assert manager.verify(new_id, b"now", new_signature, at=clock.now())
        assert [key.key_id for key in manager.public.keys] == [new_id, old_id]
        assert manager.public.keys[0].retired_at is None
        assert manager.public.keys[1].retired_at == clock.now()

    def test_after_its_retirement_a_key_signs_nothing(self, vault: MemoryVault) -> None:
        """Another process may just have been signing, so a minute is forgiven."""
        clock = FakeClock()
        manager = KeyManager(vault, clock=clock)
        manager.generate_keypair()
        old_id, signature = manager.sign(b"x")
        manager.rotate()
        retired = clock.now()
        for late, is_valid in {
            timedelta(days=-900): True,
            timedelta(0): True,
            timedelta(minutes=1): True,
            timedelta(minutes=1, microseconds=1): False,
            timedelta(days=900): False,
        }.items():
            assert manager.verify(old_id, b"x", signature, at=retired + late) is is_valid
            assert manager.public.verify(old_id, b"x", signature, at=retired + late) is is_valid
        for year, is_valid in ((1, True), (9999, False)):
            at = datetime(year, 1, 1, tzinfo=UTC)
            assert manager.verify(old_id, b"x", signature, at=at) is is_valid

    def test_the_old_key_endorses_the_new_one(self, keys: KeyManager) -> None:
        rotation = keys.rotate()
        statement = {name: value for name, value in rotation.items() if name != "endorsement"}
        old = keys.public.find(rotation["old_key_id"])
        assert old is not None
        assert old.signed(canonical_bytes(statement), bytes.fromhex(rotation["endorsement"]))
        assert rotation["new_public_key"] == keys.public.keys[0].hex
        assert rotation["format"] == "silas-key-rotation-v1"

    def test_rotation_destroys_the_old_private_key(
        self, vault: MemoryVault, keys: KeyManager
    ) -> None:
        seed = strict_loads(vault.entries[OWNER_KEYS_REF])["keys"][0]["seed"]
        keys.rotate()
        keys.rotate()
        stored = strict_loads(vault.entries[OWNER_KEYS_REF])
        assert [("seed" in key) for key in stored["keys"]] == [True, False, False]
        assert seed.encode() not in vault.entries[OWNER_KEYS_REF]

    def test_another_process_rotated(self, vault: MemoryVault, keys: KeyManager) -> None:
        other = KeyManager(vault, clock=FakeClock())
        assert keys.public == other.public
        other.rotate()
        assert keys.public != other.public
        keys.reload()
        assert keys.public == other.public

    @pytest.mark.parametrize(
        "stored",
        [
            b"",
            b"{}",
            b"[]",
            b"null",
            b'{"format":"silas-owner-keys-v1","keys":[]}',
            b'{"format":"silas-owner-keys-v2","keys":[]}',
            b'{"format":"silas-owner-keys-v1","keys":[{"seed":"AA=="}]}',
            b'{"format":"silas-owner-keys-v1","keys":7}',
        ],
    )
    def test_a_damaged_entry_is_named(self, vault: MemoryVault, stored: bytes) -> None:
        vault.set(OWNER_KEYS_REF, stored)
        manager = KeyManager(vault, clock=FakeClock())
        with pytest.raises(OwnerKeyDamaged):
            _ = manager.public
        with pytest.raises(OwnerKeyDamaged):
            manager.sign(b"x")

    def test_a_seed_that_does_not_fit_its_public_key(
        self, vault: MemoryVault, keys: KeyManager
    ) -> None:
        mine = strict_loads(vault.entries[OWNER_KEYS_REF])
        other_vault = MemoryVault()
        KeyManager(other_vault, clock=FakeClock()).generate_keypair()
        theirs = strict_loads(other_vault.entries[OWNER_KEYS_REF])
        mine["keys"][0]["seed"] = theirs["keys"][0]["seed"]
        vault.set(OWNER_KEYS_REF, canonical_bytes(mine))
        keys.reload()
        with pytest.raises(OwnerKeyDamaged):
            keys.sign(b"x")

    def test_an_active_key_that_was_marked_retired(
        self, vault: MemoryVault, keys: KeyManager
    ) -> None:
        keys.rotate()
        stored = strict_loads(vault.entries[OWNER_KEYS_REF])
        vault.set(OWNER_KEYS_REF, canonical_bytes({**stored, "keys": stored["keys"][::-1]}))
        keys.reload()
        with pytest.raises(OwnerKeyDamaged):
            keys.sign(b"x")


class TestPublicKey:
    @pytest.mark.parametrize("text", LOW_ORDER)
    def test_points_of_low_order_are_refused(self, text: str) -> None:
        with pytest.raises(PublicKeyInvalid):
            PublicKey.from_hex(text)

    @pytest.mark.parametrize("text", ["", "zz", "ab", "ab" * 31, "ab" * 33, "0x" + "ab" * 31])
    def test_what_is_not_a_key(self, text: str) -> None:
        with pytest.raises(PublicKeyInvalid):
            PublicKey.from_hex(text)

    def test_the_key_id_is_a_fingerprint(self, keys: KeyManager) -> None:
        key = keys.public.keys[0]
        assert key.key_id == PublicKey.from_hex(f" {key.hex}\n").key_id
        assert key.key_id.startswith("key_")
        assert len(key.key_id) == 20

    def test_a_retired_key_counts_until_the_moment_of_its_retirement(self) -> None:
        moment = datetime(2026, 5, 1, tzinfo=UTC)
        raw = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
        key = PublicKey(raw, retired_at=moment)
        assert key.in_use_at(moment)
        assert key.in_use_at(moment - timedelta(days=900))
        assert not key.in_use_at(moment + timedelta(microseconds=1))
        assert PublicKey(raw).in_use_at(moment)

    def test_rfc_8032_vector(self) -> None:
        key = PublicKey.from_hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
        signature = bytes.fromhex(
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        )
        assert key.signed(b"\x72", signature)
        assert not key.signed(b"\x73", signature)

    def test_a_malleated_signature_is_refused(self, keys: KeyManager) -> None:
        key_id, signature = keys.sign(b"x")
        order = 2**252 + 27742317777372353535851937790883648493
        s = int.from_bytes(signature[32:], "little") + order
        malleated = signature[:32] + s.to_bytes(32, "little")
        assert not keys.verify(key_id, b"x", malleated, at=FakeClock().now())

    def test_what_was_proven_proves_nothing_else(self, keys: KeyManager) -> None:
        (key,) = keys.public.keys
        payload = b"the plan"
        _, signature = keys.sign(payload)
        assert key.signed(payload, signature)
        assert key.signed(payload, signature)  # remembered
        assert not key.signed(b"another plan", signature)
        assert not key.signed(payload, signature[:-1])
        assert not key.signed(signature[-1:] + payload, signature[:-1])
        assert not key.signed(payload[1:], signature + payload[:1])
        other = KeyManager(MemoryVault(), clock=FakeClock())
        other.generate_keypair()
        assert not other.public.keys[0].signed(payload, signature)
        for place in range(len(signature)):
            flipped = bytearray(signature)
            flipped[place] ^= 1
            assert not key.signed(payload, bytes(flipped))

    def test_what_is_remembered_is_bounded(
        self, keys: KeyManager, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(key_module, "_MOST_PROVEN", 3)
        (key,) = keys.public.keys
        signed = [(text, keys.sign(text)[1]) for text in (b"a", b"b", b"c", b"d", b"e")]
        sizes = [len(key._proven) for each in signed if key.signed(*each)]  # type: ignore[attr-defined]
        assert sizes == [1, 2, 3, 1, 2]
        assert all(key.signed(*each) for each in signed)


class TestOwnerPubFile:
    def test_round_trip(self, keys: KeyManager) -> None:
        keys.rotate()
        text = keys.public.to_text()
        assert PublicKeys.from_text(text) == keys.public
        assert " active " in text.splitlines()[1]
        assert " retired " in text.splitlines()[2]

    def test_a_bare_key(self, keys: KeyManager) -> None:
        key = keys.public.keys[0]
        assert PublicKeys.from_text(key.hex).keys[0].raw == key.raw

    @pytest.mark.parametrize(
        "text",
        ["", "# only a comment\n", "zz", f"{'ab' * 32} active", f"{'ab' * 32} active yesterday -"],
    )
    def test_what_is_not_such_a_file(self, text: str) -> None:
        with pytest.raises(PublicKeyInvalid):
            PublicKeys.from_text(text)
