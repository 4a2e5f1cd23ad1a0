"""Every reason for which a passkey is refused, in the words that a person reads."""

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from silas.approval import (
    Assertion,
    DecisionRefused,
    DeviceUnknown,
    PasskeyCodes,
    PasskeyStore,
    Registration,
    Use,
    make_code,
)
from silas.approval.passkeys import page_name
from silas.kernel import SilasError
from silas.storage import Durability
from silas.testing import MemoryVault
from tests.approval.authenticator import ORIGIN, Authenticator
from tests.approval.desk import Desk

ENROL, ASK = b"e" * 32, b"a" * 32
ES256 = bytes.fromhex("a5010203262001215820")
UNREADABLE = "The passkey's answer cannot be read."
FOREIGN_PAGE = "The passkey belongs to another page."
NOT_RECOGNISED = "The passkey has not recognised you: use a finger, a face or a PIN."
OTHER_KIND = "The passkey has a key of a kind that is not used here."
NOT_ITSELF = "The passkey is not the one that it says it is."
NOT_THE_OWNERS_WORD = "This is not the owner's word."
TOO_OLD = "This is not the owner's word, or it is too old."
WRONG_CODE = "The code is wrong, used or too old. Run `silas devices passkey` for a new one."


@pytest.fixture
def key() -> Authenticator:
    return Authenticator(ec.generate_private_key(ec.SECP256R1()))


@pytest.fixture
def vault() -> MemoryVault:
    return MemoryVault()


@pytest.fixture
def store(desk: Desk, vault: MemoryVault) -> PasskeyStore:
    return PasskeyStore(desk.database, desk.keys, vault=vault, audit=desk.audit, clock=desk.clock)


async def enrol(store: PasskeyStore, made: Registration, *, name: str = "A finger") -> Any:
    return await store.enrol(made, challenge=ENROL, origin=ORIGIN, name=name)


async def why_not_enrolled(store: PasskeyStore, made: Registration) -> str:
    with pytest.raises(SilasError) as refused:
        await enrol(store, made)
    return refused.value.message


async def why_refused(store: PasskeyStore, answer: Assertion, challenge: bytes = ASK) -> str:
    with pytest.raises(DecisionRefused) as refused:
        await store.verify(answer, challenge, origins=(ORIGIN,))
    return refused.value.message


async def test_an_answer_to_something_else(store: PasskeyStore, key: Authenticator) -> None:
    await enrol(store, key.registration(ENROL))
    for said, told in (
        ({"type": "webauthn.create"}, "The passkey was used for something else."),
        ({"origin": "http://localhost:1"}, "The passkey was used on another page."),
        ({"challenge": "AAAA"}, "The passkey was used for another question."),
        ({"challenge": "not base64!"}, "The passkey was used for another question."),
        ({"challenge": "AB"}, "The passkey was used for another question."),
    ):
        assert await why_refused(store, key.assertion(ASK, **said)) == told


async def test_an_answer_that_is_no_answer(store: PasskeyStore, key: Authenticator) -> None:
    await enrol(store, key.registration(ENROL))
    good = key.assertion(ASK)
    for changes, told in (
        ({"client_data": b"{"}, "The browser's own statement cannot be read."),
        ({"signature": b"0" * 70}, "The passkey has not signed this."),
        ({"credential_id": "b3RoZXI"}, "This passkey is not the owner's, or it was revoked."),
    ):
        assert await why_refused(store, good.model_copy(update=changes)) == told
    assert await why_refused(store, key.assertion(ASK, short=1)) == UNREADABLE
    key.rp_id = "evil.test"
    assert await why_refused(store, key.assertion(ASK)) == FOREIGN_PAGE
    key.rp_id, key.flags = "localhost", 0x01
    assert await why_refused(store, key.assertion(ASK)) == NOT_RECOGNISED


@pytest.mark.parametrize(
    "challenge", [b"\xfb\xef\xff" * 8, bytes(30) + b"\0\0\x17"], ids=["- and _", "X at the end"]
)
async def test_every_challenge_can_be_answered(
    store: PasskeyStore, key: Authenticator, challenge: bytes
) -> None:
    key.count = 0x01_00_00_05
    await enrol(store, key.registration(ENROL))
    used = await store.verify(key.assertion(challenge), challenge, origins=(ORIGIN,))
    assert used == Use(0x01_00_00_05, ORIGIN)


async def test_a_registration_that_is_not_what_it_says(
    store: PasskeyStore, key: Authenticator
) -> None:
    good = key.registration(ENROL)
    other = good.model_copy(update={"credential_id": "b3RoZXI"})
    assert await why_not_enrolled(store, other) == NOT_ITSELF
    assert await why_not_enrolled(store, key.registration(ENROL, flags=0)) == UNREADABLE
    assert await why_not_enrolled(store, key.registration(ENROL, more=b"\xa0")) == UNREADABLE


@pytest.mark.parametrize(
    "cose",
    [ES256 + bytes(67), bytes(267) + bytes.fromhex("2143010001")],
    ids=["half of an ES256", "the end of an RS256"],
)
async def test_a_key_that_is_right_in_one_half(
    store: PasskeyStore, key: Authenticator, cose: bytes
) -> None:
    assert await why_not_enrolled(store, key.registration(ENROL, cose=cose)) == UNREADABLE


