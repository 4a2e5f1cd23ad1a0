"""In a real Chromium: what a command printed is in the conversation, and files open from it."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from silas.work.models import WorkItemStatus
from tests.web.browsing import DESK, PHONE, Person
from tests.web.place import Place

pytestmark = pytest.mark.slow
EVIL = "seq 1 40; echo '<img src=x onerror=alert(1)>'; printf '\\033[2J'; echo broken >&2; exit 4"


async def test_what_a_command_printed_is_shown_and_opens_whole(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, PHONE)
    page = person.page
    await person.pair(place.web.link())
    await person.say(f"run `{EVIL}`")
    await person.look_at_plan()
    await person.approve()
    printed = page.locator(".printed").first
    await expect(printed.locator("figcaption")).to_contain_text("exit code 4")
    await expect(printed).to_contain_text("more lines")
    await expect(printed.locator("pre")).to_contain_text("broken")
    await expect(printed).to_contain_text("<img src=x onerror=alert(1)>")
    assert await page.locator(".printed img").count() == 0
    await page.get_by_role("button", name="Everything that was printed").click()
    whole = page.locator(".opened .printed-text").first
    await expect(whole).to_contain_text("17\n18\n19")
    await page.reload()
    await person.is_in()
    await expect(page.locator(".printed").first).to_contain_text("broken")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert person.complaints == []


async def test_what_is_shown_whole_is_not_offered_again(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, DESK)
    page = person.page
    await person.pair(place.web.link())
    await person.say("run `echo one; echo two >&2; echo three`")
    await person.look_at_plan()
    await person.approve()
    printed = page.locator(".printed").first
    await expect(printed.locator("pre")).to_have_text("one\ntwo\nthree")
    await expect(page.get_by_role("button", name="Everything that was printed")).to_have_count(0)
    assert person.complaints == []


async def test_a_file_that_was_made_opens_from_the_answer(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, DESK)
    page = person.page
    await person.pair(place.web.link())
    await person.say("create a file a.txt with hello")
    await person.look_at_plan()
    await person.approve()
    await person.sees_it_done()
    await page.get_by_role("button", name="a.txt", exact=True).click()
    await expect(page.locator(".opened .printed-text")).to_have_text("hello\n")
    (place.home / "silas-files" / "a.txt").write_text("private by now\n")
    assert person.complaints == []


async def test_a_file_opens_although_its_answer_is_drawn_anew_meanwhile(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, DESK)
    page = person.page
    await person.pair(place.web.link())
    await person.say("create a file a.txt with hello")
    await person.look_at_plan()
    await person.approve()
    await person.sees_it_done()
    await page.get_by_role("button", name="a.txt", exact=True).wait_for()
    work = await place.core.work.items.list_by_status(WorkItemStatus.DONE)
    await page.evaluate(
        """async (id) => {
          const { fileOpener } = await import("/results.js");
          const draw = () => {
            const [button, place] = fileOpener(id, "a.txt");
            document.body.append(button, place);
            return { button, place };
          };
          const first = draw();
          first.button.click();
          first.button.remove();
          first.place.remove();
          draw();
        }""",
        work[0].id,
    )
    # The conversation may have drawn it once more since, and shows it then.
    await page.wait_for_function(
        """() => [...document.querySelectorAll(".opened")]
          .some((place) => place.textContent === "hello\\n")""",
        polling=50,
    )
    assert person.complaints == []


async def test_nobody_else_reads_what_work_did(place: Place, browser: Browser) -> None:
    page = await (await browser.new_context()).new_page()
    await page.goto(place.address)
    script = "path => fetch(path).then((answer) => answer.status)"
    for path in ("/api/work/x", "/api/work/x/file/a.txt", "/api/work/x/output/1/1"):
        assert await page.evaluate(script, path) in (401, 403)


async def test_no_path_leads_out_of_the_work(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, PHONE)
    await person.pair(place.web.link())
    await person.say("create a file a.txt with hello")
    await person.look_at_plan()
    await person.approve()
    await person.sees_it_done()
    [item] = [each for each in await place.house.cards.recent(9) if each.requested_by != "undo"]
    name = next(iter(item.plan_hashes))
    Path(place.home / "silas-files" / "other.txt").write_text("private\n")
    script = "path => fetch(path).then(async (answer) => [answer.status, await answer.text()])"
    for path in ("other.txt", "..%2F..%2Fvault.json", "%2Fetc%2Fpasswd", "a.txt%00", "%2e%2e/x"):
        status, text = await person.page.evaluate(script, f"/api/work/{name}/file/{path}")
        assert status == 404, path
        assert "private" not in text
