"""In a real Chromium: calls that wait together, on one card, each with a tick of its own."""

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from silas.work.effects import DeclaredChanges
from silas.work.plan import parse
from tests.web.browsing import DESK, PHONE
from tests.web.place import Place
from tests.web.strong import ask
from tests.web.test_accessibility import violations_by_day_and_night
from tests.web.test_calls import CALL, OTHER, beyond, let_it_wait, verdicts
from tests.web.test_cards import looks_right, paired

pytestmark = pytest.mark.slow


async def test_where_strangers_had_a_part_each_call_is_ticked_by_hand(
    place: Place, browser: Browser
) -> None:
    await let_it_wait(place, CALL, OTHER)
    person = await paired(place, browser)
    page = person.page
    await expect(page.locator(".card-intent")).to_have_text("2 calls")
    ticks = page.get_by_role("checkbox", name="Let send_mail happen")
    await expect(ticks).to_have_count(2)
    assert await ticks.nth(0).is_checked() is await ticks.nth(1).is_checked() is False
    await looks_right(person, "desk-calls")

    async def let_happen() -> None:
        await page.get_by_role("button", name="Let the ticked calls happen").click()
        await page.get_by_role("slider").wait_for()
        await person.card_is_awake()
        await page.get_by_role("slider").press("End")

    await let_happen()
    await expect(page.get_by_role("alert")).to_have_text("Tick the calls that may happen.")
    await ticks.nth(1).check()
    await let_happen()
    await expect(page.locator(".card-intent")).to_have_text("Call send_mail")
    await expect(page.locator(".review-active .card")).to_contain_text("a@example.org")
    assert await verdicts(place) == [(None, False), ("approved", True)]
    await person.card_is_awake()
    await page.get_by_role("button", name="Do not make it").click()
    await expect(page.locator(".review-active .empty")).to_contain_text(
        "Nothing is waiting for you"
    )
    assert await verdicts(place) == [("declined", False), ("approved", True)]


@pytest.mark.parametrize(("size", "name"), [(DESK, "desk"), (PHONE, "phone")])
async def test_files_beyond_the_plan_are_shown_with_their_difference_and_taken_by_tick(
    place: Place, browser: Browser, size: ViewportSize, name: str
) -> None:
    await let_it_wait(
        place,
        beyond("notes/today.txt", "changed"),
        beyond("Makefile", executed_by="a build"),
        beyond("data/old.bin", "removed", diff=""),
    )
    person = await paired(place, browser, size)
    page = person.page
    await expect(page.locator(".card-intent")).to_have_text("3 files beyond the plan")
    await expect(page.locator(".card-kind")).to_have_text("Beyond the plan")
    files = page.locator(".card-files > li")
    await expect(files.nth(0)).to_contain_text("changed notes/today.txt")
    await expect(files.nth(0).locator(".diff-added")).to_contain_text("new")
    await expect(files.nth(0).locator(".diff-removed")).to_contain_text("old")
    await expect(files.nth(1)).to_contain_text("a build executes it")
    await expect(files.nth(2)).to_contain_text("is removed")
    await expect(files.nth(2)).to_contain_text("No text to compare")
    ticks = page.locator(".card-files").get_by_role("checkbox")
    assert [await ticks.nth(at).is_checked() for at in range(3)] == [False] * 3
    await looks_right(person, f"{name}-beyond")

    async def take() -> None:
        await page.get_by_role("button", name="Take the ticked files").click()
        await page.get_by_role("slider").wait_for()
        await person.card_is_awake()
        await page.get_by_role("slider").press("End")

    await take()
    await expect(page.get_by_role("alert")).to_have_text("Tick the files to take.")
    await page.get_by_role("checkbox", name="Take notes/today.txt").check()
    await take()
    await expect(page.locator(".review-active .empty")).to_contain_text(
        "Nothing is waiting for you"
    )
    assert await verdicts(place) == [("approved", True), ("declined", False), ("declined", False)]
    assert person.complaints == []


DECLARING = """---
id: declaring
type: task
title: Tidy the shop
workspace:
  path: /shop
  changes:
    add: [notes/today.txt, "build/**", bin/run]
    change: [Makefile]
    remove: [old.txt]
    executable: [bin/run]
verify:
  - name: the notes are there
    run: cat notes/today.txt
    expect: {contains: milk}
  - name: it builds
    run: make
    expect: {exit_code: 0}
    INFLUENCED
---
Do it.
"""


