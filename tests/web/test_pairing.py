"""Becoming a device: one code, once, soon, and few guesses."""

from pathlib import Path

import numpy as np
import pytest
import zxingcpp

from silas.kernel import canonical_bytes
from silas.testing import FakeClock
from silas.web.errors import PairingRefused
from silas.web.pairing import LIFETIME, MAX_GUESSES, PairingCodes, PairingLink, make_link, qr_rows
from tests.web.place import Place, TestDevice, environ_for, open_place


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


def read_by_a_camera(rows: list[str]) -> str:
    """What a phone reads in a QR code."""
    light = np.array([[0 if dark == "1" else 255 for dark in row] for row in rows], dtype=np.uint8)
    [found] = zxingcpp.read_barcodes(light.repeat(4, axis=0).repeat(4, axis=1))
    return str(found.text)


class TestPhones:
    def link(self, *origins: str, token: bool = False) -> PairingLink:
        return make_link(
            PairingCodes(FakeClock()),
            address="http://127.0.0.1:8420",
            public_origins=origins,
            needs_token=token,
        )

    def test_a_phone_gets_its_own_address_and_the_same_code(self) -> None:
        made = self.link("http://192.0.2.5:8420", "https://silas.example.org/", token=True)
        assert made.phone is not None
        assert made.missing is None
        assert made.phone.needs_token
        assert made.phone.link.startswith("https://silas.example.org/#pair=")
        assert made.phone.link.partition("#")[2] == made.link.partition("#")[2]
        assert read_by_a_camera(made.phone.qr) == made.phone.link

    @pytest.mark.parametrize(
        ("origins", "said"),
        [
            ((), "it needs an https address that it can reach"),
            (("http://192.0.2.5:8420",), "browsers make keys on https alone"),
            (("https://localhost:8420",), "this machine's own name"),
            (("https://127.0.0.1:8420",), "this machine's own name"),
        ],
    )
    def test_what_is_missing_is_said(self, origins: tuple[str, ...], said: str) -> None:
        made = self.link(*origins)
        assert made.phone is None
        assert made.missing is not None
        assert said in made.missing

    @pytest.mark.parametrize("length", [30, 80, 200, 400])
    def test_links_of_any_length_can_be_read(self, length: int) -> None:
        text = f"https://{'a' * length}.example/#pair=abc"
        assert read_by_a_camera(qr_rows(text)) == text


class TestInviting:
    async def test_a_page_on_the_machine_lets_another_in(self, place: Place) -> None:
        device = await place.device()
        async with device.conversation():
            answer = await device.signed_post("/api/devices/invite", {})
        assert answer.status_code == 200
        said = answer.json()
        assert "phone" not in said
        assert "https address" in said["missing"]
        code = said["link"].partition("#pair=")[2]
        assert (await TestDevice(place.address, name="Another").pair(code)).status_code == 200
        [entry] = [e for e in await place.core.audit.tail(50) if e.event == "device_invited"]
        assert entry.data == {"device_id": device.device_id}

    async def test_a_session_alone_does_not(self, place: Place) -> None:
        device = await place.device()
        async with device.conversation():
            cookie = {"Cookie": f"silas_session={device.cookie}"}
            answer = await device.post("/api/devices/invite", {}, **cookie)
        assert answer.status_code == 403
        assert place.web.pairing._open == []

    async def test_a_page_elsewhere_does_not(self, tmp_path: Path) -> None:
        elsewhere = "https://silas.example.org"
        origins = f'["{elsewhere}"]'
        environ = environ_for(tmp_path, SILAS_CHANNELS__WEB__PUBLIC_ORIGINS=origins)
        async with open_place(tmp_path, environ) as place:
            device = await place.device()
            async with device.conversation():
                named = {"Origin": elsewhere, "Host": "silas.example.org"}
                refused = await device.signed_post("/api/devices/invite", {}, **named)
                assert place.web.pairing._open == []
                there = (await device.signed_post("/api/devices/invite", {})).json()["phone"]
        assert refused.status_code == 403
        assert "on the machine where Silas runs" in refused.json()["detail"]
        assert read_by_a_camera(there["qr"]) == there["link"]
        assert there["link"].startswith(f"{elsewhere}/#pair=")
