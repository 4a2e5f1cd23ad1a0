"""One person's first hour at the page, with a finger, a mouse or the keys alone.

`Hands` is how somebody acts, and counts it; `Keys` never uses the mouse. `FirstHour` is what is
done with them; it collects the words on the screen, and what is in nobody's dictionary.
"""

import calendar
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path

from playwright.async_api import Locator, Page, ViewportSize, expect

from tests.sentences.collect import ROOT
from tests.web.browsing import PHONE, Person
from tests.web.test_accessibility import violations

PICTURES = os.environ.get("SILAS_SCREENSHOTS")
"""Where pictures of the way are put; none are taken without it."""
_MOST_TABS = 400
_FOCUSED = "(node) => node === document.activeElement"
# What a person wrote, and what is quoted as it was, is nobody's to explain.
_WORDS = """() => {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const node = walker.currentNode.parentElement;
        const quotes = "code, pre, .diff-lines, .memory-text, .message.owner, script, style";
        if (node.closest(quotes)) continue;
        if (node.checkVisibility({ visibilityProperty: true, opacityProperty: true }))
            found.push(walker.currentNode.textContent);
    }
    return found;
}"""
APPROVE = re.compile("^Approve ")
AFTER_THE_LAST_REQUEST = (
    "xpath=(//*[contains(@class, 'message owner')])[last()]"
    "/following-sibling::*[contains(@class, 'message silas')]"
)


@dataclass
class Hands:
    """A finger or a mouse, and a keyboard to write with."""

    page: Page
    taps: int = 0
    keys: int = 0
    """Keys other than those of the text that is written."""

    async def press(self, what: Locator) -> None:
        """Press a button, a link or whatever else acts."""
        await what.click()
        self.taps += 1

    async def write(self, where: Locator, text: str) -> None:
        """Put a text in the place of what is there."""
        await where.fill(text)
        self.taps += 1

    async def slide(self, what: Locator) -> None:
        """Bring a slider to its end."""
        box = await what.bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        await self.page.mouse.move(box["x"] + 10, middle)
        await self.page.mouse.down()
        await self.page.mouse.move(box["x"] + box["width"] - 1, middle, steps=5)
        await self.page.mouse.up()
        self.taps += 1

    async def key(self, name: str) -> None:
        """Press a key."""
        await self.page.keyboard.press(name)
        self.keys += 1


class Keys(Hands):
    """The keys alone: Tab goes to what is meant, Enter presses it."""

    async def press(self, what: Locator) -> None:
        await self._reach(what)
        await self.key("Enter")

    async def write(self, where: Locator, text: str) -> None:
        await self._reach(where)
        await self.key("ControlOrMeta+a")
        await self.page.keyboard.insert_text(text)

    async def slide(self, what: Locator) -> None:
        await self._reach(what)
        await self.key("End")

    async def _reach(self, what: Locator) -> None:
        await what.wait_for()
        for _ in range(_MOST_TABS):
            if await what.evaluate(_FOCUSED):
                return
            await self.key("Tab")
        raise AssertionError(f"Tab does not lead to {what}")


