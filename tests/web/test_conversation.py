"""A paired device talks to a real Silas: plan, approval, execution, check."""

import asyncio
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from silas.kernel import TaintLevel
from tests.web.place import Place, TestDevice, environ_for, open_place

ASK = "create a file a.txt with hello"


async def test_from_the_question_to_the_checked_result(place: Place, device: TestDevice) -> None:
    async with device.conversation() as line:
        said = await line.say(ASK)
        origin = f"trace_{said['message_id']}"
        card = await line.until("approval_request")
        assert (card["title"], card["risk_level"]) == ("Write a.txt", "medium")
        assert card["steps"] == ["tap", "confirm"]
        assert list(card["consequences"]) == ["approved", "edit_requested", "declined"]
        assert not (place.home / "silas-files" / "a.txt").exists()
        await line.send(line.decision(card, "approved"))
        assert (await line.until("card_closed"))["state"] == "approved"
        work = await line.until("work", status="done")
        assert [check["passed"] for check in work["checks"]] == [True]
        assert (place.home / "silas-files" / "a.txt").read_text() == "hello\n"
    known = await place.house.stream.turns.store.origin(origin)
    assert known is not None
    assert known.taint is TaintLevel.OWNER
    decided = await place.house.cards.decision(card["request_id"])
    assert decided is not None


async def test_no_means_no(place: Place, device: TestDevice) -> None:
    async with device.conversation() as line:
        await line.say(ASK)
        card = await line.until("approval_request")
        await line.send(line.decision(card, "declined"))
        answer = await line.until("message", sender="silas", card_id=None)
        assert "not approved" in answer["text"]
    assert not (place.home / "silas-files" / "a.txt").exists()


async def test_whoever_was_away_misses_nothing_and_hears_nothing_twice(device: TestDevice) -> None:
    async with device.conversation() as line:
        await line.say("what can you do?")
        answer = await line.until("message", sender="silas")
    async with device.conversation(delivery=answer["number"]) as line:
        missed = await line.until("history")
        assert [each["sender"] for each in missed["messages"]] == ["owner"]
    async with device.conversation() as line:
        everything = await line.until("history")
        assert [each["sender"] for each in everything["messages"]] == ["owner", "silas"]


async def test_the_same_message_sent_again_is_the_same_message(
    place: Place, device: TestDevice
) -> None:
    async with device.conversation() as line:
        frame = line.message("hello")
        for _ in range(2):
            await line.send(frame)
            await line.until("accepted", message_id=frame["message_id"])
        await line.until("message", sender="silas")
        await line.send({"type": "ping"})
        await line.until("pong")
    assert len(await place.front.said.newest("owner", 10)) == 1
    assert await place.house.deliveries.last("owner") == 1


async def test_two_devices_see_the_same(place: Place, device: TestDevice) -> None:
    other = await place.device("Another")
    async with device.conversation() as line, other.conversation() as second:
        await line.say(ASK)
        await second.until("message", sender="owner", text=ASK)
        card = await second.until("approval_request")
        await second.send(second.decision(card, "declined"))
        assert (await line.until("card_closed"))["state"] == "declined"
        await line.send(line.decision(card, "approved"))
        assert (await line.until("error"))["code"] == "E_CHANNEL_CARD_DECIDED"


async def test_after_a_restart_everything_is_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = environ_for(tmp_path)
    monkeypatch.setenv("HOME", environ["HOME"])
    async with asyncio.timeout(400):
        async with open_place(tmp_path, environ) as place:
            device = await place.device()
            async with device.conversation() as line:
                await line.say(ASK)
                await line.until("approval_request")
        async with open_place(tmp_path, environ) as place, device.conversation() as line:
            card = await line.until("approval_request", state="open")
            history = await line.until("history")
            assert history["messages"][0]["text"] == ASK
            await line.send(line.decision(card, "approved"))
            await line.until("work", status="done")
    assert (tmp_path / "home" / "silas-files" / "a.txt").read_text() == "hello\n"


async def test_what_happened_is_told_from_the_log(device: TestDevice) -> None:
    async with device.conversation() as line:
        await line.send({"type": "activity_request", "count": 10})
        told = await line.until("activity")
    assert told["entries"][0]["text"] == "A device was paired: A test."


class TestRevoking:
    async def test_an_open_socket_is_closed_at_once(self, place: Place, device: TestDevice) -> None:
        async with device.conversation() as line:
            await place.core.devices.revoke(device.device_id)
            await place.web.devices_changed()
            with pytest.raises(ConnectionClosed) as closed:
                await line.until("never")
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4001

    async def test_without_being_told_it_cannot_say_or_decide_anything(
        self, place: Place, device: TestDevice
    ) -> None:
        async with device.conversation() as line:
            await line.say(ASK)
            card = await line.until("approval_request")
            await place.core.devices.revoke(device.device_id)
            await line.send(line.decision(card, "approved"))
            with pytest.raises(ConnectionClosed):
                await line.until("never")
        [kept] = await place.house.cards.open_cards()
        assert kept.card_id == card["request_id"]

    async def test_it_does_not_come_in_again(self, place: Place, device: TestDevice) -> None:
        await place.core.devices.revoke(device.device_id)
        with pytest.raises(ConnectionClosed):
            async with device.conversation():
                pass

    async def test_from_the_page(self, place: Place, device: TestDevice) -> None:
        other = await place.device("Another")
        async with device.conversation(), other.conversation() as line:
            done = await device.signed_post(f"/api/devices/{other.device_id}/revoke", {})
            assert done.json() == {"revoked": True}
            with pytest.raises(ConnectionClosed):
                await line.until("never")


async def test_who_decides_faster_than_one_reads_is_told_and_not_stopped(
    place: Place, device: TestDevice
) -> None:
    async with device.conversation() as line:
        assert not (await line.until("attention"))["hasty"]
        for number in range(9):  # at once, however busy the disk is
            await asyncio.gather(
                place.core.audit.log("card_asked", card_id=f"{number}", risk="medium"),
                place.core.audit.log("card_decided", card_id=f"{number}", verdict="declined"),
            )
        await line.say("create a file one.txt with hello")
        card = await line.until("approval_request")
        await line.send(line.decision(card, "declined"))
        await line.until("card_closed", request_id=card["request_id"])
        cue = await line.until("attention")
        assert (cue["hasty"], cue["crowded"]) == (True, False)
        for number in range(6):
            await line.say(f"create a file more{number}.txt with hello")
            card = await line.until("approval_request")
        assert (await line.until("attention"))["crowded"]
        await line.send(line.decision(card, "declined"))
        await line.until("card_closed", request_id=card["request_id"], state="declined")
    noticed = await place.core.audit.tail(10, event="approval_fatigue")
    assert len(noticed) == 1
