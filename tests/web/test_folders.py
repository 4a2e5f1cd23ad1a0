"""Places over the API, and in a real Chromium: asked, answered, listed and closed."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from tests.stream.reading_home import until
from tests.web.browsing import DESK, PHONE, Person
from tests.web.place import Place
from tests.web.test_accessibility import violations
from tests.web.test_cards import PICTURES, looks_right


async def test_a_device_asks_lists_and_closes(fresh_place: Place) -> None:
    place = fresh_place
    (place.home / "club").mkdir()
    device = await place.device()
    async with device.conversation() as line:
        unsigned = await device.post(
            "/api/folders/open", {"path": "~/club"}, Cookie=f"silas_session={device.cookie}"
        )
        assert unsigned.status_code in (401, 403)
        asked = await device.signed_post("/api/folders/open", {"path": "~/club"})
        assert asked.json()["asks"] == "May Silas read the files in ~/club?"
        card = await line.until("decision", request_id=asked.json()["card_id"])
        assert str(place.home / "club") not in (await device.get("/api/folders")).text
        questions = place.house.reviews.questions
        await questions.answer_with_vault(card["request_id"], {"selected_value": "approve"})
        await line.until("card_closed", request_id=card["request_id"])
        path = str(place.home / "club")

        async def is_open() -> bool:
            return path in (await device.get("/api/folders")).text

        await until(is_open)
        closed = await device.signed_post("/api/folders/close", {"place": path})
        assert [each["path"] for each in closed.json()] == [path]
        again = await device.signed_post("/api/folders/close", {"place": path})
        assert again.status_code == 404 or "is not open to Silas" in again.text


@pytest.mark.slow
@pytest.mark.parametrize(("size", "name"), [(PHONE, "phone"), (DESK, "desk")])
async def test_a_folder_is_opened_from_the_conversation_and_closed_in_the_settings(
    fresh_place: Place, browser: Browser, size: ViewportSize, name: str
) -> None:
    place = fresh_place
    (place.home / "shop").mkdir()
    (place.home / "shop" / "hours.txt").write_text("9 to 17\n")
    person = await Person.at(browser, size)
    page = person.page
    await person.pair(place.web.link())
    await person.say("What files are in ~/shop?")
    await page.get_by_role("button", name="Answer", exact=True).last.click()
    card = page.locator(".review-active .card-of-place")
    await expect(card).to_contain_text("May Silas read the files in ~/shop?")
    await expect(card).to_contain_text("nothing leaves this machine")
    await looks_right(person, f"{name}-card-place")
    await page.get_by_role("button", name="Let Silas read shop").click()
    if size == PHONE:
        await person.go("stream")
    await expect(page.locator(".message.silas").last).to_contain_text("hours.txt (8 bytes)")
    if PICTURES:
        await page.screenshot(path=Path(PICTURES) / f"{name}-read.png")
    await page.get_by_role("button", name="Settings").first.click()
    await page.get_by_role("button", name="Show: Folders").click()
    dialog = page.get_by_role("dialog", name="Settings")
    await expect(dialog).to_contain_text("Open by your settings")
    close = dialog.get_by_role("button", name="Take back: ~/shop")
    await expect(close).to_be_visible()
    assert await violations(person) == []
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if PICTURES:
        await page.screenshot(path=Path(PICTURES) / f"{name}-folders.png")
    await close.click()
    await expect(close).to_have_count(0)
    assert str(place.home / "shop") not in str(await place.house.places.listed())
    assert person.complaints == []
    await dialog.get_by_label("Folder or file to open").fill("~/.ssh")
    await dialog.get_by_role("button", name="Open…").click()
    await expect(dialog.get_by_role("status")).to_contain_text("There is no")
    person.complaints.clear()  # the browser notes every request that is refused
    await dialog.get_by_label("Folder or file to open").fill("~/shop")
    await dialog.get_by_role("button", name="Open…").click()
    await expect(card).to_contain_text("You want to open it.")
    assert person.complaints == []