@dataclass
class FirstHour:
    """One person at one size of screen."""

    person: Person
    size: ViewportSize
    hands: Hands
    requests: list[str] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)
    """Texts that were on the screen."""
    took: list[tuple[str, float]] = field(default_factory=list)
    """The parts of the hour, and how many seconds each took."""
    _pictures: int = 0

    @property
    def page(self) -> Page:
        return self.person.page

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A part of the hour, with its seconds."""
        begun = time.monotonic()
        yield
        self.took.append((name, time.monotonic() - begun))

    async def picture(self, name: str) -> None:
        """Look at the screen as it is."""
        assert await self.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        self.shown.update(await self.page.evaluate(_WORDS))
        if not isinstance(self.hands, Keys):  # who uses the keys alone sees the same
            found = await violations(self.person)
            assert found == [], f"{name}: {found}"
        if PICTURES:
            self._pictures += 1
            how = type(self.hands).__name__.lower()
            at = f"{self.size['width']}-{how}-{self._pictures:02}-{name}.png"
            await self.page.screenshot(path=Path(PICTURES) / at)

    async def button(self, name: str | re.Pattern[str]) -> None:
        """Press the last button of this name."""
        await self.hands.press(self.page.get_by_role("button", name=name).last)

    async def stream(self) -> None:
        """Go to the conversation, where it is not in view."""
        if self.size is PHONE and await self.page.locator(".tab[data-tab=stream]").is_visible():
            await self.hands.press(self.page.locator(".tab[data-tab=stream]"))

    async def say(self, request: str) -> None:
        """Say something; it stands in the conversation afterwards."""
        await self.stream()
        before = await self.page.locator(".message.owner").count()
        await self.hands.write(self.page.get_by_label("Message to Silas"), request)
        await self.hands.key("Enter")
        self.requests.append(request)
        await expect(self.page.locator(".message.owner")).to_have_count(before + 1)

    async def hears(self, request: str, answer: str) -> None:
        """Say something and wait for the words that must come back."""
        await self.say(request)
        await self.page.locator(AFTER_THE_LAST_REQUEST).filter(has_text=answer).first.wait_for()

    async def plan(self, request: str) -> None:
        """Ask for something that needs a card, and look at the card."""
        await self.say(request)
        if self.size is PHONE:
            await self.button("Look at the plan")
        await self.page.get_by_role("button", name=APPROVE).wait_for()
        await self.person.card_is_awake()

    async def approve(self) -> None:
        """Approve the card that is in view, and go back to the conversation."""
        await self.person.card_is_awake()
        await self.button(APPROVE)
        await self.page.locator(".card-ask").wait_for()
        await self.person.card_is_awake()
        slider = self.page.get_by_role("slider")
        if await slider.count():
            await self.hands.slide(slider)
        else:
            await self.button(re.compile("^Yes: "))
        # Silas has it, and the page says so.
        await expect(self.page.locator(".plan-line").last).to_contain_text("Approved")
        await self.stream()

    def report(self) -> str:
        """What it took, and which words nobody has explained."""
        parts = ", ".join(f"{name} {seconds:.0f}" for name, seconds in self.took)
        whole = sum(seconds for _, seconds in self.took)
        return (
            f"{len(self.requests)} requests, {self.hands.taps} taps, {self.hands.keys} keys beside"
            f" the text, {whole:.0f} s ({parts}), unexplained words: {self.unexplained() or 'none'}"
        )

    def unexplained(self) -> dict[str, str]:
        """Words that are neither ordinary nor explained, nor the person's own, each with a text."""
        own = {word.lower() for word in _WORD.findall(" ".join(self.requests))}
        found = {}
        for text in sorted(self.shown):
            strange = {word for word in _words_of(text) - own if _is_strange(word)}
            strange |= {each for each in jargon() if re.search(rf"\b{each}s?\b", text.lower())}
            found |= dict.fromkeys(strange, text)
        return found


# Words.

_WORD = re.compile(r"[^\W\d]\w*(?:['’]\w+)*")  # noqa: RUF001 - the apostrophe that the page writes
_QUOTED = re.compile(r"“[^”]*”|`[^`]*`|\S*[/~]\S*|\S+\.\w+")
"""Examples of what can be said, names of files and addresses."""
_NAMES = frozenset(["litellm", "llama", "lm", "ollama", "openai", "openrouter", "vllm"])
"""What other people call their own."""
_DATES = frozenset(each.lower() for each in (*calendar.day_abbr, *calendar.month_abbr) if each)
"""How dates are written, whatever day the hour is on."""
_ALSO = frozenset(["mailbox"])
"""Ordinary words that the list of frequent ones does not have."""
_ENDINGS = ("", "s", "es", "d", "ed", "r", "er", "ing", "ly", "able", "'s", "’s")  # noqa: RUF001
_PLAIN = frozenset(
    [
        "agent",
        "attempt",
        "channel",
        "chronicle",
        "connection",
        "context",
        "delivery",
        "device",
        "owner",
        "predicate",
        "proof",
        "question",
        "queue",
        "report",
        "run",
        "runtime",
        "source",
        "surface",
        "tool",
        "trace",
        "turn",
        "wake",
    ]
)
"""Words of the glossary that the page uses as everybody does, or not at all."""
_ROW = re.compile(r"^\| ([^|]+) \|", re.MULTILINE)
_NAMED = re.compile(r"\*(\w[\w ]*)\*")


@cache
def explained() -> frozenset[str]:
    """The words of `docs/words.md`."""
    rows = _ROW.findall((ROOT / "docs" / "words.md").read_text("utf-8"))
    return frozenset(word.lower() for word in rows if word != "Word")


@cache
def jargon() -> frozenset[str]:
    """What only those who work on Silas have to know: the glossary beyond `docs/words.md`."""
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    words = {word.lower() for word in (*_ROW.findall(text), *_NAMED.findall(text))}
    return frozenset(words - explained() - _PLAIN - {"word"})


@cache
def _ordinary() -> frozenset[str]:
    """The twenty thousand English words that are most frequent: a model's vocabulary."""
    path = resources.files("silas.memory.minilm").joinpath("vocab.txt")
    return frozenset(word for word in path.read_text("utf-8").split() if word.isalpha())


def _words_of(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(_QUOTED.sub(" ", text))}


def _is_strange(word: str) -> bool:
    learnt = {part for each in explained() for part in each.split()}
    known = _ordinary() | learnt | _NAMES | _DATES | _ALSO
    stems = {word.removesuffix(ending) for ending in _ENDINGS if word.endswith(ending)}
    doubled = {stem[:-1] for stem in stems if stem[-2:-1] == stem[-1:]}
    stems |= {stem + "e" for stem in stems} | doubled
    return not stems & known
