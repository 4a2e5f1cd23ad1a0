"""Becoming a device: one code, once, soon, and few guesses."""

import pytest

from silas.kernel import canonical_bytes
from silas.testing import FakeClock
from silas.web.access import LIFETIME, MAX_GUESSES, PairingCodes
from silas.web.errors import PairingRefused
from tests.web.place import Place, TestDevice


class TestCodes:
    def test_a_code_works_once(self) -> None:
        desk = PairingCodes(FakeClock())
        code = desk.issue().code
        desk.redeem(code)
        with pytest.raises(PairingRefused):
            desk.redeem(code)

    def test_a_code_ends(self) -> None:
        clock = FakeClock()
        desk = PairingCodes(clock)
        code = desk.issue().code
        clock.advance(seconds=LIFETIME.total_seconds())
        with pytest.raises(PairingRefused):
            desk.redeem(code)

    def test_few_guesses_void_every_code(self) -> None:
        desk = PairingCodes(FakeClock())
        code = desk.issue().code
        for _ in range(MAX_GUESSES):
            with pytest.raises(PairingRefused):
                desk.redeem("wrong")
        with pytest.raises(PairingRefused):
            desk.redeem(code)

    def test_one_guess_less_does_not(self) -> None:
        desk = PairingCodes(FakeClock())
        code = desk.issue().code
        for _ in range(MAX_GUESSES - 1):
            with pytest.raises(PairingRefused):
                desk.redeem("wrong")
        desk.redeem(code)

    def test_a_code_cannot_be_guessed(self) -> None:
        desk = PairingCodes(FakeClock())
        codes = {desk.issue().code for _ in range(50)}
        assert len(codes) == 50
        assert min(map(len, codes)) >= 32


async def test_a_wrong_code_is_refused_and_written_down(place: Place) -> None:
    device = TestDevice(place.address)
    answer = await device.pair("wrong-code-wrong-code")
    assert answer.status_code == 403
    assert "silas devices pair" in answer.json()["detail"]
    assert await place.core.devices.list() == []
    [entry] = [e for e in await place.core.audit.tail(20) if e.event == "pairing_refused"]
    assert entry.data == {"reason": "E_CHANNEL_PAIRING"}


async def test_a_used_code_is_refused(place: Place) -> None:
    code = place.code()
    assert (await TestDevice(place.address).pair(code)).status_code == 200
    assert (await TestDevice(place.address).pair(code)).status_code == 403
    assert len(await place.core.devices.list()) == 1


@pytest.mark.parametrize("changed", ["public_key", "name", "signature"])
async def test_the_proof_covers_everything(place: Place, changed: str) -> None:
    values = {
        "public_key": TestDevice(place.address).public_key,
        "name": "Somebody else",
        "signature": "A" * 86 + "==",
    }
    answer = await TestDevice(place.address).pair(place.code(), **{changed: values[changed]})
    assert answer.status_code == 403
    assert await place.core.devices.list() == []


async def test_a_proof_for_another_page_is_none(place: Place) -> None:
    device, code = TestDevice(place.address), place.code()
    proof = {
        "type": "pair",
        "code": code,
        "public_key": device.public_key,
        "name": device.name,
        "origin": "http://evil.test",
    }
    answer = await device.pair(code, signature=device.sign(canonical_bytes(proof)))
    assert answer.status_code == 403


@pytest.mark.parametrize("key", ["00" * 32, "01" + "00" * 31, "zz" * 32, ""])
async def test_a_weak_key_is_no_key(place: Place, key: str) -> None:
    answer = await TestDevice(place.address).pair(place.code(), public_key=key)
    assert answer.status_code in {403, 422}
    assert await place.core.devices.list() == []
