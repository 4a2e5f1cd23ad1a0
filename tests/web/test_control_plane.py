"""How control planes of peers were taken over, tried here: each must fail.

The browser's half is in `test_browser_attacks`; configuration is in `test_onboarding`.
"""

import json
import logging

import pytest

from tests.web.place import Place, TestDevice


async def test_a_brute_force_of_the_pairing_code_voids_it(place: Place) -> None:
    """A local password that can be tried for ever; a limiter that a bogus token skips."""
    code = place.code()
    for guess in range(5):
        thief = TestDevice(place.address, name="thief")
        wrong = await thief.pair(f"{code[:-2]}{guess:02d}", token="bogus")
        assert wrong.status_code == 403
    late = await TestDevice(place.address).pair(code)
    assert late.status_code == 403, "the right code is void as well"
    assert await place.core.devices.list() == []
    refused = [e for e in await place.core.audit.tail(20) if e.event == "pairing_refused"]
    assert len(refused) == 6


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "127.0.0.1"},
        {"Forwarded": "for=127.0.0.1;host=localhost"},
        {"X-Real-IP": "127.0.0.1", "X-Forwarded-Proto": "https"},
        {"Authorization": "Bearer owner"},
    ],
    ids=str,
)
async def test_loopback_is_no_credential_behind_a_proxy_or_without_one(
    place: Place, headers: dict[str, str]
) -> None:
    stranger = TestDevice(place.address)
    assert (await stranger.get("/api/devices", **headers)).status_code == 401
    revoke = await stranger.post("/api/devices/x/revoke", {}, **headers)
    assert revoke.status_code == 401


async def test_a_forwarded_host_does_not_make_a_foreign_one_ours(place: Place) -> None:
    host = place.address.removeprefix("http://")
    answer = await TestDevice(place.address).get(
        "/", Host="rebind.test", **{"X-Forwarded-Host": host}
    )
    assert answer.status_code == 421


async def test_scopes_that_a_client_declares_are_not_taken(
    place: Place, device: TestDevice
) -> None:
    """GHSA-rqpp-rjj8-7wv8, GHSA-4jpw-hj22-2xmc: the client says what it may, and it may."""
    more = await TestDevice(place.address).pair(place.code(), role="admin", scopes=["*"])
    assert more.status_code == 422
    async with device.socket() as socket:
        hello = json.loads(await socket.recv())
        wish = {**device.auth(hello["challenge"]), "scopes": ["operator.admin"]}
        await socket.send(json.dumps(wish))
        await socket.wait_closed()
        assert socket.close_code == 4001
    async with device.conversation() as line:
        frame = line.message("what can you do?", sender_id="somebody-else")
        await line.send(frame)
        await line.until("accepted", message_id=frame["message_id"])
        await line.until("message", sender="silas")
    rows = await place.core.database.fetch_all("SELECT DISTINCT connection_id FROM said")
    assert rows == [(place.front.owner_id,)]


async def test_a_revoked_device_is_out_everywhere_at_once(place: Place, device: TestDevice) -> None:
    """GHSA-m8wm-r5vq-qjpg, CVE-2026-44553: cached credentials and open sockets outlive it."""
    async with device.conversation() as line:
        assert (await device.get("/api/devices")).status_code == 200
        await place.core.devices.revoke(device.device_id)
        await line.send(line.message("create a file a.txt with x"))
        await line.socket.wait_closed()
        assert line.socket.close_code == 4001
    assert (await device.get("/api/devices")).status_code == 401
    again = await device.signed_post("/persona/feedback", {"type": "too_wordy"})
    assert again.status_code == 401
    async with device.socket() as socket:
        hello = json.loads(await socket.recv())
        await socket.send(json.dumps(device.auth(hello["challenge"])))
        await socket.wait_closed()
        assert socket.close_code == 4001
    assert await place.house.cards.open_cards() == []


async def test_nothing_that_opens_a_door_is_in_a_log(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """A token in a log that a read-only client can tail."""
    caplog.set_level(logging.DEBUG)
    code = place.code()
    device = TestDevice(place.address)
    assert (await device.pair(code)).status_code == 200
    async with device.conversation() as line:
        await line.say("what can you do?")
        [ready] = [frame for frame in line.heard if frame["type"] == "ready"]
        await line.send({"type": "activity_request", "count": 100})
        told = json.dumps((await line.until("activity"))["entries"])
    secrets = [code, ready["ticket"], str(device.cookie)]
    audited = str([entry.data for entry in await place.core.audit.tail(100)])
    ours = [r.getMessage() for r in caplog.records if r.name.startswith(("silas", "uvicorn"))]
    for place_of_it in ("\n".join(ours), audited, told):
        assert [secret for secret in secrets if secret in place_of_it] == []


@pytest.mark.parametrize(
    "kind",
    ["application/jsonx", "application/json, text/plain", "multipart/form-data; boundary=x", ""],
)
async def test_a_body_of_another_kind_is_not_read_as_json(place: Place, kind: str) -> None:
    """CVE-2026-21858: content-type confusion."""
    headers = {"Content-Type": kind} if kind else {"Content-Type": "x"}
    answer = await TestDevice(place.address).post("/api/pair", {"code": "x"}, **headers)
    assert answer.status_code == 415


async def test_an_approval_is_taken_back_over_the_api(place: Place, device: TestDevice) -> None:
    stranger = TestDevice(place.address)
    assert (await stranger.get("/api/approvals")).status_code == 401
    async with device.conversation() as line:
        await line.say("create a file a.txt with x")
        card = await line.until("approval_request")
        await line.send(line.decision(card, "approved"))
        await line.until("card_closed", request_id=card["request_id"])
        [shown] = (await device.get("/api/approvals")).json()
        assert (shown["scope"], shown["used"], shown["void_reason"]) == ("full_plan", 1, None)
        path = f"/api/approvals/{shown['token_id']}/revoke"
        assert (await stranger.post(path, {})).status_code == 401
        assert (await device.post(path, {})).status_code == 401, "a change is signed"
        taken = (await device.signed_post(path, {})).json()
        assert taken["revoked"] == [shown["token_id"]]
        [after] = (await device.get("/api/approvals")).json()
        assert after["void_reason"] == "The owner has taken this approval back"
    unknown = await device.signed_post("/api/approvals/tok_nothing/revoke", {})
    assert unknown.status_code >= 400
    assert "tok_nothing" in unknown.text
