"""In a real Chromium: what a companion may do is read, set, answered, explained and ended."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Route, ViewportSize, expect
from pydantic_core import to_jsonable_python

from silas.journal import OWNER, dispatch
from silas.web.companion_commands import COMPANION_COMMANDS
from tests.web.browsing import DESK, PHONE, Person
from tests.web.place import Place, environ_for, open_place
from tests.web.test_accessibility import violations
from tests.web.test_companions_browser import finish_task_with_open_steps, make_planner

MODEL = "openrouter:some/model"
SMALL = "ollama:small"
WITH_MODEL = {
    "SILAS_MODELS__PROXY": MODEL,
    "SILAS_MODELS__SCORER": SMALL,
    "SILAS_MODELS__PER_ROLE__SCORER__BASE_URL": "http://127.0.0.1:9/v1",
    "OPENROUTER_API_KEY": "nobody is ever asked",
}
REFUSED = "Failed to load resource: the server responded with a status of 400 (Bad Request)"
pytestmark = pytest.mark.slow


@pytest_asyncio.fixture(loop_scope="session")
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    environ = environ_for(tmp_path, **WITH_MODEL)
    monkeypatch.setenv("HOME", environ["HOME"])
    async with open_place(tmp_path, environ) as place:
        yield place


async def of(place: Place, call: str, /, **arguments: Any) -> Any:
    """What the owner's desk answers."""
    command = COMPANION_COMMANDS[call]
    answer = await command.run(place.front.companions, command.read(arguments))
    return to_jsonable_python(answer)


async def only(place: Place) -> dict[str, Any]:
    (found,) = await of(place, "list")
    return dict(found)


async def with_planner(place: Place, browser: Browser, size: ViewportSize) -> Person:
    """The owner, before a planner that was just made."""
    person = await Person.at(browser, size)
    await person.pair(place.web.link())
    await make_planner(person, "Gym")
    return person


async def beginning_one(place: Place, browser: Browser) -> Person:
    """The owner, before the form for a new companion."""
    person = await Person.at(browser, PHONE)
    await person.pair(place.web.link())
    await person.page.locator("[data-tab=companions]:visible").click()
    await person.page.get_by_role("button", name="New companion").click()
    return person


async def comes_back(person: Person) -> None:
    """The page is loaded again, and the companion opened."""
    await person.page.reload()
    await person.is_in()
    await person.page.locator("[data-tab=companions]:visible").click()
    await person.page.locator(".companion-line").click()


async def unfolded(person: Person, summary: str) -> Locator:
    """The part of the page under this heading."""
    node = person.page.locator("details", has=person.page.get_by_text(summary, exact=True)).last
    await node.locator("> summary").click()
    return node


async def test_consent_is_read_refused_given_and_asked_again(
    place: Place, browser: Browser
) -> None:
    person = await beginning_one(place, browser)
    page = person.page
    await page.get_by_label("A new category").fill("Gym")
    await page.get_by_text("More", exact=True).click()
    # Every model that is configured for something is offered, with where it is.
    await expect(page.get_by_label("Its model").locator("option")).to_have_text(
        [
            "No model: fixed rules",
            f"{SMALL} (127.0.0.1:9)",
            f"{MODEL} (openrouter's own servers)",
        ]
    )
    await page.get_by_label("Its model").select_option(MODEL)
    await page.get_by_role("button", name="Create companion").click()

    # Everything that is agreed to is open to be read, before the button.
    box = page.locator(".companion-consent")
    await expect(box.locator("> summary")).to_have_text(f"Before {MODEL} is asked")
    for told in ("what you said to it", "openrouter's own servers", "and nothing else"):
        await expect(box).to_contain_text(told)
    assert await violations(person) == []
    assert (await only(place))["needs_consent"]

    await box.get_by_role("button", name="No: work without a model").click()
    await expect(box).to_have_count(0)
    assert (await only(place))["model_id"] is None

    config = await unfolded(person, "Configure")
    await config.get_by_label("Its model").select_option(MODEL)
    await config.get_by_role("button", name="Save", exact=True).click()
    await box.wait_for()
    # What was read is not what is in force any more: nothing is agreed to.
    agent = (await only(place))["id"]
    await of(place, "describe_provider", agent_id=agent, training="Everything is kept.")
    await box.get_by_role("button", name="I agree").click()
    await expect(page.locator(".companions-note")).to_contain_text("Read it again")
    assert (await only(place))["needs_consent"]
    await expect(box).to_contain_text("Everything is kept.")
    await box.get_by_role("button", name="I agree").click()
    await expect(box.locator("> summary")).to_have_text(f"You agreed to {MODEL}")
    assert not (await only(place))["needs_consent"]

    # The owner writes down what he has read: another text, so he is asked again.
    await box.locator("> summary").click()
    await box.get_by_text("I have read the provider's policy").click()
    await box.get_by_label("How long it is kept").fill("30 days")
    await box.get_by_role("button", name="Write it down").click()
    await expect(box.locator("> summary")).to_have_text(f"Before {MODEL} is asked")
    await expect(box).to_contain_text("30 days")
    assert person.complaints == [REFUSED]


