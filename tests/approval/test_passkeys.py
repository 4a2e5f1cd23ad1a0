"""Passkeys: enrolled by the owner alone, used by a person, for exactly one question."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from silas.approval import (
    DecisionRefused,
    DeviceUnknown,
    KeyManager,
    PasskeyCodes,
    PasskeyStore,
    Use,
    make_code,
)
from silas.testing import MemoryVault
from tests.approval.authenticator import ORIGIN, Authenticator, Private
from tests.approval.desk import Desk

ENROL, ASK = b"e" * 32, b"a" * 32


def made(private: Private | None = None, **changes: Any) -> Authenticator:
    return Authenticator(private or ec.generate_private_key(ec.SECP256R1()), **changes)


def store_of(desk: Desk, vault: MemoryVault | None = None) -> PasskeyStore:
    return PasskeyStore(
        desk.database, desk.keys, vault=vault or MemoryVault(), audit=desk.audit, clock=desk.clock
    )


async def enrolled(
    desk: Desk, key: Authenticator, vault: MemoryVault | None = None
) -> PasskeyStore:
    store = store_of(desk, vault)
    await store.enrol(key.registration(ENROL), challenge=ENROL, origin=ORIGIN, name="A finger")
    return store


@pytest.mark.parametrize("kind", ["ES256", "EdDSA", "RS256"])
async def test_every_kind_of_key_enrols_and_answers(desk: Desk, kind: str) -> None:
    private: Private = {
        "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
        "EdDSA": ed25519.Ed25519PrivateKey.generate,
        "RS256": lambda: rsa.generate_private_key(65537, 2048),
    }[kind]()
    key = made(private)
    store = await enrolled(desk, key)
    [passkey] = await store.trusted()
    assert (passkey.name, passkey.rp_id) == ("A finger", "localhost")
    assert await store.verify(key.assertion(ASK), ASK, origins=(ORIGIN,)) == Use(0, ORIGIN)
    assert "passkey_enrolled" in desk.audit.events()


@pytest.mark.parametrize(
    "said",
    [
        {"challenge": "AAAA"},
        {"challenge": "not base64!"},
        {"origin": "http://localhost:9999"},
        {"origin": "http://localhost.evil.test:8420"},
        {"type": "webauthn.create"},
        {"crossOrigin": True},
        {"topOrigin": "http://evil.test"},
    ],
    ids=str,
)
async def test_an_answer_to_something_else(desk: Desk, said: dict[str, Any]) -> None:
    key = made()
    store = await enrolled(desk, key)
    with pytest.raises(DecisionRefused):
        await store.verify(key.assertion(ASK, **said), ASK, origins=(ORIGIN,))


@pytest.mark.parametrize(
    "changes",
    [{"flags": 0x01}, {"flags": 0x04}, {"flags": 0x00}, {"rp_id": "evil.test"}],
    ids=["not recognised", "not present", "neither", "another page"],
)
async def test_an_authenticator_that_does_not_vouch(desk: Desk, changes: dict[str, Any]) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    store = await enrolled(desk, made(private))
    other = made(private, **changes)
    with pytest.raises(DecisionRefused):
        await store.verify(other.assertion(ASK), ASK, origins=(ORIGIN,))
    with pytest.raises(DecisionRefused):
        await store_of(desk).enrol(
            other.registration(ENROL), challenge=ENROL, origin=ORIGIN, name="x"
        )


async def test_a_foreign_key_and_a_changed_answer(desk: Desk) -> None:
    key = made()
    store = await enrolled(desk, key)
    for wrong in (
        made().assertion(ASK),
        key.assertion(ASK).model_copy(update={"signature": b"0" * 70}),
        key.assertion(ASK).model_copy(update={"authenticator_data": key.head() + b"x"}),
        key.assertion(ASK).model_copy(update={"credential_id": "b3RoZXI"}),
    ):
        with pytest.raises(DecisionRefused):
            await store.verify(wrong, ASK, origins=(ORIGIN,))


@pytest.mark.parametrize("cose", [b"", b"\xa5" * 77, b"\xa0", bytes(42)], ids=repr)
async def test_a_key_in_an_encoding_that_is_not_known(desk: Desk, cose: bytes) -> None:
    wrong = made().registration(ENROL, cose=cose)
    with pytest.raises(DecisionRefused):
        await store_of(desk).enrol(wrong, challenge=ENROL, origin=ORIGIN, name="x")


async def test_something_behind_the_key(desk: Desk) -> None:
    wrong = made().registration(ENROL, more=b"\xa0")
    with pytest.raises(DecisionRefused):
        await store_of(desk).enrol(wrong, challenge=ENROL, origin=ORIGIN, name="x")


async def test_the_counter_only_grows(desk: Desk) -> None:
    key = made(count=5)
    store = await enrolled(desk, key)

    async def use(count: int) -> None:
        key.count = count
        used = await store.verify(key.assertion(ASK), ASK, origins=(ORIGIN,))
        name = key.assertion(ASK).credential_id
        await desk.database.transaction(lambda tx: store.count_in(tx, name, used))

    await use(6)
    for late in (6, 5, 0):
        with pytest.raises(DecisionRefused, match="copy"):
            await use(late)
    await use(7)


@pytest.mark.parametrize("column", ["public_key", "rp_id", "name", "endorsement", "enrolled_at"])
async def test_a_changed_row_is_nobodys_passkey(desk: Desk, column: str) -> None:
    key = made()
    store = await enrolled(desk, key)
    foreign = {
        "public_key": made().cose.hex(),
        "rp_id": "evil.test",
        "name": "Another",
        "endorsement": "AAAA",
        "enrolled_at": "2020-01-01T00:00:00.000000Z",
    }[column]
    await desk.database.execute(f"UPDATE passkeys SET {column} = ?", (foreign,))
    assert await store.trusted() == []
    with pytest.raises(DecisionRefused):
        await store.verify(key.assertion(ASK), ASK, origins=(ORIGIN,))


async def test_revoked_is_for_good_and_rotating_the_key_ends_them_all(desk: Desk) -> None:
    vault, key = MemoryVault(), made()
    store = await enrolled(desk, key, vault)
    other = made(credential=b"credential-2")
    await store.enrol(other.registration(ENROL), challenge=ENROL, origin=ORIGIN, name="B")
    first = key.assertion(ASK).credential_id
    await store.revoke(first)
    await desk.database.execute("UPDATE passkeys SET revoked_at = NULL")
    assert [each.name for each in await store_of(desk, vault).trusted()] == ["B"]
    with pytest.raises(DeviceUnknown):
        await store.enrol(key.registration(ENROL), challenge=ENROL, origin=ORIGIN, name="again")
    desk.keys.rotate()
    assert await store.trusted() == []


async def test_a_code_is_the_owners_word_once(desk: Desk) -> None:
    codes = PasskeyCodes(desk.keys, desk.clock)
    with pytest.raises(DecisionRefused):
        codes.redeem("")
    given = make_code(desk.keys, desk.clock)
    codes.allow(given.statement)
    with pytest.raises(DecisionRefused):
        codes.redeem("0")
    codes.redeem(given.code)
    with pytest.raises(DecisionRefused):
        codes.redeem(given.code)
    given = make_code(desk.keys, desk.clock)
    codes.allow(given.statement)
    desk.clock.advance(minutes=11)
    with pytest.raises(DecisionRefused):
        codes.redeem(given.code)
    with pytest.raises(DecisionRefused):
        codes.allow(given.statement)


async def test_a_word_that_is_not_the_owners(desk: Desk) -> None:
    codes, stranger = (
        PasskeyCodes(desk.keys, desk.clock),
        KeyManager(MemoryVault(), clock=desk.clock),
    )
    stranger.generate_keypair()
    theirs, ours = make_code(stranger, desk.clock), make_code(desk.keys, desk.clock)
    for wrong in (
        theirs.statement,
        {**ours.statement, "digest": theirs.statement["digest"]},
        {**ours.statement, "until": "2999-01-01T00:00:00.000000Z"},
        {},
    ):
        with pytest.raises(DecisionRefused):
            codes.allow(wrong)


async def test_a_few_wrong_guesses_void_the_code(desk: Desk) -> None:
    codes = PasskeyCodes(desk.keys, desk.clock)
    given = make_code(desk.keys, desk.clock)
    codes.allow(given.statement)
    for guess in range(5):
        with pytest.raises(DecisionRefused):
            codes.redeem(str(guess))
    with pytest.raises(DecisionRefused):
        codes.redeem(given.code)


async def test_the_owners_word_for_a_code_is_taken_once(desk: Desk) -> None:
    codes = PasskeyCodes(desk.keys, desk.clock)
    given = make_code(desk.keys, desk.clock)
    codes.allow(given.statement)
    codes.redeem(given.code)
    with pytest.raises(DecisionRefused):
        codes.allow(given.statement)
    with pytest.raises(DecisionRefused):
        codes.redeem(given.code)
