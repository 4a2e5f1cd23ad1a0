"""In a real Chromium: files are chosen, dropped and pasted; a long text becomes one."""

import base64
import re
import zlib
from pathlib import Path

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from tests.web.browsing import DESK, PHONE, Person
from tests.web.place import Place
from tests.web.test_accessibility import violations
from tests.web.test_cards import PICTURES

pytestmark = pytest.mark.slow
SIZES = pytest.mark.parametrize(("size", "name"), [(PHONE, "phone"), (DESK, "desk")])
COMPOSER = "Message to Silas"
EVENT = """([selector, kind, files, text]) => {
    const data = new DataTransfer();
    for (const [name, content] of files) {
        const bytes = Uint8Array.from(atob(content), (each) => each.charCodeAt(0));
        data.items.add(new File([bytes], name));
    }
    if (text) data.setData('text/plain', text);
    const event = kind === 'paste'
        ? new ClipboardEvent(kind, { bubbles: true, cancelable: true, clipboardData: data })
        : new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: data });
    return document.querySelector(selector).dispatchEvent(event);
}"""


async def pictured(person: Person, name: str) -> None:
    if PICTURES:
        await person.page.screenshot(path=Path(PICTURES) / f"{name}.png")


def chunk(kind: bytes, content: bytes) -> bytes:
    sum_ = zlib.crc32(kind + content).to_bytes(4, "big")
    return len(content).to_bytes(4, "big") + kind + content + sum_


def png(side: int = 40) -> bytes:
    """An image that browsers can show."""
    head = side.to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"
    rows = (b"\0" + b"\x0e\x64\x57" * side) * side
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


async def happens(
    person: Person, selector: str, kind: str, *files: tuple[str, bytes], text: str = ""
) -> bool:
    """An event with these files; whether the browser would go on with it by itself."""
    given = [(name, base64.b64encode(content).decode()) for name, content in files]
    went_on: bool = await person.page.evaluate(EVENT, [selector, kind, given, text])
    return went_on


@SIZES
async def test_chosen_dropped_and_pasted_files_go_along(
    place: Place, browser: Browser, tmp_path: Path, size: ViewportSize, name: str
) -> None:
    person = await Person.at(browser, size)
    page = person.page
    await person.pair(place.web.link())
    (tmp_path / "letter.txt").write_text("Dear <b>Anna</b>,\n")
    async with page.expect_file_chooser() as chooser:
        await page.get_by_role("button", name="Attach a file").click()
    await (await chooser.value).set_files([tmp_path / "letter.txt"])
    waiting = page.locator(".composer-files .attached[data-kept]")
    await expect(waiting).to_have_count(1)
    assert not await happens(person, ".log", "drop", ("cat.png", png()))
    await expect(waiting).to_have_count(2)
    assert not await happens(person, "#say", "paste", ("shot.png", png(30)))
    await expect(waiting).to_have_count(3)
    await page.get_by_role("button", name="Remove shot.png").click()
    await expect(waiting).to_have_count(2)
    await pictured(person, f"{name}-attaching")
    assert await violations(person) == []
    await page.get_by_role("button", name="Send").click()
    mine = page.locator(".message.owner:not(.unsent)")
    await expect(mine.locator(".bubble")).to_have_text("See the attached files.")
    await expect(mine.locator(".attached-link")).to_have_count(2)
    await expect(page.locator(".message.silas").last).to_contain_text("I have got letter.txt: text")
    await expect(page.locator(".message.silas").last).to_contain_text("Dear <b>Anna</b>")
    await expect(page.locator(".composer-files")).to_be_hidden()
    await page.wait_for_function("document.querySelector('.attached-image')?.naturalWidth === 40")
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await pictured(person, f"{name}-attached")
    assert await violations(person) == []
    async with page.expect_download() as saved:
        await mine.locator(".attached-link").first.click()
    assert (await (await saved.value).path()).read_text() == "Dear <b>Anna</b>,\n"
    await page.reload()
    await person.is_in()
    await expect(mine.locator(".attached-link")).to_have_count(2)
    await page.wait_for_function("document.querySelector('.attached-image')?.naturalWidth === 40")
    assert person.complaints == []


@SIZES
async def test_a_long_pasted_text_becomes_a_file_and_can_stay_a_text(
    place: Place, browser: Browser, size: ViewportSize, name: str
) -> None:
    person = await Person.at(browser, size)
    page = person.page
    await person.pair(place.web.link())
    field = page.get_by_label(COMPOSER)
    await field.fill("look: ")
    assert await happens(person, "#say", "paste", text="short"), "the browser does it as ever"
    long = "A long line of a text. " * 300
    assert not await happens(person, "#say", "paste", text=long)
    waiting = page.locator(".composer-files .attached[data-kept]")
    await expect(waiting).to_contain_text("pasted-text.txt")
    await expect(waiting).to_contain_text("6.9 kB")
    await pictured(person, f"{name}-pasted")
    await waiting.get_by_role("button", name="Keep it as text").click()
    await expect(page.locator(".composer-files")).to_be_hidden()
    await expect(field).to_have_value(f"look: {long}")
    await field.fill("what is this?")
    await happens(person, "#say", "paste", text="x" * 40_000)
    await expect(waiting).to_have_count(1)
    await waiting.get_by_role("button", name="Keep it as text").click()
    status = page.locator(".composer-files [role=status]")
    await expect(status).to_have_text("It is too long for a message, so it stays a file.")
    await field.press("Enter")
    await expect(page.locator(".message.silas").last).to_contain_text(
        "pasted-text.txt: text, 40 kB"
    )
    assert person.complaints == []


async def test_what_cannot_be_attached_is_said_beside_it(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, PHONE)
    page = person.page
    await person.pair(place.web.link())
    await happens(person, "#say", "paste", ("empty.txt", b""))
    refused = page.locator(".composer-files .refused")
    await expect(refused).to_contain_text("empty.txt is empty: there is nothing to attach.")
    await expect(page.get_by_role("button", name="Send")).to_be_disabled()
    await page.get_by_role("button", name="Remove empty.txt").click()
    await happens(person, ".log", "drop", *((f"{each}.txt", b"x") for each in range(9)))
    await expect(page.locator(".composer-files .attached[data-kept]")).to_have_count(8)
    await expect(refused).to_contain_text("at most 8 files")
    assert await violations(person) == []
    assert [each for each in person.complaints if not re.search("409", each)] == []


async def test_a_message_whose_file_is_gone_comes_back_into_the_composer(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, PHONE)
    page = person.page
    await person.pair(place.web.link())
    await happens(person, "#say", "paste", ("a.txt", b"hello"))
    await expect(page.locator(".composer-files .attached[data-kept]")).to_have_count(1)
    await place.core.database.execute("DELETE FROM attachments")
    await page.get_by_label(COMPOSER).fill("What is this?")
    await page.keyboard.press("Enter")
    await expect(page.get_by_label(COMPOSER)).to_have_value("What is this?")
    await expect(page.get_by_text("a.txt: An attached file is not here")).to_be_visible()
    await expect(page.locator(".message.owner")).to_have_count(0)
    assert person.complaints == []
