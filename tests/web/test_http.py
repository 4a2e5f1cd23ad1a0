"""Over HTTP: health, secrets, the manner, devices; read with a session, changed by signature."""

import json

import pytest
import pytest_asyncio

from tests.web.place import Place, TestDevice


@pytest_asyncio.fixture(loop_scope="session")
async def entered(device: TestDevice) -> TestDevice:
    """A device with a session."""
    async with device.conversation():
        pass
    return device


async def test_health(place: Place, device: TestDevice) -> None:
    async with device.conversation():
        answer = await device.get("/health")
        assert answer.json() == {"status": "ok", "connections": 1}


class TestSecrets:
    REF = "mail/password"

    async def test_only_what_was_asked_for_is_stored_and_once(
        self, place: Place, entered: TestDevice
    ) -> None:
        path, body = f"/secrets/{self.REF}", {"value": "s3cret-value"}
        assert (await entered.signed_post(path, body)).status_code == 404
        await place.front.secrets.ask(self.REF, "Password")
        answer = await entered.signed_post(path, body)
        assert (answer.status_code, answer.json()) == (200, {"stored": True})
        assert place.core.vault.get(self.REF) == b"s3cret-value"
        assert (await entered.signed_post(path, body)).status_code == 409
        entries = await place.core.audit.tail(5)
        assert [e.data for e in entries if e.event == "secret_stored"] == [{"ref_id": self.REF}]
        assert "s3cret-value" not in str([entry.data for entry in entries])

    async def test_the_cookie_alone_changes_nothing(
        self, place: Place, entered: TestDevice
    ) -> None:
        await place.front.secrets.ask(self.REF, "Password")
        path, cookie = f"/secrets/{self.REF}", f"silas_session={entered.cookie}"
        answer = await entered.post(path, {"value": "x"}, Cookie=cookie)
        assert answer.status_code == 403
        assert place.core.vault.get(self.REF) is None

    async def test_the_signature_alone_changes_nothing(
        self, place: Place, entered: TestDevice
    ) -> None:
        entered.cookie = "guessed"
        assert (await entered.signed_post("/secrets/x", {"value": "x"})).status_code == 401

    async def test_a_signed_request_works_once(self, place: Place, entered: TestDevice) -> None:
        first = await entered.signed_post("/persona/feedback", {"type": "too_wordy"})
        assert first.status_code == 200
        kept = {name: value for name, value in first.request.headers.items() if "silas" in name}
        again = await entered.post(
            "/persona/feedback",
            {"type": "too_wordy"},
            Cookie=f"silas_session={entered.cookie}",
            **kept,
        )
        assert again.status_code == 403

    @pytest.mark.parametrize(
        "headers",
        [
            {"Silas-Timestamp": "2020-01-01T00:00:00.000000Z"},
            {"Silas-Timestamp": "yesterday"},
            {"Silas-Signature": "?"},
            {"Silas-Signature": ""},
            {"Silas-Nonce": "another"},
        ],
        ids=str,
    )
    async def test_a_changed_signature_is_none(
        self, entered: TestDevice, headers: dict[str, str]
    ) -> None:
        answer = await entered.signed_post("/persona/feedback", {"type": "too_wordy"}, **headers)
        assert answer.status_code == 403


class TestPersona:
    async def test_state(self, entered: TestDevice) -> None:
        state = (await entered.get("/persona/state")).json()
        assert state["preset"] == "default"
        assert state["directives"]

    async def test_preset(self, entered: TestDevice) -> None:
        assert (await entered.signed_post("/persona/preset", {"preset": "work"})).json() == {
            "preset": "work"
        }
        unknown = await entered.signed_post("/persona/preset", {"preset": "nobody"})
        assert unknown.status_code == 404

    async def test_feedback_moves_an_axis(self, entered: TestDevice) -> None:
        before = (await entered.get("/persona/state")).json()["baseline_axes"]["assertiveness"]
        await entered.signed_post("/persona/feedback", {"type": "too_harsh"})
        after = (await entered.get("/persona/state")).json()["baseline_axes"]["assertiveness"]
        assert after == pytest.approx(before - 0.05)

    async def test_feedback_in_the_conversation_moves_an_axis(
        self, place: Place, entered: TestDevice
    ) -> None:
        async def assertiveness() -> float:
            state = (await entered.get("/persona/state")).json()
            return float(state["baseline_axes"]["assertiveness"])

        before = await assertiveness()
        async with entered.conversation() as line:
            said = await line.say("That was too harsh.")
            answer = await line.until(
                "message", sender="silas", trace_id=f"trace_{said['message_id']}"
            )
            assert "gentler" in answer["text"]
            assert await assertiveness() == pytest.approx(before - 0.05)
            said = await line.say("Remember that the report was too harsh.")
            await line.until("message", sender="silas", trace_id=f"trace_{said['message_id']}")
            assert await assertiveness() == pytest.approx(before - 0.05)

    async def test_tuning_for_now_changes_the_next_turn(
        self, place: Place, entered: TestDevice
    ) -> None:
        assert place.front.personality is not None
        async with entered.conversation() as line:
            before = (await entered.get("/persona/state")).json()["directives"]
            for _ in range(3):
                await entered.signed_post("/persona/tune", {"delta": {"warmth": 0.2}})
            await line.say("what can you do?")
            told = await place.front.personality.character("owner", "what can you do?")
        assert "Be caring first" in told[0]
        assert "Be caring first" not in before

    async def test_tuning(self, entered: TestDevice) -> None:
        done = await entered.signed_post(
            "/persona/tune", {"delta": {"warmth": 0.1}, "persist_to_baseline": True}
        )
        assert done.status_code == 200
        wrong = await entered.signed_post("/persona/tune", {"delta": {"power": 1}})
        assert wrong.status_code == 422

    async def test_what_is_tuned_for_now_is_in_the_next_turn(
        self, place: Place, entered: TestDevice
    ) -> None:
        engine = place.house.stream.turns.personality
        assert engine is not None
        before, _ = await engine.character(place.front.owner_id, "default")
        await entered.signed_post("/persona/tune", {"delta": {"warmth": -0.6, "humor": 0.6}})
        after, _ = await engine.character(place.front.owner_id, "default")
        assert after != before

    async def test_strangers_see_nothing(self, place: Place) -> None:
        assert (await TestDevice(place.address).get("/persona/state")).status_code == 401


class TestDescription:
    @pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/redoc"])
    async def test_nobody_is_served_a_list_of_the_routes(
        self, place: Place, entered: TestDevice, path: str
    ) -> None:
        for device in (TestDevice(place.address), entered):
            answer = await device.get(path)
            assert answer.status_code == 404
            assert "/api/" not in answer.text


class TestSession:
    async def test_a_ticket_works_once(self, device: TestDevice) -> None:
        async with device.conversation() as line:
            [ready] = [frame for frame in line.heard if frame["type"] == "ready"]
            again = await device.post("/api/session", {"ticket": ready["ticket"]})
            assert again.status_code == 403

    async def test_the_cookie_is_not_for_scripts_or_other_sites(self, device: TestDevice) -> None:
        async with device.socket() as socket:
            await socket.send(json.dumps(device.auth(json.loads(await socket.recv())["challenge"])))
            ready = json.loads(await socket.recv())
            answer = await device.post("/api/session", {"ticket": ready["ticket"]})
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie

    async def test_a_revoked_device_has_no_session(self, place: Place, entered: TestDevice) -> None:
        assert (await entered.get("/api/devices")).status_code == 200
        await place.core.devices.revoke(entered.device_id)
        assert (await entered.get("/api/devices")).status_code == 401
