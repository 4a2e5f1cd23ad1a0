"""Other people's pages in the same Chromium, and what they get: nothing.

The browser's own protections of private networks are switched off, so that Silas has to defend
itself.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, Page, expect

from silas.web.showing import items_of, shown_card
from silas.web.wire import TO_PAGE
from tests.web.browsing import DESK, Person, chromium
from tests.web.place import Place

pytestmark = pytest.mark.slow
PAYLOAD = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as browser:
        yield browser


@pytest.fixture
async def person(place: Place, browser: Browser) -> Person:
    person = await Person.at(browser, DESK)
    await person.pair(place.web.link())
    return person


@contextlib.asynccontextmanager
async def evil_page(person: Person) -> AsyncIterator[Page]:
    """A page of somebody else's, in the browser of a paired owner."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<!doctype html><title>evil</title><body>evil"
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    page = await person.page.context.new_page()
    try:
        await page.goto(f"http://evil.test:{port}/")
        yield page
    finally:
        server.close()


async def test_another_page_gets_no_socket_and_changes_nothing(
    place: Place, person: Person
) -> None:
    async with evil_page(person) as evil:
        socket = f"""new Promise((resolve) => {{
            const socket = new WebSocket("{place.address.replace("http", "ws")}/ws");
            socket.onopen = () => resolve("open");
            socket.onmessage = () => resolve("message");
            socket.onclose = () => resolve("closed");
        }})"""
        assert await evil.evaluate(socket) == "closed"
        fetched = f"""fetch("{place.address}/api/devices", {{ credentials: "include" }})
            .then((answer) => answer.text()).catch(() => "blocked")"""
        assert await evil.evaluate(fetched) == "blocked"
        sneaky = f"""fetch("{place.address}/secrets/x", {{
            method: "POST", mode: "no-cors", credentials: "include",
            headers: {{ "Content-Type": "text/plain" }}, body: '{{"value":"x"}}',
        }}).then((answer) => answer.type).catch(() => "blocked")"""
        await evil.evaluate(sneaky)
        loaded = f"""new Promise((resolve) => {{
            const script = document.createElement("script");
            script.onload = () => resolve("loaded");
            script.onerror = () => resolve("blocked");
            script.src = "{place.address}/app.js";
            document.body.append(script);
        }})"""
        assert await evil.evaluate(loaded) == "blocked"
        await evil.evaluate(f"""() => {{
            const form = document.createElement("form");
            form.method = "post";
            form.enctype = "text/plain";
            form.action = "{place.address}/api/pair";
            form.innerHTML = '<input name=\\'{{"code":"x","a":"\\' value=\\'"}}\\'>';
            document.body.append(form);
            form.submit();
        }}""")
        await expect(evil.locator("body")).to_contain_text("Another page sent this.")
    assert len(await place.ground.devices.list()) == 1
    assert len(place.web.hub.pages) == 1


async def test_the_page_cannot_be_framed_or_rebound(place: Place, person: Person) -> None:
    async with evil_page(person) as evil:
        await evil.evaluate(f"""() => {{
            const frame = document.createElement("iframe");
            frame.src = "{place.address}/";
            document.body.append(frame);
            return new Promise((resolve) => {{ frame.onload = resolve; }});
        }}""")
        texts = [await frame.locator("body").inner_text() for frame in evil.frames[1:]]
        assert not any("Silas" in text for text in texts)
        opened = f"""() => {{
            window.other = window.open("{place.address}/");
            return new Promise((resolve) => setTimeout(() => {{
                try {{ resolve(window.other.closed || typeof window.other.document); }}
                catch {{ resolve("blocked"); }}
            }}, 300));
        }}"""
        assert await evil.evaluate(opened) in {True, "blocked"}
    rebound = await person.page.context.new_page()
    port = place.address.rpartition(":")[2]
    answer = await rebound.goto(f"http://rebind.test:{port}/")
    assert answer is not None
    assert answer.status == 421


async def test_text_is_never_markup(place: Place, person: Person) -> None:
    page = person.page
    await person.say(PAYLOAD)
    await expect(page.locator(".bubble")).to_have_text(PAYLOAD)
    links = "[a](javascript:window.hit=1) ![b](https://evil.test/c.png) [d](data:text/html,x)"
    text = f"{PAYLOAD} {links} <b>bold</b> [fine](https://example.org/x) \u202e\u200b"
    frames = [
        {"type": "message", "sender": "silas", "number": 900, "message_id": "evil_1", "text": text,
         "timestamp": "2099-01-01T00:00:00.000000Z", "trace_id": "t", "surface": "stream",
         "final": True, "chips": [PAYLOAD], "card_id": None},
    ]  # fmt: skip
    await _tell(place, frames)
    shown = page.locator("[data-message=evil_1]")
    await expect(shown).to_contain_text("<script>window.hit=1</script>")
    await expect(shown.locator(".hidden-character")).to_have_count(2)
    assert await shown.locator("img, script, b, iframe, svg[onload]").count() == 0
    addresses = await shown.locator("a").evaluate_all("(all) => all.map((each) => each.href)")
    assert addresses == ["https://example.org/x"]
    await person.say(f"create a file evil.txt with {PAYLOAD}")
    await person.card_is_awake()
    await page.get_by_text("Everything that is signed").click()
    await expect(page.locator(".plan-text")).to_contain_text(PAYLOAD)
    assert await page.locator(".card img, .card script").count() == 0
    assert await page.evaluate("window.hit") is None


async def _tell(place: Place, frames: list[dict[str, object]]) -> None:
    for frame in frames:
        place.web.hub.tell(TO_PAGE.validate_python(frame))


async def test_a_card_that_lies_cannot_be_approved(place: Place, person: Person) -> None:
    await person.say("create a file a.txt with hello")
    await person.card_is_awake()
    [card] = await place.house.cards.open_cards()
    shown = shown_card(card, await items_of(card, place.front.items))
    [item] = shown.items
    lie = item.model_copy(update={"plan": item.plan.replace("hello", "other")})
    place.web.hub.tell(shown.model_copy(update={"request_id": "card_lie", "items": [lie]}))
    await person.page.get_by_role("button", name="Decline, do nothing").click()
    await expect(person.page.locator(".card-broken")).to_contain_text(
        "does not show what would be signed"
    )
    assert await person.page.locator(".card-broken button").count() == 0


async def test_used_and_wrong_codes_and_what_the_page_may_load(
    place: Place, browser: Browser, person: Person
) -> None:
    link = place.web.link()
    other = await Person.at(browser)
    await other.pair(link)
    third = await Person.at(browser)
    await third.page.goto(link)
    await third.page.get_by_role("button", name="Pair this browser").click()
    await expect(third.page.get_by_role("alert")).to_contain_text("wrong, used or too old")
    assert "pair=" not in third.page.url
    outside = await person.page.evaluate("""() => new Promise((resolve) => {
        const image = new Image();
        image.onload = image.onerror = (event) => resolve(event.type);
        image.src = "http://evil.test:9/x.png";
    })""")
    assert outside == "error"
    assert any("Content Security Policy" in text for text in person.complaints)
    trusted = await person.page.evaluate(
        "(() => { try { document.body.innerHTML = 'x'; return 'set'; } catch { return 'no'; } })()"
    )
    assert trusted == "no"
    scope = await person.page.evaluate(
        "navigator.serviceWorker.ready.then((worker) => worker.scope)"
    )
    assert scope == f"{place.address}/"
