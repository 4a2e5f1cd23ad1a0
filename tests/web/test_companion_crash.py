"""In a real Chromium: Silas is killed in the middle, twice, and the follow-up exists once."""

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.cli.machine import Machine, Running, output_of
from tests.web.browsing import PHONE, Person
from tests.web.place import environ_for, make_home
from tests.web.test_companions_browser import make_planner

pytestmark = pytest.mark.slow


@pytest_asyncio.fixture(loop_scope="session")
async def machine(tmp_path: Path) -> Machine:
    environ = environ_for(tmp_path, PATH=os.environ["PATH"])
    await make_home(tmp_path, environ)
    data = tmp_path / "data"
    return Machine(data, {**environ, "SILAS_DATA_DIR": str(data)})


@contextmanager
def killed(machine: Machine) -> Iterator[str]:
    """A Silas that is killed at the end; the link that pairs a browser with it."""
    with machine.start("start") as server:
        yield _link(server)
        server.send_signal(signal.SIGKILL)
        assert server.wait() == -signal.SIGKILL


def _link(server: Running) -> str:
    for line in server.stdout:
        if found := re.search(r"http://\S+#pair=\S+", line):
            return found.group()
    raise AssertionError(server.stderr.read())


def tasks(machine: Machine) -> list[dict[str, Any]]:
    """Every task, read from the file: nobody has to be there."""
    listed = output_of(machine.run("journal", "task", "list", "--all", "--json"))
    return [dict(each) for each in json.loads(listed)["tasks"]]


def follow_ups(machine: Machine) -> list[str]:
    return [each["title"] for each in tasks(machine) if each["title"] != "Squats"]


async def finish_squats(person: Person) -> None:
    """A task with two open steps is written down and finished, in the page."""
    page = person.page
    await person.go("journal")
    await page.locator(".journal-tabs").get_by_role("button", name="Tasks").click()
    form = page.locator(".journal-part > .journal-form")
    await form.get_by_label("New task").fill("Squats")
    await form.get_by_label("Category", exact=True).select_option(label="Gym")
    await form.get_by_role("button", name="Add").click()
    row = page.locator(".task", has_text="Squats")
    await row.locator("summary").first.click()
    for number, step in enumerate(("Warm up", "Stretch"), start=1):
        await row.get_by_placeholder("Add an item").fill(step)
        await page.keyboard.press("Enter")
        await expect(row.locator(".task-marks")).to_contain_text(f"0/{number}")
    await row.get_by_label("Squats: done").check()
    await expect(page.locator(".task[data-status=done]")).to_have_count(1)


async def test_the_follow_up_exists_once_after_two_crashes_and_a_replay(
    machine: Machine, browser: Browser
) -> None:
    person = await Person.at(browser, PHONE)
    page = person.page
    with killed(machine) as link:
        await person.pair(link)
        await make_planner(person, "Gym")
        await finish_squats(person)
        await person.go("companions")
        await page.locator(".companion-waiting").wait_for()
        # Stopped, a yes is kept and not followed: the crash comes between the yes and the deed.
        await page.get_by_role("button", name="Stop all companions at once").click()
        await page.locator(".companions-stopped").wait_for()
        await page.get_by_role("button", name="Decide in Review").click()
        await person.card_is_awake()
        await page.get_by_role("button", name="Do it").click()
        await person.card_is_awake()
        await page.get_by_role("button", name=re.compile("^Yes: ")).click()
        await expect(page.locator(".card")).to_have_count(0)
        assert follow_ups(machine) == []
    assert follow_ups(machine) == []

    await person.is_out()
    with killed(machine):
        await person.is_in()  # the page comes back by itself
        await person.go("companions")
        await page.get_by_role("button", name="Let them go on", exact=True).click()
        await expect(page.locator(".companion-waiting")).to_have_count(0)
        await person.go("journal")
        await page.locator(".task", has_text="Squats (follow-up)").wait_for()
    assert follow_ups(machine) == ["Squats (follow-up)"]

    await person.is_out()
    with killed(machine):
        await person.is_in()
        await person.go("companions")
        await page.get_by_text("What it did").click()
        await page.locator(".companion-runs li summary").first.click()
        await page.get_by_role("button", name="Replay").first.click()
        await expect(page.locator(".trace [role=status]").first).to_contain_text("Replayed")
        await expect(page.locator(".companion-waiting")).to_have_count(0)
        await page.get_by_role("button", name="Wake now", exact=True).click()
        await expect(page.locator(".companion-runs li")).to_have_count(2)
        assert follow_ups(machine) == ["Squats (follow-up)"]
    (made,) = [each for each in tasks(machine) if each["title"] != "Squats"]
    shown = json.loads(output_of(machine.run("journal", "check", "list", made["id"], "--json")))
    assert [item["text"] for each in shown["checklists"] for item in each["items"]] == [
        "Warm up",
        "Stretch",
    ]
