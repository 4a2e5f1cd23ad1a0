"""`/api/companions`: what the page may ask for, and how it is refused."""

from typing import Any

import pytest_asyncio

from silas.companions.models import Companion
from silas.journal import OWNER, dispatch
from tests.web.place import Place, TestDevice

API = "/api/companions"


@pytest_asyncio.fixture(loop_scope="session")
async def agent(place: Place, device: TestDevice) -> str:
    """A Planner in the category Gym; the device has a session."""
    async with device.conversation():
        pass
    journal = place.house.journal
    made = await dispatch.call(
        journal, "create_category", {"name": "Gym"}, scope=OWNER, actor="owner"
    )
    wanted = {"kind": "planner", "category_ids": [made.payload["category_id"]]}
    answer = await device.signed_post(f"{API}/new", wanted)
    return str(answer.json()["id"])


async def shown(device: TestDevice, agent: str) -> dict[str, Any]:
    answer = await device.get(f"/api/companions/of/{agent}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_timers_are_set_by_a_signed_request_and_bad_ones_are_a_sentence(
    place: Place, device: TestDevice, agent: str
) -> None:
    def wished(timers: Any) -> dict[str, Any]:
        return {"agent_id": agent, "timers": timers}

    set_timers = f"{API}/set_timers"

    (morning,) = (await shown(device, agent))["timers"]
    unsigned = await device.post(
        set_timers, wished([{"at": "08:00"}]), Cookie=f"silas_session={device.cookie}"
    )
    assert unsigned.status_code == 403
    for timers, told in (
        ([{"at": "25:00"}], "'25:00' is not a time of day, such as 07:00."),
        ([{"at": "08:00", "days": []}], "Choose at least one day of the week"),
        ([{"id": "timer-of-nobody", "active": False}], "This timer is not there any more."),
        ([{"at": "08:00", "active": "perhaps"}], "timers[0].active must be true or false"),
        ("every day", "timers"),
    ):
        answer = await device.signed_post(set_timers, wished(timers))
        assert answer.status_code in (400, 404, 422)
        assert told in answer.json()["detail"]
        assert "\n" not in answer.json()["detail"]
    assert (await shown(device, agent))["timers"] == [morning]
    answer = await device.signed_post(
        set_timers, wished([{"at": "08:00"}, {"id": morning["id"], "remove": True}])
    )
    assert [each["words"] for each in answer.json()] == ["every day at 08:00"]


async def test_whose_model_is_not_configured_any_more_can_still_be_opened(
    place: Place, device: TestDevice, agent: str
) -> None:
    store = place.house.companions.store
    companion = await store.require(Companion, agent)
    gone = companion.config.model_copy(update={"model_id": "gone:model"})
    await store.put(companion.model_copy(update={"config": gone}))
    found = await shown(device, agent)
    assert (found["companion"]["model_id"], found["disclosure"]) == ("gone:model", None)
    overview = await device.get("/api/companions")
    assert overview.json()["models"] == []


async def test_a_long_list_is_shown_in_part_and_found_by_name(
    place: Place, device: TestDevice, agent: str
) -> None:
    companions = place.house.companions
    (planner,) = await companions.service.list()
    gym = [each.id for each in planner.categories]
    for number in range(102):
        await companions.service.new("planner", category_ids=gym, display_name=f"Number {number}/x")
    overview = (await device.get("/api/companions")).json()
    assert (len(overview["companions"]), overview["total"]) == (100, 103)
    found = (await device.get("/api/companions/find/number%20101%2Fx")).json()
    assert [each["display_name"] for each in found["companions"]] == ["Number 101/x"]
    assert found["total"] == 1


async def test_the_emergency_stop_is_one_signed_request(
    place: Place, device: TestDevice, agent: str
) -> None:
    answer = await device.signed_post(f"{API}/stop", {"reason": "now"})
    assert [each["scope"] for each in answer.json()] == ["global"]
    (engaged,) = await place.house.companions.service.switches()
    assert engaged.reason == "now"