async def test_words_that_change_under_the_finger_are_not_agreed_to(
    place: Place, browser: Browser
) -> None:
    person = await beginning_one(place, browser)
    page = person.page
    await page.get_by_label("A new category").fill("Gym")
    await page.get_by_text("More", exact=True).click()
    await page.get_by_label("Its model").select_option(MODEL)
    await page.get_by_role("button", name="Create companion").click()
    box = page.locator(".companion-consent")
    await box.wait_for()
    agent = (await only(place))["id"]
    await of(place, "describe_provider", agent_id=agent, training="Everything is kept.")
    await dispatch.call(
        place.house.journal, "create_category", {"name": "Work"}, scope=OWNER, actor="owner"
    )  # the page looks again
    await expect(box).to_contain_text("Everything is kept.")
    await box.get_by_role("button", name="I agree").click()
    await expect(page.locator(".companions-note")).to_contain_text("Read it again")
    assert (await only(place))["needs_consent"]
    await box.get_by_role("button", name="I agree").click()
    await expect(box.locator("> summary")).to_have_text(f"You agreed to {MODEL}")


async def test_a_budget_and_what_it_sees_are_set_in_the_page(
    place: Place, browser: Browser
) -> None:
    person = await with_planner(place, browser, PHONE)
    page = person.page
    made = await dispatch.call(
        place.house.journal, "create_category", {"name": "Work"}, scope=OWNER, actor="owner"
    )
    config = await unfolded(person, "Configure")
    await config.get_by_label("Work").wait_for()  # the page has heard of it
    for label, value in (("Tokens", "5000"), ("US dollars", "0.25"), ("Tool calls", "0")):
        await config.get_by_label(label).fill(value)
    await config.get_by_label("Minutes").fill("")
    assert await violations(person) == []
    await config.get_by_role("button", name="Save the budget").click()
    await expect(page.locator(".companions-note")).to_have_text("Saved.")
    found = await only(place)
    limits = {"tokens": 5000, "cost_micro_usd": 250_000, "runtime_ms": None, "tool_calls": 0}
    assert found["budget"]["limits"] == limits

    # A budget that is used up says so, and leads to where it is changed.
    await expect(page.locator(".companion-problem")).to_contain_text("used up, or is 0")
    await config.locator("> summary").click()
    await page.get_by_role("button", name="Change its budget").click()
    await config.get_by_label("Tool calls").fill("-1")
    await config.get_by_role("button", name="Save the budget").click()
    assert (await only(place))["budget"]["limits"]["tool_calls"] == 0
    await config.get_by_label("Tool calls").fill("50")
    await config.get_by_role("button", name="Save the budget").click()
    await expect(page.locator(".companion-problem")).to_have_count(0)

    await config.get_by_label("Gym").uncheck()
    await config.get_by_role("button", name="Save what it sees").click()
    await expect(page.locator(".companions-note")).to_contain_text("at least one category")
    await config.get_by_label("Work").check()
    await config.get_by_role("button", name="Save what it sees").click()
    await expect(page.locator(".companion > .meta")).to_contain_text("It sees Work,")
    (category,) = (await only(place))["categories"]
    assert category["id"] == made.payload["category_id"]
    assert person.complaints == [REFUSED]