async def test_extensions_may_stand_behind_any_key(store: PasskeyStore) -> None:
    key = Authenticator(rsa.generate_private_key(65537, 2048))
    await enrol(store, key.registration(ENROL, flags=0xC0, more=b"\xa0"))
    assert await store.verify(key.assertion(ASK), ASK, origins=(ORIGIN,)) == Use(0, ORIGIN)


def test_a_page_without_a_name_has_none() -> None:
    assert (page_name(ORIGIN), page_name("nonsense")) == ("localhost", "")


async def test_what_is_written_down(desk: Desk, store: PasskeyStore, key: Authenticator) -> None:
    made = await enrol(store, key.registration(ENROL), name="  ")
    assert made.name == "A passkey"
    assert await why_not_enrolled(store, key.registration(ENROL)) == (
        "This passkey is enrolled already."
    )
    gone = await store.revoke(made.credential_id)
    assert (gone.name, gone.trusted) == ("A passkey", False)
    assert desk.audit.entries == [
        ("passkey_enrolled", {"credential_id": made.credential_id, "name": "A passkey"}),
        ("passkey_revoked", {"credential_id": made.credential_id}),
    ]
    assert desk.database.durabilities[-3:] == [Durability.TRUST] * 3


async def test_revoked_ones(
    desk: Desk, vault: MemoryVault, store: PasskeyStore, key: Authenticator
) -> None:
    with pytest.raises(DeviceUnknown, match=r"^There is no such passkey\.$"):
        await store.revoke("b3RoZXI")
    made = await enrol(store, key.registration(ENROL))
    await store.revoke(made.credential_id)
    assert b'"passkeys":' in (vault.get("silas/revoked-passkeys") or b"")
    told = "This passkey was revoked. Make a new one."
    assert await why_not_enrolled(store, key.registration(ENROL)) == told
    vault.set("silas/revoked-passkeys", b'{"format":"another"}')
    with pytest.raises(DeviceUnknown, match="list of revoked passkeys"):
        await store.trusted()
    assert desk.audit.events()[-1] == "passkey_revoked"


async def test_an_endorsement_that_is_no_base64(
    desk: Desk, store: PasskeyStore, key: Authenticator
) -> None:
    await enrol(store, key.registration(ENROL))
    await desk.database.execute("UPDATE passkeys SET endorsement = 'no base64!'")
    assert await store.trusted() == []


async def test_a_copy_of_a_passkey(desk: Desk, store: PasskeyStore, key: Authenticator) -> None:
    key.count = 5
    made = await enrol(store, key.registration(ENROL))
    with pytest.raises(DecisionRefused) as refused:
        await desk.database.transaction(
            lambda tx: store.count_in(tx, made.credential_id, Use(5, ORIGIN))
        )
    assert refused.value.message == "This passkey was used elsewhere since. It may be a copy."


def why_not_allowed(codes: PasskeyCodes, statement: dict[str, str]) -> str:
    with pytest.raises(DecisionRefused) as refused:
        codes.allow(statement)
    return refused.value.message


def why_not_redeemed(codes: PasskeyCodes, code: str) -> str:
    with pytest.raises(DecisionRefused) as refused:
        codes.redeem(code)
    return refused.value.message


def test_codes_have_ten_digits_and_use_them(desk: Desk) -> None:
    codes = [make_code(desk.keys, desk.clock).code for _ in range(40)]
    assert {len(code) for code in codes} == {10}
    assert len({code[0] for code in codes}) > 1


def test_words_that_are_not_taken(desk: Desk) -> None:
    codes, given = PasskeyCodes(desk.keys, desk.clock), make_code(desk.keys, desk.clock)
    assert why_not_allowed(codes, {}) == NOT_THE_OWNERS_WORD
    later = {**given.statement, "until": "2999-01-01T00:00:00.000000Z"}
    assert why_not_allowed(codes, later) == TOO_OLD
    codes.allow(given.statement)
    told = "This code was given out already. Ask for a new one."
    assert why_not_allowed(codes, given.statement) == told


def test_a_code_ends_with_its_last_moment(desk: Desk) -> None:
    codes, late = PasskeyCodes(desk.keys, desk.clock), PasskeyCodes(desk.keys, desk.clock)
    given = make_code(desk.keys, desk.clock)
    codes.allow(given.statement)
    desk.clock.advance(minutes=10)
    assert why_not_redeemed(codes, given.code) == WRONG_CODE
    assert why_not_allowed(late, given.statement) == TOO_OLD


def test_four_wrong_guesses_are_forgiven(desk: Desk) -> None:
    codes = PasskeyCodes(desk.keys, desk.clock)
    for _ in range(2):  # every code gets its own guesses
        given = make_code(desk.keys, desk.clock)
        codes.allow(given.statement)
        for guess in range(4):
            assert why_not_redeemed(codes, str(guess)) == WRONG_CODE
        codes.redeem(given.code)