@pytest.mark.parametrize(("size", "name"), [(DESK, "desk"), (PHONE, "phone")])
async def test_a_plan_shows_what_it_changes_and_what_the_worker_can_influence(
    place: Place, browser: Browser, size: ViewportSize, name: str
) -> None:
    item = parse(DECLARING.replace("    INFLUENCED\n", ""))
    checks = [item.verify[0], item.verify[1].model_copy(update={"influenced_by": ["Makefile"]})]
    await ask(place, item.model_copy(update={"verify": checks}))
    person = await paired(place, browser, size)
    card = person.page.locator(".review-active .card")
    shown = card.locator(".files")
    await expect(shown.locator(".tree-sum")).to_have_text(
        "1 removed, 1 changed, 2 files and 1 pattern added"
    )
    await expect(shown.locator("li")).to_have_text(
        [
            "Removes old.txt",
            "Changes Makefile: a build executes it",
            "Adds notes/today.txt",
            "Adds build/**: every file below build/ that no other program executes",
            "Adds bin/run: becomes a program",
        ]
    )
    await expect(shown.locator("li.file-marked .icon")).to_have_count(4)
    await expect(card.locator(".check-notes")).to_have_text(
        "Check “it builds”: The worker can influence this check: it writes Makefile."
    )
    await expect(card.locator(".card-why")).to_contain_text("one check decides whether it is done")
    await looks_right(person, f"{name}-declared")
    assert person.complaints == []


@pytest.mark.parametrize(("size", "name"), [(DESK, "desk"), (PHONE, "phone")])
async def test_a_large_plan_is_a_tree_whose_marked_parts_stay_open(
    place: Place, browser: Browser, size: ViewportSize, name: str
) -> None:
    added = [f"site/pages/page-{number}.html" for number in range(14)]
    changes = {
        "add": [*added, "site/<b>odd</b> name.txt", "site/assets/img/**", "tools/run", "tools/x"],
        "change": ["site/index.html", "README.md"],
        "remove": ["old/a.txt", "old/b.txt"],
        "executable": ["tools/run"],
    }
    item = parse(DECLARING.replace("    INFLUENCED\n", ""))
    assert item.workspace is not None
    touching = item.workspace.model_copy(update={"changes": DeclaredChanges(**changes)})
    await ask(place, item.model_copy(update={"workspace": touching}))
    person = await paired(place, browser, size)
    tree = person.page.locator(".review-active .card .files")
    await expect(tree.locator("summary")).to_have_text(
        [
            "old/ 2 removed",
            "site/ 1 changed, 15 files and 1 pattern added",
            "pages/ 14 added",
            "tools/ 2 added",
        ]
    )
    pages = tree.locator("details", has_text="pages/").last
    await expect(pages.locator("li").first).to_be_hidden()
    for sure in ("Removes a.txt", "Adds run: becomes a program"):
        await expect(tree.get_by_role("listitem").filter(has_text=sure).last).to_be_visible()
    await pages.locator("summary").focus()
    await person.page.keyboard.press("Enter")
    await expect(pages.locator("li")).to_have_count(14)
    await expect(pages.locator("li").first).to_be_visible()
    assert await tree.locator("b").count() == 0
    await looks_right(person, f"{name}-tree")
    assert await violations_by_day_and_night(person) == []
    assert person.complaints == []


async def test_a_plan_without_changes_and_without_a_proof_says_both(
    place: Place, browser: Browser
) -> None:
    item = parse("---\nid: plain\ntype: task\ntitle: Look\nwithout_proof: true\n---\nLook.\n")
    await ask(place, item)
    person = await paired(place, browser)
    card = person.page.locator(".review-active .card")
    await expect(card.locator(".files-none")).to_have_text("Changes no files of yours.")
    await expect(card.locator(".check-notes")).to_have_text("Nothing will show that this is done.")
    await expect(card.locator(".card-why")).to_have_text(
        "You asked for this. It runs in the sandbox."
    )
    await looks_right(person, "desk-no-proof")
