"""How Silas speaks: chosen, tuned and taken back, on the page and in the conversation."""

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from silas.personality.engine import sample_sentence
from silas.personality.models import AxisProfile
from tests.web.browsing import BEYOND_THE_EDGE, DESK, PHONE, Person
from tests.web.place import Place, TestDevice
from tests.web.test_accessibility import violations_by_day_and_night


def test_every_axis_is_heard_in_the_sample() -> None:
    middle = sample_sentence(AxisProfile())
    for axis in AxisProfile.model_fields:
        ends = {sample_sentence(AxisProfile(**{axis: end})) for end in (0.0, 1.0)}
        if axis != "formality":
            assert ends | {middle} != {middle}, axis
    warm = AxisProfile(warmth=1.0)
    formal = warm.model_copy(update={"formality": 1.0})
    assert sample_sentence(warm) != sample_sentence(formal)


async def test_what_was_said_about_the_manner_can_be_taken_back(
    place: Place, device: TestDevice
) -> None:
    async with device.conversation() as line:
        before = (await device.get("/persona/state")).json()
        said = await line.say("That was too harsh.")
        answer = await line.until("message", sender="silas", trace_id=f"trace_{said['message_id']}")
        assert "Changed: a gentler tone" in answer["text"]
        assert "`silas persona undo`" in answer["text"]
    body = {"delta": {"warmth": 0.2}, "persist_to_baseline": True}
    await device.signed_post("/persona/tune", body)
    now = (await device.get("/persona/state")).json()
    assert [each["text"] for each in now["changes"]] == ["more warmth", "a gentler tone"]
    for text in ("more warmth", "a gentler tone"):
        undone = await device.signed_post("/persona/undo", {})
        assert undone.json() == {"undone": text}
    after = (await device.get("/persona/state")).json()
    assert after["baseline_axes"] == pytest.approx(before["baseline_axes"])
    nothing = await device.signed_post("/persona/undo", {})
    assert nothing.status_code == 404
    assert nothing.json()["detail"] == "You have changed nothing that could be taken back."


async def test_what_holds_for_now_is_taken_back_too(place: Place, device: TestDevice) -> None:
    async with device.conversation():
        before = (await device.get("/persona/state")).json()["directives"]
    for _ in range(2):
        await device.signed_post("/persona/tune", {"delta": {"humor": 0.2, "warmth": 0.2}})
    assert (await device.get("/persona/state")).json()["directives"] != before
    for _ in range(2):
        await device.signed_post("/persona/undo", {})
    assert (await device.get("/persona/state")).json()["directives"] == before


@pytest.mark.slow
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_the_manner_in_settings(place: Place, browser: Browser, size: ViewportSize) -> None:
    engine = place.front.personality
    assert engine is not None
    person = await Person.at(browser, size)
    page = person.page
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await person.pair(place.web.link())
    await page.get_by_role("button", name="Settings").click()
    await page.get_by_role("button", name="Change: How it speaks").click()
    sample = page.locator(".manner-sample")
    await expect(sample).to_contain_text("The test fails")
    before = await sample.inner_text()
    more = page.get_by_role("button", name="More: Playful")
    for _ in range(5):
        async with page.expect_response("**/persona/state"):
            await more.click()
        await expect(more).to_be_focused()
    await expect(sample).to_contain_text("Calendars have the last word")
    assert (await engine.state("owner")).baseline_axes.humor > 0.6
    assert await violations_by_day_and_night(person) == []
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    back = page.get_by_role("button", name="Take it back")
    for _ in range(5):
        async with page.expect_response("**/persona/state"):
            await back.click()
    await expect(back).to_have_count(0)
    await expect(page.get_by_text("Taken back: more humor.")).to_be_visible()
    await expect(sample).to_have_text(before)
    assert person.complaints == []
