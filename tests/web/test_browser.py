"""In a real Chromium: a person pairs, asks, sees the plan, approves it and sees it checked."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

import silas.web.socket
from silas.kernel import TaintLevel, canonical_bytes
from silas.web import wire
from tests.web.browsing import DESK, PHONE, SCROLLS_IN_A_CARD, Person
from tests.web.place import Place, environ_for, open_place
from tests.web.strong import ask, plan_calling
from tests.web.test_calls import let_it_wait, verdict_of

pytestmark = pytest.mark.slow
ASK = "create a file a.txt with hello"
FITS = """() => {
    const { scrollWidth, scrollHeight } = document.documentElement;
    return scrollWidth <= innerWidth && scrollHeight <= innerHeight;
}"""
VECTORS = Path(__file__).parent / "canonical_vectors.json"


async def test_on_a_phone_from_pairing_to_the_checked_result(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, PHONE)
    page = person.page
    await person.pair(place.web.link())
    assert page.url == f"{place.address}/", "the code is gone from the address"
    await person.say(ASK)
    await person.look_at_plan()
    card = page.locator(".card")
    await expect(card.locator(".card-intent")).to_have_text("Write a.txt")
    await expect(card.locator(".risk")).to_have_text("Medium risk")
    assert await page.evaluate(SCROLLS_IN_A_CARD) == []
    await card.get_by_text("Everything that is signed").click()
    await card.get_by_text("The exact text that is signed").click()
    [kept] = await place.house.cards.open_cards()
    [plan_hash] = kept.plan_hashes.values()
    await expect(card.locator(".hash")).to_contain_text(plan_hash)
    assert not (place.home / "silas-files" / "a.txt").exists()
    await person.approve()
    await person.sees_it_done()  # after the last yes, the conversation is in front
    assert (place.home / "silas-files" / "a.txt").read_text() == "hello\n"
    await person.go("review")
    await expect(page.get_by_text("Nothing is waiting for you")).to_be_visible()
    await person.go("activity")
    await expect(page.locator(".timeline")).to_contain_text(
        "“Write a.txt” was done, and checked: added a.txt."
    )
    await page.get_by_text("How deciding goes").click()
    await expect(page.locator(".deciding")).to_contain_text("Time to decide, medium risk:")
    await page.reload()
    await person.is_in()
    await person.sees_it_done()
    await expect(page.locator(".bubble")).to_have_text(ASK)
    assert await page.evaluate(FITS), "the conversation scrolls, the page does not"
    assert person.complaints == []


async def test_at_a_desk_with_the_keyboard_alone_no_means_no(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, DESK)
    page = person.page
    await page.goto(place.web.link())
    await page.locator("button:focus").wait_for()
    await page.keyboard.press("Enter")
    await person.is_in()
    await page.locator("#say:focus").wait_for()
    await page.keyboard.type(ASK)
    await page.keyboard.press("Enter")
    await person.card_is_awake()
    assert await page.locator(".stream").is_visible()
    assert await page.evaluate(FITS)
    await page.get_by_role("button", name="Decline, do nothing").focus()
    await page.keyboard.press("Enter")
    await expect(page.locator(".log")).to_contain_text("not approved")
    await expect(page.get_by_text("Nothing is waiting for you")).to_be_visible()
    await page.keyboard.press("Alt+3")
    await expect(page.locator(".activity")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator(".activity")).not_to_be_visible()
    assert not (place.home / "silas-files" / "a.txt").exists()
    assert person.complaints == []


async def test_a_card_that_is_decided_elsewhere_is_gone(place: Place, browser: Browser) -> None:
    context = await browser.new_context(viewport=DESK)
    person = await Person.at(browser, context=context)
    await person.pair(place.web.link())
    second = await Person.at(browser, context=context)
    await second.page.goto(place.address)
    await second.is_in()
    await person.say("create a file elsewhere.txt with x")
    await person.card_is_awake()
    await second.card_is_awake()
    await second.page.get_by_role("button", name="Decline, do nothing").click()
    await expect(person.page.get_by_text("Nothing is waiting for you")).to_be_visible()


async def test_what_is_riskier_asks_for_more(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, DESK)
    page = person.page
    await person.pair(place.web.link())
    # What a stranger's words have led to is of high risk. What cannot be undone, such as a tool
    # that declares nothing, asks for a passkey on top (`test_passkeys.py`).
    await ask(place, plan_calling(None), taint=TaintLevel.EXTERNAL)
    await person.card_is_awake()
    await expect(page.locator(".risk").first).to_have_text("High risk")
    await expect(page.locator(".card-details")).to_have_attribute("open", "")
    await page.get_by_role("button", name="Approve and run").click()
    slide = page.get_by_role("slider")
    await slide.wait_for()
    await person.card_is_awake()
    await slide.press("ArrowRight")
    assert await page.locator(".card-busy").count() == 0
    await slide.press("End")
    await expect(page.get_by_text("Nothing is waiting for you")).to_be_visible()
    assert (await place.house.cards.get("card_1")).state == "approved"


async def test_a_card_that_somebody_has_changed_is_not_approved(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, DESK)
    page = person.page
    await ask(place, plan_calling("send_mail"))
    await place.core.database.execute("UPDATE review_cards SET risk = 'low'")
    await person.pair(place.web.link())
    await person.card_is_awake()
    await expect(page.locator(".card-refusal")).to_contain_text("can only be declined")
    assert await page.get_by_role("button", name="Approve and run").count() == 0
    await page.get_by_role("button", name="Decline, do nothing").click()
    await expect(page.get_by_text("Nothing is waiting for you")).to_be_visible()


async def test_it_comes_back_after_a_restart_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Browser
) -> None:
    environ = environ_for(tmp_path)
    monkeypatch.setenv("HOME", environ["HOME"])
    person = await Person.at(browser, PHONE)
    async with open_place(tmp_path, environ) as place:
        await person.pair(place.web.link())
        await person.page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    await expect(person.page.locator("[data-line]")).to_have_attribute("data-state", "waiting")
    await person.say("what can you do?")
    await expect(person.page.locator(".unsent")).to_contain_text("Sending…")
    shell = await person.page.context.new_page()
    await shell.goto(place.address)
    await expect(shell.locator("[data-line]")).to_contain_text("Not connected")
    async with open_place(tmp_path, environ):
        await person.is_in()
        await expect(person.page.locator(".log")).to_contain_text("I am the offline brain")
        await expect(person.page.locator(".bubble")).to_have_count(1)


async def test_a_revoked_browser_sees_nothing_more(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, PHONE)
    await person.pair(place.web.link())
    [device] = await place.core.devices.list()
    await place.core.devices.revoke(device.device_id)
    await place.web.devices_changed()
    await expect(person.page.get_by_text("This browser is no longer paired")).to_be_visible()
    await person.page.reload()
    await expect(person.page.get_by_text("This browser is no longer paired")).to_be_visible()


async def test_a_browser_that_was_too_slow_tries_again(
    place: Place, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = await Person.at(browser, PHONE)
    await person.pair(place.web.link())
    monkeypatch.setattr(silas.web.socket, "_AUTH_SECONDS", 0)
    await person.page.reload()
    await expect(person.page.locator("[data-line]")).to_have_attribute("data-state", "waiting")
    monkeypatch.setattr(silas.web.socket, "_AUTH_SECONDS", 60)
    await person.is_in()


async def test_the_key_cannot_be_taken_out(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, PHONE)
    await person.pair(place.web.link())
    tried = await person.page.evaluate("""async () => {
        const opened = await new Promise((resolve) => {
            const request = indexedDB.open("silas", 1);
            request.onsuccess = () => resolve(request.result);
        });
        const device = await new Promise((resolve) => {
            const request = opened.transaction("device").objectStore("device").get("this");
            request.onsuccess = () => resolve(request.result);
        });
        const kinds = ["raw", "pkcs8", "jwk"];
        const refused = await Promise.all(kinds.map((kind) =>
            crypto.subtle.exportKey(kind, device.keys.privateKey).then(() => "taken", () => "no")));
        return [device.keys.privateKey.extractable, ...refused];
    }""")
    assert tried == [False, "no", "no", "no"]


async def test_the_page_writes_the_same_canonical_bytes(place: Place, browser: Browser) -> None:
    context = await browser.new_context(bypass_csp=True)
    page = await context.new_page()
    await page.goto(f"{place.address}/health")
    for vector in json.loads(VECTORS.read_text()):
        wanted = canonical_bytes(vector).decode()
        written = await page.evaluate(
            "(text) => import('/canonical.js').then((it) => it.canonical(JSON.parse(text)))",
            json.dumps(vector),
        )
        assert written == wanted
    for refused in ("NaN", "undefined", "'\\ud800'", "{a: 1n}", "2**53"):
        problem = await page.evaluate(
            f"import('/canonical.js').then((it) => it.canonical({refused})).catch(() => 'refused')"
        )
        assert problem == "refused"


async def test_whatever_differs_between_two_plans_is_told(place: Place, browser: Browser) -> None:
    before = {
        "id": "one",
        "title": "Write",
        "schedule": None,
        "approvals": [],
        "gates": [{"name": "careful"}],
        "body": "line\n" * 2000 + "echo hello",
        "budget": {"max_attempts": 5, "max_cost_usd": 2, "max_tokens": 1000},
        "verify": [{"name": "a", "run": "true", "expect": {}, "network": False}],
        "workspace": {"path": "/home/me", "network": False, "env": {}},
    }
    page = await (await browser.new_context(bypass_csp=True)).new_page()
    await page.goto(f"{place.address}/health")
    for change in (
        {"body": "line\n" * 2000 + "curl evil.test"},
        {"budget": {"max_attempts": 5, "max_cost_usd": 2, "max_tokens": 9_000_000}},
        {"workspace": {"path": "/home/me", "network": False, "env": {"PATH": "/tmp"}}},
        {"gates": []},
        {"verify": [{"name": "a", "run": "true", "expect": {}, "network": True}]},
    ):
        told = await page.evaluate(
            "([a, b]) => import('/card_diff.js').then((it) => it.diffView(a, b).textContent)",
            [before, {**before, "id": "one-2", **change}],
        )
        assert told.startswith("Changed against the plan before: "), change
    await page.context.close()


async def test_a_call_that_waits_is_decided_in_the_page(place: Place, browser: Browser) -> None:
    await let_it_wait(place)
    person = await Person.at(browser, PHONE)
    await person.pair(place.web.link())
    await person.go("review")
    await person.card_is_awake()
    await expect(person.page.locator(".card-intent")).to_have_text("Call send_mail")
    await expect(person.page.locator(".card .hash")).to_be_visible()
    await person.page.get_by_role("button", name="Let this one call happen").click()
    await person.card_is_awake()
    await person.page.get_by_role("slider").press("End")
    await person.page.locator("#stream[data-current]").wait_for()
    await person.go("review")
    await expect(person.page.get_by_text("Nothing is waiting for you")).to_be_visible()
    assert await verdict_of(place) == ("approved", True)
    assert person.complaints == []


async def test_what_silas_had_no_time_for_is_sent_again_by_itself(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, DESK)
    await person.pair(place.web.link())
    admission = place.house.stream.intake._admission
    most, admission.most_per_scope = admission.most_per_scope, 0
    await person.say("thanks")
    await expect(person.page.locator(".unsent")).to_contain_text("Sending…")
    await expect(person.page.get_by_text("Send it again in a second")).to_be_visible()
    admission.most_per_scope = most
    await expect(person.page.locator(".log")).to_contain_text("You are welcome")
    await expect(person.page.locator(".unsent")).to_have_count(0)


async def test_how_silas_speaks_is_chosen_in_the_settings(place: Place, browser: Browser) -> None:
    person = await Person.at(browser, PHONE)
    await person.pair(place.web.link())
    await person.say("/settings")
    dialog = person.page.get_by_role("dialog", name="Settings")
    row = dialog.locator(".setting").filter(has_text="How it speaks")
    await row.get_by_role("button", name="Change").click()
    await dialog.get_by_role("button", name="chill").click()
    await expect(dialog.get_by_role("status")).to_have_text("From now on: chill.")
    await expect(dialog.get_by_role("button", name="chill")).to_have_attribute(
        "aria-pressed", "true"
    )
    await dialog.get_by_role("button", name="Too harsh").click()
    await expect(dialog.get_by_role("status")).to_contain_text("Heard: too harsh.")
    assert place.front.personality is not None
    now = await place.front.personality.state("owner")
    assert now.active_preset == "chill"
    assert now.baseline_axes.assertiveness == pytest.approx(0.50)


async def test_who_explores_gets_options_and_who_decides_the_way_to_what_waits(
    place: Place, browser: Browser
) -> None:
    person = await Person.at(browser, PHONE)
    page = person.page
    await person.pair(place.web.link())
    await person.say(ASK)
    await page.locator(".plan-line").wait_for()

    def answer(number: int, register: str, mode: str, chips: list[str]) -> None:
        frame = wire.Message(
            sender="silas",
            number=number,
            message_id=f"shown-{number}",
            text=f"This is {register}.",
            timestamp=datetime(2099, 1, 1, 0, number % 60, tzinfo=UTC),
            trace_id=f"t{number}",
            chips=chips,
            interaction_register=register,
            interaction_mode=mode,
        )
        place.web.hub.tell(frame)

    offered = ["Use the red one", "Use the blue one"]
    answer(901, "exploration", "default_and_offer", offered)
    options = page.get_by_role("list", name="Options")
    await expect(options.get_by_role("button")).to_have_text(
        ["Use the red one", "Use the blue one"]
    )
    answer(902, "execution", "act_and_report", ["Go on"])
    await expect(page.get_by_role("group", name="Things to say")).to_contain_text("Go on")
    await expect(options).to_have_count(0)
    answer(903, "review", "confirm_only_when_required", [])
    await page.get_by_role("button", name="Show the one that waits").click()
    await person.card_is_awake()
    # Once nothing waits, nobody is told that something does.
    await page.get_by_role("button", name="Decline, do nothing").click()
    await person.go("stream")
    await expect(page.get_by_role("button", name="Show the one that waits")).to_have_count(0)
    assert person.complaints == []