async def test_when_it_wakes_by_the_clock_is_set_in_the_page(
    place: Place, browser: Browser
) -> None:
    person = await with_planner(place, browser, PHONE)
    page, note = person.page, person.page.locator(".companions-note")
    agent = (await only(place))["id"]
    config = await unfolded(person, "Configure")
    row, save = page.locator(".companion-time"), page.get_by_role("button", name="Save its times")
    await expect(row.get_by_label("Time of day")).to_have_value("07:00")
    await expect(row).to_contain_text("Next: ")
    await save.click()
    await expect(note).to_have_text("Nothing is different.")

    await row.get_by_label("Time of day").fill("08:30")
    for name in ("Saturday", "Sunday"):
        await row.get_by_label(name).uncheck()
    await page.get_by_role("button", name="Add a time").click()
    added = row.nth(1)
    await added.get_by_label("Time of day").fill("20:15")
    await added.get_by_label("On", exact=True).uncheck()
    assert await violations(person) == []
    await save.click()
    await expect(note).to_have_text("Saved.")
    await expect(config).to_contain_text("every Monday to Friday at 08:30")
    kept = [(each["words"], each["active"]) for each in await of(place, "timers", agent_id=agent)]
    assert kept == [("every Monday to Friday at 08:30", True), ("every day at 20:15", False)]

    # What cannot be is told in one sentence, what was typed stays, and nothing is changed.
    for name in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"):
        await row.first.get_by_label(name).uncheck()
    await added.get_by_label("Time of day").fill("21:00")
    await save.click()
    await expect(note).to_have_text("Choose at least one day of the week, or switch the timer off.")
    await expect(added.get_by_label("Time of day")).to_have_value("21:00")
    assert [each["at"] for each in await of(place, "timers", agent_id=agent)] == ["08:30", "20:15"]

    await row.first.get_by_role("button", name="Remove").click()
    await expect(row.first.get_by_role("button")).to_have_text("Keep it")
    await save.click()
    await expect(row).to_have_count(1)
    (left,) = await of(place, "timers", agent_id=agent)
    assert (left["words"], left["active"]) == ("every day at 21:00", False)
    assert person.complaints == [REFUSED]


async def test_a_persona_is_proposed_declined_and_approved(place: Place, browser: Browser) -> None:
    person = await with_planner(place, browser, DESK)
    page = person.page
    agent = (await only(place))["id"]
    persona = await unfolded(person, "How it speaks")
    await persona.get_by_text("Let it speak differently").click()
    await persona.get_by_role("button", name="Propose it").click()
    await expect(page.locator(".companions-note")).to_have_text("Nothing is different.")
    await persona.get_by_label("Style").fill("Shouts.")
    await persona.get_by_role("button", name="Propose it").click()
    newest = page.locator(".persona-version").first
    await expect(newest.locator("h4")).to_have_text("Version 2, proposed, by you")
    await expect(newest.locator("del")).to_contain_text("one thing at a time")
    await expect(newest.locator("ins")).to_have_text("Shouts.")
    assert await violations(person) == []
    await newest.get_by_role("button", name="Decline it").click()
    await expect(newest.locator("h4")).to_have_text("Version 2, declined, by you")

    # What a companion proposes waits as well, and is seen without being looked for.
    await of(place, "propose_persona", agent_id=agent, changes={"coaching_style": "Asks first."})
    await comes_back(person)
    await newest.get_by_role("button", name="Approve this version").click()
    await expect(newest.locator("h4")).to_have_text("Version 3, in use, by you")
    in_use = [each["version"]["version"] for each in await of(place, "persona", agent_id=agent)
              if each["in_use"]]  # fmt: skip
    assert in_use == [3]
    assert person.complaints == []


