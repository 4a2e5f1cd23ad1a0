"""In a real Chromium: a person keeps tasks, plans the day, lets the timer run, rates the day."""

import json
import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Browser, FilePayload, Page, ViewportSize, expect

from silas.journal import OWNER
from silas.journal.dispatch import call
from silas.journal.models import ChecklistItem, Task, TaskStatus
from tests.web.browsing import DESK, PHONE, Person
from tests.web.place import Place
from tests.web.test_accessibility import violations

pytestmark = pytest.mark.slow


async def part(page: Page, name: str) -> None:
    await page.locator(".journal-tabs").get_by_role("button", name=name).click()


async def add_task(page: Page, title: str, *, due: str = "", category: str = "") -> None:
    form = page.locator(".journal-part > .journal-form")
    await form.get_by_label("New task").fill(title)
    await form.get_by_label("Due").fill(due)
    await form.get_by_label("New category").fill(category)
    await form.get_by_role("button", name="Add").click()


@pytest.mark.parametrize(
    ("size", "scheme"), [(PHONE, "light"), (DESK, "dark")], ids=["phone, light", "desk, dark"]
)
async def test_a_day_with_the_journal(
    place: Place, browser: Browser, size: ViewportSize, scheme: Literal["light", "dark"]
) -> None:
    person = await Person.at(browser, size)
    page, journal = person.page, place.house.journal
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    await person.pair(place.web.link())
    await page.locator("[data-tab=journal]:visible").click()
    await page.get_by_text("Nothing is pinned or due.").wait_for()
    assert await violations(person) == []
    if size is DESK:
        send = await page.get_by_role("button", name="Send").bounding_box()
        beside = await page.locator(".journal").bounding_box()
        assert send is not None
        assert beside is not None
        assert send["x"] + send["width"] <= beside["x"], "the journal lies over what is typed into"

    await part(page, "Tasks")
    await add_task(page, "Squats", due="today 23:00", category="Gym")
    row = page.locator(".task", has_text="Squats")
    await expect(row).to_contain_text("today 23:00")
    await row.locator("summary").first.click()
    await row.get_by_placeholder("Add an item").fill("Warm up")
    await page.keyboard.press("Enter")
    await row.get_by_label("Warm up").check()
    await expect(row.locator(".task-marks")).to_contain_text("1/1")
    (item,) = [each for each in await journal.export() if isinstance(each, ChecklistItem)]
    assert item.checked
    await row.get_by_role("button", name="Pin to this day").click()
    await row.get_by_role("button", name="Start the timer").click()
    await expect(page.locator(".timer")).to_contain_text("Squats")
    await row.get_by_text("Change", exact=True).click()
    await row.get_by_label("Priority").select_option("P0")
    assert await violations(person) == []
    await row.get_by_role("button", name="Save").click()
    await expect(row.locator(".task-marks")).to_contain_text("P0")

    await part(page, "Today")
    await page.get_by_text("Plan a block").click()
    form = page.locator(".journal-more form")
    await form.get_by_label("From").fill("09:00")
    await form.get_by_label("To").fill("10:30")
    await form.get_by_label("Task").select_option(label="Squats")
    await form.get_by_role("button", name="Plan it").click()
    await expect(page.locator(".block")).to_contain_text("09:00 to 10:30")
    await expect(page.locator(".lane-done .spent")).to_have_count(1)
    assert await violations(person) == []
    await page.get_by_label("Squats: done").first.check()
    await expect(page.locator(".timer")).to_have_count(0)
    (task,) = await journal.list_tasks(status=[TaskStatus.DONE])
    assert (task.title, await journal.running_timer()) == ("Squats", None)

    await part(page, "Time")
    await expect(page.locator(".entries li")).to_contain_text("Squats")
    assert await violations(person) == []
    await part(page, "Ratings")
    await page.get_by_label("energy").focus()
    await page.keyboard.press("ArrowRight")
    await expect(page.locator(".recent li")).to_contain_text("6")
    await page.locator(".rating:focus-within").wait_for()  # the keyboard stays where it was
    assert await violations(person) == []
    assert person.complaints == []


