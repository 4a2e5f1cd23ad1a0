"""In a real Chromium: a mail is shown whole before it is sent, and edited in place."""

from pathlib import Path

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from tests.servers.dovecot import Dovecot, dovecot, message
from tests.servers.smtp import SmtpServer, smtp
from tests.web.browsing import BEYOND_THE_EDGE, DESK, PHONE, Person
from tests.web.mail_account import servers_of
from tests.web.place import Place
from tests.web.test_accessibility import violations_by_day_and_night
from tests.web.test_account_uses import Talk
from tests.web.test_cards import PICTURES

__all__ = ["dovecot", "smtp"]
pytestmark = pytest.mark.slow
_LONG = 180_000
MINE = "Tuesday is fine.\n\nSee you at noon."


async def picture(person: Person, name: str) -> None:
    if PICTURES:
        await person.page.screenshot(path=Path(PICTURES) / f"{name}.png")


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
async def test_an_answer_is_read_whole_edited_and_sent(
    place: Place, browser: Browser, size: ViewportSize, dovecot: Dovecot, smtp: SmtpServer
) -> None:
    account = dovecot.add_account()
    account.deliver(message("Lunch?", text="Is Tuesday fine?"))
    device = await place.device()
    async with device.conversation() as line:
        talk = Talk(place, device, line)
        shown = await talk.connect(
            account.address, account.password, options=servers_of(dovecot, smtp), name="Private"
        )
        await talk.may(shown["connection_id"], "mail.act")
    person = await Person.at(browser, size)
    page = person.page
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    await person.pair(place.web.link())
    await person.say("Read the mail from Ann")
    await expect(page.locator("#stream")).to_contain_text("Is Tuesday fine?", timeout=_LONG)
    await person.say("Answer that Tuesday is fine")
    await person.look_at_plan()
    card = page.locator(".card")
    letter = card.locator(".letter")
    await expect(letter).to_be_visible(timeout=_LONG)
    for part in ("ann@example.com", "Re: Lunch?", "Private", "Tuesday is fine."):
        await expect(letter).to_contain_text(part)
    await expect(card).to_contain_text("Text from outside had a part in this")
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    assert await violations_by_day_and_night(person) == []
    await picture(person, f"letter-{size['width']}")

    await person.card_is_awake()
    await card.get_by_role("button", name="Ask for changes").click()
    area = page.get_by_label("The text")
    await expect(area).to_have_value("Tuesday is fine.", timeout=_LONG)
    await area.fill(MINE)
    assert await page.evaluate(BEYOND_THE_EDGE) == []
    await picture(person, f"letter-draft-{size['width']}")
    await person.card_is_awake()
    await page.get_by_role("button", name="Use my version").click()
    await expect(letter).to_contain_text("See you at noon.", timeout=_LONG)
    assert smtp.sent_by(account.address) == []
    await person.card_is_awake()
    await card.get_by_role("button", name="Approve and run").click()
    slider = card.get_by_role("slider")
    await expect(slider).to_be_visible()
    await person.card_is_awake()
    await slider.press("End")
    await expect(page.locator("#stream")).to_contain_text("Answer Ann Other: Done", timeout=_LONG)
    [sent] = smtp.sent_by(account.address)
    assert b"See you at noon." in sent.content
    assert person.complaints == []
