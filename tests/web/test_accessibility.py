"""Every surface, looked at by axe-core, light and dark, on a phone and at a desk."""

from importlib import resources
from typing import Any

import pytest
from playwright.async_api import Browser, ViewportSize

from tests.web.browsing import DESK, PHONE, Person
from tests.web.place import Place

pytestmark = pytest.mark.slow
AXE = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
# While axe looks, a message may come and fade in, and a card that came hears nothing for half a
# second and looks like it. Both are on their way to the colours that a person reads.
AT_REST = """(rules) => {
    window.atRest = new CSSStyleSheet();
    window.atRest.replaceSync(rules);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, window.atRest];
}"""
RULES = """*, *::before, *::after { animation: none !important; transition: none !important; }
.card[data-arming] .card-actions button { opacity: 1 !important; }"""
MOVING = """() => {
    document.adoptedStyleSheets =
        document.adoptedStyleSheets.filter((each) => each !== window.atRest);
}"""
RUN = """(rules) => axe.run({ resultTypes: ['violations'], ...(rules && { runOnly: rules }) })
    .then((found) => found.violations)"""


async def violations(person: Person, *rules: str) -> list[str]:
    """What axe says about the page as it is."""
    await person.page.evaluate(AXE)
    await person.page.evaluate(AT_REST, RULES)
    found: list[dict[str, Any]] = await person.page.evaluate(RUN, list(rules) or None)
    await person.page.evaluate(MOVING)
    return [
        f"{each['id']} ({each['impact']}): {node['html'][:120]}"
        for each in found
        for node in each["nodes"]
    ]


async def violations_by_day_and_night(person: Person) -> list[str]:
    """The same, and in the dark, where nothing but the colours is another."""
    found = await violations(person)
    await person.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    found += await violations(person, "color-contrast")
    await person.page.emulate_media(color_scheme="light", reduced_motion="reduce")
    return found


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_every_surface(place: Place, browser: Browser, size: ViewportSize) -> None:
    person = await Person.at(browser, size)
    page = person.page
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await page.goto(place.web.link())
    assert await violations_by_day_and_night(person) == []
    await page.get_by_role("button", name="Pair this browser").click()
    await person.is_in()
    assert await violations_by_day_and_night(person) == []
    await person.say("create a file a.txt with hello")
    await person.say("what can you do?")
    await page.get_by_text("I am the offline brain").wait_for()
    await page.get_by_role("button", name="Look at the plan").wait_for()
    if size is DESK:
        await person.card_is_awake()
    assert await violations_by_day_and_night(person) == []
    if size is PHONE:
        await person.go("review")
    await person.card_is_awake()
    assert await violations_by_day_and_night(person) == []
    await page.get_by_text("Everything that is signed").click()
    await page.keyboard.press("Alt+3")
    await page.locator(".entry").first.wait_for()
    assert await violations_by_day_and_night(person) == []
    await page.get_by_role("button", name="Devices").click()
    await page.locator(".devices li").wait_for()
    assert await violations_by_day_and_night(person) == []
    await page.keyboard.press("Escape")
    await page.keyboard.press("Alt+1")
    await page.get_by_label("Message to Silas").fill("/")
    await page.get_by_role("option").first.wait_for()
    assert await violations_by_day_and_night(person) == []
    await page.get_by_role("button", name="Settings").click()
    assert await violations_by_day_and_night(person) == []
    await page.locator("dialog[open]").get_by_role("button", name="Change: Model").click()
    await page.get_by_text("A provider's model").click()
    assert await violations_by_day_and_night(person) == []


async def test_the_first_run(place: Place, browser: Browser) -> None:
    place.core.paths.first_run.unlink()
    person = await Person.at(browser, PHONE)
    page = person.page
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await person.pair(place.web.link())
    for tap in ("Begin", "Start without one", "Continue", "Start"):
        button = page.locator("dialog.first").get_by_role("button", name=tap)
        await button.wait_for()
        assert await violations_by_day_and_night(person) == []
        await button.click()
    await page.locator("dialog.first").wait_for(state="detached")


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_what_is_empty_and_what_failed(
    place: Place, browser: Browser, size: ViewportSize
) -> None:
    person = await Person.at(browser, size)
    page = person.page
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await person.pair(place.web.link())
    for surface in ("journal", "companions", "activity"):
        await page.locator(f"[data-tab={surface}]:visible").first.click()
        await page.locator(f"[data-surface={surface}][data-current] .skeleton").wait_for(
            state="detached"
        )
        assert await violations_by_day_and_night(person) == [], surface
    await page.keyboard.press("Alt+1")
    await person.say("/visitors")
    await page.get_by_text("Nobody was here.").wait_for()
    assert await violations_by_day_and_night(person) == []
    await page.keyboard.press("Escape")
    await person.say("/search")
    await page.locator("#find").wait_for()
    assert await violations_by_day_and_night(person) == []
    await page.keyboard.press("Escape")
    await person.say("run `ls nowhere`")
    if size is PHONE:
        await person.look_at_plan()
    await person.card_is_awake()
    await person.approve()
    await page.keyboard.press("Alt+1")
    await page.locator(".work-bad").wait_for()
    assert await violations_by_day_and_night(person) == []
    if size is PHONE:
        await person.go("review")
    await page.locator(".card-of-decision").wait_for()
    await person.card_is_awake()
    assert await violations_by_day_and_night(person) == []