async def test_notes_are_kept_linked_and_found(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, PHONE)
    page, journal = person.page, place.house.journal
    await person.pair(place.web.link())
    await page.locator("[data-tab=journal]:visible").click()
    await part(page, "Tasks")
    await add_task(page, "Squats", category="Gym")
    await page.locator(".task", has_text="Squats").wait_for()
    await part(page, "Notes")
    await page.get_by_text("No notes yet.").wait_for()
    form = page.locator(".journal-part > .note-form")
    await form.get_by_role("button", name="Note it").click()  # of nothing there is no note
    await form.get_by_label("New note").fill("Slept badly.\nKnee hurts.")
    await form.get_by_label("Category").select_option(label="Gym")
    await form.get_by_label("About").select_option(label="Squats")
    await form.get_by_role("button", name="Note it").click()
    note = page.locator(".note")
    await expect(note).to_contain_text("Knee hurts.")
    await expect(note.locator(".note-links")).to_contain_text("Squats")
    assert await violations(person) == []

    await note.get_by_text("Change", exact=True).click()
    await note.get_by_label("Text").fill("Slept well.")
    # What is not saved yet is not lost because something else has changed.
    await call(journal, "create_task", {"title": "Lunges"}, scope=OWNER, actor="owner")
    await note.get_by_label("Text").evaluate("node => node.blur()")
    await expect(note.get_by_label("Text")).to_have_value("Slept well.")
    await note.get_by_role("button", name="Save").click()
    await expect(note.locator(".note-text")).to_have_text("Slept well.")
    await note.get_by_role("button", name="Take off the link to Squats").click()
    await expect(note.locator(".note-links")).to_have_count(0)

    await page.get_by_text("Find in the whole journal").click()
    await page.get_by_label("Words").fill("slept")
    await page.get_by_role("button", name="Find", exact=True).click()
    await page.locator(".found").get_by_role("button", name="Slept well.").click()
    await expect(page.locator(".writes > li")).to_have_count(2)
    await expect(page.locator(".writes > li").first).to_contain_text("→ Slept well.")
    assert await violations(person) == []
    await page.locator(".journal-record").get_by_role("button", name="Back").click()
    await note.get_by_text("Change", exact=True).click()
    await note.get_by_role("button", name="Delete").click()
    await page.get_by_text("No notes yet.").wait_for()
    await page.get_by_role("button", name="Bring it back").click()
    await expect(note).to_have_count(1)
    (kept,) = await journal.notes()
    assert kept.text == "Slept well."
    assert person.complaints == []


async def test_two_pages_see_the_same_and_text_stays_text(place: Place, browser: Browser) -> None:
    first, second = await Person.at(browser, PHONE), await Person.at(browser, DESK)
    for person in (first, second):
        await person.pair(place.web.link())
        await person.page.locator("[data-tab=journal]:visible").click()
        await part(person.page, "Tasks")
    title = "<img src=x onerror=alert(1)> \u202egnp.exe"
    await add_task(first.page, title)
    shown = second.page.locator(".task-title")
    await expect(shown).to_contain_text("<img src=x onerror=alert(1)>")
    assert await shown.locator("img").count() == 0
    await expect(shown.locator(".hidden-character")).to_have_count(1)
    # Whoever is typing is not interrupted by what happens elsewhere.
    await second.page.get_by_label("New task").fill("half a wo")
    await first.page.get_by_role("checkbox").check()
    await expect(first.page.locator(".task[data-status=done]")).to_have_count(1)
    await second.page.get_by_label("New task").press_sequentially("rd")
    await expect(second.page.get_by_label("New task")).to_have_value("half a word")
    await first.page.locator(".task summary").first.click()
    await first.page.get_by_role("button", name="Delete").click()
    await expect(first.page.locator(".task")).to_have_count(0)
    await first.page.get_by_role("button", name="Bring it back").click()
    await expect(first.page.locator(".task")).to_have_count(1)
    (task,) = [each for each in await place.house.journal.export() if isinstance(each, Task)]
    assert (task.title, task.deletions) == (title, 2)
    await second.page.get_by_label("New task").fill("")
    await second.page.get_by_label("Close the journal").click()
    assert first.complaints == second.complaints == []


