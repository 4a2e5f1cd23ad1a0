"""Passkeys over HTTP and the socket, against somebody who has a paired device and nothing else."""

import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from silas.approval import make_code
from silas.review.decisions import challenge_of
from tests.approval.authenticator import Authenticator
from tests.web.place import Line, Place, TestDevice
from tests.web.strong import ask, plan_calling


def finger() -> Authenticator:
    return Authenticator(ec.generate_private_key(ec.SECP256R1()), rp_id="127.0.0.1")


def unpacked(value: Any) -> dict[str, Any]:
    return value.model_dump(mode="json")  # type: ignore[no-any-return]


async def challenge(device: TestDevice) -> bytes:
    answer = await device.signed_post("/api/passkeys/challenge", {})
    assert answer.status_code == 200, answer.text
    text = answer.json()["challenge"]
    return base64.urlsafe_b64decode(f"{text}==")


async def enrol(device: TestDevice, key: Authenticator, made: bytes, **right: Any) -> int:
    registration = unpacked(key.registration(made, origin=device.address))
    body = {"registration": registration, "name": "A finger", **right}
    return (await device.signed_post("/api/passkeys", body)).status_code


async def code_of(place: Place) -> str:
    given = make_code(place.core.keys, place.core.clock)
    await place.web.passkey_code(given.statement)
    return given.code


async def test_a_device_alone_enrols_nothing(place: Place, device: TestDevice) -> None:
    key = finger()
    async with device.conversation():
        made = await challenge(device)
        registration = unpacked(key.registration(made, origin=device.address))
        body = {"registration": registration, "name": "x", "code": await code_of(place)}
        assert (await device.post("/api/passkeys", body)).status_code == 401, "no session"
        cookie = {"Cookie": f"silas_session={device.cookie}"}
        assert (await device.post("/api/passkeys", body, **cookie)).status_code == 403, "unsigned"
        assert await enrol(device, key, made) == 403, "without a code"
        assert await enrol(device, key, made, code=await code_of(place)) == 403, "used challenge"
        assert await enrol(device, key, b"x" * 32, code=await code_of(place)) == 403
        own = unpacked(key.assertion(await challenge(device), origin=device.address))
        assert await enrol(device, key, await challenge(device), approval=own) == 403, "by itself"
        assert await place.core.passkeys.trusted() == []
        code = await code_of(place)
        assert await enrol(device, key, await challenge(device), code=code) == 200
        other = await challenge(device)
        assert await enrol(device, finger(), other, code=code) == 403, "a code works once"


def approval(line: Line, card: dict[str, Any], passkey: Any = None) -> dict[str, Any]:
    frame = line.decision(card, "approved")
    return {**frame, "passkey": unpacked(passkey) if passkey else None}


async def enrolled(place: Place, device: TestDevice) -> Authenticator:
    key = finger()
    assert await enrol(device, key, await challenge(device), code=await code_of(place)) == 200
    return key


async def test_what_is_for_good_takes_the_passkey_over_exactly_its_hash(
    place: Place, device: TestDevice
) -> None:
    await ask(place, plan_calling("delete_records"))
    await ask(place, plan_calling("delete_records", name="other"), card_id="card_2")
    async with device.conversation() as line:
        card = await line.until("approval_request", request_id="card_1")
        key = await enrolled(place, device)
        wanted = challenge_of({each["id"]: each["plan_hash"] for each in card["items"]})
        assert wanted.hex() == card["items"][0]["plan_hash"]
        right = key.assertion(wanted, origin=device.address)
        for wrong, code in (
            (None, "E_CHANNEL_STRONGER_PROOF"),
            (key.assertion(b"0" * 32, origin=device.address), "E_APPROVAL_DECISION"),
            (key.assertion(wanted, origin="http://evil.test"), "E_APPROVAL_DECISION"),
            (finger().assertion(wanted, origin=device.address), "E_APPROVAL_DECISION"),
        ):
            await line.send(approval(line, card, wrong))
            assert (await line.until("error"))["code"] == code
        assert (await place.house.cards.get("card_1")).state == "open"
        await line.send(approval(line, card, right))
        assert (await line.until("card_closed", request_id="card_1"))["state"] == "approved"
        second = await line.until("approval_request", request_id="card_2")
        await line.send(approval(line, second, right))
        assert (await line.until("error"))["code"] == "E_APPROVAL_DECISION", "for another plan"


@pytest.mark.parametrize(
    "change", ["UPDATE decisions SET assertion = NULL", "DELETE FROM passkeys"]
)
async def test_a_proof_that_is_gone_is_no_proof(
    place: Place, device: TestDevice, change: str
) -> None:
    await ask(place, plan_calling("delete_records"))
    async with device.conversation() as line:
        card = await line.until("approval_request", request_id="card_1")
        key = await enrolled(place, device)
        wanted = bytes.fromhex(card["items"][0]["plan_hash"])
        await line.send(approval(line, card, key.assertion(wanted, origin=device.address)))
        await line.until("card_closed", request_id="card_1")
        assert await place.house.cards.decision("card_1") is not None
        await place.core.database.execute(change)
        assert await place.house.cards.decision("card_1") is None
