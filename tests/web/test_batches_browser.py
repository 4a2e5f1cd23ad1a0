"""In a real Chromium, at the size of a phone: a batch of mails is decided and taken back."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from silas.app.work import off_limits_of
from silas.review.decisions import QuestionKind
from silas.testing.work import authorise_with_vault
from silas.work import decode_plan, parse_plan
from silas.work.binding import bind_plan
from tests.proactive.mailbox import GOAL, HOST, mail
from tests.servers.dovecot import Dovecot, dovecot
from tests.servers.smtp import SmtpServer, smtp
from tests.web.browsing import BEYOND_THE_EDGE, DESK, PHONE, Person
from tests.web.mail_account import servers_of
from tests.web.place import Place
from tests.web.test_accessibility import violations_by_day_and_night
from tests.web.test_account_uses import Talk
from tests.web.test_cards import PICTURES
from tests.web.test_connections_browser import open_connections

__all__ = ["dovecot", "smtp"]
pytestmark = pytest.mark.slow
_LONG = 180_000


async def picture(person: Person, name: str) -> None:
    if PICTURES:
        await person.page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)


async def look_once(place: Place) -> None:
    """Approve the goal at the machine, and run one cycle of it."""
    core, work = place.core, place.house.stream.work
    parsed = parse_plan(decode_plan(GOAL.format(name=core.ids.new("goal")).encode()), known=())
    bound = await bind_plan(
        parsed, base=place.home, off_limits=off_limits_of(core.paths), skills=core.skill_files
    )
    saved = await core.work.items.save(bound.root)
    await core.conversations.note_typed([saved], owner_id="owner")
    looked = await work.execute(await authorise_with_vault(work.context, saved))
    assert looked.status.value == "healthy", looked.last_error


async def test_ten_mails_are_sorted_with_three_taps_and_taken_back_with_one(
    place: Place, browser: Browser, dovecot: Dovecot, smtp: SmtpServer
) -> None:
    account = dovecot.add_account()
    account.deliver(
        *(mail(f"This week at number {number}: offers for spring") for number in range(10)),
        mail("Re: our contract"),
        mail("One", sender="order@shop.example", listed=False),
    )
    servers = servers_of(dovecot, smtp)
    device = await place.device()
    async with device.conversation() as line:
        talk = Talk(place, device, line)
        shown = await talk.connect(
            account.address,
            account.password,
            options={**servers, "imap": f"{HOST}:{dovecot.imap_port}/none@127.0.0.1"},
            name="Private",
        )
        await talk.may(shown["connection_id"], "mail.act")
    await look_once(place)
    person = await Person.at(browser, PHONE)
    page = person.page
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await person.pair(place.web.link())
    await person.go("review")  # the first tap
    await person.card_is_awake()
    card = page.locator(".card-of-items").first
    await expect(card).to_contain_text("Archive: 10 items", timeout=_LONG)
    assert await card.get_by_role("checkbox").count() == 10
    assert await card.locator("input:checked").count() == 10
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    assert await violations_by_day_and_night(person) == []
    await picture(person, "batch-phone")
    await page.set_viewport_size(DESK)
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    await picture(person, "batch-desk")
    await page.set_viewport_size(PHONE)
    await person.card_is_awake()
    await card.get_by_role("button", name="Archive: 10").click()  # the second
    await expect(page.locator("#stream")).to_contain_text("Archive: 10 done.", timeout=_LONG)
    assert len(account.subjects("Archive")) == 10

    # The odd one has no tick; it is left out.
    card = page.locator(".card-of-items").first
    await expect(card).to_contain_text("it answers something", timeout=_LONG)
    await picture(person, "batch-odd-phone")
    await person.card_is_awake()
    await card.get_by_role("button", name="None of them").click()

    # What no rule fits is asked about, with the rule that it could become.
    teaching = page.locator(".card-of-teaching")
    await expect(teaching).to_contain_text("No rule of yours fits it", timeout=_LONG)
    rule = page.locator(".card-of-rule")
    await expect(rule).to_contain_text("A rule for later")
    await picture(person, "teaching-phone")
    await page.set_viewport_size(DESK)
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    await picture(person, "teaching-desk")
    await page.set_viewport_size(PHONE)
    await person.card_is_awake()
    await teaching.get_by_role("button", name="Archive", exact=True).click()
    await expect(teaching).to_be_hidden(timeout=_LONG)
    await person.card_is_awake()
    await rule.get_by_role("button", name="Archive", exact=True).click()
    await person.card_is_awake()
    await rule.get_by_role("button", name="Yes:").click()
    await expect(rule).to_be_hidden(timeout=_LONG)
    [signed] = (await place.house.batches.answers.list_rules()).rules
    assert signed.then == "archive"
    assert not [
        each
        for each in await place.house.batches.questions.open()
        if each.content.kind is QuestionKind.ITEMS
    ]
    await person.go("stream")
    told = page.locator(".message.silas", has_text="Archive: 10 done.")
    await told.get_by_text("One of these 10").click()
    first = told.get_by_role("listitem").first
    await expect(first).to_contain_text("This week at number")
    await first.get_by_role("button", name="Take back").click()
    await expect(first).to_contain_text("Taken back.", timeout=_LONG)
    assert len(account.subjects("Archive")) == 10, "nine, and the one that was taught"
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    await picture(person, "batch-told-phone")
    await told.get_by_role("button", name="Undo").click()
    await expect(told).to_contain_text("9 times mail_archive: Taken back.", timeout=_LONG)
    await open_connections(page, PHONE)
    kept = page.locator(f"[data-rule={signed.rule_id}]")
    await expect(kept).to_contain_text("from order@shop.example")
    await kept.get_by_role("button", name="Take back").click()
    await expect(kept).to_have_count(0)
    assert (await place.house.batches.answers.list_rules()).rules == []
    assert person.complaints == []