async def test_the_journal_is_taken_along_and_another_one_is_brought_in(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, PHONE)
    page, journal = person.page, place.house.journal
    await person.pair(place.web.link())
    await page.locator("[data-tab=journal]:visible").click()
    await part(page, "Tasks")
    await add_task(page, "Squats", category="Gym")
    await page.locator(".task", has_text="Squats").wait_for()
    await part(page, "Files")
    assert await violations(person) == []
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Download the journal").click()
    file = await download.value
    assert file.suggested_filename.startswith("silas-journal-20")
    text = Path(await file.path()).read_text()
    assert [each["kind"] for each in json.loads(text)["records"]] == ["category", "task"]

    async def choose(content: str) -> None:
        brought = FilePayload(name="a.json", mimeType="", buffer=content.encode())
        await page.get_by_label("An export of a journal").set_input_files(brought)

    status = page.locator(".journal-brought")
    await choose(text)
    await expect(status).to_have_text("2 records in this file. Everything in it is here already.")
    await choose("shopping list")
    await expect(status).to_have_text(
        "This file is not an export of a journal. Nothing was changed."
    )
    await choose("x" * (8 * 1024 * 1024 + 1))
    await expect(status).to_contain_text("This file is larger than 8 MB.")

    # The same records of another device: they are counted, and taken in when that is said.
    other = re.sub(r"(task|category)_(\w{26})", r"\1_\2x", text).replace("Squats", "Lunges")
    await choose(other.replace(journal.host_id, "host-elsewhere"))
    await expect(status).to_contain_text("2 would be new, 0 would change.")
    await expect(status.locator("li")).to_have_text(["1 category new", "1 task new"])
    assert await violations(person) == []
    # Something else changes meanwhile; what was counted stays.
    await call(journal, "create_note", {"text": "Meanwhile"}, scope=OWNER, actor="owner")
    await status.get_by_role("button", name="Leave it").click()
    await expect(status).to_be_hidden()
    assert len(await journal.list_tasks()) == 1
    await choose(other.replace(journal.host_id, "host-elsewhere"))
    await status.get_by_role("button", name="Take it in").click()
    await expect(status).to_have_text("Taken in: 2 new, 0 changed.")
    await part(page, "Tasks")
    await page.locator(".task", has_text="Lunges").wait_for()
    assert {each.title for each in await journal.list_tasks()} == {"Squats", "Lunges"}
    refused = "the server responded with a status of 400 (Bad Request)"
    assert [each for each in person.complaints if refused not in each] == []


async def test_a_task_repeats_and_reminds_in_the_page(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, PHONE)
    page, journal = person.page, place.house.journal
    await person.pair(place.web.link())
    await page.locator("[data-tab=journal]:visible").click()
    await part(page, "Tasks")
    form = page.locator(".journal-part > .journal-form")
    await form.get_by_label("Repeats").fill("every monday at 9:00")
    await form.get_by_label("Remind me").fill("when due")
    await add_task(page, "Water the plants")
    row = page.locator(".task:not([data-status=done])", has_text="Water the plants")
    await expect(row.locator(".task-marks")).to_contain_text("every Monday at 9:00")
    await expect(row.locator(".task-marks")).to_contain_text("reminder")
    [task] = await journal.list_tasks()
    assert task.remind_at == task.due_at
    assert await violations(person) == []
    await row.get_by_role("checkbox", name="Water the plants: done").check()
    await expect(
        page.locator(".task[data-status=done]", has_text="Water the plants")
    ).to_be_visible()
    await expect(row).to_have_count(1)
    [following] = await journal.list_tasks()
    assert following.due_at is not None
    assert task.due_at is not None
    assert following.due_at > task.due_at
    await row.locator("summary").first.click()
    await row.get_by_role("button", name="Cancel the reminder").click()
    await expect(row.locator(".task-marks")).not_to_contain_text("reminder")
    await row.get_by_text("Change", exact=True).click()
    await row.get_by_label("Repeats").fill("every day")
    await row.get_by_role("button", name="Save").click()
    await expect(row.locator(".task-marks")).to_contain_text("every day")
    await row.get_by_label("Repeats").fill("every blue moon")
    await row.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("is not a repetition that Silas understands")).to_be_visible()


async def test_what_an_answer_wrote_is_taken_back_with_a_tap(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, PHONE)
    page = person.page
    await person.pair(place.web.link())
    await person.say("Add task water the plants due tomorrow 9am")
    answer = page.locator(".message.silas", has_text="water the plants").last
    undo = answer.get_by_role("button", name="Undo")
    await undo.wait_for()
    await expect(answer).not_to_contain_text("journal undo")
    assert len(await place.house.journal.list_tasks()) == 1
    await undo.click()
    await expect(answer).to_contain_text("Undone.")
    await expect(undo).to_be_hidden()
    assert await place.house.journal.list_tasks() == []
    await page.reload()
    await person.is_in()
    await undo.click()
    await expect(answer).to_contain_text("Nothing was undone")
    assert await place.house.journal.list_tasks() == []
