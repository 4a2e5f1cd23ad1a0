"""In a real Chromium, at a real server: a first hour, from the link to the second conversation.

A person is paired, gives a name, asks for a dozen things, declines a card, changes one, undoes one,
has a file read, tells a secret, makes a watch and stops it, connects a model, stops its answer,
corrects a memory and finds the first conversation again. In the middle the server is killed while
it works: nothing is lost, and nothing is done twice. On a phone, at a desk, and at a desk with the
keys alone. Nothing on the page complains, nothing scrolls sideways, and no word is on the screen
that is neither ordinary English nor in `docs/words.md`.

What it took (seconds, taps, keys) is printed, and judged by nobody: `pytest -s` shows it.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, ViewportSize, expect

from evals.firsthour.owner import Machine
from silas.testing.model_server import Reply, Request, answer, as_events, model_server
from tests.web.browsing import DESK, PHONE, Person
from tests.web.first_hour import FirstHour, Hands, Keys, explained
from tests.web.test_answering import decision
from tests.web.test_cards import until
from tests.web.test_memory_browser import item
from tests.web.test_onboarding import RIGHT

pytestmark = pytest.mark.slow
MOST_WORDS = 60
AWAY = {
    f"net::ERR_{why}"
    for why in ("CONNECTION_REFUSED", "CONNECTION_RESET", "CONNECTION_CLOSED", "EMPTY_RESPONSE")
}
"""What Chromium says of a server that was killed, before and after it has noticed."""
BEGINNING = "Good bread takes a night, and most of that time nobody does anything. "
REST = "The rest is a hot oven."


@dataclass
class Baker:
    """A small model that calls no tools. It knows what it is shown, and is slow about bread."""

    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, request: Request) -> Reply:
        if b"of bread?" in request.body and not self.may_end.is_set():
            return self._slowly(BEGINNING + REST)
        if b"about the tea?" in request.body:
            knows = b"the tea is black" in request.body
            return answer(decision("It is black, you said." if knows else "I do not know."))
        return answer(RIGHT)

    def _slowly(self, text: str) -> Reply:
        reply = as_events(answer(decision(text)))
        last = len(reply.pieces) - 4

        async def before(number: int) -> None:
            if number == last:
                await self.may_end.wait()

        return replace(reply, before_piece=before)


@pytest_asyncio.fixture(loop_scope="session")
async def machine(tmp_path: Path) -> AsyncIterator[Machine]:
    machine = Machine(tmp_path, {})
    await asyncio.to_thread(machine.set_up)
    yield machine
    await asyncio.to_thread(machine.stop)


@pytest.mark.parametrize(
    ("size", "hands"), [(PHONE, Hands), (DESK, Hands), (DESK, Keys)], ids=["phone", "desk", "keys"]
)
async def test_a_first_hour(
    machine: Machine, browser: Browser, size: ViewportSize, hands: type[Hands]
) -> None:
    person = await Person.at(browser, size)
    hour = FirstHour(person, size, hands(person.page))
    with hour.part("paired"):
        await paired(hour, machine)
    with hour.part("asked"):
        await asked(hour, machine)
    with hour.part("watched"):
        await watched(hour)
    with hour.part("killed"):
        await killed_at_work(hour, machine)
    with hour.part("told"):
        await told(hour)
    baker = Baker()
    async with model_server(baker) as server:
        with hour.part("model"):
            await connected(hour, server.url)
            await stopped(hour)
        baker.may_end.set()
        with hour.part("found"):
            await corrected(hour)
            await found_again(hour)
    print(f"\n{hour.report()}")
    assert hour.unexplained() == {}
    # While Silas was away, it could not be reached: the browser says so, and nothing else.
    assert {each.rpartition(" ")[2] for each in person.complaints} <= AWAY


async def paired(hour: FirstHour, machine: Machine) -> None:
    code = await asyncio.to_thread(machine.start)
    await hour.page.goto(f"http://127.0.0.1:{machine.port}/#pair={code}")
    await hour.picture("link")
    await hour.button("Pair this browser")
    await hour.person.is_in()
    await hour.page.get_by_role("button", name="Begin").wait_for()
    await hour.picture("hello")
    await hour.button("Begin")
    await expect(hour.page.get_by_role("heading", name="Which model")).to_be_visible()
    await hour.picture("model")
    await hour.button("Start without one")
    await hour.hands.write(hour.page.get_by_label("Your name"), "Ada")
    hour.requests.append("Ada")
    await hour.button("Continue")
    await hour.button("Start")
    await expect(hour.page.locator("dialog.first")).to_have_count(0)
    await hour.picture("welcome")
    await hour.hears("What is my name?", "Ada")


async def asked(hour: FirstHour, machine: Machine) -> None:
    page = hour.page
    await hour.plan("create a file notes/today.txt with buy milk")
    await hour.picture("card")
    await hour.approve()
    await hour.person.sees_it_done()
    assert (machine.files / "notes" / "today.txt").read_text() == "buy milk\n"
    await hour.picture("done")

    await hour.plan("create a file b.txt with no")
    await hour.button("Decline, do nothing")
    await hour.stream()
    await expect(page.locator(".plan-line").last).to_contain_text("Declined")
    assert not (machine.files / "b.txt").exists()

    await hour.plan("run `touch first.txt`")
    await hour.button("Ask for changes")
    words = page.get_by_role("textbox", name="What should be different?")
    await hour.hands.write(words, "run `touch second.txt`")
    await hour.button("Ask for changes")
    await page.locator(".diff-added", has_text="second.txt").first.wait_for()
    await hour.picture("changed")
    await hour.approve()
    await page.locator(".log").get_by_text("Done, not checked").last.wait_for()
    assert not (machine.files / "first.txt").exists()

    await hour.plan("create a file c.txt with gone soon")
    # It is another thing, and no version of what was sent back.
    assert await page.get_by_text("against the plan before").count() == 0
    await hour.approve()
    await hour.person.sees_it_done()
    await hour.button("Undo…")
    undo = page.locator(".just-done .card", has_text="Undo: Write c.txt")
    await expect(undo).to_be_visible()
    await hour.person.card_is_awake()
    await hour.picture("undo")
    await hour.hands.press(undo.get_by_role("button", name="Undo it"))
    await until(lambda: asyncio.to_thread((machine.files / "c.txt").exists), False)

    await hour.hears("What files are in ~/silas-files/notes?", "today.txt")
    await hour.hears("Show me notes/today.txt", "buy milk")
    await hour.hears("my wifi password is hunter2pass", "looks like a secret")
    if hour.size is PHONE:
        await hour.hands.press(page.locator(".tab[data-tab=review]"))
    await hour.person.card_is_awake()
    await hour.hands.write(page.locator("#secret-value"), "hunter2pass")
    await hour.picture("asked")
    await hour.button("Store it in the vault")
    await expect(page.locator("#secret-value")).to_have_count(0)
    assert await page.get_by_text("hunter2pass").count() == 0
    await hour.stream()


async def watched(hour: FirstHour) -> None:
    await hour.plan("Run `test -s notes/today.txt` every 15 minutes")
    await hour.picture("watch")
    await hour.approve()
    await hour.page.locator(".log").get_by_text("approved, every 15 minutes").wait_for()
    await hour.hears("What are you watching?", "every 15 minutes")
    await hour.hears("Stop watching notes/today.txt", "I stop")
    await hour.page.locator(".log").get_by_text("Nothing more of it is done.").last.wait_for()
    await hour.picture("stopped-watching")


async def killed_at_work(hour: FirstHour, machine: Machine) -> None:
    """Nothing is lost, and nothing is done twice: what was approved adds one line, once."""
    await hour.hears("Remember that the tea is green", "the tea is green")
    await hour.hears("Add task Squats due tomorrow 9am", "Squats")
    await hour.plan("Add buy bread to notes/today.txt")
    await hour.approve()
    said = await hour.page.locator(".message.owner").all_inner_texts()
    await asyncio.to_thread(machine.kill)
    await hour.person.is_out()
    await hour.picture("away")
    await asyncio.to_thread(machine.start)
    await hour.person.is_in()
    await hour.person.sees_it_done()
    done = hour.page.locator(".work-good", has_text="today.txt")
    await expect(done).to_have_count(2)
    assert (machine.files / "notes" / "today.txt").read_text() == "buy milk\nbuy bread\n"
    assert await hour.page.locator(".message.owner").all_inner_texts() == said
    await hour.hears("What is on tomorrow?", "Squats")
    await hour.picture("back")


async def told(hour: FirstHour) -> None:
    await hour.hears("Remind me to call mom tomorrow at 5pm", "call mom")
    await hour.hears("Add tasks: water the roses, pay the rent", "pay the rent")
    await hour.hears("What did you do?", "notes/today.txt")
    await hour.hears("Read my mail", "I have no mail yet")
    await hour.hears("Please water my bees", "I need a model for that")
    await hour.hears("What can you do?", "I can:")
    await hour.picture("told")


async def connected(hour: FirstHour, address: str) -> None:
    """A model is chosen in the settings, by its address."""
    page = hour.page
    await hour.button("Settings")
    await hour.picture("settings")
    await hour.button("Change: Model")
    await hour.hands.press(page.locator("summary", has_text="A server of your own"))
    await hour.hands.write(page.get_by_label("Address", exact=True), address)
    await hour.hands.key("Enter")
    await expect(page.get_by_text("openai:served-model")).to_be_visible()
    await hour.picture("tried")
    await hour.button("Continue")
    await hour.button("Close")
    await expect(page.locator("[data-brain]")).to_have_text("openai:served-model")
    await hour.person.is_in()


async def stopped(hour: FirstHour) -> None:
    await hour.say("What do you think of bread?")
    await expect(hour.page.locator(".growing")).to_contain_text(BEGINNING.strip())
    await hour.picture("growing")
    if isinstance(hour.hands, Keys):
        await hour.hands.key("Escape")
    else:
        await hour.button("Stop this answer")
    last = hour.page.locator(".message.silas:not(.growing)").last
    await expect(last).to_contain_text("You stopped this answer.")
    assert REST not in await last.inner_text()
    await hour.picture("stopped")
    # What is exact needs no model, also now.
    await hour.hears("What is my name?", "Ada")


async def corrected(hour: FirstHour) -> None:
    page = hour.page
    if hour.size is PHONE:
        await hour.button("Settings")
        await hour.button("Open: Memory")
    else:
        await hour.hands.press(page.locator("[data-tab=memory]:visible"))
    await hour.hands.press(item(page, "the tea is green").get_by_role("button", name="Correct"))
    await hour.hands.write(page.get_by_label("In your own words"), "the tea is black")
    await hour.button("Save")
    await expect(item(page, "the tea is black")).to_be_visible()
    await hour.picture("memory")
    await hour.hands.key("Escape")
    await hour.stream()


async def found_again(hour: FirstHour) -> None:
    page = hour.page
    if isinstance(hour.hands, Keys):
        await hour.hands.key("Alt+n")
    else:
        await hour.hands.press(page.locator(".talk-new"))
    await expect(page.locator(".message")).to_have_count(0)
    await hour.hears("What do you know about the tea?", "black")
    await hour.hands.key("Control+k")
    await hour.hands.write(page.locator("#find"), "milk")
    hit = page.locator("[data-hit=message] button").first
    await hit.wait_for()
    await hour.picture("search")
    await hour.hands.press(hit)
    await expect(page.locator(".message.found")).to_contain_text("milk")
    await hour.hands.press(page.locator("[data-tab=activity]:visible").first)
    await page.locator(".timeline").wait_for()
    await hour.picture("activity")


def test_a_user_has_few_words_to_learn() -> None:
    assert 20 < len(explained()) <= MOST_WORDS