async def test_a_question_is_answered_and_a_claim_leads_to_its_source(
    place: Place, browser: Browser
) -> None:
    person = await beginning_one(place, browser)
    page = person.page
    await page.get_by_label("Gym Coach").check()
    await page.get_by_label("A new category").fill("Gym")
    await page.get_by_role("button", name="Create companion").click()
    await page.locator(".companion-top", has_text="Gym Coach").wait_for()
    gym = (await only(place))["categories"][0]["id"]
    wanted = {"title": "Lunges", "category_id": gym}
    await dispatch.call(place.house.journal, "create_task", wanted, scope=OWNER, actor="owner")
    await finish_task_with_open_steps(place, "Gym")
    asked = page.locator(".companion-question")
    await expect(asked).to_contain_text("How long did “Squats” take?")
    assert await violations(person) == []
    await asked.get_by_label("Answer to").fill("log 45 minutes on Squats")
    await asked.get_by_role("button", name="Answer").click()
    await expect(asked).to_have_count(0)
    assert await of(place, "questions") == []

    await page.locator(".claims summary", has_text="Lunges").first.click()
    await page.locator(".sources").get_by_role("button", name="Lunges").first.click()
    await expect(page.locator(".journal-record h3")).to_have_text("Lunges")
    await expect(page.locator(".writes")).to_contain_text("title: Lunges")
    assert await violations(person) == []
    await page.get_by_role("button", name="Back", exact=True).click()
    await expect(page.locator(".journal-record")).to_have_count(0)
    assert person.complaints == []


async def hesitant(route: Route) -> None:
    """The page as it is, for somebody who takes longer to be sure."""
    served = await route.fetch()
    text = await served.text()
    assert "SURE_MILLISECONDS = 4000;" in text
    text = text.replace("SURE_MILLISECONDS = 4000;", "SURE_MILLISECONDS = 400_000;")
    await route.fulfill(response=served, body=text)


async def test_it_is_paused_resumed_explained_and_ended(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, DESK, intercepted=True)
    page = person.page
    await page.route("**/companion.js", hesitant)
    await person.pair(place.web.link())
    await make_planner(person, "Gym")
    top = page.locator(".companion-top")
    await page.get_by_role("button", name="Pause", exact=True).click()
    await expect(top).to_contain_text("Paused")
    await expect(page.locator(".companion-problem")).to_contain_text("until you resume it")
    await page.get_by_role("button", name="Resume", exact=True).click()
    await expect(top).to_contain_text("Ready")

    await page.get_by_role("button", name="Wake now", exact=True).click()
    runs = page.locator(".companion-runs")
    await runs.locator("> summary").click()
    await expect(runs.locator("li summary").first).to_contain_text("you woke it: done")
    await runs.locator("li summary").first.click()
    trace = runs.locator(".trace")
    for told in ("none: fixed rules", "What was checked", "no stop switch is on", "calls"):
        await expect(trace).to_contain_text(told)
    await trace.get_by_role("button", name="Replay").click()
    await expect(trace.get_by_role("status")).to_have_text("Replayed: it comes out the same.")
    assert await violations(person) == []

    end = page.get_by_role("button", name=re.compile("end (it )?for good", re.IGNORECASE))
    await end.click()
    await expect(end).to_have_text("Really end it for good?")  # one tap is not enough
    assert (await only(place))["health"] == "idle"
    await end.click()
    await page.get_by_role("button", name="New companion").wait_for()
    (gone,) = await of(place, "list", with_destroyed=True)
    assert (gone["health"], await of(place, "list")) == ("destroyed", [])
    assert person.complaints == []
