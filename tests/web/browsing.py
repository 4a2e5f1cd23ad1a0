"""A real Chromium, with its own protections of private networks switched off."""

import contextlib
import re
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    ViewportSize,
    async_playwright,
    expect,
)

# The shell is the same engine without windows: a page takes a third of the time, and one that is
# not in front is drawn, too.
_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = next(filter(None, map(shutil.which, _PROGRAMS)), "/usr/bin/chromium")
PHONE: ViewportSize = {"width": 375, "height": 812}
DESK: ViewportSize = {"width": 1440, "height": 900}
SWITCHED_OFF = [
    "--no-sandbox",  # tests may run as root, where Chromium's own sandbox cannot
    "--host-resolver-rules=MAP *.test 127.0.0.1",
    "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests",
]
SCROLLS_IN_A_CARD = """() => [...document.querySelectorAll(".card *")].filter((node) => {
    const { overflowX, overflowY } = getComputedStyle(node);
    const scrolls = (how) => ["auto", "scroll"].includes(how);
    return node.offsetParent &&
        ((scrolls(overflowY) && node.scrollHeight > node.clientHeight + 1) ||
         (scrolls(overflowX) && node.scrollWidth > node.clientWidth + 1));
}).map((node) => `${node.tagName}.${node.className}`)"""
"""What scrolls by itself inside a card; the surface that the card lies on is to scroll alone."""
BEYOND_THE_EDGE = """() => [...document.querySelectorAll(".shell *")].filter((node) => {
    const { left, right, width } = node.getBoundingClientRect();
    const seen = width > 1 && node.checkVisibility({ visibilityProperty: true });
    return seen && !node.closest(".over:not([data-current])") &&
        (left < -1 || right > innerWidth + 1);
}).map((node) => `${node.tagName}.${node.className}`)"""
"""What reaches beyond the sides of the window."""
_SECONDS = 90_000
_BLOCKED = "Service Worker registration blocked by Playwright"
# A busy machine is slow, not wrong.
expect.set_options(timeout=_SECONDS)


@contextlib.asynccontextmanager
async def chromium(*more: str) -> AsyncIterator[Browser]:
    """A Chromium with these options, too."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*SWITCHED_OFF, *more], timeout=180_000
        )
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Person:
    """Somebody in front of a page, and what the page complained about."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    @classmethod
    async def at(
        cls,
        browser: Browser,
        size: ViewportSize = PHONE,
        context: BrowserContext | None = None,
        *,
        intercepted: bool = False,
    ) -> "Person":
        """A person at a page of their own.

        Intercepted, for a test that answers requests itself: what passes a service worker is not
        seen by `page.route`, and nobody knows when the worker takes the page over.
        """
        workers: Literal["allow", "block"] = "block" if intercepted else "allow"
        context = context or await browser.new_context(viewport=size, service_workers=workers)
        page = await context.new_page()
        page.context.set_default_timeout(_SECONDS)  # also of the pages that it opens later
        person = cls(page)
        page.on("console", person._hear)
        page.on("pageerror", lambda error: person.complaints.append(str(error)))
        return person

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and _BLOCKED not in message.text:
            self.complaints.append(message.text)

    async def pair(self, link: str) -> None:
        await self.page.goto(link)
        await self.page.get_by_role("button", name="Pair this browser").click()
        await self.is_in()

    async def is_in(self) -> None:
        await expect(self.page.locator("[data-line]")).to_have_attribute("data-state", "open")

    async def is_out(self) -> None:
        """The page has noticed that the server is gone."""
        line = self.page.locator("[data-line]")
        await expect(line).not_to_have_attribute("data-state", "open")

    async def say(self, text: str) -> None:
        await self.page.get_by_label("Message to Silas").fill(text)
        await self.page.keyboard.press("Enter")

    async def go(self, surface: str) -> None:
        await self.page.locator(f".tab[data-tab={surface}]").click()

    async def look_at_plan(self) -> None:
        await self.page.get_by_role("button", name="Look at the plan").last.click()
        await self.card_is_awake()

    async def card_is_awake(self) -> None:
        """The half second is over in which a card hears nothing."""
        await self.page.locator(".card:not([data-arming])").first.wait_for()
        await expect(self.page.locator(".card[data-arming]")).to_have_count(0)

    async def approve(self) -> None:
        await self.page.get_by_role("button", name="Approve and run").click()
        await self.card_is_awake()
        await self.page.get_by_role("button", name=re.compile("^Yes: ")).click()

    async def sees_it_done(self) -> None:
        await self.page.locator(".work-good .check-passed").last.wait_for()
        await expect(self.page.locator(".work-good .work-head").last).to_contain_text(
            "Done, and checked"
        )
